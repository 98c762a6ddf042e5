//! This node shows itself to [`crate::health`], and makes sentences of what is wrong.

use formats::LogId;

use super::Node;
use crate::directory::DIRECTORY;
use crate::health::{Health, Judged, View};

impl Node {
    pub(super) fn judge_health(&mut self) {
        if !self.board.is_due(self.env.now) {
            return;
        }
        self.look_at_own_certificate();
        let is_gone = self.is_gone();
        let unbound = self.unbound();
        let waiting = self.cluster.waiting_moves();
        let dismissal = self
            .cluster
            .dismissal_is_waiting(self.sight())
            .then_some(DIRECTORY);
        let waiting = waiting.chain(dismissal).collect();
        let unheard = self.cluster.not_in_force(&self.logs);
        let versions_wait_for = self.cluster.versions_wait_for(&self.env, &self.peers);
        let judged = Judged {
            board: &mut self.board,
            env: &self.env,
            logs: &mut self.logs,
            peers: &self.peers,
            directory: &self.cluster.directory,
            hosted: &self.hosted,
            counts: &self.counts,
            started_at: self.rounds.started_at,
            is_gone,
            waiting,
            unheard,
            versions_wait_for,
            unbound,
            told: self.config.wires.told(),
        };
        judged.judge();
    }

    pub(super) fn health(&self) -> Health {
        let view = View {
            board: &self.board,
            env: &self.env,
            logs: &self.logs,
            peers: &self.peers,
            directory: &self.cluster.directory,
            hosted: &self.hosted,
            waits_for: &|log| self.change_waits_for(log),
        };
        view.health()
    }

    fn change_waits_for(&self, log: LogId) -> Option<String> {
        let why = self.cluster.waits_for(log).map(str::to_owned);
        why.or_else(|| self.cluster.dismissal_waits(self.sight()))
    }
}
