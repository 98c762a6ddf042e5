//! The states of machines in a node's directory, looked at while no node serves it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use formats::{ClusterId, LogId};
use serde::Serialize;
use shelf::{Identity, Looked, ShelfError};

/// The state of one log, as it was found. Nothing was changed.
#[derive(Debug, Serialize)]
pub struct FoundState {
    /// The id of its log.
    #[serde(rename = "id")]
    pub log: u32,
    pub directory: PathBuf,
    pub file_bytes: u64,
    /// The position in the log's output that it stands for. `None` if it stands for none.
    pub stands_at: Option<u64>,
    /// How that fits what this directory has of its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// It is no state to go on from, for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// It, or the directory, is not as a node left it.
    pub damaged: bool,
    /// The remedy, if it is damaged: a node's own, or somebody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
}

/// A state's place beside its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The log goes on from there.
    Within,
    /// The log was trimmed beyond it: it is copied from another node.
    Behind,
    /// The log ends before it.
    Ahead,
}

/// The entries of the directory of states.
#[derive(Debug, Default)]
pub struct Found {
    pub states: Vec<(u32, PathBuf)>,
    /// States that a node found damaged, and put aside.
    pub aside: Vec<PathBuf>,
    pub unknown: Vec<PathBuf>,
}

impl Found {
    /// Errors: the directory cannot be read.
    pub fn below(node: &Path) -> std::io::Result<Found> {
        let entries = match std::fs::read_dir(node.join(shelf::STATES)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Found::default());
            }
            entries => entries?,
        };
        let mut paths = BTreeMap::new();
        for entry in entries {
            let entry = entry?;
            paths.insert(entry.file_name(), entry.path());
        }
        let mut found = Found::default();
        for (name, path) in paths {
            let name = name.to_string_lossy();
            let log_of = |name: &str| {
                let log: u32 = name.strip_prefix("log-")?.parse().ok()?;
                (shelf::directory_of(log) == name).then_some(log)
            };
            match (log_of(&name), name.strip_suffix(".damaged")) {
                (Some(log), _) => found.states.push((log, path)),
                (None, Some(of)) if log_of(of).is_some() => found.aside.push(path),
                _ => found.unknown.push(path),
            }
        }
        found.states.sort();
        Ok(found)
    }
}

impl FoundState {
    /// Compares it with the positions between which its log is left.
    pub fn compare(&mut self, (begins, ends): (u64, u64)) {
        self.place = self.stands_at.map(|at| match at {
            at if at < begins => Place::Behind,
            at if at > ends => Place::Ahead,
            _ => Place::Within,
        });
    }

    /// Whether the node has to have another state, or cannot go on.
    pub fn is_wanting(&self) -> bool {
        self.damaged || matches!(self.place, Some(Place::Behind | Place::Ahead))
    }

    /// Reads all of the state of this log. `progress` hears of the bytes, one count after the other.
    ///
    /// Errors: the disk. ‡ A state that cannot be read now is no damaged one: whoever recovers would leave it behind for good.
    pub fn read(
        (log, directory): (LogId, &Path),
        cluster: ClusterId,
        progress: &mut dyn FnMut(u64),
    ) -> Result<FoundState, ShelfError> {
        let bytes = shelf::bytes_below(directory);
        let file_bytes = bytes.map_err(|source| ShelfError::Io {
            path: directory.to_owned(),
            source,
        })?;
        let mut found = FoundState {
            log: log.0,
            directory: directory.to_owned(),
            file_bytes,
            stands_at: None,
            place: None,
            unfit: None,
            damaged: false,
            remedy: None,
        };
        let expected = Identity {
            cluster: cluster.0,
            log: log.0,
        };
        match look(directory, expected, progress) {
            Ok(Stands::At(position)) => found.stands_at = Some(position),
            Ok(Stands::Nowhere(why)) => found.unfit = Some(why.to_owned()),
            Err(error @ ShelfError::Io { .. }) => return Err(error),
            Err(error) => {
                found.damaged = true;
                found.remedy = Some(remedy(&error));
                found.unfit = Some(error.to_string());
            }
        }
        Ok(found)
    }
}

fn remedy(error: &ShelfError) -> &'static str {
    match error {
        ShelfError::Damaged { .. } => {
            "a node that starts puts it aside and makes it anew, from its log or from another node"
        }
        ShelfError::NotAShelf { .. } | ShelfError::AnotherLog { .. } => {
            "take that directory away: a node that starts makes the state anew"
        }
        _ => "start the program that made it",
    }
}

enum Stands {
    At(u64),
    Nowhere(&'static str),
}

fn look(
    directory: &Path,
    expected: Identity,
    progress: &mut dyn FnMut(u64),
) -> Result<Stands, ShelfError> {
    let Some(looked) = Looked::at(directory)? else {
        return Ok(Stands::Nowhere("it was begun and never finished"));
    };
    if looked.identity() != expected {
        return Err(ShelfError::AnotherLog {
            path: directory.to_owned(),
            found: looked.identity(),
            expected,
        });
    }
    let mut before = 0;
    looked.verify(&mut |bytes| {
        progress(bytes - before);
        before = bytes;
    })?;
    Ok(match looked.get(host::COPY_ROW)? {
        Some(_) => Stands::Nowhere("it was being copied from another node, and is not whole"),
        None => Stands::At(looked.applied().position),
    })
}
