//! Groups and the nodes that answer clients of keys, as all nodes that are alive tell.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use client::admin::{NodeStatus, SlotsTold, Status};
use client::answer::Code;
use client::leader::leaders_by;
use client::{AdminError, Client};
use formats::slots::range_of;
use serde::Serialize;
use terminal::show;
use wire::told::SlotsRun;

use super::probe::{self, Probe};
use super::served::{self, KeysOfSlots};

/// The directory, and what a node says besides its status, are waited for so long: whoever looks at a cluster in trouble wants what is known soon.
pub const SOON: Duration = Duration::from_secs(3);

pub struct View {
    /// Which group is to serve which slots; `None`: log 0 has no quorum that answers.
    pub map: Option<SlotsTold>,
    /// Nodes that others hear, and this command does not: only they know what they lead and have.
    pub unheard: Vec<u64>,
    /// Nodes whose disk takes nothing more of some group's log.
    pub full: Vec<u64>,
    /// In the order of their slots.
    pub groups: Vec<Group>,
    pub nodes: Vec<Node>,
}

/// One group.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    pub name: String,
    /// The runs of slots that it serves, by the map of log 0. `null`: nobody told.
    pub slots: Option<Vec<SlotsRun>>,
    /// Whether it is to have slots.
    pub joined: bool,
    /// One of its slots.
    #[serde(skip)]
    pub first_slot: Option<u16>,
    pub leader: Option<u64>,
    pub can_lead: Vec<u64>,
    /// Those that host it with a vote, and those of them that say that they have its whole state.
    pub voters: Vec<u64>,
    pub whole: Vec<u64>,
    /// The words with which its leader serves nothing of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Where it serves some: the runs of slots that are said to be its own and that it serves nothing of, and its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unserved: Option<Unserved>,
    /// So many of its slots its leader did not speak of in time.
    #[serde(skip)]
    pub untold: usize,
}

/// Slots that the map gives to a group, and that this does not have.
#[derive(Clone, Debug, Serialize)]
pub struct Unserved {
    pub slots: Vec<SlotsRun>,
    pub why: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Node {
    pub id: u64,
    pub address: String,
    pub alive: bool,
    /// Where clients are told to find it, if it answers them.
    pub kv: Option<String>,
    /// The answer that came from there to here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    pub groups_led: usize,
    pub clients: Option<u64>,
    pub commands_per_second: Option<u64>,
}

/// The groups that are there, in the order of their slots.
pub fn groups_of(all: &[Status], map: Option<&SlotsTold>) -> Vec<Group> {
    let leaders = leaders_by(all);
    let is_known = |name: &str| map.is_some_and(|map| map.groups.iter().any(|g| g.name == name));
    let groups = leaders.iter().filter_map(|log| {
        // Without a map the names of the first groups say what they are.
        let begins_at = range_of(&log.log).map(|(first, _)| first);
        if !is_known(&log.log) && begins_at.is_none() {
            return None;
        }
        let its = |map: &SlotsTold| {
            let parts = map.served.iter().filter(|part| part.group == log.log);
            spans_of(parts.map(|part| (part.first, part.last)))
        };
        let spans = map.map(its);
        let first_slot = match &spans {
            Some(spans) => spans.first().map(|(first, _)| *first),
            None => begins_at,
        };
        let joined = map.is_some_and(|map| {
            let mut groups = map.groups.iter();
            groups.any(|group| group.name == log.log && group.joined)
        });
        let mut can_lead: Vec<u64> = log.candidates.iter().map(|one| one.node).collect();
        can_lead.sort_unstable();
        let said = || {
            let of_status = |status: &Status| {
                let log = status.logs.iter().find(|own| own.id == log.id);
                log.map(|log| (status.node, log.clone()))
            };
            all.iter().filter_map(of_status)
        };
        // The latest word on members is that of the one who leads.
        let by_leader = said().find(|(node, _)| Some(*node) == log.leader);
        let weights = by_leader.or_else(|| said().next());
        let weights = weights.map(|(_, log)| log.weights).unwrap_or_default();
        let full = weights.into_iter().filter(|member| member.weight > 0);
        let full = full.filter(|member| !member.auxiliary);
        let mut voters: Vec<u64> = full.map(|member| member.node).collect();
        voters.sort_unstable();
        let is_whole = |log: &client::admin::LogStatus| {
            let state = log.state.as_ref();
            state.is_some_and(|state| state.whole) && log.role != "stopped"
        };
        let whole = said().filter(|(node, log)| voters.contains(node) && is_whole(log));
        let mut whole: Vec<u64> = whole.map(|(node, _)| node).collect();
        whole.sort_unstable();
        whole.dedup();
        // Where the leader itself is not heard, those that follow it say who it is.
        let follows = said().filter(|(_, own)| own.term == log.term);
        let followed = || follows.into_iter().find_map(|(_, own)| own.leader);
        Some(Group {
            name: log.log.clone(),
            slots: spans.map(|spans| spans.into_iter().map(run).collect()),
            joined,
            first_slot,
            leader: log.leader.or_else(followed),
            can_lead,
            voters,
            whole,
            refusal: None,
            unserved: None,
            untold: 0,
        })
    });
    let mut groups: Vec<Group> = groups.collect();
    let order = |group: &Group| (group.first_slot.unwrap_or(u16::MAX), group.name.clone());
    groups.sort_by_key(order);
    groups
}

fn run((first, last): (u16, u16)) -> SlotsRun {
    SlotsRun { first, last }
}

/// Neighbours are one.
pub fn spans_of(parts: impl Iterator<Item = (u16, u16)>) -> Vec<(u16, u16)> {
    let mut spans: Vec<(u16, u16)> = Vec::new();
    for (first, last) in parts {
        match spans.last_mut() {
            Some(before) if before.1 + 1 == first => before.1 = last,
            _ => spans.push((first, last)),
        }
    }
    spans
}

pub fn shown((first, last): (u16, u16)) -> String {
    match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    }
}

/// Some spans, and how many more there are.
pub fn listed_spans(runs: &[SlotsRun]) -> String {
    const SHOWN: usize = 4;
    let first = runs
        .iter()
        .take(SHOWN)
        .map(|run| shown((run.first, run.last)))
        .collect::<Vec<_>>()
        .join(" ");
    match runs.len().saturating_sub(SHOWN) {
        0 if runs.is_empty() => "none".to_owned(),
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

impl View {
    /// Asks all nodes, and tries where they answer clients: all at once, so that one that is silent holds up no other.
    pub fn of(client: &Client) -> Result<View, client::AdminError> {
        let all = client.statuses()?;
        let soon = client.within(SOON);
        // The last is the one that answered first: it said where the others are.
        let known = all.last().map_or(&[][..], |status| &status.nodes);
        let (map, mut nodes) = thread::scope(|scope| {
            let map = scope.spawn(|| soon.slots(None));
            let nodes = known.iter().map(|node| {
                let (all, soon) = (&all, &soon);
                scope.spawn(move || look_at(node, all, soon))
            });
            // All are asked before the first is waited for.
            let nodes: Vec<_> = nodes.collect();
            let nodes = nodes.into_iter().map(heard);
            let nodes: Vec<Node> = nodes.collect();
            (heard(map), nodes)
        });
        let map = match map {
            Ok(map) => Some(map),
            // A token that may not ask is refused: it is not told that there is nothing.
            Err(AdminError::Refused { server, refusal })
                if matches!(refusal.code, Code::Forbidden | Code::Unauthenticated) =>
            {
                return Err(AdminError::Refused { server, refusal });
            }
            Err(_) => None,
        };
        let mut groups = groups_of(&all, map.as_ref());
        for node in &mut nodes {
            let led = groups.iter().filter(|group| group.leader == Some(node.id));
            node.groups_led = led.count();
        }
        ask_leaders(&nodes, &mut groups);
        let is_full = |status: &&Status| {
            let mut warnings = status.health.warnings.iter();
            warnings
                .any(|one| one.active && one.code == "disk-full" && one.node == Some(status.node))
        };
        let full = all.iter().filter(is_full).map(|status| status.node);
        let is_unheard = |node: &&Node| node.alive && !all.iter().any(|one| one.node == node.id);
        let unheard = nodes.iter().filter(is_unheard).map(|node| node.id);
        Ok(View {
            unheard: unheard.collect(),
            full: full.collect(),
            map,
            nodes,
            groups,
        })
    }

    pub fn nodes_table(&self) -> String {
        let headings = ["NODE", "REDIS CLIENTS AT", "LEADS", "CLIENTS", "COMMANDS/S"];
        let mut table = show::table(&headings);
        let known =
            |value: Option<u64>| show::number(value.map_or("?".to_owned(), |n| n.to_string()));
        for node in &self.nodes {
            let at = match (&node.kv, node.alive) {
                (Some(kv), true) => kv.clone(),
                (Some(kv), false) => format!("{kv} (silent)"),
                (None, true) => "no (it has no --kv)".to_owned(),
                (None, false) => "? (silent)".to_owned(),
            };
            let mut row = vec![node.id.into(), at.into(), show::number(node.groups_led)];
            match node.kv.is_some() && node.alive {
                true => row.extend([known(node.clients), known(node.commands_per_second)]),
                false => row.extend([show::number(""), show::number("")]),
            }
            table.add_row(row);
        }
        show::lines(&table)
    }
}

/// The value that a thread came to. A panic goes on here.
fn heard<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    let value = thread.join();
    value.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A node as it and others tell, and what answers where clients are told to find it.
fn look_at(node: &NodeStatus, all: &[Status], client: &Client) -> Node {
    // A node knows best about itself.
    let own = all.iter().find(|status| status.node == node.id);
    let said = own.and_then(|status| status.nodes.iter().find(|own| own.is_self));
    let door = said.unwrap_or(node).kv.clone();
    // One that did not answer just now is not asked again.
    let metrics = own.filter(|_| node.alive);
    let metrics = metrics.and_then(|_| client.metrics_of(&node.address).ok());
    let kv = metrics.map(|metrics| metrics["kv"].clone());
    let figure = |name: &str| kv.as_ref().and_then(|kv| kv[name].as_u64());
    Node {
        id: node.id,
        address: node.address.clone(),
        alive: node.alive,
        probe: door
            .as_ref()
            .filter(|_| node.alive)
            .map(|door| probe::ask(door)),
        kv: door,
        groups_led: 0,
        clients: figure("clients"),
        commands_per_second: figure("commands_per_second"),
    }
}

/// Has each node say of the groups that it leads whether it serves them. One that is not reached is told of otherwise.
fn ask_leaders(nodes: &[Node], groups: &mut [Group]) {
    let keys = KeysOfSlots::new();
    let is_reached = |node: &&Node| matches!(node.probe, Some(Probe::Node(_)));
    let asked = thread::scope(|scope| {
        let asked = nodes.iter().filter(is_reached).filter_map(|node| {
            let place = node.kv.as_ref()?;
            let led = groups.iter().filter(|group| group.leader == Some(node.id));
            let slots: Vec<u16> = led.flat_map(slots_of).collect();
            let keys = &keys;
            let asked = scope.spawn(move || served::refusals(place, &slots, keys));
            Some((node.id, asked))
        });
        let asked: Vec<_> = asked.collect();
        let asked = asked
            .into_iter()
            .map(|(node, asked)| (node, heard(asked).0));
        asked.collect::<Vec<_>>()
    });
    for (node, answers) in asked {
        let mut answers = answers.into_iter();
        for group in groups.iter_mut().filter(|group| group.leader == Some(node)) {
            let slots = slots_of(group);
            let its: Vec<Option<String>> = answers.by_ref().take(slots.len()).collect();
            take_answers(group, &slots, &its);
        }
    }
}

/// The slots that a group is asked for. One without slots serves nothing.
fn slots_of(group: &Group) -> Vec<u16> {
    match &group.slots {
        Some(runs) => runs.iter().flat_map(|run| run.first..=run.last).collect(),
        None => group.first_slot.into_iter().collect(),
    }
}

/// Notes the answers of a group's leader about the first of these slots: those that came.
fn take_answers(group: &mut Group, slots: &[u16], answers: &[Option<String>]) {
    group.untold = slots.len() - answers.len();
    let refused = slots.iter().zip(answers);
    let refused = refused.filter_map(|(slot, why)| Some((*slot, why.as_ref()?)));
    let refused: Vec<(u16, &String)> = refused.collect();
    let Some(why) = refused.first().map(|(_, why)| (*why).clone()) else {
        return;
    };
    match refused.len() == slots.len() {
        true => group.refusal = Some(why),
        false => {
            let spans = spans_of(refused.iter().map(|(slot, _)| (*slot, *slot)));
            let slots = spans.into_iter().map(run).collect();
            group.unserved = Some(Unserved { slots, why });
        }
    }
}

pub fn table_of(groups: &[Group]) -> String {
    let mut table = show::table(&["GROUP", "SLOTS", "LEADER", "CAN LEAD", "WHOLE"]);
    let listed = |nodes: &[u64]| {
        let nodes: Vec<String> = nodes.iter().map(u64::to_string).collect();
        nodes.join(" ")
    };
    for group in groups {
        table.add_row([
            group.name.clone(),
            group
                .slots
                .as_ref()
                .map_or("?".to_owned(), |spans| listed_spans(spans)),
            group
                .leader
                .map_or_else(|| "nobody".to_owned(), |leader| leader.to_string()),
            listed(&group.can_lead),
            listed(&group.whole),
        ]);
    }
    show::lines(&table)
}
