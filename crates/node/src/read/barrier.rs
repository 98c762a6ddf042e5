//! The read barrier: who must know all that is chosen by now waits until the engine says so.

use paxos::{Input, ReadId};

use super::{Barrier, Readers};
use crate::env::Env;
use crate::log::Log;
use crate::op::ConnId;

impl Readers {
    /// For who must know all that is chosen by now: to be given to the engine.
    pub(crate) fn next_barrier(&mut self) -> ReadId {
        self.last_read += 1;
        ReadId(self.last_read)
    }

    pub(crate) fn on_ready(&mut self, up_to: ReadId) {
        self.passed = Some(up_to);
        for reader in self.readers.values_mut() {
            if matches!(reader.barrier, Barrier::Waiting(id) if id <= up_to) {
                reader.barrier = Barrier::Passed;
            }
        }
    }
}

impl Log {
    /// `streams LOG`
    pub(crate) fn on_streams_request(&mut self, env: &mut Env, conn: ConnId, stale: bool) {
        if stale {
            return env.part(conn, self.streams_line().as_bytes());
        }
        if let Err(refusal) = self.check_leading(env) {
            return env.refuse(conn, refusal);
        }
        let id = self.readers.next_barrier();
        self.readers.tables.insert(conn, id);
        self.input(env, Input::Read(id));
        self.send_tables(env);
    }

    pub(crate) fn has_passed(&self, barrier: ReadId) -> bool {
        self.readers.passed.is_some_and(|passed| barrier <= passed)
    }

    pub(super) fn send_tables(&mut self, env: &mut Env) {
        // The table may be long: it is written only for somebody who may have it.
        let Some(passed) = self.readers.passed else {
            return;
        };
        let tables = &mut self.readers.tables;
        let ready: Vec<ConnId> = tables
            .extract_if(.., |_, id| *id <= passed)
            .map(|(conn, _)| conn)
            .collect();
        if ready.is_empty() {
            return;
        }
        let line = self.streams_line();
        for conn in ready {
            env.part(conn, line.as_bytes());
        }
    }

    /// We stopped leading before the barrier was passed.
    pub(crate) fn fail_barriers(&mut self, env: &mut Env) {
        let refusal = self.not_leader(env);
        for (conn, _) in std::mem::take(&mut self.readers.tables) {
            env.refuse(conn, refusal.clone());
        }
        self.refuse_trims(env, &refusal);
        let failed: Vec<ConnId> = self
            .readers
            .readers
            .iter()
            .filter(|(_, r)| !r.stale && (r.follow || matches!(r.barrier, Barrier::Waiting(_))))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in failed {
            self.end_reader(env, conn, Err(refusal.clone()));
        }
    }
}
