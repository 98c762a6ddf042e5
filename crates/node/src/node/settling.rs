//! A node that comes back asks before it acts.
//!
//! ```text
//!  start ─▶ every peer that is known is dialled ─▶ all are heard and answer, or 0.3 s ─▶ engines act
//!               └─ one of them remembers more of this disk: its evidence stops the node first
//! ```
//!
//! ‡ An old copy of a directory would promise, accept and lead within a tenth of a second, and with one node that was away
//! it is a quorum. A node whose own vote is one needs nobody; those that it does not know of yet, or not any more,
//! dial it in the meantime, and show it what they remember.

use paxos::{NodeId, Time};

use super::Node;

/// Longer than it takes to dial a peer, and to be dialled by it, where both run. Microseconds.
const SETTLES_WITHIN: u64 = 300_000;

#[derive(Default)]
pub(super) struct Settling {
    /// From the first round on: what came before, the reading of the disk, gave nobody time to say anything.
    until: Option<Time>,
}

impl Node {
    pub(super) fn settle_start(&mut self) {
        if !self.env.own.settling {
            return;
        }
        let now = self.env.now;
        let until = *self
            .settling
            .until
            .get_or_insert(Time(now.0 + SETTLES_WITHIN));
        let own = self.env.own.identity.node;
        let is_alone = |log: &replica::Log| {
            let configuration = &log.engine().state().configuration;
            configuration.is_quorum(|node| node == own)
        };
        let waits_to_be_dialled = self.logs.values().any(is_alone);
        // Where nobody takes a connection somebody may yet: he may be elsewhere, or about to start.
        let has_answered = |peer: &NodeId| {
            let state = self.peers.peers.get(peer);
            state.is_some_and(|peer| peer.alive)
        };
        let all = !waits_to_be_dialled && self.env.peers.addresses.keys().all(has_answered);
        if all || now >= until {
            self.env.own.settling = false;
            self.dirty.extend(self.logs.keys());
        }
    }

    pub(super) fn settling_deadline(&self) -> Option<Time> {
        let now = self.env.now;
        self.env
            .own
            .settling
            .then(|| self.settling.until.unwrap_or(now))
    }
}
