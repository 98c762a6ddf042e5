//! Which logs and peers this node knows, and in what order that becomes durable.

use std::sync::Arc;

use formats::LogId;
use ops::Op;
use paxos::mutation::{self, Mutation};
use paxos::{Checkpoint, LogState, NodeId, Wish};
use replica::Log;
use store::{ManifestLog, PEERS_FILE, Store};

use super::Node;
use crate::directory::{self, DIRECTORY};
use crate::join::Join;
use crate::peers::file;
use crate::start::store_config;
use crate::tokens;

pub(crate) struct Creating {
    pub(super) name: String,
    pub(super) store: Store,
    pub(super) checkpoint: Checkpoint,
    pub(super) listed: bool,
}

impl Node {
    pub(super) fn log_appeared(&mut self, id: LogId) {
        self.due.touch(id);
        let Some(log) = self.logs.get_mut(&id) else {
            return;
        };
        match id {
            DIRECTORY => log.attach(0, true),
            _ => self.hosted.attach(&self.config.hosts, log),
        }
        for (peer, state) in &self.peers.peers {
            if state.alive && self.directory.hosts(id, *peer) {
                log.set_alive(&mut self.env, *peer, true);
            }
        }
    }

    /// The first segment is made durable first, then the manifest lists the log, then it takes part:
    /// a listed log without its directory is a lost disk.
    pub(crate) fn create_log(
        &mut self,
        id: LogId,
        name: &str,
        members: &[(u32, u32)],
        auxiliary: &[u32],
        first_wish: Option<Wish>,
    ) {
        if self.logs.contains_key(&id) || self.creating.contains_key(&id) {
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
        self.creating.insert(
            id,
            Creating {
                name: name.to_string(),
                store,
                checkpoint,
                listed: false,
            },
        );
        self.advance_creating();
    }

    pub(super) fn advance_creating(&mut self) {
        let mut news = false;
        for (id, creating) in &mut self.creating {
            while let Some(op) = creating.store.poll_op() {
                self.env.out.ops.push_back(op);
            }
            while let Some(event) = creating.store.poll_event() {
                if let store::StoreEvent::Failed(error) = event {
                    tracing::error!(log = id.0, %error, "the replica could not be created; free space and restart the node");
                }
            }
            let durable = creating.store.queued_bytes() == 0 && !creating.store.has_failed();
            if (durable || mutation::is(Mutation::LogListedTooEarly)) && !creating.listed {
                creating.listed = true;
                news = true;
                self.manifest.logs.push(ManifestLog {
                    id: *id,
                    name: creating.name.clone(),
                });
            }
        }
        if news {
            self.save_manifest();
        }
    }

    pub(super) fn on_manifest_written(&mut self, result: std::io::Result<()>) {
        self.manifest_file.writing = false;
        if let Err(error) = result {
            // The old one or the new one is there, whole. The next tick writes it again.
            tracing::error!(%error, "the manifest could not be written; free space");
            self.manifest_file.stale = true;
            return;
        }
        if self.manifest_file.stale {
            return self.save_manifest(); // It lists more than what was written.
        }
        self.on_unlisted();
        self.on_version_written();
        if self.logs.is_empty() && self.creating.is_empty() && self.join.is_some() {
            return self.on_joined_durably();
        }
        let ready: Vec<LogId> = self
            .creating
            .iter()
            .filter(|(_, c)| c.listed)
            .map(|(id, _)| *id)
            .collect();
        for id in ready {
            if let Some(creating) = self.creating.remove(&id) {
                let log = Log::new(
                    &self.env,
                    id,
                    creating.name,
                    creating.store,
                    creating.checkpoint,
                );
                self.logs.insert(log);
                self.log_appeared(id);
                if self.directory.is_deleted(id) {
                    self.delete_log(id); // Meanwhile.
                }
            }
        }
    }

    pub(crate) fn save_manifest(&mut self) {
        self.manifest_file.stale = self.manifest_file.writing;
        if !std::mem::replace(&mut self.manifest_file.writing, true) {
            self.env.out.ops.push_back(
                self.manifest
                    .write(&self.config.directory, tokens::MANIFEST),
            );
        }
    }

    pub(crate) fn save_peers(&mut self) {
        self.peers_file.stale = self.peers_file.writing;
        if std::mem::replace(&mut self.peers_file.writing, true) {
            return;
        }
        // Those that are needed to find a leader come first, in case there is no room for all.
        let (voters, others): (Vec<_>, Vec<_>) =
            (self.env.peers.addresses.iter()).partition(|(id, _)| self.is_member(**id));
        let all = voters.into_iter().chain(others);
        let contents = file::write(all.map(|(id, address)| (*id, address)));
        self.env.out.ops.push_back(Op::WriteFile {
            token: tokens::PEERS,
            path: self.config.directory.join(PEERS_FILE),
            contents,
        });
    }

    pub(super) fn on_peers_written(&mut self, result: std::io::Result<()>) {
        self.peers_file.writing = false;
        if let Err(error) = result {
            tracing::warn!(%error, "the peers' addresses could not be saved");
            self.peers_file.stale = true;
        } else if self.peers_file.stale {
            self.save_peers();
        }
        self.save_new_id();
    }

    /// ‡ After the others' addresses: who has an id asks nobody for one, and would know nobody if it ended in between.
    pub(crate) fn save_new_id(&mut self) {
        let is_new = self.join.as_ref().and_then(Join::given).is_some();
        if is_new && !self.peers_file.writing {
            self.save_manifest();
        }
    }

    /// What could not be written before, perhaps it can now.
    pub(super) fn save_stale_files(&mut self) {
        if self.manifest_file.stale && !self.manifest_file.writing {
            self.save_manifest();
        }
        if self.peers_file.stale && !self.peers_file.writing {
            self.save_peers();
        }
    }

    /// A peer's address, from the directory or from its own greeting.
    pub(crate) fn learn_address(&mut self, id: NodeId, address: &str) {
        if id == self.env.own.identity.node || id == NodeId(0) || address.is_empty() {
            return;
        }
        if self.is_removed(id) {
            return;
        }
        let before = self.env.peers.addresses.insert(id, address.to_string());
        if before.as_deref() != Some(address) {
            // It may be there yet, if the newer word is wrong.
            self.peers.places.note(id, &before.unwrap_or_default());
            self.save_peers();
        }
    }

    /// ‡ What the directory says of an address is one word among others: this node may know a newer one, by the
    /// peer's own greeting, or since it was found there. It goes before the others only when it changes while
    /// this node looks, and not when a replay comes past what was once so.
    pub(super) fn learn_listed_address(&mut self, id: NodeId, address: &str) {
        let current = self.is_confirmed();
        let seen = match current {
            true => self.listed_addresses.insert(id, address.to_owned()),
            false => None,
        };
        let is_news = seen.is_some_and(|seen| seen != address);
        match self.env.peers.addresses.get(&id) {
            Some(known) if known == address => {}
            Some(_) if !is_news => self.peers.places.note(id, address),
            _ => self.learn_address(id, address),
        }
    }
}
