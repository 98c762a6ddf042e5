//! Groups and the nodes that answer clients of keys, as all nodes that are alive tell.

use anyhow::Result;
use client::Client;
use client::admin::Status;
use client::leader::leaders_by;
use door::range_of;
use serde::Serialize;
use terminal::show;

use super::probe::{self, Probe};

pub struct View {
    /// Nodes whose disk takes nothing more of some group's log.
    pub full: Vec<u64>,
    /// In the order of their slots.
    pub groups: Vec<Group>,
    pub nodes: Vec<Node>,
}

/// One group.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    pub group: String,
    pub first_slot: u16,
    pub last_slot: u16,
    pub leader: Option<u64>,
    /// Those that can lead.
    pub nodes: Vec<u64>,
    /// Those that host it with a vote, and those of them that say that they have its whole state.
    pub members: Vec<u64>,
    pub whole: Vec<u64>,
    /// The words with which its leader serves nothing of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Node {
    pub node: u64,
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
pub fn groups_of(all: &[Status]) -> Vec<Group> {
    let leaders = leaders_by(all);
    let groups = leaders.iter().filter_map(|log| {
        let (first_slot, last_slot) = range_of(&log.log)?;
        let mut nodes: Vec<u64> = log.candidates.iter().map(|one| one.node).collect();
        nodes.sort_unstable();
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
        let voters = weights.into_iter().filter(|member| member.weight > 0);
        let voters = voters.filter(|member| !member.auxiliary);
        let mut members: Vec<u64> = voters.map(|member| member.node).collect();
        members.sort_unstable();
        let is_whole = |log: &client::admin::LogStatus| {
            let state = log.state.as_ref();
            state.is_some_and(|state| state.whole) && log.role != "stopped"
        };
        let whole = said().filter(|(node, log)| members.contains(node) && is_whole(log));
        let mut whole: Vec<u64> = whole.map(|(node, _)| node).collect();
        whole.sort_unstable();
        whole.dedup();
        Some(Group {
            group: log.log.clone(),
            first_slot,
            last_slot,
            leader: log.leader,
            nodes,
            members,
            whole,
            refusal: None,
        })
    });
    let mut groups: Vec<Group> = groups.collect();
    groups.sort_by_key(|group| (group.first_slot, group.last_slot));
    groups
}

impl View {
    /// Asks all nodes, and tries where they answer clients.
    pub fn of(client: &Client) -> Result<View, client::AdminError> {
        let all = client.statuses()?;
        let mut groups = groups_of(&all);
        // The last is the one that answered first: it said where the others are.
        let known = all.last().map(|status| &status.nodes[..]);
        let nodes = known.into_iter().flatten().map(|node| {
            let metrics = node.alive.then(|| client.metrics_of(&node.address).ok());
            let kv = metrics.flatten().map(|metrics| metrics["kv"].clone());
            let figure = |name: &str| kv.as_ref().and_then(|kv| kv[name].as_u64());
            // A node knows best about itself.
            let own = all.iter().find(|status| status.node == node.id);
            let own = own.and_then(|status| status.nodes.iter().find(|own| own.is_self));
            let door = own.unwrap_or(node).kv.clone();
            let led = groups.iter().filter(|group| group.leader == Some(node.id));
            Node {
                node: node.id,
                address: node.address.clone(),
                alive: node.alive,
                probe: door
                    .as_ref()
                    .filter(|_| node.alive)
                    .map(|door| probe::ask(door)),
                kv: door,
                groups_led: led.count(),
                clients: figure("clients"),
                commands_per_second: figure("commands_per_second"),
            }
        });
        let nodes: Vec<Node> = nodes.collect();
        for node in &nodes {
            ask_leader(node, &mut groups);
        }
        let is_full = |status: &&Status| {
            let mut warnings = status.health.warnings.iter();
            warnings
                .any(|one| one.active && one.code == "disk-full" && one.node == Some(status.node))
        };
        let full = all.iter().filter(is_full).map(|status| status.node);
        Ok(View {
            full: full.collect(),
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
            let mut row = vec![node.node.into(), at.into(), show::number(node.groups_led)];
            match node.kv.is_some() && node.alive {
                true => row.extend([known(node.clients), known(node.commands_per_second)]),
                false => row.extend([show::number(""), show::number("")]),
            }
            table.add_row(row);
        }
        show::lines(&table)
    }
}

/// Has a node say of the groups that it leads whether it serves them. One that is not reached is told of otherwise.
fn ask_leader(node: &Node, groups: &mut [Group]) {
    let (Some(place), Some(Probe::Node(_))) = (&node.kv, &node.probe) else {
        return;
    };
    let led = groups.iter_mut();
    let led: Vec<&mut Group> = led
        .filter(|group| group.leader == Some(node.node))
        .collect();
    let slots: Vec<u16> = led.iter().map(|group| group.first_slot).collect();
    let refusals = probe::refusals(place, &slots).unwrap_or_default();
    for (group, refusal) in led.into_iter().zip(refusals) {
        group.refusal = refusal;
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
            group.group.clone(),
            format!("{}-{}", group.first_slot, group.last_slot),
            group
                .leader
                .map_or_else(|| "nobody".to_owned(), |leader| leader.to_string()),
            listed(&group.nodes),
            listed(&group.whole),
        ]);
    }
    show::lines(&table)
}
