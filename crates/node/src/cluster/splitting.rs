//! The auxiliaries of the logs that this node leads, when a member stays away ([`crate::split`] decides), and
//! their retention.
//!
//! ‡ A member becomes auxiliary only when active members that are a quorum without it durably hold all that was
//! chosen a moment ago (a mark), as with any step that takes weight ([`super::moving`]).

use std::time::Duration;

use formats::LogId;
use paxos::{Action, Change, Era, Slot, Time};
use replica::Log;

use super::Cluster;
use crate::directory::DIRECTORY;
use crate::lent::Lent;
use crate::split::{Part, Rules, next_step};

/// The end of what was chosen a moment ago. A member that keeps up with a flow of bytes holds all below it soon,
/// though never all that is chosen now.
#[derive(Clone, Copy)]
pub struct Mark {
    era: Era,
    below: Slot,
    at: Time,
}

/// The age at which a mark gives way to the next: who needs longer for it does not keep up.
const MARK_EVERY: Duration = Duration::from_secs(1);

impl Cluster {
    /// The mark of this log, of its present era.
    fn mark_of(&mut self, id: LogId, log: &Log, now: Time) -> Slot {
        let engine = log.engine();
        let present = Mark {
            era: engine.state().era,
            below: engine.first_unchosen(),
            at: now,
        };
        let mark = self.marks.entry(id).or_insert(present);
        if mark.era != present.era || now >= mark.at + MARK_EVERY {
            *mark = present;
        }
        mark.below
    }

    pub fn split(&mut self, lent: &mut Lent<'_>, logs: &[LogId]) {
        let now = lent.env.now;
        self.marks.retain(|id, _| lent.logs.contains_key(id));
        for id in logs.iter().filter(|id| **id != DIRECTORY) {
            let can_propose = lent.logs.get(id).is_some_and(Log::can_propose);
            let Some(basis) = can_propose
                .then(|| self.basis_of(lent.logs, lent.env, *id))
                .flatten()
            else {
                self.marks.remove(id);
                continue;
            };
            let first = self.wanted_auxiliaries(*id, &basis);
            let members = self.wanted_weights(*id, &basis).len();
            let Some(log) = lent.logs.get_mut(id).filter(|_| !first.is_empty()) else {
                self.marks.remove(id);
                continue;
            };
            let mark = self.mark_of(*id, log, now);
            let state = log.engine().state();
            let own = lent.env.own.identity.node;
            let parts = state.configuration.members().iter().map(|member| {
                let node = member.node;
                let silent = node != own && !log.alive().contains(&node);
                let silent_for = silent.then(|| lent.peers.out_for(now, node, *id));
                let free = lent.peers.get(node).map(|peer| peer.said.free_bytes());
                Part {
                    node,
                    silent_for,
                    is_spared: log.engine().bytes_stand_without(node, mark),
                    free_bytes: free.unwrap_or(lent.env.room.free_bytes),
                    stands_in: self.directory.stands_in(node.0),
                }
            });
            let parts: Vec<Part> = parts.collect();
            // At most f of 2f+1 members may be auxiliary, also where fewer are left.
            let most = members.saturating_sub(1) / 2;
            let rules = Rules {
                auxiliaries: first.len().min(most),
                away_after: lent.env.limits.away_after,
                reserve_bytes: lent.env.limits.disk_reserve_bytes,
                held_bytes: replica::output_bytes(state).saturating_add(log.state_disk_bytes()),
            };
            let Some(change) = next_step(&state.configuration, &parts, &first, rules) else {
                continue;
            };
            // The two changes come one after the other: the members first.
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
            if log.propose(lent.env, action).is_ok() {
                lent.due.touch(*id);
            }
        }
    }

    /// Lets each log's leader forget what its retention says.
    pub fn keep_to_retention(&mut self, lent: &mut Lent<'_>, logs: &[LogId]) {
        for id in logs {
            let Some(basis) = self.basis_of(lent.logs, lent.env, *id) else {
                continue;
            };
            let retention = self.wanted_retention(*id, &basis);
            let log = lent.logs.get_mut(id).filter(|_| !retention.is_forever());
            if let Some(log) = log
                && log.keep_to(lent.env, retention, basis.by())
            {
                lent.due.touch(*id);
            }
        }
    }
}
