//! Queued records become writes, and their facts become durable.

use std::io;

use formats::past::End;
use ops::{Op, Token};
use paxos::Slot;
use paxos::mutation::{self, Mutation};

use super::super::index::Whereabouts;
use super::super::{Awaiting, Store, StoreEvent};
use super::InFlight;

/// Kernels take 1024 slices in one call.
const WRITE_SLICES_MAX: usize = 1_000;

#[cfg(feature = "mutations")]
impl super::Writing {
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
        while self.writer.in_flight.len() < self.config.writes_in_flight_max.max(1) {
            let Some(first) = self.writer.pending.front() else {
                return;
            };
            let segment = first.segment;
            if self
                .writer
                .writing
                .as_ref()
                .is_none_or(|writing| writing.segment != segment)
                && !self.begin_segment(segment)
            {
                if self.writer.in_flight.is_empty() {
                    self.writer.held_since.get_or_insert(self.now);
                }
                return;
            }
            self.writer.held_since = None;
            self.issue_write(segment);
        }
    }

    fn issue_write(&mut self, segment: u64) {
        let mut slices = Vec::new();
        let mut bytes = 0;
        let mut last_number = 0;
        let mut first_unchosen = Slot(0);
        let mut end = End::default();
        let mut last_tag = None;
        while let Some(next) = self.writer.pending.front() {
            let fits = bytes + next.slice.len() <= self.config.write_bytes_max;
            if next.segment != segment
                || !(slices.is_empty() || fits && slices.len() < WRITE_SLICES_MAX)
            {
                break;
            }
            let Some(next) = self.writer.pending.pop_front() else {
                break;
            };
            bytes += next.slice.len();
            last_number = next.number.max(last_number);
            first_unchosen = next.first_unchosen.max(first_unchosen);
            end = next.end.and(end);
            last_tag = next.tag.or(last_tag);
            slices.push(next.slice);
        }
        let bytes = bytes as u64;
        let token = self.token(Awaiting::Write);
        let writing = self.writer.writing.as_mut().expect("a segment was begun");
        let offset = writing.offset;
        #[cfg(feature = "mutations")]
        let (offset, slices) = writing.with_tail(offset, slices);
        self.ops.push_back(Op::Write {
            token,
            file: writing.file,
            offset,
            slices,
        });
        writing.offset += bytes;
        self.writer.pending_bytes -= bytes;
        self.writer.in_flight.push_back(InFlight {
            token,
            bytes,
            last_number,
            first_unchosen,
            end,
            last_tag,
            since: self.now,
            done: false,
        });
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
        for write in &mut self.writer.in_flight {
            write.done |= write.token == token;
        }
        let mut durable_tag = None;
        while self
            .writer
            .in_flight
            .front()
            .is_some_and(|write| write.done)
        {
            let Some(write) = self.writer.in_flight.pop_front() else {
                break;
            };
            let writer = &mut self.writer;
            let took = self.now - write.since;
            writer.write_times.record(took);
            writer.slowest_write = writer.slowest_write.max(took);
            writer.durable_number = writer.durable_number.max(write.last_number);
            writer.durable_first_unchosen = writer.durable_first_unchosen.max(write.first_unchosen);
            writer.durable_end = writer.durable_end.and(write.end);
            durable_tag = write.last_tag.or(durable_tag);
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
        while let Some(fact) = self.writer.undurable.front() {
            if fact.number > self.writer.durable_number {
                return;
            }
            let Some(fact) = self.writer.undurable.pop_front() else {
                return;
            };
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
        self.writer.pending.clear();
        self.writer.pending_bytes = 0;
        self.writer.in_flight.clear();
        self.writer.undurable.clear();
        if !std::mem::replace(&mut self.writer.failed, true) {
            self.events.push_back(StoreEvent::Failed(error));
        }
    }
}
