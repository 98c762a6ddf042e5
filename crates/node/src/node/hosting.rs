//! The logs and peers that this node knows, and the order in which that becomes durable.

use std::sync::Arc;

use formats::{LogId, LogKind};
use paxos::{Checkpoint, LogState, NodeId, Wish};
use store::Store;

use super::Node;
use crate::directory::{self, DIRECTORY};
use crate::join::Join;
use crate::start::store_config;

impl Node {
    pub(super) fn log_appeared(&mut self, id: LogId) {
        self.due.touch(id);
        let Some(log) = self.logs.get_mut(&id) else {
            return;
        };
        match id {
            DIRECTORY => log.attach(0, true),
            _ => self.hosted.attach(&self.config.hosts, log, &mut self.env),
        }
        for (peer, _) in self.peers.live() {
            if self.cluster.directory.hosts(id, *peer) && self.peers.runs(*peer, id) {
                log.set_alive(&mut self.env, *peer, true);
            }
        }
    }

    /// Creates a log. The first segment is made durable first, then the manifest lists the log, then it takes
    /// part: a listed log without its directory is a lost disk.
    pub(super) fn create_log(
        &mut self,
        id: LogId,
        (name, kind): (&str, LogKind),
        members: &[(u32, u32)],
        auxiliary: &[u32],
        first_wish: Option<Wish>,
    ) {
        if self.logs.contains_key(&id) || self.logs.coming.contains(id) {
            return;
        }
        let configuration = match directory::configuration(members, auxiliary) {
            Ok(configuration) => configuration,
            Err(e) => {
                tracing::error!(log = id.0, name, error = ?e, "the directory holds an impossible configuration");
                return;
            }
        };
        let checkpoint = Checkpoint {
            promised: Default::default(),
            finishing: None,
            state: LogState {
                wish: first_wish.map(Arc::new),
                ..LogState::new(configuration)
            },
            accepted: Vec::new(),
        };
        tracing::info!(log = id.0, name, "creating this node's replica");
        let store = Store::create(store_config(&self.config, &self.env, id), &checkpoint);
        self.logs.coming.begin(id, (name, kind), store, checkpoint);
        self.advance_coming();
    }

    pub(super) fn advance_coming(&mut self) {
        let manifest = &mut self.disk.manifest;
        if self.logs.coming.advance(&mut self.env, manifest) {
            self.disk.save_manifest(&mut self.env);
        }
    }

    /// Deletes a log that the directory says is no more.
    pub(super) fn delete_log(&mut self, id: LogId) {
        self.hosted.remove(id, &mut self.env);
        let Some(log) = self.logs.remove(id) else {
            return;
        };
        self.due.forget(id);
        self.env.turns.leave(id);
        let manifest = &mut self.disk.manifest;
        self.logs.going.begin(log, &mut self.env, manifest);
        self.disk.save_manifest(&mut self.env);
    }

    pub(super) fn advance_going(&mut self) {
        let directory = &self.disk.directory;
        self.logs.going.advance(&mut self.env, directory);
    }

    pub(super) fn on_manifest_written(&mut self, result: std::io::Result<()>) {
        if !self.disk.on_manifest_written(&mut self.env, result) {
            return;
        }
        let directory = &self.disk.directory;
        self.logs.going.on_unlisted(&mut self.env, directory);
        self.on_version_written();
        if self.logs.is_empty() && self.logs.coming.is_empty() && self.join.is_some() {
            return self.on_joined_durably();
        }
        for log in self.logs.coming.take_listed(&self.env) {
            let id = log.id();
            self.logs.insert(log);
            self.log_appeared(id);
            if self.cluster.directory.is_deleted(id) {
                self.delete_log(id); // Meanwhile.
            }
        }
    }

    pub(super) fn save_peers(&mut self) {
        let logs = &self.logs;
        self.disk
            .save_peers(&mut self.env, |node| logs.have_member(node));
    }

    pub(super) fn on_peers_written(&mut self, result: std::io::Result<()>) {
        if self.disk.on_peers_written(result) {
            self.save_peers();
        }
        self.save_new_id();
    }

    /// ‡ Saves a new id, after the others' addresses: a node that has an id asks nobody for one, and would
    /// know nobody if it ended in between.
    pub(super) fn save_new_id(&mut self) {
        let is_new = self.join.as_ref().and_then(Join::given).is_some();
        if is_new && !self.disk.is_writing_peers() {
            self.disk.save_manifest(&mut self.env);
        }
    }

    /// Saves the files that could not be written before: perhaps they can now.
    pub(super) fn save_stale_files(&mut self) {
        if self.disk.manifest_waits() {
            self.disk.save_manifest(&mut self.env);
        }
        if self.disk.peers_wait() {
            self.save_peers();
        }
    }

    /// Learns a peer's address, from the directory or from its own greeting.
    pub(super) fn learn_address(&mut self, id: NodeId, address: &str) {
        if id == self.env.own.identity.node || id == NodeId(0) || address.is_empty() {
            return;
        }
        if self.cluster.is_removed(&self.logs, id) {
            return;
        }
        let before = self.env.peers.addresses.insert(id, address.to_string());
        if before.as_deref() != Some(address) {
            // The peer may be there yet, if the newer word is wrong.
            self.peers.places.note(id, &before.unwrap_or_default());
            self.save_peers();
        }
    }

    /// ‡ Learns an address from the directory, whose word is one among others: this node may know a newer
    /// one, by the peer's own greeting, or since it was found there. The directory's word goes before the
    /// others only when it changes while this node looks, and not when a replay comes past an old one.
    pub(super) fn learn_listed_address(&mut self, id: NodeId, address: &str) {
        let is_news = self.cluster.is_confirmed() && self.peers.on_listed(id, address);
        match self.env.peers.addresses.get(&id) {
            Some(known) if known == address => {}
            Some(_) if !is_news => self.peers.places.note(id, address),
            _ => self.learn_address(id, address),
        }
    }
}
