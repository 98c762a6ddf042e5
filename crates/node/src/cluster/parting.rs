//! The parting of a node that leaves: it may go once the leader of every log says that it has no part in it
//! any more.
//!
//! ```text
//!   log's leader: its configuration is without node 6, and ── heartbeat ──► the directory's leader:
//!                 others that are a quorum hold everything                  from all logs? RemoveNode(6)
//! ```
//!
//! Only a log's leader knows, and it says so only while no other configuration may still be chosen of what it
//! proposed: a step that gives node 6 a vote may have been proposed just before it was to leave. The
//! directory's leader may not host that log, or know only an old state of it; and once the node is out of the
//! directory its operator is told that it may be destroyed. A leader's statement stays true, as the node is
//! wanted nowhere: unless the wish is taken back, which changes the members' version, and with that all
//! statements are forgotten.
//!
//! One case is left: a leader follows that has not heard that node 6 leaves, and gives it a vote. Then the
//! log has a voter that may be gone already, until that leader hears, and takes the vote back; it loses no
//! byte, as everything stood without node 6 when it was let go.

use std::collections::{BTreeMap, BTreeSet};

use formats::LogId;
use paxos::{Configuration, NodeId};
use replica::Log;

use super::Cluster;
use crate::directory::DIRECTORY;
use crate::lent::Sight;
use crate::logs::Logs;
use crate::membership::change::View;
use crate::node::shown_names;

/// The statements heard while the directory's members have this version.
#[derive(Debug, Default)]
pub struct Parted {
    version: u64,
    known: BTreeSet<(LogId, NodeId)>,
}

impl Cluster {
    /// The nodes without a part in the logs that this node leads.
    pub fn parted(&self, logs: &Logs) -> Vec<(LogId, NodeId)> {
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
            let without = logs
                .iter()
                .filter(|(_, log)| log.is_leading() && is_settled(log, node));
            parted.extend(without.map(|(id, _)| (*id, node)));
        }
        parted
    }

    pub fn on_parted(&mut self, version: u64, parted: &[(LogId, NodeId)]) {
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
    pub fn has_part_in(&self, logs: &Logs, node: NodeId) -> Option<LogId> {
        let here = self.parted(logs);
        let is_current = self.parted.version == self.directory.members.version;
        let said = |log: LogId| {
            here.contains(&(log, node)) || is_current && self.parted.known.contains(&(log, node))
        };
        let all = self.directory.logs.keys().copied();
        [DIRECTORY].into_iter().chain(all).find(|log| !said(*log))
    }

    pub fn dismissal_is_waiting(&self, sight: Sight<'_>) -> bool {
        let directs = sight.logs.directory().is_some_and(Log::is_leading);
        directs && self.dismissal_waits(sight).is_some()
    }

    pub fn dismissal_waits(&self, sight: Sight<'_>) -> Option<String> {
        let members = &self.directory.members;
        let mut leaving = members.leaving.iter().filter(|n| !members.has_weight(**n));
        leaving.find_map(|node| {
            let needed = self.has_part_in(sight.logs, NodeId(*node));
            let needed = needed.map(|log| {
                format!("node {node} is kept until the leader of log {log} says that it is needed no more")
            });
            needed.or_else(|| self.keeps_for_bytes(sight, *node))
        })
    }

    /// The reason why a node that leaves, and has no weight any more, is kept: it may alone hold bytes.
    pub fn keeps_for_bytes(&self, sight: Sight<'_>, node: u32) -> Option<String> {
        self.with_view(sight, |view| view.kept_for_bytes(node))
    }

    pub fn with_view<R>(&self, sight: Sight<'_>, look: impl FnOnce(&View) -> R) -> R {
        let own = sight.env.own.identity.node.0;
        let peers = sight.peers.live();
        let alive: BTreeSet<u32> = peers.map(|(node, _)| node.0).chain([own]).collect();
        let logs = sight.logs.values();
        let configurations: BTreeMap<u32, Configuration> = logs
            .map(|log| (log.id().0, log.engine().state().configuration.clone()))
            .collect();
        look(&View {
            directory: &self.directory,
            alive: &alive,
            configurations: &configurations,
            lacks: &self.lacks(sight),
            names: &shown_names(sight.env, sight.peers),
        })
    }

    /// The nodes that lack bytes of each log, by the last word of each. Auxiliaries hold none to speak of.
    fn lacks(&self, sight: Sight<'_>) -> BTreeMap<u32, BTreeSet<u32>> {
        let own = sight.env.own.identity.node;
        let mut lacks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (node, peer) in sight.peers.iter() {
            for log in peer.said.lacks() {
                lacks.entry(log.0).or_default().insert(node.0);
            }
        }
        for (id, log) in sight.logs.iter() {
            let lacking = lacks.entry(id.0).or_default();
            let members = log.engine().state().configuration.members().iter();
            lacking.extend(members.filter(|m| m.auxiliary).map(|m| m.node.0));
            if log.missing_bytes() > 0 {
                lacking.insert(own.0);
            }
        }
        lacks
    }
}
