//! The read barrier: a caller that must know all that is chosen by now waits until the engine says so.
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
use paxos::{Input, ReadId, Role};
use wire::Refusal;

use super::{Barrier, Reader, Readers};
use crate::env::Env;
use crate::lent::{Core, ended};
use crate::streams::list::StreamList;

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

impl Readers {
    /// Asks for a barrier, for a caller that must know all that is chosen in this log by now. Once the log
    /// was drained, it may have passed or failed.
    pub fn ask_barrier(&mut self, core: &mut Core, env: &mut Env) -> Result<ReadId, Refusal> {
        self.check_barrier(core, env)?;
        self.last_read += 1;
        let id = ReadId(self.last_read);
        core.input(env, Input::Read(id));
        Ok(id)
    }

    /// Whether this node leads the log, or follows a leader that it can ask.
    pub fn check_barrier(&self, core: &Core, env: &Env) -> Result<(), Refusal> {
        core.check_running(env)?;
        let may_ask = match core.engine.role() {
            Role::Leader { .. } => true,
            Role::Follower { leader, .. } => {
                let link = env.peers.links.get(&leader);
                link.is_some_and(|version| *version >= version::BARRIERS)
            }
            Role::Candidate => false,
        };
        match may_ask {
            true => Ok(()),
            false => Err(core.not_leader(env)),
        }
    }

    /// The last barrier that has passed.
    pub fn passed(&self) -> Option<ReadId> {
        self.passed
    }

    pub fn has_passed(&self, barrier: ReadId) -> bool {
        self.passed.is_some_and(|passed| barrier <= passed)
    }

    /// Whether the barrier will not pass. One that was asked for later, and passed, serves the earlier ones too.
    pub fn has_failed(&self, barrier: ReadId) -> bool {
        let failed = self.failed.is_some_and(|failed| barrier <= failed);
        failed && !self.has_passed(barrier)
    }

    /// `streams LOG`
    pub fn on_streams_request(
        &mut self,
        core: &mut Core,
        env: &mut Env,
        conn: ConnId,
        stale: bool,
        list: StreamList,
    ) {
        if stale {
            return list.begin(core, env, conn);
        }
        match self.ask_barrier(core, env) {
            Ok(id) => drop(self.tables.insert(conn, (id, list))),
            Err(refusal) => env.refuse(conn, refusal),
        }
    }

    pub fn send_tables(&mut self, core: &Core, env: &mut Env) {
        // The table may be long: it is written only for somebody who may have it.
        let Some(passed) = self.passed else {
            return;
        };
        let tables = &mut self.tables;
        let ready = tables.extract_if(.., |_, (id, _)| *id <= passed);
        let ready: Vec<(ConnId, StreamList)> =
            ready.map(|(conn, (_, list))| (conn, list)).collect();
        for (conn, list) in ready {
            // ‡ As with readers.
            match core.engine.state().is_sealed() {
                true => env.refuse(conn, ended()),
                false => list.begin(core, env, conn),
            }
        }
    }

    /// Fails all barriers that were asked for: this node no longer leads, or the leader that it asked is
    /// another by now.
    pub fn fail_barriers(&mut self, core: &Core, env: &mut Env) {
        self.failed = Some(ReadId(self.last_read));
        let refusal = core.not_leader(env);
        for (conn, _) in std::mem::take(&mut self.tables) {
            env.refuse(conn, refusal.clone());
        }
        self.refuse_readers(core, env, |reader| {
            matches!(reader.barrier, Barrier::Waiting(_))
        });
    }

    /// Parts with readers that follow: bytes chosen from now on may not be heard of here, and they go on at
    /// another node.
    pub fn part_with_followers(&mut self, core: &Core, env: &mut Env) {
        self.refuse_readers(core, env, |reader| reader.follow && !reader.stale);
    }

    fn refuse_readers(&mut self, core: &Core, env: &mut Env, which: impl Fn(&Reader) -> bool) {
        let refusal = core.not_leader(env);
        let readers = self.readers.iter();
        let refused = readers.filter(|(_, reader)| which(reader));
        let refused: Vec<ConnId> = refused.map(|(conn, _)| *conn).collect();
        for conn in refused {
            self.end_reader(core, env, conn, Err(refusal.clone()));
        }
    }

    /// Notes a new role. A replica that finds no leader hears of nothing, and a reader that follows would
    /// wait here for as long as that lasts. A change of leader is no reason to part.
    pub fn on_role(&mut self, env: &Env, role: Role) {
        let before = self.leaderless_until.take();
        if role == Role::Candidate {
            let until = env.now + env.limits.leader_wait;
            self.leaderless_until = before.or(Some(until));
        }
    }

    pub(super) fn part_if_leaderless(&mut self, core: &Core, env: &mut Env) {
        if self.leaderless_until.is_some_and(|until| until <= env.now) {
            self.leaderless_until = None;
            self.part_with_followers(core, env);
        }
    }
}
