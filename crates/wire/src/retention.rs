//! The retention of a log: the bytes of it that are kept.
//!
//! ```text
//! 10GiB        the last 10 GiB of its bytes
//! 7d           what was written in the last seven days
//! 10GiB,7d     the last 10 GiB, and of those what was written in the last seven days
//! forever      everything
//! ```
//!
//! Units:  bytes with KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (of 1000); time with s,
//!         min, h, d, w. A number without a unit is refused: it might mean either.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A log's retention: everything, unless a bound is set. Bytes that exceed either bound may be trimmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Retention {
    /// The bound of chosen bytes, on every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// The bound of age, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_s: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadRetention {
    #[error("{0:?} is neither a size nor an age: write 10GiB, 7d, both as 10GiB,7d, or forever")]
    Bound(String),
    #[error("{0:?} is a second bound of the same kind: write at most one size and one age")]
    Twice(String),
    #[error(
        "{0:?} would keep nothing: say more; to forget what is there now, trim the log, or delete the stream"
    )]
    Nothing(String),
}

const FOREVER: &str = "forever";

const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

const AGES: [(&str, u64); 5] = [
    ("w", 7 * 86_400),
    ("d", 86_400),
    ("h", 3_600),
    ("min", 60),
    ("s", 1),
];

impl Retention {
    /// Whether nothing is ever trimmed.
    pub fn is_forever(&self) -> bool {
        *self == Retention::default()
    }
}

impl FromStr for Retention {
    type Err = BadRetention;

    fn from_str(text: &str) -> Result<Retention, BadRetention> {
        let mut retention = Retention::default();
        if text == FOREVER {
            return Ok(retention);
        }
        for bound in text.split(',') {
            let (place, amount) = match (amount(bound, &SIZES), amount(bound, &AGES)) {
                (Some(bytes), _) => (&mut retention.max_bytes, bytes),
                (None, Some(seconds)) => (&mut retention.max_age_s, seconds),
                (None, None) => return Err(BadRetention::Bound(bound.to_owned())),
            };
            if amount == 0 {
                return Err(BadRetention::Nothing(bound.to_owned()));
            }
            if place.replace(amount).is_some() {
                return Err(BadRetention::Twice(bound.to_owned()));
            }
        }
        Ok(retention)
    }
}

/// `7d` in the smallest unit.
fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// As it is parsed, in the largest unit that says it exactly.
impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (bound, units) in [(self.max_bytes, &SIZES[..]), (self.max_age_s, &AGES[..])] {
            let Some(amount) = bound else { continue };
            // The last unit is 1, so there is always one.
            // Weeks are read and not written: whoever says 7d finds 7d.
            let fits =
                |(unit, factor): &&(&str, u64)| *unit != "w" && amount.is_multiple_of(*factor);
            if let Some((unit, factor)) = units.iter().find(fits) {
                write!(f, "{separator}{}{unit}", amount / factor)?;
                separator = ",";
            }
        }
        match self.is_forever() {
            true => f.write_str(FOREVER),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn retention(max_bytes: Option<u64>, max_age_s: Option<u64>) -> Retention {
        Retention {
            max_bytes,
            max_age_s,
        }
    }

    #[test]
    fn sizes_and_ages_are_read_as_people_write_them() {
        let reads = |text: &str, expected| assert_eq!(text.parse(), Ok(expected), "{text}");
        reads("10GiB", retention(Some(10 << 30), None));
        reads("7d", retention(None, Some(7 * 86_400)));
        reads("10GiB,7d", retention(Some(10 << 30), Some(7 * 86_400)));
        reads("90min,500MB", retention(Some(500_000_000), Some(5_400)));
        reads("forever", Retention::default());
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        let refused = |text: &str| text.parse::<Retention>().unwrap_err();
        for text in [
            "",
            "7",
            "d",
            "7 d",
            "-1d",
            "1.5GiB",
            "7m",
            "10GiB,",
            "99999999TiB",
        ] {
            assert!(matches!(refused(text), BadRetention::Bound(_)), "{text}");
        }
        assert_eq!(refused("1d,7d"), BadRetention::Twice("7d".into()));
        assert_eq!(refused("0B"), BadRetention::Nothing("0B".into()));
    }

    #[test]
    fn an_entry_without_bounds_is_for_ever() {
        assert_eq!(
            serde_json::from_str::<Retention>("{}").unwrap(),
            Retention::default()
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(
            bytes in proptest::option::of(1u64..),
            seconds in proptest::option::of(1u64..),
        ) {
            let shown = retention(bytes, seconds).to_string();
            prop_assert_eq!(shown.parse(), Ok(retention(bytes, seconds)), "{}", shown);
        }
    }
}
