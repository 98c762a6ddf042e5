//! The findings of a start, and their consequences.
//!
//! ```text
//!  list, settle ──▶ recovery::decide ──▶ put aside what was being born ──▶ Store, then go on
//! ```
//!
//! No block found is ever written to again, or truncated. A segment that was being born when the
//! node died is renamed to `*.torn`; everything else stays as it is, and the caller's first act is
//! [`Store::go_on`]: behind the end of a log that rested, or else in a new segment ([`Store::roll`]), whose first
//! block says where the one before ends. Nothing is renamed before all is decided: a start that is
//! refused leaves all as it was.

mod feed;
mod files;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use formats::DecodeError;
use formats::record::{RecordHeader, RecordKind};
use formats::segment::{self, SegmentError, SegmentHeader};
use ops::{BLOCK, DirectoryEntry, Disk, Op};
use paxos::mutation::{self, Mutation};
use paxos::{Checkpoint, Slot, SlotRange, Term, Value};
use thiserror::Error;

pub use self::feed::recovered;
pub(super) use self::feed::recovered_of;
pub(super) use self::files::{Files, Sink, Whose};
use super::extents::Extents;
use super::index::{RecordPlace, SegmentIndex, Whereabouts};
use super::recovery::{self, Aside, Depth, Inventory, Lost, Refusal, Stop, Verdict};
use super::scan::Corruption;
use super::trim::Spare;
use super::write::Writer;
use super::{Awaiting, Holdings, IndexStands, Segment, Store, StoreConfig};

/// A record of the directory, in file order, from the newest checkpoint that can be read.
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
    /// All slots below were known chosen when the record before this was written: that record included.
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
    /// The promise by the newest record; nothing found on disk is above it.
    pub promised: paxos::PromisedTerm,
    pub first_unchosen: Slot,
    /// The place where an unacknowledged write was cut off.
    pub torn: Option<(PathBuf, u64)>,
    /// Acknowledged records that are not readable any more.
    pub corruptions: Vec<Corruption>,
    /// Acceptances below this slot may have been lost: answer no prepare until every slot below it
    /// is known chosen.
    pub learn_past: Option<Slot>,
    /// The new names of segments that were being born.
    pub quarantined: Vec<PathBuf>,
    /// The number of files kept to become segments.
    pub spares: usize,
    /// Files that are not ours; left alone.
    pub unknown: Vec<PathBuf>,
}

#[derive(Debug, Error)]
pub enum RecoverError {
    #[error("{path} cannot be read: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} is refused: {reason}")]
    Refused { path: PathBuf, reason: SegmentError },
    #[error("{path} holds a record at {offset} that this program cannot understand: {reason}")]
    NotUnderstood {
        path: PathBuf,
        offset: u64,
        reason: DecodeError,
    },
    /// There is no decision, by what the blocks say. The path is the file's, or the directory's.
    #[error("{path}: {refusal}")]
    Undecided { path: PathBuf, refusal: Refusal },
}

/// The files of a log's directory.
struct Listed {
    entries: Vec<DirectoryEntry>,
    numbers: Vec<u64>,
    spares: Vec<Spare>,
    unknown: Vec<PathBuf>,
}

impl Store {
    /// Reads the directory. `on_record` sees every record that still matters, in file order.
    pub fn recover(
        config: StoreConfig,
        disk: &mut dyn Disk,
        on_record: &mut dyn FnMut(RecoveredRecord),
    ) -> Result<(Store, RecoveryReport), RecoverError> {
        let (store, mut report, losses) = Store::find(config, disk, on_record)?;
        report.corruptions = losses.damage(&store, None);
        Ok((store, report))
    }

    /// [`Store::recover`], and the losses, which are not judged yet: the report has no corruptions.
    pub(super) fn find(
        config: StoreConfig,
        disk: &mut dyn Disk,
        on_record: &mut dyn FnMut(RecoveredRecord),
    ) -> Result<(Store, RecoveryReport, Losses), RecoverError> {
        settle(disk, &config.directory)?;
        let listed = list(&config, disk)?;
        let paths: Vec<PathBuf> = listed.numbers.iter().map(|n| path(&config, *n)).collect();
        // ‡ This is asked before the file is read: a write that comes later would not be seen.
        let is_still = paths.last().is_some_and(|last| disk.is_still(last));
        let is_still = is_still || mutation::is(Mutation::LateWriteNotAwaited);
        settle_newest(&config, disk, &listed.numbers)?;
        let feed = feed::Feed {
            speaks: config.speaks,
            on_record,
            indexes: BTreeMap::new(),
        };
        let whose = Whose {
            identity: config.identity,
            log: config.log,
            speaks: config.speaks,
        };
        let mut files = Files::new(disk, whose, paths.clone(), feed);
        let verdict = recovery::decide(&mut files, &listed.numbers, Depth::Start);
        let verdict = verdict.map_err(|stop| stopped(stop, &config.directory, &paths))?;
        let indexes = files.sink.indexes;
        let mut report = report(&verdict, &paths);
        report.unknown = listed.unknown.clone();
        let mut spares = listed.spares.clone();
        let born = verdict.segments.len();
        let mut empty = Vec::new();
        for (aside, path) in verdict.aside.iter().zip(paths[born..].iter().rev()) {
            let aside = put_aside(&config, disk, &listed.entries, path, *aside)?;
            match aside {
                PutAside::Spare(spare) => spares.push(spare),
                PutAside::Torn { path, is_written } => {
                    if !is_written {
                        empty.push(path.clone());
                    }
                    report.quarantined.push(path);
                }
            }
        }
        report.spares = spares.len();
        let mut store = Store::empty(config);
        store.begin_from(&verdict, &listed.numbers, indexes);
        let resting = verdict.resting().filter(|_| is_still);
        store.resting = resting.map(|segment| segment.version);
        empty.append(&mut store.adopt_spares(spares));
        for path in empty {
            let token = store.token(Awaiting::Tidied);
            store.ops.push_back(Op::Remove {
                token,
                path,
                urgent: false,
            });
        }
        Ok((store, report, Losses { verdict, paths }))
    }

    fn begin_from(
        &mut self,
        verdict: &Verdict,
        numbers: &[u64],
        mut indexes: BTreeMap<usize, SegmentIndex>,
    ) {
        for (at, (segment, number)) in verdict.segments.iter().zip(numbers).enumerate() {
            let index = indexes.remove(&at).unwrap_or_default();
            hold(&mut self.holdings, &index);
            self.births.push(segment.birth);
            let stands = segment.index.map(|(offset, header)| IndexStands {
                number: header.number,
                place: RecordPlace::new(offset, header.total_length() as u64),
            });
            self.segments.insert(
                *number,
                Segment {
                    salt: segment.salt,
                    end: segment.end,
                    extents: Extents::of(&index),
                    index: Some(index),
                    index_stands: stands,
                    unsearchable: false,
                    last_used: 0,
                },
            );
        }
        self.writer = Writer::found(verdict);
        self.drop_indexes();
    }
}

fn path(config: &StoreConfig, number: u64) -> PathBuf {
    config.directory.join(segment::file_name(number))
}

fn list(config: &StoreConfig, disk: &mut dyn Disk) -> Result<Listed, RecoverError> {
    let directory = &config.directory;
    let mut listed = Listed {
        entries: match disk.list(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(io(directory, error)),
        },
        numbers: Vec::new(),
        spares: Vec::new(),
        unknown: Vec::new(),
    };
    for entry in &listed.entries {
        let spare = segment::spare_number_of(&entry.name);
        match (segment::number_of(&entry.name), spare) {
            _ if entry.is_directory => listed.unknown.push(directory.join(&entry.name)),
            (Some(number), _) => listed.numbers.push(number),
            (None, Some(number)) => listed.spares.push(Spare {
                number,
                bytes: entry.length,
            }),
            // The file was put aside by an earlier recovery.
            (None, None) if entry.name.ends_with(".torn") => {}
            (None, None) => listed.unknown.push(directory.join(&entry.name)),
        }
    }
    listed.numbers.sort_unstable();
    Ok(listed)
}

/// ‡ Makes a file durable that is read here: its records are announced without being written again, so they
/// must not only be in memory.
fn settle(disk: &mut dyn Disk, path: &Path) -> Result<(), RecoverError> {
    if mutation::is(Mutation::StartNotSettled) {
        return Ok(());
    }
    match disk.settle(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io(path, error)),
        _ => Ok(()),
    }
}

/// Settles the files that were written to since a segment was last begun.
///
/// ‡ A segment's first block is written only when all before it is durable. So from the newest segment whose
/// own first block is there, nothing of the ones before it is in memory alone.
fn settle_newest(
    config: &StoreConfig,
    disk: &mut dyn Disk,
    numbers: &[u64],
) -> Result<(), RecoverError> {
    for &number in numbers.iter().rev() {
        let path = path(config, number);
        settle(disk, &path)?;
        // Bytes that sockets put behind a segment's end may be in memory alone, however old the segment is.
        if config.landing.is_none() && is_begun(config, disk, &path, number) {
            break;
        }
    }
    Ok(())
}

/// Whether the segment's own first block is there. The decision finds and tells again what keeps it from
/// being read.
fn is_begun(config: &StoreConfig, disk: &mut dyn Disk, path: &Path, number: u64) -> bool {
    let mut block = vec![0; BLOCK];
    if disk.read_at(path, 0, &mut block).is_err() {
        return false;
    }
    let header = SegmentHeader::decode(config.speaks, &block);
    header.is_ok_and(|header| {
        let belongs = header.belongs_to(&config.identity, config.log, number);
        belongs.is_ok()
    })
}

enum PutAside {
    Spare(Spare),
    Torn { path: PathBuf, is_written: bool },
}

/// Puts aside a segment whose process ended while it was being born, or between taking a spare and writing
/// the first block of its new use.
fn put_aside(
    config: &StoreConfig,
    disk: &mut dyn Disk,
    entries: &[DirectoryEntry],
    path: &Path,
    aside: Aside,
) -> Result<PutAside, RecoverError> {
    let is_there = |name: &str| entries.iter().any(|entry| entry.name == name);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Aside::Spare(was) = aside
        && !is_there(&segment::spare_name(was))
    {
        let spare = config.directory.join(segment::spare_name(was));
        disk.rename(path, &spare).map_err(|e| io(path, e))?;
        let entry = entries.iter().find(|entry| entry.name == name);
        return Ok(PutAside::Spare(Spare {
            number: was,
            bytes: entry.map_or(0, |entry| entry.length),
        }));
    }
    let mut aside_name = format!("{name}.torn");
    let mut attempt = 1;
    while is_there(&aside_name) {
        attempt += 1;
        aside_name = format!("{name}.{attempt}.torn");
    }
    let to = config.directory.join(aside_name);
    disk.rename(path, &to).map_err(|e| io(path, e))?;
    let is_written = !matches!(aside, Aside::Torn { is_written: false });
    Ok(PutAside::Torn {
        path: to,
        is_written,
    })
}

fn report(verdict: &Verdict, paths: &[PathBuf]) -> RecoveryReport {
    let last = verdict.segments.len() - 1;
    RecoveryReport {
        segments: verdict.segments.len(),
        records_read: verdict.records,
        last_record: verdict.next.number - 1,
        promised: verdict.promised,
        first_unchosen: verdict.first_unchosen,
        torn: verdict
            .torn
            .then(|| (paths[last].clone(), verdict.next.offset)),
        learn_past: Some(verdict.learn_past).filter(|slot| slot.0 > 0),
        ..RecoveryReport::default()
    }
}

/// The losses that a start found.
pub(super) struct Losses {
    verdict: Verdict,
    paths: Vec<PathBuf>,
}

impl Losses {
    /// The losses that are damage. Without a checkpoint everything counts as needed.
    pub fn damage(&self, store: &Store, checkpoint: Option<&Checkpoint>) -> Vec<Corruption> {
        let damage = self.verdict.damage(Inventory {
            node: store.config.identity.node,
            checkpoint,
            holdings: &store.holdings,
        });
        let damaged = damage.damaged.into_iter();
        damaged.map(|lost| corruption(lost, &self.paths)).collect()
    }
}

pub(super) fn corruption(lost: &Lost, paths: &[PathBuf]) -> Corruption {
    Corruption {
        path: paths[lost.at].clone(),
        from: lost.from,
        to: lost.to,
        first_record: lost.first_record,
        last_record: lost.last_record,
        reason: lost.reason.clone(),
    }
}

/// The sentence, and the file that it is about.
pub(super) fn stopped(
    stop: Stop<RecoverError>,
    directory: &Path,
    paths: &[PathBuf],
) -> RecoverError {
    let refusal = match stop {
        Stop::Failed(error) => return error,
        Stop::Refused(refusal) => refusal,
    };
    let of = match &refusal {
        Refusal::Foreign { at, reason } => {
            return RecoverError::Refused {
                path: paths[*at].clone(),
                reason: *reason,
            };
        }
        Refusal::Unreadable { at, .. } | Refusal::NoBound { at, .. } | Refusal::Mixed { at } => {
            paths[*at].clone()
        }
        Refusal::MissingSegments { first, .. } => directory.join(segment::file_name(*first)),
        Refusal::Empty | Refusal::NoCheckpoint => directory.to_owned(),
    };
    RecoverError::Undecided { path: of, refusal }
}

fn io(path: &Path, source: io::Error) -> RecoverError {
    RecoverError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Takes an index into the holdings, in the order of the segments.
pub(super) fn hold(holdings: &mut Holdings, index: &SegmentIndex) {
    for (stream, bytes, place) in index.iter() {
        match place {
            Whereabouts::Record(_) => holdings.add(stream, bytes),
            Whereabouts::Lost => holdings.remove(stream, bytes),
        }
    }
}

/// Applies what the record says about bytes.
pub(super) fn apply(
    index: &mut SegmentIndex,
    offset: u64,
    header: &RecordHeader,
    taken: recovery::Taken,
) {
    let Some(bytes) = header.bytes() else { return };
    let place = match header.kind {
        RecordKind::Lost => Whereabouts::Lost,
        _ if !taken.is_whole => Whereabouts::Lost,
        _ => Whereabouts::Record(RecordPlace::new(offset, header.total_length() as u64)),
    };
    index.apply(header.stream, bytes, place);
}
