//! `members`: the nodes, their weights, and the changes under way (docs/wire.md).

use std::collections::BTreeSet;

use formats::LogId;
use paxos::{Configuration, NodeId, Role};
use replica::Log;
use serde::Serialize;
use wire::NodeKind;

use super::awaiting::{Answer, Commands, Want};
use super::logs::LogList;
use crate::counts::micros;
use crate::directory::DIRECTORY;
use crate::greeting::Caller;
use crate::membership::change::{names, sentences};
use crate::membership::plan::{Goal, plan};
use crate::node::Node;
use crate::peers::Peer;
use wire::Refusal;

#[derive(Serialize)]
struct Shown<'a> {
    /// The node that answers.
    node: u32,
    version: u64,
    /// The version in which logs are written.
    cluster_version: u8,
    nodes: Vec<ShownNode<'a>>,
    logs: Vec<ShownLog<'a>>,
    removed: &'a BTreeSet<u32>,
}

#[derive(Serialize)]
struct ShownNode<'a> {
    id: u32,
    address: &'a str,
    zone: Option<&'a str>,
    kind: NodeKind,
    alive: bool,
    /// Since the answering node last heard of it, if it did since its own start; none for itself.
    last_heard_ms: Option<u64>,
    leaving: bool,
    /// The newest version that it speaks.
    newest_version: u8,
    /// The name in its certificate, by which alone it is believed.
    #[serde(skip_serializing_if = "str::is_empty")]
    certificate: &'a str,
    /// It lost its disk, and that node has its certificate by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<u32>,
}

#[derive(Serialize)]
struct ShownLog<'a> {
    id: u32,
    name: &'a str,
    leader: Option<u32>,
    /// Whether the answering node leads the log, and knows who holds how much.
    leads: bool,
    era: u32,
    output_bytes: u64,
    members: Vec<ShownMember>,
    /// The steps, each a sentence; none if all is as wanted.
    steps: Vec<String>,
    /// The reason why the next step is not made yet.
    waits_for: Option<String>,
}

#[derive(Serialize)]
struct ShownMember {
    node: u32,
    weight: u32,
    wanted: u32,
    role: &'static str,
    /// The bytes of the log's untrimmed ones that are durable there, by the node's word; `None` where that word is old.
    held_bytes: Option<u64>,
}

struct FreshMembers(LogList);

impl Want for FreshMembers {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        Answer::List(node.members_line(self.0))
    }
}

impl Node {
    /// `members [local] [after=ID] [limit=N]`
    pub(super) fn list_members(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        request.check()?;
        let list = LogList::asked(request)?;
        if !request.flag("local")? {
            return self.await_directory(caller, FreshMembers(list));
        }
        let line = self.members_line(list);
        self.env.answer(*conn, line);
        Ok(())
    }

    fn members_line(&self, list: LogList) -> String {
        let members = &self.cluster.directory.members;
        let own = self.env.own.identity.node;
        let last_heard_ms = |node: NodeId| {
            let heard = self.peers.get(node)?.pulse.heard_at()?;
            Some(micros(self.env.now - heard) / 1000)
        };
        let nodes = self
            .cluster
            .directory
            .nodes
            .iter()
            .map(|(node, entry)| ShownNode {
                id: node.0,
                address: &entry.address,
                zone: members.zones.get(&node.0).map(String::as_str),
                kind: entry.kind,
                alive: self.is_heard(*node),
                last_heard_ms: last_heard_ms(*node),
                leaving: members.leaving.contains(&node.0),
                newest_version: entry.newest,
                certificate: &entry.certificate,
                replaced_by: entry.replaced_by,
            });
        wire::ok(&Shown {
            node: own.0,
            version: members.version,
            cluster_version: self.cluster.directory.versions.agreed,
            nodes: nodes.collect(),
            logs: list
                .of(names(&self.cluster.directory), |(id, _)| *id)
                .map(|(id, name)| self.shown_log(id, name))
                .collect(),
            removed: &members.removed,
        })
    }

    pub(super) fn is_heard(&self, node: NodeId) -> bool {
        let is_alive = || self.peers.get(node).is_some_and(Peer::is_alive);
        node == self.env.own.identity.node || is_alive()
    }

    fn shown_log<'a>(&'a self, id: LogId, name: &'a str) -> ShownLog<'a> {
        let members = &self.cluster.directory.members;
        let nothing = Default::default();
        let wanted = members.wanted.get(&id.0).map_or(&nothing, |w| &w.weights);
        // A replica that stopped knows of nothing that came since: its node says what it would if it had none.
        let log = self.logs.get(&id).filter(|log| !log.is_stopped());
        let empty = Configuration::default();
        let configuration = log.map_or(&empty, |log| &log.engine().state().configuration);
        let goal = Goal {
            weights: wanted,
            zones: &members.zones,
            silent: &self.cluster.silent(&self.env, &self.peers),
        };
        let steps = log.and_then(|_| plan(configuration, goal));
        let output_bytes = log.map_or(0, |log| replica::output_bytes(log.engine().state()));
        let known = configuration.members().iter().map(|member| member.node);
        let directory = &self.cluster.directory;
        let nodes = directory.nodes.keys().copied();
        let hosts = nodes.filter(|node| directory.hosts(id, *node));
        let all: BTreeSet<NodeId> = hosts.chain(known).collect();
        let members = all.into_iter().map(|node| ShownMember {
            node: node.0,
            weight: configuration.weight(node),
            wanted: wanted.get(&node.0).copied().unwrap_or_default(),
            role: role(log, node),
            held_bytes: log.and_then(|log| {
                let missing = match node == self.env.own.identity.node {
                    true => Some(log.missing_bytes()),
                    // A silent node misses what was appended since its last word, too.
                    false
                        if log.is_leading() && self.is_heard(node) && !log.has_stopped_at(node) =>
                    {
                        log.engine().peer_missing_bytes(node)
                    }
                    false => None,
                };
                missing.map(|missing| output_bytes.saturating_sub(missing))
            }),
        });
        let waits = self.cluster.waits_for(id);
        let waits = waits.filter(|why| !why.is_empty()).map(str::to_owned);
        let directs = id == DIRECTORY && log.is_some_and(Log::is_leading);
        let waits = waits.or_else(|| {
            directs
                .then(|| self.cluster.dismissal_waits(self.sight()))
                .flatten()
        });
        let waits = waits.or_else(|| self.unheard_leader(log?));
        ShownLog {
            id: id.0,
            name,
            leader: log.and_then(|log| Some(log.engine().leader()?.0.0)),
            leads: log.is_some_and(Log::is_leading),
            era: log.map_or(0, |log| log.engine().state().era.0),
            output_bytes,
            members: members.collect(),
            steps: sentences(Some(configuration), &steps.unwrap_or_default()),
            waits_for: waits,
        }
    }
}

impl Node {
    /// The sentence that says who is waited for where this node hears no leader of a log, which may have one.
    fn unheard_leader(&self, log: &Log) -> Option<String> {
        if log.engine().leader().is_some() {
            return None;
        }
        let own = self.env.own.identity.node;
        let members = log.engine().state().configuration.members().iter();
        let silent = members.map(|member| member.node);
        let silent = silent.filter(|node| *node != own && !self.is_heard(*node));
        let silent: Vec<String> = silent.map(|node| format!("node {node}")).collect();
        let why = match silent.is_empty() {
            true => String::new(),
            false => format!(", and does not hear {}", silent.join(" and ")),
        };
        Some(format!("its leader: node {own} knows of none{why}"))
    }
}

fn role(log: Option<&Log>, node: NodeId) -> &'static str {
    let Some(log) = log else { return "unknown" };
    let own = log.engine().node() == node;
    let leader = match log.role() {
        Role::Leader { .. } => own,
        Role::Follower { leader, .. } => leader == node,
        Role::Candidate => false,
    };
    let configuration = &log.engine().state().configuration;
    match (
        configuration.contains(node),
        configuration.is_auxiliary(node),
    ) {
        _ if leader => "leader",
        (true, true) => "auxiliary",
        (true, false) => "voter",
        (false, _) => "learner",
    }
}
