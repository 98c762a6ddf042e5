//! The head of the segment that is written: its first block, and the checkpoint behind it.
//!
//! ```text
//!  first block │ checkpoint │ records …        all that a start needs of what came before stands here alone,
//!  └──────── the head ──────┘                  and no reader ever comes by
//! ```
//!
//! Rot there shows at the next start, which then takes the disk for lost. The running node knows all that the head says, so
//! where the head is damaged it begins the next segment, with another one. A disk that gives no head back whatever is
//! written gets one such segment, not one with each check: only a head that is found sound allows the next.

use std::io;
use std::time::Duration;

use formats::record::{RECORD_HEADER, RecordHeader, RecordKind, total_length};
use formats::segment::SegmentHeader;
use ops::{BLOCK, Buffer, Op};
use paxos::Time;

use super::super::{Awaiting, Store};
use super::OpenFile;

/// The interval of the checks: a scrub asks for each piece that it reads.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Head {
    checking: Option<Checking>,
    /// The time when the last check began.
    checked_at: Option<Time>,
    /// The segment whose head is damaged, and which is to have a successor.
    damaged: Option<u64>,
    /// No head was found sound since a successor was begun for the sake of one.
    in_vain: bool,
}

struct Checking {
    segment: u64,
    /// The length that is read: first as far as the checkpoint's header, then all of it.
    length: usize,
    /// The kernel is asked.
    reads: bool,
}

/// The result of looking at the bytes of a head.
#[derive(Debug, PartialEq, Eq)]
enum Looks {
    Sound,
    Damaged,
    /// The head is so long.
    Longer(usize),
}

impl Head {
    pub fn is_busy(&self) -> bool {
        self.checking.is_some()
    }

    /// Whether this segment is to have a successor for the sake of its head.
    pub fn is_damaged(&self, segment: u64) -> bool {
        self.damaged == Some(segment)
    }
}

impl Store {
    /// Reads the head of the segment that is written, now and then, and begins the next one where it is damaged.
    pub fn check_head(&mut self, now: Time) {
        self.now = self.now.max(now);
        let Some(segment) = self.writer.open_segment() else {
            return;
        };
        let head = &mut self.reader.head;
        let soon = head.checked_at.map(|at| at + CHECKED_EVERY);
        if head.is_busy() || soon.is_some_and(|soon| self.now < soon) || self.writer.closing {
            return;
        }
        // Records under way may be the head itself.
        if !self.is_all_durable() {
            return;
        }
        let head = &mut self.reader.head;
        head.checked_at = Some(self.now);
        head.checking = Some(Checking {
            segment,
            length: 2 * BLOCK,
            reads: false,
        });
        self.use_file(segment);
        self.read_head();
    }

    /// Reads the head if the file is open.
    pub(super) fn read_head(&mut self) {
        let reader = &mut self.reader;
        let Some(checking) = reader.head.checking.as_mut().filter(|head| !head.reads) else {
            return;
        };
        let file = reader.files.get(&checking.segment);
        let Some(file) = file.and_then(OpenFile::ready) else {
            return;
        };
        checking.reads = true;
        let length = checking.length;
        let token = self.token(Awaiting::Head);
        self.ops.push_back(Op::Read {
            token,
            file,
            offset: 0,
            buffer: Buffer::new(length),
            range: 0..length,
        });
    }

    pub(crate) fn on_head(&mut self, buffer: &Buffer, result: io::Result<usize>) {
        let Some(Checking {
            segment, length, ..
        }) = self.reader.head.checking
        else {
            return;
        };
        let salt = self.segments.get(&segment).and_then(|s| s.salt);
        let looks = match result {
            Ok(count) => self.look_at_head(&buffer[..count.min(length)], salt),
            Err(_) => Looks::Damaged,
        };
        if let Looks::Longer(length) = looks {
            self.reader.head.checking = Some(Checking {
                segment,
                length,
                reads: false,
            });
            return self.read_head();
        }
        self.end_check();
        let path = self.path(segment);
        let head = &mut self.reader.head;
        if looks == Looks::Sound {
            head.in_vain = false;
        } else if !head.in_vain {
            tracing::warn!(
                path = %path.display(),
                "the beginning of this segment has rotted: the next one begins, with all that a start needs"
            );
            head.in_vain = true;
            head.damaged = Some(segment);
        } else if head.damaged.is_some_and(|damaged| damaged != segment) {
            tracing::error!(
                path = %path.display(),
                "the beginning of this segment cannot be read, and it was written for the sake of another that could not: \
                 replace the disk of this node before it is started again"
            );
            head.damaged = None;
        }
    }

    fn look_at_head(&self, head: &[u8], salt: Option<u64>) -> Looks {
        let whose = SegmentHeader::decode(self.config.speaks, head);
        if whose.is_err() || salt.is_none() {
            return Looks::Damaged;
        }
        let Some(record) = head.get(BLOCK..) else {
            return Looks::Damaged;
        };
        let Ok((header, _, _)) = RecordHeader::decode(record, salt) else {
            return Looks::Damaged;
        };
        let payload = header.payload_length as usize;
        let whole = BLOCK + total_length(payload);
        if whole > head.len() && head.len() == 2 * BLOCK {
            return Looks::Longer(whole);
        }
        let payload = record.get(RECORD_HEADER..RECORD_HEADER + payload);
        let is_right = payload.is_some_and(|payload| header.payload_is_right(payload));
        match header.kind == RecordKind::Checkpoint && is_right {
            true => Looks::Sound,
            false => Looks::Damaged,
        }
    }

    /// Ends the check of a file that could not be opened: nothing is known of its head.
    pub(super) fn forget_head_of(&mut self, segment: u64) {
        let checking = &mut self.reader.head.checking;
        _ = checking.take_if(|checking| checking.segment == segment);
    }

    fn end_check(&mut self) {
        if let Some(Checking { segment, .. }) = self.reader.head.checking.take() {
            self.stop_using(segment);
            self.close_idle_files();
        }
    }
}
