//! Refusals, as they are told and counted: a line for each asker and second, and the number of those between.
//!
//! Whoever guards something, a node or a door, has one. It says nothing itself: it says when to.

use std::collections::BTreeMap;
use std::time::Duration;

use ops::Time;

use crate::figures::Figure;

/// So many askers are told of one by one.
const ASKERS_MAX: usize = 256;
const EACH: Duration = Duration::from_secs(1);

/// The refusals of the last second or so.
#[derive(Debug, Default)]
pub struct Refusals {
    told: BTreeMap<String, Told>,
}

#[derive(Debug)]
struct Told {
    at: Time,
    /// Refusals since.
    more: u64,
}

impl Refusals {
    /// Notes a refusal. Returns the number of those that were not told before it, if it is to be told.
    pub fn note(&mut self, now: Time, who: &str) -> Option<u64> {
        if self.told.len() >= ASKERS_MAX && !self.told.contains_key(who) {
            self.told
                .retain(|_, told| now < told.at + EACH || told.more > 0);
        }
        // ‡ Names that nobody has are chosen by whoever asks: they are one.
        let known = self.told.contains_key(who) || self.told.len() < ASKERS_MAX;
        let key = if known { who } else { "" };
        let Some(told) = self.told.get_mut(key) else {
            self.told.insert(key.to_owned(), Told { at: now, more: 0 });
            return Some(0);
        };
        if now < told.at + EACH {
            told.more += 1;
            return None;
        }
        told.at = now;
        Some(std::mem::take(&mut told.more))
    }

    /// Those that were counted and not told, of askers that have not been told of for a second: each with its count. To be called now and
    /// then: the last of many would never be told else.
    pub fn late(&mut self, now: Time) -> Vec<(String, u64)> {
        if self.told.values().all(|told| now < told.at + EACH) {
            return Vec::new();
        }
        let mut late = Vec::new();
        self.told.retain(|who, told| {
            if now < told.at + EACH {
                return true;
            }
            if told.more > 0 {
                late.push((who.clone(), told.more));
            }
            false
        });
        late
    }
}

/// The number of a door's refusals since the start, for its node's /metrics.
#[derive(Debug, Default)]
pub struct Refused {
    /// For want of a token that is good.
    pub unauthenticated: Figure,
    /// No grant allows what was asked.
    pub forbidden: Figure,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn one_is_told_each_second_and_the_others_are_counted() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.note(at(0), "a"), Some(0));
        assert_eq!(refusals.note(at(1), "a"), None);
        assert_eq!(refusals.note(at(2), "b"), Some(0));
        assert_eq!(refusals.note(at(999), "a"), None);
        assert_eq!(refusals.note(at(1_000), "a"), Some(2));
        assert_eq!(refusals.note(at(1_001), "a"), None);
        assert_eq!(refusals.late(at(1_500)), []);
        assert_eq!(refusals.late(at(2_000)), [("a".to_owned(), 1)]);
        assert!(refusals.told.is_empty(), "nothing is kept of who is quiet");
    }

    /// ‡ Whoever makes up names fills no memory.
    #[test]
    fn so_many_names_are_one() {
        let mut refusals = Refusals::default();
        for number in 0..ASKERS_MAX as u64 {
            assert_eq!(refusals.note(at(0), &number.to_string()), Some(0));
        }
        assert_eq!(refusals.note(at(1), "x"), Some(0));
        assert_eq!(refusals.note(at(1), "y"), None, "it is the same as x");
        assert_eq!(refusals.told.len(), ASKERS_MAX + 1);
        assert_eq!(refusals.late(at(2_000)), [(String::new(), 1)]);
        assert_eq!(refusals.note(at(2_001), "z"), Some(0));
    }
}
