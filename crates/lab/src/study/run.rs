//! A run's findings, as one object of JSON: `logberg.lab/1`. A page is made of it, at once or later.
//!
//! | module | what it holds |
//! |---|---|
//! | `cell` | times of proposals, at one place of the axis, and their histogram |
//! | `rate` | throughputs |
//! | `pair` | two variants, compared round by round |
//! | `group` | figures of other kinds |
//! | `checked` | checks of the catalogue, and how they came out |

mod cell;
mod checked;
mod group;
mod pair;
mod rate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use cell::{Cell, Histogram};
pub use checked::Checked;
pub use group::{Group, Measure};
pub use pair::{Figure, Pair};
pub use rate::Rate;

pub const FORMAT: &str = "logberg.lab/1";

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
pub struct Published {
    pub item: String,
    pub series: String,
    pub x: f64,
    pub value: f64,
    /// `ms`, `per_s`
    pub unit: String,
    pub how: String,
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
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
        let missed = |check: &Checked| check.is_missed();
        !self.proves_nothing_at().is_empty() || self.checks.iter().any(missed)
    }
}
