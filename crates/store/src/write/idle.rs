//! The facts that the next start should know, written when nothing else is.

use std::time::Duration;

use formats::record::RecordHeader;
use paxos::Time;
use paxos::mutation::{self, Mutation};

use super::super::{RecordContext, Store};

/// The time without writes after which an empty record carries the watermark.
const IDLE_AFTER: Duration = Duration::from_millis(5);

impl Store {
    /// Appends a mark that lets the next start tell a torn tail from corruption.
    pub(crate) fn append_idle(&mut self) {
        let writer = &self.writer;
        let left_out = mutation::is(Mutation::IdleWatermarkLeftOut);
        if writer.failed
            || writer.is_busy()
            || writer.open.is_none()
            || !writer.tail.lags()
            || left_out
        {
            return;
        }
        let buffer = self.blocks.take();
        let context = self.writer.tail.context();
        self.push(RecordHeader::default(), buffer, 0, context, None);
    }

    /// Remembers what is known to be chosen by now, if a trim waits for a record that says so. That record is
    /// written when nothing else is.
    pub fn bear_out(&mut self, context: RecordContext) {
        if self.lacks_word() {
            self.writer.tail.bear_out(context);
        }
    }

    /// The time when [`Store::on_time`] has something to do, or [`Store::poll_op`] a write.
    pub fn deadline(&self) -> Option<Time> {
        let file = self.writer.files.due().filter(|_| !self.writer.failed);
        let dues = [file, self.idle_deadline()];
        dues.into_iter().flatten().min()
    }

    fn idle_deadline(&self) -> Option<Time> {
        let writer = &self.writer;
        let due =
            !writer.failed && !writer.is_busy() && writer.open.is_some() && writer.tail.lags();
        let due = due && !mutation::is(Mutation::IdleWatermarkLeftOut);
        due.then_some(writer.quiet_since + IDLE_AFTER)
    }

    /// Sets the time, so that the next write is known to begin now.
    pub fn set_time(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    pub fn on_time(&mut self, now: Time) {
        self.set_time(now);
        if self.idle_deadline().is_some_and(|due| due <= now) {
            self.append_idle();
        }
    }
}
