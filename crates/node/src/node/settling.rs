//! A node that comes back asks before it acts.
//!
//! ```text
//!  start ─▶ every peer that is known is dialled ─▶ it is heard and answers, or nobody is there ─▶ engines act
//!               └─ one of them remembers more of this disk: its evidence stops the node first
//! ```
//!
//! ‡ An old copy of a directory would promise, accept and lead within a tenth of a second, and with one node that was away
//! it is a quorum. A node whose own vote is one needs nobody; those that it does not know of yet, or not any more,
//! dial it in the meantime, and show it what they remember.

use std::collections::BTreeSet;

use paxos::{NodeId, Time};

use super::Node;

/// Longer than it takes to dial a peer, and to be dialled by it, where both run. Microseconds.
const SETTLES_WITHIN: u64 = 300_000;

#[derive(Default)]
pub(super) struct Settling {
    until: Time,
    /// Nobody was there, or what is there refuses this node.
    answered: BTreeSet<NodeId>,
}

impl Node {
    /// At a start.
    pub(super) fn begin_settling(&mut self) {
        self.settling.until = Time(self.env.now.0 + SETTLES_WITHIN);
    }

    /// A peer's address led to nobody, or to a refusal.
    pub(crate) fn on_unreachable(&mut self, peer: NodeId) {
        if self.env.own.settling {
            self.settling.answered.insert(peer);
        }
    }

    pub(super) fn settle_start(&mut self) {
        if !self.env.own.settling {
            return;
        }
        let own = self.env.own.identity.node;
        let is_alone = |log: &replica::Log| {
            let configuration = &log.engine().state().configuration;
            configuration.is_quorum(|node| node == own)
        };
        let waits_to_be_dialled = self.logs.values().any(is_alone);
        let has_answered = |peer: &NodeId| {
            let state = self.peers.peers.get(peer);
            self.settling.answered.contains(peer) || state.is_some_and(|peer| peer.alive)
        };
        let all = !waits_to_be_dialled && self.env.peers.addresses.keys().all(has_answered);
        if all || self.env.now >= self.settling.until {
            self.env.own.settling = false;
            self.dirty.extend(self.logs.keys());
        }
    }

    pub(super) fn settling_deadline(&self) -> Option<Time> {
        self.env.own.settling.then_some(self.settling.until)
    }
}
