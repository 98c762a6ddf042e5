//! What a start finds: which segments are whole, where the last one ends, and what its records say.
//!
//! Nothing found is ever written to again, or truncated. A segment that was being born when the
//! node died is renamed to `*.torn`; everything else stays as it is, and the caller's first act is
//! [`Store::roll`]: the new segment's first block says where the one before ends.

mod feed;
mod find;
mod walk;

use std::io;
use std::path::{Path, PathBuf};

use paxos::{Checkpoint, Slot, SlotRange, Term, Value};
use thiserror::Error;

use super::index::{RecordPlace, SegmentIndex, Whereabouts};
use super::read::{FIRST_RECORD, parse_index};
use super::scan::{Corruption, Expected, Scope, SegmentFile};
use super::trim::Spare;
use super::{Awaiting, Holdings, IndexStands, Store, StoreConfig};
use crate::format::DecodeError;
use crate::format::record::{RecordHeader, RecordKind};
use crate::format::segment::{Birth, Predecessor, SegmentError};
use crate::op::{Disk, Op};
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
    /// The number of a record in it, if its first block is lost.
    a_record: Option<u64>,
    /// Its first block is lost, and the device did not give all that was looked at: if nothing tells that
    /// the segment was born, it may have been.
    unsure: Option<io::Error>,
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

    /// No record of the segment at `at` has this number, or a lower one: a file may still hold
    /// records of an earlier use, which were of segments older than any that is there.
    fn above(&self, at: usize) -> u64 {
        let before = self.found[..at].iter();
        let known = before.filter_map(|found| match found.predecessor {
            Some(predecessor) => Some(predecessor.last_record),
            None => found.a_record,
        });
        known.max().unwrap_or(0)
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
