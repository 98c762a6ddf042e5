//! Reading: from a stream's position to verified bytes.
//!
//! The search goes from the newest segment to the oldest; the first record that speaks of the byte
//! decides. Indexes of sealed segments and open files are kept within fixed bounds.

mod files;
mod head;
mod indexes;
mod run;
mod unreadable;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;

use formats::LogId;
use formats::record::{RECORD_HEADER, RecordHeader, RecordKind};
use ops::{BLOCK, Buffer, Op};
use paxos::{StreamName, StreamPosition};

use self::files::OpenFile;
pub(super) use self::files::is_want_of_descriptors;
pub(super) use self::head::Head;
pub(super) use self::indexes::parse_index;
pub use self::run::Reach;
use self::run::{Part, gather};
pub(super) use self::unreadable::Distrusted;
use super::index::Whereabouts;
use super::{Awaiting, ReadBytes, ReadFailure, Store, StoreEvent};

/// The most reads that go on at the same time; the others wait in the order they came.
const READS_MAX: usize = 8;

#[derive(Default)]
pub(super) struct Reader {
    /// The reads, by their order of arrival.
    jobs: BTreeMap<u64, Job>,
    queued: VecDeque<u64>,
    next_job: u64,
    files: BTreeMap<u64, OpenFile>,
    /// Segments whose index is being read.
    loading: BTreeSet<u64>,
    /// Counts uses, for least recently used.
    uses: u64,
    pub head: Head,
}

struct Job {
    ticket: u64,
    stream: StreamName,
    position: u64,
    /// The buffer, which is with the kernel while `step` is `Reading`.
    buffer: Option<Buffer>,
    reach: Reach,
    /// The first segment still to be searched; those above were.
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
    first: Part,
    /// The records right behind it, which go on with its bytes.
    run: Vec<Part>,
}

impl Reading {
    /// In the file.
    fn bytes(&self) -> Range<u64> {
        let last = self.run.last().unwrap_or(&self.first).place;
        self.first.place.offset()..last.offset() + last.length()
    }
}

/// One step of a search.
enum Found {
    At(Reading),
    Nowhere,
    /// The search needs the index of this segment first.
    Needs(u64),
}

impl Reader {
    pub fn is_busy(&self) -> bool {
        !self.jobs.is_empty() || !self.loading.is_empty() || self.head.is_busy()
    }

    fn jobs_that(&self, wait: impl Fn(&Step) -> bool) -> Vec<u64> {
        let jobs = self.jobs.iter().filter(|(_, job)| wait(&job.step));
        jobs.map(|(id, _)| *id).collect()
    }
}

impl Store {
    /// Reads durable bytes of the stream from the position on: as many as their record holds, and those right behind it if
    /// more are of use. Answered by [`StoreEvent::Read`]. Bytes `to_send` may come in another buffer, which is a part of the
    /// file; from the device itself they come otherwise.
    ///
    /// Shape:  records in a segment -> `buffer`, as long as a batch's.
    /// Units:  the result's payload is at least one byte.
    /// Errors: bytes that fail their checksum are given up: the range leaves the holdings, and a
    ///         `Lost` record says so to the next start.
    pub fn read(
        &mut self,
        ticket: u64,
        stream: StreamName,
        position: StreamPosition,
        buffer: Buffer,
        reach: Reach,
    ) {
        self.reader.next_job += 1;
        let id = self.reader.next_job;
        let job = Job {
            ticket,
            stream,
            position: position.0,
            buffer: Some(buffer),
            reach,
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
            let mut older = self.segments.range_mut(..=job.search_from).rev();
            let may_hold = older.find(|(_, segment)| {
                !segment.unsearchable && segment.extents.may_hold(stream, position)
            });
            let Some((&number, segment)) = may_hold else {
                return Found::Nowhere;
            };
            let Some(index) = &segment.index else {
                return Found::Needs(number);
            };
            self.reader.uses += 1;
            segment.last_used = self.reader.uses;
            match index.find(stream, position) {
                Some((piece, Whereabouts::Record(place))) => {
                    let (reach, first) = (job.reach, Part { place, piece });
                    let room = job.buffer.as_ref().map_or(0, |buffer| buffer.len());
                    let run = self.run_behind(number, stream, position, &first, reach, room as u64);
                    return Found::At(Reading {
                        segment: number,
                        first,
                        run,
                    });
                }
                Some((_, Whereabouts::Lost)) => return Found::Nowhere,
                // This read never searches the segment again, so that few cached indexes suffice.
                None => job.search_from = number - 1,
            }
        }
    }

    /// Reads the record if its file is open.
    fn read_record(&mut self, id: u64) {
        let step = self.reader.jobs.get(&id).map(|job| job.step.clone());
        let Some(Step::NeedsFile(reading)) = step else {
            return;
        };
        let Some(file) = self.reader.file(reading.segment) else {
            return;
        };
        let Some(job) = self.reader.jobs.get_mut(&id) else {
            return;
        };
        let Range { start: offset, end } = reading.bytes();
        let length = (end - offset) as usize;
        if job.reach.to_send
            && reading.run.is_empty()
            && let Some(landing) = &self.config.landing
            && let Some(view) = landing.view(ops::Place { file, offset }, length)
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

    pub(super) fn on_record(&mut self, id: u64, buffer: Buffer, result: io::Result<usize>) {
        let Some(job) = self.reader.jobs.get_mut(&id) else {
            return;
        };
        let Step::Reading(reading) = job.step.clone() else {
            return;
        };
        if result.is_err() && !reading.run.is_empty() {
            // One of several cannot be read: the first alone, perhaps.
            let run = Vec::new();
            job.step = Step::NeedsFile(Reading { run, ..reading });
            job.buffer = Some(buffer);
            return self.read_record(id);
        }
        let (stream, position) = (job.stream, job.position);
        let salt = self.segments.get(&reading.segment).and_then(|s| s.salt);
        let mut buffer = buffer;
        let checked = result.map(|count| {
            let log = self.config.log;
            let check = |record: &[u8], position| check(record, salt, log, stream, position);
            let first = &reading.first;
            let length = first.place.length() as usize;
            let bytes = check(&buffer[..count.min(length)], position)?;
            let end = match bytes.len() as u64 == first.piece.end - position {
                true => gather(&mut buffer[..count], bytes.end, first, &reading.run, check),
                false => bytes.end,
            };
            Ok(bytes.start..end)
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
                    offset: reading.first.place.offset(),
                    reason,
                })
            }
            Err(error) => {
                self.say_unreadable(stream, reading.first.piece.clone());
                Err(error.into())
            }
        };
        self.answer(id, answer);
        self.admit();
    }

    fn answer(&mut self, id: u64, result: Result<ReadBytes, ReadFailure>) {
        let Some(job) = self.reader.jobs.remove(&id) else {
            return;
        };
        self.close_idle_files();
        let buffer = job
            .buffer
            .expect("a read that waits or is done has its buffer");
        self.events.push_back(StoreEvent::Read {
            ticket: job.ticket,
            buffer,
            result,
        });
    }
}

/// An error for one more read.
fn again(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// The place in the record of the stream's bytes from the position on, if the record is what it should be.
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

/// A segment begins with one block of its own.
pub(super) const FIRST_RECORD: u64 = BLOCK as u64;
