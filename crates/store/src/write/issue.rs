//! Queued records become writes, and their facts become durable.

use std::io;

use ops::{Op, Token};
use paxos::mutation::{self, Mutation};

use super::super::index::Whereabouts;
use super::super::{Awaiting, Store, StoreEvent};

#[cfg(feature = "mutations")]
impl super::files::Writing {
    /// [`Mutation::BlockWrittenAgain`]: before the slices, the block before them once more.
    fn with_tail(&mut self, offset: u64, mut slices: Vec<ops::Slice>) -> (u64, Vec<ops::Slice>) {
        use ops::BLOCK;
        let last = slices.last().map(|s| s.within(s.len() - BLOCK..s.len()));
        match std::mem::replace(&mut self.tail, last) {
            Some(tail) if mutation::is(Mutation::BlockWrittenAgain) => {
                slices.insert(0, tail);
                (offset - BLOCK as u64, slices)
            }
            _ => (offset, slices),
        }
    }
}

impl Store {
    /// Turns queued records into ops.
    pub(crate) fn pump(&mut self) {
        if self.writer.failed || !self.writer.directory_ready {
            return;
        }
        self.reopen_file();
        self.make_file();
        while self.writer.queue.writes_in_flight() < self.config.writes_in_flight_max.max(1) {
            let Some(first) = self.writer.queue.first() else {
                return;
            };
            let segment = first.segment;
            if self.writer.files.writing_to(segment).is_none() && !self.begin_segment(segment) {
                return self.writer.queue.hold(self.now);
            }
            self.issue_write(segment);
        }
    }

    fn issue_write(&mut self, segment: u64) {
        let token = self.token(Awaiting::Write);
        let bytes_max = self.config.write_bytes_max;
        let (slices, carried) = self.writer.queue.take_write(segment, bytes_max);
        let writing = self.writer.files.writing().expect("a segment was begun");
        let offset = writing.offset;
        #[cfg(feature = "mutations")]
        let (offset, slices) = writing.with_tail(offset, slices);
        self.ops.push_back(Op::Write {
            token,
            file: writing.file,
            offset,
            slices,
        });
        writing.offset += carried.bytes;
        self.writer.queue.begin(token, carried, self.now);
    }

    pub(crate) fn on_directory(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => self.writer.directory_ready = true,
            Err(error) => self.fail(error),
        }
    }

    pub(crate) fn on_written(&mut self, token: Token, result: io::Result<()>) {
        if let Err(error) = result
            && !mutation::is(Mutation::FailedWriteIgnored)
        {
            return self.fail(error);
        }
        if self.writer.failed {
            return;
        }
        let writer = &mut self.writer;
        writer.queue.finish(token);
        let mut durable_tag = None;
        while let Some(write) = writer.queue.take_done() {
            writer.times.record(self.now - write.since);
            writer.durable.grow(&write.carried);
            durable_tag = write.carried.last_tag.or(durable_tag);
        }
        self.apply_durable();
        if let Some(tag) = durable_tag {
            self.events.push_back(StoreEvent::Durable { tag });
        }
        if !self.writer.is_busy() {
            self.writer.quiet_since = self.now;
            if self.writer.closing {
                self.append_idle();
            }
        }
    }

    /// Makes durable facts known, so that their bytes can be found and read.
    fn apply_durable(&mut self) {
        while let Some(fact) = self.writer.durable.take_fact() {
            match fact.place {
                Whereabouts::Record(_) => self.holdings.add(fact.stream, fact.bytes.clone()),
                Whereabouts::Lost => self.holdings.remove(fact.stream, fact.bytes.clone()),
            }
            let Some(segment) = self.segments.get_mut(&fact.segment) else {
                continue;
            };
            segment.extents.add(fact.stream, fact.bytes.clone());
            if let Some(index) = &mut segment.index {
                index.apply(fact.stream, fact.bytes, fact.place);
            }
        }
    }

    /// Fails the store. A failed write may have lost its data, and those before it: nothing is acknowledged
    /// any more, and nothing is tried again.
    pub(super) fn fail(&mut self, error: io::Error) {
        self.writer.queue.give_up();
        self.writer.durable.give_up();
        if !std::mem::replace(&mut self.writer.failed, true) {
            self.events.push_back(StoreEvent::Failed(error));
        }
    }
}
