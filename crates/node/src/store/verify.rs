//! Checks a node's whole directory while no process serves it, and says what it holds.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::Holdings;
use super::index::SegmentIndex;
use super::manifest::{Manifest, ManifestError, hex};
use super::read::FIRST_RECORD;
use super::recover::{apply, hold, read_index};
use super::scan::{Corruption, Expected, Scope, SegmentFile, Walked};
use crate::format::record::{RecordHeader, RecordKind};
use crate::format::segment::{self, Predecessor, SegmentError, SegmentHeader};
use crate::op::{BLOCK, Disk};
use crate::version::Speaks;
use crate::{Identity, LogId};

#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    pub cluster: String,
    pub node: u32,
    pub disk: String,
    pub incarnation: u32,
    pub logs: Vec<LogReport>,
    pub problems: Vec<Problem>,
    /// Files and directories that are not ours; nothing was done to them.
    pub unknown: Vec<PathBuf>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct LogReport {
    pub log: u32,
    pub name: Option<String>,
    pub segments: u64,
    pub records: u64,
    pub file_bytes: u64,
    /// Stream bytes held.
    pub held_bytes: u64,
    pub streams: Vec<StreamReport>,
    pub promised: String,
    pub accepted_terms: Vec<String>,
    pub first_unchosen: u64,
    /// An unacknowledged write: no harm.
    pub torn_tail: Option<Place>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamReport {
    pub stream: String,
    /// Half-open ranges of positions held.
    pub held: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Place {
    pub file: PathBuf,
    pub offset: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    pub file: PathBuf,
    pub offset: u64,
    /// The file is not there at all, and the node does not start without it.
    pub missing: bool,
    pub what: String,
}

#[derive(Debug, Error)]
pub enum VerifyError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{0} has no manifest: it is not a node's directory")]
    NoManifest(PathBuf),
    #[error("{path} cannot be read: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl VerifyReport {
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Reads every record of every log. `progress` is told bytes done and bytes in all.
///
/// Errors: only what keeps it from looking (no manifest, a directory or file that cannot be read); what
/// is wrong with records is in the report.
pub fn verify(
    disk: &mut dyn Disk,
    directory: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport, VerifyError> {
    let manifest = Manifest::read(Speaks::THIS, disk, directory)?
        .ok_or_else(|| VerifyError::NoManifest(directory.to_owned()))?;
    let mut report = VerifyReport {
        cluster: hex(&manifest.identity.cluster.0),
        node: manifest.identity.node.0,
        disk: hex(&manifest.identity.disk.0),
        incarnation: manifest.incarnation,
        ..VerifyReport::default()
    };
    for lost in manifest.lost_logs(disk, directory)? {
        report.problems.push(Problem {
            file: lost,
            offset: 0,
            missing: true,
            what: "listed in the manifest and not there: this is a lost disk".to_owned(),
        });
    }
    let mut logs = Vec::new();
    for entry in list(disk, directory)? {
        let path = directory.join(&entry.name);
        match segment::log_of(&entry.name) {
            Some(log) if entry.is_directory => logs.push((log, path)),
            _ if [
                super::manifest::MANIFEST_FILE,
                super::manifest::LOCK_FILE,
                crate::node::PEERS_FILE,
            ]
            .contains(&entry.name.as_str()) => {}
            _ => report.unknown.push(path),
        }
    }
    let mut files = Vec::new();
    let mut bytes_all = 0;
    for (log, path) in logs {
        let mut segments = Vec::new();
        for entry in list(disk, &path)? {
            match segment::number_of(&entry.name) {
                Some(number) if !entry.is_directory => {
                    bytes_all += entry.length;
                    segments.push((number, path.join(&entry.name), entry.length));
                }
                _ if entry.name.ends_with(".torn") => {}
                _ if segment::spare_number_of(&entry.name).is_some() => {}
                _ => report.unknown.push(path.join(&entry.name)),
            }
        }
        segments.sort();
        files.push((log, segments));
    }
    let mut bytes_done = 0;
    for (log, segments) in files {
        let mut check = LogCheck::new(log, manifest.identity, &mut report.problems);
        check.report.name = manifest
            .logs
            .iter()
            .find(|listed| listed.id == log)
            .map(|listed| listed.name.clone());
        check.segments(disk, &segments, &mut |bytes| {
            bytes_done += bytes;
            progress(bytes_done, bytes_all);
        })?;
        let report_of_log = check.finish();
        report.logs.push(report_of_log);
    }
    Ok(report)
}

fn list(
    disk: &mut dyn Disk,
    directory: &Path,
) -> Result<Vec<crate::op::DirectoryEntry>, VerifyError> {
    disk.list(directory).map_err(|source| VerifyError::Io {
        path: directory.to_owned(),
        source,
    })
}

struct LogCheck<'a> {
    log: LogId,
    identity: Identity,
    problems: &'a mut Vec<Problem>,
    report: LogReport,
    holdings: Holdings,
    accepted_terms: BTreeMap<paxos::Term, ()>,
    newest: Option<RecordHeader>,
}

impl<'a> LogCheck<'a> {
    fn new(log: LogId, identity: Identity, problems: &'a mut Vec<Problem>) -> LogCheck<'a> {
        LogCheck {
            log,
            identity,
            problems,
            report: LogReport {
                log: log.0,
                ..LogReport::default()
            },
            holdings: Holdings::default(),
            accepted_terms: BTreeMap::new(),
            newest: None,
        }
    }

    fn problem(&mut self, file: &Path, offset: u64, what: String) {
        self.problems.push(Problem {
            file: file.to_owned(),
            offset,
            missing: false,
            what,
        });
    }

    fn segments(
        &mut self,
        disk: &mut dyn Disk,
        files: &[(u64, PathBuf, u64)],
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), VerifyError> {
        let mut headers = Vec::new();
        for (at, (number, path, _)) in files.iter().enumerate() {
            let is_last = at + 1 == files.len();
            headers.push(self.first_block(disk, *number, path, is_last)?);
        }
        for pair in files.windows(2) {
            self.check_missing(&pair[0].1, pair[0].0 + 1..pair[1].0);
        }
        for (at, (number, path, length)) in files.iter().enumerate() {
            // Across a gap, what a segment says of the one before is not about this one.
            let next = files.get(at + 1).filter(|next| next.0 == number + 1);
            let successor = next.and_then(|next| Some((next.1.as_path(), headers[at + 1]?)));
            let is_last = at + 1 == files.len();
            match headers[at] {
                Some(header) => {
                    let predecessor = successor.map(|(_, successor)| successor.predecessor);
                    let found = self.segment(disk, path, &header, predecessor, is_last);
                    let index = found.map_err(|source| VerifyError::Io {
                        path: path.clone(),
                        source,
                    })?;
                    if let Some((path, successor)) = successor {
                        self.check_index(disk, path, &successor, &index)?;
                    }
                    hold(&mut self.holdings, &index);
                    self.report.segments += 1;
                    self.report.file_bytes += length;
                }
                // A segment that was being born holds nothing.
                None if is_last && !self.is_written(disk, path)? => {}
                None if is_last => {
                    self.report.torn_tail = Some(Place {
                        file: path.clone(),
                        offset: 0,
                    });
                }
                None => self.problem(path, 0, format!("segment {number} has no first block")),
            }
            progress(*length);
        }
        Ok(())
    }

    fn check_missing(&mut self, before: &Path, missing: Range<u64>) {
        if missing.is_empty() {
            return;
        }
        let (first, last) = (missing.start, missing.end - 1);
        let what = match first == last {
            true => format!("segment {first} is missing between two that are there"),
            false => format!("segments {first} to {last} are missing between two that are there"),
        };
        self.problems.push(Problem {
            file: before.with_file_name(segment::file_name(first)),
            offset: 0,
            missing: true,
            what,
        });
    }

    fn is_written(&self, disk: &mut dyn Disk, path: &Path) -> Result<bool, VerifyError> {
        let written = SegmentFile::new(disk, path.to_owned()).is_written(0);
        written.map_err(|source| VerifyError::Io {
            path: path.to_owned(),
            source,
        })
    }

    fn first_block(
        &mut self,
        disk: &mut dyn Disk,
        number: u64,
        path: &Path,
        is_last: bool,
    ) -> Result<Option<SegmentHeader>, VerifyError> {
        let mut file = SegmentFile::new(disk, path.to_owned());
        let block = file.bytes(0, BLOCK).map_err(|source| VerifyError::Io {
            path: path.to_owned(),
            source,
        })?;
        let header = SegmentHeader::decode(Speaks::THIS, block).and_then(|header| {
            header
                .belongs_to(&self.identity, self.log, number)
                .map(|()| header)
        });
        match header {
            Ok(header) => Ok(Some(header)),
            Err(SegmentError::NoHeader) => {
                // Of the last, only what can be read says that it was not born yet.
                let given = if is_last { file.was_given(..) } else { Ok(()) };
                given.map(|()| None).map_err(|source| VerifyError::Io {
                    path: path.to_owned(),
                    source,
                })
            }
            // A spare that was taken and not written yet.
            Err(SegmentError::OtherNumber(was)) if is_last && was < number => Ok(None),
            Err(reason) => {
                self.problem(path, 0, reason.to_string());
                Ok(None)
            }
        }
    }

    fn segment(
        &mut self,
        disk: &mut dyn Disk,
        path: &Path,
        header: &SegmentHeader,
        successor: Option<Predecessor>,
        is_last: bool,
    ) -> io::Result<SegmentIndex> {
        let scope = Scope {
            log: self.log,
            salt: header.salt,
            last_record: successor.map(|successor| successor.last_record),
        };
        let start = Expected {
            offset: FIRST_RECORD,
            number: header.predecessor.last_record + 1,
            chain: header.predecessor.checksum,
        };
        let mut index = SegmentIndex::default();
        let mut corruptions = Vec::new();
        let mut file = SegmentFile::new(disk, path.to_owned());
        let end = file.walk(start, &scope, &mut |walked| match walked {
            Walked::Record { offset, header, .. } => {
                self.report.records += 1;
                apply(&mut index, offset, header);
                if header.kind == RecordKind::Accept {
                    self.accepted_terms.insert(header.term, ());
                }
                self.newest = Some(*header);
            }
            Walked::Corrupt { corruption, .. } => corruptions.push(corruption),
        })?;
        for corruption in corruptions {
            self.corrupt(corruption);
        }
        let wrong_end = successor.is_some_and(|s| s.checksum != end.next.chain);
        if wrong_end && self.problems.is_empty() {
            let what = "its successor follows another record".to_owned();
            self.problem(path, end.next.offset, what);
        }
        if end.torn && is_last && !header.birth.in_used_file {
            self.report.torn_tail = Some(Place {
                file: path.to_owned(),
                offset: end.next.offset,
            });
        }
        Ok(index)
    }

    fn corrupt(&mut self, corruption: Corruption) {
        let what = corruption.what();
        self.problem(&corruption.path, corruption.from, what);
    }

    /// The successor's index of this segment must say what its records say.
    fn check_index(
        &mut self,
        disk: &mut dyn Disk,
        path: &Path,
        successor: &SegmentHeader,
        index: &SegmentIndex,
    ) -> Result<(), VerifyError> {
        let scope = Scope {
            log: self.log,
            salt: successor.salt,
            last_record: None,
        };
        let mut file = SegmentFile::new(disk, path.to_owned());
        let found = read_index(Speaks::THIS, &mut file, &scope, &successor.predecessor);
        let found = found.map_err(|source| VerifyError::Io {
            path: path.to_owned(),
            source,
        })?;
        if let Some((found, stands)) = found
            && found != *index
            && self.problems.is_empty()
        {
            let what = "the index of the segment before differs from its records".to_owned();
            self.problem(path, stands.place.offset(), what);
        }
        Ok(())
    }

    fn finish(mut self) -> LogReport {
        let mut streams: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        for (stream, range) in self.holdings.iter() {
            let held = streams.entry(stream.to_string()).or_default();
            held.push((range.start.0, range.end.0));
        }
        self.report.held_bytes = self.holdings.bytes();
        self.report.streams = streams
            .into_iter()
            .map(|(stream, held)| StreamReport { stream, held })
            .collect();
        let terms = self.accepted_terms.keys();
        self.report.accepted_terms = terms.map(ToString::to_string).collect();
        if let Some(newest) = self.newest {
            self.report.promised = newest.promised.0.to_string();
            self.report.first_unchosen = newest.first_unchosen.0;
        }
        self.report
    }
}
