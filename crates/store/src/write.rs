//! Appending: records become writes, writes become durable, in order.
//!
//! ```text
//!   tail: what the next record builds on     queue: pending, in flight      durable: what the disk has
//!   open: the segment that it stands in      files: where writes go         times: how long they took
//! ```

mod append;
mod durable;
mod files;
mod go_on;
mod idle;
mod issue;
mod landing;
mod queue;
mod roll;
mod tail;
mod times;

use std::ops::Range;

use ops::FileId;
use paxos::{StreamName, Time};

use super::recovery::Verdict;
use super::{RecordContext, Store};
use durable::Durable;
use files::Files;
use landing::Landings;
use queue::Queue;
use tail::Tail;
use times::Times;

pub(super) struct Writer {
    /// The open segment; `None` after a recovery until it is known where the log goes on.
    open: Option<Open>,
    pub tail: Tail,
    pub durable: Durable,
    queue: Queue,
    files: Files,
    pub landings: Landings,
    pub times: Times,
    /// Lost ranges met before it was known where the log goes on.
    lost_early: Vec<(StreamName, Range<u64>)>,
    quiet_since: Time,
    pub directory_ready: bool,
    pub failed: bool,
    pub closing: bool,
}

/// The segment that records are appended to.
struct Open {
    segment: u64,
    /// The version of all in it.
    version: u8,
    salt: u64,
    size_target: u64,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer {
            open: None,
            tail: Tail::default(),
            durable: Durable::default(),
            queue: Queue::default(),
            files: Files::default(),
            landings: Landings::default(),
            times: Times::default(),
            lost_early: Vec::new(),
            quiet_since: Time::ZERO,
            directory_ready: true,
            failed: false,
            closing: false,
        }
    }
}

impl Writer {
    /// The writer of a log as a recovery found it.
    pub fn found(verdict: &Verdict) -> Writer {
        let last_number = verdict.next.number - 1;
        let context = RecordContext {
            promised: verdict.promised,
            first_unchosen: verdict.first_unchosen,
        };
        let tail = Tail::found(
            last_number,
            verdict.next.chain,
            context,
            verdict.accepted_up_to,
            verdict.learn_past,
        );
        Writer {
            durable: Durable::found(last_number, context.first_unchosen, tail.end()),
            tail,
            ..Writer::default()
        }
    }

    /// The segment that records are written to.
    pub fn open_segment(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.segment)
    }

    pub fn is_busy(&self) -> bool {
        self.queue.is_busy()
    }

    pub fn take_files(&mut self) -> Vec<FileId> {
        self.files.take()
    }
}

impl Store {
    /// The bytes that are appended and not durable.
    pub fn queued_bytes(&self) -> u64 {
        self.writer.queue.bytes()
    }

    /// The time, for the watchdog, since which the oldest write is in flight, or waits for its file.
    pub fn oldest_write_since(&self) -> Option<Time> {
        self.writer.queue.oldest_since()
    }

    pub fn has_failed(&self) -> bool {
        self.writer.failed
    }
}
