//! I5, where weights change: a node that gets weight holds what was chosen before, and a node that loses some
//! is not alone with it.
//!
//! ```text
//!   ── era e−2 ──┤── era e−1 ──┤── era e          bytes of e−1 are in the hands of a quorum of e−1, and
//!        ▲       │    holders  │                  every quorum of e meets it; those of e−2 and before
//!        └───────┴─────────────┘ must be held     must be held anew by a quorum of e
//! ```

use formats::LogId;
use paxos::{Configuration, Era, Member, NodeId, Slot};

use super::Witness;
use crate::world::World;

impl Witness {
    pub(super) fn check_steps(&mut self, world: &World) {
        let logs = self.logs.iter();
        let latest = logs.map(|(log, history)| (*log, history.last_era()));
        for (log, latest) in latest.collect::<Vec<_>>() {
            let checked = self.eras_checked.entry(log).or_default();
            let first = checked.0 + 1;
            *checked = latest.max(*checked);
            for era in (first..=latest.0).map(Era) {
                self.check_step(log, era, world);
            }
        }
    }

    fn check_step(&self, log: LogId, era: Era, world: &World) {
        let history = &self.logs[&log];
        let before = Era(era.0 - 1);
        let (Some(was), Some(is), Some(below)) = (
            history.configuration(before),
            history.configuration(era),
            history.era_start(before),
        ) else {
            return;
        };
        let gains = is.members().iter().copied();
        let gains = gains.filter(|m| m.weight > was.weight(m.node));
        let (auxiliaries, gains): (Vec<Member>, Vec<Member>) = gains.partition(|m| m.auxiliary);
        let loses = was.members().iter().any(|m| is.weight(m.node) < m.weight);
        let scaled = is.members().len() == was.members().len()
            && is.members().iter().all(|m| is_scaled(m.node, is, was));
        if scaled && is.total() != was.total() {
            return;
        }
        for member in gains {
            if let Some(lacked) = self.lacks(log, member.node, below, world) {
                panic!(
                    "I5: node {} in log {} gets weight in era {} and lacks {lacked}",
                    member.node, log.0, era.0
                );
            }
        }
        let holds =
            |node: NodeId| !is.is_auxiliary(node) && self.lacks(log, node, below, world).is_none();
        assert!(
            !loses && auxiliaries.is_empty() || is.is_quorum(holds),
            "I5: a node loses weight or an auxiliary is given more in era {} of log {}, and those who hold all below {below} are no quorum of {is:?}",
            era.0,
            log.0
        );
    }

    /// The bytes chosen below that slot that the node does not hold.
    fn lacks(&self, log: LogId, node: NodeId, below: Slot, world: &World) -> Option<String> {
        let mut bytes = self.logs[&log].bytes_below(below);
        let lacked =
            bytes.find(|(stream, bytes)| !self.holds(node, log, *stream, bytes.clone(), world));
        lacked.map(|(stream, bytes)| format!("some of {bytes:?} of {stream}"))
    }
}

/// As many times heavier as all together.
fn is_scaled(node: NodeId, is: &Configuration, was: &Configuration) -> bool {
    u64::from(is.weight(node)) * was.total() == u64::from(was.weight(node)) * is.total()
}
