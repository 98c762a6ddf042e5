//! Requests by a name that this node knows no log for, or one that has ended: they wait until the node knows the
//! directory as it is, and are looked at once more.
//!
//! ```text
//!   append some … ─▶ a log of that name here? ── yes ─▶ its business
//!                          └─ no, or sealed ─▶ a barrier of log 0 ─▶ there is one by now, or unknown-log
//! ```
//!
//! ‡ Else a node that lags says that a log is not there which somebody made, and was told so.

use formats::LogId;
use ops::ConnId;
use paxos::Time;
use replica::Purpose;
use wire::{Refusal, Request};

use crate::directory::{DIRECTORY, DIRECTORY_NAME};
use crate::node::{Asked, Node};

pub(crate) struct Held {
    conn: ConnId,
    request: Request,
    /// What came with the first line, and whether the client has sent its last byte.
    rest: Vec<u8>,
    ended: bool,
    since: Time,
    asked: Asked,
}

/// Whether the directory was asked already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    First,
    Last,
}

/// Requests whose first word is the name of a log.
const NAMING: [&str; 7] = [
    "append", "close", "read", "trim", "lead", "scrub", "streams",
];

impl Node {
    /// True if the request waits now.
    pub(super) fn hold(
        &mut self,
        conn: ConnId,
        request: &Request,
        rest: &[u8],
        ended: bool,
    ) -> Result<bool, Refusal> {
        let named = request.words.first();
        let Some(name) = named.filter(|_| NAMING.contains(&request.verb.as_str())) else {
            return Ok(false);
        };
        let stale = request.flag("stale").unwrap_or(false);
        if stale || self.log_here(name).is_some() || self.is_known_elsewhere(name) {
            return Ok(false);
        }
        self.check_directory()?;
        self.env.conns.insert(conn, Purpose::Request(DIRECTORY));
        self.held.push(Held {
            conn,
            request: request.clone(),
            rest: rest.to_vec(),
            ended,
            since: self.env.now,
            asked: Asked::default(),
        });
        self.release_held();
        Ok(true)
    }

    /// Looks once more at those whose barrier has passed.
    pub(crate) fn release_held(&mut self) {
        for mut held in std::mem::take(&mut self.held) {
            if !self.env.is_open(held.conn) {
                continue;
            }
            if self.has_passed(&mut held.asked) {
                let Held {
                    conn,
                    request,
                    rest,
                    ended,
                    ..
                } = held;
                let done = self.serve(conn, &request, &rest, ended, Look::Last);
                if let Err(refusal) = done {
                    self.env.refuse(conn, refusal);
                }
                continue;
            }
            let late = self.env.now > held.since + self.env.limits.directory_wait;
            match late {
                true => self
                    .env
                    .refuse(held.conn, crate::node::no_directory_quorum()),
                false => self.held.push(held),
            }
        }
    }

    /// The log of this name, of this node's, that has not ended as far as it knows.
    pub(super) fn log_here(&self, name: &str) -> Option<LogId> {
        if name == DIRECTORY_NAME {
            return self.logs.contains_key(&DIRECTORY).then_some(DIRECTORY);
        }
        if let Some(id) = self.directory.log_by_name(name) {
            let log = self.logs.get(&id);
            return log
                .filter(|log| !log.engine().state().is_sealed())
                .map(|log| log.id());
        }
        // Before the directory is read, and where it was deleted and is not known to be.
        let mut logs = self.logs.values();
        let found = logs.find(|log| log.name() == name && !self.has_ended_here(log.id()));
        found.map(|log| log.id())
    }

    fn has_ended_here(&self, id: LogId) -> bool {
        let entry = self.directory.logs.get(&id);
        let sealed = |log: &replica::Log| log.engine().state().is_sealed();
        self.logs.get(&id).is_some_and(sealed)
            || self.directory.is_deleted(id)
            || entry.is_some_and(|entry| entry.sealing)
    }

    /// The directory has a log of this name, which is being made here or is hosted by others.
    fn is_known_elsewhere(&self, name: &str) -> bool {
        let id = self.directory.log_by_name(name);
        id.is_some_and(|id| !self.logs.contains_key(&id))
    }
}
