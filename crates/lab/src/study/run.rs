//! A run's findings, as one object of JSON: `logberg.lab/1`. A page is made of it, at once or later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::catalogue::{self, Expectation, Verdict};
use super::rounds::Samples;
use super::statistics::{self, Ratio};

pub const FORMAT: &str = "logberg.lab/1";

/// More samples of a cell are not kept one by one.
const SAMPLES_MAX: usize = 10_000;

/// Times are in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub format: String,
    pub run: Circumstances,
    pub program: Program,
    /// As benches show it, and the sentence about it.
    pub machine: Value,
    pub variants: Vec<Variant>,
    pub cells: Vec<Cell>,
    pub pairs: Vec<Pair>,
    pub published: Vec<Published>,
    pub checks: Vec<Checked>,
    /// Figures of other kinds, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Throughputs, where they are measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<Rate>,
    /// Counts of decrees, deaths and mistakes, where there are any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Circumstances {
    /// `ramp size`
    pub experiment: String,
    /// As it was typed.
    pub command: String,
    pub seed: u64,
    pub rounds: u32,
    pub began: String,
    pub machine: String,
    pub seconds: f64,
    /// False: somebody asked it to end before it had all rounds.
    pub complete: bool,
    /// The variable on the x axis, with its unit.
    pub x: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Program {
    pub version: String,
    pub profile: String,
    /// The commit that it was built of. `None` in runs of older programs, and of a build for development.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Variant {
    pub id: String,
    pub ink: String,
    pub transport: String,
    pub lag: String,
}

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

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Published {
    pub item: String,
    pub series: String,
    pub x: f64,
    pub value: f64,
    /// `ms`, `per_s`
    pub unit: String,
    pub how: String,
}

/// A check of the catalogue, and how it came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checked {
    pub row: String,
    pub name: String,
    pub claim: String,
    pub published: String,
    pub expected: String,
    pub ours: f64,
    pub low: f64,
    pub high: f64,
    pub paper: String,
    pub expectation: String,
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
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

impl Program {
    /// This program.
    pub fn this() -> Program {
        let profile = match cfg!(debug_assertions) {
            true => "debug",
            false => "release",
        };
        Program {
            version: serve::version().to_owned(),
            profile: profile.to_owned(),
            commit: option_env!("LOGBERG_COMMIT").map(str::to_owned),
        }
    }
}

impl Published {
    /// `None`: another unit than times and rates have.
    pub fn of(number: &super::published::Number) -> Option<Published> {
        let (value, unit) = match number.unit {
            "s" => (number.value * 1e3, "ms"),
            "ms/op" => (number.value, "ms"),
            "requests/s" => (number.value, "per_s"),
            _ => return None,
        };
        Some(Published {
            item: number.item.to_owned(),
            series: number.series.to_owned(),
            x: number.x,
            value,
            unit: unit.to_owned(),
            how: number.how.to_owned(),
        })
    }
}

fn word(of: impl Serialize) -> String {
    let word = serde_json::to_value(of).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

impl Checked {
    /// `None`: the catalogue has no such check.
    pub fn of(name: &str, (ours, low, high): (f64, f64, f64)) -> Option<Checked> {
        let check = catalogue::check(name)?;
        let (verdict, expectation): (Verdict, Expectation) = check.judge(low, high);
        Some(Checked {
            row: check.row.to_owned(),
            name: name.to_owned(),
            claim: check.claim.to_owned(),
            published: check.published.to_owned(),
            expected: check.expected(),
            ours: rounded(ours),
            low: rounded(low),
            high: rounded(high),
            paper: word(verdict),
            expectation: word(expectation),
        })
    }

    pub fn of_pair(name: &str, pair: &Pair) -> Option<Checked> {
        Checked::of(name, (pair.of.ratio, pair.of.low, pair.of.high))
    }
}

impl Run {
    /// The pair of times at a place.
    pub fn pair(&self, a: &str, b: &str, x: f64) -> Option<&Pair> {
        self.pair_of(Figure::Time, (a, b), x)
    }

    pub fn pair_of(&self, figure: Figure, (a, b): (&str, &str), x: f64) -> Option<&Pair> {
        let mut pairs = self.pairs.iter();
        pairs.find(|pair| pair.figure == figure && pair.a == a && pair.b == b && pair.x == x)
    }

    /// Where the same variant twice was told apart: nothing is proved there. Of twenty places that are sound it happens at one.
    pub fn proves_nothing_at(&self) -> Vec<f64> {
        let twice = self
            .pairs
            .iter()
            .filter(|pair| pair.a == format!("{}-again", pair.b));
        let apart = twice.filter(|pair| pair.of.low > 1.0 || pair.of.high < 1.0);
        apart.map(|pair| pair.x).collect()
    }

    /// Whether an expectation was missed, or the run proves nothing.
    pub fn disappoints(&self) -> bool {
        let missed = |check: &Checked| check.expectation == word(Expectation::Missed);
        !self.proves_nothing_at().is_empty() || self.checks.iter().any(missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rounds: &[f64]) -> Samples {
        Samples {
            all: rounds.to_vec(),
            rounds: rounds.to_vec(),
        }
    }

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

    #[test]
    fn a_pair_becomes_a_verdict() {
        let disk = samples(&[3.0; 10]);
        let ram = samples(&[1.0; 10]);
        let pair = Pair::of(("disk", &disk), ("ram", &ram), 1000.0, true).expect("rounds");
        let checked = Checked::of_pair("disk/ram at 1 KB", &pair).expect("in the catalogue");
        assert_eq!((&*checked.paper, &*checked.expectation), ("fails", "met"));
        assert!(Checked::of_pair("no such check", &pair).is_none());
        assert!(Pair::of(("a", &samples(&[])), ("b", &ram), 1.0, true).is_none());
        let cell = Cell::of("disk", 1000.0, &disk).expect("samples");
        assert_eq!((cell.count, cell.p50_ms, cell.max_ms), (10, 3.0, 3.0));
        assert!(Cell::of("disk", 1.0, &samples(&[])).is_none());
    }
}
