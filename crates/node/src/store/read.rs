//! Reading: from a stream's position to verified bytes.
//!
//! The search goes from the newest segment to the oldest; the first record that speaks of the byte
//! decides. Indexes of sealed segments and open files are kept within fixed bounds.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

use paxos::{StreamName, StreamPosition};

use super::index::{Place, RecordPlace, SegmentIndex};
use super::{Awaiting, ReadBytes, ReadFailure, Store, StoreEvent};
use crate::LogId;
use crate::buffer::Buffer;
use crate::format::record::{RECORD_HEADER, RecordHeader, RecordKind};
use crate::op::{BLOCK, FileId, Op, OpenMode};

/// Files open for reading.
const FILES_MAX: usize = 16;

/// Indexes of sealed segments in memory.
const INDEXES_MAX: usize = 8;

#[derive(Default)]
pub(super) struct Reader {
    jobs: BTreeMap<u64, Job>,
    next_job: u64,
    files: BTreeMap<u64, OpenFile>,
    /// Segments whose index is being read.
    loading: BTreeMap<u64, Loading>,
    /// Counts uses, for least recently used.
    uses: u64,
}

struct Job {
    ticket: u64,
    stream: StreamName,
    position: u64,
    buffer: Option<Buffer>,
    /// Segments above were searched.
    search_from: u64,
    reading: Option<Reading>,
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
    /// Reads in flight.
    readers: usize,
    last_used: u64,
}

enum Loading {
    NeedsFile,
    Reading,
}

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
}

impl Store {
    /// Reads durable bytes of the stream from the position on: as many as its record holds.
    /// Answered by [`StoreEvent::Read`].
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
    ) {
        self.reader.next_job += 1;
        let job = self.reader.next_job;
        self.reader.jobs.insert(
            job,
            Job {
                ticket,
                stream,
                position: position.0,
                buffer: Some(buffer),
                search_from: u64::MAX,
                reading: None,
            },
        );
        self.advance(job);
    }

    fn advance(&mut self, id: u64) {
        let Some(job) = self.reader.jobs.get(&id) else {
            return;
        };
        if job.reading.is_some() {
            return;
        }
        let (stream, position) = (job.stream, job.position);
        let from = StreamPosition(position);
        if self.holdings.held_up_to(stream, from) == from {
            return self.answer(id, Err(ReadFailure::NotHeld));
        }
        match self.search(id, stream, position) {
            Found::Nowhere => self.answer(id, Err(ReadFailure::NotHeld)),
            Found::Needs(segment) => self.load_index(segment),
            Found::At(reading) => self.read_record(id, reading),
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
                Some((piece, Place::Record(place))) => {
                    return Found::At(Reading {
                        segment: number,
                        place,
                        piece,
                    });
                }
                Some((_, Place::Lost)) => return Found::Nowhere,
                // Never searched again by this read, so that few cached indexes suffice.
                None => job.search_from = number - 1,
            }
        }
    }

    fn read_record(&mut self, id: u64, reading: Reading) {
        let length = reading.place.length() as usize;
        let Some(job) = self.reader.jobs.get_mut(&id) else {
            return;
        };
        if job
            .buffer
            .as_ref()
            .is_some_and(|buffer| buffer.len() < length)
        {
            let short = io::Error::new(io::ErrorKind::InvalidInput, "the buffer is too short");
            return self.answer(id, Err(short.into()));
        }
        let Some(file) = self.file_for_reading(reading.segment) else {
            return;
        };
        let Some(job) = self.reader.jobs.get_mut(&id) else {
            return;
        };
        let Some(buffer) = job.buffer.take() else {
            return;
        };
        job.reading = Some(reading.clone());
        let token = self.token(Awaiting::Record { job: id });
        self.ops.push_back(Op::Read {
            token,
            file,
            offset: reading.place.offset(),
            buffer,
            range: 0..length,
        });
    }

    /// The file if it is open, counting one more reader; otherwise it will be opened as soon as
    /// there is room, and whoever waits is called again.
    fn file_for_reading(&mut self, segment: u64) -> Option<FileId> {
        self.reader.uses += 1;
        let uses = self.reader.uses;
        if let Some(file) = self.reader.files.get_mut(&segment) {
            file.last_used = uses;
            if !file.ready {
                return None;
            }
            file.readers += 1;
            return Some(file.file);
        }
        if self.reader.files.len() >= FILES_MAX {
            let idle = self
                .reader
                .files
                .iter()
                .filter(|(_, file)| file.ready && file.readers == 0);
            let (&oldest, _) = idle.min_by_key(|(_, file)| file.last_used)?;
            let closed = self.reader.files.remove(&oldest)?;
            self.close_file(closed.file);
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
                readers: 0,
                last_used: uses,
            },
        );
        None
    }

    pub(super) fn on_file_for_reading(&mut self, segment: u64, result: io::Result<()>) {
        match result {
            Ok(()) => {
                if let Some(file) = self.reader.files.get_mut(&segment) {
                    file.ready = true;
                }
                self.advance_all();
            }
            Err(error) => {
                self.reader.files.remove(&segment);
                self.fail_readers_of(segment, &error);
            }
        }
    }

    fn finish_reading(&mut self, segment: u64) {
        if let Some(file) = self.reader.files.get_mut(&segment) {
            file.readers -= 1;
        }
    }

    /// Something came free, or arrived: all that wait try again, in the order they came.
    fn advance_all(&mut self) {
        let loading: Vec<_> = self.reader.loading.keys().copied().collect();
        for segment in loading {
            self.load_index(segment);
        }
        let jobs: Vec<_> = self.reader.jobs.keys().copied().collect();
        for job in jobs {
            self.advance(job);
        }
    }

    /// The file cannot be opened or the index cannot be read: every read that needs it fails.
    fn fail_readers_of(&mut self, segment: u64, error: &io::Error) {
        self.reader
            .loading
            .retain(|sealed, _| *sealed != segment && *sealed + 1 != segment);
        let jobs: Vec<_> = self.reader.jobs.keys().copied().collect();
        for id in jobs {
            let Some(job) = self.reader.jobs.get(&id) else {
                continue;
            };
            if job.reading.is_some() {
                continue;
            }
            let (stream, position) = (job.stream, job.position);
            let waits_for = match self.search(id, stream, position) {
                Found::At(reading) => reading.segment == segment,
                Found::Needs(sealed) => sealed == segment || sealed + 1 == segment,
                Found::Nowhere => false,
            };
            if waits_for {
                let error = io::Error::new(error.kind(), error.to_string());
                self.answer(id, Err(error.into()));
            }
        }
        self.advance_all();
    }

    pub(super) fn on_record(&mut self, id: u64, buffer: Buffer, result: io::Result<usize>) {
        let Some(job) = self.reader.jobs.get_mut(&id) else {
            return;
        };
        let Some(reading) = job.reading.clone() else {
            return;
        };
        let (stream, position) = (job.stream, job.position);
        let checked = result.map(|count| {
            let salt = self
                .segments
                .get(&reading.segment)
                .and_then(|segment| segment.salt);
            let record = &buffer[..count.min(reading.place.length() as usize)];
            check(record, salt, self.config.log, stream, position)
        });
        job.buffer = Some(buffer);
        self.finish_reading(reading.segment);
        match checked {
            Ok(Ok(payload)) => {
                let position = StreamPosition(position);
                self.answer(id, Ok(ReadBytes { payload, position }));
            }
            Ok(Err(reason)) => {
                self.give_up(stream, &reading);
                let failure = ReadFailure::Corrupt {
                    path: self.path(reading.segment),
                    offset: reading.place.offset(),
                    reason,
                };
                self.answer(id, Err(failure));
            }
            Err(error) => self.answer(id, Err(error.into())),
        }
        self.advance_all();
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
            // Two reads may meet the same record.
            let range = StreamPosition(bytes.start)..StreamPosition(bytes.end);
            if self.holdings.missing(stream, range.clone()).next() == Some(range.clone()) {
                continue;
            }
            self.holdings.remove(stream, bytes.clone());
            self.append_lost(stream, bytes);
            self.events.push_back(StoreEvent::Lost { stream, range });
        }
    }

    fn answer(&mut self, id: u64, result: Result<ReadBytes, ReadFailure>) {
        let Some(job) = self.reader.jobs.remove(&id) else {
            return;
        };
        let buffer = job
            .buffer
            .expect("a read that waits or is done has its buffer");
        self.events.push_back(StoreEvent::Read {
            ticket: job.ticket,
            buffer,
            result,
        });
    }

    fn load_index(&mut self, segment: u64) {
        if matches!(self.reader.loading.get(&segment), Some(Loading::Reading)) {
            return;
        }
        let stands = self
            .segments
            .get(&segment)
            .and_then(|segment| segment.index_stands);
        let stands = stands.expect("an index is dropped from memory only once it is on disk");
        self.reader.loading.insert(segment, Loading::NeedsFile);
        let Some(file) = self.file_for_reading(segment + 1) else {
            return;
        };
        self.reader.loading.insert(segment, Loading::Reading);
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
        self.finish_reading(segment + 1);
        let index = result.and_then(|count| {
            let salt = self.segments.get(&(segment + 1)).and_then(|next| next.salt);
            let invalid = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
            parse_index(&buffer[..count.min(buffer.len())], salt, self.config.log).map_err(invalid)
        });
        match index {
            Ok(index) => {
                self.reader.uses += 1;
                let uses = self.reader.uses;
                if let Some(sealed) = self.segments.get_mut(&segment) {
                    sealed.index = Some(index);
                    sealed.last_used = uses;
                }
                self.advance_all();
                self.drop_indexes();
            }
            Err(error) => self.fail_readers_of(segment, &error),
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
    SegmentIndex::decode(payload).map_err(|error| error.to_string())
}

/// A segment begins with one block of its own.
pub(super) const FIRST_RECORD: u64 = BLOCK as u64;
