//! Checks of the catalogue, and how they came out.

use serde::{Deserialize, Serialize};

use super::{Pair, rounded};
use crate::study::catalogue::{self, Expectation, Verdict};

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
    /// The reason for the verdict, where it does not follow from the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
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
            why: None,
        })
    }

    /// The same, and why.
    pub fn because(self, why: String) -> Checked {
        Checked {
            why: Some(why),
            ..self
        }
    }

    /// The number stands, and says nothing of the claim.
    pub fn not_judged(self, why: String) -> Checked {
        Checked {
            paper: word(Verdict::NotJudged),
            expectation: word(Expectation::Open),
            why: Some(why),
            ..self
        }
    }

    pub fn is_missed(&self) -> bool {
        self.expectation == word(Expectation::Missed)
    }

    pub fn of_pair(name: &str, pair: &Pair) -> Option<Checked> {
        Checked::of(name, (pair.of.ratio, pair.of.low, pair.of.high))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cell;
    use super::*;
    use crate::study::rounds::Samples;

    fn samples(rounds: &[f64]) -> Samples {
        Samples {
            all: rounds.to_vec(),
            rounds: rounds.to_vec(),
        }
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
