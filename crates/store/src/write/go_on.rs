//! Going on behind the end that a start found.
//!
//! ```text
//!   promise 7 │ idle 8, watermark 7 │ zeros or the file's end
//!                                   └ record 9: the same file and salt, the next number, the chain of 8
//! ```
//!
//! A log that rested goes on as if its process had never ended, so a start of a log that nobody uses writes
//! nothing and makes no file (docs/decisions/0033-a-log-that-rested-goes-on.md).

use paxos::Checkpoint;

use super::super::{RecordContext, Store};
use super::Open;

impl Store {
    /// Takes the first step after a recovery: in the last segment, if the log rested, else by
    /// [`Store::roll`], whose contract it has.
    pub fn go_on(&mut self, checkpoint: &Checkpoint, context: RecordContext) {
        match self.resting_segment(context) {
            Some((segment, version)) => self.go_on_in(segment, version),
            None => self.roll(checkpoint, context),
        }
    }

    fn resting_segment(&mut self, context: RecordContext) -> Option<(u64, u8)> {
        let version = self.resting.take()?;
        let (&number, segment) = self.segments.last_key_value()?;
        // The next start reads these records again: no more than this each time.
        let most = self
            .size_target(number)
            .min(self.config.segment_bytes_first);
        let as_found = context == self.writer.tail.context() && self.writer.lost_early.is_empty();
        // ‡ Sockets may still have bytes of such a file by reference.
        let goes_on = version == self.config.version
            && segment.end < most
            && segment.salt.is_some()
            && as_found
            && self.config.landing.is_none();
        goes_on.then_some((number, version))
    }

    fn go_on_in(&mut self, number: u64, version: u8) {
        let size_target = self.size_target(number);
        let Some(salt) = self.segments.get(&number).and_then(|segment| segment.salt) else {
            return;
        };
        self.writer.tail.rest_at(self.writer.durable.number());
        self.writer.open = Some(Open {
            segment: number,
            version,
            salt,
            size_target,
        });
    }

    /// Opens the file of the last segment, only now that the first record behind its end is queued.
    pub(super) fn reopen_file(&mut self) {
        let writer = &self.writer;
        if writer.files.has_written() {
            return;
        }
        let Some(first) = writer.queue.first() else {
            return;
        };
        let segment = first.segment;
        // A new segment begins with its first block.
        if first.number == 0 || writer.files.wanted(segment).is_some() {
            return;
        }
        let at = self.segments[&segment].end - writer.queue.pending_in(segment);
        self.want_file(segment, None, Some(at));
    }
}
