//! The turns to read from disk, among the readers of all logs of a node.

use std::collections::{BTreeMap, VecDeque};

use formats::LogId;

use crate::limits::Limits;

/// Each chunk on its way from disk is a buffer in memory, so there are only so many. A log with many
/// readers leaves some to the other logs, and among logs that wait the first comes first.
#[derive(Debug, Default)]
pub struct ReadSlots {
    taken: BTreeMap<LogId, usize>,
    total: usize,
    /// Logs that wait for other logs' reads. Each will need one slot, and then it is behind the others again.
    waiting: VecDeque<LogId>,
}

impl ReadSlots {
    /// Whether the log may begin a read. If not, it asks again when one of its own has ended, or when
    /// `next` names it.
    pub fn take(&mut self, log: LogId, limits: &Limits) -> bool {
        let own = self.taken.get(&log).copied().unwrap_or(0);
        if own >= limits.log_read_buffers_max {
            return false;
        }
        let place = self.waiting.iter().position(|waits| *waits == log);
        let before = place.unwrap_or(self.waiting.len());
        if self.total + before >= limits.read_buffers_max {
            if place.is_none() {
                self.waiting.push_back(log);
            }
            return false;
        }
        if let Some(place) = place {
            self.waiting.remove(place);
        }
        *self.taken.entry(log).or_default() += 1;
        self.total += 1;
        true
    }

    /// Gives back the slot of a read of this log that has ended.
    pub fn give_back(&mut self, log: LogId) {
        let Some(own) = self.taken.get_mut(&log) else {
            return;
        };
        *own -= 1;
        self.total -= 1;
        if *own == 0 {
            self.taken.remove(&log);
        }
    }

    /// Takes this log out of the queue: none of its readers waits any more.
    pub fn leave(&mut self, log: LogId) {
        self.waiting.retain(|waits| *waits != log);
    }

    /// The log that has waited longest, if it may begin a read now.
    pub fn next(&self, limits: &Limits) -> Option<LogId> {
        let first = self.waiting.front().copied();
        first.filter(|_| self.total < limits.read_buffers_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LogId = LogId(1);
    const B: LogId = LogId(2);
    const C: LogId = LogId(3);

    fn limits() -> Limits {
        Limits {
            read_buffers_max: 4,
            log_read_buffers_max: 3,
            ..Limits::default()
        }
    }

    #[test]
    fn a_log_with_many_readers_leaves_slots_to_others() {
        let (mut slots, limits) = (ReadSlots::default(), limits());
        let taken = (0..9).filter(|_| slots.take(A, &limits)).count();
        assert_eq!(taken, 3);
        assert!(slots.take(B, &limits));
        slots.give_back(B);
        assert_eq!(
            slots.next(&limits),
            None,
            "who waits for itself is not in the way"
        );
    }

    #[test]
    fn the_next_slot_is_of_who_waited_longest_whoever_gives_it_back() {
        let (mut slots, limits) = (ReadSlots::default(), limits());
        for log in [A, A, A, B] {
            assert!(slots.take(log, &limits));
        }
        assert!(!slots.take(C, &limits));
        assert!(!slots.take(B, &limits));
        slots.give_back(A);
        assert!(!slots.take(A, &limits), "C waited before");
        assert!(!slots.take(B, &limits), "C waited before");
        assert_eq!(slots.next(&limits), Some(C));
        assert!(slots.take(C, &limits));
        assert_eq!(slots.next(&limits), None, "there is none");
        slots.give_back(B);
        assert_eq!(slots.next(&limits), Some(B));
        // Its reader has gone.
        slots.leave(B);
        assert!(slots.take(A, &limits));
    }
}
