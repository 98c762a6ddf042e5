//! The node's view of a log, and the few things that it does to the log out of turn.

use std::collections::BTreeSet;
use std::time::Duration;

use formats::{LogId, LogKind, Stand};
use paxos::{Action, Engine, NodeId, NotProposed, Role, Slot, StreamName};
use store::{RecoveryReport, Store};
use wire::Refusal;

use super::Log;
use crate::env::Env;
use crate::pulse::Pulse;

impl Log {
    pub fn id(&self) -> LogId {
        self.core.id
    }

    pub fn name(&self) -> &str {
        &self.core.name
    }

    pub fn kind(&self) -> LogKind {
        self.core.kind
    }

    pub fn role(&self) -> Role {
        self.core.role()
    }

    pub fn is_leading(&self) -> bool {
        self.core.is_leading()
    }

    /// Whether it leads, and is free to propose something new.
    pub fn can_propose(&self) -> bool {
        self.core.can_propose()
    }

    /// Whether it pays to wait for somebody else to lead.
    pub fn may_hand_over(&self) -> bool {
        self.core.may_hand_over()
    }

    /// Whether clients are in the right place.
    pub fn check_leading(&self, env: &Env) -> Result<(), Refusal> {
        self.core.check_leading(env)
    }

    pub fn not_leader(&self, env: &Env) -> Refusal {
        self.core.not_leader(env)
    }

    /// Whether clients' bytes have nowhere to go.
    pub fn is_full(&self, env: &Env) -> bool {
        self.core.is_full(env)
    }

    pub fn engine(&self) -> &Engine {
        &self.core.engine
    }

    pub fn store(&self) -> &Store {
        &self.core.store
    }

    /// The reason why the replica takes no part any more.
    pub fn stopped(&self) -> Option<&str> {
        self.core.stopped.as_deref()
    }

    pub fn is_stopped(&self) -> bool {
        self.core.stopped.is_some()
    }

    /// Whether it stopped since another replica contradicts what is chosen here.
    pub fn is_contradicted(&self) -> bool {
        self.is_contradicted
    }

    /// The peers that this log takes to be there.
    pub fn alive(&self) -> &BTreeSet<NodeId> {
        &self.core.alive
    }

    /// Whether that node's replica of this log is known to have stopped.
    pub fn has_stopped_at(&self, node: NodeId) -> bool {
        self.core.stopped_at.contains(&node)
    }

    /// The duration of proposals.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// The memory that its recent proposals hold.
    pub fn ring_bytes(&self) -> u64 {
        self.core.ring.bytes()
    }

    /// The stream that a writer appends to here.
    pub fn writer_stream(&self) -> Option<StreamName> {
        self.ingest.writer_stream()
    }

    /// Whether writers wait until another node leads.
    pub fn holds_writers(&self) -> bool {
        self.moves.hold_writers()
    }

    /// Ends the log when the node stops: nothing more is done here.
    pub fn end(&mut self, why: &str) {
        self.core.stopped.get_or_insert(why.to_owned());
    }

    /// Proposes, and does all that follows from it.
    pub fn propose(&mut self, env: &mut Env, action: Action) -> Result<Slot, NotProposed> {
        let is_step = matches!(action, Action::Reconfigure { .. });
        if is_step && self.core.awaits_trim() {
            let leader = self.core.engine.leader();
            return Err(NotProposed::NotLeading { leader });
        }
        let slot = self.core.engine.propose(env.now, action)?;
        if is_step {
            self.core.note_step(slot);
        }
        self.drain(env);
        Ok(slot)
    }

    /// How this node's state of the log stands, if a guest of it said so.
    pub fn stand(&self) -> Option<Stand> {
        self.core.stands.own()
    }

    /// The room that the state of its guest takes on a disk, as far as its leader was told: that of the largest.
    pub fn state_disk_bytes(&self) -> u64 {
        self.core.stands.disk_bytes_max()
    }

    /// The room that the state of its guest takes on the disk of that node, as far as it was told.
    pub fn state_disk_bytes_of(&self, node: NodeId) -> u64 {
        let core = &self.core;
        let stand = match node == core.own {
            true => core.stands.own(),
            false => core.stands.of(node),
        };
        stand.map_or(0, |stand| stand.disk_bytes)
    }

    /// Whether nobody who is heard here has the state of this log's machine.
    pub fn is_state_lost(&self) -> bool {
        self.core.is_state_lost()
    }

    /// The nodes whose states differ from this one's, though they applied the same, as far as this leader knows.
    pub fn states_differ(&self) -> Vec<NodeId> {
        if !self.is_leading() {
            return Vec::new();
        }
        let configuration = &self.core.engine.state().configuration;
        let is_here =
            |node: &NodeId| configuration.contains(*node) || self.core.alive.contains(node);
        let differing = self.core.stands.marks.differing(self.core.own);
        differing
            .map(|differs| differs.node)
            .filter(is_here)
            .collect()
    }

    /// How often states were compared with this one's.
    pub fn states_compared(&self) -> u64 {
        self.core.stands.marks.compared()
    }

    /// The bytes that were trimmed and that this node's state does not stand for.
    pub fn state_lacks(&self) -> u64 {
        match self.core.kind.is_bytes() {
            true => 0,
            false => self.core.stands.lacking(self.core.engine.state()),
        }
    }

    /// Takes the word of a peer's process on its state.
    pub fn on_stand_told(&mut self, env: &mut Env, node: NodeId, stand: Stand) {
        if self.core.kind.is_bytes() {
            return;
        }
        self.core.stands.on_told(self.core.own, node, stand);
        if !self.core.is_leading() {
            return;
        }
        self.core.tell_differences();
        self.core.judge_states(env);
        self.drain(env);
    }

    /// Counts a step towards the wanted members that had to wait.
    pub fn count_step_put_off(&mut self) {
        self.core.counts.steps_put_off += 1;
    }

    /// Counts the findings of its recovery.
    pub fn count_found(&mut self, report: &RecoveryReport) {
        self.core.counts.torn_tails = u64::from(report.torn.is_some());
        self.core.counts.corrupt_records = report.corruptions.len() as u64;
        self.core.counts.segments_put_aside = report.quarantined.len() as u64;
    }

    /// Forgets a node that is no peer any more.
    pub fn forget_follower(&mut self, node: NodeId) {
        self.followers.forget(node);
    }

    /// Writes in this version from here on.
    pub fn write_in(&mut self, env: &mut Env, version: u8) {
        self.core.store.write_in(version);
        self.drain(env);
    }

    /// The slowest write since this was last asked for.
    pub fn take_slowest_write(&mut self) -> Duration {
        self.core.store.take_slowest_write()
    }
}
