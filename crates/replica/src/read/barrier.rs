//! The read barrier: who must know all that is chosen by now waits until the engine says so.
//!
//! ```text
//!   ask_barrier ──┬── this node leads:   a round of confirmations
//!                 ├── it follows:        its leader is asked, which does the same
//!                 └── else, or the leader's program is too old to be asked:   a refusal
//!
//!   has_passed    all that was chosen when it was asked for is applied here
//!   has_failed    it will not pass: leader and follower may be others now. Ask again
//! ```

use formats::version;
use ops::ConnId;
use paxos::{Input, ReadId, Role, Time};
use wire::Refusal;

use super::{Barrier, Reader, Readers};
use crate::env::Env;
use crate::log::Log;
use crate::streams::StreamList;

impl Readers {
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
    /// For whoever must know all that is chosen in this log by now. It may have passed or failed
    /// already when this returns; whoever waits looks again whenever this log was settled.
    pub fn ask_barrier(&mut self, env: &mut Env) -> Result<ReadId, Refusal> {
        self.check_barrier(env)?;
        self.readers.last_read += 1;
        let id = ReadId(self.readers.last_read);
        self.input(env, Input::Read(id));
        Ok(id)
    }

    /// Whether this node leads the log, or follows a leader that it can ask.
    pub fn check_barrier(&self, env: &Env) -> Result<(), Refusal> {
        self.check_running(env)?;
        let may_ask = match self.engine.role() {
            Role::Leader { .. } => true,
            Role::Follower { leader, .. } => {
                let link = env.links.get(&leader);
                link.is_some_and(|version| *version >= version::BARRIERS)
            }
            Role::Candidate => false,
        };
        match may_ask {
            true => Ok(()),
            false => Err(self.not_leader(env)),
        }
    }

    pub fn has_passed(&self, barrier: ReadId) -> bool {
        self.readers.passed.is_some_and(|passed| barrier <= passed)
    }

    /// One that was asked for later, and passed, serves the earlier ones too.
    pub fn has_failed(&self, barrier: ReadId) -> bool {
        let failed = self.readers.failed.is_some_and(|failed| barrier <= failed);
        failed && !self.has_passed(barrier)
    }

    /// `streams LOG`
    pub fn on_streams_request(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        stale: bool,
        list: StreamList,
    ) {
        if stale {
            return self.begin_streams(env, conn, list);
        }
        match self.ask_barrier(env) {
            Ok(id) if self.has_failed(id) => return env.refuse(conn, self.not_leader(env)),
            Ok(id) => self.readers.tables.insert(conn, (id, list)),
            Err(refusal) => return env.refuse(conn, refusal),
        };
        self.send_tables(env);
    }

    pub(super) fn send_tables(&mut self, env: &mut Env) {
        // The table may be long: it is written only for somebody who may have it.
        let Some(passed) = self.readers.passed else {
            return;
        };
        let tables = &mut self.readers.tables;
        let ready = tables.extract_if(.., |_, (id, _)| *id <= passed);
        let ready: Vec<(ConnId, StreamList)> =
            ready.map(|(conn, (_, list))| (conn, list)).collect();
        for (conn, list) in ready {
            self.begin_streams(env, conn, list);
        }
    }

    /// None of the barriers that were asked for will pass: this node no longer leads, or the leader that
    /// it asked is another by now.
    pub(crate) fn fail_barriers(&mut self, env: &mut Env) {
        self.readers.failed = Some(ReadId(self.readers.last_read));
        let refusal = self.not_leader(env);
        for (conn, _) in std::mem::take(&mut self.readers.tables) {
            env.refuse(conn, refusal.clone());
        }
        self.refuse_trims(env, &refusal);
        self.refuse_readers(env, |reader| matches!(reader.barrier, Barrier::Waiting(_)));
    }

    /// What is chosen from now on may not be heard of here: who follows goes on at another node.
    pub(crate) fn part_with_followers(&mut self, env: &mut Env) {
        self.refuse_readers(env, |reader| reader.follow && !reader.stale);
    }

    fn refuse_readers(&mut self, env: &mut Env, which: impl Fn(&Reader) -> bool) {
        let refusal = self.not_leader(env);
        let readers = self.readers.readers.iter();
        let refused = readers.filter(|(_, reader)| which(reader));
        let refused: Vec<ConnId> = refused.map(|(conn, _)| *conn).collect();
        for conn in refused {
            self.end_reader(env, conn, Err(refusal.clone()));
        }
    }

    /// A replica that finds no leader hears of nothing, and whoever follows what is chosen would wait
    /// here for as long as that lasts. A change of leader is no reason to part.
    pub(crate) fn on_role_of_readers(&mut self, env: &Env, role: Role) {
        let before = self.readers.leaderless_until.take();
        if role == Role::Candidate {
            let until = Time(env.now.0 + env.limits.leader_wait);
            self.readers.leaderless_until = before.or(Some(until));
        }
    }

    pub(super) fn part_if_leaderless(&mut self, env: &mut Env) {
        if self
            .readers
            .leaderless_until
            .is_some_and(|until| until <= env.now)
        {
            self.readers.leaderless_until = None;
            self.part_with_followers(env);
        }
    }
}
