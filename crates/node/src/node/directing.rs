//! This node's acts on what log 0 says, and on what its logs tell it.

use std::collections::BTreeSet;

use formats::LogId;
use paxos::{NodeId, Outcome};
use replica::{Log, LogEvent};

use super::Node;
use crate::cluster::News;
use crate::directory::DIRECTORY;

impl Node {
    /// Notes that this log of this node's has chosen a wish.
    fn on_wished(&mut self, id: LogId) {
        let Some(log) = self.logs.get_mut(&id) else {
            return;
        };
        if log.engine().state().is_sealed() {
            tracing::info!(log = id.0, name = log.name(), "sealed: this log has ended");
            log.end_clients(&mut self.env);
        }
        self.due.touch(id);
        let (cluster, mut lent) = self.lend();
        cluster.tell_wishes(&mut lent, [id].iter());
        self.answer_requests();
    }

    pub(super) fn on_log_event(&mut self, event: LogEvent) {
        match event {
            LogEvent::Applied {
                log: DIRECTORY,
                slot,
                outcome: Outcome::NodeId(id),
            } => self.on_node_id(slot, id),
            LogEvent::Applied {
                log,
                outcome: Outcome::Reconfigured { era },
                ..
            } => {
                if let Some(log) = self.logs.get(&log) {
                    let members = log.engine().state().configuration.members();
                    tracing::info!(
                        log = log.id().0,
                        era = era.0,
                        ?members,
                        "a new configuration"
                    );
                }
            }
            LogEvent::Applied {
                log,
                outcome: Outcome::Wished { .. },
                ..
            } => self.on_wished(log),
            LogEvent::MayRead { log } => {
                self.due.touch(log);
            }
            LogEvent::Role { log } => {
                self.due.touch(log);
                if log == DIRECTORY {
                    self.cluster.doubt_directory(&mut self.due);
                    if !self.logs.get(&log).is_some_and(Log::is_leading) {
                        self.cluster.forget_commands();
                        self.refuse_requests();
                        self.cluster.forget_settling();
                    }
                }
            }
            _ => {}
        }
    }

    /// Acts on applied commands at the end of a round, and answers the clients that wait for them.
    pub(super) fn direct(&mut self) {
        let (cluster, mut lent) = self.lend();
        cluster.submit_commands(&mut lent);
        match self.cluster.take_news() {
            News::Nothing => {}
            News::Of(logs) => self.keep_to_directory_of(logs.iter()),
            News::OfAll => {
                self.keep_to_directory();
                self.keep_guests();
            }
        }
        let (cluster, mut lent) = self.lend();
        cluster.confirm_directory(&mut lent);
        self.tell_slots();
        let wished: Vec<LogId> = match self.cluster.take_wishes() {
            News::Nothing => Vec::new(),
            News::Of(logs) => logs.into_iter().collect(),
            News::OfAll => self.logs.keys().copied().collect(),
        };
        let (cluster, mut lent) = self.lend();
        cluster.propose_wishes(&mut lent, &wished);
        self.judge_again();
        if !self.callers.awaiting.is_empty() {
            self.answer_requests();
        }
        if !self.callers.held.is_empty() {
            self.release_held();
        }
    }

    /// Makes this node's among these logs, and removes deleted ones.
    fn keep_to_directory_of<'a>(&mut self, logs: impl Iterator<Item = &'a LogId>) {
        let own = self.env.own.identity.node;
        for id in logs {
            self.due.awake.wake(*id);
            let directory = &self.cluster.directory;
            if directory.is_deleted(*id) {
                if self.logs.contains_key(id) {
                    self.delete_log(*id);
                }
                self.cluster.forget_deleted(*id);
                continue;
            }
            let is_here = self.logs.contains_key(id)
                || self.logs.coming.contains(*id)
                || self.disk.manifest.deleted.contains(id);
            if is_here || !directory.hosts(*id, own) {
                continue;
            }
            if let Some(entry) = directory.logs.get(id).cloned() {
                let wish = directory.first_wish(*id);
                let named = (entry.name.as_str(), entry.kind);
                self.create_log(*id, named, &entry.members, &entry.auxiliary, wish);
            }
        }
    }

    /// Learns addresses, makes logs of this node's, and removes deleted ones.
    pub(super) fn keep_to_directory(&mut self) {
        self.due.awake.wake_all();
        if self.cluster.notice_rescue() {
            let known = &self.cluster.directory.nodes;
            self.env
                .peers
                .addresses
                .retain(|id, _| known.contains_key(id));
            self.save_peers();
        }
        self.end_misnamed();
        let nodes = self.cluster.directory.nodes.iter();
        let nodes: Vec<(NodeId, String)> = nodes.map(|(id, e)| (*id, e.address.clone())).collect();
        for (id, address) in nodes {
            self.learn_listed_address(id, &address);
        }
        self.keep_to_versions();
        let listed = self.cluster.directory.logs.keys();
        let all: BTreeSet<LogId> = listed.chain(self.logs.keys()).copied().collect();
        self.keep_to_directory_of(all.iter());
        self.cluster.forget_heard(&self.logs);
        let (cluster, mut lent) = self.lend();
        cluster.part_from_strangers(&mut lent);
        cluster.tell_if_removed(lent.env.own.identity.node);
    }
}
