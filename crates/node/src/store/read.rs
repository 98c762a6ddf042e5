//! Reading: from a stream's position to verified bytes.
//!
//! The search goes from the newest segment to the oldest; the first record that speaks of the byte
//! decides. Indexes of sealed segments and open files are kept within fixed bounds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;

use paxos::{StreamName, StreamPosition, Time};

use super::holdings::without;
use super::index::{RecordPlace, SegmentIndex, Whereabouts};
use super::{Awaiting, ReadBytes, ReadFailure, Store, StoreEvent};
use crate::LogId;
use crate::buffer::Buffer;
use crate::format::record::{RECORD_HEADER, RecordHeader, RecordKind};
use crate::op::{BLOCK, FileId, Op, OpenMode};
use crate::version::Speaks;

/// Reads that go on at the same time; the others wait in the order they came. Each needs one file
/// and one index at a time, so that these always fit the bounds below.
const READS_MAX: usize = 8;

/// Files open for reading.
const FILES_MAX: usize = 2 * READS_MAX;

/// Of these, while nobody reads.
const FILES_IDLE: usize = 2;

/// Indexes of sealed segments in memory.
const INDEXES_MAX: usize = READS_MAX;

#[derive(Default)]
pub(super) struct Reader {
    /// By their order of arrival.
    jobs: BTreeMap<u64, Job>,
    queued: VecDeque<u64>,
    next_job: u64,
    files: BTreeMap<u64, OpenFile>,
    /// Segments whose index is being read.
    loading: BTreeSet<u64>,
    /// Counts uses, for least recently used.
    uses: u64,
}

struct Job {
    ticket: u64,
    stream: StreamName,
    position: u64,
    /// With the kernel while `step` is `Reading`.
    buffer: Option<Buffer>,
    /// The bytes are to be sent, and need not be in memory for that.
    to_send: bool,
    /// Segments above were searched.
    search_from: u64,
    step: Step,
}

#[derive(Clone)]
enum Step {
    Queued,
    NeedsIndex(u64),
    NeedsFile(Reading),
    Reading(Reading),
}

#[derive(Clone)]
struct Reading {
    segment: u64,
    place: RecordPlace,
    /// The piece of the stream that the index says is there.
    piece: Range<u64>,
}

struct OpenFile {
    file: FileId,
    ready: bool,
    /// Who reads from it, or will as soon as it is open: it stays for them.
    users: usize,
    last_used: u64,
}

/// Bytes of a record that the device did not give.
pub(super) struct Distrusted {
    pub(super) stream: StreamName,
    bytes: Range<u64>,
    until: Time,
}

impl Distrusted {
    /// False if nothing is left.
    pub(super) fn forget_below(&mut self, position: StreamPosition) -> bool {
        self.bytes.start = self.bytes.start.max(position.0);
        !self.bytes.is_empty()
    }
}

/// Microseconds.
const DISTRUST: u64 = 5_000_000;
/// And for as long as it takes to fetch them at this rate. Bytes for a microsecond.
const DISTRUST_RATE: u64 = 4;

/// Of a segment that cannot be read, what others may hold too is fetched in such pieces as it is asked for.
const ASKED_BYTES: u64 = 1 << 20;

/// One step of a search.
enum Found {
    At(Reading),
    Nowhere,
    /// The index of this segment is needed first.
    Needs(u64),
}

impl Reader {
    pub fn is_busy(&self) -> bool {
        !self.jobs.is_empty() || !self.loading.is_empty()
    }

    pub fn take_files(&mut self) -> Vec<FileId> {
        let files = std::mem::take(&mut self.files).into_values();
        files
            .filter(|file| file.ready)
            .map(|file| file.file)
            .collect()
    }

    fn jobs_that(&self, wait: impl Fn(&Step) -> bool) -> Vec<u64> {
        let jobs = self.jobs.iter().filter(|(_, job)| wait(&job.step));
        jobs.map(|(id, _)| *id).collect()
    }
}

impl Store {
    /// Reads durable bytes of the stream from the position on: as many as its record holds.
    /// Answered by [`StoreEvent::Read`]. Bytes `to_send` may come in another buffer, which is a part
    /// of the file; from the device itself they come otherwise.
    ///
    /// Shape:  record in a segment -> `buffer`, as long as a batch's.
    /// Units:  the result's payload is at least one byte.
    /// Errors: bytes that fail their checksum are given up: the range leaves the holdings, and a
    ///         `Lost` record says so to the next start.
    pub fn read(
        &mut self,
        ticket: u64,
        stream: StreamName,
        position: StreamPosition,
        buffer: Buffer,
        to_send: bool,
    ) {
        self.reader.next_job += 1;
        let id = self.reader.next_job;
        let job = Job {
            ticket,
            stream,
            position: position.0,
            buffer: Some(buffer),
            to_send,
            search_from: u64::MAX,
            step: Step::Queued,
        };
        self.reader.jobs.insert(id, job);
        self.reader.queued.push_back(id);
        self.admit();
    }

    fn admit(&mut self) {
        while self.reader.jobs.len() - self.reader.queued.len() < READS_MAX {
            let Some(id) = self.reader.queued.pop_front() else {
                return;
            };
            self.advance(id);
        }
    }

    /// Searches, or searches on with one more index.
    fn advance(&mut self, id: u64) {
        let Some(job) = self.reader.jobs.get(&id) else {
            return;
        };
        let (stream, position) = (job.stream, StreamPosition(job.position));
        if self.holdings.held_up_to(stream, position) == position {
            return self.answer(id, Err(ReadFailure::NotHeld));
        }
        let step = match self.search(id, stream, position.0) {
            Found::Nowhere => return self.answer(id, Err(ReadFailure::NotHeld)),
            Found::Needs(segment) => Step::NeedsIndex(segment),
            Found::At(reading) => Step::NeedsFile(reading),
        };
        if let Some(job) = self.reader.jobs.get_mut(&id) {
            job.step = step.clone();
        }
        match step {
            Step::NeedsIndex(segment) => self.load_index(segment),
            Step::NeedsFile(reading) => {
                self.use_file(reading.segment);
                self.read_record(id);
            }
            Step::Queued | Step::Reading(_) => {}
        }
    }

    fn search(&mut self, id: u64, stream: StreamName, position: u64) -> Found {
        loop {
            let Some(job) = self.reader.jobs.get_mut(&id) else {
                return Found::Nowhere;
            };
            let may_hold = |segment: &super::Segment| {
                let extent = segment.extents.get(&stream);
                extent.is_some_and(|extent| extent.contains(&position))
            };
            let mut older = self.segments.range_mut(..=job.search_from).rev();
            let Some((&number, segment)) = older.find(|(_, segment)| may_hold(segment)) else {
                return Found::Nowhere;
            };
            let Some(index) = &segment.index else {
                return Found::Needs(number);
            };
            self.reader.uses += 1;
            segment.last_used = self.reader.uses;
            match index.find(stream, position) {
                Some((piece, Whereabouts::Record(place))) => {
                    return Found::At(Reading {
                        segment: number,
                        place,
                        piece,
                    });
                }
                Some((_, Whereabouts::Lost)) => return Found::Nowhere,
                // Never searched again by this read, so that few cached indexes suffice.
                None => job.search_from = number - 1,
            }
        }
    }

    /// Reads the record if its file is open.
    fn read_record(&mut self, id: u64) {
        let Some(job) = self.reader.jobs.get_mut(&id) else {
            return;
        };
        let Step::NeedsFile(reading) = job.step.clone() else {
            return;
        };
        let file = self.reader.files.get(&reading.segment);
        let Some(file) = file.filter(|file| file.ready).map(|file| file.file) else {
            return;
        };
        let length = reading.place.length() as usize;
        let offset = reading.place.offset();
        if job.to_send
            && let Some(landing) = &self.config.landing
            && let Some(view) = landing.view(crate::landing::Place { file, offset }, length)
        {
            job.buffer = Some(view);
        }
        let Some(buffer) = job.buffer.take_if(|buffer| buffer.len() >= length) else {
            self.stop_using(reading.segment);
            let short = io::Error::new(io::ErrorKind::InvalidInput, "the buffer is too short");
            return self.answer(id, Err(short.into()));
        };
        job.step = Step::Reading(reading);
        let token = self.token(Awaiting::Record { job: id });
        self.ops.push_back(Op::Read {
            token,
            file,
            offset,
            buffer,
            range: 0..length,
        });
    }

    /// One more user of the segment's file, which is opened if need be.
    fn use_file(&mut self, segment: u64) {
        self.reader.uses += 1;
        let uses = self.reader.uses;
        if let Some(file) = self.reader.files.get_mut(&segment) {
            file.last_used = uses;
            file.users += 1;
            return;
        }
        if self.reader.files.len() >= FILES_MAX {
            self.close_unused();
        }
        let file = self.file();
        let token = self.token(Awaiting::FileForReading { segment });
        self.ops.push_back(Op::Open {
            token,
            file,
            path: self.path(segment),
            mode: OpenMode::Read,
        });
        self.reader.files.insert(
            segment,
            OpenFile {
                file,
                ready: false,
                users: 1,
                last_used: uses,
            },
        );
    }

    /// The file that was not used for longest, of those that nobody uses. False if there is none.
    fn close_unused(&mut self) -> bool {
        let files = self.reader.files.iter();
        let unused = files.filter(|(_, file)| file.users == 0 && file.ready);
        let oldest = unused.min_by_key(|(_, file)| file.last_used);
        let oldest = oldest.map(|(segment, _)| *segment);
        let closed = oldest.and_then(|oldest| self.reader.files.remove(&oldest));
        closed.map(|closed| self.close_file(closed.file)).is_some()
    }

    /// Whether a read in progress needs the segment's file, or its index.
    pub(super) fn is_being_read(&self, segment: u64) -> bool {
        let file = self.reader.files.get(&segment);
        file.is_some_and(|file| file.users > 0 || !file.ready)
            || self.reader.loading.contains(&segment)
    }

    pub(super) fn forget_file(&mut self, segment: u64) {
        if let Some(file) = self.reader.files.remove(&segment) {
            self.close_file(file.file);
        }
    }

    fn stop_using(&mut self, segment: u64) {
        if let Some(file) = self.reader.files.get_mut(&segment) {
            file.users -= 1;
        }
    }

    pub(super) fn on_file_for_reading(&mut self, segment: u64, result: io::Result<()>) {
        let waiting = self.reader.jobs_that(
            |step| matches!(step, Step::NeedsFile(reading) if reading.segment == segment),
        );
        let sealed = segment - 1;
        match result {
            Ok(()) => {
                if let Some(file) = self.reader.files.get_mut(&segment) {
                    file.ready = true;
                }
                if self.reader.loading.contains(&sealed) {
                    self.read_index(sealed);
                }
                for job in waiting {
                    self.read_record(job);
                }
            }
            Err(error) => {
                self.reader.files.remove(&segment);
                self.on_unreadable_segment(segment, &error);
                for job in waiting {
                    self.answer(job, Err(again(&error).into()));
                }
                if self.reader.loading.remove(&sealed) {
                    self.on_unreadable_segment(sealed, &error);
                    self.fail_search(sealed, &error);
                }
            }
        }
        self.admit();
    }

    /// The device does not give its file, or its index: nothing in it can be read.
    fn on_unreadable_segment(&mut self, segment: u64, error: &io::Error) {
        // Of this process, and not of the device.
        if is_want_of_descriptors(error) || error.kind() == io::ErrorKind::OutOfMemory {
            return;
        }
        let extents = self.segments.get(&segment).map(|s| &s.extents);
        let mut lost = Vec::new();
        for (stream, bytes) in extents.into_iter().flatten() {
            // What another segment may hold is left to whoever wants to read it.
            let others = self.segments.iter().filter(|(other, _)| **other != segment);
            let others = others.filter_map(|(_, other)| other.extents.get(stream));
            let mut parts = vec![bytes.clone()];
            for theirs in others {
                parts = parts.iter().flat_map(|p| without(p, theirs)).collect();
            }
            lost.extend(parts.into_iter().map(|part| (*stream, part)));
        }
        let needs = |step: &Step| match step {
            Step::NeedsIndex(index) => *index == segment,
            Step::NeedsFile(reading) => reading.segment == segment,
            Step::Queued | Step::Reading(_) => false,
        };
        for id in self.reader.jobs_that(needs) {
            let job = &self.reader.jobs[&id];
            lost.push((
                job.stream,
                job.position..job.position.saturating_add(ASKED_BYTES),
            ));
        }
        for (stream, bytes) in lost {
            let range = StreamPosition(bytes.start)..StreamPosition(bytes.end);
            for range in self.holdings.held(stream, range) {
                self.events
                    .push_back(StoreEvent::Unreadable { stream, range });
            }
        }
    }

    /// Every read that waits for this index fails.
    fn fail_search(&mut self, sealed: u64, error: &io::Error) {
        let waits = |step: &Step| matches!(step, Step::NeedsIndex(segment) if *segment == sealed);
        for job in self.reader.jobs_that(waits) {
            self.answer(job, Err(again(error).into()));
        }
    }

    pub(super) fn on_record(&mut self, id: u64, buffer: Buffer, result: io::Result<usize>) {
        let Some(job) = self.reader.jobs.get_mut(&id) else {
            return;
        };
        let Step::Reading(reading) = job.step.clone() else {
            return;
        };
        let (stream, position) = (job.stream, job.position);
        let salt = self.segments.get(&reading.segment).and_then(|s| s.salt);
        let checked = result.map(|count| {
            let record = &buffer[..count.min(reading.place.length() as usize)];
            check(record, salt, self.config.log, stream, position)
        });
        job.buffer = Some(buffer);
        self.stop_using(reading.segment);
        let answer = match checked {
            Ok(Ok(payload)) => Ok(ReadBytes {
                payload,
                position: StreamPosition(position),
            }),
            Ok(Err(reason)) => {
                self.give_up(stream, &reading);
                Err(ReadFailure::Corrupt {
                    path: self.path(reading.segment),
                    offset: reading.place.offset(),
                    reason,
                })
            }
            Err(error) => {
                let piece = &reading.piece;
                let range = StreamPosition(piece.start)..StreamPosition(piece.end);
                let unreadable = StoreEvent::Unreadable { stream, range };
                self.events.push_back(unreadable);
                Err(error.into())
            }
        };
        self.answer(id, answer);
        self.admit();
    }

    /// These bytes are to come from a peer: for a while they do not count as held here. Nothing says
    /// so on disk.
    pub fn distrust(&mut self, stream: StreamName, range: Range<StreamPosition>) {
        let bytes = range.start.0..range.end.0;
        self.holdings.remove(stream, bytes.clone());
        let length = bytes.end - bytes.start;
        let until = Time(self.now.0 + DISTRUST + length / DISTRUST_RATE);
        self.distrusted.push(Distrusted {
            stream,
            bytes,
            until,
        });
    }

    /// Whether what did not come from a peer in time counts as held again: perhaps no peer has it,
    /// and the device gives it now.
    pub fn trust_again(&mut self) -> bool {
        let now = self.now;
        let over = self.distrusted.extract_if(.., |d| d.until <= now);
        let over: Vec<_> = over.collect();
        for Distrusted { stream, bytes, .. } in &over {
            self.holdings.add(*stream, bytes.clone());
        }
        !over.is_empty()
    }

    /// A record is corrupt: none of the bytes it held are held any more.
    fn give_up(&mut self, stream: StreamName, reading: &Reading) {
        let index = self
            .segments
            .get(&reading.segment)
            .and_then(|s| s.index.as_ref());
        let mut pieces = index
            .map(|index| index.pieces_in(reading.place))
            .unwrap_or_default();
        if pieces.is_empty() {
            pieces.push((stream, reading.piece.clone()));
        }
        for (stream, bytes) in pieces {
            self.lose(stream, bytes);
        }
    }

    /// These bytes are not held any more, durably so, and whoever wants them has to hear of it.
    fn lose(&mut self, stream: StreamName, bytes: Range<u64>) {
        // Two reads may meet the same record.
        let range = StreamPosition(bytes.start)..StreamPosition(bytes.end);
        if self.holdings.missing(stream, range.clone()).next() == Some(range.clone()) {
            return;
        }
        self.holdings.remove(stream, bytes.clone());
        self.distrusted.retain(|d| {
            d.stream != stream || d.bytes.end <= bytes.start || bytes.end <= d.bytes.start
        });
        self.append_lost(stream, bytes);
        self.events.push_back(StoreEvent::Lost { stream, range });
    }

    fn answer(&mut self, id: u64, result: Result<ReadBytes, ReadFailure>) {
        let Some(job) = self.reader.jobs.remove(&id) else {
            return;
        };
        // A node has many logs, and files that nobody reads are not to be all that it may open.
        while self.reader.jobs.is_empty()
            && self.reader.files.len() > FILES_IDLE
            && self.close_unused()
        {}
        let buffer = job
            .buffer
            .expect("a read that waits or is done has its buffer");
        self.events.push_back(StoreEvent::Read {
            ticket: job.ticket,
            buffer,
            result,
        });
    }

    /// Every read that waits for the index goes on, or fails, when it was read.
    fn load_index(&mut self, segment: u64) {
        if self.reader.loading.insert(segment) {
            self.use_file(segment + 1);
            self.read_index(segment);
        }
    }

    fn read_index(&mut self, segment: u64) {
        let file = self.reader.files.get(&(segment + 1));
        let Some(file) = file.filter(|file| file.ready).map(|file| file.file) else {
            return;
        };
        let sealed = self.segments.get(&segment);
        let stands = sealed.and_then(|sealed| sealed.index_stands);
        let stands = stands.expect("an index is dropped from memory only once it is on disk");
        let token = self.token(Awaiting::Index { segment });
        let length = stands.place.length() as usize;
        self.ops.push_back(Op::Read {
            token,
            file,
            offset: stands.place.offset(),
            buffer: Buffer::new(length),
            range: 0..length,
        });
    }

    pub(super) fn on_index(&mut self, segment: u64, buffer: &Buffer, result: io::Result<usize>) {
        self.reader.loading.remove(&segment);
        self.stop_using(segment + 1);
        let salt = self.segments.get(&(segment + 1)).and_then(|next| next.salt);
        let index = result.and_then(|count| {
            let invalid = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
            let record = &buffer[..count.min(buffer.len())];
            parse_index(self.config.speaks, record, salt, self.config.log).map_err(invalid)
        });
        match index {
            Ok(index) => {
                if let Some(sealed) = self.segments.get_mut(&segment) {
                    sealed.index = Some(index);
                }
                let waits = |step: &Step| matches!(step, Step::NeedsIndex(s) if *s == segment);
                for job in self.reader.jobs_that(waits) {
                    self.advance(job);
                }
                self.drop_indexes();
            }
            Err(error) => {
                match error.kind() {
                    io::ErrorKind::InvalidData => self.give_up_segment(segment),
                    _ => self.on_unreadable_segment(segment, &error),
                }
                self.fail_search(segment, &error);
            }
        }
        self.admit();
    }

    /// The index of a segment is corrupt, so that nothing in it can be found: none of its bytes are
    /// held any more, and a peer has them. (The next start reads the segment itself and finds what is
    /// sound in it.)
    fn give_up_segment(&mut self, segment: u64) {
        let Some(sealed) = self.segments.get_mut(&segment) else {
            return;
        };
        sealed.index = Some(SegmentIndex::default());
        for (stream, bytes) in std::mem::take(&mut sealed.extents) {
            self.lose(stream, bytes);
        }
    }

    /// Keeps the indexes used last, and those that are not on disk yet.
    pub(super) fn drop_indexes(&mut self) {
        let durable = self.writer.durable_number;
        let mut loaded: VecDeque<_> = self
            .segments
            .iter()
            .filter(|(_, segment)| segment.index.is_some())
            .filter(|(_, segment)| segment.index_stands.is_some_and(|s| s.number <= durable))
            .map(|(number, segment)| (segment.last_used, *number))
            .collect();
        loaded.make_contiguous().sort_unstable();
        while loaded.len() > INDEXES_MAX {
            let Some((_, number)) = loaded.pop_front() else {
                return;
            };
            if let Some(segment) = self.segments.get_mut(&number) {
                segment.index = None;
            }
        }
    }
}

/// ENFILE, EMFILE.
pub(super) fn is_want_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// An error for one more read.
fn again(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// Where in the record the stream's bytes from the position on are, if it is what it should be.
fn check(
    record: &[u8],
    salt: Option<u64>,
    log: LogId,
    stream: StreamName,
    position: u64,
) -> Result<Range<usize>, String> {
    let salt = salt.ok_or("the segment's first block is lost")?;
    let (header, _, _) =
        RecordHeader::decode(record, Some(salt)).map_err(|error| error.to_string())?;
    let bytes = header.bytes().unwrap_or_default();
    let holds = matches!(header.kind, RecordKind::Accept | RecordKind::Bytes)
        && header.log == log
        && header.stream == stream
        && bytes.contains(&position);
    if !holds {
        return Err("another record stands here".to_owned());
    }
    let end = RECORD_HEADER + header.payload_length as usize;
    let payload = record.get(RECORD_HEADER..end).unwrap_or_default();
    if !header.payload_is_right(payload) {
        return Err("the payload's checksum is wrong".to_owned());
    }
    Ok(RECORD_HEADER + (position - bytes.start) as usize..end)
}

pub(super) fn parse_index(
    speaks: Speaks,
    record: &[u8],
    salt: Option<u64>,
    log: LogId,
) -> Result<SegmentIndex, String> {
    let salt = salt.ok_or("the segment's first block is lost")?;
    let (header, _, _) =
        RecordHeader::decode(record, Some(salt)).map_err(|error| error.to_string())?;
    let end = RECORD_HEADER + header.payload_length as usize;
    let payload = record.get(RECORD_HEADER..end).unwrap_or_default();
    if header.kind != RecordKind::Index || header.log != log || !header.payload_is_right(payload) {
        return Err("the index is corrupt".to_owned());
    }
    SegmentIndex::decode(speaks, payload).map_err(|error| error.to_string())
}

/// A segment begins with one block of its own.
pub(super) const FIRST_RECORD: u64 = BLOCK as u64;
