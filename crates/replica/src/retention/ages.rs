//! The ages of slots, by what was known chosen at which moment.
//!
//! ```text
//!   Tuesday 08:00:00  all below slot 1000 was chosen        a segment's first block, on disk
//!   Tuesday 09:30:00  all below slot 5000 was chosen        noted while running, in memory
//! ```
//!
//! A slot chosen by a moment is at least as old as that moment, so whatever a mark says errs on the side of
//! keeping, and so does losing one. Clocks may be wrong for a while all the same:
//!
//! - A clock that was behind leaves a mark that says too much: a slot is called older than it is. Slots are
//!   chosen in order, so it is not believed where a later mark has a lower slot.
//! - A clock that was ahead leaves a mark that lies in the future, which says nothing yet. Once its second has
//!   come, it may make earlier ones unbelievable, which again errs on the side of keeping.

use std::collections::BTreeMap;

use paxos::Slot;

/// The most marks; more are thinned out.
const MARKS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Ages {
    /// The slot below which all were chosen, by second.
    marks: BTreeMap<u64, Slot>,
}

impl Ages {
    pub fn note(&mut self, second: u64, first_unchosen: Slot) {
        if second == 0 || first_unchosen == Slot(0) {
            return;
        }
        let mark = self.marks.entry(second).or_default();
        *mark = first_unchosen.max(*mark);
        if self.marks.len() > MARKS_MAX {
            self.thin_out();
        }
    }

    /// The time of the last mark, those aside that lie in the future.
    pub fn last(&self, now: u64) -> Option<u64> {
        self.marks
            .range(..=now)
            .next_back()
            .map(|(second, _)| *second)
    }

    /// The slot below which all were chosen by that second, as far as is known now.
    pub fn chosen_by(&self, second: u64, now: u64) -> Slot {
        let mut believed = self.believed(now);
        let found = believed.find(|(at, _)| *at <= second);
        found.map_or(Slot(0), |(_, slot)| slot)
    }

    /// Forgets the ages of trimmed slots. The slots that are left were chosen later, and are no older: marks
    /// that say so go, too, before the last one that contradicts them does.
    pub fn forget_below(&mut self, trimmed: Slot, now: u64) {
        let gone = self.believed(now).find(|(_, slot)| *slot <= trimmed);
        let since = gone.map_or(0, |(second, _)| second);
        self.marks
            .retain(|second, slot| *slot > trimmed && *second >= since);
    }

    /// The believed marks, newest first.
    fn believed(&self, now: u64) -> impl Iterator<Item = (u64, Slot)> {
        let mut lowest_later = None;
        self.marks
            .range(..=now)
            .rev()
            .filter_map(move |(at, slot)| {
                let believed = lowest_later.is_none_or(|later| *slot <= later);
                if believed {
                    lowest_later = Some(*slot);
                }
                believed.then_some((*at, *slot))
            })
    }

    /// Drops the mark that stands closest between its neighbours.
    fn thin_out(&mut self) {
        let seconds: Vec<u64> = self.marks.keys().copied().collect();
        let closest = seconds.windows(3).min_by_key(|three| three[2] - three[0]);
        if let Some(three) = closest {
            self.marks.remove(&three[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_clock_that_was_behind_once_makes_nothing_older() {
        let mut ages = Ages::default();
        for (second, slot) in [(5_000, 10), (6_000, 20), (7, 30), (7_000, 40)] {
            ages.note(second, Slot(slot));
        }
        assert_eq!(
            ages.chosen_by(4_000, 8_000),
            Slot(0),
            "30 is no older than 20"
        );
        assert_eq!(ages.chosen_by(5_500, 8_000), Slot(10));
        assert_eq!(ages.chosen_by(6_500, 8_000), Slot(20));
        assert_eq!(ages.chosen_by(7_000, 8_000), Slot(40));
    }

    #[test]
    fn a_clock_that_was_ahead_once_does_not_keep_everything() {
        let mut ages = Ages::default();
        for (second, slot) in [(5_000, 10), (90_000, 20), (6_000, 30), (7_000, 40)] {
            ages.note(second, Slot(slot));
        }
        assert_eq!(ages.last(8_000), Some(7_000), "the next is due soon");
        assert_eq!(ages.chosen_by(6_500, 8_000), Slot(30));
        assert_eq!(
            ages.chosen_by(89_000, 95_000),
            Slot(10),
            "it may have been right"
        );
        assert_eq!(ages.chosen_by(90_000, 95_000), Slot(20));
        ages.forget_below(Slot(20), 95_000);
        assert_eq!(ages.chosen_by(90_000, 95_000), Slot(0));
        ages.note(95_000, Slot(50));
        assert_eq!(ages.chosen_by(95_000, 95_000), Slot(50));
    }

    #[test]
    fn what_a_wrong_clock_said_is_not_believed_once_the_right_marks_are_trimmed() {
        let mut ages = Ages::default();
        for (second, slot) in [(5_000, 10), (6_000, 20), (7, 30), (50, 40), (7_000, 50)] {
            ages.note(second, Slot(slot));
        }
        ages.forget_below(Slot(20), 8_000);
        assert_eq!(
            ages.chosen_by(6_500, 8_000),
            Slot(0),
            "30 and 40 are no older"
        );
        assert_eq!(ages.chosen_by(7_000, 8_000), Slot(50));
    }

    proptest! {
        /// No slot is said to be older than it is, however marks are lost.
        #[test]
        fn no_slot_is_taken_for_older_than_it_is(
            steps in prop::collection::vec((1u64..100, 0u64..1000), 1..200),
            asked in 0u64..20_000,
        ) {
            let mut ages = Ages::default();
            let (mut second, mut slot) = (1, 0);
            let mut truth = Vec::new();
            for (seconds, slots) in steps {
                second += seconds;
                slot += slots;
                truth.push((second, Slot(slot)));
                ages.note(second, Slot(slot));
                prop_assert!(ages.marks.len() <= MARKS_MAX);
            }
            let known = truth.iter().take_while(|(second, _)| *second <= asked);
            let chosen = known.last().map_or(Slot(0), |(_, slot)| *slot);
            let (last, slot) = truth[truth.len() - 1];
            prop_assert!(ages.chosen_by(asked, last) <= chosen);
            prop_assert_eq!(ages.chosen_by(last, last), slot);
            ages.forget_below(slot, last);
            prop_assert_eq!(ages.chosen_by(u64::MAX, u64::MAX), Slot(0));
        }
    }
}
