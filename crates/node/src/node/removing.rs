//! Deleted logs leave this node.
//!
//! ```text
//! the directory says it is deleted
//!   ─▶ clients and peers are told, nothing more is written       it is in the manifest's `logs`
//!   ─▶ the manifest is replaced                                  … in its `deleted`, durably
//!   ─▶ the files are closed, the directory is removed            a start finds it, and removes it
//! ```
//!
//! What the manifest calls deleted is never made again, whatever comes from peers or from the
//! beginning of log 0: an empty replica would have forgotten its promises.

use std::collections::BTreeMap;
use std::io;

use formats::LogId;
use formats::segment::directory_name;
use ops::{Completion, ConnId, Op};
use paxos::mutation::{self, Mutation};
use replica::{Log, Purpose};

use super::Node;
use crate::tokens;

#[derive(Default)]
pub(crate) struct Removing {
    logs: BTreeMap<LogId, Remains>,
    /// Whose directory is being removed. One at a time: it is no hurry.
    current: Option<LogId>,
}

struct Remains {
    /// Until its files are closed.
    log: Option<Log>,
    /// The manifest that is on disk says that it is deleted.
    unlisted: bool,
}

impl Removing {
    /// What a start found of logs that were deleted.
    pub fn of(remains: Vec<LogId>) -> Removing {
        let unlisted = |id| {
            let remains = Remains {
                log: None,
                unlisted: true,
            };
            (id, remains)
        };
        Removing {
            logs: remains.into_iter().map(unlisted).collect(),
            current: None,
        }
    }
}

impl Node {
    /// The directory says that it is no more.
    pub(super) fn delete_log(&mut self, id: LogId) {
        self.hosted.remove(id);
        let Some(mut log) = self.logs.remove(id) else {
            return;
        };
        tracing::info!(
            log = id.0,
            name = log.name(),
            "deleted: its files are removed"
        );
        log.end_clients(&mut self.env);
        log.close(&mut self.env);
        self.close_connections_of(id);
        self.due.forget(id);
        self.manifest.logs.retain(|listed| listed.id != id);
        if !mutation::is(Mutation::DeletedLogResurrected) {
            self.manifest.deleted.insert(id);
        }
        let remains = Remains {
            log: Some(log),
            unlisted: false,
        };
        self.removing.logs.insert(id, remains);
        self.save_manifest();
    }

    fn close_connections_of(&mut self, id: LogId) {
        let of_it = self.env.conns.iter().filter(|(_, purpose)| match purpose {
            Purpose::DataIn(log, _) | Purpose::DataOut(log, _) | Purpose::FeedOut(log, _) => {
                *log == id
            }
            Purpose::Writer(log) | Purpose::Reader(log) | Purpose::Request(log) => *log == id,
            _ => false,
        });
        let of_it: Vec<ConnId> = of_it.map(|(conn, _)| *conn).collect();
        for conn in of_it {
            self.env.close(conn);
        }
    }

    /// The manifest that was written lists none of those that are being removed.
    pub(super) fn on_unlisted(&mut self) {
        for remains in self.removing.logs.values_mut() {
            remains.unlisted = true;
        }
        self.advance_removing();
    }

    pub(super) fn on_removing_disk(&mut self, id: LogId, completion: Completion) {
        if let Some(log) = self.removing.logs.get_mut(&id).and_then(|r| r.log.as_mut()) {
            log.on_disk(&mut self.env, completion);
            self.advance_removing();
        }
    }

    pub(super) fn advance_removing(&mut self) {
        if self.removing.current.is_some() {
            return;
        }
        for (id, remains) in &mut self.removing.logs {
            if let Some(log) = &mut remains.log
                && log.is_closed(&mut self.env)
            {
                remains.log = None;
            }
            if remains.log.is_none() && remains.unlisted {
                self.removing.current = Some(*id);
                self.env.out.ops.push_back(Op::RemoveDirectory {
                    token: tokens::REMOVED,
                    path: self.config.directory.join(directory_name(*id)),
                });
                return;
            }
        }
    }

    pub(super) fn on_removed(&mut self, result: io::Result<()>) {
        let Some(id) = self.removing.current.take() else {
            return;
        };
        match result {
            Ok(()) => {
                self.removing.logs.remove(&id);
                self.advance_removing();
            }
            // The next tick tries again.
            Err(error) => {
                tracing::warn!(log = id.0, %error, "a deleted log's files could not be removed");
            }
        }
    }
}
