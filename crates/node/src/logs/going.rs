//! Deleted logs leave this node.
//!
//! ```text
//! the directory says it is deleted
//!   ─▶ clients and peers are told, nothing more is written       it is in the manifest's `logs`
//!   ─▶ the manifest is replaced                                  … in its `deleted`, durably
//!   ─▶ the files are closed, the directory is removed            a start finds it, and removes it
//! ```
//!
//! A log that the manifest calls deleted is never made again, whatever comes from peers or from the beginning
//! of log 0: an empty replica would have forgotten its promises.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use formats::LogId;
use formats::segment::directory_name;
use ops::{Completion, Op};
use paxos::mutation::{self, Mutation};
use replica::{Env, Log};
use store::Manifest;

use crate::tokens;

#[derive(Default)]
pub struct Going {
    logs: BTreeMap<LogId, Remains>,
    /// The log whose directory is being removed. One at a time: it is no hurry.
    current: Option<LogId>,
}

struct Remains {
    /// The log, until its files are closed.
    log: Option<Log>,
    /// Whether the manifest that is on disk says that the log is deleted.
    unlisted: bool,
}

impl Going {
    /// The remains of deleted logs that a start found.
    pub fn of(remains: Vec<LogId>) -> Going {
        let unlisted = |id| {
            let remains = Remains {
                log: None,
                unlisted: true,
            };
            (id, remains)
        };
        Going {
            logs: remains.into_iter().map(unlisted).collect(),
            current: None,
        }
    }

    /// Begins to remove a log that the directory says is no more: the manifest, which is to be saved, says so too.
    pub fn begin(&mut self, mut log: Log, env: &mut Env, manifest: &mut Manifest) {
        let id = log.id();
        tracing::info!(
            log = id.0,
            name = log.name(),
            "deleted: its files are removed"
        );
        log.end_clients(env);
        log.close(env);
        env.close_all_of(id);
        manifest.logs.retain(|listed| listed.id != id);
        if !mutation::is(Mutation::DeletedLogResurrected) {
            manifest.deleted.insert(id);
        }
        let remains = Remains {
            log: Some(log),
            unlisted: false,
        };
        self.logs.insert(id, remains);
    }

    /// Goes on once the written manifest lists none of the logs that are being removed.
    pub fn on_unlisted(&mut self, env: &mut Env, directory: &Path) {
        for remains in self.logs.values_mut() {
            remains.unlisted = true;
        }
        self.advance(env, directory);
    }

    pub fn on_disk(&mut self, env: &mut Env, directory: &Path, id: LogId, completion: Completion) {
        if let Some(log) = self.logs.get_mut(&id).and_then(|r| r.log.as_mut()) {
            log.on_disk(env, completion);
            self.advance(env, directory);
        }
    }

    pub fn advance(&mut self, env: &mut Env, directory: &Path) {
        if self.current.is_some() {
            return;
        }
        for (id, remains) in &mut self.logs {
            if let Some(log) = &mut remains.log
                && log.is_closed(env)
            {
                remains.log = None;
            }
            if remains.log.is_none() && remains.unlisted {
                self.current = Some(*id);
                env.out.ops.push_back(Op::RemoveDirectory {
                    token: tokens::REMOVED,
                    path: directory.join(directory_name(*id)),
                });
                return;
            }
        }
    }

    pub fn on_removed(&mut self, env: &mut Env, directory: &Path, result: io::Result<()>) {
        let Some(id) = self.current.take() else {
            return;
        };
        match result {
            Ok(()) => {
                self.logs.remove(&id);
                self.advance(env, directory);
            }
            // The next tick tries again.
            Err(error) => {
                tracing::warn!(log = id.0, %error, "a deleted log's files could not be removed");
            }
        }
    }
}
