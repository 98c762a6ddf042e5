//! The progress of a bench, for people who watch; nothing where standard error is no terminal.

use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::scratch::go_on;

pub struct Watch(ProgressBar);

impl Watch {
    /// `steps` of equal length.
    pub fn new(steps: u64) -> Watch {
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Watch(bar)
    }

    /// Steps that take so long together, with the time that is left.
    pub fn of(length: Duration) -> Watch {
        let bar = ProgressBar::new(length.as_millis() as u64);
        let style = ProgressStyle::with_template("{bar:30} {percent}% {elapsed}, left {eta} {msg}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Watch(bar)
    }

    /// One of them is done.
    pub fn passed(&self, length: Duration) {
        self.0.inc(length.as_millis() as u64);
    }

    pub fn says(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// A line that stays.
    pub fn note(&self, line: impl AsRef<str>) {
        self.0.println(line);
    }

    /// More are to come than was known.
    pub fn add_steps(&self, steps: u64) {
        self.0.inc_length(steps);
    }

    pub fn step(&self, steps: u64) {
        self.0.inc(steps);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Sleeps, unless somebody asks us to end.
pub fn sleep_until(until: Instant) -> Result<()> {
    loop {
        go_on()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
