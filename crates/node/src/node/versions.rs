//! This node's way to the versions that the cluster agreed on ([`crate::cluster`]), as far as this program can.

use paxos::mutation::{self, Mutation};

use super::Node;

impl Node {
    /// Does what the directory says about versions, as far as this program can.
    pub(super) fn keep_to_versions(&mut self) {
        let versions = self.cluster.directory.versions;
        let speaks = self.env.own.speaks;
        self.env.version.logs = self
            .env
            .version
            .logs
            .max(versions.agreed.min(speaks.newest()));
        if mutation::is(Mutation::NewerVersionBeforeAgreed) {
            self.env.version.logs = speaks.newest();
        }
        if speaks.has(versions.prepared) && versions.prepared > self.disk.manifest.version {
            self.disk.manifest.version = versions.prepared;
            self.disk.save_manifest(&mut self.env);
        }
        let unspoken = speaks.check(u32::from(versions.agreed)).err();
        if let Some(unspoken) = unspoken
            && self.cluster.tells_unspoken()
        {
            tracing::error!("the cluster has agreed on {unspoken}");
            self.ending.finish();
        }
    }

    /// Lets every log go on in a segment of the manifest's version, now that the manifest is durable as it is.
    pub(super) fn on_version_written(&mut self) {
        let version = self.disk.manifest.version;
        if version <= self.env.version.disk {
            return;
        }
        tracing::info!(
            version,
            "this node's disk is written in a newer version from here on"
        );
        self.env.version.disk = version;
        self.counts.disk_versions += 1;
        for (id, log) in self.logs.iter_mut() {
            log.write_in(&mut self.env, version);
            self.due.touch(*id);
        }
        self.logs.coming.write_in(version);
    }
}
