//! A log's files, as the decision asks about them.

use std::path::PathBuf;

use formats::record::{RECORD_HEADER, RecordError, RecordHeader};
use formats::segment::{SegmentError, SegmentHeader};
use formats::version::Speaks;
use formats::{DecodeError, Identity, LogId};
use ops::{BLOCK, Disk};

use super::super::recovery::{Blocks, First, Said, Taken};
use super::super::scan::{SegmentFile, Window};
use super::RecoverError;

/// Answers from the disk, and hands what is taken to a sink.
///
/// Errors: a block that can only be read by trying again, and words that this program does not understand.
pub(crate) struct Files<'a, S> {
    disk: &'a mut dyn Disk,
    of: Whose,
    paths: Vec<PathBuf>,
    /// The windows; the one used last comes last.
    windows: Vec<(usize, Window)>,
    pub sink: S,
}

/// The node and log whose directory it is to be.
#[derive(Clone, Copy)]
pub(crate) struct Whose {
    pub identity: Identity,
    pub log: LogId,
    pub speaks: Speaks,
}

/// The receiver of the records.
pub(crate) trait Sink {
    fn record(
        &mut self,
        at: usize,
        offset: u64,
        header: &RecordHeader,
        payload: &[u8],
        taken: Taken,
    ) -> Result<(), DecodeError>;

    fn gap(&mut self);

    /// Takes an index. Returns whether it could be understood.
    fn index(&mut self, of: usize, offset: u64, payload: &[u8], vouches: bool) -> bool;
}

/// A segment and its successor are read by turns.
const WINDOWS_MAX: usize = 2;

impl<'a, S: Sink> Files<'a, S> {
    pub fn new(disk: &'a mut dyn Disk, of: Whose, paths: Vec<PathBuf>, sink: S) -> Files<'a, S> {
        Files {
            disk,
            of,
            paths,
            windows: Vec::new(),
            sink,
        }
    }

    /// Does something with a file, and keeps the window on it.
    fn with<T>(
        &mut self,
        at: usize,
        ask: impl FnOnce(&mut SegmentFile<'_>, &mut S) -> Result<T, Failed>,
    ) -> Result<T, RecoverError> {
        let window = match self.windows.iter().position(|(of, _)| *of == at) {
            Some(known) => self.windows.remove(known).1,
            None => Window::at_first(self.paths[at].clone()),
        };
        let mut file = SegmentFile::with(self.disk, window);
        let answer = ask(&mut file, &mut self.sink);
        if self.windows.len() == WINDOWS_MAX {
            self.windows.remove(0);
        }
        self.windows.push((at, file.into_window()));
        let path = || self.paths[at].clone();
        answer.map_err(|failed| match failed {
            Failed::Io(source) => RecoverError::Io {
                path: path(),
                source,
            },
            Failed::NotUnderstood { offset, reason } => RecoverError::NotUnderstood {
                path: path(),
                offset,
                reason,
            },
        })
    }
}

enum Failed {
    Io(std::io::Error),
    NotUnderstood { offset: u64, reason: DecodeError },
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Failed {
        Failed::Io(error)
    }
}

/// The record's payload, which was seen to be right.
fn payload<'f>(
    file: &'f mut SegmentFile<'_>,
    offset: u64,
    header: &RecordHeader,
) -> Result<&'f [u8], Failed> {
    let record = file.bytes(offset, header.total_length())?;
    let end = RECORD_HEADER + header.payload_length as usize;
    Ok(record.get(RECORD_HEADER..end).unwrap_or_default())
}

impl<S: Sink> Blocks for Files<'_, S> {
    type Error = RecoverError;

    fn first(&mut self, at: usize) -> Result<First, RecoverError> {
        let of = self.of;
        let name = self.paths[at].file_name().unwrap_or_default();
        let number = formats::segment::number_of(&name.to_string_lossy()).unwrap_or(0);
        self.with(at, |file, _| {
            let block = file.bytes(0, BLOCK)?;
            let header = match SegmentHeader::decode(of.speaks, block) {
                Ok(header) => header,
                Err(SegmentError::NoHeader) => return Ok(First::Lost),
                Err(reason) => return Ok(First::Foreign(reason)),
            };
            Ok(match header.belongs_to(&of.identity, of.log, number) {
                Ok(()) => First::Own(header),
                Err(SegmentError::OtherNumber(number)) => First::OtherNumber {
                    number,
                    salt: header.salt,
                },
                Err(reason) => First::Foreign(reason),
            })
        })
    }

    fn block(&mut self, at: usize, offset: u64) -> Result<Option<Said>, RecoverError> {
        let log = self.of.log;
        self.with(at, |file, _| {
            let bytes = file.bytes(offset, BLOCK)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let why = match RecordHeader::decode(bytes, None) {
                Ok((header, checksum, salt)) if header.log == log => {
                    return Ok(Some(Said::Record {
                        header,
                        checksum,
                        salt,
                    }));
                }
                Ok(_) => RecordError::Invalid("it is of another log"),
                Err(why) => why,
            };
            let is_written = bytes.iter().any(|byte| *byte != 0);
            Ok(Some(match file.is_refused(offset) {
                true => Said::Unreadable,
                false => Said::Nothing { why, is_written },
            }))
        })
    }

    fn is_whole(
        &mut self,
        at: usize,
        offset: u64,
        header: &RecordHeader,
    ) -> Result<bool, RecoverError> {
        self.with(at, |file, _| Ok(file.payload(offset, header)?.is_ok()))
    }

    fn take(
        &mut self,
        at: usize,
        offset: u64,
        header: &RecordHeader,
        taken: Taken,
    ) -> Result<(), RecoverError> {
        self.with(at, |file, sink| {
            let payload = match taken.is_whole {
                true => payload(file, offset, header)?,
                false => &[],
            };
            let took = sink.record(at, offset, header, payload, taken);
            took.map_err(|reason| Failed::NotUnderstood { offset, reason })
        })
    }

    fn take_gap(&mut self, _: usize) {
        self.sink.gap();
    }

    fn take_index(
        &mut self,
        of: usize,
        offset: u64,
        header: &RecordHeader,
        vouches: bool,
    ) -> Result<bool, RecoverError> {
        self.with(of + 1, |file, sink| {
            let payload = payload(file, offset, header)?;
            Ok(sink.index(of, offset, payload, vouches))
        })
    }
}
