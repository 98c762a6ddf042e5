//! Turns to stand for election: only so many logs of a node stand at a time.
//!
//! ```text
//!   wants to stand ──▶ waits in a row ──▶ has a turn ──▶ leads, follows, or tried in vain ──▶ the next one's turn
//!                            ▲                                              │
//!                            └──────────────────────────────────────────────┘ behind all that wait
//! ```
//!
//! A node that comes back may have ten thousand logs without a leader. Every election writes to the disks of
//! several nodes. If all stood at once each would wait behind all others for longer than its patience lasts,
//! prepare a later term, and make the queues longer; and the node would have no time for its heartbeats
//! (docs/decisions/0038-logs-stand-in-turns.md). The promises of a turn's logs reach the disk together.
//!
//! A turn says when a log stands, and nothing of what its promise means.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use formats::LogId;

pub struct Turns {
    most: usize,
    /// The logs that have a turn, and whether they stood in it.
    taken: BTreeMap<LogId, bool>,
    row: VecDeque<LogId>,
    /// Those in the row that still want to stand.
    waiting: BTreeSet<LogId>,
}

impl Turns {
    pub fn of(most: usize) -> Turns {
        Turns {
            most,
            taken: BTreeMap::new(),
            row: VecDeque::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// Whether this log, which wants to stand, may do so now. If not it waits for its turn.
    pub fn may_stand(&mut self, log: LogId) -> bool {
        if let Some(has_stood) = self.taken.get_mut(&log) {
            if !std::mem::replace(has_stood, true) {
                return true;
            }
            // It tried in vain: others first.
            self.taken.remove(&log);
        }
        if self.waiting.is_empty() && self.taken.len() < self.most {
            self.taken.insert(log, true);
            return true;
        }
        if self.waiting.insert(log) {
            self.row.push_back(log);
        }
        false
    }

    /// Whether no log has a turn, and none waits for one: so it is but for elections.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.row.is_empty()
    }

    /// Notes that this log does not want to stand.
    pub fn leave(&mut self, log: LogId) {
        self.taken.remove(&log);
        if self.waiting.remove(&log) {
            // Those that left are dropped in time: the row is no longer than twice those that wait.
            if self.row.len() > 2 * self.waiting.len() {
                let waiting = &self.waiting;
                self.row.retain(|log| waiting.contains(log));
            }
        }
    }

    /// The next log whose turn has come: it is to be settled.
    pub fn next_turn(&mut self) -> Option<LogId> {
        while self.taken.len() < self.most {
            let log = self.row.pop_front()?;
            if self.waiting.remove(&log) {
                self.taken.insert(log, false);
                return Some(log);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: LogId = LogId(1);
    const TWO: LogId = LogId(2);
    const THREE: LogId = LogId(3);

    #[test]
    fn who_comes_first_stands_first_and_no_more_than_so_many_at_a_time() {
        let mut turns = Turns::of(1);
        assert!(turns.may_stand(ONE));
        assert!(!turns.may_stand(TWO));
        assert!(!turns.may_stand(THREE));
        assert_eq!(turns.next_turn(), None);
        turns.leave(ONE);
        assert_eq!(turns.next_turn(), Some(TWO));
        assert!(!turns.waiting.contains(&TWO) && turns.waiting.contains(&THREE));
        assert!(turns.may_stand(TWO), "it is its turn");
        turns.leave(TWO);
        assert_eq!(turns.next_turn(), Some(THREE));
    }

    #[test]
    fn who_stood_in_vain_goes_behind_all_that_wait() {
        let mut turns = Turns::of(1);
        assert!(turns.may_stand(ONE));
        assert!(turns.may_stand(ONE), "nobody waits");
        assert!(!turns.may_stand(TWO));
        assert!(!turns.may_stand(ONE));
        assert_eq!(turns.next_turn(), Some(TWO));
        assert!(turns.may_stand(TWO));
        assert!(!turns.may_stand(TWO));
        assert_eq!(turns.next_turn(), Some(ONE));
    }

    #[test]
    fn who_left_the_row_gets_no_turn_and_takes_no_room() {
        let mut turns = Turns::of(1);
        assert!(turns.may_stand(ONE));
        for number in 10..1000 {
            assert!(!turns.may_stand(LogId(number)));
            turns.leave(LogId(number));
        }
        assert!(turns.row.len() < 3);
        assert!(!turns.may_stand(TWO));
        turns.leave(ONE);
        assert_eq!(turns.next_turn(), Some(TWO));
        assert_eq!(turns.next_turn(), None);
    }
}
