//! Checks: numbers that must lie here, or must not, for a claim to hold. They are set before they are measured.

mod mex;
mod ramp;
mod zcp;

use serde::Serialize;

/// One claim, as a number with an interval that was expected before it was measured. A missed one is a finding, and no number to be moved.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Check {
    pub row: &'static str,
    /// The number that is looked at.
    pub name: &'static str,
    pub claim: &'static str,
    pub published: &'static str,
    /// Our expectation: from here …
    pub low: f64,
    /// … to here.
    pub high: f64,
    pub must: Must,
}

/// The fate of the paper's claim here, by the same number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "claim", rename_all = "kebab-case")]
pub enum Must {
    /// It holds if the number is at least this.
    HoldAbove { least: f64 },
    /// It holds if the number is at most this.
    HoldBelow { most: f64 },
    /// There was none.
    New,
}

/// How a claim came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Holds,
    Fails,
    /// The interval lies on both sides.
    Undecided,
    NotJudged,
}

/// How our expectation came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    Met,
    Missed,
    /// The interval is partly in the expected one.
    Open,
}

impl Check {
    pub fn expected(&self) -> String {
        format!("{} to {}", self.low, self.high)
    }

    /// The judgement of a number, of which the truth lies between two.
    pub fn judge(&self, low: f64, high: f64) -> (Verdict, Expectation) {
        let within = (
            low >= self.low && high <= self.high,
            high < self.low || low > self.high,
        );
        let expectation = match within {
            (true, _) => Expectation::Met,
            (_, true) => Expectation::Missed,
            _ => Expectation::Open,
        };
        let verdict = match self.must {
            Must::New => Verdict::NotJudged,
            Must::HoldAbove { least } if low >= least => Verdict::Holds,
            Must::HoldAbove { least } if high < least => Verdict::Fails,
            Must::HoldBelow { most } if high <= most => Verdict::Holds,
            Must::HoldBelow { most } if low > most => Verdict::Fails,
            _ => Verdict::Undecided,
        };
        (verdict, expectation)
    }
}

impl Must {
    pub fn sentence(self) -> String {
        match self {
            Must::HoldAbove { least } => format!("holds from {least} on"),
            Must::HoldBelow { most } => format!("holds up to {most}"),
            Must::New => "there was none".to_owned(),
        }
    }
}

/// A check by its name.
pub fn check(name: &str) -> Option<&'static Check> {
    all().find(|check| check.name == name)
}

const fn of(
    (row, name): (&'static str, &'static str),
    claim: &'static str,
    published: &'static str,
    (low, high): (f64, f64),
    must: Must,
) -> Check {
    Check {
        row,
        name,
        claim,
        published,
        low,
        high,
        must,
    }
}

/// The checks of all papers, one after the other.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [zcp::CHECKS, ramp::CHECKS, mex::CHECKS]
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_can_come_out_in_every_way() {
        let check = check("disk/ram at 1 KB").expect("there");
        for (low, high, verdict, expectation) in [
            (2.0, 3.0, Verdict::Fails, Expectation::Met),
            (1.0, 1.4, Verdict::Holds, Expectation::Missed),
            (1.2, 2.0, Verdict::Undecided, Expectation::Open),
            (6.0, 9.0, Verdict::Fails, Expectation::Missed),
        ] {
            assert_eq!(
                check.judge(low, high),
                (verdict, expectation),
                "{low} to {high}"
            );
        }
    }
}
