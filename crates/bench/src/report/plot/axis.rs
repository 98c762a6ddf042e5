//! An axis of a plot.

use std::ops::Range;

pub struct Axis {
    pub label: &'static str,
    /// In powers of ten. Values that are not above 0 are left out.
    pub log: bool,
}

impl Axis {
    pub fn linear(label: &'static str) -> Axis {
        Axis { label, log: false }
    }

    pub fn log(label: &'static str) -> Axis {
        Axis { label, log: true }
    }

    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// From 0 or below, or, in powers of ten, from a little below the smallest.
    pub(super) fn range(&self, values: impl Iterator<Item = f64>) -> Range<f64> {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values {
            (least, most) = (least.min(value), most.max(value));
        }
        match (least.is_finite(), self.log) {
            (false, true) => 0.1..1.0,
            (false, false) => 0.0..1.0,
            (true, true) => least * 0.8..(most * 1.25).max(least * 2.0),
            (true, false) if most > 0.0 => least.min(0.0)..most * 1.05,
            (true, false) => least.min(0.0)..1.0,
        }
    }
}
