//! Replicas that stopped in a process that lives, here and at peers: for its log each counts as silent
//! (docs/decisions/0041-a-stopped-replica-counts-as-silent.md).

use formats::LogId;
use formats::frame::Told;
use paxos::NodeId;
use replica::Log;

use super::Node;
use crate::health::Code;

/// So many stopped replicas are told of with one heartbeat.
const STOPPED_TOLD_MAX: usize = 64;

impl Node {
    /// Warnings of some of this node's replicas that stopped, one for each, and of the others in turn.
    pub(super) fn stopped_to_tell(&mut self) -> Vec<Told> {
        let own = self.env.own.identity.node;
        let is_stopped = |(_, log): &(&LogId, &Log)| log.is_stopped() && !self.env.stopping;
        let behind = self.logs.iter().filter(is_stopped);
        let behind = behind.filter(|(id, _)| **id > self.told_stopped);
        let before = self.logs.iter().filter(is_stopped);
        let before = before.filter(|(id, _)| **id <= self.told_stopped);
        let ids = behind.chain(before).map(|(id, _)| *id);
        let ids: Vec<LogId> = ids.take(STOPPED_TOLD_MAX).collect();
        self.told_stopped = ids.last().copied().unwrap_or_default();
        let tell = |log: LogId| Told {
            by: own,
            code: Code::ReplicaStopped as u8,
            about: own,
            with: NodeId(0),
            log,
            logs: 1,
            amount: 0,
            is_active: true,
        };
        ids.into_iter().map(tell).collect()
    }

    /// Takes a node's word of its replicas that stopped: for their logs it is as good as silent.
    pub(super) fn on_stopped_told(&mut self, peer: NodeId, warnings: &[Told]) {
        let stopped = warnings.iter().filter(|told| {
            let code = Code::from_number(told.code);
            (told.by, code) == (peer, Some(Code::ReplicaStopped)) && told.is_active && told.logs > 0
        });
        for told in stopped {
            // Only of logs that there are: a peer's word must not fill this node's memory.
            let is_log = self.logs.contains_key(&told.log)
                || self.cluster.directory.logs.contains_key(&told.log);
            if !is_log {
                continue;
            }
            let said = &mut self.peers.get_or_add(peer).said;
            if !said.on_stopped(self.env.now, told.log) {
                continue;
            }
            if let Some(log) = self.logs.get_mut(&told.log) {
                tracing::warn!(
                    node = peer.0,
                    log = told.log.0,
                    "that node's replica of this log stopped, and takes no part"
                );
                log.on_peer_stopped(&mut self.env, peer);
                self.due.soon(told.log, self.env.now);
            }
        }
    }

    /// Forgets it when that node greets, and how its states stood: it may be another process.
    pub(super) fn forget_stopped(&mut self, peer: NodeId) {
        let is_of_state = |log: &&mut Log| !log.kind().is_bytes();
        for log in self.logs.values_mut().filter(is_of_state) {
            log.on_peer_greets(&mut self.env, peer);
        }
        let state = self.peers.get_or_add(peer);
        let is_alive = state.is_alive();
        for (id, _) in state.said.take_stopped() {
            let Some(log) = self.logs.get_mut(&id) else {
                continue;
            };
            log.on_peer_greets(&mut self.env, peer);
            if is_alive && self.cluster.directory.hosts(id, peer) {
                log.set_alive(&mut self.env, peer, true);
            }
            self.due.soon(id, self.env.now);
        }
    }
}
