//! The end of this process: because it was asked to end, or since it cannot go on.

use paxos::Time;
use std::time::Duration;

#[derive(Default)]
pub struct Ending {
    stopping_since: Option<Time>,
    /// The time when everything was handed over and flushed, and the files began to be closed.
    closing_since: Option<Time>,
    finished: bool,
    /// The reason why the process cannot go on.
    failure: Option<String>,
}

/// The time for which a stopping leader waits for a successor, and that for its disk.
const HANDS_OVER_WITHIN: Duration = Duration::from_secs(1);
const FLUSHES_WITHIN: Duration = Duration::from_secs(5);
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

impl Ending {
    pub fn begin(&mut self, now: Time) {
        self.stopping_since.get_or_insert(now);
    }

    pub fn has_begun(&self) -> bool {
        self.stopping_since.is_some()
    }

    /// Whether the files may be closed.
    pub fn may_close(&self, now: Time, is_leading: bool, is_writing: bool) -> bool {
        let waited = self
            .stopping_since
            .map_or(Duration::ZERO, |since| now - since);
        (!is_leading || waited > HANDS_OVER_WITHIN) && (!is_writing || waited > FLUSHES_WITHIN)
    }

    /// Begins to close. True when it begins.
    pub fn close(&mut self, now: Time) -> bool {
        let begins = self.closing_since.is_none();
        self.closing_since.get_or_insert(now);
        begins
    }

    pub fn closes_late(&self, now: Time) -> bool {
        let late = |since: Time| now > since + CLOSES_WITHIN;
        self.closing_since.is_some_and(late)
    }

    pub fn finish(&mut self) {
        self.finished = true;
    }

    pub fn is_finished(&self) -> bool {
        self.finished
    }

    pub fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
        self.finished = true;
    }

    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
