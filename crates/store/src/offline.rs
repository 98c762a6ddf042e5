//! A log's chosen output, read from a directory that no process serves.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use formats::LogId;
use formats::segment::directory_name;
use formats::version::Speaks;
use ops::{DirectoryEntry, Disk};
use paxos::{Checkpoint, LogState, Slot, StreamName, StreamPosition};
use thiserror::Error;

use super::extents::Extents;
use super::index::{RecordPlace, SegmentIndex, Whereabouts};
use super::scan::{Corruption, Scope, SegmentFile, Window};
use super::{Manifest, ManifestError, RecoveryReport, ReplayError, Store, StoreConfig};

/// Yields every byte of the output that a state speaks of, in order, verified.
///
/// ```text
/// let (mut output, checkpoint) = ReadOffline::open(disk, directory, log)?;
/// while let Some(piece) = output.next(disk)? { … }
///
/// next ──▶ indexes, newest segment first ──▶ window on its file ──▶ record, verified ──▶ piece
/// ```
///
/// `None` comes only after the whole output: damage that hides some of it is an error, never an end.
pub struct ReadOffline {
    segments: Vec<OfflineSegment>,
    log: LogId,
    /// The ranges still to be read, last first.
    wanted: Vec<(StreamName, Range<u64>)>,
    /// The windows; the one used last comes last.
    windows: Vec<Window>,
    /// Counts searches in indexes, for least recently used.
    uses: u64,
    report: RecoveryReport,
    lacks: Option<Lacks>,
    /// The first slot not known chosen.
    known: Slot,
}

/// The most windows: where segments overlap, the output goes back and forth between them.
const WINDOWS_MAX: usize = 4;

/// The most indexes in memory, beside those that are not on disk.
const INDEXES_MAX: usize = 8;

struct OfflineSegment {
    path: PathBuf,
    salt: Option<u64>,
    /// Its records end here.
    end: u64,
    index: Option<SegmentIndex>,
    index_stands: Option<super::IndexStands>,
    last_used: u64,
    extents: Extents,
    /// Bytes within the extents that the index was seen not to have: it need not be there for them.
    absent: Option<(StreamName, Range<u64>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflinePiece {
    pub stream: StreamName,
    pub position: StreamPosition,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Error)]
pub enum OfflineError {
    #[error("{path} cannot be read: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// The bytes are not held, and no damage is known that could be why.
    #[error("byte {position} of stream {stream} is not held here")]
    NotHeld {
        stream: StreamName,
        position: StreamPosition,
    },
    #[error(
        "{path} is damaged at byte {offset}, so byte {position} of stream {stream} cannot be read: {reason}"
    )]
    Corrupt {
        path: PathBuf,
        offset: u64,
        stream: StreamName,
        position: StreamPosition,
        reason: String,
    },
    #[error(
        "byte {position} of stream {stream} was lost to damage, as a record in {path} says, and has not come back from a peer"
    )]
    Lost {
        path: PathBuf,
        stream: StreamName,
        position: StreamPosition,
    },
    /// The whole known output was read, and there may be more.
    #[error(
        "{path} is damaged at byte {offset}: {reason}; what was chosen is known below slot {known} only, and accepted may be what is below {learn_past}"
    )]
    Hidden {
        path: PathBuf,
        offset: u64,
        reason: String,
        known: Slot,
        learn_past: Slot,
    },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{0} has no manifest: it is not a node's directory")]
    NoManifest(PathBuf),
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Bytes that are chosen, not trimmed, and in no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacks {
    pub bytes: u64,
    /// The first of them.
    pub stream: StreamName,
    pub from: StreamPosition,
}

fn lacks(store: &Store, state: &LogState) -> Option<Lacks> {
    if state.configuration.is_auxiliary(store.config.identity.node) {
        return None;
    }
    let mut missing = state.streams.iter().flat_map(|stream| {
        let output = stream.trimmed..stream.length;
        let missing = store.holdings().missing(stream.name, output);
        missing.map(|range| (stream.name, range))
    });
    let (stream, first) = missing.next()?;
    let more: u64 = missing.map(|(_, range)| range.end.0 - range.start.0).sum();
    Some(Lacks {
        bytes: first.end.0 - first.start.0 + more,
        stream,
        from: first.start,
    })
}

/// A disk that is looked at and not touched: files that recovery would put aside stay where they are.
struct LookOnly<'a>(&'a mut dyn Disk);

impl ReadOffline {
    /// Opens one log in a node's directory: its untrimmed output, and the state that says so.
    pub fn open(
        disk: &mut dyn Disk,
        directory: &Path,
        log: LogId,
    ) -> Result<(ReadOffline, Checkpoint), OfflineError> {
        let manifest = Manifest::load(disk, directory)?;
        let manifest = manifest.ok_or_else(|| OfflineError::NoManifest(directory.to_owned()))?;
        let path = directory.join(directory_name(log));
        let config = StoreConfig::new(path, manifest.identity, log, 0);
        let (store, report, checkpoint) = Store::replay(config, &mut LookOnly(disk))?;
        let output = ReadOffline::new(&store, report, &checkpoint.state);
        Ok((output, checkpoint))
    }

    /// All untrimmed output of `state`, by a store just recovered (nothing is written).
    pub fn new(store: &Store, report: RecoveryReport, state: &LogState) -> ReadOffline {
        let mut wanted: Vec<_> = state
            .streams
            .iter()
            .map(|stream| (stream.name, stream.trimmed.0..stream.length.0))
            .filter(|(_, range)| !range.is_empty())
            .collect();
        wanted.reverse();
        let segments = store
            .segments
            .iter()
            .map(|(number, segment)| OfflineSegment {
                path: store.path(*number),
                salt: segment.salt,
                end: segment.end,
                index: segment.index.clone(),
                index_stands: segment.index_stands,
                last_used: 0,
                extents: segment.extents.clone(),
                absent: None,
            });
        ReadOffline {
            segments: segments.collect(),
            log: store.config.log,
            wanted,
            windows: Vec::new(),
            uses: 0,
            report,
            lacks: lacks(store, state),
            known: state.next,
        }
    }

    /// The findings of opening. Corruption in them need not touch the output; where it does,
    /// [`ReadOffline::next`] says so.
    pub fn report(&self) -> &RecoveryReport {
        &self.report
    }

    /// Bytes of the output that none of the files has: they went with files, or were never fetched. A node that is no full voter need
    /// have none.
    pub fn lacks(&self) -> Option<Lacks> {
        self.lacks
    }

    /// The next bytes, or `None` after the last.
    ///
    /// Shape:  record on the disk -> its payload from the next position on.
    /// Units:  at least one byte, at most one record's.
    /// Errors: the position stays, so that the same error comes again.
    pub fn next(&mut self, disk: &mut dyn Disk) -> Result<Option<OfflinePiece>, OfflineError> {
        let Some((stream, range)) = self.wanted.last().cloned() else {
            return self.hidden().map_or(Ok(None), Err);
        };
        let (at, place) = self.find(disk, stream, range.start)?;
        let mut file = SegmentFile::with(disk, take_window(&mut self.windows, &self.segments[at]));
        let scope = self.segments[at].salt.map(|salt| Scope {
            log: self.log,
            salt,
        });
        let read = match &scope {
            Some(scope) => read_record(&mut file, scope, place, stream, &range),
            None => Ok(Err("the first block cannot be read".to_owned())),
        };
        self.windows.push(file.into_window());
        let path = &self.segments[at].path;
        let read = read.map_err(|source| OfflineError::Io {
            path: path.clone(),
            source,
        })?;
        let position = StreamPosition(range.start);
        let bytes = read.map_err(|reason| OfflineError::Corrupt {
            path: path.clone(),
            offset: place.offset(),
            stream,
            position,
            reason,
        })?;
        self.wanted.pop();
        let end = range.start + bytes.len() as u64;
        if end < range.end {
            self.wanted.push((stream, end..range.end));
        }
        Ok(Some(OfflinePiece {
            stream,
            position,
            bytes,
        }))
    }

    /// Goes on behind the place of the last error, at most to where another piece begins: some may be left,
    /// and be an error again. `None` if nothing is wanted any more.
    pub fn skip(&mut self) -> Option<(StreamName, Range<u64>)> {
        let (stream, range) = self.wanted.pop()?;
        let mut end = range.end;
        for segment in &self.segments {
            let Some(index) = &segment.index else {
                // Every segment that may hold the bytes was looked at, and left the memory again.
                let holds = segment.may_hold(stream, range.start);
                end = end.min(if holds { range.start + 1 } else { end });
                continue;
            };
            let piece = index.find(stream, range.start).map(|(piece, _)| piece.end);
            let next = index.next_piece(stream, range.start + 1);
            end = end.min(piece.unwrap_or(end)).min(next.unwrap_or(end));
        }
        for segment in self.segments.iter().filter(|s| s.index.is_none()) {
            let extent = segment.extents.get(stream);
            let begins = extent.and_then(|extent| extent.next_range(range.start));
            end = end.min(begins.unwrap_or(end));
        }
        if end < range.end {
            self.wanted.push((stream, end..range.end));
        }
        Some((stream, range.start..end))
    }

    /// The reason why the state may know less than was acknowledged, if there is one.
    fn hidden(&self) -> Option<OfflineError> {
        let learn_past = self.report.learn_past?;
        if learn_past <= self.known {
            return None;
        }
        let (path, offset, reason) = match self.report.corruptions.last() {
            Some(corruption) => (corruption.path.clone(), corruption.from, corruption.what()),
            None => {
                let newest = self.segments.last()?;
                let reason = "the records that end there tell of acceptances lost earlier";
                (newest.path.clone(), newest.end, reason.to_owned())
            }
        };
        Some(OfflineError::Hidden {
            path,
            offset,
            reason,
            known: self.known,
            learn_past,
        })
    }

    /// The segment and the record that hold this byte.
    fn find(
        &mut self,
        disk: &mut dyn Disk,
        stream: StreamName,
        position: u64,
    ) -> Result<(usize, RecordPlace), OfflineError> {
        for at in (0..self.segments.len()).rev() {
            if !self.segments[at].may_hold(stream, position) {
                continue;
            }
            self.load(disk, at, stream, position)?;
            let segment = &mut self.segments[at];
            let Some(index) = &segment.index else {
                continue;
            };
            match index.find(stream, position) {
                Some((_, Whereabouts::Record(place))) => return Ok((at, place)),
                Some((_, Whereabouts::Lost)) => return Err(self.lost(at, stream, position)),
                None => {
                    let end = index.next_piece(stream, position).unwrap_or(u64::MAX);
                    segment.absent = Some((stream, position..end));
                }
            }
        }
        Err(self.not_found(stream, StreamPosition(position)))
    }

    /// The error for a byte that the segment's newest word calls lost: by the findings of the start, or by a
    /// record.
    fn lost(&self, at: usize, stream: StreamName, position: u64) -> OfflineError {
        let path = &self.segments[at].path;
        let mut corruptions = self.report.corruptions.iter();
        match corruptions.find(|corruption| corruption.path == *path) {
            Some(corruption) => self.corrupt(corruption, stream, StreamPosition(position)),
            None => OfflineError::Lost {
                path: path.clone(),
                stream,
                position: StreamPosition(position),
            },
        }
    }

    fn corrupt(
        &self,
        corruption: &Corruption,
        stream: StreamName,
        position: StreamPosition,
    ) -> OfflineError {
        OfflineError::Corrupt {
            path: corruption.path.clone(),
            offset: corruption.from,
            stream,
            position,
            reason: corruption.what(),
        }
    }

    /// The error for a byte that no readable record has; one that cannot be read may have had it.
    fn not_found(&self, stream: StreamName, position: StreamPosition) -> OfflineError {
        match self.report.corruptions.first() {
            Some(corruption) => self.corrupt(corruption, stream, position),
            None => OfflineError::NotHeld { stream, position },
        }
    }

    /// Loads the segment's index into memory, for a search at this byte.
    fn load(
        &mut self,
        disk: &mut dyn Disk,
        at: usize,
        stream: StreamName,
        position: u64,
    ) -> Result<(), OfflineError> {
        self.uses += 1;
        self.segments[at].last_used = self.uses;
        if self.segments[at].index.is_some() {
            return Ok(());
        }
        let successor = &self.segments[at + 1];
        let path = successor.path.clone();
        let stands = self.segments[at].index_stands;
        let place = stands
            .expect("an index is dropped from memory only once on disk")
            .place;
        let mut record = vec![0; place.length() as usize];
        let count = disk.read_at(&path, place.offset(), &mut record);
        let count = count.map_err(|source| OfflineError::Io {
            path: path.clone(),
            source,
        })?;
        let index =
            super::read::parse_index(Speaks::THIS, &record[..count], successor.salt, self.log);
        let index = index.map_err(|reason| OfflineError::Corrupt {
            path,
            offset: place.offset(),
            stream,
            position: StreamPosition(position),
            reason,
        })?;
        self.segments[at].index = Some(index);
        self.drop_indexes();
        Ok(())
    }

    /// Drops indexes but for those used last.
    fn drop_indexes(&mut self) {
        loop {
            let on_disk = self.segments.iter_mut();
            let on_disk = on_disk.filter(|s| s.index.is_some() && s.index_stands.is_some());
            let mut on_disk: Vec<_> = on_disk.collect();
            if on_disk.len() <= INDEXES_MAX {
                return;
            }
            on_disk.sort_by_key(|segment| segment.last_used);
            on_disk[0].index = None;
        }
    }
}

impl OfflineSegment {
    fn may_hold(&self, stream: StreamName, position: u64) -> bool {
        let absent = self.absent.as_ref();
        self.extents.may_hold(stream, position)
            && !absent.is_some_and(|(of, range)| *of == stream && range.contains(&position))
    }
}

/// The segment's window, or a new one instead of the one not used for longest.
fn take_window(windows: &mut Vec<Window>, segment: &OfflineSegment) -> Window {
    if let Some(at) = windows.iter().position(|w| w.path == segment.path) {
        return windows.remove(at);
    }
    if windows.len() == WINDOWS_MAX {
        windows.remove(0);
    }
    Window::new(segment.path.clone())
}

impl Store {
    /// [`Store::replay`] of a disk that is not to be changed.
    pub fn replay_only(
        config: StoreConfig,
        disk: &mut dyn Disk,
    ) -> Result<(Store, RecoveryReport, Checkpoint), ReplayError> {
        Store::replay(config, &mut LookOnly(disk))
    }
}

/// Reads as many of the wanted bytes as the record holds, or says what is wrong with it.
fn read_record(
    file: &mut SegmentFile<'_>,
    scope: &Scope,
    place: RecordPlace,
    stream: StreamName,
    wanted: &Range<u64>,
) -> io::Result<Result<Vec<u8>, String>> {
    let offset = place.offset();
    let header = match file.header(offset, scope)? {
        Ok((header, _)) => header,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let payload = match file.payload(offset, &header)? {
        Ok(payload) => payload,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let held = header.bytes().unwrap_or_default();
    let from = wanted.start.saturating_sub(held.start) as usize;
    let to = held.end.min(wanted.end).saturating_sub(held.start) as usize;
    let bytes = payload.get(from..to).filter(|bytes| !bytes.is_empty());
    match bytes {
        Some(bytes) if header.stream == stream && held.contains(&wanted.start) => {
            Ok(Ok(bytes.to_vec()))
        }
        _ => Ok(Err("another record stands there".to_owned())),
    }
}

impl Disk for LookOnly<'_> {
    fn list(&mut self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.0.list(directory)
    }
    fn read_at(&mut self, path: &Path, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(path, offset, into)
    }
    fn settle(&mut self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn is_still(&mut self, _: &Path) -> bool {
        false
    }
    fn write_file(&mut self, _: &Path, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn create_directory(&mut self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&mut self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn lock(&mut self, path: &Path) -> io::Result<()> {
        self.0.lock(path)
    }
    fn free_space(&mut self, path: &Path) -> io::Result<u64> {
        self.0.free_space(path)
    }
    fn random(&mut self) -> io::Result<[u8; 16]> {
        self.0.random()
    }
    fn write_path(&mut self, directory: &Path) -> String {
        self.0.write_path(directory)
    }
}
