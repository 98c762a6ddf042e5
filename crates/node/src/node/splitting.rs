//! Where this node leads: who is auxiliary when somebody stays away ([`crate::split`] decides).

use paxos::{Action, Change, NodeId};

use super::Node;
use crate::split::{Part, Rules, next_step};

impl Node {
    pub(super) fn split(&mut self) {
        let now = self.env.now;
        for (id, log) in &mut self.logs {
            if !self.directory.logs.contains_key(id) || !log.can_propose() {
                continue;
            }
            let first = self.directory.meant_auxiliaries(*id);
            if first.is_empty() {
                continue;
            }
            let state = log.engine.state();
            let own = self.env.identity.node;
            let parts = state.configuration.members().iter().map(|member| {
                let node = member.node;
                let silent = node != own && !log.alive.contains(&node);
                // One that was never heard is silent since this node looked first.
                let since = silent.then(|| *self.away_since.entry(node).or_insert(now));
                let free = self.peers.peers.get(&node).map(|peer| peer.free_bytes);
                Part {
                    node,
                    silent_for: since.map(|since| now.0.saturating_sub(since.0)),
                    is_spared: log.engine.bytes_stand_without(node),
                    free_bytes: free.unwrap_or(self.env.free_bytes),
                    stands_in: self.directory.stands_in(node.0),
                }
            });
            let parts: Vec<Part> = parts.collect();
            let first: Vec<NodeId> = first.into_iter().map(NodeId).collect();
            // f of 2f+1 members, also where fewer are left.
            let members = self.directory.members.wanted.get(&id.0);
            let most = members.map_or(first.len(), |m| m.weights.len().saturating_sub(1) / 2);
            let rules = Rules {
                auxiliaries: first.len().min(most),
                away_after: self.env.limits.away_after,
                reserve_bytes: self.env.limits.disk_reserve_bytes,
                log_bytes: state.streams.iter().map(|s| s.length.0 - s.trimmed.0).sum(),
            };
            let Some(change) = next_step(&state.configuration, &parts, &first, rules) else {
                continue;
            };
            // One after the other: the members first.
            if matches!(change, Change::MarkAuxiliary(_)) && self.moves.contains_key(id) {
                continue;
            }
            let from = state.era;
            match change {
                Change::UnmarkAuxiliary(node) => tracing::warn!(
                    log = id.0,
                    name = log.name,
                    node = node.0,
                    "this auxiliary takes the place of an active node that stays away, or only stands in"
                ),
                _ => tracing::info!(log = id.0, name = log.name, ?change, "a new split"),
            }
            let action = Action::Reconfigure { from, change };
            if log.engine.propose(now, action).is_ok() {
                log.drain(&mut self.env);
                self.dirty.insert(*id);
            }
        }
    }
}
