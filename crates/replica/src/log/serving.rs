//! Clients that do not write: readers, lists, trims, moves.

use ops::{Buffer, ConnId, Received};
use paxos::{ReadId, Slot};
use wire::{Refusal, Request};

use super::Log;
use crate::env::Env;
use crate::streams::list::StreamList;
use crate::trim::{Asked, Trims, trim_store};

impl Log {
    /// `read LOG …`
    pub fn on_read_request(&mut self, env: &mut Env, conn: ConnId, request: &Request) {
        self.readers.on_request(&mut self.core, env, conn, request);
        self.drain(env);
        self.readers.pump(&mut self.core, env);
        self.drain(env);
    }

    /// Throws away what a reader says: it matters only that it is there.
    pub fn on_reader_received(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        buffer: Buffer,
        result: std::io::Result<Received>,
    ) {
        self.readers
            .on_received(&self.core, env, conn, buffer, result);
    }

    /// Notes a reader that says no more, and still reads.
    pub fn on_reader_silent(&mut self, env: &mut Env, conn: ConnId) {
        self.readers.on_silent(env, conn);
    }

    pub fn on_reader_sent(&mut self, env: &mut Env, conn: ConnId, ok: bool) {
        self.readers.on_sent(&mut self.core, env, conn, ok);
        self.drain(env);
    }

    /// `streams LOG`
    pub fn on_streams_request(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        stale: bool,
        list: StreamList,
    ) {
        self.readers
            .on_streams_request(&mut self.core, env, conn, stale, list);
        self.drain(env);
        self.readers.send_tables(&self.core, env);
    }

    /// Sends the next piece of a list.
    pub fn send_streams(&self, env: &mut Env, conn: ConnId, list: StreamList) {
        list.send(&self.core, env, conn);
    }

    /// Asks for a barrier, for a caller that must know all that is chosen in this log by now. It may have
    /// passed or failed already when this returns; the caller looks again whenever this log was settled.
    pub fn ask_barrier(&mut self, env: &mut Env) -> Result<ReadId, Refusal> {
        let barrier = self.readers.ask_barrier(&mut self.core, env)?;
        self.drain(env);
        Ok(barrier)
    }

    /// Whether this node leads the log, or follows a leader that it can ask.
    pub fn check_barrier(&self, env: &Env) -> Result<(), Refusal> {
        self.readers.check_barrier(&self.core, env)
    }

    pub fn has_passed(&self, barrier: ReadId) -> bool {
        self.readers.has_passed(barrier)
    }

    pub fn has_failed(&self, barrier: ReadId) -> bool {
        self.readers.has_failed(barrier)
    }

    /// Fails all barriers that were asked for: this node no longer leads, or the leader that it asked is
    /// another by now.
    pub(crate) fn fail_barriers(&mut self, env: &mut Env) {
        self.trims.refuse(env, &self.core.not_leader(env));
        self.readers.fail_barriers(&self.core, env);
    }

    /// `trim LOG …`
    pub fn on_trim_request(&mut self, env: &mut Env, conn: ConnId, request: &Request) {
        let asked = Trims::parse(&self.core, env, request);
        let asked = asked.and_then(|what| {
            let barrier = self.ask_barrier(env)?;
            Ok(Asked::new(conn, what, env.now, barrier))
        });
        match asked {
            Ok(asked) => self.trims.on_request(asked),
            Err(refusal) => return env.refuse(conn, refusal),
        }
        self.pump_trims(env);
    }

    pub(super) fn pump_trims(&mut self, env: &mut Env) {
        if self.trims.are_waiting() {
            let passed = self.readers.passed();
            self.trims.pump(&mut self.core, env, passed);
            self.drain(env);
        }
    }

    /// Notes that a trim was chosen, whoever asked for it.
    pub(super) fn on_trimmed(&mut self, env: &mut Env, slot: Slot) {
        self.trim_store();
        self.catch_up.recount_soon();
        self.core.counts.trims += 1;
        self.trims.on_trimmed(&self.core, env, slot);
    }

    /// Takes out of the store what the state says is trimmed, and what an auxiliary is released from.
    pub(super) fn trim_store(&mut self) {
        let released = self.auxiliary.released(&self.core);
        trim_store(&mut self.core, &released);
    }

    /// Trims what could not leave the store at once.
    pub(super) fn trim_what_was_held_back(&mut self) {
        if self.core.store.is_trim_held_back() {
            let context = self.core.context();
            self.core.store.bear_out(context);
            if self.core.store.may_trim() {
                self.trim_store();
            }
        }
    }

    /// `lead LOG [to=ID]`
    pub fn on_lead_request(&mut self, env: &mut Env, conn: ConnId, request: &Request) {
        self.moves.on_request(&mut self.core, env, conn, request);
        self.pump_moves(env);
    }

    /// Begins or answers the moves that are ready.
    pub(super) fn pump_moves(&mut self, env: &mut Env) {
        if self.moves.are_waiting() {
            self.moves.pump(&mut self.core, env);
            self.drain(env);
        }
        if self.moves.are_writers_due(env.now) {
            self.release_writers(env);
        }
    }

    /// Parts with the writers of a leader that no longer leads.
    pub(super) fn part_with_writers(&mut self, env: &mut Env) {
        if !self.moves.hold_writers_if_handed_over(&self.core, env) {
            self.refuse_writers_not_leading(env);
        }
    }

    /// Releases writers, once the next leader is known or has been unknown for too long.
    pub(super) fn release_writers(&mut self, env: &mut Env) {
        if self.moves.release_writers() {
            self.refuse_writers_not_leading(env);
        }
    }
}
