//! Which segments there are, as their first blocks say; one that was being born is put aside.

use std::io;
use std::path::{Path, PathBuf};

use paxos::mutation::{self, Mutation};

use super::super::read::FIRST_RECORD;
use super::super::scan::{Scope, SegmentFile};
use super::super::trim::Spare;
use super::{Found, RecoverError, Recovery, first_expected};
use crate::format::segment::{self, Birth, SegmentError, SegmentHeader};
use crate::op::BLOCK;

impl Recovery<'_> {
    /// Lists the segments, puts aside those that were being born, and refuses what is not ours. A
    /// spare that was to become a segment is a spare again. Returns the quarantined files in which
    /// nothing was ever written.
    pub(super) fn find_segments(&mut self) -> Result<Vec<PathBuf>, RecoverError> {
        let directory = self.config.directory.clone();
        self.settle(&directory)?;
        let entries = match self.disk.list(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(self.io(&directory, error)),
        };
        let mut numbers = Vec::new();
        for entry in &entries {
            let spare = segment::spare_number_of(&entry.name);
            match (segment::number_of(&entry.name), spare) {
                _ if entry.is_directory => self.report.unknown.push(directory.join(&entry.name)),
                (Some(number), _) => numbers.push(number),
                (None, Some(number)) => self.spares.push(Spare {
                    number,
                    bytes: entry.length,
                }),
                // Put aside by an earlier recovery.
                (None, None) if entry.name.ends_with(".torn") => {}
                (None, None) => self.report.unknown.push(directory.join(&entry.name)),
            }
        }
        numbers.sort_unstable();
        for pair in numbers.windows(2) {
            if pair[1] != pair[0] + 1 {
                return Err(RecoverError::MissingSegment {
                    directory,
                    number: pair[0] + 1,
                });
            }
        }
        for number in &numbers {
            self.settle(&directory.join(segment::file_name(*number)))?;
        }
        for number in numbers {
            let found = self.first_block(number)?;
            self.found.push(found);
        }
        let mut empty = Vec::new();
        while let Some(last) = self.found.last() {
            let path = last.path.clone();
            let scope = self.scope(self.found.len() - 1);
            if self.was_born(scope).map_err(|e| self.io(&path, e))? {
                break;
            }
            if let Some(error) = self.found.last_mut().and_then(|last| last.unsure.take()) {
                return Err(self.io(&path, error));
            }
            if let Some(was) = self.found.pop().and_then(|found| found.was)
                && !entries
                    .iter()
                    .any(|entry| entry.name == segment::spare_name(was))
            {
                self.free_again(&path, was, &entries)?;
                continue;
            }
            let written = SegmentFile::new(self.disk, path.clone()).is_written(0);
            let aside = self.put_aside(&path, &entries)?;
            if !written.map_err(|e| self.io(&path, e))? {
                empty.push(aside.clone());
            }
            self.report.quarantined.push(aside);
        }
        if self.found.is_empty() {
            return Err(RecoverError::Empty {
                directory,
                quarantined: std::mem::take(&mut self.report.quarantined),
            });
        }
        if let Some((found, was)) = self.found.iter().find_map(|f| Some((f, f.was?))) {
            return Err(RecoverError::Refused {
                path: found.path.clone(),
                reason: SegmentError::OtherNumber(was),
            });
        }
        self.report.segments = self.found.len();
        Ok(empty)
    }

    /// ‡ What is read here is announced without being written again, so it must be durable and not only
    /// be in memory.
    fn settle(&mut self, path: &Path) -> Result<(), RecoverError> {
        if mutation::is(Mutation::StartNotSettled) {
            return Ok(());
        }
        match self.disk.settle(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.io(path, error)),
            _ => Ok(()),
        }
    }

    /// The process ended between taking a spare and writing the first block of its new use.
    fn free_again(
        &mut self,
        path: &Path,
        was: u64,
        entries: &[crate::op::DirectoryEntry],
    ) -> Result<(), RecoverError> {
        let spare = self.config.directory.join(segment::spare_name(was));
        let renamed = self.disk.rename(path, &spare);
        renamed.map_err(|e| self.io(path, e))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = entries.iter().find(|entry| entry.name == name);
        self.spares.push(Spare {
            number: was,
            bytes: bytes.map_or(0, |entry| entry.length),
        });
        Ok(())
    }

    fn first_block(&mut self, number: u64) -> Result<Found, RecoverError> {
        let path = self.config.directory.join(segment::file_name(number));
        let above = self.above(self.found.len());
        let mut file = SegmentFile::new(self.disk, path.clone());
        let block = file.bytes(0, BLOCK).map(<[u8]>::to_vec);
        let block = block.map_err(|source| RecoverError::Io {
            path: path.clone(),
            source,
        })?;
        let refused = |reason| RecoverError::Refused {
            path: path.clone(),
            reason,
        };
        match SegmentHeader::decode(self.config.speaks, &block) {
            Ok(header) => {
                let owned = header.belongs_to(&self.config.identity, self.config.log, number);
                let was = match owned {
                    Ok(()) => None,
                    // Whether it may be one is decided when all are known.
                    Err(SegmentError::OtherNumber(was)) if was < number => Some(was),
                    Err(reason) => return Err(refused(reason)),
                };
                Ok(Found {
                    number,
                    path,
                    salt: Some(header.salt).filter(|_| was.is_none()),
                    predecessor: Some(header.predecessor).filter(|_| was.is_none()),
                    birth: header.birth,
                    was,
                    a_record: None,
                    unsure: None,
                })
            }
            Err(SegmentError::NoHeader) => {
                let any = file.any_record(self.config.log, above);
                let any = any.map_err(|source| RecoverError::Io {
                    path: path.clone(),
                    source,
                })?;
                Ok(Found {
                    number,
                    salt: any.as_ref().map(|(_, _, salt)| *salt),
                    predecessor: None,
                    birth: Birth::default(),
                    was: None,
                    a_record: any.as_ref().map(|(_, header, _)| header.number),
                    unsure: file.was_given(..).err(),
                    path,
                })
            }
            Err(reason) => Err(refused(reason)),
        }
    }

    /// Whether the last segment's first records were ever known durable: they are whole, or some
    /// later record says so.
    fn was_born(&mut self, scope: Option<Scope>) -> io::Result<bool> {
        let Some(last) = self.found.last() else {
            return Ok(false);
        };
        let Some(scope) = scope else {
            return Ok(false);
        };
        let mut file = SegmentFile::new(self.disk, last.path.clone());
        let Some(predecessor) = last.predecessor else {
            drop(file);
            return self.was_known_durable(scope);
        };
        let mut next = first_expected(&predecessor);
        let last_of_birth = match predecessor.last_record {
            0 => 1,
            before => before + 2,
        };
        while next.number <= last_of_birth {
            let Ok((header, checksum)) = file.record(&next, &scope)? else {
                if file.later(FIRST_RECORD, &scope)?.watermark >= next.number {
                    return Ok(true);
                }
                return file.check_absent(&next, &scope).map(|()| false);
            };
            next = next.after(&header, checksum);
        }
        Ok(true)
    }

    /// The last segment's first block cannot be read, but a record can. Was it being born? Only if
    /// no record in it knows its first one to be durable.
    fn was_known_durable(&mut self, scope: Scope) -> io::Result<bool> {
        let at = self.found.len() - 1;
        let first_record = match at.checked_sub(1).map(|before| (self.scope(before), before)) {
            None if self.found[at].number == 1 => 1,
            Some((Some(before), at_before)) if self.found[at_before].predecessor.is_some() => {
                let found = &self.found[at_before];
                let start = first_expected(&found.predecessor.unwrap_or_default());
                let mut file = SegmentFile::new(self.disk, found.path.clone());
                file.walk(start, &before, &mut |_| {})?.next.number
            }
            // Nothing else is left to ask.
            _ => 0,
        };
        let mut file = SegmentFile::new(self.disk, self.found[at].path.clone());
        Ok(file.later(FIRST_RECORD, &scope)?.watermark >= first_record)
    }

    fn put_aside(
        &mut self,
        path: &Path,
        entries: &[crate::op::DirectoryEntry],
    ) -> Result<PathBuf, RecoverError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut aside = format!("{name}.torn");
        let mut attempt = 1;
        while entries.iter().any(|entry| entry.name == aside) {
            attempt += 1;
            aside = format!("{name}.{attempt}.torn");
        }
        let aside = self.config.directory.join(aside);
        self.disk
            .rename(path, &aside)
            .map_err(|e| self.io(path, e))?;
        Ok(aside)
    }
}
