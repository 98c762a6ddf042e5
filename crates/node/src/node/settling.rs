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
/// A process that was stopped meanwhile, or that waited for the machine, heard nobody.
const STEP_MAX: u64 = 50_000;

#[derive(Default)]
pub(super) struct Settling {
    /// For how long others could say something, in microseconds.
    rested: u64,
    /// The last round. There is none before the first: what came before, the reading of the disk, gave nobody time.
    looked_at: Option<Time>,
}

impl Settling {
    /// One more round. True once it has rested long enough.
    fn pass(&mut self, now: Time) -> bool {
        let before = self.looked_at.replace(now).unwrap_or(now);
        self.rested += now.0.saturating_sub(before.0).min(STEP_MAX);
        self.rested >= SETTLES_WITHIN
    }

    /// When to look again.
    fn deadline(&self, now: Time) -> Time {
        let rest = SETTLES_WITHIN.saturating_sub(self.rested);
        Time(self.looked_at.unwrap_or(now).0 + rest.min(STEP_MAX))
    }
}

impl Node {
    pub(super) fn settle_start(&mut self) {
        if !self.env.own.settling {
            return;
        }
        let has_rested = self.settling.pass(self.env.now);
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
        if all || has_rested {
            self.env.own.settling = false;
            self.due.touch_all(self.logs.keys().copied());
        }
    }

    pub(super) fn settling_deadline(&self) -> Option<Time> {
        let is_resting = self.env.own.settling;
        is_resting.then(|| self.settling.deadline(self.env.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_the_first_round_is_no_rest() {
        let mut settling = Settling::default();
        let read_its_disk = Time(90_000_000);
        assert!(!settling.pass(read_its_disk));
        assert_eq!(settling.deadline(read_its_disk).0, 90_000_000 + STEP_MAX);
        let mut now = read_its_disk;
        while !settling.pass(now) {
            now = settling.deadline(now);
        }
        assert_eq!(now.0 - read_its_disk.0, SETTLES_WITHIN);
    }

    #[test]
    fn a_process_that_was_stopped_has_not_listened_meanwhile() {
        let mut settling = Settling::default();
        assert!(!settling.pass(Time(0)));
        assert!(!settling.pass(Time(3_600_000_000)));
        assert_eq!(settling.rested, STEP_MAX);
        // A clock that stands still.
        assert!(!settling.pass(Time(3_600_000_000)));
        assert_eq!(settling.rested, STEP_MAX);
    }
}
