//! Reading a segment record by record, and telling a torn tail from corruption.
//!
//! ```text
//!   record 7 │ record 8 │ ▒▒▒▒▒ │ record 10, watermark 9 │ ▒▒▒▒▒ │ zero
//!                         └ 9 was durable: corruption     └ nothing says that 11 was: a torn tail
//! ```
//!
//! A block that the device does not give is as one that rotted, where a later record tells that
//! it was durable. Where none does, nobody can tell: that is an error.
//!
//! Only a start of the node and the offline checks read in this way.

use std::collections::BTreeSet;
use std::io;
use std::ops::RangeBounds;
use std::path::PathBuf;

use paxos::mutation::{self, Mutation};
use paxos::{PromisedTerm, Slot};

use crate::LogId;
use crate::format::record::{RecordError, RecordHeader};
use crate::op::{BLOCK, Disk};

/// One file, read through a window.
pub struct SegmentFile<'a> {
    disk: &'a mut dyn Disk,
    window: Window,
}

/// A stretch of one file in memory. Moved along the file, it reads every byte once.
pub struct Window {
    pub path: PathBuf,
    bytes: Vec<u8>,
    start: u64,
    /// To be read with the next move.
    ahead: usize,
    /// Where blocks begin that the device did not give: bytes stand there that begin no record.
    refused: BTreeSet<u64>,
}

/// Read at a time.
const WINDOW: usize = 1 << 20;
/// At first, where it is often only the beginning of a file that is wanted.
const AHEAD_FIRST: usize = 16 << 10;

/// What a device says that does not give a block.
const EIO: i32 = 5;
/// Of one file. A device that refuses more has not lost a block: it is failing.
const REFUSED_MAX: usize = 256;
/// In the place of a refused block.
const NO_RECORD: u8 = 0xff;

/// Where a record is expected, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub offset: u64,
    pub number: u64,
    /// The checksum of the record before.
    pub chain: u32,
}

impl Expected {
    /// What comes after that record.
    pub fn after(&self, header: &RecordHeader, checksum: u32) -> Expected {
        Expected {
            offset: self.offset + header.total_length() as u64,
            number: header.number + 1,
            chain: checksum,
        }
    }
}

pub enum Walked<'w> {
    Record {
        offset: u64,
        header: &'w RecordHeader,
        payload: &'w [u8],
    },
    Corrupt {
        corruption: Corruption,
        later: Later,
    },
}

/// What the headers of records say that stand behind a break, the bad ones of torn records too: whoever
/// tells that a record was durable also tells how far it can have reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Later {
    /// All records up to here were known durable.
    pub watermark: u64,
    /// No promise and no acceptance in them is above these.
    pub promised: PromisedTerm,
    pub accepted_up_to: Slot,
}

impl Later {
    pub fn and(self, other: Later) -> Later {
        Later {
            watermark: self.watermark.max(other.watermark),
            promised: self.promised.max(other.promised),
            accepted_up_to: self.accepted_up_to.max(other.accepted_up_to),
        }
    }

    pub fn of(header: &RecordHeader) -> Later {
        Later {
            watermark: header.watermark,
            promised: header.promised,
            accepted_up_to: header.accepted_up_to.max(header.first_unchosen),
        }
    }
}

/// Bytes that were acknowledged and cannot be read any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    pub path: PathBuf,
    /// Of the file.
    pub from: u64,
    pub to: u64,
    /// The records that stood there.
    pub first_record: u64,
    pub last_record: u64,
    pub reason: String,
}

/// What a walk came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEnd {
    /// What would come next.
    pub next: Expected,
    /// Something unacknowledged stands behind the end.
    pub torn: bool,
}

/// What is known of a segment's records before they are read.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub log: LogId,
    pub salt: u64,
    /// The successor's word: the segment ends with this record, and all up to it were durable.
    pub last_record: Option<u64>,
}

impl Window {
    pub fn new(path: PathBuf) -> Window {
        Window {
            path,
            bytes: Vec::new(),
            start: 0,
            ahead: WINDOW,
            refused: BTreeSet::new(),
        }
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn bytes(&mut self, disk: &mut dyn Disk, offset: u64, length: usize) -> io::Result<&[u8]> {
        if offset < self.start || offset + length as u64 > self.end() {
            self.move_to(disk, offset, length)?;
        }
        let start = (offset - self.start) as usize;
        let end = (start + length).min(self.bytes.len());
        Ok(&self.bytes[start..end])
    }

    /// What is here already is kept and not read again.
    fn move_to(&mut self, disk: &mut dyn Disk, offset: u64, length: usize) -> io::Result<()> {
        match (self.start..=self.end()).contains(&offset) {
            true => drop(self.bytes.drain(..(offset - self.start) as usize)),
            false => self.bytes.clear(),
        }
        self.start = offset;
        let kept = self.bytes.len();
        let wanted = length.next_multiple_of(BLOCK).max(kept + self.ahead);
        self.ahead = WINDOW.min(4 * self.ahead);
        self.bytes.resize(wanted, 0);
        let read = match disk.read_at(&self.path, offset + kept as u64, &mut self.bytes[kept..]) {
            Err(error) if is_refusal(&error) => self.read_blocks(disk, kept),
            read => read,
        };
        // What could not be read is not zeros.
        self.bytes.truncate(kept + read.as_ref().unwrap_or(&0));
        read.map(|_| ())
    }

    /// Each on its own, from the window's byte `kept` on, without those that the device refuses.
    fn read_blocks(&mut self, disk: &mut dyn Disk, kept: usize) -> io::Result<usize> {
        let mut count = 0;
        for block in self.bytes[kept..].chunks_mut(BLOCK) {
            let offset = self.start + (kept + count) as u64;
            let may_be_refused = self.refused.len() < REFUSED_MAX || self.refused.contains(&offset);
            count += match disk.read_at(&self.path, offset, block) {
                Err(error) if is_refusal(&error) && may_be_refused => {
                    self.refused.insert(offset);
                    block.fill(NO_RECORD);
                    block.len()
                }
                Ok(read) if read < block.len() => return Ok(count + read),
                read => read?,
            };
        }
        Ok(count)
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(EIO)
}

impl Corruption {
    /// Without the place.
    pub fn what(&self) -> String {
        format!(
            "records {} to {}, which were acknowledged, cannot be read: {}",
            self.first_record, self.last_record, self.reason
        )
    }
}

impl<'a> SegmentFile<'a> {
    pub fn new(disk: &'a mut dyn Disk, path: PathBuf) -> SegmentFile<'a> {
        let mut window = Window::new(path);
        window.ahead = AHEAD_FIRST;
        SegmentFile::with(disk, window)
    }

    /// Goes on with what an earlier one had in its window.
    pub fn with(disk: &'a mut dyn Disk, window: Window) -> SegmentFile<'a> {
        SegmentFile { disk, window }
    }

    pub fn into_window(self) -> Window {
        self.window
    }

    /// `length` bytes at `offset`, which is that of a block; fewer at the end of the file.
    pub fn bytes(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        self.window.bytes(self.disk, offset, length)
    }

    pub fn header(
        &mut self,
        offset: u64,
        scope: &Scope,
    ) -> io::Result<Result<(RecordHeader, u32), RecordError>> {
        let bytes = self.bytes(offset, crate::format::RECORD_HEADER)?;
        Ok(
            RecordHeader::decode(bytes, Some(scope.salt)).and_then(|(header, checksum, _)| {
                match header.log == scope.log {
                    true => Ok((header, checksum)),
                    false => Err(RecordError::Invalid("it is of another log")),
                }
            }),
        )
    }

    /// The payload, checked against the header.
    pub fn payload(
        &mut self,
        offset: u64,
        header: &RecordHeader,
    ) -> io::Result<Result<&[u8], RecordError>> {
        let total = header.total_length();
        let record = self.bytes(offset, total)?;
        if record.len() < total {
            return Ok(Err(RecordError::Payload));
        }
        let end = crate::format::RECORD_HEADER + header.payload_length as usize;
        let payload = &record[crate::format::RECORD_HEADER..end];
        match header.payload_is_right(payload) {
            true => Ok(Ok(payload)),
            false => Ok(Err(RecordError::Payload)),
        }
    }

    /// The record expected there, its payload checked; with its checksum.
    pub fn record(
        &mut self,
        expected: &Expected,
        scope: &Scope,
    ) -> io::Result<Result<(RecordHeader, u32), RecordError>> {
        let (header, checksum) = match self.header(expected.offset, scope)? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        if header.number != expected.number {
            return Ok(Err(RecordError::Invalid("another number is due")));
        }
        if header.chain != expected.chain {
            return Ok(Err(RecordError::Invalid("it follows another record")));
        }
        let payload = self.payload(expected.offset, &header)?;
        Ok(payload.map(|_| (header, checksum)))
    }

    /// An error if, of what was looked at there, the device did not give a block: something may stand in
    /// it.
    pub fn was_given(&self, bytes: impl RangeBounds<u64>) -> io::Result<()> {
        match self.window.refused.range(bytes).next() {
            Some(_) => Err(io::Error::other(
                "the device does not give a block in which what was acknowledged last may stand: try again, or let this node join as a new one; a copy of the file lacks the block too",
            )),
            None => Ok(()),
        }
    }

    /// Nothing tells that this record was ever durable, so it is taken for absent. An error if the device
    /// does not give a block of it.
    pub fn check_absent(&mut self, expected: &Expected, scope: &Scope) -> io::Result<()> {
        let length = match self.header(expected.offset, scope)? {
            Ok((header, _)) if header.number == expected.number => header.total_length(),
            _ => BLOCK,
        };
        self.was_given(expected.offset..expected.offset + length as u64)
    }

    /// The next block from `from` on that begins a record of this segment, whatever its payload.
    fn next_record(
        &mut self,
        from: u64,
        above: u64,
        scope: &Scope,
    ) -> io::Result<Option<(u64, RecordHeader)>> {
        let mut offset = from;
        loop {
            if self.bytes(offset, BLOCK)?.is_empty() {
                return Ok(None);
            }
            if let Ok((header, _)) = self.header(offset, scope)? {
                let in_scope = scope.last_record.is_none_or(|last| header.number <= last);
                if header.number > above && in_scope {
                    return Ok(Some((offset, header)));
                }
            }
            offset += BLOCK as u64;
        }
    }

    /// What all records from `from` on say.
    pub fn later(&mut self, from: u64, scope: &Scope) -> io::Result<Later> {
        let mut later = Later {
            watermark: scope.last_record.unwrap_or(0),
            ..Later::default()
        };
        let mut offset = from;
        while let Some((found, header)) = self.next_record(offset, 0, scope)? {
            later = later.and(Later::of(&header));
            // Its length is not believed: it may be an older record in a place that is not its own,
            // and what it seems to cover may be the record that knows.
            offset = found + BLOCK as u64;
        }
        Ok(later)
    }

    /// Whether anything but zeros stands from `from` on.
    pub fn is_written(&mut self, from: u64) -> io::Result<bool> {
        let mut offset = from;
        loop {
            let bytes = self.bytes(offset, WINDOW)?;
            if bytes.is_empty() {
                return Ok(false);
            }
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(true);
            }
            offset += bytes.len() as u64;
        }
    }

    /// Visits every record from `start` on, and every stretch of corruption between them.
    ///
    /// A break below a known watermark is corruption: the walk goes on at the next record that can
    /// be read. A break above is a torn tail: the walk ends there, whatever follows.
    pub fn walk(
        &mut self,
        start: Expected,
        scope: &Scope,
        visit: &mut dyn FnMut(Walked<'_>),
    ) -> io::Result<WalkEnd> {
        let mut next = start;
        let mut known = None;
        loop {
            if scope.last_record.is_some_and(|last| next.number > last) {
                return Ok(WalkEnd { next, torn: false });
            }
            let reason = match self.record(&next, scope)? {
                Ok((header, checksum)) => {
                    let record = self.bytes(next.offset, header.total_length())?;
                    let end = crate::format::RECORD_HEADER + header.payload_length as usize;
                    visit(Walked::Record {
                        offset: next.offset,
                        header: &header,
                        // Checked just now.
                        payload: &record[crate::format::RECORD_HEADER..end],
                    });
                    next = next.after(&header, checksum);
                    continue;
                }
                Err(reason) => reason,
            };
            let later = match known {
                Some(later) => later,
                None => *known.insert(self.later(next.offset, scope)?),
            };
            let durable = later.watermark;
            if durable < next.number
                && mutation::is(Mutation::StaleRecordParsed)
                && let Some((offset, header)) = self.next_record(next.offset, next.number, scope)?
            {
                next = Expected {
                    offset,
                    number: header.number,
                    chain: header.chain,
                };
                continue;
            }
            if durable < next.number || mutation::is(Mutation::CorruptReadAsAbsent) {
                self.check_absent(&next, scope)?;
                let torn = self.is_written(next.offset)?;
                return Ok(WalkEnd { next, torn });
            }
            let resume = self.resume(&next, scope)?;
            let mut refused = self.window.refused.range(next.offset..resume.offset);
            let reason = match refused.next() {
                Some(_) => "the device does not give it".to_owned(),
                None => reason.to_string(),
            };
            let corruption = Corruption {
                path: self.window.path.clone(),
                from: next.offset,
                to: resume.offset,
                first_record: next.number,
                last_record: resume.number - 1,
                reason,
            };
            visit(Walked::Corrupt { corruption, later });
            next = resume;
        }
    }

    /// Behind a break below the watermark: the next record whose header can be read, or the end.
    fn resume(&mut self, broken: &Expected, scope: &Scope) -> io::Result<Expected> {
        // A record with a sound header tells where it ends, so that its payload is not searched.
        let from = match self.header(broken.offset, scope)? {
            Ok((header, _)) if header.number == broken.number => {
                broken.offset + header.total_length() as u64
            }
            _ => broken.offset + BLOCK as u64,
        };
        if let Some((offset, header)) = self.next_record(from, broken.number, scope)? {
            return Ok(Expected {
                offset,
                number: header.number,
                chain: header.chain,
            });
        }
        let end = scope
            .last_record
            .unwrap_or(broken.number)
            .max(broken.number);
        Ok(Expected {
            offset: from,
            number: end + 1,
            chain: 0,
        })
    }

    /// A record of this log in a file whose first block cannot be read. Its salt stands in for the
    /// lost one: a torn birth leaves no record, so this one was written after the birth was durable
    /// if its watermark says so. Records up to number `above` are of an earlier use of the file.
    pub fn any_record(
        &mut self,
        log: LogId,
        above: u64,
    ) -> io::Result<Option<(u64, RecordHeader, u64)>> {
        let mut offset = BLOCK as u64;
        loop {
            let bytes = self.bytes(offset, BLOCK)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if let Ok((header, _, salt)) = RecordHeader::decode(bytes, None)
                && header.log == log
                && header.number > above
            {
                return Ok(Some((offset, header, salt)));
            }
            offset += BLOCK as u64;
        }
    }
}
