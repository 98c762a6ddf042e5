//! The node's part in the cluster's directory: applying its commands, and, where it leads, making
//! them: nodes that join, logs that are created.

use commands::Batch;
use formats::{LogKind, parse_hex16};
use replica::{Env, Log};
use wire::Retention;

use super::Cluster;
use crate::config::Start;
use crate::directory::{Command, DIRECTORY};
use crate::lent::Lent;
use crate::logs::Logs;

/// The directory's first members: it begins with the cluster's first node alone.
pub fn directory_members() -> Vec<(u32, u32)> {
    vec![(1, 1)]
}

impl Cluster {
    pub fn propose_command(&mut self, lent: &mut Lent<'_>, command: &Command) -> bool {
        self.propose_commands(lent, std::slice::from_ref(command))
    }

    /// Proposes commands in one batch: one record, one durable write. A command that is too large is told and
    /// left out.
    pub fn propose_commands(&mut self, lent: &mut Lent<'_>, commands: &[Command]) -> bool {
        let mut batch = Batch::default();
        for command in commands {
            if let Err(refused) = batch.command(&command.encode(lent.env.version.logs)) {
                tracing::error!(%refused, "a command of the directory was not proposed");
            }
        }
        let leads = lent.logs.get(&DIRECTORY).is_some_and(Log::is_leading);
        if batch.is_empty() || !leads {
            return false;
        }
        self.directing.add_commands(&batch.take());
        self.submit_commands(lent);
        true
    }

    /// Whether the directory lists this node: not while it is empty, or that of a lost cluster, which goes on
    /// alone first.
    pub fn is_listed(&self, env: &Env) -> bool {
        let entry = self.directory.nodes.get(&env.own.identity.node);
        let disk = entry.and_then(|entry| parse_hex16(&entry.disk));
        disk == Some(env.own.identity.disk.0)
    }

    /// Whether every chosen command of this node's is applied here, and none is on its way.
    pub fn has_applied_its_own(&self, logs: &Logs) -> bool {
        let log = logs.directory();
        self.directing.is_idle()
            && log.is_some_and(|log| log.guest_is_idle() && log.guest_is_current())
    }

    /// Does what only the directory's leader does: makes the first entries of a new cluster.
    pub fn lead_directory(&mut self, lent: &mut Lent<'_>, start: &Start) {
        let Some(log) = lent.logs.get(&DIRECTORY) else {
            return;
        };
        let is_idle = self.directing.is_idle() && log.guest_is_idle();
        if !log.can_propose() || !is_idle || !self.is_confirmed() {
            return;
        }
        let own = lent.env.own.identity.node;
        let disk = formats::hex(&lent.env.own.identity.disk.0);
        let entry = self.directory.nodes.get(&own);
        let alone = log.engine().state().configuration.members().len() == 1;
        if alone && entry.is_some_and(|entry| entry.disk != disk) {
            let logs = lent.logs.keys().filter(|id| **id != DIRECTORY);
            let command = Command::GoOnAlone {
                id: own.0,
                address: lent.env.own.advertise.clone(),
                disk,
                logs: logs.map(|id| id.0).collect(),
            };
            tracing::warn!("the directory is a lost cluster's: this node goes on alone");
            self.propose_command(lent, &command);
            return;
        }
        if entry.is_none_or(|e| e.is_elsewhere(&lent.env.own.advertise)) {
            let address = lent.env.own.advertise.clone();
            self.propose_command(
                lent,
                &Command::AddNode {
                    id: own.0,
                    address,
                    disk,
                    newest: lent.env.own.speaks.newest(),
                    by_hand: false,
                    token: None,
                    certificate: lent.env.own.certificate.clone(),
                    replaces: None,
                },
            );
        }
        self.move_nodes(lent);
        self.describe_nodes(lent);
        if let Start::Bootstrap { voters } = *start
            && self.directory.voters == 0
        {
            self.propose_commands(lent, &self.first_version(lent.env));
            self.propose_command(lent, &Command::SetVoters { voters });
            self.propose_command(
                lent,
                &Command::CreateLog {
                    name: "main".into(),
                    members: vec![(own.0, 1)],
                    auxiliary: Vec::new(),
                    hosts: Vec::new(),
                    retention: Retention::default(),
                    min_copies: 0,
                    kind: LogKind::Bytes,
                },
            );
        }
        self.free_names(lent);
        self.raise_version(lent);
        self.shorten_directory(lent);
    }
}

impl Cluster {
    /// Frees, on the directory's leader, the names of logs that have ended.
    fn free_names(&mut self, lent: &mut Lent<'_>) {
        let sealing = self.directory.logs.sealing();
        let ended = sealing.filter(|id| self.has_ended(lent.logs, *id));
        let commands: Vec<Command> = ended.map(|id| Command::DeleteLog { id: id.0 }).collect();
        self.propose_commands(lent, &commands);
    }

    /// Moves nodes that said, when they started, that they are elsewhere. The directory knows each node's
    /// disk, so that nobody else can say it.
    fn move_nodes(&mut self, lent: &mut Lent<'_>) {
        let peers = lent.peers.live();
        let moved = peers.filter_map(|(node, peer)| {
            let entry = self.directory.nodes.get(node)?;
            let address = peer.said.address()?;
            entry.is_elsewhere(address).then(|| Command::AddNode {
                id: node.0,
                address: address.to_owned(),
                disk: entry.disk.clone(),
                newest: entry.newest,
                by_hand: false,
                token: None,
                certificate: None,
                replaces: None,
            })
        });
        let commands: Vec<Command> = moved.collect();
        self.propose_commands(lent, &commands);
    }

    /// Writes down what nodes said of themselves when they started, if that is news.
    fn describe_nodes(&mut self, lent: &mut Lent<'_>) {
        let own = (&lent.env.own.identity.node, &lent.env.own.standing);
        let peers = lent.peers.iter();
        let peers = peers.filter_map(|(node, peer)| Some((node, peer.said.standing()?)));
        let news = [own].into_iter().chain(peers).filter(|(node, standing)| {
            let entry = self.directory.nodes.get(node);
            entry.is_some_and(|entry| entry.is_news(standing))
        });
        let commands: Vec<Command> = news
            .map(|(node, standing)| Command::DescribeNode {
                node: node.0,
                zone: standing.zone.clone(),
                kind: standing.kind,
            })
            .collect();
        self.propose_commands(lent, &commands);
    }
}
