//! The view of a checker. Nothing here changes anything.

use formats::{LogId, Speaks};
use paxos::NodeId;
use replica::{Log, LogView};

use crate::counts::NodeCounts;
use crate::health::{Code, State};
use crate::node::Node;

/// The versions that a node could read, and those that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionsView {
    pub speaks: Speaks,
    pub disk: u8,
    /// The agreed version, as far as this node knows.
    pub agreed: u8,
}

impl Node {
    /// The node's id; 0 until it has joined.
    pub fn id(&self) -> NodeId {
        self.env.own.identity.node
    }

    /// The logs that take part, or stopped.
    pub fn log_views(&self) -> impl Iterator<Item = LogView<'_>> {
        self.logs.values().map(Log::view)
    }

    /// The number of this start of the node.
    pub fn incarnation(&self) -> u32 {
        self.env.own.incarnation
    }

    /// The last start of that node that this one met, and remembers after a start of its own.
    pub fn has_met(&self, node: NodeId) -> Option<u32> {
        let seen = self.past.seen(node).filter(|_| self.past.is_written());
        seen.map(|seen| seen.incarnation)
    }

    /// Whether tokens are asked for, as far as this node has read.
    pub fn asks_for_tokens(&self) -> bool {
        self.cluster.directory.rights.switch.on
    }

    /// Whether there is a token of that name, as far as this node has read.
    pub fn knows_token(&self, name: &str) -> bool {
        self.cluster.directory.rights.tokens.contains_key(name)
    }

    /// Whether there is an issuer of tickets of that name, as far as this node has read.
    pub fn knows_issuer(&self, name: &str) -> bool {
        self.cluster.directory.rights.issuers.contains_key(name)
    }

    pub fn counts(&self) -> NodeCounts {
        self.counts
    }

    /// Bytes that the leader of each log may hold in memory now, while so many hold some.
    pub fn ring_share(&self) -> u64 {
        self.env.room.share.ring_bytes
    }

    /// ⟨node, weight⟩ of a log, by the directory as it is known here.
    pub fn wanted(&self, log: LogId) -> Option<impl Iterator<Item = (u32, u32)>> {
        let wanted = self.cluster.directory.members.wanted.get(&log.0)?;
        Some(wanted.weights.iter().map(|(node, weight)| (*node, *weight)))
    }

    /// The nodes of the cluster, by the directory as it is known here.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.cluster.directory.nodes.keys().copied()
    }

    pub fn versions(&self) -> VersionsView {
        VersionsView {
            speaks: self.env.own.speaks,
            disk: self.env.version.disk,
            agreed: self.cluster.directory.versions.agreed,
        }
    }

    /// The reason why it follows the directory no more.
    pub fn halted(&self) -> Option<String> {
        self.cluster.directory.halted().map(ToString::to_string)
    }

    /// Whether its directory is an old copy: no node starts from it again.
    pub fn refuses_its_directory(&self) -> bool {
        self.past.refused().is_some()
    }

    /// Whether it hears that node.
    pub fn hears_node(&self, node: NodeId) -> bool {
        self.peers.is_alive(node)
    }

    /// The name in its certificate that is bound to that node's id, as far as this node knows; empty if there is none.
    pub fn certificate_of(&self, node: NodeId) -> Option<&str> {
        let entry = self.cluster.directory.nodes.get(&node)?;
        Some(&entry.certificate)
    }

    pub fn removed_nodes(&self) -> impl Iterator<Item = u32> {
        self.cluster.directory.members.removed.iter().copied()
    }

    /// The nodes to be removed.
    pub fn leaving_nodes(&self) -> Vec<u32> {
        self.cluster
            .directory
            .members
            .leaving
            .iter()
            .copied()
            .collect()
    }

    /// This node's word of the cluster's health, and each warning: its code, the node that it is about (0:
    /// none), and whether it is so now.
    pub fn warnings(&self) -> (State, Vec<(Code, NodeId, bool)>) {
        let health = self.health();
        let by_name = |name: &str| Code::ALL.into_iter().find(|code| code.name() == name);
        let warnings = health.warnings.iter().filter_map(|warning| {
            let about = NodeId(warning.node.unwrap_or_default());
            Some((by_name(warning.code)?, about, warning.active))
        });
        (health.state, warnings.collect())
    }

    /// Panics if this node's parts contradict each other.
    pub fn check_invariants(&self) {
        self.check_names();
        // A replica that stopped stands as it stood.
        for log in self.logs.values().filter(|log| !log.is_stopped()) {
            log.check_invariants(self.env.limits.unchosen_bytes_max);
        }
    }
}
