//! Two variants, compared round by round.

use serde::{Deserialize, Serialize};

use super::Rate;
use crate::study::rounds::Samples;
use crate::study::statistics::{self, Ratio};

/// The figure that a pair compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    #[default]
    Time,
    Rate,
}

/// Two variants at one place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pair {
    pub a: String,
    pub b: String,
    pub x: f64,
    #[serde(default)]
    pub figure: Figure,
    /// False: the two did not live at once, and their rounds are minutes apart.
    pub beside: bool,
    #[serde(flatten)]
    pub of: Ratio,
}

impl Pair {
    pub fn of(a: (&str, &Samples), b: (&str, &Samples), x: f64, beside: bool) -> Option<Pair> {
        let rounds = a.1.rounds.iter().zip(&b.1.rounds);
        let rounds: Vec<(f64, f64)> = rounds.map(|(a, b)| (*a, *b)).collect();
        Some(Pair {
            a: a.0.to_owned(),
            b: b.0.to_owned(),
            x,
            figure: Figure::Time,
            beside,
            of: statistics::ratio(&rounds)?,
        })
    }

    /// Two throughputs, slice by slice.
    pub fn of_rates(a: &Rate, b: &Rate, beside: bool) -> Option<Pair> {
        let slices = a.slices_per_s.iter().zip(&b.slices_per_s);
        let slices: Vec<(f64, f64)> = slices.map(|(a, b)| (*a, *b)).collect();
        Some(Pair {
            a: a.variant.clone(),
            b: b.variant.clone(),
            x: a.x,
            figure: Figure::Rate,
            beside,
            of: statistics::ratio(&slices)?,
        })
    }
}
