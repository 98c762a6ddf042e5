//! This node's way to its id from the cluster ([`crate::join`]), and its beginning with what it was told.

use formats::LogKind;
use ops::ConnId;
use wire::Refusal;

use super::Node;
use crate::directory::{DIRECTORY, DIRECTORY_NAME};
use crate::join::{self, Join};

impl Node {
    pub(super) fn naming_others(&self, refusal: Refusal) -> Refusal {
        join::naming_others(refusal, &self.env, &self.peers, &self.cluster.directory)
    }

    pub(super) fn on_join_connected(&mut self, conn: ConnId, result: std::io::Result<()>) {
        match &mut self.join {
            Some(join) => join.on_connected(&mut self.env, conn, result),
            None => self.env.close(conn),
        }
    }

    pub(super) fn on_join_received(&mut self, conn: ConnId, bytes: &[u8]) {
        if let Some(join) = &mut self.join
            && join.on_received(&mut self.env, conn, bytes)
            && let Some(given) = join.given().cloned()
        {
            self.env.own.identity.cluster = given.cluster;
            self.env.own.identity.node = given.node;
            self.disk.manifest.identity = self.env.own.identity;
            self.disk.manifest.version = self.disk.manifest.version.max(given.version);
            for (id, address) in &given.nodes {
                self.peers.guests.introduced.insert(*id);
                self.learn_address(*id, address);
            }
            self.save_new_id();
        }
    }

    /// Begins once the manifest knows our id: hosts the directory, and through it everything else.
    pub(super) fn on_joined_durably(&mut self) {
        if let Some(given) = self.join.as_ref().and_then(Join::given).cloned() {
            self.create_log(
                DIRECTORY,
                (DIRECTORY_NAME, LogKind::Bytes),
                &given.members,
                &[],
                None,
            );
        }
        self.join = None;
    }
}
