//! The steps that may be possible now and that nobody asked for, once per round; and when the next one is due.

use std::time::Duration;

use formats::LogId;
use paxos::Input;

use super::Log;
use crate::env::Env;

/// The interval at which a log with something under way is settled when nothing else wakes it.
const BUSY_ROUND: Duration = Duration::from_millis(20);

/// A leader whose one file hangs while others of the disk are written hands over after so many times
/// [`crate::Limits::disk_stall`].
const STALLS_OF_ONE_FILE: u32 = 5;

impl Log {
    /// Does whatever has become possible.
    pub fn settle(&mut self, env: &mut Env) {
        if self.core.stopped.is_some() {
            env.turns.leave(self.core.id);
            return;
        }
        self.wait_for_turn(env);
        if self.engine_deadline(env).is_some_and(|d| d <= env.now) {
            self.input(env, Input::Timer);
        }
        self.core.store.on_time(env.now);
        if self.core.store.trust_again() {
            self.catch_up.recount_and_tell(&mut self.core, env);
        }
        if self.stall_deadline(env).is_some_and(|due| due <= env.now) {
            tracing::error!(
                log = self.core.id.0,
                "this leader's disk hangs; another node takes over"
            );
            self.core.counts.disk_stalls += 1;
            self.input(env, Input::StepDown);
        }
        self.drain(env);
        self.rebind.pump(&mut self.core, &mut self.catch_up, env);
        if self.rebind.is_under_way() {
            self.drain(env);
        }
        // An auxiliary's disk is to stay as small as it was, and a full one needs every byte.
        self.core
            .store
            .keep_spares(!self.core.engine.is_auxiliary() && !env.is_scarce());
        self.full.hand_over(&mut self.core, env);
        self.trim_what_was_held_back();
        self.pump_trims(env);
        self.core.trim_behind_states(env);
        self.core.tell_stand(env);
        self.pump_moves(env);
        self.followers.make_room(&mut self.core, env);
        self.ingest(env);
        self.followers.replicate(&mut self.core, env);
        self.acknowledge(env);
        self.sources.pump(&self.core, env);
        self.readers.pump(&mut self.core, env);
        self.catch_up.pump(&mut self.core, env);
        self.feeders.pump(&mut self.core, env);
        self.auxiliary.settle(&mut self.core, env);
        self.take_pulse(env);
        self.scrub.settle(&mut self.core, &self.catch_up, env);
        if env.now > self.core.last_chosen_at + env.limits.ring_idle {
            let end = self.core.ring.end();
            self.core
                .ring
                .evict(self.core.engine.first_unchosen(), 0, end, 0);
        }
        self.drain(env);
        if !env.turns.is_empty() {
            self.leave_turn(env);
        }
    }

    /// Has the engine stand for election only where a quorum is alive, and in the log's turn: the votes that a node
    /// of thousands of logs seeks in vain keep its peers from hearing it. Log 0 waits for nothing.
    fn wait_for_turn(&mut self, env: &mut Env) {
        let (id, engine) = (self.core.id, &self.core.engine);
        let wants = id != LogId(0) && !env.own.settling && engine.wants_to_stand(env.now);
        let able = wants && engine.is_quorum_alive() && !self.core.stands_back(env);
        let may = able && env.turns.may_stand(id);
        self.core.engine.wait_for_turn(wants && !may);
    }

    /// Gives up the log's turn, or its place in the row, if it does not need one.
    fn leave_turn(&self, env: &mut Env) {
        let engine = &self.core.engine;
        let able = engine.is_quorum_alive() && !self.core.stands_back(env);
        let wants = able && engine.wants_to_stand(env.now);
        if !wants && !engine.is_standing(env.now) {
            env.turns.leave(self.core.id);
        }
    }

    fn take_pulse(&mut self, env: &Env) {
        if self.pulse.is_idle() || !self.core.is_leading() {
            return;
        }
        let engine = &self.core.engine;
        let known = &env.peers.addresses;
        let alive = self.core.alive.iter();
        let taking =
            alive.filter(|node| known.contains_key(node) && engine.wants_proposals(**node));
        let followers = taking.map(|node| (*node, engine.peer_accepted_up_to(*node)));
        self.pulse
            .on_progress(env.now, engine.first_unchosen(), followers);
    }

    pub fn deadline(&self, env: &Env) -> Option<paxos::Time> {
        if self.core.stopped.is_some() {
            return None;
        }
        [
            self.engine_deadline(env),
            self.core.store.deadline(),
            self.readers.deadline(),
            self.busy_deadline(env),
            self.catch_up_deadline(env),
            self.auxiliary.deadline(),
            self.moves.deadline(),
            self.port.writing.deadline(env.now),
            self.gone_deadline(),
            self.stall_deadline(env),
            self.scrub.deadline(env),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// ‡ The engine's deadline. No engine acts before peers said what they remember of this disk
    /// (`node::rounds::settling`).
    fn engine_deadline(&self, env: &Env) -> Option<paxos::Time> {
        self.core.engine.deadline().filter(|_| !env.own.settling)
    }

    /// The time when a leader whose disk does nothing gives up leading, if another node could lead. A disk that
    /// does something for other logs has a long queue, and a change of leader makes that longer. But a single file
    /// may hang, too.
    fn stall_deadline(&self, env: &Env) -> Option<paxos::Time> {
        let since = self
            .core
            .store
            .oldest_write_since()?
            .max(env.moments.resumed_at);
        if !self.core.may_hand_over() {
            return None;
        }
        let stall = env.limits.disk_stall;
        let latest = since + stall * STALLS_OF_ONE_FILE;
        let does_nothing = since.max(env.moments.written_at) + stall;
        Some(does_nothing.min(latest) + Duration::from_micros(1))
    }

    fn busy_deadline(&self, env: &Env) -> Option<paxos::Time> {
        self.is_busy().then_some(env.now + BUSY_ROUND)
    }

    fn catch_up_deadline(&self, env: &Env) -> Option<paxos::Time> {
        let due = self.catch_up.due(&env.limits)?;
        // If that time passed, something else than the rate holds it back.
        (due > env.now).then_some(due)
    }

    /// Whether something is under way that nobody else would wake us for.
    pub fn is_busy(&self) -> bool {
        self.core.stopped.is_none()
            && (self.rebind.is_under_way()
                || self.catch_up.is_busy()
                || self.ingest.is_waiting()
                || self.port.is_busy()
                || self.readers.are_retrying()
                || self.trims.are_waiting()
                || self.moves.are_waiting()
                || self.core.ring.bytes() > 0
                || (self.core.is_leading()
                    && self.core.engine.first_unchosen() < self.core.engine.proposed_up_to()))
    }
}
