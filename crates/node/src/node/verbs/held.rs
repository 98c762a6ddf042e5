//! Requests by a name that this node knows no log for, or one that has ended: they wait until the node knows the
//! directory as it is, and are looked at once more.
//!
//! ```text
//!   append some … ─▶ a log of that name here? ── yes ─▶ its business
//!                          └─ no, or sealed ─▶ a barrier of log 0 ─▶ there is one by now, or unknown-log
//! ```
//!
//! ‡ Else a node that lags denies a log that somebody made, and was told so.

use formats::LogId;
use ops::ConnId;
use paxos::Time;
use replica::Purpose;
use wire::Refusal;

use super::awaiting::no_directory_quorum;
use crate::cluster::confirming::{Asked, check_directory};
use crate::directory::{DIRECTORY, DIRECTORY_NAME};
use crate::greeting::{Caller, refuse};
use crate::node::Node;

/// A caller whose log this node may not have heard of.
pub(in crate::node) struct Held {
    caller: Caller,
    since: Time,
    asked: Asked,
    /// This node knew who may do what.
    was_known: bool,
}

impl Held {
    pub fn conn(&self) -> ConnId {
        self.caller.conn
    }
}

impl Node {
    /// Whether the request has to wait until the directory is known.
    pub(super) fn is_to_wait(&self, caller: &Caller) -> Result<bool, Refusal> {
        let named = caller.request.words.first();
        let Some(name) = named.filter(|_| caller.verb.is_of_one_log()) else {
            return Ok(false);
        };
        let stale = caller.request.flag("stale").unwrap_or(false);
        if stale || self.log_here(name).is_some() || self.is_known_elsewhere(name) {
            return Ok(false);
        }
        check_directory(&self.logs, &self.env)?;
        Ok(true)
    }

    pub(super) fn hold(&mut self, caller: Caller) {
        self.env
            .conns
            .turn_to(caller.conn, Purpose::Request(DIRECTORY));
        let was_known = self.knows_rights(caller.verb);
        self.callers.held.push(Held {
            was_known,
            caller,
            since: self.env.now,
            asked: Asked::default(),
        });
        self.release_held();
    }

    /// Looks once more at the requests whose barrier has passed.
    pub(in crate::node) fn release_held(&mut self) {
        for mut held in std::mem::take(&mut self.callers.held) {
            let conn = held.caller.conn;
            if !self.env.conns.is_open(conn) {
                continue;
            }
            // ‡ What kept it from being judged may be known before any barrier has passed.
            if !held.was_known && self.knows_rights(held.caller.verb) {
                let from = held.caller.from.clone();
                if let Err(refusal) = self.take(held.caller) {
                    refuse(&mut self.env, conn, &from, refusal);
                }
                continue;
            }
            if held.asked.has_passed(&mut self.lend().1) {
                // ‡ What may be done was looked at before it was held, if at all.
                let judged = self.judge(&held.caller, true);
                if let Err(refusal) = judged.and_then(|_| self.serve(&held.caller)) {
                    self.env.refuse(conn, refusal);
                }
                continue;
            }
            let late = self.env.now > held.since + self.env.limits.directory_wait;
            match late {
                true => self.env.refuse(conn, no_directory_quorum()),
                false => self.callers.held.push(held),
            }
        }
    }

    /// This node's log of this name that has not ended as far as it knows.
    pub(in crate::node) fn log_here(&self, name: &str) -> Option<LogId> {
        if name == DIRECTORY_NAME {
            return self.logs.contains_key(&DIRECTORY).then_some(DIRECTORY);
        }
        if let Some(id) = self.cluster.directory.log_by_name(name) {
            let log = self.logs.get(&id);
            return log
                .filter(|log| !log.engine().state().is_sealed())
                .map(|log| log.id());
        }
        // The directory may not be read yet, or the log may be deleted in it and not known to be.
        let mut named = self.logs.named(name);
        let found = named.find(|log| !self.has_ended_here(log.id()));
        found.map(|log| log.id())
    }

    fn has_ended_here(&self, id: LogId) -> bool {
        let entry = self.cluster.directory.logs.get(&id);
        let sealed = |log: &replica::Log| log.engine().state().is_sealed();
        self.logs.get(&id).is_some_and(sealed)
            || self.cluster.directory.is_deleted(id)
            || entry.is_some_and(|entry| entry.sealing)
    }

    /// Whether the directory has a log of this name, which is being made here or is hosted by others.
    fn is_known_elsewhere(&self, name: &str) -> bool {
        let id = self.cluster.directory.log_by_name(name);
        id.is_some_and(|id| !self.logs.contains_key(&id))
    }
}
