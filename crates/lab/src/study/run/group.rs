//! Figures that are neither times of proposals nor throughputs.

use serde::{Deserialize, Serialize};

/// Figures that belong together, and are neither times of proposals nor throughputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    pub title: String,
    /// The variable on the x axis, with its unit.
    pub x: String,
    pub unit: String,
    pub measures: Vec<Measure>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measure {
    pub variant: String,
    pub x: f64,
    /// `p90`
    pub name: String,
    pub value: f64,
    /// The interval of the value; both its ends are the value where it was counted, or measured once.
    pub low: f64,
    pub high: f64,
}
