//! What a start finds: which segments are whole, where the last one ends, and what its records say.
//!
//! Nothing found is ever written to again, or truncated. A segment that was being born when the
//! node died is renamed to `*.torn`; everything else stays as it is, and the caller's first act is
//! [`Store::roll`]: the new segment's first block says where the one before ends.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use paxos::mutation::{self, Mutation};
use paxos::{Checkpoint, Slot, SlotRange, Term, Value};
use thiserror::Error;

use super::feed::Feed;
use super::index::{RecordPlace, SegmentIndex, Whereabouts};
use super::read::{FIRST_RECORD, parse_index};
use super::scan::{Corruption, Expected, Scope, SegmentFile, Walked};
use super::trim::Spare;
use super::{Awaiting, Holdings, IndexStands, Segment, Store, StoreConfig};
use crate::format::DecodeError;
use crate::format::record::{RecordHeader, RecordKind};
use crate::format::segment::{self, Birth, Predecessor, SegmentError, SegmentHeader};
use crate::op::{BLOCK, Disk, Op};
use crate::version::Speaks;

/// In file order, from the newest checkpoint that can be read.
#[derive(Clone, Debug)]
pub enum RecoveredRecord {
    Checkpoint(Checkpoint),
    Promise(Checkpoint),
    State(Checkpoint),
    Accept {
        term: Term,
        slots: SlotRange,
        value: Value,
    },
    /// All slots below were known chosen when the record before this was written: it included.
    Chosen(Slot),
    /// Records that were acknowledged cannot be read: acceptances may be missing from here on. Until
    /// the next full checkpoint no `Chosen` follows, since the value chosen may be a missing one.
    Gap,
}

#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    pub segments: usize,
    /// Records read, not counting those that only an index spoke of.
    pub records_read: u64,
    pub last_record: u64,
    /// What the newest record says; nothing found on disk is above it.
    pub promised: paxos::PromisedTerm,
    pub first_unchosen: Slot,
    /// An unacknowledged write was cut off here.
    pub torn: Option<(PathBuf, u64)>,
    /// Acknowledged, and not readable any more.
    pub corruptions: Vec<Corruption>,
    /// Acceptances below this slot may have been lost: answer no prepare until every slot below it
    /// is known chosen.
    pub learn_past: Option<Slot>,
    /// Segments that were being born: renamed to these.
    pub quarantined: Vec<PathBuf>,
    /// Files kept to become segments.
    pub spares: usize,
    /// Not ours; left alone.
    pub unknown: Vec<PathBuf>,
}

#[derive(Debug, Error)]
pub enum RecoverError {
    #[error("{path} cannot be read: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{directory} holds no segment: either the log was never completely created, or its files are lost; a node that lost them must join as a new one"
    )]
    Empty {
        directory: PathBuf,
        quarantined: Vec<PathBuf>,
    },
    #[error(
        "{directory} lacks segment {number} between two that are there: put the file back, or let the node join as a new one"
    )]
    MissingSegment { directory: PathBuf, number: u64 },
    #[error("{path} is refused: {reason}")]
    Refused { path: PathBuf, reason: SegmentError },
    #[error("{path} holds a record at {offset} that this program cannot understand: {reason}")]
    NotUnderstood {
        path: PathBuf,
        offset: u64,
        reason: DecodeError,
    },
    #[error(
        "no checkpoint in {directory} can be read, so the promise is unknown: this is a lost disk, the node must join as a new one"
    )]
    NoCheckpoint { directory: PathBuf },
}

/// A segment file as its first block shows it.
struct Found {
    number: u64,
    path: PathBuf,
    /// Taken from a record if the first block is lost.
    salt: Option<u64>,
    predecessor: Option<Predecessor>,
    birth: Birth,
    /// The segment that this file was before it was to become this one. Nothing of this one was
    /// ever written.
    was: Option<u64>,
}

struct Recovery<'a> {
    config: &'a StoreConfig,
    disk: &'a mut dyn Disk,
    report: RecoveryReport,
    found: Vec<Found>,
    spares: Vec<Spare>,
}

impl Store {
    /// Reads what is there. `on_record` sees every record that still matters, in file order.
    pub fn recover(
        config: StoreConfig,
        disk: &mut dyn Disk,
        on_record: &mut dyn FnMut(RecoveredRecord),
    ) -> Result<(Store, RecoveryReport), RecoverError> {
        let mut recovery = Recovery {
            config: &config,
            disk,
            report: RecoveryReport::default(),
            found: Vec::new(),
            spares: Vec::new(),
        };
        let mut removed = recovery.find_segments()?;
        let (segments, last) = recovery.read_segments(on_record)?;
        let mut report = recovery.report;
        report.spares = recovery.spares.len();
        let spares = recovery.spares;
        let births = recovery.found.iter().map(|found| found.birth).collect();
        let mut store = Store::empty(config);
        for segment in segments.values() {
            let index = segment.index.as_ref().expect("recovery reads every index");
            hold(&mut store.holdings, index);
        }
        store.segments = segments;
        store.births = births;
        store.writer.last_number = last.next.number - 1;
        store.writer.last_checksum = last.next.chain;
        store.writer.durable_number = last.next.number - 1;
        store.writer.accepted_up_to = last.accepted_up_to;
        store.writer.learn_past = report.learn_past.unwrap_or_default();
        store.writer.context.promised = report.promised;
        store.writer.context.first_unchosen = report.first_unchosen;
        store.writer.durable_first_unchosen = report.first_unchosen;
        store.drop_indexes();
        removed.append(&mut store.adopt_spares(spares));
        for path in removed {
            let token = store.token(Awaiting::Tidied);
            store.ops.push_back(Op::Remove {
                token,
                path,
                urgent: false,
            });
        }
        Ok((store, report))
    }
}

/// In the order of the segments.
pub(super) fn hold(holdings: &mut Holdings, index: &SegmentIndex) {
    for (stream, bytes, place) in index.iter() {
        match place {
            Whereabouts::Record(_) => holdings.add(stream, bytes),
            Whereabouts::Lost => holdings.remove(stream, bytes),
        }
    }
}

/// What the walk over the newest records came to.
struct Last {
    next: Expected,
    accepted_up_to: Slot,
}

impl Recovery<'_> {
    fn io(&self, path: &Path, source: io::Error) -> RecoverError {
        RecoverError::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// Lists the segments, puts aside those that were being born, and refuses what is not ours. A
    /// spare that was to become a segment is a spare again. Returns the quarantined files in which
    /// nothing was ever written.
    fn find_segments(&mut self) -> Result<Vec<PathBuf>, RecoverError> {
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

    /// No record of the segment at `at` has this number, or a lower one: a file may still hold
    /// records of an earlier use, which were of segments older than any that is there.
    fn above(&self, at: usize) -> u64 {
        let before = self.found[..at].iter();
        let last = before.filter_map(|found| Some(found.predecessor?.last_record));
        last.max().unwrap_or(0)
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
                    path,
                    salt: any.map(|(_, _, salt)| salt),
                    predecessor: None,
                    birth: Birth::default(),
                    was: None,
                })
            }
            Err(reason) => Err(refused(reason)),
        }
    }

    /// How the segment's records are recognised, and where they end.
    fn scope(&self, at: usize) -> Option<Scope> {
        let salt = self.found[at].salt?;
        let successor = self.found.get(at + 1).and_then(|next| next.predecessor);
        Some(Scope {
            log: self.config.log,
            salt,
            last_record: successor.map(|predecessor| predecessor.last_record),
        })
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
                return Ok(file.later_watermark(FIRST_RECORD, &scope)? >= next.number);
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
        Ok(file.later_watermark(FIRST_RECORD, &scope)? >= first_record)
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

    /// Reads every index, and every record from the newest readable checkpoint on.
    fn read_segments(
        &mut self,
        on_record: &mut dyn FnMut(RecoveredRecord),
    ) -> Result<(BTreeMap<u64, Segment>, Last), RecoverError> {
        let mut base = self.found.len() - 1;
        while !self.begins_with_checkpoint(base)? {
            if base == 0 {
                return Err(RecoverError::NoCheckpoint {
                    directory: self.config.directory.clone(),
                });
            }
            base -= 1;
        }
        let mut segments = BTreeMap::new();
        let mut last: Option<Expected> = None;
        let mut feed = Feed {
            speaks: self.config.speaks,
            on_record,
            first_unchosen: None,
            gap: false,
            newest: None,
            error: None,
        };
        for at in 0..self.found.len() {
            let on_disk = match at >= base {
                true => None,
                false => self.index_of(at)?,
            };
            let (index, stands, end) = match on_disk {
                Some((index, stands, end)) => (index, Some(stands), end),
                None => {
                    let feed = (at >= base).then_some(&mut feed);
                    let first = match &last {
                        Some(next) => Some(next.number),
                        None => (self.found[at].number == 1).then_some(1),
                    };
                    let (index, next) = self.walk_segment(at, first, feed)?;
                    let end = next.offset;
                    last = Some(next);
                    let stands = self.index_of(at)?.map(|(_, stands, _)| stands);
                    (index, stands, end)
                }
            };
            segments.insert(
                self.found[at].number,
                Segment {
                    salt: self.found[at].salt,
                    end,
                    extents: index.extents(),
                    index: Some(index),
                    index_stands: stands,
                    last_used: 0,
                },
            );
        }
        let newest = feed.newest.unwrap_or_default();
        let learn_past = match feed.gap {
            true => newest.accepted_up_to.max(newest.first_unchosen),
            false => newest.learn_past,
        };
        self.report.promised = newest.promised;
        self.report.first_unchosen = newest.first_unchosen;
        self.report.learn_past = Some(learn_past).filter(|slot| slot.0 > 0);
        let Some(next) = last else {
            return Err(RecoverError::NoCheckpoint {
                directory: self.config.directory.clone(),
            });
        };
        self.report.last_record = next.number - 1;
        let accepted_up_to = newest.accepted_up_to;
        Ok((
            segments,
            Last {
                next,
                accepted_up_to,
            },
        ))
    }

    fn begins_with_checkpoint(&mut self, at: usize) -> Result<bool, RecoverError> {
        let Some(scope) = self.scope(at) else {
            return Ok(false);
        };
        let path = self.found[at].path.clone();
        let mut file = SegmentFile::new(self.disk, path.clone());
        let whole = file
            .header(FIRST_RECORD, &scope)
            .and_then(|header| match header {
                Ok((header, _)) if header.kind == RecordKind::Checkpoint => {
                    Ok(file.payload(FIRST_RECORD, &header)?.is_ok())
                }
                _ => Ok(false),
            });
        whole.map_err(|e| self.io(&path, e))
    }

    /// The segment's index, as its successor holds it; with the segment's end.
    fn index_of(
        &mut self,
        at: usize,
    ) -> Result<Option<(SegmentIndex, IndexStands, u64)>, RecoverError> {
        let Some(successor) = self.found.get(at + 1) else {
            return Ok(None);
        };
        let path = successor.path.clone();
        let (Some(scope), Some(predecessor)) = (self.scope(at + 1), successor.predecessor) else {
            return Ok(None);
        };
        let mut file = SegmentFile::new(self.disk, path.clone());
        let read = read_index(self.config.speaks, &mut file, &scope, &predecessor);
        let read = read.map_err(|e| self.io(&path, e))?;
        Ok(read.map(|(index, stands)| (index, stands, predecessor.end)))
    }

    /// Reads the segment's records. Only the newest segments feed the engine.
    fn walk_segment(
        &mut self,
        at: usize,
        first_number: Option<u64>,
        mut feed: Option<&mut Feed<'_>>,
    ) -> Result<(SegmentIndex, Expected), RecoverError> {
        let path = self.found[at].path.clone();
        let mut index = SegmentIndex::default();
        let predecessor = self.found[at].predecessor;
        let start = predecessor.map(|predecessor| first_expected(&predecessor));
        let is_last = at + 1 == self.found.len();
        let scope = self.scope(at);
        let above = self.above(at);
        let mut file = SegmentFile::new(self.disk, path.clone());
        let start = match (start, scope) {
            (Some(start), Some(_)) => Some(start),
            (None, Some(scope)) => file
                .any_record(scope.log, above)
                .map_err(|source| RecoverError::Io {
                    path: path.clone(),
                    source,
                })?
                .map(|(offset, header, _)| Expected {
                    offset,
                    number: header.number,
                    chain: header.chain,
                }),
            _ => None,
        };
        let mut corruptions = Vec::new();
        if self.found[at].predecessor.is_none() {
            corruptions.push(Corruption {
                path: path.clone(),
                from: 0,
                to: start.map_or(u64::MAX, |start| start.offset),
                first_record: 0,
                last_record: 0,
                reason: "the first block cannot be read".to_owned(),
            });
            // A record in the first one's place may be a later one that strayed there.
            let is_first = |start: &Expected| {
                start.offset == FIRST_RECORD && first_number.is_none_or(|n| n == start.number)
            };
            if let Some(feed) = &mut feed
                && !start.as_ref().is_some_and(is_first)
            {
                feed.gap();
            }
        }
        let (Some(start), Some(scope)) = (start, scope) else {
            self.report.corruptions.append(&mut corruptions);
            let next = Expected {
                offset: 0,
                number: 0,
                chain: 0,
            };
            return Ok((index, next));
        };
        let mut records = 0;
        let end = file.walk(start, &scope, &mut |walked| match walked {
            Walked::Record {
                offset,
                header,
                payload,
            } => {
                records += 1;
                apply(&mut index, offset, header);
                if let Some(feed) = &mut feed {
                    feed.record(&path, offset, header, payload);
                }
            }
            Walked::Corrupt(corruption) => {
                corruptions.push(corruption);
                if let Some(feed) = &mut feed {
                    feed.gap();
                }
            }
        });
        let end = end.map_err(|source| RecoverError::Io {
            path: path.clone(),
            source,
        })?;
        self.report.records_read += records;
        self.report.corruptions.append(&mut corruptions);
        // Behind a use of it a used file goes on with what was there before.
        if is_last && end.torn && !self.found[at].birth.in_used_file {
            self.report.torn = Some((path, end.next.offset));
        }
        match feed.and_then(|feed| feed.error.take()) {
            Some(error) => Err(error),
            None => Ok((index, end.next)),
        }
    }
}

fn first_expected(predecessor: &Predecessor) -> Expected {
    Expected {
        offset: FIRST_RECORD,
        number: predecessor.last_record + 1,
        chain: predecessor.checksum,
    }
}

/// The index is the second record of a segment.
pub(super) fn read_index(
    speaks: Speaks,
    file: &mut SegmentFile<'_>,
    scope: &Scope,
    predecessor: &Predecessor,
) -> io::Result<Option<(SegmentIndex, IndexStands)>> {
    let Ok((checkpoint, _)) = file.header(FIRST_RECORD, scope)? else {
        return Ok(None);
    };
    let offset = FIRST_RECORD + checkpoint.total_length() as u64;
    let Ok((header, _)) = file.header(offset, scope)? else {
        return Ok(None);
    };
    if header.number != predecessor.last_record + 2 {
        return Ok(None);
    }
    let length = header.total_length();
    let record = file.bytes(offset, length)?;
    let index = parse_index(speaks, record, Some(scope.salt), scope.log).ok();
    Ok(index.map(|index| {
        let place = RecordPlace::new(offset, length as u64);
        let number = header.number;
        (index, IndexStands { number, place })
    }))
}

/// What the record says about bytes.
pub(super) fn apply(index: &mut SegmentIndex, offset: u64, header: &RecordHeader) {
    let Some(bytes) = header.bytes() else { return };
    let place = match header.kind {
        RecordKind::Lost => Whereabouts::Lost,
        _ => Whereabouts::Record(RecordPlace::new(offset, header.total_length() as u64)),
    };
    index.apply(header.stream, bytes, place);
}
