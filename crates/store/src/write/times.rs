//! The times that durable writes took.

use std::time::Duration;

use crate::Histogram;

#[derive(Default)]
pub(crate) struct Times {
    all: Histogram,
    slowest: Duration,
}

impl Times {
    pub fn record(&mut self, took: Duration) {
        self.all.record(took);
        self.slowest = self.slowest.max(took);
    }

    pub fn all(&self) -> &Histogram {
        &self.all
    }

    /// The slowest write since this was last asked for.
    pub fn take_slowest(&mut self) -> Duration {
        std::mem::take(&mut self.slowest)
    }
}
