//! The work of ten times a second: all that depends on time, and that nobody else asks for. A tick looks at
//! the logs to which something happened, and once a second at all ([`crate::logs::awake`]).

use formats::LogId;
use paxos::Input;
use replica::Log;

use super::Node;
use super::asking::CUT_OFF_AFTER;
use crate::counts::micros;
use crate::disk::space;
use crate::logs::awake::Look;

impl Node {
    pub(super) fn tick(&mut self) {
        self.rounds.on_tick(self.env.now, self.ending.has_begun());
        self.judge_space();
        self.look_at_slots();
        let (cluster, mut lent) = self.lend();
        cluster.confirm_directory(&mut lent);
        // From here on a change of an address there is news.
        if self.peers.none_is_listed() && self.cluster.is_confirmed() {
            self.keep_to_directory();
        }
        let start = self.config.start.clone();
        let (cluster, mut lent) = self.lend();
        cluster.lead_directory(&mut lent, &start);
        self.answer_requests();
        self.tell_slots();
        let from = |from| self.logs.keys_from(from);
        let Look { logs, ends_sweep } = self.due.awake.for_tick(self.env.now, from);
        let (cluster, mut lent) = self.lend();
        cluster.propose_wishes(&mut lent, &logs);
        self.move_members(&logs);
        let (cluster, mut lent) = self.lend();
        cluster.split(&mut lent, &logs);
        cluster.keep_to_retention(&mut lent, &logs);
        self.advance_coming();
        self.advance_going();
        self.save_stale_files();
        self.past.keep(&mut self.env);
        self.tend_links(&logs);
        if ends_sweep {
            let scrubbing = &mut self.disk.scrubbing;
            scrubbing.begin(&mut self.logs, &self.env);
        }
        self.logs.share_memory(&mut self.env, &logs);
        self.keep_awake(&logs);
        self.env.expire_answers();
        self.hosted.expire_clients(&mut self.env);
        self.callers.greetings.expire(&mut self.env);
        self.peers.expire_frames(&mut self.env);
        self.keep_guests();
        self.judge_again();
        self.expire_passing();
        self.pass_notes();
        self.gate.tell_late(self.env.now);
        self.judge_health();
        self.tell_waiting();
        let space = &mut self.disk.space;
        space.ask(&mut self.env, &self.logs, &self.disk.directory);
        if self.ending.has_begun() {
            self.go_on_stopping();
        }
    }

    fn judge_space(&mut self) {
        let of = |room: &replica::Room| {
            let full = (room.own_is_full, room.full_peers.clone());
            (full, room.scarce.clone())
        };
        let before = of(&self.env.room);
        let full = space::judge(&mut self.env, &self.peers);
        if before != of(&self.env.room) {
            // Idle logs, too, have spares to give up; leaders hand over, and others may stand again.
            self.soon_all();
        }
        self.counts.disk_full += u64::from(full && !self.env.room.disk_is_full);
        self.env.room.disk_is_full = full;
    }

    /// Lets all logs be settled soon.
    fn soon_all(&mut self) {
        for id in self.logs.keys() {
            self.due.soon(*id, self.env.now);
        }
    }

    fn tend_links(&mut self, logs: &[LogId]) {
        let many = self.env.conns.count() > self.env.limits.connections_max / 2;
        for id in logs {
            let Some(log) = self.logs.get_mut(id) else {
                continue;
            };
            if log.break_late_links(&mut self.env) {
                self.due.touch(*id);
            }
            if many {
                log.close_idle_links(&mut self.env);
            }
        }
    }

    /// Keeps logs awake of which something is to come that may not settle them.
    fn keep_awake(&mut self, logs: &[LogId]) {
        for id in logs {
            let log = self.logs.get(id);
            let is_busy = log.is_some_and(|log| log.is_busy() || log.store().queued_bytes() > 0);
            if is_busy || self.cluster.moves(*id) {
                self.due.awake.stays(*id);
            }
        }
    }

    fn tell_waiting(&mut self) {
        if !self.logs.is_empty() && self.rounds.tells_waiting(self.env.now) {
            for why in self.leaderless() {
                tracing::warn!("{why}");
            }
        }
    }

    /// Notices that this process may have been kept from running. Silence meanwhile says nothing about the
    /// others or the disk; but the others may have elected another leader, whom a leader that knows nothing
    /// of it must not unseat by preparing above it.
    pub(super) fn notice_gap(&mut self) {
        let now = self.env.now;
        let Some((gap, beyond)) = self.rounds.notice_gap(now) else {
            return;
        };
        self.env.moments.resumed_at = now;
        self.peers.forgive(beyond);
        if gap <= self.env.limits.peer_timeout {
            return;
        }
        // ‡ What was revoked meanwhile is not known here: this node asks log 0 first, as one that has just started does.
        if gap >= CUT_OFF_AFTER {
            self.cluster.forget_confirmation(&mut self.due);
        }
        self.counts.gaps += 1;
        self.counts.gap_us = micros(gap);
        tracing::warn!(milliseconds = micros(gap) / 1000, "the process was paused");
        for (id, log) in self.logs.iter_mut() {
            if log.is_leading() && log.engine().state().configuration.members().len() > 1 {
                self.due.soon(*id, now);
                log.input(&mut self.env, Input::StepDown);
            }
        }
    }

    /// Settles a node that comes back: it asks before it acts ([`crate::rounds::settling`]).
    pub(super) fn settle_start(&mut self) {
        if !self.env.own.settling {
            return;
        }
        let has_rested = self.rounds.settling.pass(self.env.now);
        let own = self.env.own.identity.node;
        let is_alone = |log: &Log| {
            let configuration = &log.engine().state().configuration;
            configuration.is_quorum(|node| node == own)
        };
        // A node that takes no connection yet may be elsewhere, or about to start.
        let mut known = self.env.peers.addresses.keys();
        let all = known.all(|peer| self.peers.is_alive(*peer));
        let all = all && !self.logs.values().any(is_alone);
        if all || has_rested {
            self.env.own.settling = false;
            self.soon_all();
        }
    }
}
