//! The node's part in the cluster's directory: applying its commands, and, where it leads, making
//! them: nodes that join, logs that are created.

use commands::{Batch, TooLarge};
use formats::{LogId, parse_hex16};
use paxos::Outcome;
use replica::{Log, LogEvent};
use wire::{Refusal, Retention};

use super::{Node, Wants};
use crate::config::Start;
use crate::directory::{Command, DIRECTORY};

mod applying;
mod changing;
mod creating;
mod deleting;
mod joining;
mod retaining;
mod showing;

pub(super) use applying::Directing;
pub(crate) use changing::ChangeMembers;
pub(crate) use creating::CreateLog;
pub(crate) use deleting::{DeleteLog, unknown_log};
pub(crate) use joining::JoinCluster;
pub(crate) use retaining::Retain;
pub(crate) use showing::ShowLog;

type Commands = Vec<Command>;

/// What a request to the directory comes to.
enum Answer {
    /// It ends with this line.
    Line(Vec<u8>),
    /// A long one, which is sent in pieces.
    List(String),
    /// It needs more, perhaps what is in the commands now.
    Wait,
    /// It waits for something else than the directory; this is said when that takes too long.
    Until(Refusal),
}

pub(crate) fn no_directory_quorum() -> Refusal {
    Refusal::new(
        "no-quorum",
        "the cluster's directory (log 0) has no quorum that answers: start or reconnect its nodes",
    )
}

/// The directory begins with the cluster's first node alone.
pub(super) fn directory_members() -> Vec<(u32, u32)> {
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
        self.dirty.insert(id);
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
                self.on_node_id(slot, id);
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
                self.dirty.insert(log);
            }
            LogEvent::Role { log } => {
                self.dirty.insert(log);
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

    /// Moves every waiting request on: proposes what it needs, answers what the directory has.
    pub(crate) fn answer_requests(&mut self) {
        if !self.logs.contains_key(&DIRECTORY) {
            return;
        }
        let mut commands = Commands::new();
        let mut kept = Vec::new();
        for mut request in std::mem::take(&mut self.requests) {
            if !self.env.is_open(request.conn) {
                continue;
            }
            let current = self.has_passed(&mut request.asked);
            let before = commands.len();
            let answer = match current && self.is_listed() {
                true => self.answer_to(&mut request.wants, &mut commands),
                false => Answer::Wait,
            };
            if let Err(refused) = self.check_sizes(&commands[before..]) {
                commands.truncate(before);
                let refusal = Refusal::new("bad-request", refused.to_string());
                self.env.refuse(request.conn, refusal);
                continue;
            }
            let waited = self.env.now - request.since;
            let late = waited > self.env.limits.directory_wait;
            match answer {
                Answer::Line(line) => self.env.part(request.conn, &line),
                Answer::List(line) => self.env.answer(request.conn, line),
                Answer::Until(refusal) if late => self.env.refuse(request.conn, refusal),
                Answer::Wait if late => {
                    let refusal = no_directory_quorum();
                    let refusal = match request.wants {
                        Wants::Join(_) => self.naming_others(refusal),
                        _ => refusal,
                    };
                    self.env.refuse(request.conn, refusal);
                }
                Answer::Wait | Answer::Until(_) => kept.push(request),
            }
        }
        self.requests.append(&mut kept);
        self.propose_commands(&commands);
    }

    /// What no replica would take is refused, and not proposed.
    fn check_sizes(&self, commands: &[Command]) -> Result<(), TooLarge> {
        let mut batch = Batch::default();
        let encoded = commands.iter().map(|c| c.encode(self.env.version));
        encoded.into_iter().try_for_each(|c| batch.command(&c))
    }

    /// Not while the directory is an empty one, or that of a lost cluster, which goes on alone first.
    pub(crate) fn is_listed(&self) -> bool {
        let entry = self.directory.nodes.get(&self.env.own.identity.node);
        let disk = entry.and_then(|entry| parse_hex16(&entry.disk));
        disk == Some(self.env.own.identity.disk.0)
    }

    fn answer_to(&mut self, wants: &mut Wants, commands: &mut Commands) -> Answer {
        match wants {
            Wants::Join(join) => self.answer_join(join, commands),
            Wants::CreateLog(create) => self.answer_create_log(create, commands),
            Wants::Retain(retain) => self.answer_retain(retain, commands),
            Wants::ChangeMembers(change) => self.answer_change(change, commands),
            Wants::DeleteLog(delete) => self.answer_delete_log(delete, commands),
            Wants::ShowLog(show) => self.answer_show_log(show),
            Wants::FreshStatus => Answer::List(self.status_line()),
            Wants::Logs(list) => Answer::List(self.logs_line(*list)),
            Wants::Members(list) => Answer::List(self.members_line(*list)),
        }
    }

    /// Every command of this node's that was chosen is applied here, and none is on its way.
    fn has_applied_its_own(&self) -> bool {
        let log = self.logs.get(&DIRECTORY);
        self.directing.is_idle()
            && log.is_some_and(|log| log.guest_is_idle() && log.guest_is_current())
    }

    pub(super) fn refuse_requests(&mut self) {
        let Some(log) = self.logs.get(&DIRECTORY) else {
            return;
        };
        let refusal = log.not_leader(&self.env);
        for request in std::mem::take(&mut self.requests) {
            let refusal = match &request.wants {
                // Whoever leads next may find it accepted, and create the log.
                Wants::CreateLog(create) if create.proposed => {
                    refusal.clone().key("log", &create.name)
                }
                Wants::DeleteLog(delete) if delete.proposed => {
                    refusal.clone().key("log", &delete.name)
                }
                Wants::Join(_) => self.naming_others(refusal.clone()),
                _ => refusal.clone(),
            };
            self.env.refuse(request.conn, refusal);
        }
    }

    /// Whether a command of this node's could be proposed now.
    fn can_direct(&self) -> bool {
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
