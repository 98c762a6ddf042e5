//! Replies about slots that move, apart from those about others.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use hdrhistogram::Histogram;

use bench::latency::histogram;

use super::values::name_of;

/// From a command's sending to its reply, in microseconds.
pub struct Apart {
    slots: RangeInclusive<u16>,
    pub moving: Histogram<u64>,
    pub others: Histogram<u64>,
    /// The longest of each slot that moves.
    longest: BTreeMap<u16, u64>,
}

impl Apart {
    pub fn new(slots: RangeInclusive<u16>) -> Apart {
        Apart {
            slots,
            moving: histogram(),
            others: histogram(),
            longest: BTreeMap::new(),
        }
    }

    pub fn answered(&mut self, key: u32, after: Duration) {
        let micros = (after.as_micros() as u64).max(1);
        let slot = ::kv::slot_of(&name_of(key));
        if !self.slots.contains(&slot) {
            self.others.saturating_record(micros);
            return;
        }
        self.moving.saturating_record(micros);
        let longest = self.longest.entry(slot).or_default();
        *longest = micros.max(*longest);
    }

    /// The longest wait of each slot that moves and was asked for.
    pub fn longest(&self) -> Histogram<u64> {
        let mut all = histogram();
        for micros in self.longest.values() {
            all.saturating_record(*micros);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_apart_by_their_slots() {
        let moves = ::kv::slot_of(&name_of(3));
        let mut apart = Apart::new(moves..=moves);
        for (key, ms) in [(3, 4), (3, 9), (3, 5), (4, 70)] {
            apart.answered(key, Duration::from_millis(ms));
        }
        assert_eq!((apart.moving.len(), apart.others.len()), (3, 1));
        let longest = apart.longest();
        assert_eq!(longest.len(), 1);
        assert!(longest.max().abs_diff(9_000) < 100);
    }
}
