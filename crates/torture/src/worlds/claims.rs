//! The words of `status` and `members` that the pages promise, against what is so.
//!
//! | so | said by | page |
//! |---|---|---|
//! | a node is silent | `node-unreachable` by each of the others; `members`: not alive, and no word of what it holds | operations.md, wire.md |
//! | two do not hear each other, somebody hears both | `pair-cannot-talk`, which names both | operations.md |
//! | a disk is full | `disk-full`, which names the node, by every node | operations.md |
//! | nothing is done to anybody | no warning but those that tell how the cluster was built; all hold all; auxiliaries rest; every change that was answered is in force | operations.md, membership.md |

use client::admin::{Status, Warning};
use client::members::Members;

/// A node's word.
#[derive(Clone, Debug)]
pub struct Said {
    pub node: u64,
    pub status: Status,
}

/// A node that is silent, as another that hears the rest sees it.
pub fn of_silence(said: &Said, silent: u64, wrong: &mut Vec<String>) {
    let by = said.node;
    if !warns(&said.status, "node-unreachable", silent) {
        wrong.push(format!(
            "node {silent} is silent, and node {by} does not warn of it"
        ));
    }
    let node = said.status.nodes.iter().find(|node| node.id == silent);
    if node.is_none_or(|node| node.alive) {
        wrong.push(format!(
            "node {silent} is silent, and the status of node {by} calls it alive"
        ));
    }
}

pub fn of_silent_member(members: &Members, silent: u64, wrong: &mut Vec<String>) {
    let node = members.nodes.iter().find(|node| node.id == silent);
    match node {
        Some(node) if node.alive => {
            wrong.push(format!(
                "node {silent} is silent, and `members` calls it alive"
            ));
        }
        Some(node) if node.last_heard_ms.is_none() => {
            wrong.push(format!(
                "`members` does not say since when node {silent} is silent"
            ));
        }
        Some(_) => {}
        None => wrong.push(format!("`members` does not know node {silent}")),
    }
    for log in &members.logs {
        let member = log.members.iter().find(|member| member.node == silent);
        if let Some(held) = member.and_then(|member| member.held_bytes) {
            wrong.push(format!(
                "node {silent} is silent, and `members` says that it holds {held} bytes of {}",
                log.name
            ));
        }
    }
}

/// Two nodes that do not hear each other, at a third.
pub fn of_pair(said: &Said, one: u64, other: u64, wrong: &mut Vec<String>) {
    let names = |warning: &Warning| {
        let pair = (warning.node, warning.with);
        pair == (Some(one), Some(other)) || pair == (Some(other), Some(one))
    };
    let warnings = &said.status.health.warnings;
    let told = warnings
        .iter()
        .any(|warning| warning.code == "pair-cannot-talk" && warning.active && names(warning));
    if !told {
        wrong.push(format!(
            "nodes {one} and {other} cannot talk, and node {} does not say so",
            said.node
        ));
    }
}

pub fn of_full(said: &Said, full: u64, wrong: &mut Vec<String>) {
    if !warns(&said.status, "disk-full", full) {
        wrong.push(format!(
            "the disk of node {full} is full, and node {} does not say so",
            said.node
        ));
    }
}

fn warns(status: &Status, code: &str, about: u64) -> bool {
    let mut warnings = status.health.warnings.iter();
    warnings.any(|warning| warning.code == code && warning.active && warning.node == Some(about))
}

/// Warnings of what the machine does, or of how the cluster was built. They are no word about a fault.
const NO_MATTER: [&str; 9] = [
    "disk-slow",
    "disk-stalled",
    "election",
    "few-copies",
    "insecure",
    "leader-flapping",
    "process-paused",
    "replica-slow",
    "zone-at-risk",
];

/// Nothing is done to anybody, and bytes are being appended.
pub fn of_health(said: &Said, nodes: &[u64], wrong: &mut Vec<String>) {
    let by = said.node;
    let status = &said.status;
    for warning in &status.health.warnings {
        if warning.active && !NO_MATTER.contains(&warning.code.as_str()) {
            wrong.push(format!(
                "nothing is wrong, and node {by} says {}: {}",
                warning.code, warning.sentence
            ));
        }
    }
    let mut known: Vec<u64> = status.nodes.iter().map(|node| node.id).collect();
    known.sort_unstable();
    let mut all = nodes.to_vec();
    all.sort_unstable();
    if known != all {
        wrong.push(format!(
            "node {by} knows the nodes {known:?}, and there are {all:?}"
        ));
    }
    for node in status
        .nodes
        .iter()
        .filter(|node| !node.alive && !node.is_self)
    {
        wrong.push(format!(
            "node {by} calls node {} silent, and it runs",
            node.id
        ));
    }
    for log in &status.logs {
        let name = &log.name;
        if log.role == "stopped" || log.leader.is_none() {
            wrong.push(format!(
                "node {by} takes no part in {name}, or knows no leader"
            ));
        }
        if log.role == "leader" && log.engaged {
            wrong.push(format!("an auxiliary of {name} does not come to rest"));
        }
    }
    for what in &status.waiting_for {
        wrong.push(format!("node {by} says: {what}"));
    }
}

/// A leader's word may be some appends older than the members' are.
const LATE_BYTES: u64 = 4 << 20;

pub fn of_members(members: &Members, nodes: &[u64], wrong: &mut Vec<String>) {
    for node in &members.nodes {
        if !nodes.contains(&node.id) {
            wrong.push(format!("`members` knows node {}, which left", node.id));
        }
        if !node.alive {
            wrong.push(format!(
                "`members` calls node {} silent, and it runs",
                node.id
            ));
        }
    }
    for log in &members.logs {
        let name = &log.name;
        for step in &log.steps {
            wrong.push(format!("a step of {name} is left: {step}"));
        }
        if let Some(why) = &log.waits_for {
            wrong.push(format!("a change of {name} waits: {why}"));
        }
        if !log.leads {
            wrong.push(format!("nobody leads {name}, says `members`"));
            continue;
        }
        for member in &log.members {
            let id = member.node;
            if member.weight != member.wanted {
                let (has, wants) = (member.weight, member.wanted);
                wrong.push(format!(
                    "node {id} weighs {has} in {name}, and is to weigh {wants}"
                ));
            }
            let held = member.held_bytes;
            if member.role != "auxiliary"
                && held.is_none_or(|held| held + LATE_BYTES < log.output_bytes)
            {
                wrong.push(format!(
                    "node {id} holds {held:?} of {} bytes of {name}",
                    log.output_bytes
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::admin::{LogStatus, NodeStatus};
    use client::members::{Log, Member, Node};

    fn said(warnings: &[(&str, u64, Option<u64>)], alive: bool) -> Said {
        let mut status = Status::default();
        for (code, node, with) in warnings {
            status.health.warnings.push(Warning {
                code: (*code).to_owned(),
                active: true,
                node: Some(*node),
                with: *with,
                ..Warning::default()
            });
        }
        for id in [1, 2] {
            status.nodes.push(NodeStatus {
                id,
                alive: id == 1 || alive,
                is_self: id == 1,
                ..NodeStatus::default()
            });
        }
        Said { node: 1, status }
    }

    fn found(look: impl Fn(&mut Vec<String>)) -> usize {
        let mut wrong = Vec::new();
        look(&mut wrong);
        wrong.len()
    }

    #[test]
    fn silence_that_is_not_told_is_seen() {
        let told = said(&[("node-unreachable", 2, None)], false);
        assert_eq!(found(|wrong| of_silence(&told, 2, wrong)), 0);
        assert_eq!(found(|wrong| of_silence(&said(&[], false), 2, wrong)), 1);
        assert_eq!(found(|wrong| of_silence(&said(&[], true), 2, wrong)), 2);
        let other = said(&[("node-unreachable", 3, None)], false);
        assert_eq!(found(|wrong| of_silence(&other, 2, wrong)), 1);
    }

    #[test]
    fn a_silent_member_of_which_more_is_said_than_is_known_is_seen() {
        let members = |alive, last_heard_ms, held_bytes| Members {
            nodes: vec![Node {
                id: 2,
                alive,
                last_heard_ms,
                ..Node::default()
            }],
            logs: vec![Log {
                members: vec![Member {
                    node: 2,
                    held_bytes,
                    ..Member::default()
                }],
                ..Log::default()
            }],
            ..Members::default()
        };
        let look = |members: Members| found(|wrong| of_silent_member(&members, 2, wrong));
        assert_eq!(look(members(false, Some(3), None)), 0);
        assert_eq!(look(members(false, Some(3), Some(7))), 1);
        assert_eq!(look(members(false, None, None)), 1);
        assert_eq!(look(members(true, None, Some(7))), 2);
        assert_eq!(look(Members::default()), 1);
    }

    #[test]
    fn a_pair_and_a_full_disk_must_be_named() {
        let pair = said(&[("pair-cannot-talk", 3, Some(2))], true);
        assert_eq!(found(|wrong| of_pair(&pair, 2, 3, wrong)), 0);
        assert_eq!(found(|wrong| of_pair(&pair, 2, 4, wrong)), 1);
        let full = said(&[("disk-full", 2, None)], true);
        assert_eq!(found(|wrong| of_full(&full, 2, wrong)), 0);
        assert_eq!(found(|wrong| of_full(&full, 1, wrong)), 1);
    }

    #[test]
    fn a_healthy_cluster_that_says_otherwise_is_seen() {
        let well = said(&[("few-copies", 0, None)], true);
        assert_eq!(found(|wrong| of_health(&well, &[2, 1], wrong)), 0);
        assert_eq!(found(|wrong| of_health(&well, &[1, 2, 3], wrong)), 1);
        let warned = said(&[("bytes-not-everywhere", 2, None)], false);
        assert_eq!(found(|wrong| of_health(&warned, &[1, 2], wrong)), 2);
        let mut engaged = well;
        engaged.status.logs.push(LogStatus {
            role: "leader".to_owned(),
            leader: Some(1),
            engaged: true,
            ..LogStatus::default()
        });
        assert_eq!(found(|wrong| of_health(&engaged, &[1, 2], wrong)), 1);
    }

    #[test]
    fn members_that_lack_bytes_or_weight_are_seen() {
        let member = |role: &str, wanted, held| Member {
            node: 1,
            weight: 1,
            wanted,
            role: role.to_owned(),
            held_bytes: held,
        };
        let look = |member: Member| {
            let members = Members {
                logs: vec![Log {
                    leads: true,
                    output_bytes: 9 << 20,
                    members: vec![member],
                    ..Log::default()
                }],
                ..Members::default()
            };
            found(|wrong| of_members(&members, &[1], wrong))
        };
        assert_eq!(look(member("voter", 1, Some(8 << 20))), 0);
        assert_eq!(look(member("auxiliary", 1, Some(0))), 0);
        assert_eq!(look(member("voter", 1, Some(4 << 20))), 1);
        assert_eq!(look(member("voter", 1, None)), 1);
        assert_eq!(look(member("voter", 2, Some(9 << 20))), 1);
    }
}
