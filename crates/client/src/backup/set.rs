//! A backup as it lies on a disk: one file, or a directory of parts that follow each other.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::format::{BackupError, Header, Identity, Next, PartReader, hex};

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The file.
    pub path: PathBuf,
    /// Its bytes.
    pub file_bytes: u64,
}

/// A backup whose parts' names are known; its bytes are believed only as they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The parts, in their order.
    pub parts: Vec<Part>,
}

/// The name of a part in a directory: `part-000001.lbb`.
pub(super) fn part_name(number: u64) -> String {
    format!("part-{number:06}.lbb")
}

fn part_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("part-")?.strip_suffix(".lbb")?;
    let number: u64 = digits.parse().ok()?;
    (part_name(number) == name).then_some(number)
}

impl Backup {
    /// A file, or a directory's parts. Whether they are sound is seen when they are read.
    pub fn open(path: &Path) -> Result<Backup, BackupError> {
        let about = fs::metadata(path)?;
        if !about.is_dir() {
            let file_bytes = about.len();
            let path = path.to_owned();
            return Ok(Backup {
                parts: vec![Part { path, file_bytes }],
            });
        }
        let mut parts = BTreeMap::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let number = entry.file_name().to_str().and_then(part_number);
            if let Some(number) = number {
                let (path, file_bytes) = (entry.path(), entry.metadata()?.len());
                parts.insert(number, Part { path, file_bytes });
            }
        }
        for (expected, found) in (1..).zip(parts.keys()) {
            if expected != *found {
                let missing = part_name(expected);
                return Err(BackupError::Set(format!(
                    "{missing} is missing: it holds what lies between the others"
                )));
            }
        }
        match parts.is_empty() {
            true => Err(BackupError::NotABackup),
            false => Ok(Backup {
                parts: parts.into_values().collect(),
            }),
        }
    }

    /// As it was when this part was the newest. `None`: it has no such part.
    pub fn as_of(mut self, part: u64) -> Option<Backup> {
        let count = usize::try_from(part).ok()?;
        let is_there = (1..=self.parts.len()).contains(&count);
        self.parts.truncate(count);
        is_there.then_some(self)
    }

    /// The newest part alone, if it has a machine's rows: it has all of them, and nothing in an earlier one is asked for.
    pub fn without_older_rows(mut self) -> Backup {
        let has_rows = self.newest().is_ok_and(|header| header.state.is_some());
        if has_rows && let Some(newest) = self.parts.pop() {
            self.parts = vec![newest];
        }
        self
    }

    /// The bytes of all parts.
    pub fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.file_bytes).sum()
    }

    /// The header of the newest part, its bytes unread.
    pub fn newest(&self) -> Result<Header, Wrong> {
        let part = self
            .parts
            .last()
            .ok_or_else(|| Wrong::of(Path::new(""), BackupError::NotABackup))?;
        let file = File::open(&part.path).map_err(|error| Wrong::of(&part.path, error.into()))?;
        let reader = PartReader::open(BufReader::new(file));
        let reader = reader.map_err(|error| Wrong::of(&part.path, error))?;
        Ok(reader.header().clone())
    }

    /// Reads all parts in order, checks every byte and that each part follows the one before, and hands on
    /// the pieces. `seen` is told of each piece, and how much of all files was read by then. Returns the last
    /// part's header and identity.
    pub fn read(
        &self,
        mut seen: impl FnMut(&Header, Seen<'_>, u64) -> Result<(), Stop>,
    ) -> Result<(Header, Identity), Wrong> {
        let mut before: Option<(Header, Identity)> = None;
        let mut read = 0;
        for part in &self.parts {
            let wrong = |error| Wrong::of(&part.path, error);
            let file = File::open(&part.path).map_err(|error| wrong(error.into()))?;
            let mut reader =
                PartReader::open(BufReader::with_capacity(1 << 20, file)).map_err(wrong)?;
            follows(before.as_ref(), reader.header())
                .map_err(|why| wrong(BackupError::Set(why)))?;
            loop {
                match reader.read_next().map_err(wrong)? {
                    Next::Piece {
                        stream,
                        position,
                        payload,
                    } => {
                        // The rows of a machine are of no stream.
                        let saved = reader.header().streams.get(stream);
                        let piece = Seen {
                            stream: saved.map_or("", |saved| &saved.info.name),
                            position,
                            payload: &payload,
                        };
                        seen(reader.header(), piece, read + reader.at()).map_err(Wrong::Stopped)?;
                    }
                    Next::End { identity, .. } => {
                        before = Some((reader.header().clone(), identity));
                        break;
                    }
                }
            }
            read += part.file_bytes;
        }
        before.ok_or_else(|| Wrong::of(Path::new(""), BackupError::NotABackup))
    }

    /// The pages of a machine's rows in the newest part, which has all of them, counted from 0; `seen` is told how much of it was read, too.
    pub(super) fn read_rows(
        &self,
        mut seen: impl FnMut(u64, &[u8], u64) -> Result<(), Stop>,
    ) -> Result<AllRows, Wrong> {
        let part = self.parts.last();
        let part = part.ok_or_else(|| Wrong::of(Path::new(""), BackupError::NotABackup))?;
        let wrong = |error| Wrong::of(&part.path, error);
        let file = File::open(&part.path).map_err(|error| wrong(error.into()))?;
        let mut reader =
            PartReader::open(BufReader::with_capacity(1 << 20, file)).map_err(wrong)?;
        let mut pages = 0;
        loop {
            match reader.read_next().map_err(wrong)? {
                Next::Piece { payload, .. } => {
                    seen(pages, &payload, reader.at()).map_err(Wrong::Stopped)?;
                    pages += 1;
                }
                Next::End {
                    identity,
                    bytes,
                    rows,
                } => {
                    return Ok(AllRows {
                        identity,
                        pages,
                        rows,
                        bytes,
                    });
                }
            }
        }
    }

    /// Checks every byte.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<(Header, Identity), Wrong> {
        self.read(|_, _, read| {
            progress(read);
            Ok(())
        })
    }
}

/// All rows of a machine that a part has.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllRows {
    pub identity: Identity,
    pub pages: u64,
    pub rows: u64,
    pub bytes: u64,
}

/// One piece of a stream.
pub struct Seen<'a> {
    /// The name of the stream.
    pub stream: &'a str,
    /// The position of the first byte.
    pub position: u64,
    /// The bytes.
    pub payload: &'a [u8],
}

/// The error of a caller that was handed a piece and could not go on.
#[derive(Debug)]
pub struct Stop(pub Box<dyn std::error::Error + Send + Sync>);

/// A fault, and the file that has it.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    #[error("{path}: {error}")]
    /// A part is not as it was written.
    Backup {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: BackupError,
    },
    /// The caller stopped it.
    #[error("{}", .0.0)]
    Stopped(Stop),
}

impl Wrong {
    pub(super) fn of(path: &Path, error: BackupError) -> Wrong {
        let is_named_so = path.extension().is_some_and(|name| name == "lbb");
        let error = match error {
            // Its name says what it was.
            BackupError::NotABackup if is_named_so => BackupError::Damaged {
                at: 0,
                what: "it does not begin as a backup does",
            },
            error => error,
        };
        let path = path.to_owned();
        Wrong::Backup { path, error }
    }
}

/// Whether a part goes on where the one before ends.
fn follows(before: Option<&(Header, Identity)>, header: &Header) -> Result<(), String> {
    let Some((earlier, identity)) = before else {
        return match header.part {
            1 => Ok(()),
            // The rows of a machine are whole in each part.
            _ if header.state.is_some() => Ok(()),
            part => Err(format!(
                "it is part {part}: the parts before it are needed too, in one directory"
            )),
        };
    };
    let after = hex(identity);
    if header.part != earlier.part + 1 || header.after.as_deref() != Some(&after) {
        return Err("it does not follow the part before: they are of different backups".to_owned());
    }
    goes_on(earlier, header)
}

/// Whether a log's streams are those of an earlier time, or come after them. `from` is not looked at.
pub(super) fn is_same_history(earlier: &Header, header: &Header) -> Result<(), String> {
    if (&earlier.cluster, earlier.log_id) != (&header.cluster, header.log_id) {
        return Err(format!(
            "it is of another log: {} (id {}) of cluster {}",
            earlier.log, earlier.log_id, earlier.cluster
        ));
    }
    match (earlier.state, header.state) {
        (None, None) => {}
        (Some(before), Some(now)) if before.position <= now.position => {}
        (Some(_), Some(_)) => {
            let why =
                "the machine stands lower now than it did: this is another history of the log";
            return Err(why.to_owned());
        }
        _ => return Err("one part is of streams, and the other of a machine's rows".to_owned()),
    }
    let known: BTreeMap<&str, u64> = earlier
        .streams
        .iter()
        .map(|s| (s.info.name.as_str(), s.info.length))
        .collect();
    for saved in &header.streams {
        let shorter = known
            .get(saved.info.name.as_str())
            .is_some_and(|length| saved.info.length < *length);
        if shorter {
            let name = &saved.info.name;
            return Err(format!(
                "stream {name} is shorter now than it was: this is another history of the log"
            ));
        }
    }
    Ok(())
}

fn goes_on(earlier: &Header, header: &Header) -> Result<(), String> {
    is_same_history(earlier, header)?;
    let known: BTreeMap<&str, u64> = earlier
        .streams
        .iter()
        .map(|s| (s.info.name.as_str(), s.info.length))
        .collect();
    for saved in &header.streams {
        let held = known.get(saved.info.name.as_str()).copied().unwrap_or(0);
        if saved.from != held.max(saved.info.trimmed) {
            return Err(format!(
                "it does not go on where the part before ends, in stream {}",
                saved.info.name
            ));
        }
    }
    Ok(())
}
