//! How this process ends: asked to, or since it cannot go on.

use paxos::Time;

#[derive(Default)]
pub struct Ending {
    stopping_since: Option<Time>,
    /// Everything is handed over and flushed; the files are being closed.
    closing_since: Option<Time>,
    finished: bool,
    /// Why it cannot go on.
    failure: Option<String>,
}

/// A leader that stops waits so long for somebody to succeed it, and so long for its disk. Microseconds.
const HANDS_OVER_WITHIN: u64 = 1_000_000;
const FLUSHES_WITHIN: u64 = 5_000_000;
const CLOSES_WITHIN: u64 = 1_000_000;

impl Ending {
    pub fn begin(&mut self, now: Time) {
        self.stopping_since.get_or_insert(now);
    }

    pub fn has_begun(&self) -> bool {
        self.stopping_since.is_some()
    }

    /// Whether the files may be closed.
    pub fn may_close(&self, now: Time, is_leading: bool, is_writing: bool) -> bool {
        let waited = self.stopping_since.map_or(0, |since| now.0 - since.0);
        (!is_leading || waited > HANDS_OVER_WITHIN) && (!is_writing || waited > FLUSHES_WITHIN)
    }

    /// True when it begins.
    pub fn close(&mut self, now: Time) -> bool {
        let begins = self.closing_since.is_none();
        self.closing_since.get_or_insert(now);
        begins
    }

    pub fn closes_late(&self, now: Time) -> bool {
        let late = |since: Time| now.0 > since.0 + CLOSES_WITHIN;
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
