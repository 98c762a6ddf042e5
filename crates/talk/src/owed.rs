//! The answer, or the bytes, that a server owes, and since when.

use std::time::Duration;

/// Bytes that are a sign that the rest comes too. A server that brings fewer within the time that it may be silent is as good
/// as silent: drop by drop an answer would last for minutes.
const BYTES_MIN: usize = 256;

/// An answer, or the bytes of a chunk, that a server owes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    since: Duration,
    /// The bytes of it that came since.
    came: usize,
}

impl Owed {
    pub fn from(now: Duration) -> Self {
        Self {
            since: now,
            came: 0,
        }
    }

    /// Since when nothing came that counts.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Notes bytes of what is owed: slow is not silent.
    pub fn came(&mut self, now: Duration, count: usize) {
        self.came += count;
        if self.came >= BYTES_MIN {
            *self = Self::from(now);
        }
    }
}
