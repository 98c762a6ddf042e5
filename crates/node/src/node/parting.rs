//! When a node that leaves may go: once the leader of every log says that it has no part in it any more.
//!
//! ```text
//!   log's leader: its configuration is without node 6, and ── heartbeat ──► the directory's leader:
//!                 others that are a quorum hold everything                  from all logs? RemoveNode(6)
//! ```
//!
//! Only a log's leader knows, and it says so only while no other configuration may still be chosen of what it
//! proposed: a step that gives node 6 a vote may have been proposed just before it was to leave. Who leads the directory may not host that log, or know of it what was long
//! ago; and once the node is out of the directory its operator is told that it may be destroyed. What a leader
//! says stays true, as the node is wanted nowhere: unless the wish is taken back, which changes the members'
//! version, and with that all that was said is forgotten.
//!
//! What is left: a leader that follows who has not heard that node 6 leaves, and gives it a vote. Then the log
//! has a voter that may be gone already, until that leader hears, and takes the vote back; it loses no byte, as
//! everything stood without node 6 when it was let go.

use std::collections::BTreeSet;

use formats::LogId;
use paxos::NodeId;
use replica::Log;

use super::Node;
use crate::directory::DIRECTORY;

/// Heard while the directory's members have this version.
#[derive(Debug, Default)]
pub(super) struct Parted {
    version: u64,
    known: BTreeSet<(LogId, NodeId)>,
}

impl Node {
    /// Of the logs that this node leads.
    pub(super) fn parted(&self) -> Vec<(LogId, NodeId)> {
        let is_settled = |log: &Log, node: NodeId| {
            if log.engine().may_yet_reconfigure() {
                return false;
            }
            let configuration = &log.engine().state().configuration;
            let holds = |member: NodeId| log.engine().holds_below(member).is_some();
            !configuration.contains(node) && configuration.is_quorum(holds)
        };
        let mut parted = Vec::new();
        for node in self.directory.members.leaving.iter().copied().map(NodeId) {
            let logs = self.logs.iter();
            let without = logs.filter(|(_, log)| log.is_leading() && is_settled(log, node));
            parted.extend(without.map(|(id, _)| (*id, node)));
        }
        parted
    }

    pub(crate) fn on_parted(&mut self, version: u64, parted: &[(LogId, NodeId)]) {
        let members = &self.directory.members;
        let current = members.version;
        if self.parted.version != current {
            self.parted = Parted {
                version: current,
                known: BTreeSet::new(),
            };
        }
        if version == current {
            let logs = &self.directory.logs;
            let is_asked = |(log, node): &&(LogId, NodeId)| {
                members.leaving.contains(&node.0) && (*log == DIRECTORY || logs.contains_key(log))
            };
            self.parted.known.extend(parted.iter().filter(is_asked));
        }
    }

    /// The first log, by its id, whose leader has not said so.
    pub(super) fn has_part_in(&self, node: NodeId) -> Option<LogId> {
        let here = self.parted();
        let is_current = self.parted.version == self.directory.members.version;
        let said = |log: LogId| {
            here.contains(&(log, node)) || is_current && self.parted.known.contains(&(log, node))
        };
        let logs = self.directory.logs.keys().copied();
        [DIRECTORY].into_iter().chain(logs).find(|log| !said(*log))
    }
}
