//! Appending: records become writes, writes become durable, in order.

mod landing;
mod roll;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

use paxos::mutation::{self, Mutation};
use paxos::{Slot, SlotRange, StreamName, Time, Value};

use super::index::{RecordPlace, Whereabouts};
use super::trim::Spare;
use super::{Awaiting, NewRecord, RecordContext, Store, StoreEvent};
use crate::buffer::{Buffer, Shared, Slice};
use crate::format::codec;
use crate::format::record::{RECORD_HEADER, RecordHeader, RecordKind, ValueKind, total_length};
use crate::health::Histogram;
use crate::op::{BLOCK, FileId, Op, Token};

/// After so long without writes an empty record carries the watermark.
const IDLE_AFTER: u64 = 5_000;

/// Kernels take 1024 slices in one call.
const WRITE_SLICES_MAX: usize = 1_000;

pub(super) struct Writer {
    /// `None` after a recovery until the first roll: what was found is never appended to.
    open: Option<Open>,
    pub last_number: u64,
    pub last_checksum: u32,
    pub durable_number: u64,
    /// In the last record.
    watermark: u64,
    /// The last record that is more than a watermark.
    last_fact: u64,
    pub accepted_up_to: Slot,
    pub learn_past: Slot,
    pub context: RecordContext,
    /// Durable records say that all slots below are chosen.
    pub durable_first_unchosen: Slot,
    /// The context says more than the last record, and the next start should know it.
    context_is_news: bool,
    pending: VecDeque<Pending>,
    pending_bytes: u64,
    in_flight: VecDeque<InFlight>,
    /// Since when records wait for their file to be made, and no write is in flight.
    held_since: Option<Time>,
    writing: Option<Writing>,
    new_files: BTreeMap<u64, NewFile>,
    /// Facts about bytes, waiting for their record to be durable.
    undurable: VecDeque<Undurable>,
    reserved: Option<landing::Reserved>,
    /// Records that stand where they were received, and places that something else had to have.
    pub landed: u64,
    pub places_given_up: u64,
    /// Lost ranges met before the first roll.
    lost_early: Vec<(StreamName, Range<u64>)>,
    quiet_since: Time,
    pub directory_ready: bool,
    pub failed: bool,
    pub closing: bool,
    pub write_times: Histogram,
    pub slowest_write: u64,
}

/// The segment that records are appended to.
struct Open {
    segment: u64,
    /// Of all in it.
    version: u8,
    salt: u64,
    size_target: u64,
}

/// A record, or a segment's first block, that no write carries yet.
struct Pending {
    segment: u64,
    slice: Slice,
    /// 0 for a segment's first block.
    number: u64,
    first_unchosen: Slot,
    tag: Option<u64>,
}

struct InFlight {
    token: Token,
    bytes: u64,
    last_number: u64,
    first_unchosen: Slot,
    last_tag: Option<u64>,
    since: Time,
    done: bool,
}

struct Writing {
    segment: u64,
    file: FileId,
    offset: u64,
    /// The last block written.
    #[cfg(feature = "mutations")]
    tail: Option<Slice>,
}

struct NewFile {
    file: FileId,
    /// It becomes this segment's; else a new one is made.
    spare: Option<Spare>,
    asked: bool,
    ready: bool,
}

struct Undurable {
    number: u64,
    segment: u64,
    stream: StreamName,
    bytes: Range<u64>,
    place: Whereabouts,
}

#[cfg(feature = "mutations")]
impl Writing {
    /// [`Mutation::BlockWrittenAgain`]: before the slices, the block before them once more.
    fn with_tail(&mut self, offset: u64, mut slices: Vec<Slice>) -> (u64, Vec<Slice>) {
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

impl Default for Writer {
    fn default() -> Writer {
        Writer {
            open: None,
            last_number: 0,
            last_checksum: 0,
            durable_number: 0,
            watermark: 0,
            last_fact: 0,
            accepted_up_to: Slot(0),
            learn_past: Slot(0),
            context: RecordContext::default(),
            durable_first_unchosen: Slot(0),
            context_is_news: false,
            pending: VecDeque::new(),
            pending_bytes: 0,
            in_flight: VecDeque::new(),
            held_since: None,
            writing: None,
            new_files: BTreeMap::new(),
            undurable: VecDeque::new(),
            reserved: None,
            landed: 0,
            places_given_up: 0,
            lost_early: Vec::new(),
            quiet_since: Time(0),
            directory_ready: true,
            failed: false,
            closing: false,
            write_times: Histogram::default(),
            slowest_write: 0,
        }
    }
}

impl Writer {
    pub fn is_busy(&self) -> bool {
        !self.pending.is_empty() || !self.in_flight.is_empty()
    }

    /// Every file that writes went to, or would have.
    pub fn take_files(&mut self) -> Vec<FileId> {
        let new = std::mem::take(&mut self.new_files).into_values();
        let ready = new.filter(|file| file.ready).map(|file| file.file);
        let writing = self.writing.take().map(|writing| writing.file);
        ready.chain(writing).collect()
    }

    /// The last record is a fact that no watermark covers, or says less than is known.
    fn lags(&self) -> bool {
        self.last_fact > self.watermark || self.context_is_news
    }
}

impl Store {
    /// Queues a record. Returns the frozen buffer of content, whose payload followers want too.
    pub fn append(
        &mut self,
        record: NewRecord,
        context: RecordContext,
        tag: u64,
    ) -> Option<Shared> {
        paxos::invariant!(
            context.promised >= self.writer.context.promised,
            "I4: a promise is never forgotten"
        );
        let mut header = RecordHeader::default();
        match record {
            NewRecord::Accept {
                term,
                slots,
                value,
                digest,
                payload,
            } => {
                header.kind = RecordKind::Accept;
                header.term = term;
                header.slots = slots;
                header.digest = digest;
                self.writer.accepted_up_to = self.writer.accepted_up_to.max(slots.end);
                match (value, payload) {
                    (Value::NoOp, None) => {
                        let buffer = self.blocks.take();
                        self.push(header, buffer, 0, context, Some(tag));
                        None
                    }
                    (Value::Action(action), None) => {
                        header.value = ValueKind::Action;
                        let encoded = codec::encode(self.open_version(), &*action);
                        // The engine, which knows no bytes, gives an action none.
                        header.digest = crate::format::digest(&encoded);
                        self.push_encoded(header, &encoded, context, Some(tag));
                        None
                    }
                    (Value::Content { stream, offset }, payload) => {
                        header.value = ValueKind::Content;
                        header.stream = stream;
                        header.position.0 = slots.start.0 - offset.0;
                        let length = match payload {
                            Some(_) => slots.len() as usize,
                            None => 0,
                        };
                        let keep = payload.is_some();
                        let buffer = payload.unwrap_or_else(|| self.blocks.take());
                        let shared = self.push(header, buffer, length, context, Some(tag));
                        shared.filter(|_| keep)
                    }
                    (_, Some(_)) => panic!("only content travels in buffers"),
                }
            }
            NewRecord::Promise(checkpoint) => {
                header.kind = RecordKind::Promise;
                self.push_encoded(
                    header,
                    &codec::encode(self.open_version(), &checkpoint),
                    context,
                    Some(tag),
                );
                None
            }
            NewRecord::State(checkpoint) => {
                header.kind = RecordKind::State;
                self.push_encoded(
                    header,
                    &codec::encode(self.open_version(), &checkpoint),
                    context,
                    Some(tag),
                );
                None
            }
            NewRecord::Bytes {
                stream,
                position,
                length,
                digest,
                buffer,
            } => {
                header.kind = RecordKind::Bytes;
                header.stream = stream;
                header.position = position;
                header.digest = digest;
                self.push(header, buffer, length, context, Some(tag))
            }
        }
    }

    fn push_encoded(
        &mut self,
        header: RecordHeader,
        payload: &[u8],
        context: RecordContext,
        tag: Option<u64>,
    ) {
        let total = total_length(payload.len());
        let mut buffer = match total {
            BLOCK => self.blocks.take(),
            _ => Buffer::new(total),
        };
        buffer[RECORD_HEADER..][..payload.len()].copy_from_slice(payload);
        let header = RecordHeader {
            digest: crate::format::digest(payload),
            ..header
        };
        self.push(header, buffer, payload.len(), context, tag);
    }

    /// Completes the header, and queues the record.
    fn push(
        &mut self,
        mut header: RecordHeader,
        mut buffer: Buffer,
        payload_length: usize,
        context: RecordContext,
        tag: Option<u64>,
    ) -> Option<Shared> {
        let total = total_length(payload_length);
        self.settle(&buffer);
        let writer = &mut self.writer;
        let open = writer
            .open
            .as_ref()
            .expect("recovery is followed by a roll");
        if writer.learn_past <= context.first_unchosen {
            writer.learn_past = Slot(0);
        }
        header.log = self.config.log;
        header.number = writer.last_number + 1;
        header.watermark = writer.durable_number;
        header.chain = writer.last_checksum;
        header.promised = context.promised;
        header.first_unchosen = context.first_unchosen;
        header.accepted_up_to = writer.accepted_up_to;
        header.learn_past = writer.learn_past;
        header.payload_length = payload_length as u32;
        // A buffer used before must not bring another client's bytes to this record's padding.
        buffer
            .part_mut(RECORD_HEADER + payload_length..total)
            .fill(0);
        let checksum = header.encode(open.salt, buffer.part_mut(0..RECORD_HEADER));
        let segment = open.segment;
        let half = open.size_target / 2;

        writer.context = context;
        writer.context_is_news = false;
        writer.last_number = header.number;
        writer.last_checksum = checksum;
        writer.watermark = header.watermark;
        if header.kind != RecordKind::Idle {
            writer.last_fact = header.number;
        }
        let offset = self.segments[&segment].end;
        if let Some(bytes) = header.bytes() {
            let place = match header.kind {
                RecordKind::Lost => Whereabouts::Lost,
                _ => Whereabouts::Record(RecordPlace::new(offset, total as u64)),
            };
            self.writer.undurable.push_back(Undurable {
                number: header.number,
                segment,
                stream: header.stream,
                bytes,
                place,
            });
        }
        let open = self
            .segments
            .get_mut(&segment)
            .expect("the open segment exists");
        open.end = offset + total as u64;
        if open.end >= half && self.config.segment_bytes_max > 0 {
            self.ask_for_file(segment + 1);
        }
        let shared = buffer.freeze();
        self.queue(shared.slice(0..total), segment, header.number, tag);
        Some(shared)
    }

    fn queue(&mut self, slice: Slice, segment: u64, number: u64, tag: Option<u64>) {
        if self.writer.failed {
            return;
        }
        self.writer.pending_bytes += slice.len() as u64;
        let first_unchosen = match number {
            0 => Slot(0),
            _ => self.writer.context.first_unchosen,
        };
        self.writer.pending.push_back(Pending {
            segment,
            slice,
            number,
            first_unchosen,
            tag,
        });
    }

    /// Turns what is queued into ops.
    pub(super) fn pump(&mut self) {
        if self.writer.failed || !self.writer.directory_ready {
            return;
        }
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
            last_tag,
            since: self.now,
            done: false,
        });
    }

    pub(super) fn on_directory(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => self.writer.directory_ready = true,
            Err(error) => self.fail(error),
        }
    }

    pub(super) fn on_file_for_writing(&mut self, segment: u64, result: io::Result<()>) {
        match result {
            Ok(()) => {
                if let Some(file) = self.writer.new_files.get_mut(&segment) {
                    file.ready = true;
                }
            }
            Err(error) => {
                self.writer.new_files.remove(&segment);
                let path = self.path(segment);
                let sentence = format!("{} cannot be made: {error}", path.display());
                self.fail(io::Error::new(error.kind(), sentence));
            }
        }
    }

    pub(super) fn on_written(&mut self, token: Token, result: io::Result<()>) {
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
            let took = self.now.0.saturating_sub(write.since.0);
            writer.write_times.record(took);
            writer.slowest_write = writer.slowest_write.max(took);
            writer.durable_number = writer.durable_number.max(write.last_number);
            writer.durable_first_unchosen = writer.durable_first_unchosen.max(write.first_unchosen);
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

    /// What became durable can be found and read.
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
            let extent = segment
                .extents
                .entry(fact.stream)
                .or_insert(fact.bytes.clone());
            extent.start = extent.start.min(fact.bytes.start);
            extent.end = extent.end.max(fact.bytes.end);
            if let Some(index) = &mut segment.index {
                index.apply(fact.stream, fact.bytes, fact.place);
            }
        }
    }

    /// A failed write may have lost its data, and those before it: nothing is acknowledged any
    /// more, and nothing is tried again.
    fn fail(&mut self, error: io::Error) {
        self.writer.pending.clear();
        self.writer.pending_bytes = 0;
        self.writer.in_flight.clear();
        self.writer.undurable.clear();
        if !std::mem::replace(&mut self.writer.failed, true) {
            self.events.push_back(StoreEvent::Failed(error));
        }
    }

    /// These bytes turned out to be corrupt.
    pub(super) fn append_lost(&mut self, stream: StreamName, bytes: Range<u64>) {
        if bytes.is_empty() || self.writer.failed {
            return;
        }
        if self.writer.open.is_none() {
            self.writer.lost_early.push((stream, bytes));
            return;
        }
        let mut header = RecordHeader {
            kind: RecordKind::Lost,
            stream,
            slots: SlotRange::new(Slot(0), Slot(bytes.end - bytes.start)),
            ..RecordHeader::default()
        };
        header.position.0 = bytes.start;
        let buffer = self.blocks.take();
        self.push(header, buffer, 0, self.writer.context, None);
    }

    /// Lets the next start tell a torn tail from corruption.
    pub(super) fn append_idle(&mut self) {
        let writer = &self.writer;
        let left_out = mutation::is(Mutation::IdleWatermarkLeftOut);
        if writer.failed || writer.is_busy() || writer.open.is_none() || !writer.lags() || left_out
        {
            return;
        }
        let buffer = self.blocks.take();
        let context = self.writer.context;
        self.push(RecordHeader::default(), buffer, 0, context, None);
    }

    /// What is known by now, to be written when nothing else is, if a trim waits for it.
    pub fn bear_out(&mut self, context: RecordContext) {
        if !self.lacks_word() {
            return;
        }
        let before = &mut self.writer.context;
        if context.first_unchosen > before.first_unchosen && context.promised >= before.promised {
            *before = context;
            self.writer.context_is_news = true;
        }
    }

    /// When [`Store::on_time`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let writer = &self.writer;
        let due = !writer.failed && !writer.is_busy() && writer.open.is_some() && writer.lags();
        let due = due && !mutation::is(Mutation::IdleWatermarkLeftOut);
        due.then_some(Time(writer.quiet_since.0 + IDLE_AFTER))
    }

    /// What the time is, so that the next write is known to begin now.
    pub fn set_time(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    pub fn on_time(&mut self, now: Time) {
        self.set_time(now);
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.append_idle();
        }
    }

    /// Appended and not durable.
    pub fn queued_bytes(&self) -> u64 {
        let in_flight: u64 = self.writer.in_flight.iter().map(|write| write.bytes).sum();
        self.writer.pending_bytes + in_flight
    }

    /// For the watchdog: since when the oldest write is in flight, or waits for its file.
    pub fn oldest_write_since(&self) -> Option<Time> {
        let oldest = self.writer.in_flight.front();
        oldest.map(|write| write.since).or(self.writer.held_since)
    }

    pub fn has_failed(&self) -> bool {
        self.writer.failed
    }
}
