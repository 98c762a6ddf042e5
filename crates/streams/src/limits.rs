//! How much a space may hold, and how much may be asked of it at a time.
//!
//! They are a row of the space, so every node has the same ones, and a backup has them. How many streams and bytes there are is counted by
//! the requests that make and remove them; how much is asked for at a time is for the doors to count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::execute::{STREAMS_MAX, STREAMS_USUAL};

/// Bytes of a stream are counted in blocks of this size, a begun one as a whole: so an append writes the count only when it begins one.
pub const BLOCK_BYTES: u64 = 4_096;
/// Principals that have limits of their own.
pub const NAMED_MAX: usize = 1_000;
/// A principal's name.
pub const NAME_BYTES_MAX: usize = 128;

/// A change of one limit. `None`: it stays. `Some(None)`: there is none any more.
pub type Change = Option<Option<u64>>;

/// What may be asked for at one door, each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    pub requests_per_s: Option<u64>,
    /// Of bodies, both ways.
    pub bytes_per_s: Option<u64>,
}

/// The limits of a space. `None`: there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// All principals together.
    pub all: Rates,
    /// Each of them that has none of its own.
    pub each: Rates,
    pub named: BTreeMap<String, Rates>,
    /// Streams that there may be, soft-deleted ones too.
    pub streams: Option<u64>,
    /// Bytes that may be kept, by [`BLOCK_BYTES`].
    pub bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatesChange {
    pub requests_per_s: Change,
    pub bytes_per_s: Change,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsChange {
    pub all: RatesChange,
    pub each: RatesChange,
    /// `None`: this principal is one of all others again.
    pub named: BTreeMap<String, Option<RatesChange>>,
    pub streams: Change,
    pub bytes: Change,
}

/// A space's limits, and how much of them is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub limits: Limits,
    pub streams: u64,
    /// By [`BLOCK_BYTES`].
    pub bytes: u64,
}

fn change(limit: &mut Option<u64>, change: Change) {
    if let Some(changed) = change {
        *limit = changed;
    }
}

impl Rates {
    fn change(&mut self, by: RatesChange) {
        change(&mut self.requests_per_s, by.requests_per_s);
        change(&mut self.bytes_per_s, by.bytes_per_s);
    }
}

impl Limits {
    /// Those of this principal.
    pub fn of(&self, principal: &str) -> Rates {
        self.named.get(principal).copied().unwrap_or(self.each)
    }

    /// Streams that there may be.
    pub fn streams_max(&self) -> u64 {
        self.streams.unwrap_or(STREAMS_USUAL)
    }

    /// Errors: a sentence. Nothing is changed then.
    pub fn change(&mut self, by: &LimitsChange) -> Result<(), String> {
        by.check()?;
        let mut changed = self.clone();
        changed.all.change(by.all);
        changed.each.change(by.each);
        for (name, rates) in &by.named {
            match rates {
                // A limit that is not said is none for this principal, whatever the others have.
                Some(rates) => changed
                    .named
                    .entry(name.clone())
                    .or_default()
                    .change(*rates),
                None => drop(changed.named.remove(name)),
            }
        }
        change(&mut changed.streams, by.streams);
        change(&mut changed.bytes, by.bytes);
        if changed.named.len() > NAMED_MAX {
            return Err(format!(
                "at most {NAMED_MAX} principals have limits of their own: take some away, or change those of each"
            ));
        }
        *self = changed;
        Ok(())
    }
}

impl LimitsChange {
    fn check(&self) -> Result<(), String> {
        let named = self.named.values().flatten();
        let rates = [&self.all, &self.each].into_iter().chain(named);
        let rates = rates.flat_map(|rates| [rates.requests_per_s, rates.bytes_per_s]);
        let mut all = rates.chain([self.streams, self.bytes]);
        if all.any(|limit| limit == Some(Some(0))) {
            return Err(
                "a limit of 0 would refuse everything: say 1 or more, or take it away with null"
                    .to_owned(),
            );
        }
        if self
            .streams
            .flatten()
            .is_some_and(|streams| streams > STREAMS_MAX)
        {
            return Err(format!(
                "a space has at most {STREAMS_MAX} streams: say so many, or fewer"
            ));
        }
        let is_wrong = |name: &String| name.is_empty() || name.len() > NAME_BYTES_MAX;
        match self.named.keys().any(is_wrong) {
            true => Err(format!(
                "a principal's name has 1 to {NAME_BYTES_MAX} bytes: it is that of a token"
            )),
            false => Ok(()),
        }
    }
}

/// The blocks that so many bytes of one stream take.
pub fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_change_says_is_changed_and_all_else_stays() {
        let mut limits = Limits::default();
        let rate = |requests| RatesChange {
            requests_per_s: requests,
            bytes_per_s: None,
        };
        let first = LimitsChange {
            each: rate(Some(Some(10))),
            named: BTreeMap::from([("ci".to_owned(), Some(rate(Some(Some(50)))))]),
            bytes: Some(Some(1 << 20)),
            ..LimitsChange::default()
        };
        assert_eq!(limits.change(&first), Ok(()));
        assert_eq!(limits.of("ci").requests_per_s, Some(50));
        assert_eq!(limits.of("other").requests_per_s, Some(10));
        assert_eq!(
            (limits.bytes, limits.streams_max()),
            (Some(1 << 20), STREAMS_USUAL)
        );
        let second = LimitsChange {
            named: BTreeMap::from([("ci".to_owned(), None)]),
            streams: Some(Some(7)),
            bytes: Some(None),
            ..LimitsChange::default()
        };
        assert_eq!(limits.change(&second), Ok(()));
        assert_eq!(limits.of("ci").requests_per_s, Some(10));
        assert_eq!((limits.bytes, limits.streams_max()), (None, 7));
    }

    #[test]
    fn what_would_make_no_sense_changes_nothing() {
        let before = Limits::default();
        let named = |count: usize, length: usize| LimitsChange {
            named: (0..count)
                .map(|number| (format!("{number:length$}"), Some(RatesChange::default())))
                .collect(),
            ..LimitsChange::default()
        };
        let streams = |streams| LimitsChange {
            streams: Some(Some(streams)),
            ..LimitsChange::default()
        };
        let wrong = [
            named(NAMED_MAX + 1, 1),
            named(1, NAME_BYTES_MAX + 1),
            streams(0),
            streams(STREAMS_MAX + 1),
        ];
        for change in wrong {
            let mut limits = before.clone();
            assert!(limits.change(&change).is_err());
            assert_eq!(limits, before);
        }
        let mut limits = before.clone();
        assert_eq!(limits.change(&named(NAMED_MAX, 1)), Ok(()));
    }

    #[test]
    fn a_begun_block_counts_as_a_whole() {
        assert_eq!([0, 1, 4_096, 4_097].map(blocks), [0, 1, 1, 2]);
    }
}
