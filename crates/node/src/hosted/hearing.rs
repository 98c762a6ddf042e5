//! Whether a host takes letters.
//!
//! A host is a thread of its own, and its commands are others' code. One that goes no further leaves a log whose leader is alive, and whose clients are
//! answered by nobody. So a leader asks its host each second, and one that has not answered three times is taken for stuck. ‡ Questions are counted, and not
//! seconds: a process that stood still for a minute has asked once.

use std::time::Duration;

use paxos::Time;
use paxos::mutation::{self, Mutation};

const EVERY: Duration = Duration::from_secs(1);
/// A host that did not answer so many questions in a row is stuck.
const UNANSWERED_MAX: u32 = 3;

#[derive(Default)]
pub(super) struct Hearing {
    /// The questions since the last word.
    asked: u32,
    next_at: Time,
}

/// The sentence about a host that is stuck.
pub(super) const STUCK: &str = "the thread of its state takes nothing any more: a command of it may go on without end; restart this node if that lasts, and report what it was asked";

impl Hearing {
    pub fn on_word(&mut self) {
        self.asked = 0;
    }

    /// Whether the host is to be asked now. It is while this node leads, and while it is stuck.
    pub fn asks(&mut self, now: Time, leads: bool) -> bool {
        if !leads && !self.is_stuck() {
            self.asked = 0;
            self.next_at = Time::ZERO;
            return false;
        }
        let is_time = now >= self.next_at;
        if is_time {
            self.next_at = now + EVERY;
            self.asked += 1;
        }
        is_time
    }

    /// ‡ The last question has its second, too.
    pub fn is_stuck(&self) -> bool {
        self.asked > UNANSWERED_MAX && !mutation::is(Mutation::StuckHostLeadsOn)
    }

    pub fn deadline(&self) -> Option<Time> {
        (self.next_at > Time::ZERO).then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_host_that_does_not_answer_is_stuck_and_one_that_speaks_again_is_not() {
        let mut hearing = Hearing::default();
        assert!(!hearing.asks(at(1), false));
        assert_eq!(hearing.deadline(), None);
        for second in 1..=3 {
            assert!(hearing.asks(at(second * 1_000), true));
            assert!(!hearing.asks(at(second * 1_000 + 500), true));
            assert!(!hearing.is_stuck());
        }
        assert!(hearing.asks(at(4_000), true));
        assert!(hearing.is_stuck());
        // Though it leads no more.
        assert!(hearing.asks(at(5_000), false));
        assert_eq!(hearing.deadline(), Some(at(6_000)));
        hearing.on_word();
        assert!(!hearing.is_stuck());
        assert!(!hearing.asks(at(6_000), false));
        assert_eq!(hearing.deadline(), None);
    }

    #[test]
    fn a_process_that_stood_still_has_asked_once() {
        let mut hearing = Hearing::default();
        assert!(hearing.asks(at(1_000), true));
        assert!(hearing.asks(at(90_000), true));
        assert!(!hearing.is_stuck());
    }
}
