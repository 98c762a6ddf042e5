//! From one version to the next, while nodes of both run (docs/decisions/0018-versions-side-by-side.md).
//!
//! ```text
//!  every node speaks it, and has been there for a while ─ prepare ─▶ each disk's manifest names it
//!       every node's heartbeats say that its manifest does ─ agree ─▶ logs are written in it
//! ```

use formats::version::Speaks;
use paxos::mutation::{self, Mutation};
use paxos::{NodeId, Time};
use replica::Env;
use wire::Refusal;

use super::Cluster;
use crate::directory::Command;
use crate::lent::Lent;
use crate::peers::Peers;

#[derive(Default)]
pub struct Versioning {
    /// The version that all nodes speak, by the directory's leader, and the time since when.
    settling: Option<(u8, Time)>,
    unspoken_told: bool,
}

impl Cluster {
    /// The version of a connection with a node that speaks this range, and needs at least one version of it.
    pub fn check_speaks(
        &self,
        env: &Env,
        who: &str,
        theirs: Speaks,
        needed: u8,
    ) -> Result<u8, Refusal> {
        let own = env.own.speaks;
        let versions = self.directory.versions;
        let refuse = |sentence: String| Err(Refusal::new("version", sentence).key("speaks", own));
        match own.common(theirs) {
            None if theirs.newest() < own.oldest() => refuse(format!(
                "this node speaks version {own} and {who} only {theirs}: start {who} with a newer program"
            )),
            None => refuse(format!(
                "{who} speaks version {theirs} and this node only {own}: start this node with a newer program, or {who} with an older one"
            )),
            Some(_) if theirs.newest() < needed => refuse(format!(
                "the cluster has gone on to version {needed} and {who} speaks only {theirs}: start {who} with a newer program"
            )),
            Some(_) if theirs.oldest() > versions.prepared => refuse(format!(
                "the cluster is still at version {} and {who} speaks only {theirs}: start {who} with an older program until all nodes speak more",
                versions.prepared
            )),
            Some(version) => Ok(version),
        }
    }

    /// Writes down, on the directory's leader, what each node speaks, and takes the next step.
    pub fn raise_version(&mut self, lent: &mut Lent<'_>) {
        let own = lent.env.own.identity.node;
        let mut commands = Vec::new();
        let mut all_there = true;
        for (id, entry) in &self.directory.nodes {
            let said = match lent.peers.get(*id) {
                _ if *id == own => Some(lent.env.own.speaks),
                Some(peer) => peer.said.speaks().filter(|_| peer.is_alive()),
                None => None,
            };
            all_there &= said.is_some();
            if let Some(newest) = said.map(Speaks::newest).filter(|n| *n != entry.newest) {
                let node = id.0;
                commands.push(Command::SetNewest { node, newest });
            }
        }
        if !commands.is_empty() {
            self.versioning.settling = None;
            self.propose_commands(lent, &commands);
            return;
        }
        let versions = self.directory.versions;
        if versions.agreed < versions.prepared {
            if self.disks_are_in(lent, versions.prepared) {
                let version = versions.prepared;
                tracing::info!(
                    version,
                    "every disk is prepared: the cluster agrees on a version"
                );
                self.propose_command(lent, &Command::AgreeOnVersion { version });
            }
            return;
        }
        let newest = self.directory.nodes.values().map(|entry| entry.newest);
        let mut newest = newest.min().unwrap_or_default();
        if mutation::is(Mutation::VersionRaisedTooEarly) {
            newest = lent.env.own.speaks.newest();
        }
        if !all_there || newest <= versions.prepared {
            self.versioning.settling = None;
            return;
        }
        let now = lent.env.now;
        let since = match self.versioning.settling {
            Some((version, since)) if version == newest => since,
            _ => now,
        };
        self.versioning.settling = Some((newest, since));
        if now >= since + lent.env.limits.version_settle {
            tracing::info!(
                version = newest,
                "every node speaks a newer version: it is prepared"
            );
            self.propose_command(lent, &Command::PrepareVersion { version: newest });
        }
    }

    /// The first version of a cluster, the newest of its first node: nobody else is there, and this disk was
    /// made in it.
    pub fn first_version(&self, env: &Env) -> Vec<Command> {
        let version = env.version.disk.min(env.own.speaks.newest());
        match version > self.directory.versions.agreed {
            true => vec![
                Command::PrepareVersion { version },
                Command::AgreeOnVersion { version },
            ],
            false => Vec::new(),
        }
    }

    /// The newest version that some node speaks, if the cluster has not gone on to it.
    fn version_to_come(&self) -> Option<u8> {
        let newest = self.directory.nodes.values().map(|entry| entry.newest);
        let newest = newest.max().unwrap_or_default();
        let newest = newest.max(self.directory.versions.prepared);
        (newest > self.directory.versions.agreed).then_some(newest)
    }

    /// Silent nodes that keep the cluster from going on to a newer version.
    pub fn versions_wait_for(&self, env: &Env, peers: &Peers) -> Vec<NodeId> {
        match self.version_to_come() {
            Some(_) => self.silent(env, peers).into_iter().map(NodeId).collect(),
            None => Vec::new(),
        }
    }

    /// Sentences about the nodes that keep the cluster from going on to a newer version.
    pub fn versions_wait(&self, env: &Env, peers: &Peers) -> Vec<String> {
        let Some(version) = self.version_to_come() else {
            return Vec::new();
        };
        let silent = self.silent(env, peers);
        let waits = self.directory.nodes.iter().filter_map(|(id, entry)| {
            let why = match silent.contains(&id.0) {
                true => "is silent",
                false if entry.newest < version => "runs an older program",
                false => return None,
            };
            let address = &entry.address;
            Some(format!(
                "waiting for node {id} at {address}, which {why}: the cluster stays at version {} and does not go on to {version}",
                self.directory.versions.agreed
            ))
        });
        waits.collect()
    }

    /// Whether all disks are in this version: then no node can go back to a program that does not speak it.
    fn disks_are_in(&self, lent: &Lent<'_>, version: u8) -> bool {
        if mutation::is(Mutation::VersionRaisedTooEarly) {
            return true;
        }
        let own = lent.env.own.identity.node;
        let disk_version = |id: &NodeId| match lent.peers.get(*id) {
            _ if *id == own => lent.env.version.disk,
            Some(peer) => peer.said.disk_version(),
            None => 0,
        };
        let mut nodes = self.directory.nodes.keys();
        nodes.all(|id| disk_version(id) >= version)
    }

    /// Forgets the wait: the next leader begins to wait anew.
    pub fn forget_settling(&mut self) {
        self.versioning.settling = None;
    }

    /// Whether it is the first time to tell that the cluster has agreed on a version that this program does
    /// not speak.
    pub fn tells_unspoken(&mut self) -> bool {
        !std::mem::replace(&mut self.versioning.unspoken_told, true)
    }
}
