//! Times of proposals.

use serde::{Deserialize, Serialize};

use super::rounded;
use crate::study::rounds::Samples;
use crate::study::statistics;

/// More samples of a cell are not kept one by one.
const SAMPLES_MAX: usize = 10_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    pub variant: String,
    pub x: f64,
    pub count: usize,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// At most 10,000, the first.
    pub samples_ms: Vec<f64>,
    /// `None` in runs of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
}

/// So many bins, all as wide, from the shortest time to the longest.
const BINS: usize = 20;

/// All samples of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    pub from_ms: f64,
    pub to_ms: f64,
    pub counts: Vec<u64>,
}

impl Histogram {
    /// `None`: nothing was measured.
    fn of(samples: &[f64]) -> Option<Histogram> {
        let from = statistics::quantile(samples, 0.0)?;
        let to = statistics::quantile(samples, 1.0)?;
        let width = (to - from) / BINS as f64;
        let mut counts = vec![0; BINS];
        for sample in samples {
            let bin = match width > 0.0 {
                true => (((sample - from) / width) as usize).min(BINS - 1),
                false => 0,
            };
            counts[bin] += 1;
        }
        Some(Histogram {
            from_ms: rounded(from),
            to_ms: rounded(to),
            counts,
        })
    }

    /// A line of twenty signs, each as high as its bin is full.
    pub fn drawn(&self) -> String {
        const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let sign = |count: &u64| match *count {
            0 => ' ',
            count => HEIGHTS[((count * 8).div_ceil(most) as usize - 1).min(7)],
        };
        self.counts.iter().map(sign).collect()
    }
}

impl Cell {
    /// `None`: nothing was measured.
    pub fn of(variant: &str, x: f64, samples: &Samples) -> Option<Cell> {
        let all = &samples.all;
        let quantile = |part| statistics::quantile(all, part).map(rounded);
        Some(Cell {
            variant: variant.to_owned(),
            x,
            count: all.len(),
            mean_ms: rounded(all.iter().sum::<f64>() / all.len() as f64),
            p50_ms: quantile(0.5)?,
            p90_ms: quantile(0.9)?,
            p99_ms: quantile(0.99)?,
            max_ms: quantile(1.0)?,
            histogram: Histogram::of(all),
            samples_ms: all.iter().take(SAMPLES_MAX).copied().map(rounded).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_every_sample_in_one_of_twenty_bins() {
        let samples: Vec<f64> = (0..=100).map(f64::from).collect();
        let histogram = Histogram::of(&samples).expect("samples");
        assert_eq!((histogram.from_ms, histogram.to_ms), (0.0, 100.0));
        assert_eq!(histogram.counts.len(), 20);
        assert_eq!(histogram.counts.iter().sum::<u64>(), 101);
        assert_eq!((histogram.counts[0], histogram.counts[19]), (5, 6));
        assert_eq!(histogram.drawn().chars().count(), 20);
        let all_alike = Histogram::of(&[2.0; 7]).expect("samples");
        assert_eq!(all_alike.counts[0], 7);
        assert!(all_alike.drawn().starts_with('█'));
        assert!(Histogram::of(&[]).is_none());
    }
}
