//! The rescue when a majority is lost for good: the holdings of one survivor become a new cluster of one.
//!
//! ```text
//! old directory ─ survey ─▶ what it holds, what is missing ─ copy ─▶ segments under a new identity
//!   (never changed)          (a report; it may end here)             └ seal ─▶ one more segment, whose
//!                                                                     checkpoint says what is true now
//!                                                    the manifest comes last: without it nothing starts
//! ```
//!
//! The longest part of each log without a hole is carried over. Slots that were accepted and are not known
//! chosen count as chosen, as far as no slot is missing: nobody is left who could say otherwise.
//!
//! Units:  bytes of output; every one is read, and its checksum compared, before it counts as held.
//! Errors: the old directory is in use or no node's, the new one not empty, or the cluster's directory
//!         itself has holes: then this node cannot say which logs there were.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::directory::Directory;
use formats::{ClusterId, LogId, LogKind};
use ops::Disk;
use paxos::{NodeId, OutputPlace, PromisedTerm, Slot};
use serde::Serialize;
use store::{Manifest, ManifestError, ReplayError};
use thiserror::Error;
use wire::quantity;
use wire::told::SlotsRun;

mod copy;
mod directory;
mod seal;
mod survey;

pub use copy::{Copied, Standing};
pub use seal::Seal;

/// The contents of an old directory.
#[derive(Debug, Serialize)]
pub struct Rescue {
    pub cluster: String,
    pub node: u32,
    pub logs: Vec<RescuedLog>,
    /// Logs of the cluster that are not here at all.
    pub absent: Vec<String>,
    /// Nodes that the new cluster does not know any more.
    pub gone: Vec<u32>,
    /// The slots of each group of keys, by what this node knows of the map.
    pub slots: Vec<RescuedSlots>,
    #[serde(skip)]
    old: Old,
}

#[derive(Debug)]
struct Old {
    directory: PathBuf,
    manifest: Manifest,
    /// The next id to give: no id that any log has seen is given again.
    next_node_id: NodeId,
}

#[derive(Debug, Serialize)]
pub struct RescuedLog {
    pub id: u32,
    pub name: String,
    pub kind: LogKind,
    /// The positions between which its output lies: what was before stands in states alone, if there are any.
    pub begins_at: u64,
    pub ends_at: u64,
    /// All slots below are known chosen.
    pub first_unchosen: u64,
    /// The bytes of the output that are carried over.
    pub carried_bytes: u64,
    /// The carried bytes that are accepted and not known to be chosen.
    pub unsure_bytes: u64,
    /// The slot from which on slots are accepted behind ones that this node knows nothing of: they are not
    /// carried over.
    pub unknown_before: Option<u64>,
    /// Positions that are part of the output and cannot be read here.
    pub holes: Vec<Hole>,
    /// The bytes that are held here and not carried over: on the other side of a hole, or accepted behind slots
    /// that this node knows nothing of.
    pub left_bytes: u64,
    /// The damage that hides whether more was chosen than is known.
    pub hidden: Option<String>,
    /// The damaged places of its files, as a start and `logberg verify` find them.
    pub damaged: Vec<Damaged>,
    /// The beginning and the end of the part that is carried over, if there are holes.
    pub kept: Option<Kept>,
    #[serde(skip)]
    state: paxos::LogState,
    #[serde(skip)]
    promised: PromisedTerm,
    #[serde(skip)]
    above: Slot,
}

/// What becomes of the slots of a group of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RescuedSlots {
    /// The name of the group, which is that of its log.
    pub group: String,
    /// From the first to the last, of each run that it served.
    pub served: Vec<SlotsRun>,
    /// Those of them, and those of others, that were on their way from it or to it.
    pub on_their_way: Vec<SlotsRun>,
    /// Its log is not here at all.
    pub absent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hole {
    pub stream: String,
    pub from: u64,
    pub to: u64,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damaged {
    pub file: PathBuf,
    pub offset: u64,
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    pub from: String,
    pub to: String,
    #[serde(skip)]
    between: (OutputPlace, OutputPlace),
}

#[derive(Debug, Error)]
pub enum RescueError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{0} is no node's directory: it has no manifest")]
    NoNode(PathBuf),
    #[error("{0} holds a node that never joined its cluster: there is nothing to recover")]
    NotJoined(PathBuf),
    #[error("log {log} cannot be read at all: {error}")]
    Replay { log: LogId, error: ReplayError },
    #[error(
        "this node's copy of the cluster's directory is not whole ({0}), so it cannot say which logs there were: recover from another survivor"
    )]
    Directory(String),
    #[error("{0} is not empty: choose a new directory")]
    NotEmpty(PathBuf),
    #[error("{0} lies in the directory that is recovered, which is never changed: choose another")]
    Inside(PathBuf),
    #[error(
        "{} have to be copied, and {} are free at {path}: choose another disk",
        quantity::shown(*needed),
        quantity::shown(*free)
    )]
    NoSpace {
        path: PathBuf,
        needed: u64,
        free: u64,
    },
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> RescueError + '_ {
    move |error| RescueError::Io {
        path: path.to_owned(),
        error,
    }
}

impl Rescue {
    /// Looks at a stopped node's directory, and changes nothing. `read` hears of the bytes read.
    pub fn survey(
        disk: &mut dyn Disk,
        directory: &Path,
        read: &mut dyn FnMut(u64),
    ) -> Result<Rescue, RescueError> {
        let manifest = Manifest::load(disk, directory)?;
        let manifest = manifest.ok_or_else(|| RescueError::NoNode(directory.to_owned()))?;
        if manifest.identity.node == NodeId(0) || manifest.logs.is_empty() {
            return Err(RescueError::NotJoined(directory.to_owned()));
        }
        let mut logs = Vec::new();
        let mut cluster = None;
        for listed in &manifest.logs {
            let mut reader = directory::Listener::new(listed.id);
            let mut hears = |stream, bytes: &[u8]| {
                read(bytes.len() as u64);
                reader.push(stream, bytes);
            };
            logs.push(survey::log(disk, directory, &manifest, listed, &mut hears)?);
            cluster = cluster.or(reader.finish());
        }
        let root = logs.iter().find(|log| log.id == 0);
        let root = root.ok_or_else(|| RescueError::Directory("it is missing".into()))?;
        if let Some(hole) = root.holes.first() {
            let why = format!("bytes {} to {} of it are missing", hole.from, hole.to);
            return Err(RescueError::Directory(why));
        }
        let cluster = cluster.ok_or_else(|| RescueError::Directory("it is missing".into()))?;
        let cluster = cluster.map_err(RescueError::Directory)?;
        let held = |id: &LogId| logs.iter().any(|log| log.id == id.0);
        let absent = cluster.logs.iter().filter(|(id, _)| !held(id));
        let absent = absent.map(|(_, entry)| entry.name.clone()).collect();
        let slots = slots_of(&cluster, held);
        let own = manifest.identity.node;
        let gone = cluster.nodes.keys().filter(|id| **id != own);
        let gone: Vec<u32> = gone.map(|id| id.0).collect();
        let seen = logs.iter().map(|log| survey::greatest_node(&log.state));
        let seen = seen.chain(gone.iter().copied()).max().unwrap_or(0);
        Ok(Rescue {
            cluster: manifest.identity.cluster.to_string(),
            node: own.0,
            absent,
            gone,
            slots,
            old: Old {
                directory: directory.to_owned(),
                manifest,
                next_node_id: NodeId(seen.saturating_add(1)),
            },
            logs,
        })
    }

    /// The cluster that was lost.
    pub fn lost_cluster(&self) -> ClusterId {
        self.old.manifest.identity.cluster
    }

    pub fn carried_bytes(&self) -> u64 {
        self.logs.iter().map(|log| log.carried_bytes).sum()
    }
}

/// By group.
fn slots_of(cluster: &Directory, held: impl Fn(&LogId) -> bool) -> Vec<RescuedSlots> {
    let map = &cluster.slots;
    let moving = map.moving();
    let groups = cluster.logs.iter().map(|(id, entry)| {
        let parts = map.served().iter().filter(|part| part.group == id.0);
        let run = |span: slots::Span| SlotsRun {
            first: span.first(),
            last: span.last(),
        };
        let its = moving
            .iter()
            .filter(|one| one.to == id.0 || one.from == Some(id.0));
        RescuedSlots {
            group: entry.name.clone(),
            served: parts.map(|part| run(part.span)).collect(),
            on_their_way: its.map(|one| run(one.span)).collect(),
            absent: !held(id),
        }
    });
    let has_any = |of: &RescuedSlots| !of.served.is_empty() || !of.on_their_way.is_empty();
    groups.filter(has_any).collect()
}

/// The holes by stream, in the order of the output.
type HolesOf = BTreeMap<paxos::StreamName, Vec<(std::ops::Range<u64>, String)>>;
