//! The logs of this node that take part, or stopped, by their ids and by their names; those that begin here; and those
//! that were deleted.

pub mod agenda;
pub mod awake;
pub mod coming;
pub mod due;
pub mod going;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use formats::LogId;
use ops::ConnId;
use paxos::{NodeId, Role};
use replica::{Env, Log, Rest, Share};

use crate::directory::DIRECTORY;
use coming::Coming;
use going::Going;

#[derive(Default)]
pub struct Logs {
    by_id: BTreeMap<LogId, Log>,
    /// The logs by name: a deleted log's replica may still be here when another log has its name.
    by_name: BTreeMap<String, BTreeSet<LogId>>,
    /// The logs whose first segment, and then the manifest, are on their way to disk.
    pub coming: Coming,
    /// The deleted logs whose files are still there.
    pub going: Going,
}

impl Logs {
    pub fn insert(&mut self, log: Log) {
        let ids = self.by_name.entry(log.name().to_owned()).or_default();
        ids.insert(log.id());
        self.by_id.insert(log.id(), log);
    }

    pub fn remove(&mut self, id: LogId) -> Option<Log> {
        let log = self.by_id.remove(&id)?;
        if let Some(ids) = self.by_name.get_mut(log.name()) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_name.remove(log.name());
            }
        }
        Some(log)
    }

    pub fn get(&self, id: &LogId) -> Option<&Log> {
        self.by_id.get(id)
    }

    pub fn get_mut(&mut self, id: &LogId) -> Option<&mut Log> {
        self.by_id.get_mut(id)
    }

    pub fn contains_key(&self, id: &LogId) -> bool {
        self.by_id.contains_key(id)
    }

    /// All logs that have this name, the oldest first.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Log> {
        let ids = self.by_name.get(name).into_iter().flatten();
        ids.filter_map(|id| self.by_id.get(id))
    }

    /// This node's replica of the cluster's directory.
    pub fn directory(&self) -> Option<&Log> {
        self.by_id.get(&DIRECTORY)
    }

    /// Whether a command of this node's could be proposed to the directory now.
    pub fn can_direct(&self) -> bool {
        self.directory().is_some_and(Log::can_propose)
    }

    /// The leader of the directory, as far as this node knows.
    pub fn director(&self) -> Option<NodeId> {
        Some(self.directory()?.engine().leader()?.0)
    }

    /// Whether the node is in any log's configuration that this node knows.
    pub fn have_member(&self, node: NodeId) -> bool {
        let mut logs = self.by_id.values();
        logs.any(|log| log.engine().state().configuration.contains(node))
    }

    /// The next log by its id, and after the last the first.
    pub fn after(&self, last: Option<LogId>) -> Option<LogId> {
        let above = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut above = self.by_id.range((above, Bound::Unbounded));
        let next = above.next().or_else(|| self.by_id.iter().next());
        next.map(|(id, _)| *id)
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub fn keys_from(&self, from: Bound<LogId>) -> impl Iterator<Item = &LogId> {
        self.by_id.range((from, Bound::Unbounded)).map(|(id, _)| id)
    }

    pub fn keys(&self) -> impl Iterator<Item = &LogId> {
        self.by_id.keys()
    }

    pub fn values(&self) -> impl Iterator<Item = &Log> {
        self.by_id.values()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Log> {
        self.by_id.values_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&LogId, &Log)> {
        self.by_id.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&LogId, &mut Log)> {
        self.by_id.iter_mut()
    }

    /// Divides the memory ([`replica::Share`]) among the logs that hold much. A log that holds less than the
    /// least share is not counted: the count is not worth it. Every log that holds any is awake.
    pub fn share_memory(&self, env: &mut Env, logs: &[LogId]) {
        let least = Share::of(&env.limits, u64::MAX);
        let holds = |log: &&Log| {
            log.ring_bytes() >= least.ring_bytes || log.store().queued_bytes() >= least.queue_bytes
        };
        let logs = logs.iter().filter_map(|id| self.get(id));
        let logs = logs.filter(holds).count();
        env.room.share = Share::of(&env.limits, logs as u64);
    }

    /// Sends the next piece of a long answer, once the last is with the kernel.
    pub fn on_answer_sent(&self, env: &mut Env, conn: ConnId, ok: bool) {
        let Some(rest) = env.memory.answers.leave(conn) else {
            return;
        };
        if !ok {
            return env.close(conn);
        }
        match rest {
            Rest::Nothing => env.part(conn, b""),
            Rest::Line { bytes, at } => env.send_line(conn, bytes, at),
            Rest::Streams(id, list) => match self.get(&id) {
                Some(log) => log.send_streams(env, conn, list),
                // The log was deleted meanwhile.
                None => env.reset(conn),
            },
        }
    }

    /// Answers a leader's status, which outside of a heartbeat is a question: the leader has just been
    /// elected, or wants to hand over, and waits.
    pub fn answer_status(&self, env: &mut Env, peer: NodeId, id: LogId) {
        let Some(log) = self.get(&id).filter(|log| !log.is_stopped()) else {
            return;
        };
        if matches!(log.role(), Role::Follower { leader, .. } if leader == peer) {
            let status = log.engine().follower_status();
            env.send_message(peer, id, status);
        }
    }
}
