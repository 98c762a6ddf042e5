//! The node's part in the cluster's directory: applying its commands, and, where it leads, making
//! them: nodes that join, logs that are created.

use commands::Batch;
use formats::{LogId, parse_hex16};
use paxos::Outcome;
use replica::{Log, LogEvent};
use wire::Retention;

use super::Node;
use crate::config::Start;
use crate::directory::{Command, DIRECTORY};

mod applying;

pub(super) use applying::Directing;

/// The directory begins with the cluster's first node alone.
pub(in crate::node) fn directory_members() -> Vec<(u32, u32)> {
    vec![(1, 1)]
}

impl Node {
    /// This log, of this node's, has chosen a wish.
    fn on_wished(&mut self, id: LogId) {
        let Some(log) = self.logs.get_mut(&id) else {
            return;
        };
        if log.engine().state().is_sealed() {
            tracing::info!(log = id.0, name = log.name(), "sealed: this log has ended");
            log.end_clients(&mut self.env);
        }
        self.due.touch(id);
        self.tell_wishes();
        self.answer_requests();
    }

    pub(super) fn on_log_event(&mut self, event: LogEvent) {
        match event {
            LogEvent::Applied {
                log: DIRECTORY,
                slot,
                outcome: Outcome::NodeId(id),
            } => {
                if let Some(entry) = self.awaiting.on_node_id(slot, id) {
                    self.propose_command(&entry);
                }
            }
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
                    self.doubt_directory();
                    if !self.logs.get(&log).is_some_and(Log::is_leading) {
                        self.directing.forget_commands();
                        self.refuse_requests();
                        self.forget_settling();
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn propose_command(&mut self, command: &Command) -> bool {
        self.propose_commands(std::slice::from_ref(command))
    }

    /// In one batch: one record, one durable write. A command that is too large is told and left out.
    pub(super) fn propose_commands(&mut self, commands: &[Command]) -> bool {
        let mut batch = Batch::default();
        for command in commands {
            if let Err(refused) = batch.command(&command.encode(self.env.version)) {
                tracing::error!(%refused, "a command of the directory was not proposed");
            }
        }
        let leads = self.logs.get(&DIRECTORY).is_some_and(Log::is_leading);
        if batch.is_empty() || !leads {
            return false;
        }
        self.directing.add_commands(&batch.take());
        self.submit_commands();
        true
    }

    /// Not while the directory is an empty one, or that of a lost cluster, which goes on alone first.
    pub(crate) fn is_listed(&self) -> bool {
        let entry = self.directory.nodes.get(&self.env.own.identity.node);
        let disk = entry.and_then(|entry| parse_hex16(&entry.disk));
        disk == Some(self.env.own.identity.disk.0)
    }

    /// Every command of this node's that was chosen is applied here, and none is on its way.
    pub(super) fn has_applied_its_own(&self) -> bool {
        let log = self.logs.get(&DIRECTORY);
        self.directing.is_idle()
            && log.is_some_and(|log| log.guest_is_idle() && log.guest_is_current())
    }

    /// Whether a command of this node's could be proposed now.
    pub(super) fn can_direct(&self) -> bool {
        self.logs.get(&DIRECTORY).is_some_and(|l| l.can_propose())
    }

    /// What only the directory's leader does: makes the first entries of a new cluster.
    pub(super) fn lead_directory(&mut self) {
        let Some(log) = self.logs.get(&DIRECTORY) else {
            return;
        };
        let is_idle = self.directing.is_idle() && log.guest_is_idle();
        if !log.can_propose() || !is_idle || !self.is_confirmed() {
            return;
        }
        let own = self.env.own.identity.node;
        let disk = formats::hex(&self.env.own.identity.disk.0);
        let entry = self.directory.nodes.get(&own);
        let alone = log.engine().state().configuration.members().len() == 1;
        if alone && entry.is_some_and(|entry| entry.disk != disk) {
            let logs = self.logs.keys().filter(|id| **id != DIRECTORY);
            let command = Command::GoOnAlone {
                id: own.0,
                address: self.env.own.advertise.clone(),
                disk,
                logs: logs.map(|id| id.0).collect(),
            };
            tracing::warn!("the directory is a lost cluster's: this node goes on alone");
            self.propose_command(&command);
            return;
        }
        if entry.is_none_or(|e| e.is_elsewhere(&self.env.own.advertise)) {
            let address = self.env.own.advertise.clone();
            self.propose_command(&Command::AddNode {
                id: own.0,
                address,
                disk,
                newest: self.env.own.speaks.newest(),
                by_hand: false,
            });
        }
        self.move_nodes();
        self.describe_nodes();
        if let Start::Bootstrap { voters } = self.config.start
            && self.directory.voters == 0
        {
            self.propose_commands(&self.first_version());
            self.propose_command(&Command::SetVoters { voters });
            self.propose_command(&Command::CreateLog {
                name: "main".into(),
                members: vec![(own.0, 1)],
                auxiliary: Vec::new(),
                hosts: Vec::new(),
                retention: Retention::default(),
            });
        }
        self.free_names();
        self.raise_version();
        self.shorten_directory();
    }
}

impl Node {
    /// The directory's leader: names of logs that have ended are free.
    fn free_names(&mut self) {
        let sealing = self.directory.logs.iter().filter(|(_, e)| e.sealing);
        let ended = sealing.filter(|(id, _)| self.has_ended(**id));
        let commands: Vec<Command> = ended
            .map(|(id, _)| Command::DeleteLog { id: id.0 })
            .collect();
        self.propose_commands(&commands);
    }

    /// Nodes that said, when they started, that they are elsewhere. Whose disk it was is in the directory, so
    /// that nobody else can say it.
    fn move_nodes(&mut self) {
        let peers = self.peers.peers.iter().filter(|(_, peer)| peer.alive);
        let moved = peers.filter_map(|(node, peer)| {
            let entry = self.directory.nodes.get(node)?;
            let address = peer.said_address.as_ref()?;
            entry.is_elsewhere(address).then(|| Command::AddNode {
                id: node.0,
                address: address.clone(),
                disk: entry.disk.clone(),
                newest: entry.newest,
                by_hand: false,
            })
        });
        let commands: Vec<Command> = moved.collect();
        self.propose_commands(&commands);
    }

    /// What nodes said of themselves when they started, if that is news.
    fn describe_nodes(&mut self) {
        let own = (&self.env.own.identity.node, &self.env.own.standing);
        let peers = self.peers.peers.iter();
        let peers = peers.filter_map(|(node, peer)| Some((node, peer.standing.as_ref()?)));
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
        self.propose_commands(&commands);
    }
}
