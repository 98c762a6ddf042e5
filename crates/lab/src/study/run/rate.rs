//! Throughputs.

use serde::{Deserialize, Serialize};

use super::rounded;
use crate::study::statistics;

/// Commands that a variant carried out in a second, at one place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rate {
    pub variant: String,
    pub x: f64,
    /// The median of all slices.
    pub per_s: f64,
    pub min_per_s: f64,
    pub max_per_s: f64,
    pub slices_per_s: Vec<f64>,
}

impl Rate {
    /// `None`: nothing was measured.
    pub fn of(variant: &str, x: f64, slices: &[f64]) -> Option<Rate> {
        let quantile = |part| statistics::quantile(slices, part).map(rounded);
        Some(Rate {
            variant: variant.to_owned(),
            x,
            per_s: rounded(statistics::median(slices)?),
            min_per_s: quantile(0.0)?,
            max_per_s: quantile(1.0)?,
            slices_per_s: slices.iter().copied().map(rounded).collect(),
        })
    }
}
