//! `create-log`.

use formats::slots::group_of;
use formats::version::{KINDS, WISHES};
use formats::{LogId, LogKind};
use paxos::ChangeRefused;
use wire::ask::node_ids;
use wire::{Refusal, Retention};

use super::awaiting::{Answer, Commands, Want};
use super::log_name;
use super::retain::parse_retention;
use crate::directory::{
    Command, DIRECTORY, DIRECTORY_NAME, Directory, check_log_name, configuration,
};
use crate::greeting::Caller;
use crate::node::Node;
use crate::split::has_active_quorum;

#[derive(Default)]
pub(super) struct CreateLog {
    pub name: String,
    /// The nodes that host it; empty for all.
    pub hosts: Vec<u32>,
    pub auxiliary: Vec<u32>,
    pub retention: Retention,
    /// 0 if a majority decides.
    pub min_copies: u32,
    pub kind: LogKind,
    pub proposed: bool,
    /// The auxiliaries that were proposed.
    pub given_auxiliary: Vec<u32>,
}

impl Want for CreateLog {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        node.answer_create_log(self, commands)
    }

    /// The next leader may find the command accepted, and create the log.
    fn on_deposed(&self, _: &Node, refusal: Refusal) -> Refusal {
        match self.proposed {
            true => refusal.key("log", &self.name),
            false => refusal,
        }
    }
}

impl Node {
    /// `create-log NAME [members=ID,…] [auxiliary=ID,…] [retention=…] [min_copies=N] [kind=bytes|state|streams]`
    pub(super) fn create_named_log(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { request, .. } = caller;
        request.check()?;
        let name = log_name(request)?.to_owned();
        let retention = request.get("retention").unwrap_or("forever");
        let retention = parse_retention(retention)?;
        let ids = |key| node_ids(request, key).map(|ids| ids.to_u32());
        let (hosts, auxiliary) = (ids("members")?, ids("auxiliary")?);
        let kind: LogKind = request.value("kind")?.unwrap_or_default();
        if !kind.is_bytes() && request.get("retention").is_some() {
            return Err(Refusal::new(
                "bad-request",
                format!("a log of kind {kind} is trimmed by its machine: leave the retention away"),
            ));
        }
        let min_copies = request.parsed("min_copies")?.unwrap_or(0);
        if !kind.is_bytes() && min_copies > 0 {
            return Err(copies_of_a_machine(kind));
        }
        check_log_name(&name).map_err(|e| Refusal::new("bad-request", e))?;
        if name == DIRECTORY_NAME {
            return Err(Refusal::new(
                "exists",
                format!("a log named {name} exists already"),
            ));
        }
        let create = CreateLog {
            name,
            hosts,
            auxiliary,
            retention,
            min_copies,
            kind,
            ..CreateLog::default()
        };
        self.await_directory(caller, create)
    }

    fn answer_create_log(&mut self, create: &mut CreateLog, commands: &mut Commands) -> Answer {
        let name = &create.name;
        let own = self.env.own.identity.node;
        let refuse = |refusal: Refusal| Answer::Line(refusal.encode());
        match self.cluster.directory.log_by_name(name) {
            // Another client's command came first, and asked for something else.
            Some(id) if create.proposed && !create.is_as_asked(&self.cluster.directory, id) => {
                refuse(Refusal::new(
                    "exists",
                    format!(
                        "somebody else made a log named {name} at the same time, with other members, or of another retention, number of copies or kind"
                    ),
                ))
            }
            // The next request finds the log here.
            Some(id)
                if create.proposed
                    && self.cluster.directory.hosts(id, own)
                    && !self.logs.contains_key(&id) =>
            {
                Answer::Wait
            }
            Some(id) if create.proposed => {
                let line = format!("ok {{\"id\":{},\"name\":\"{name}\"}}\n", id.0);
                let log = self.logs.get(&id);
                // The next request is to find a leader, too.
                match log.is_some_and(|log| log.engine().leader().is_none()) {
                    true => Answer::AtLast(line.into_bytes()),
                    false => Answer::Line(line.into_bytes()),
                }
            }
            Some(_) => refuse(Refusal::new(
                "exists",
                format!("a log named {name} exists already"),
            )),
            None if let Some(id) = self.cluster.directory.sealing_by_name(name) => {
                Answer::Until(not_ended(name, id))
            }
            // Tools would take it for a group that nobody serves.
            None if create.kind != LogKind::Kv && group_of(name).is_some() => {
                refuse(not_a_group(name))
            }
            // A member that leaves since made nothing of the command.
            None if create.proposed => match create.check_members(&self.cluster.directory) {
                Ok(_) => Answer::Wait,
                Err(why) => refuse(why),
            },
            None if !self.logs.can_direct() => Answer::Wait,
            None if !create.kind.is_bytes() && self.cluster.directory.versions.agreed < KINDS => {
                refuse(too_old(create.kind))
            }
            None if create.min_copies > 0 && self.cluster.directory.versions.agreed < WISHES => {
                refuse(copies_too_old())
            }
            None => {
                create.proposed = true;
                match create.check_members(&self.cluster.directory) {
                    Ok(members) => {
                        create.given_auxiliary = match create.auxiliary.is_empty() {
                            true => self.cluster.directory.auxiliaries_of(&members),
                            false => create.auxiliary.clone(),
                        };
                        let auxiliary = &create.given_auxiliary;
                        let full = members.iter().filter(|(id, _)| !auxiliary.contains(id));
                        if let Err(why) = check_copies(create.min_copies, full.count()) {
                            return refuse(why);
                        }
                        commands.push(Command::CreateLog {
                            name: name.clone(),
                            auxiliary: create.given_auxiliary.clone(),
                            members,
                            hosts: create.hosts.clone(),
                            retention: create.retention,
                            min_copies: create.min_copies,
                            kind: create.kind,
                        });
                    }
                    Err(why) => return refuse(why),
                }
                Answer::Wait
            }
        }
    }
}

fn not_a_group(name: &str) -> Refusal {
    let sentence = format!(
        "{name} is the name of a group of keys, and tools would take it for one: choose another, or make groups with `logberg kv init`"
    );
    Refusal::new("bad-request", sentence)
}

impl CreateLog {
    /// Whether the log is as asked: two clients may ask for one name at a time, and the directory makes the
    /// first one's log.
    fn is_as_asked(&self, directory: &Directory, id: LogId) -> bool {
        directory.logs.get(&id).is_some_and(|entry| {
            entry.hosts == self.hosts
                && entry.auxiliary == self.given_auxiliary
                && entry.retention == self.retention
                && entry.min_copies == self.min_copies
                && entry.kind == self.kind
        })
    }

    /// The members with which the log's configuration begins.
    fn check_members(&self, directory: &Directory) -> Result<Vec<(u32, u32)>, Refusal> {
        let members = &directory.members;
        let nodes = directory.nodes.keys().map(|node| node.0);
        let known: Vec<u32> = nodes.filter(|node| !members.leaves(*node)).collect();
        let stranger = self.hosts.iter();
        if let Some(stranger) = stranger.copied().find(|node| !known.contains(node)) {
            let known = listed(&mut known.into_iter());
            return Err(Refusal::new(
                "unknown-node",
                format!("there is no node {stranger}, or it leaves: choose members among {known}"),
            ));
        }
        let members: Vec<(u32, u32)> = match self.hosts.is_empty() {
            true => {
                // A log that begins holds nothing that the members would have to be filled with first.
                let wanted = directory.members.wanted.get(&DIRECTORY.0);
                let weights = wanted.into_iter().flat_map(|wanted| &wanted.weights);
                weights.map(|(node, weight)| (*node, *weight)).collect()
            }
            false => self.hosts.iter().map(|node| (*node, 1)).collect(),
        };
        let refuse = |why| refuse_auxiliaries(why, &self.auxiliary, &members);
        let configuration = configuration(&members, &self.auxiliary).map_err(refuse)?;
        // With half of the votes they would have to hold every byte, and be auxiliary by name alone.
        if !self.auxiliary.is_empty() && !has_active_quorum(&configuration) {
            return Err(refuse(ChangeRefused::Auxiliary));
        }
        Ok(members)
    }
}

/// The refusal of a kind that not all nodes know.
fn too_old(kind: LogKind) -> Refusal {
    let sentence = format!(
        "a log of kind {kind} needs version {KINDS}, and this cluster has not agreed on it yet: start the newer program on every node, \
         and wait until `logberg status` shows version {KINDS}"
    );
    Refusal::new("refused", sentence)
}

/// Whether a log with so many full members may want so many copies.
pub(super) fn check_copies(min_copies: u32, full: usize) -> Result<(), Refusal> {
    match min_copies as usize <= full {
        true => Ok(()),
        false => Err(Refusal::new(
            "refused",
            format!(
                "{min_copies} copies need {min_copies} voters that hold all bytes, and the log has {full}: choose fewer, or add voters first (logberg members add)"
            ),
        )),
    }
}

pub(super) fn copies_too_old() -> Refusal {
    let sentence = format!(
        "the number of copies needs version {WISHES}, and this cluster has not agreed on it yet: start the newer program on every node, \
         and wait until `logberg status` shows version {WISHES}"
    );
    Refusal::new("refused", sentence)
}

pub(super) fn copies_of_a_machine(kind: LogKind) -> Refusal {
    Refusal::new(
        "bad-request",
        format!(
            "a log of kind {kind} is written by its machine, by majority: leave the number of copies away"
        ),
    )
}

/// ‡ The refusal of a name whose log has not ended: the name is free once it has.
fn not_ended(name: &str, id: LogId) -> Refusal {
    let sentence = format!(
        "the log {name} is being deleted and has not ended yet (log {id}): start or reconnect its nodes, or free the name with `logberg log delete {name} --abandon`"
    );
    Refusal::new("not-in-force", sentence).key("logs", name)
}

/// The reason why a log cannot have these auxiliaries, and what would be possible.
fn refuse_auxiliaries(why: ChangeRefused, auxiliary: &[u32], members: &[(u32, u32)]) -> Refusal {
    let all = listed(&mut members.iter().map(|(node, _)| *node));
    let sentence = match why {
        ChangeRefused::UnknownNode(node) => {
            format!("node {node} is no member: choose auxiliaries among {all}")
        }
        _ => format!(
            "auxiliaries {} of {all} have half of the votes or more, and the others could agree on nothing without them: choose fewer",
            listed(&mut auxiliary.iter().copied())
        ),
    };
    Refusal::new("bad-request", sentence)
}

fn listed(nodes: &mut dyn Iterator<Item = u32>) -> String {
    let nodes: Vec<String> = nodes.map(|node| node.to_string()).collect();
    nodes.join(", ")
}
