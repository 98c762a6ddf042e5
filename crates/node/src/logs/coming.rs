//! Logs that begin here. The first segment is made durable first, then the manifest lists the log, then it takes part:
//! a listed log without its directory is a lost disk.

use std::collections::BTreeMap;

use formats::{LogId, LogKind};
use ops::Completion;
use paxos::Checkpoint;
use paxos::mutation::{self, Mutation};
use replica::{Env, Log};
use store::{Manifest, ManifestLog, Store, StoreEvent};

#[derive(Default)]
pub struct Coming(BTreeMap<LogId, Creating>);

struct Creating {
    name: String,
    kind: LogKind,
    store: Store,
    checkpoint: Checkpoint,
    listed: bool,
}

impl Coming {
    pub fn contains(&self, id: LogId) -> bool {
        self.0.contains_key(&id)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn begin(
        &mut self,
        id: LogId,
        (name, kind): (&str, LogKind),
        store: Store,
        checkpoint: Checkpoint,
    ) {
        let creating = Creating {
            name: name.to_owned(),
            kind,
            store,
            checkpoint,
            listed: false,
        };
        self.0.insert(id, creating);
    }

    /// Moves on. True if the manifest lists one log more, and is to be saved.
    pub fn advance(&mut self, env: &mut Env, manifest: &mut Manifest) -> bool {
        let mut news = false;
        for (id, creating) in &mut self.0 {
            while let Some(op) = creating.store.poll_op() {
                env.out.ops.push_back(op);
            }
            while let Some(event) = creating.store.poll_event() {
                if let StoreEvent::Failed(error) = event {
                    tracing::error!(log = id.0, %error, "the replica could not be created; free space and restart the node");
                }
            }
            let durable = creating.store.queued_bytes() == 0 && !creating.store.has_failed();
            if (durable || mutation::is(Mutation::LogListedTooEarly)) && !creating.listed {
                creating.listed = true;
                news = true;
                manifest.logs.push(ManifestLog {
                    id: *id,
                    name: creating.name.clone(),
                    kind: creating.kind,
                });
            }
        }
        news
    }

    pub fn on_disk(&mut self, env: &Env, id: LogId, completion: Completion) {
        if let Some(creating) = self.0.get_mut(&id) {
            creating.store.on_completion(env.now, completion);
        }
    }

    /// Takes the logs that the manifest on disk lists: they take part from now on.
    pub fn take_listed(&mut self, env: &Env) -> Vec<Log> {
        let listed = self.0.extract_if(.., |_, creating| creating.listed);
        let logs = listed.map(|(id, creating)| {
            let Creating {
                name,
                kind,
                store,
                checkpoint,
                ..
            } = creating;
            Log::new(env, id, (name, kind), store, checkpoint)
        });
        logs.collect()
    }

    pub fn write_in(&mut self, version: u8) {
        for creating in self.0.values_mut() {
            creating.store.write_in(version);
        }
    }
}
