//! Durations, counted in fixed steps.

use std::time::Duration;

use serde::Serialize;

/// Upper bounds; durations above the last are counted apart.
pub const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// The count of durations up to the bound of the same index, and above the one before. The last is
    /// without bound.
    pub counts: [u64; BOUNDS_US.len() + 1],
    pub sum_us: u64,
}

impl Histogram {
    pub fn record(&mut self, took: Duration) {
        let took_us = took.as_micros() as u64;
        let at = BOUNDS_US.partition_point(|bound_us| *bound_us < took_us);
        self.counts[at] += 1;
        self.sum_us = self.sum_us.saturating_add(took_us);
    }

    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_step() {
        let mut histogram = Histogram::default();
        for took_us in [0, 100, 101, 10_000_000, 10_000_001] {
            histogram.record(Duration::from_micros(took_us));
        }
        assert_eq!(histogram.counts[..2], [2, 1]);
        assert_eq!(histogram.counts[15..], [1, 1]);
        let mut twice = histogram;
        twice.add(&histogram);
        assert_eq!(twice.counts.iter().sum::<u64>(), 10);
        assert_eq!(twice.sum_us, 2 * histogram.sum_us);
    }
}
