//! The state of the guest's writing.

use std::collections::VecDeque;
use std::time::Duration;

use formats::PAYLOAD_BYTES_MAX;
use paxos::{StreamName, Time};

#[derive(Default)]
pub(crate) struct Writing {
    /// Bytes of the own stream that are not proposed yet.
    pub(super) pending: VecDeque<u8>,
    /// A stream of the guest's own is being opened.
    pub(super) is_opening: bool,
    /// The stream that the guest was told it may write.
    pub(super) begun: Option<StreamName>,
    /// The time when pending bytes wait no longer for the batch before them.
    gathers_until: Option<Time>,
}

/// Bytes wait for the batch before them to be chosen, and go in one batch with those that come meanwhile. They wait no longer than
/// this: where peers are far away, it would be a round trip.
const GATHER_MAX: Duration = Duration::from_millis(5);

impl Writing {
    /// Notes that the stream is open, or came to nothing.
    pub(crate) fn on_opened(&mut self) {
        self.is_opening = false;
    }

    /// Whether the pending bytes wait for more. `is_behind`: a batch before them is not chosen.
    pub(super) fn gathers(&mut self, now: Time, is_behind: bool) -> bool {
        let is_small = self.pending.len() < PAYLOAD_BYTES_MAX;
        if !is_behind || !is_small {
            self.gathers_until = None;
            return false;
        }
        now < *self.gathers_until.get_or_insert(now + GATHER_MAX)
    }

    /// A time that passed wakes nobody: something else holds the bytes back.
    pub(crate) fn deadline(&self, now: Time) -> Option<Time> {
        self.gathers_until.filter(|until| *until > now)
    }

    /// Those that come now wait anew.
    pub(super) fn on_proposed(&mut self) {
        self.gathers_until = None;
    }

    /// Drops the bytes that are not proposed: they never will be.
    pub(crate) fn stop(&mut self) {
        self.pending.clear();
        self.gathers_until = None;
        self.is_opening = false;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.is_opening
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_opening
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_pending(bytes: usize) -> Writing {
        let mut writing = Writing::default();
        writing.pending.extend(vec![7; bytes]);
        writing
    }

    #[test]
    fn bytes_wait_for_the_batch_before_them_and_not_for_long() {
        let mut writing = with_pending(1);
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        assert!(!writing.gathers(at(1), false));
        assert_eq!(writing.deadline(at(1)), None);

        assert!(writing.gathers(at(2), true));
        // Those that come later do not make the first ones wait longer.
        writing.pending.push_back(7);
        assert!(writing.gathers(at(4), true));
        assert_eq!(writing.deadline(at(4)), Some(at(2) + GATHER_MAX));
        let until = at(2) + GATHER_MAX;
        assert!(!writing.gathers(until, true));
        assert_eq!(writing.deadline(until), None);

        writing.on_proposed();
        assert!(writing.gathers(until, true));
        assert!(!writing.gathers(until, false));
    }

    #[test]
    fn a_whole_batch_waits_for_nothing() {
        assert!(!with_pending(PAYLOAD_BYTES_MAX).gathers(Time::ZERO, true));
        assert!(with_pending(PAYLOAD_BYTES_MAX - 1).gathers(Time::ZERO, true));
    }
}
