//! A survivor's segments under a new identity.
//!
//! Only first blocks name the owner of a segment; records, their checksums and their places stay as they are.

use std::path::{Path, PathBuf};

use formats::segment::{SegmentHeader, directory_name, number_of};
use formats::version::Speaks;
use formats::{ClusterId, Identity, LogId};
use ops::{BLOCK, Disk};
use serde::Serialize;
use store::{Manifest, RecordContext, Store, StoreConfig};

use super::{Old, Rescue, RescueError, RescuedLog, Seal, io_at};
use crate::directory::DIRECTORY;

/// Where a state stands beside what is left of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "stands")]
pub enum Standing {
    /// The log goes on from there: so many bytes of it are applied to the state.
    Within { above_bytes: u64 },
    /// It has all that the log has, and more: the log begins anew behind it.
    Ahead,
    /// Bytes between the state and what is left of the log are missing: the log begins anew behind the state.
    Behind { lost_bytes: u64 },
}

impl Standing {
    /// The standing of a state at this position beside what is carried over of its log.
    fn of(position: u64, log: &RescuedLog) -> Standing {
        let begins = replica::forgotten_bytes(&log.state);
        let ends = begins + replica::output_bytes(&log.state);
        if position < begins {
            let lost_bytes = begins - position;
            return Standing::Behind { lost_bytes };
        }
        match position > ends {
            true => Standing::Ahead,
            false => Standing::Within {
                above_bytes: ends - position,
            },
        }
    }
}

fn machines(logs: &[RescuedLog]) -> Vec<(LogId, String)> {
    let logs = logs.iter().filter(|log| !log.kind.is_bytes());
    logs.map(|log| (LogId(log.id), log.name.clone())).collect()
}

/// The new directory, which nobody can start before [`Copied::finish`].
#[derive(Debug)]
pub struct Copied {
    directory: PathBuf,
    manifest: Manifest,
    logs: Vec<RescuedLog>,
}

impl Rescue {
    /// The logs of machines, and their names.
    pub fn machines(&self) -> Vec<(LogId, String)> {
        machines(&self.logs)
    }

    /// Where a state that stands at this position would stand beside what is carried over of its log.
    pub fn standing(&self, log: LogId, position: u64) -> Option<Standing> {
        let log = self.logs.iter().find(|one| one.id == log.0)?;
        Some(Standing::of(position, log))
    }

    /// Copies everything into `into`, which must be empty or not exist, and must have room for `states` bytes more. `copied` hears
    /// of the bytes.
    pub fn copy(
        self,
        disk: &mut dyn Disk,
        into: &Path,
        states: u64,
        copied: &mut dyn FnMut(u64),
    ) -> Result<Copied, RescueError> {
        let Old {
            directory,
            manifest,
            next_node_id,
        } = self.old;
        let mut files = Vec::new();
        for log in &manifest.logs {
            let name = directory_name(log.id);
            let from = directory.join(&name);
            let listed = disk.list(&from).map_err(io_at(&from))?;
            let segments = listed.into_iter().filter(|e| number_of(&e.name).is_some());
            files.extend(segments.map(|e| (from.join(&e.name), into.join(&name).join(&e.name), e)));
        }
        let of_logs: u64 = files.iter().map(|(.., entry)| entry.length).sum();
        take(disk, &directory, into, of_logs + states)?;
        let random = |disk: &mut dyn Disk| disk.random().map_err(io_at(into));
        let key = crate::start::new_key(disk, into).map_err(io_at(into))?;
        let identity = Identity {
            cluster: ClusterId(crate::start::random_uuid(random(disk)?)),
            node: manifest.identity.node,
            disk: key.disk(),
        };
        for log in &manifest.logs {
            let to = into.join(directory_name(log.id));
            disk.create_directory(&to).map_err(io_at(&to))?;
        }
        for (from, to, _) in files {
            let mut change = |offset: u64, piece: &mut [u8]| {
                copied(piece.len() as u64);
                if let Some(block) = piece.get_mut(..BLOCK).filter(|_| offset == 0)
                    && let Ok(header) = SegmentHeader::decode(Speaks::THIS, block)
                {
                    block.copy_from_slice(&SegmentHeader { identity, ..header }.encode());
                }
            };
            let done = disk.copy_file(&from, &to, &mut change);
            done.map_err(|error| {
                let sentence = format!("cannot be copied to {}: {error}", to.display());
                io_at(&from)(std::io::Error::new(error.kind(), sentence))
            })?;
        }
        let mut logs = self.logs;
        for log in &mut logs {
            log.settle(identity, next_node_id)?;
        }
        Ok(Copied {
            directory: into.to_owned(),
            manifest: Manifest {
                identity,
                ..manifest
            },
            logs,
        })
    }
}

/// Takes the new directory: it is there, empty, and this process's.
fn take(disk: &mut dyn Disk, old: &Path, into: &Path, needed: u64) -> Result<(), RescueError> {
    if into.starts_with(old) {
        return Err(RescueError::Inside(into.to_owned()));
    }
    disk.create_directory(into).map_err(io_at(into))?;
    let there = disk.list(into).map_err(io_at(into))?;
    let ours = [store::LOCK_FILE, "lost+found"];
    if there.iter().any(|e| !ours.contains(&e.name.as_str())) {
        return Err(RescueError::NotEmpty(into.to_owned()));
    }
    Manifest::lock(disk, into)?;
    let free = disk.free_space(into).map_err(io_at(into))?;
    if free < needed {
        let path = into.to_owned();
        return Err(RescueError::NoSpace { path, needed, free });
    }
    Ok(())
}

impl RescuedLog {
    /// Settles the state that is true from now on.
    fn settle(
        &mut self,
        identity: Identity,
        next_node_id: paxos::NodeId,
    ) -> Result<(), RescueError> {
        if let Some(kept) = &self.kept {
            let (from, to) = kept.between;
            self.state.keep_between(from, to);
        }
        if self.id == DIRECTORY.0 {
            self.state.next_node_id = self.state.next_node_id.max(next_node_id);
        }
        let decided = self.state.decided_by(identity.node, self.above);
        decided.map_err(|why| RescueError::Directory(format!("log {}: {why:?}", self.id)))
    }
}

impl Copied {
    pub fn cluster(&self) -> ClusterId {
        self.manifest.identity.cluster
    }

    /// The logs of machines, and their names.
    pub fn machines(&self) -> Vec<(LogId, String)> {
        machines(&self.logs)
    }

    /// Lets a log go on where its state stands, which was carried over. ‡ What is appended from here on stands behind it: a state
    /// that is ahead of its log would take the log's next bytes for others.
    pub fn stand(&mut self, log: LogId, position: u64) -> Option<Standing> {
        let log = self.logs.iter_mut().find(|one| one.id == log.0)?;
        let standing = Standing::of(position, log);
        if !matches!(standing, Standing::Within { .. }) {
            log.state.begin_at(position);
        }
        Some(standing)
    }

    /// Each log's last step, to be run by a kernel.
    pub fn seal(&mut self, disk: &mut dyn Disk) -> Result<Option<Seal>, RescueError> {
        let Some(log) = self.logs.pop() else {
            return Ok(None);
        };
        let id = LogId(log.id);
        let path = self.directory.join(directory_name(id));
        let random = disk.random().map_err(io_at(&path))?;
        let seed = u64::from_le_bytes(*random.first_chunk().expect("8 of 16 bytes"));
        let mut config = StoreConfig::new(path, self.manifest.identity, id, seed);
        config.version = self.manifest.version;
        let failed = |error| RescueError::Replay { log: id, error };
        let (mut store, _, _) = Store::replay(config, disk).map_err(failed)?;
        let checkpoint = paxos::Checkpoint {
            promised: log.promised,
            finishing: None,
            state: log.state,
            accepted: Vec::new(),
        };
        let context = RecordContext {
            promised: checkpoint.promised,
            first_unchosen: checkpoint.state.next,
        };
        store.roll(&checkpoint, context);
        Ok(Some(Seal::new(store)))
    }

    /// Once every seal is on the disk: from here on a node can start there.
    pub fn finish(self, disk: &mut dyn Disk) -> Result<(), RescueError> {
        Ok(self.manifest.save(disk, &self.directory)?)
    }
}
