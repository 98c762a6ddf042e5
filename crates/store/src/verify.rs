//! Checks a node's whole directory while no process serves it, and says what it holds.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use formats::record::{RecordHeader, RecordKind};
use formats::version::Speaks;
use formats::{DecodeError, LogId, segment};
use ops::Disk;
use paxos::{Checkpoint, Value};
use serde::Serialize;
use thiserror::Error;

use super::index::SegmentIndex;
use super::manifest::{Manifest, ManifestError, hex};
use super::recover::{Files, Sink, Whose, apply, corruption, hold, recovered_of, stopped};
use super::recovery::{Aside, Depth, Inventory, Taken, Verdict, decide};
use super::{Holdings, RecoverError, Replay};
use crate::past::ends::{ENDS_FILE, Ends, Lost};
use crate::past::found::{self, FOUND_FILE};
use crate::past::key::KEY_FILE;
use crate::past::met::{self, MET_FILE};
use crate::past::own::Own;
use crate::past::refused::REFUSED_FILE;
use crate::past::starts::STARTS_FILE;

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
    #[serde(rename = "id")]
    pub log: u32,
    pub name: Option<String>,
    pub segments: u64,
    pub records: u64,
    pub file_bytes: u64,
    /// Stream bytes held.
    pub held_bytes: u64,
    pub streams: Vec<StreamReport>,
    /// The positions in the log's output between which it is left here: what was before is trimmed, and the end is that of all that was accepted.
    pub output: (u64, u64),
    pub promised: String,
    pub accepted_terms: Vec<String>,
    pub first_unchosen: u64,
    /// The place of a write that was not whole when the process or the machine stopped, or where the end was
    /// cut off.
    pub torn_tail: Option<Place>,
    /// Whether the log ends with the mark that a node leaves a moment after the last write, and when it is
    /// stopped: nothing is missing behind it.
    pub rested: bool,
    /// Acceptances below this slot may be forgotten here, 0 for none: the node promises nothing before it has
    /// learned from its peers what was chosen there.
    pub learn_past: u64,
    /// Bytes that are chosen, not trimmed, and not here: to be fetched from peers.
    pub lacks: Vec<StreamReport>,
    /// Damaged places whose bytes stand in later records.
    pub repaired: u64,
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
    /// Whether the file is not there at all.
    pub missing: bool,
    /// Whether the node does not start from this, and says so in these words.
    pub refused: bool,
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

    /// Whether the node starts from the directory, whatever is wrong with it.
    pub fn starts(&self) -> bool {
        !self.problems.iter().any(|problem| problem.refused)
    }
}

/// Files that a start can do without: it says that they cannot be read, and goes on.
fn forgotten(disk: &mut dyn Disk, directory: &Path) -> Vec<Problem> {
    let read = [
        (
            MET_FILE,
            met::load(disk, directory).err(),
            "what was known of the other nodes' disks cannot be read: an old copy of one that only this node would know for one is not known for one any more",
        ),
        (
            ENDS_FILE,
            Ends::load(disk, directory).err(),
            "where the logs ended at the last stop cannot be read, so it is not known whether newer files were cut or removed since",
        ),
        (
            FOUND_FILE,
            found::load(disk, directory).err(),
            "what earlier starts found cannot be read, and is not told any more",
        ),
    ];
    let wrong = read.into_iter().filter_map(|(file, reason, what)| {
        Some(Problem {
            file: directory.join(file),
            offset: 0,
            missing: false,
            refused: false,
            what: format!("{what} ({})", reason?),
        })
    });
    wrong.collect()
}

/// Reads every record of every log. `progress` is told bytes done and bytes in all.
///
/// Errors: only those that keep it from looking (no manifest, a directory or file that cannot be read);
/// faults of records are in the report.
pub fn verify(
    disk: &mut dyn Disk,
    directory: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport, VerifyError> {
    let manifest = Manifest::read(Speaks::THIS, disk, directory)?
        .ok_or_else(|| VerifyError::NoManifest(directory.to_owned()))?;
    let mut report = VerifyReport {
        cluster: manifest.identity.cluster.to_string(),
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
            refused: true,
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
                crate::PEERS_FILE,
                KEY_FILE,
                STARTS_FILE,
                FOUND_FILE,
                ENDS_FILE,
                MET_FILE,
                REFUSED_FILE,
            ]
            .contains(&entry.name.as_str()) => {}
            _ => report.unknown.push(path),
        }
    }
    let own = Own::load(disk, directory, &manifest).unwrap_or_else(|trouble| {
        report.problems.push(Problem {
            file: directory.to_owned(),
            offset: 0,
            missing: false,
            refused: true,
            what: trouble.to_string(),
        });
        Own::default()
    });
    report.problems.extend(forgotten(disk, directory));
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
        let listed = manifest.logs.iter().find(|listed| listed.id == log);
        let mut check = LogCheck::new(log, listed.map(|listed| listed.name.clone()));
        // A directory that is not listed was being made, and is put aside by the next start.
        if listed.is_some() {
            let whose = Whose {
                identity: manifest.identity,
                log,
                speaks: Speaks::THIS,
            };
            let path = directory.join(segment::directory_name(log));
            let lost = |last_record| own.lost(log, last_record);
            check.segments(disk, whose, &segments, (&path, &lost), &mut |bytes| {
                progress(bytes_done + bytes, bytes_all);
            })?;
        }
        bytes_done += segments.iter().map(|(_, _, length)| length).sum::<u64>();
        progress(bytes_done, bytes_all);
        report.problems.append(&mut check.problems);
        report.logs.push(check.report);
    }
    Ok(report)
}

fn list(disk: &mut dyn Disk, directory: &Path) -> Result<Vec<ops::DirectoryEntry>, VerifyError> {
    disk.list(directory).map_err(|source| VerifyError::Io {
        path: directory.to_owned(),
        source,
    })
}

/// One log, as the next start will find it.
#[derive(Default)]
struct LogCheck {
    report: LogReport,
    problems: Vec<Problem>,
}

/// The notes of the records on the way.
struct Notes<'a> {
    speaks: Speaks,
    /// Is told how many bytes are read so far.
    progress: &'a mut dyn FnMut(u64),
    read: u64,
    indexes: BTreeMap<usize, SegmentIndex>,
    accepted_terms: BTreeMap<paxos::Term, ()>,
    replay: Replay,
    /// Segments whose successors' indexes do not say what their records say, and where.
    wrong_indexes: Vec<(usize, u64)>,
}

impl Sink for Notes<'_> {
    fn record(
        &mut self,
        at: usize,
        offset: u64,
        header: &RecordHeader,
        payload: &[u8],
        taken: Taken,
    ) -> Result<(), DecodeError> {
        self.read += header.total_length() as u64;
        (self.progress)(self.read);
        apply(self.indexes.entry(at).or_default(), offset, header, taken);
        if header.kind == RecordKind::Accept {
            self.accepted_terms.insert(header.term, ());
        }
        if taken.counts {
            if let Some(record) = recovered_of(self.speaks, header, payload, taken)? {
                self.replay.feed(record);
            }
            if taken.chosen {
                let chosen = super::RecoveredRecord::Chosen(header.first_unchosen);
                self.replay.feed(chosen);
            }
        }
        Ok(())
    }

    fn gap(&mut self) {}

    fn index(&mut self, of: usize, offset: u64, payload: &[u8], _: bool) -> bool {
        let found = SegmentIndex::decode(self.speaks, payload);
        let right = found.is_ok_and(|index| index == *self.indexes.entry(of).or_default());
        if !right {
            self.wrong_indexes.push((of, offset));
        }
        right
    }
}

fn output_of(checkpoint: &Checkpoint) -> (u64, u64) {
    let state = &checkpoint.state;
    let streams = state.streams.iter();
    let begins = state.streams_trimmed.bytes + streams.clone().map(|s| s.trimmed.0).sum::<u64>();
    let chosen: u64 = streams.map(|s| s.length.0 - s.trimmed.0).sum();
    let accepted = checkpoint.accepted.iter();
    let accepted = accepted.filter(|run| matches!(run.value, Value::Content { .. }));
    let accepted: u64 = accepted.map(|run| run.slots.len()).sum();
    (begins, begins + chosen + accepted)
}

impl LogCheck {
    fn new(log: LogId, name: Option<String>) -> LogCheck {
        let mut check = LogCheck::default();
        check.report.log = log.0;
        check.report.name = name;
        check
    }

    fn problem(&mut self, file: &Path, offset: u64, what: String) {
        self.problems.push(Problem {
            file: file.to_owned(),
            offset,
            missing: false,
            refused: false,
            what,
        });
    }

    fn segments(
        &mut self,
        disk: &mut dyn Disk,
        whose: Whose,
        files: &[(u64, PathBuf, u64)],
        (directory, lost): (&Path, &dyn Fn(u64) -> Option<Lost>),
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), VerifyError> {
        let numbers: Vec<u64> = files.iter().map(|(number, _, _)| *number).collect();
        let paths: Vec<PathBuf> = files.iter().map(|(_, path, _)| path.clone()).collect();
        self.report.file_bytes = files.iter().map(|(_, _, length)| length).sum();
        self.report.segments = files.len() as u64;
        let notes = Notes {
            speaks: whose.speaks,
            progress,
            read: 0,
            indexes: BTreeMap::new(),
            accepted_terms: BTreeMap::new(),
            replay: Replay::default(),
            wrong_indexes: Vec::new(),
        };
        let mut files = Files::new(disk, whose, paths.clone(), notes);
        let verdict = match decide(&mut files, &numbers, Depth::All) {
            Ok(verdict) => verdict,
            Err(stop) => return self.refused(stopped(stop, directory, &paths)),
        };
        let notes = files.sink;
        let mut holdings = Holdings::default();
        for index in notes.indexes.values() {
            hold(&mut holdings, index);
        }
        let replayed = notes.replay.finish();
        let checkpoint = replayed.as_ref().ok().and_then(Option::as_ref);
        self.report.lacks = by_stream(lacking(checkpoint, &holdings));
        self.report.output = checkpoint.map_or((0, 0), output_of);
        let inventory = Inventory {
            node: whose.identity.node,
            checkpoint,
            holdings: &holdings,
        };
        self.tell(&verdict, &paths, inventory);
        if let Some(lost) = lost(verdict.next.number - 1) {
            self.problems.push(Problem {
                file: directory.to_owned(),
                offset: 0,
                missing: true,
                refused: true,
                what: lost.to_string(),
            });
        }
        for (of, offset) in &notes.wrong_indexes {
            // An index that was written before a loss in its segment still has what was lost since, repaired
            // or not.
            let has_lost = verdict.lost.iter().any(|lost| lost.at == *of);
            if self.problems.is_empty() && !has_lost {
                let what = "the index of the segment before differs from its records".to_owned();
                self.problem(&paths[of + 1], *offset, what);
            }
        }
        self.report.held_bytes = holdings.bytes();
        self.report.streams = by_stream(holdings.iter());
        let terms = notes.accepted_terms.keys();
        self.report.accepted_terms = terms.map(ToString::to_string).collect();
        match replayed {
            Ok(checkpoint) => self.tell_gone(&verdict, &numbers, &paths, checkpoint, whose),
            Err(error) => self.problems.push(Problem {
                file: directory.to_owned(),
                offset: 0,
                missing: false,
                refused: true,
                what: error.to_string(),
            }),
        }
        Ok(())
    }

    /// Notes a refusal: the start would end with these very words.
    fn refused(&mut self, error: RecoverError) -> Result<(), VerifyError> {
        let (file, offset, missing, what) = match error {
            RecoverError::Io { path, source } => return Err(VerifyError::Io { path, source }),
            RecoverError::Refused { path, reason } => (path, 0, false, reason.to_string()),
            RecoverError::NotUnderstood {
                path,
                offset,
                reason,
            } => (path, offset, false, reason.to_string()),
            RecoverError::Undecided { path, refusal } => (
                path,
                refusal.offset(),
                refusal.is_missing(),
                refusal.to_string(),
            ),
        };
        self.problems.push(Problem {
            file,
            offset,
            missing,
            refused: true,
            what,
        });
        Ok(())
    }

    fn tell(&mut self, verdict: &Verdict, paths: &[PathBuf], inventory: Inventory<'_>) {
        self.report.records = verdict.records;
        self.report.promised = verdict.promised.0.to_string();
        self.report.first_unchosen = verdict.first_unchosen.0;
        self.report.learn_past = verdict.learn_past.0;
        self.report.rested = verdict.rested;
        let damage = verdict.damage(inventory);
        self.report.repaired = damage.repaired;
        for lost in damage.damaged {
            let corruption = corruption(lost, paths);
            let what = corruption.what();
            self.problem(&corruption.path, corruption.from, what);
        }
        let kept = verdict.segments.len();
        self.report.segments = kept as u64;
        let mut being_born = verdict.aside.iter().zip(paths[kept..].iter().rev());
        let written = |aside: &Aside| matches!(aside, Aside::Torn { is_written: true });
        let torn_birth = being_born.rfind(|(aside, _)| written(aside));
        self.report.torn_tail = match (torn_birth, verdict.torn) {
            (Some((_, path)), _) => Some((path.clone(), 0)),
            (None, true) => Some((paths[kept - 1].clone(), verdict.next.offset)),
            (None, false) => None,
        }
        .map(|(file, offset)| Place { file, offset });
    }

    /// Tells output that is lacking and may have gone with files.
    fn tell_gone(
        &mut self,
        verdict: &Verdict,
        numbers: &[u64],
        paths: &[PathBuf],
        checkpoint: Option<Checkpoint>,
        whose: Whose,
    ) {
        let Some(checkpoint) = checkpoint else { return };
        let spared = checkpoint
            .state
            .configuration
            .is_auxiliary(whose.identity.node);
        let first = numbers[0];
        if first == 1 || self.report.lacks.is_empty() || spared || verdict.segments.is_empty() {
            return;
        }
        let what = format!(
            "the segments before {first} are not there, nor bytes that are chosen and not trimmed: {}; they went with those files, or this node had not fetched them yet",
            ranges(&self.report.lacks)
        );
        let gone = paths[0].with_file_name(segment::file_name(first - 1));
        self.problems.push(Problem {
            file: gone,
            offset: 0,
            missing: true,
            refused: false,
            what,
        });
    }
}

/// Output that is chosen and not trimmed, and in none of the files.
fn lacking(
    checkpoint: Option<&Checkpoint>,
    holdings: &Holdings,
) -> impl Iterator<Item = (paxos::StreamName, std::ops::Range<paxos::StreamPosition>)> {
    let streams = checkpoint.map_or(&[][..], |checkpoint| &checkpoint.state.streams);
    streams.iter().flat_map(|stream| {
        let output = stream.trimmed..stream.length;
        let missing = holdings.missing(stream.name, output);
        missing.map(|range| (stream.name, range))
    })
}

/// The ranges for a sentence.
pub fn ranges(streams: &[StreamReport]) -> String {
    const SHOWN: usize = 4;
    let all = streams.iter().flat_map(|stream| {
        let held = stream.held.iter();
        held.map(|(from, to)| format!("{from}..{to} of stream {}", stream.stream))
    });
    let all: Vec<String> = all.collect();
    match all.len() > SHOWN {
        true => format!(
            "{}, and {} more",
            all[..SHOWN].join(", "),
            all.len() - SHOWN
        ),
        false => all.join(", "),
    }
}

fn by_stream(
    ranges: impl Iterator<Item = (paxos::StreamName, std::ops::Range<paxos::StreamPosition>)>,
) -> Vec<StreamReport> {
    let mut streams: BTreeMap<paxos::StreamName, Vec<(u64, u64)>> = BTreeMap::new();
    for (stream, range) in ranges {
        let held = streams.entry(stream).or_default();
        held.push((range.start.0, range.end.0));
    }
    let named = streams.into_iter().map(|(stream, held)| StreamReport {
        stream: stream.to_string(),
        held,
    });
    named.collect()
}
