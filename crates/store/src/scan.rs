//! Reading a file through a window, past blocks that the device does not give.
//!
//! Only a start of the node and the offline checks read in this way; [`super::recovery`] decides what the
//! bytes mean.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use formats::LogId;
use formats::record::{RecordError, RecordHeader};
use ops::{BLOCK, Disk};

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
    /// The bytes to be read with the next move.
    ahead: usize,
    /// The file's end, once it was met: nothing is read behind it again.
    file_end: Option<u64>,
    /// The beginnings of blocks that the device did not give: bytes stand there that begin no record.
    refused: BTreeSet<u64>,
}

/// The bytes read at a time.
const WINDOW: usize = 1 << 20;
/// The bytes read at first, where often only the beginning of a file is wanted.
const AHEAD_FIRST: usize = 16 << 10;

/// The error of a device that does not give a block.
const EIO: i32 = 5;
/// The most refused blocks of one file. A device that refuses more has not lost a block: it is failing.
const REFUSED_MAX: usize = 256;
/// The byte in the place of a refused block.
const NO_RECORD: u8 = 0xff;

/// Bytes that were acknowledged and cannot be read any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    pub path: PathBuf,
    /// The place in the file.
    pub from: u64,
    pub to: u64,
    /// The records that stood there.
    pub first_record: u64,
    pub last_record: u64,
    pub reason: String,
}

/// The marks by which a segment's records are recognised.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub log: LogId,
    pub salt: u64,
}

impl Window {
    pub fn new(path: PathBuf) -> Window {
        Window {
            path,
            bytes: Vec::new(),
            start: 0,
            ahead: WINDOW,
            file_end: None,
            refused: BTreeSet::new(),
        }
    }

    /// A window on a file of which only the beginning may be wanted.
    pub fn at_first(path: PathBuf) -> Window {
        Window {
            ahead: AHEAD_FIRST,
            ..Window::new(path)
        }
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn bytes(&mut self, disk: &mut dyn Disk, offset: u64, length: usize) -> io::Result<&[u8]> {
        if self.file_end.is_some_and(|end| end <= offset) {
            return Ok(&[]);
        }
        let ends_here = self.file_end == Some(self.end());
        if offset < self.start || offset + length as u64 > self.end() && !ends_here {
            self.move_to(disk, offset, length)?;
        }
        let start = (offset - self.start) as usize;
        let end = (start + length).min(self.bytes.len());
        Ok(&self.bytes[start..end])
    }

    /// Moves the window. Bytes that are here already are kept and not read again.
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
        // Bytes that could not be read are not zeros.
        self.bytes.truncate(kept + read.as_ref().unwrap_or(&0));
        let count = read?;
        if kept + count < wanted {
            self.file_end = Some(self.end());
        }
        Ok(())
    }

    /// Reads each block on its own, from the window's byte `kept` on, without those that the device refuses.
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
    /// The damage without its place.
    pub fn what(&self) -> String {
        if self.last_record == 0 {
            return format!("{}; the records behind it can be read", self.reason);
        }
        format!(
            "records {} to {}, which were acknowledged, cannot be read: {}",
            self.first_record, self.last_record, self.reason
        )
    }
}

impl<'a> SegmentFile<'a> {
    /// Goes on with the window of an earlier file.
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
        let bytes = self.bytes(offset, formats::RECORD_HEADER)?;
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
        let end = formats::RECORD_HEADER + header.payload_length as usize;
        let payload = &record[formats::RECORD_HEADER..end];
        match header.payload_is_right(payload) {
            true => Ok(Ok(payload)),
            false => Ok(Err(RecordError::Payload)),
        }
    }

    /// Whether the device refused this block when it was read.
    pub fn is_refused(&self, offset: u64) -> bool {
        self.window.refused.contains(&offset)
    }
}
