//! A log's chosen output, read from a directory that no process serves.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use paxos::{Checkpoint, LogState, StreamName, StreamPosition};
use thiserror::Error;

use super::index::{Place, RecordPlace, SegmentIndex};
use super::scan::{Scope, SegmentFile};
use super::{Manifest, ManifestError, ReplayError, Store, StoreConfig};
use crate::LogId;
use crate::format::segment::directory_name;
use crate::op::{DirectoryEntry, Disk};

/// Yields every byte of the output that a state speaks of, in order, verified.
///
/// ```text
/// let (mut output, checkpoint) = ReadOffline::open(disk, directory, log)?;
/// while let Some(piece) = output.next(disk)? { … }
/// ```
pub struct ReadOffline {
    segments: Vec<OfflineSegment>,
    log: LogId,
    /// What is still to be read, last first.
    wanted: Vec<(StreamName, Range<u64>)>,
}

struct OfflineSegment {
    path: PathBuf,
    salt: Option<u64>,
    index: Option<SegmentIndex>,
    index_stands: Option<super::IndexStands>,
    extents: std::collections::BTreeMap<StreamName, Range<u64>>,
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
    #[error("byte {position} of stream {stream} is not held here")]
    NotHeld {
        stream: StreamName,
        position: StreamPosition,
    },
    #[error("{path} is corrupt at {offset}")]
    Corrupt { path: PathBuf, offset: u64 },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{0} has no manifest: it is not a node's directory")]
    NoManifest(PathBuf),
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// A disk that is looked at and not touched: what recovery would put aside stays where it is.
struct LookOnly<'a>(&'a mut dyn Disk);

impl ReadOffline {
    /// Of one log in a node's directory: its untrimmed output, and the state that says so.
    pub fn open(
        disk: &mut dyn Disk,
        directory: &Path,
        log: LogId,
    ) -> Result<(ReadOffline, Checkpoint), OfflineError> {
        let manifest = Manifest::load(disk, directory)?;
        let manifest = manifest.ok_or_else(|| OfflineError::NoManifest(directory.to_owned()))?;
        let path = directory.join(directory_name(log));
        let config = StoreConfig::new(path, manifest.identity, log, 0);
        let (store, _, checkpoint) = Store::replay(config, &mut LookOnly(disk))?;
        let output = ReadOffline::new(&store, &checkpoint.state);
        Ok((output, checkpoint))
    }

    /// Of a store just recovered (nothing is written): all untrimmed output of `state`.
    pub fn new(store: &Store, state: &LogState) -> ReadOffline {
        let config: &StoreConfig = &store.config;
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
                index: segment.index.clone(),
                index_stands: segment.index_stands,
                extents: segment.extents.clone(),
            });
        ReadOffline {
            segments: segments.collect(),
            log: config.log,
            wanted,
        }
    }

    /// The next bytes, or `None` after the last.
    pub fn next(&mut self, disk: &mut dyn Disk) -> Result<Option<OfflinePiece>, OfflineError> {
        let Some((stream, range)) = self.wanted.pop() else {
            return Ok(None);
        };
        let (path, salt, place) = self.find(disk, stream, range.start)?;
        let offset = place.offset();
        let corrupt = || OfflineError::Corrupt {
            path: path.clone(),
            offset,
        };
        let failed = |source| OfflineError::Io {
            path: path.clone(),
            source,
        };
        let scope = Scope {
            log: self.log,
            salt: salt.ok_or_else(corrupt)?,
            last_record: None,
        };
        let mut file = SegmentFile::new(disk, path.clone());
        let header = file.header(offset, &scope).map_err(failed)?;
        let (header, _) = header.map_err(|_| corrupt())?;
        let payload = file.payload(offset, &header).map_err(failed)?;
        let payload = payload.map_err(|_| corrupt())?;
        let held = header.bytes().unwrap_or_default();
        if header.stream != stream || !held.contains(&range.start) || payload.is_empty() {
            return Err(corrupt());
        }
        let end = held.end.min(range.end);
        let inside = (range.start - held.start) as usize..(end - held.start) as usize;
        let piece = OfflinePiece {
            stream,
            position: StreamPosition(range.start),
            bytes: payload[inside].to_vec(),
        };
        if end < range.end {
            self.wanted.push((stream, end..range.end));
        }
        Ok(Some(piece))
    }

    fn find(
        &mut self,
        disk: &mut dyn Disk,
        stream: StreamName,
        position: u64,
    ) -> Result<(PathBuf, Option<u64>, RecordPlace), OfflineError> {
        let missing = OfflineError::NotHeld {
            stream,
            position: StreamPosition(position),
        };
        for at in (0..self.segments.len()).rev() {
            let extent = self.segments[at].extents.get(&stream);
            if !extent.is_some_and(|extent| extent.contains(&position)) {
                continue;
            }
            self.load(disk, at)?;
            let segment = &self.segments[at];
            let index = segment.index.as_ref();
            match index.and_then(|index| index.find(stream, position)) {
                Some((_, Place::Record(place))) => {
                    return Ok((segment.path.clone(), segment.salt, place));
                }
                Some((_, Place::Lost)) => return Err(missing),
                None => {}
            }
        }
        Err(missing)
    }

    /// One index at a time stays in memory, beside those the store kept.
    fn load(&mut self, disk: &mut dyn Disk, at: usize) -> Result<(), OfflineError> {
        if self.segments[at].index.is_some() {
            return Ok(());
        }
        let successor = &self.segments[at + 1];
        let path = successor.path.clone();
        let stands = self.segments[at].index_stands;
        let place = stands
            .expect("an index is dropped from memory only once on disk")
            .place;
        let mut file = SegmentFile::new(disk, path.clone());
        let record = file.bytes(place.offset(), place.length() as usize);
        let record = record.map_err(|source| OfflineError::Io {
            path: path.clone(),
            source,
        })?;
        let index = super::read::parse_index(record, successor.salt, self.log);
        let index = index.map_err(|_| OfflineError::Corrupt {
            path,
            offset: place.offset(),
        })?;
        for segment in &mut self.segments {
            if segment.index_stands.is_some() {
                segment.index = None;
            }
        }
        self.segments[at].index = Some(index);
        Ok(())
    }
}

impl Disk for LookOnly<'_> {
    fn list(&mut self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.0.list(directory)
    }
    fn read_at(&mut self, path: &Path, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(path, offset, into)
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
