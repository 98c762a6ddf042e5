//! One log's sequence of durable records.
//!
//! ```text
//!  append ──▶ pending ──▶ one write in flight ──▶ durable ──▶ index, holdings, StoreEvent::Durable
//!  roll   ──▶ a new segment: [header │ checkpoint │ index of the one before │ …
//!  read   ──▶ holdings ──▶ index of a segment ──▶ open file ──▶ record, verified ──▶ StoreEvent::Read
//! ```
//!
//! Every durable fact of a log's replica is a record in one append-only sequence, so one write makes
//! bytes *and* their acceptance durable, and a start reads one sequence. A [`Store`] makes no system
//! call: it hands out [`Op`]s and is handed their [`Completion`]s. docs/data-files.md draws the
//! bytes and goes through every point at which a crash can happen.
//!
//! The meaning of a directory for a start is decided in [`recovery`].
//!
//! The contract: [`Store::recover`] (or [`Store::replay`], which feeds the engine's recovery), then [`Store::go_on`] or
//! [`Store::roll`], then anything; or [`Store::create`].
//!
//! ```text
//! last_number >= written (in flight) >= durable_number >= the last record's watermark
//! ```

#![forbid(unsafe_code)]

mod calendar;
mod extents;
mod histogram;
mod holdings;
mod index;
mod manifest;
mod offline;
pub mod past;
mod read;
mod recover;
pub mod recovery;
mod replay;
mod scan;
mod trim;
mod verify;
mod write;

/// The clock that stamps segments with the second at which they were begun.
pub use calendar::Calendar;
/// The duration of durable writes.
pub use histogram::{BOUNDS_US, Histogram};
/// The bytes of streams that are durable here.
pub use holdings::{Holdings, without};
/// The places of a segment's bytes in it.
pub use index::SegmentIndex;
/// The owner of a directory and its logs; and the names of the small files beside them.
pub use manifest::{LOCK_FILE, MANIFEST_FILE, Manifest, ManifestError, ManifestLog, PEERS_FILE};
/// A log's output, read from a directory that no process serves.
pub use offline::{Lacks, OfflineError, OfflinePiece, ReadOffline};
/// The findings of a start.
pub use read::Reach;
pub use recover::{RecoverError, RecoveredRecord, RecoveryReport, recovered};
/// The findings of a start, fed to the engine's recovery.
pub use replay::{Replay, ReplayError};
pub use scan::Corruption;
/// The faults of a directory that no process serves.
pub use verify::{LogReport, Problem, StreamReport, VerifyError, VerifyReport, ranges, verify};

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use formats::past::End;
use formats::segment::Birth;
use formats::version::{self, Speaks};
use formats::{Identity, LogId};
use ops::{BLOCK, Buffer, Completion, FileId, Landing, Op, Pool, Token};
use paxos::{
    Checkpoint, Digest, PromisedTerm, Slot, SlotRange, StreamName, StreamPosition, Term, Time,
    Value,
};
use thiserror::Error;

use extents::Extents;

#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The directory of this log: `log-<id>` in the node's directory.
    pub directory: PathBuf,
    pub identity: Identity,
    pub log: LogId,
    /// The size of the first segment; sizes double from segment to segment.
    pub segment_bytes_first: u64,
    pub segment_bytes_max: u64,
    /// Drawn anew at each start: the salts of the segments come from it.
    pub salt_seed: u64,
    pub write_bytes_max: usize,
    pub writes_in_flight_max: usize,
    pub calendar: Calendar,
    /// The version of the segments to come ([`Store::write_in`]).
    pub version: u8,
    pub speaks: Speaks,
    /// The landing, if bytes may be received into segments.
    pub landing: Option<Arc<dyn Landing>>,
    /// The blocks of short records, which the stores of a node share: a log at rest holds none.
    pub blocks: Pool,
}

impl StoreConfig {
    pub fn new(directory: PathBuf, identity: Identity, log: LogId, salt_seed: u64) -> StoreConfig {
        StoreConfig {
            directory,
            identity,
            log,
            segment_bytes_first: 1 << 20,
            segment_bytes_max: 128 << 20,
            salt_seed,
            write_bytes_max: 4 << 20,
            writes_in_flight_max: 1,
            calendar: Calendar::default(),
            version: version::FIRST,
            speaks: Speaks::THIS,
            landing: None,
            blocks: Pool::new(BLOCK, 64),
        }
    }
}

/// The context that every record carries beside its own fact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordContext {
    /// The promise, including this record's own effect.
    pub promised: PromisedTerm,
    pub first_unchosen: Slot,
}

#[derive(Debug)]
pub enum NewRecord {
    Accept {
        term: Term,
        slots: SlotRange,
        value: Value,
        digest: Digest,
        /// The payload of content: the bytes at `buffer[RECORD_HEADER..][..slots.len()]`; without it, the
        /// bytes are held already. Other values have none.
        payload: Option<Buffer>,
    },
    Promise(Checkpoint),
    State(Checkpoint),
    /// Backfilled content at `buffer[RECORD_HEADER..][..length]`.
    Bytes {
        stream: StreamName,
        position: StreamPosition,
        length: usize,
        digest: Digest,
        buffer: Buffer,
    },
}

#[derive(Debug)]
pub enum StoreEvent {
    /// Everything appended up to and including this tag.
    Durable { tag: u64 },
    Read {
        ticket: u64,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    },
    /// A write failed. Nothing more is written; records that were not reported durable may be lost.
    Failed(io::Error),
    /// The record that held these bytes, or the index that led to it, is corrupt: they are not held any
    /// more.
    Lost {
        stream: StreamName,
        range: Range<StreamPosition>,
    },
    /// The device did not give a record that holds these bytes, this time or for good. They count
    /// as held until [`Store::distrust`].
    Unreadable {
        stream: StreamName,
        range: Range<StreamPosition>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBytes {
    /// The bytes in the buffer; the first is the one asked for.
    pub payload: Range<usize>,
    pub position: StreamPosition,
}

#[derive(Debug, Error)]
pub enum ReadFailure {
    #[error("this node does not hold these bytes")]
    NotHeld,
    #[error("{path} is corrupt at {offset}: {reason}; the bytes have to come from a peer")]
    Corrupt {
        path: PathBuf,
        offset: u64,
        reason: String,
    },
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

pub struct Store {
    config: StoreConfig,
    now: Time,
    ops: VecDeque<Op>,
    events: VecDeque<StoreEvent>,
    awaiting: BTreeMap<Token, Awaiting>,
    next_token: u32,
    next_file: u64,
    /// Every segment that exists, the open one last.
    segments: BTreeMap<u64, Segment>,
    holdings: Holdings,
    distrusted: Vec<read::Distrusted>,
    writer: write::Writer,
    reader: read::Reader,
    trimmer: trim::Trimmer,
    /// The births of the segments that a recovery found, oldest first.
    births: Vec<Birth>,
    /// The version of the last segment, if a recovery found that the log may go on in it.
    resting: Option<u8>,
    /// For records without a large payload.
    blocks: Pool,
}

/// The part of a segment that stays in memory.
struct Segment {
    /// Unknown if its first block was lost and no record could be read.
    salt: Option<u64>,
    /// Its records end here.
    end: u64,
    extents: Extents,
    /// The index, loaded on demand, once it is durable in the successor.
    index: Option<SegmentIndex>,
    index_stands: Option<IndexStands>,
    /// Its index is corrupt: the next start finds its bytes.
    unsearchable: bool,
    last_used: u64,
}

/// The place of a segment's index: a record of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexStands {
    number: u64,
    place: index::RecordPlace,
}

/// The meaning of a completion.
enum Awaiting {
    Directory,
    FileForWriting {
        segment: u64,
        file: FileId,
    },
    Write,
    FileForReading {
        segment: u64,
    },
    Index {
        segment: u64,
    },
    Record {
        job: u64,
    },
    Head,
    Closed,
    Removed,
    SpareRemoved,
    /// A trimmed segment's file becomes a spare.
    Spared {
        spare: trim::Spare,
    },
    /// A spare becomes the file of this segment.
    SpareTaken {
        segment: u64,
    },
    /// Tidying up: an error changes nothing.
    Tidied,
}

impl Store {
    /// Makes a new log. Its first records are durable once something appended later is.
    ///
    /// The directory holds no segment: the remains of an earlier creation that crashed were put aside with
    /// their directory, since no manifest lists it.
    pub fn create(config: StoreConfig, checkpoint: &Checkpoint) -> Store {
        let mut store = Store::empty(config);
        store.writer.directory_ready = false;
        let token = store.token(Awaiting::Directory);
        store.ops.push_back(Op::CreateDirectory {
            token,
            path: store.config.directory.clone(),
        });
        let context = RecordContext {
            promised: checkpoint.promised,
            first_unchosen: checkpoint.state.next,
        };
        store.roll(checkpoint, context);
        store
    }

    fn empty(config: StoreConfig) -> Store {
        Store {
            now: Time::ZERO,
            ops: VecDeque::new(),
            events: VecDeque::new(),
            awaiting: BTreeMap::new(),
            next_token: 0,
            next_file: 0,
            segments: BTreeMap::new(),
            holdings: Holdings::default(),
            distrusted: Vec::new(),
            writer: write::Writer::default(),
            reader: read::Reader::default(),
            trimmer: trim::Trimmer::default(),
            births: Vec::new(),
            resting: None,
            blocks: config.blocks.clone(),
            config,
        }
    }

    pub fn poll_op(&mut self) -> Option<Op> {
        self.pump();
        self.ops.pop_front()
    }

    pub fn poll_event(&mut self) -> Option<StoreEvent> {
        self.events.pop_front()
    }

    /// Hands over a completion whose token has this log's number.
    pub fn on_completion(&mut self, now: Time, completion: Completion) {
        self.now = self.now.max(now);
        match completion {
            Completion::Done { token, result } => {
                let Some(awaiting) = self.awaiting.remove(&token) else {
                    return;
                };
                match awaiting {
                    Awaiting::Directory => self.on_directory(result),
                    Awaiting::FileForWriting { segment, file } => {
                        self.on_file_for_writing(segment, file, result);
                    }
                    Awaiting::Write => self.on_written(token, result),
                    Awaiting::FileForReading { segment } => {
                        self.on_file_for_reading(segment, result);
                    }
                    Awaiting::Removed => self.on_removed(result),
                    Awaiting::SpareRemoved => self.on_spare_removed(),
                    Awaiting::Spared { spare } => self.on_spared(spare, result),
                    Awaiting::SpareTaken { segment } => self.on_spare_taken(segment, result),
                    Awaiting::Index { .. } | Awaiting::Record { .. } | Awaiting::Head => {}
                    Awaiting::Closed | Awaiting::Tidied => {}
                }
            }
            Completion::Read {
                token,
                buffer,
                result,
                ..
            } => match self.awaiting.remove(&token) {
                Some(Awaiting::Index { segment }) => self.on_index(segment, &buffer, result),
                Some(Awaiting::Record { job }) => self.on_record(job, buffer, result),
                Some(Awaiting::Head) => self.on_head(&buffer, result),
                _ => {}
            },
            _ => {}
        }
    }

    /// Durable bytes of every stream.
    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// The number of the last record that was appended, or found.
    pub fn last_number(&self) -> u64 {
        self.writer.tail.number()
    }

    /// The end that the next start finds at least, whatever happens to this one.
    pub fn durable_end(&self) -> End {
        self.writer.durable.end()
    }

    /// Whether all that was appended is durable.
    pub fn is_all_durable(&self) -> bool {
        !self.writer.failed && self.writer.durable.number() == self.writer.tail.number()
    }

    /// The slot below which corruption may have taken acceptances: until everything below is known chosen,
    /// the replica answers no prepare.
    pub fn learn_past(&self) -> Option<Slot> {
        Some(self.writer.tail.learn_past()).filter(|slot| slot.0 > 0)
    }

    /// Bytes that the files' records take, and the spares.
    pub fn disk_bytes(&self) -> u64 {
        let records: u64 = self.segments.values().map(|segment| segment.end).sum();
        records + self.trimmer.spare_bytes()
    }

    /// The times when the segments that a recovery found were made.
    pub fn births(&self) -> &[Birth] {
        &self.births
    }

    /// The number of segments of this process that were written into the file of a trimmed one.
    pub fn files_reused(&self) -> u64 {
        self.trimmer.reused
    }

    /// Records that stand where they were received, and places that something else had to have.
    pub fn landed(&self) -> (u64, u64) {
        self.writer.landings.counts()
    }

    /// The durations of its durable writes.
    pub fn write_times(&self) -> &Histogram {
        self.writer.times.all()
    }

    /// The slowest write since this was last asked for.
    pub fn take_slowest_write(&mut self) -> Duration {
        self.writer.times.take_slowest()
    }

    fn token(&mut self, awaiting: Awaiting) -> Token {
        self.next_token = self.next_token.wrapping_add(1);
        let token = Token((self.config.log.0 as u64) << 32 | self.next_token as u64);
        self.awaiting.insert(token, awaiting);
        token
    }

    fn file(&mut self) -> FileId {
        self.next_file += 1;
        FileId((self.config.log.0 as u64) << 40 | self.next_file)
    }

    fn path(&self, segment: u64) -> PathBuf {
        let name = formats::segment::file_name(segment);
        self.config.directory.join(name)
    }

    fn close_file(&mut self, file: FileId) {
        let token = self.token(Awaiting::Closed);
        self.ops.push_back(Op::CloseFile { token, file });
    }

    /// Writes the facts that the next start should know, then closes the files. Nothing may be appended or
    /// read afterwards.
    pub fn close(&mut self) {
        self.writer.closing = true;
        self.append_idle();
    }

    /// Whether nothing is in flight any more, after [`Store::close`].
    pub fn is_closed(&mut self) -> bool {
        let busy = self.writer.is_busy() && !self.writer.failed;
        if !self.writer.closing || busy || self.reader.is_busy() || self.trimmer.is_busy() {
            return false;
        }
        self.close_files();
        self.ops.is_empty() && self.awaiting.is_empty()
    }

    fn close_files(&mut self) {
        let mut files = self.writer.take_files();
        files.extend(self.reader.take_files());
        for file in files {
            self.close_file(file);
        }
    }
}
