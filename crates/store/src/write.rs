//! Appending: records become writes, writes become durable, in order.

mod append;
mod go_on;
mod idle;
mod issue;
mod landing;
mod roll;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use formats::past::End;
use ops::{FileId, Slice, Token};
use paxos::{Slot, StreamName, Time};

use super::index::Whereabouts;
use super::trim::Spare;
use super::{RecordContext, Store};
use crate::Histogram;

pub(super) struct Writer {
    /// The open segment; `None` after a recovery until it is known where the log goes on.
    open: Option<Open>,
    pub last_number: u64,
    pub last_checksum: u32,
    pub durable_number: u64,
    /// The watermark in the last record.
    watermark: u64,
    /// The last record that is more than a watermark.
    last_fact: u64,
    pub accepted_up_to: Slot,
    pub learn_past: Slot,
    pub context: RecordContext,
    /// The slot below which durable records say that all are chosen.
    pub durable_first_unchosen: Slot,
    /// The promise and the acceptances, by the newest durable record.
    pub durable_end: End,
    /// Whether the context says more than the last record, and the next start should know it.
    context_is_news: bool,
    pending: VecDeque<Pending>,
    pending_bytes: u64,
    in_flight: VecDeque<InFlight>,
    /// The time since which records wait for their file to be made, and no write is in flight.
    held_since: Option<Time>,
    writing: Option<Writing>,
    new_files: BTreeMap<u64, NewFile>,
    /// Facts about bytes, waiting for their record to be durable.
    undurable: VecDeque<Undurable>,
    reserved: Option<landing::Reserved>,
    /// Records that stand where they were received, and places that something else had to have.
    pub landed: u64,
    pub places_given_up: u64,
    /// Lost ranges met before it was known where the log goes on.
    lost_early: Vec<(StreamName, Range<u64>)>,
    quiet_since: Time,
    pub directory_ready: bool,
    pub failed: bool,
    pub closing: bool,
    pub write_times: Histogram,
    pub slowest_write: Duration,
}

/// The segment that records are appended to.
struct Open {
    segment: u64,
    /// The version of all in it.
    version: u8,
    salt: u64,
    size_target: u64,
}

/// A record, or a segment's first block, that no write carries yet.
struct Pending {
    segment: u64,
    slice: Slice,
    /// The record's number; 0 for a segment's first block.
    number: u64,
    first_unchosen: Slot,
    end: End,
    tag: Option<u64>,
}

struct InFlight {
    token: Token,
    bytes: u64,
    last_number: u64,
    first_unchosen: Slot,
    end: End,
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
    /// The offset at which writing begins.
    offset: u64,
    /// The spare that becomes this segment's file; else a new one is made.
    spare: Option<Spare>,
    /// Whether the file exists: a spare has its name by now, or it was the last one before this start.
    exists: bool,
    asked: bool,
    ready: bool,
    /// The time when the file is asked for again, if the process had too many open files.
    again_at: Option<Time>,
    told: bool,
}

struct Undurable {
    number: u64,
    segment: u64,
    stream: StreamName,
    bytes: Range<u64>,
    place: Whereabouts,
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
            durable_end: End::default(),
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
            quiet_since: Time::ZERO,
            directory_ready: true,
            failed: false,
            closing: false,
            write_times: Histogram::default(),
            slowest_write: Duration::ZERO,
        }
    }
}

impl Writer {
    /// The segment that records are written to.
    pub fn open_segment(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.segment)
    }

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

    /// The time when a file is asked for again.
    fn file_due(&self) -> Option<Time> {
        self.new_files.values().filter_map(|new| new.again_at).min()
    }

    /// Whether the last record is a fact that no watermark covers, or says less than is known.
    fn lags(&self) -> bool {
        self.last_fact > self.watermark || self.context_is_news
    }
}

impl Store {
    /// The bytes that are appended and not durable.
    pub fn queued_bytes(&self) -> u64 {
        let in_flight: u64 = self.writer.in_flight.iter().map(|write| write.bytes).sum();
        self.writer.pending_bytes + in_flight
    }

    /// The time, for the watchdog, since which the oldest write is in flight, or waits for its file.
    pub fn oldest_write_since(&self) -> Option<Time> {
        let oldest = self.writer.in_flight.front();
        oldest.map(|write| write.since).or(self.writer.held_since)
    }

    pub fn has_failed(&self) -> bool {
        self.writer.failed
    }
}
