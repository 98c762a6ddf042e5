//! The node's part in the cluster's directory: applying its commands, and, where it leads, making
//! them: nodes that join, logs that are created, votes for nodes that hold everything.

use std::collections::BTreeSet;

use paxos::mutation::{self, Mutation};
use paxos::{Action, ChangeRefused, NodeId, Outcome, Slot};

use super::{Node, Wants};
use crate::LogId;
use crate::commands;
use crate::config::Start;
use crate::directory::{self, Command, DIRECTORY};
use crate::env::LogEvent;
use crate::line::Refusal;

/// The directory begins with the cluster's first node alone.
pub(super) fn directory_members() -> Vec<(u32, u32)> {
    vec![(1, 1)]
}

/// Why a log cannot have these auxiliaries, and what would be possible.
fn refuse_auxiliaries(why: ChangeRefused, auxiliary: &[u32], members: &[(u32, u32)]) -> Refusal {
    let listed = |nodes: &mut dyn Iterator<Item = u32>| {
        let nodes: Vec<String> = nodes.map(|node| node.to_string()).collect();
        nodes.join(", ")
    };
    let all = listed(&mut members.iter().map(|(node, _)| *node));
    let sentence = match why {
        ChangeRefused::UnknownNode(node) => {
            format!("node {node} is no member: choose auxiliaries among {all}")
        }
        _ => format!(
            "auxiliaries {} of {all} could decide by themselves: choose fewer",
            listed(&mut auxiliary.iter().copied())
        ),
    };
    Refusal::new("bad-request", sentence)
}

impl Node {
    pub(super) fn on_log_event(&mut self, event: LogEvent) {
        match event {
            LogEvent::Chunk {
                log: DIRECTORY,
                bytes,
                ..
            } => {
                self.decoder.push(&bytes);
                while let Some(command) = self.decoder.next_command() {
                    match serde_json::from_slice::<Command>(&command) {
                        Ok(command) => self.on_command(command),
                        Err(error) => {
                            tracing::error!(%error, "the directory holds a command that this version does not know; upgrade this node");
                        }
                    }
                }
            }
            LogEvent::StreamEnded { log: DIRECTORY } => self.decoder.end_of_stream(),
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
                    let members = log.engine.state().configuration.members();
                    tracing::info!(log = log.id.0, era = era.0, ?members, "a new configuration");
                }
            }
            LogEvent::Role { log } => {
                self.dirty.insert(log);
                if log == DIRECTORY && !self.logs.get(&log).is_some_and(|l| l.is_leading()) {
                    self.refuse_requests();
                }
            }
            _ => {}
        }
    }

    pub(super) fn on_command(&mut self, command: Command) {
        self.directory.apply(&command);
        match &command {
            Command::AddNode { id, address, .. } => self.learn_address(NodeId(*id), address),
            Command::CreateLog { .. } => {
                let logs: Vec<_> = self
                    .directory
                    .logs
                    .iter()
                    .map(|(id, e)| (*id, e.clone()))
                    .collect();
                for (id, entry) in logs {
                    self.create_log(id, &entry.name, &entry.members, &entry.auxiliary);
                }
            }
            Command::SetVoters { .. } | Command::SetRetention { .. } => {}
        }
        self.answer_requests();
    }

    pub(super) fn propose_command(&mut self, command: &Command) -> bool {
        let Ok(bytes) = serde_json::to_vec(command) else {
            return false;
        };
        let Some(log) = self.logs.get_mut(&DIRECTORY) else {
            return false;
        };
        self.dirty.insert(DIRECTORY);
        log.append_local(&mut self.env, &commands::encode(&bytes))
    }

    pub(super) fn on_node_id(&mut self, slot: Slot, id: NodeId) {
        let command = self.requests.iter_mut().find_map(|r| match &mut r.wants {
            Wants::Join {
                address,
                disk,
                slot: asked,
                proposed,
            } if *asked == Some(slot) => {
                *proposed = true;
                Some(Command::AddNode {
                    id: id.0,
                    address: address.clone(),
                    disk: disk.clone(),
                })
            }
            _ => None,
        });
        if let Some(command) = command {
            self.propose_command(&command);
        }
    }

    /// Moves every waiting request on: proposes what it needs, answers what the directory has.
    pub(crate) fn answer_requests(&mut self) {
        let hosted: BTreeSet<LogId> = self.logs.keys().copied().collect();
        let Some(log) = self.logs.get_mut(&DIRECTORY) else {
            return;
        };
        let mut commands = Vec::new();
        let mut kept = Vec::new();
        for mut request in std::mem::take(&mut self.requests) {
            if !self.env.conns.contains_key(&request.conn) {
                continue;
            }
            let answer = match &mut request.wants {
                Wants::Join {
                    address,
                    disk,
                    slot,
                    proposed,
                } => match self.directory.node_by_disk(disk).or_else(|| {
                    let keeps = mutation::is(Mutation::EmptyDiskKeepsItsId);
                    let mut nodes = self.directory.nodes.iter().filter(|_| keeps);
                    nodes.find_map(|(id, e)| (e.address == *address).then_some(*id))
                }) {
                    Some(id) if self.directory.nodes[&id].address == *address => Some(
                        crate::join::answer(&self.env, &self.directory, id, directory_members()),
                    ),
                    Some(id) => {
                        if !*proposed && log.can_propose() {
                            *proposed = true;
                            commands.push(Command::AddNode {
                                id: id.0,
                                address: address.clone(),
                                disk: disk.clone(),
                            });
                        }
                        None
                    }
                    None => {
                        if slot.is_none() && log.can_propose() {
                            *slot = log
                                .engine
                                .propose(self.env.now, Action::GenerateNodeId)
                                .ok();
                            log.drain(&mut self.env);
                            self.dirty.insert(DIRECTORY);
                        }
                        None
                    }
                },
                Wants::CreateLog {
                    name,
                    auxiliary,
                    proposed,
                } => match self.directory.log_by_name(name) {
                    // Whoever asks next finds it here; that it has no leader yet is no error to them.
                    Some(id) if *proposed && !hosted.contains(&id) => None,
                    Some(id) if *proposed => {
                        Some(format!("ok {{\"id\":{},\"name\":\"{name}\"}}\n", id.0).into_bytes())
                    }
                    Some(_) => Some(
                        Refusal::new("exists", format!("a log named {name} exists already"))
                            .encode(),
                    ),
                    None => {
                        if !*proposed && log.can_propose() {
                            *proposed = true;
                            let members = log.engine.state().configuration.members();
                            let members: Vec<(u32, u32)> =
                                members.iter().map(|m| (m.node.0, m.weight)).collect();
                            if let Err(why) = directory::configuration(&members, auxiliary) {
                                Some(refuse_auxiliaries(why, auxiliary, &members).encode())
                            } else {
                                commands.push(Command::CreateLog {
                                    name: name.clone(),
                                    members,
                                    auxiliary: auxiliary.clone(),
                                });
                                None
                            }
                        } else {
                            None
                        }
                    }
                },
                Wants::Retain {
                    log: name,
                    retention,
                    proposed,
                } => {
                    let entry = self.directory.log_by_name(name);
                    let entry = entry.and_then(|id| self.directory.logs.get(&id));
                    match entry {
                        Some(entry) if entry.retention == *retention => Some(
                            format!("ok {{\"name\":\"{name}\",\"retention\":\"{retention}\"}}\n")
                                .into_bytes(),
                        ),
                        Some(_) if !*proposed && log.can_propose() => {
                            *proposed = true;
                            commands.push(Command::SetRetention {
                                log: name.clone(),
                                retention: *retention,
                            });
                            None
                        }
                        _ => None,
                    }
                }
            };
            match answer {
                Some(line) => self.env.part(request.conn, &line),
                None if self.env.now.0 > request.since.0 + 2 * self.env.limits.leader_wait => {
                    self.env.refuse(request.conn, crate::ingest::no_quorum());
                }
                None => kept.push(request),
            }
        }
        self.requests.append(&mut kept);
        for command in commands {
            self.propose_command(&command);
        }
    }

    pub(super) fn refuse_requests(&mut self) {
        let Some(log) = self.logs.get(&DIRECTORY) else {
            return;
        };
        let refusal = log.not_leader(&self.env);
        for request in std::mem::take(&mut self.requests) {
            let refusal = match &request.wants {
                // Whoever leads next may find it accepted, and create the log.
                Wants::CreateLog {
                    name,
                    proposed: true,
                    ..
                } => refusal.clone().key("log", name),
                _ => refusal.clone(),
            };
            self.env.refuse(request.conn, refusal);
        }
    }

    /// What only the directory's leader does: makes the first entries of a new cluster.
    pub(super) fn lead_directory(&mut self) {
        let Some(log) = self.logs.get(&DIRECTORY) else {
            return;
        };
        if !log.can_propose() || !log.local_is_idle() {
            return;
        }
        let own = self.env.identity.node;
        let disk = crate::line::hex(&self.env.identity.disk.0);
        let entry = self.directory.nodes.get(&own);
        if entry.is_none_or(|e| e.address != self.env.advertise) {
            let address = self.env.advertise.clone();
            self.propose_command(&Command::AddNode {
                id: own.0,
                address,
                disk,
            });
        }
        if let Start::Bootstrap { voters } = self.config.start
            && self.directory.voters == 0
        {
            self.propose_command(&Command::SetVoters { voters });
            self.propose_command(&Command::CreateLog {
                name: "main".into(),
                members: vec![(own.0, 1)],
                auxiliary: Vec::new(),
            });
        }
    }

    /// Each log's leader forgets what its retention says.
    pub(super) fn keep_to_retention(&mut self) {
        let kept = self.directory.logs.iter();
        for (id, entry) in kept.filter(|(_, entry)| !entry.retention.is_forever()) {
            if let Some(log) = self.logs.get_mut(id)
                && log.keep_to(&mut self.env, entry.retention)
            {
                self.dirty.insert(*id);
            }
        }
    }

    /// Gives weight to nodes that hold everything, until there are as many voters as wanted.
    pub(super) fn promote(&mut self) {
        let voters = self.directory.voters as usize;
        for (id, log) in &mut self.logs {
            if !log.can_propose() {
                continue;
            }
            let state = log.engine.state();
            if state.configuration.members().len() >= voters {
                continue;
            }
            let first_unchosen = log.engine.first_unchosen().0;
            let ready = self.directory.nodes.keys().copied().find(|node| {
                !state.configuration.contains(*node)
                    && log.alive.contains(node)
                    && log.engine.peer_missing_bytes(*node) == Some(0)
                    && log.engine.peer_accepted_up_to(*node).is_some_and(|s| {
                        s.0 + self.env.limits.unchosen_bytes_max / 4 >= first_unchosen
                    })
            });
            if let Some(node) = ready {
                let change = paxos::Change::Increment(node);
                let from = state.era;
                tracing::info!(
                    log = id.0,
                    node = node.0,
                    "giving weight to a node that holds everything"
                );
                if log
                    .engine
                    .propose(self.env.now, Action::Reconfigure { from, change })
                    .is_ok()
                {
                    log.drain(&mut self.env);
                    self.dirty.insert(*id);
                }
            }
        }
    }
}
