//! What the node around a log sees of it, and the few things that it does to it out of turn.

use std::collections::BTreeSet;

use formats::LogId;
use paxos::{Action, Engine, NodeId, NotProposed, Slot, StreamName};
use store::{RecoveryReport, Store};

use super::Log;
use crate::env::Env;
use crate::pulse::Pulse;

impl Log {
    pub fn id(&self) -> LogId {
        self.id
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Why it takes no part any more.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// It stopped since another replica contradicts what is chosen here.
    pub fn is_contradicted(&self) -> bool {
        self.is_contradicted
    }

    /// The peers that this log takes to be there.
    pub fn alive(&self) -> &BTreeSet<NodeId> {
        &self.alive
    }

    /// How long proposals take.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// What its recent proposals hold of the memory.
    pub fn ring_bytes(&self) -> u64 {
        self.ring.bytes()
    }

    /// The stream that a writer appends to here.
    pub fn writer_stream(&self) -> Option<StreamName> {
        self.ingest.writer_stream()
    }

    /// Writers wait until another node leads.
    pub fn holds_writers(&self) -> bool {
        self.moves.hold_writers()
    }

    /// The node stops: nothing more is done here.
    pub fn end(&mut self, why: &str) {
        self.stopped.get_or_insert(why.to_owned());
    }

    /// Proposes, and does all that follows from it.
    pub fn propose(&mut self, env: &mut Env, action: Action) -> Result<Slot, NotProposed> {
        let slot = self.engine.propose(env.now, action)?;
        self.drain(env);
        Ok(slot)
    }

    /// A step towards the wanted members had to wait.
    pub fn count_step_put_off(&mut self) {
        self.counts.steps_put_off += 1;
    }

    /// What its recovery came upon.
    pub fn count_found(&mut self, report: &RecoveryReport) {
        self.counts.torn_tails = u64::from(report.torn.is_some());
        self.counts.corrupt_records = report.corruptions.len() as u64;
        self.counts.segments_put_aside = report.quarantined.len() as u64;
    }

    /// That node is no peer any more.
    pub fn forget_follower(&mut self, node: NodeId) {
        self.followers.remove(&node);
    }

    /// What is written from here on is written in this version.
    pub fn write_in(&mut self, env: &mut Env, version: u8) {
        self.store.write_in(version);
        self.drain(env);
    }

    /// In microseconds, since this was last asked for.
    pub fn take_slowest_write(&mut self) -> u64 {
        self.store.take_slowest_write()
    }
}
