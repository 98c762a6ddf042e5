//! Nodes that leave: logs are moved towards the members that are wanted ([`crate::cluster`]), and a node that is gone is
//! forgotten.

use formats::LogId;
use paxos::NodeId;

use super::Node;

pub(super) const REMOVED: &str = "this node was removed from the cluster; ask another";

impl Node {
    pub(super) fn move_members(&mut self, logs: &[LogId]) {
        let (cluster, mut lent) = self.lend();
        cluster.welcome(&mut lent, logs);
        let silent = cluster.silent(lent.env, lent.peers);
        for id in logs {
            cluster.move_log(&mut lent, *id, &silent);
        }
        cluster.dismiss(&mut lent);
        self.forget_removed();
        self.part_if_removed();
    }

    pub(super) fn is_gone(&self) -> bool {
        self.cluster.is_gone(&self.env, &self.logs, &self.peers)
    }

    /// Parts with clients of a removed node: bytes that others write are not heard here, so a reader would
    /// wait for ever.
    fn part_if_removed(&mut self) {
        if self.is_gone() {
            for log in self.logs.values_mut() {
                log.stop_clients(&mut self.env, "shutting-down", REMOVED);
            }
        }
    }

    fn forget_removed(&mut self) {
        let removed = self
            .cluster
            .directory
            .members
            .removed
            .iter()
            .copied()
            .map(NodeId);
        let known = |node: &NodeId| {
            self.env.peers.addresses.contains_key(node) || self.peers.contains(*node)
        };
        let removed: Vec<NodeId> = removed.filter(known).collect();
        for node in removed
            .into_iter()
            .filter(|node| self.cluster.is_removed(&self.logs, *node))
            .collect::<Vec<_>>()
        {
            tracing::info!(node = node.0, "a removed node is not heard any more");
            self.forget_node(node);
        }
    }

    /// Forgets a node: it is dialled, heard and told of no more.
    pub(super) fn forget_node(&mut self, node: NodeId) {
        for (id, log) in self.logs.iter_mut() {
            log.break_links(&mut self.env, node);
            log.set_alive(&mut self.env, node, false);
            log.forget_follower(node);
            self.due.touch(*id);
        }
        for conn in self.peers.forget(node) {
            self.peers.controls.remove(&conn);
            self.env.close(conn);
        }
        self.env.peers.links.remove(&node);
        self.past.forget(node);
        self.board.forget(node);
        if self.env.peers.addresses.remove(&node).is_some() {
            self.save_peers();
        }
    }
}
