//! Where this node leads: who is auxiliary when somebody stays away ([`crate::split`] decides).

use formats::LogId;
use paxos::{Action, Change};
use replica::Log;

use super::Node;
use crate::directory::DIRECTORY;
use crate::split::{Part, Rules, next_step};

impl Node {
    pub(super) fn split(&mut self, logs: &[LogId]) {
        let now = self.env.now;
        for id in logs.iter().filter(|id| **id != DIRECTORY) {
            let can_propose = self.logs.get(id).is_some_and(Log::can_propose);
            let Some(basis) = can_propose.then(|| self.basis_of(*id)).flatten() else {
                continue;
            };
            let first = self.wanted_auxiliaries(*id, &basis);
            let members = self.wanted_weights(*id, &basis).len();
            let Some(log) = self.logs.get_mut(id).filter(|_| !first.is_empty()) else {
                continue;
            };
            let state = log.engine().state();
            let own = self.env.own.identity.node;
            let parts = state.configuration.members().iter().map(|member| {
                let node = member.node;
                let silent = node != own && !log.alive().contains(&node);
                // One that was never heard is silent since this node looked first.
                let since = silent.then(|| *self.away_since.entry(node).or_insert(now));
                let free = self.peers.peers.get(&node).map(|peer| peer.free_bytes);
                Part {
                    node,
                    silent_for: since.map(|since| now.0.saturating_sub(since.0)),
                    is_spared: log.engine().bytes_stand_without(node),
                    free_bytes: free.unwrap_or(self.env.room.free_bytes),
                    stands_in: self.directory.stands_in(node.0),
                }
            });
            let parts: Vec<Part> = parts.collect();
            // f of 2f+1 members, also where fewer are left.
            let most = members.saturating_sub(1) / 2;
            let rules = Rules {
                auxiliaries: first.len().min(most),
                away_after: self.env.limits.away_after.as_micros() as u64,
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
                    name = log.name(),
                    node = node.0,
                    "this auxiliary becomes active: an active node stays away or only stands in, or the active ones are no quorum"
                ),
                _ => tracing::info!(log = id.0, name = log.name(), ?change, "a new split"),
            }
            let by = basis.by();
            let action = Action::Reconfigure { from, change, by };
            if log.propose(&mut self.env, action).is_ok() {
                self.dirty.insert(*id);
            }
        }
    }
}
