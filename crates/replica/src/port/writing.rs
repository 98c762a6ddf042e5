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
    /// Submissions among the pending bytes.
    submissions: u32,
    /// When the last batch was proposed, while it is not chosen, and how many submissions it had.
    under_way: Option<(Time, u32)>,
    /// Those who heard of a batch submit the next bytes.
    rest: Option<Rest>,
}

/// The time after a batch in which those who wrote it come back.
#[derive(Clone, Copy)]
struct Rest {
    until: Time,
    /// With so many submissions pending all of them are back.
    enough: u32,
}

/// Bytes wait for the batch before them to be chosen, and go in one batch with those that come meanwhile. They wait no longer than
/// this: where peers are far away, it would be a round trip.
const GATHER_MAX: Duration = Duration::from_millis(5);
/// Once a batch of several submissions is chosen, those who wrote it hear of it and submit again: the next batch waits for them, as long as the last one
/// took, and no longer than this. Else two crowds take turns for ever, each with half a batch.
const REST_MAX: Duration = Duration::from_millis(1);

impl Writing {
    /// Notes that the stream is open, or came to nothing.
    pub(crate) fn on_opened(&mut self) {
        self.is_opening = false;
    }

    pub(super) fn on_submitted(&mut self) {
        self.submissions += 1;
    }

    /// Notes that all that was proposed is chosen.
    pub(super) fn on_chosen(&mut self, now: Time) {
        let Some((proposed_at, submissions)) = self.under_way.take() else {
            return;
        };
        self.rest = (submissions > 1).then(|| Rest {
            until: now + (now - proposed_at).min(REST_MAX),
            enough: self.submissions + submissions,
        });
    }

    /// Whether the pending bytes wait for more. `is_behind`: a batch before them is not chosen.
    pub(super) fn gathers(&mut self, now: Time, is_behind: bool) -> bool {
        let is_small = self.pending.len() < PAYLOAD_BYTES_MAX;
        if !is_behind || !is_small {
            self.gathers_until = None;
            let rests = |rest: Rest| now < rest.until && self.submissions < rest.enough;
            return is_small && self.rest.is_some_and(rests);
        }
        now < *self.gathers_until.get_or_insert(now + GATHER_MAX)
    }

    /// A time that passed wakes nobody: something else holds the bytes back.
    pub(crate) fn deadline(&self, now: Time) -> Option<Time> {
        let rest = self.rest.filter(|_| !self.pending.is_empty());
        let rests_until = rest.map(|rest| rest.until);
        let all = self.gathers_until.into_iter().chain(rests_until);
        all.filter(|until| *until > now).min()
    }

    /// Those that come now wait anew.
    pub(super) fn on_proposed(&mut self, now: Time) {
        self.gathers_until = None;
        self.rest = None;
        let submissions = std::mem::take(&mut self.submissions);
        let (_, under_way) = self.under_way.get_or_insert((now, 0));
        *under_way += submissions;
    }

    /// Drops the bytes that are not proposed: they never will be.
    pub(crate) fn stop(&mut self) {
        self.drop_pending();
        self.is_opening = false;
    }

    pub(super) fn drop_pending(&mut self) {
        self.pending.clear();
        self.gathers_until = None;
        self.submissions = 0;
        self.under_way = None;
        self.rest = None;
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

        writing.on_proposed(until);
        assert!(writing.gathers(until, true));
        assert!(!writing.gathers(until, false));
    }

    #[test]
    fn the_next_batch_waits_for_those_who_wrote_the_last() {
        let at = |us| Time::ZERO + Duration::from_micros(us);
        let batch_of = |submissions: u32| {
            let mut writing = with_pending(1);
            (0..submissions).for_each(|_| writing.on_submitted());
            writing.on_proposed(at(0));
            writing.pending.clear();
            // One more comes meanwhile.
            writing.pending.push_back(7);
            writing.on_submitted();
            assert!(writing.gathers(at(100), true));
            writing.on_chosen(at(300));
            writing
        };
        // Nobody waits for one who is alone.
        assert!(!batch_of(1).gathers(at(300), false));

        let mut writing = batch_of(2);
        assert!(writing.gathers(at(300), false));
        assert_eq!(writing.deadline(at(300)), Some(at(600)));
        writing.on_submitted();
        assert!(writing.gathers(at(310), false));
        writing.on_submitted();
        assert!(!writing.gathers(at(320), false));

        // They do not come.
        let mut writing = batch_of(2);
        assert!(!writing.gathers(at(600), false));
        writing.pending.clear();
        assert_eq!(writing.deadline(at(500)), None);

        // A batch that took long is waited for no longer than that.
        let mut writing = with_pending(1);
        (0..2).for_each(|_| writing.on_submitted());
        writing.on_proposed(at(0));
        writing.on_chosen(at(40_000));
        assert_eq!(writing.deadline(at(40_000)), Some(at(40_000) + REST_MAX));
    }

    #[test]
    fn a_whole_batch_waits_for_nothing() {
        assert!(!with_pending(PAYLOAD_BYTES_MAX).gathers(Time::ZERO, true));
        assert!(with_pending(PAYLOAD_BYTES_MAX - 1).gathers(Time::ZERO, true));
    }
}
