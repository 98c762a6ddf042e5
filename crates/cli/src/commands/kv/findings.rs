//! Findings about what is wrong with groups of keys and with the places where clients find them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use formats::slots::{group_of, name_of};
use wire::quantity;

use super::probe::{self, Probe};
use super::view::{Group, Node, Unserved, View, listed_spans};
use crate::commands::doctor::finding::Finding;

const CHECK: &str = "groups of keys";

/// The findings; none if there are neither groups nor places for clients.
pub fn findings(view: &View) -> Vec<Finding> {
    let doors = view.nodes.iter().filter(|node| node.kv.is_some()).count();
    if view.groups.is_empty() {
        let found = format!(
            "{} Redis clients, and there is no group",
            match doors {
                1 => "1 node answers".to_owned(),
                _ => format!("{doors} nodes answer"),
            }
        );
        return match doors {
            0 => Vec::new(),
            _ => vec![Finding::better(CHECK, found, "logberg kv init")],
        };
    }
    let mut found: Vec<Finding> = missing(view).into_iter().collect();
    found.extend(given(view));
    found.extend(view.groups.iter().filter_map(|group| led(group, view)));
    found.extend(
        view.groups
            .iter()
            .filter_map(|group| stood_for(group, view)),
    );
    found.extend(view.groups.iter().filter_map(refused));
    found.extend(view.groups.iter().filter_map(unserved));
    found.extend(view.groups.iter().filter_map(untold));
    found.extend(unheard(view));
    found.extend(silent(view));
    found.extend(full(view));
    found.extend(view.nodes.iter().filter_map(|node| reached(node, view)));
    found.extend(spread(view));
    if found.is_empty() {
        let said = format!(
            "{}, each with a leader that clients reach where they are told",
            quantity::counted(view.groups.len() as u64, "group")
        );
        found.push(Finding::ok(CHECK, said));
    }
    found
}

/// Slots that no group serves.
fn missing(view: &View) -> Option<Finding> {
    let is_there = |name: &String| view.groups.iter().any(|group| group.name == *name);
    let given = view.map.as_ref().filter(|map| map.version > 0);
    let wanted: BTreeSet<String> = match given {
        // A group that left, and was deleted, is missed by nobody.
        Some(map) => map.wanted.iter().map(|part| part.group.clone()).collect(),
        None => {
            let (_, count) = group_of(&view.groups.first()?.name)?;
            (1..=count).map(|number| name_of(number, count)).collect()
        }
    };
    let mut names = wanted.into_iter();
    let first = names.find(|name| !is_there(name))?;
    let more = names.filter(|name| !is_there(name)).count();
    let and = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(Finding::must(
        CHECK,
        format!("{first}{and} is not there: nobody serves its slots"),
        "logberg kv init, which makes what is missing; or logberg restore, if there is a backup of it",
    ))
}

/// Slots that no group is to have, and such as are on their way.
fn given(view: &View) -> Option<Finding> {
    let map = view.map.as_ref()?;
    if map.version == 0 {
        let found = "no group was given slots yet: nothing is served";
        let help =
            "logberg kv init; where a restore stopped, logberg kv restore DIR again, which goes on";
        return Some(Finding::must(CHECK, found, help));
    }
    let moving = map
        .moving
        .iter()
        .map(|one| u32::from(one.last - one.first) + 1);
    let moving: u32 = moving.sum();
    (moving > 0).then(|| {
        let found = format!("{moving} slots are on their way to another group, and served meanwhile");
        Finding::better(CHECK, found, "wait (logberg kv map --wait); or name another group for them, which ends this move (logberg kv move)")
    })
}

fn led(group: &Group, view: &View) -> Option<Finding> {
    let name = &group.name;
    let Some(leader) = group.leader else {
        // One that is not heard may lead it.
        if !view.unheard.is_empty() {
            return None;
        }
        return Some(Finding::must(
            CHECK,
            format!("nobody leads {name}: its slots are not served"),
            "start or reconnect the silent nodes (logberg status); if all answer, ask again in some seconds",
        ));
    };
    let node = view.nodes.iter().find(|node| node.id == leader)?;
    if node.kv.is_some() {
        return None;
    }
    let answers = |id: &u64| {
        let node = view.nodes.iter().find(|node| node.id == *id);
        node.is_some_and(|node| node.alive && node.kv.is_some())
    };
    let other = group.can_lead.iter().find(|id| answers(id));
    let now = other.map_or_else(String::new, |other| {
        format!("; until then: logberg leader move {name} --to {other}")
    });
    Some(Finding::must(
        CHECK,
        format!(
            "node {leader} leads {name} and does not answer Redis clients: its slots are not served"
        ),
        format!("start node {leader} with --kv HOST:PORT{now}"),
    ))
}

/// A leader's own words on why it serves nothing: a restore that has not ended, for example.
fn refused(group: &Group) -> Option<Finding> {
    let (name, why) = (&group.name, group.refusal.as_ref()?);
    let leader = group.leader?;
    Some(Finding::must(
        CHECK,
        format!("node {leader} leads {name} and serves nothing of it: {why}"),
        "what its words say; for a restore: logberg kv restore DIR again, with the same backup, which goes on",
    ))
}

/// Slots that are said to be a group's, and that it does not have: after a restore of groups one by one, for example.
fn unserved(group: &Group) -> Option<Finding> {
    let (name, leader) = (&group.name, group.leader?);
    let Unserved { slots, why } = group.unserved.as_ref()?;
    let slots = listed_spans(slots);
    Some(Finding::must(
        CHECK,
        format!("node {leader} leads {name} and serves nothing of its slots {slots}: {why}"),
        "if it stays so, another group has their keys: logberg kv move SLOTS --to that group, which gives them to it in the map, too (docs/backup.md, \"Groups of keys\")",
    ))
}

/// Slots that a leader said nothing of in time: it is busy, or holds what is asked for since it lacks the slots.
fn untold(group: &Group) -> Option<Finding> {
    let (name, leader, untold) = (&group.name, group.leader?, group.untold);
    (untold > 0).then(|| {
        let slots = quantity::counted(untold as u64, "slot");
        Finding::better(
            CHECK,
            format!("node {leader} leads {name} and did not answer for {slots} of it within some seconds"),
            "ask again: it is busy, or the slots are about to come (logberg kv map)",
        )
    })
}

/// Whether some slot is not served, as far as this is known.
pub fn lacks_service(view: &View) -> bool {
    let of_group = |group: &Group| {
        let has_slots = group.slots.as_ref().is_none_or(|slots| !slots.is_empty());
        has_slots && (group.leader.is_none() || group.refusal.is_some() || group.unserved.is_some())
    };
    let is_given = view.map.as_ref().is_some_and(|map| map.version > 0);
    !view.groups.is_empty() && (!is_given || view.groups.iter().any(of_group))
}

/// Nodes that are alive, and do not answer this command.
fn unheard(view: &View) -> Option<Finding> {
    if view.unheard.is_empty() {
        return None;
    }
    let nodes = told(&view.unheard, "is alive, and does", "are alive, and do");
    Some(Finding::better(
        CHECK,
        format!(
            "{nodes} not answer from here: what is led and kept there is told as others know it"
        ),
        "ask from a machine that reaches all nodes, or name their addresses as they are reached from here (--server)",
    ))
}

/// Nodes that nobody hears.
fn silent(view: &View) -> Option<Finding> {
    let hosts = |node: &&Node| {
        view.groups
            .iter()
            .any(|group| group.voters.contains(&node.id))
    };
    let silent = view.nodes.iter().filter(|node| !node.alive).filter(hosts);
    let silent: Vec<u64> = silent.map(|node| node.id).collect();
    (!silent.is_empty()).then(|| {
        let found = format!(
            "{} silent: meanwhile groups have fewer copies",
            told(&silent, "is", "are")
        );
        Finding::better(
            CHECK,
            found,
            "start or reconnect what is silent (logberg status)",
        )
    })
}

/// Nodes, and what one of them does or several do: `node 3 is`, `nodes 1 and 2 are`.
fn told(nodes: &[u64], does: &str, many_do: &str) -> String {
    let names: Vec<String> = nodes.iter().map(u64::to_string).collect();
    match names.split_last() {
        Some((last, [])) => format!("node {last} {does}"),
        Some((last, others)) => format!("nodes {} and {last} {many_do}", others.join(", ")),
        None => String::new(),
    }
}

/// Full disks: half of them are too many.
fn full(view: &View) -> Option<Finding> {
    if view.full.is_empty() {
        return None;
    }
    let is_much = view.groups.iter().any(|group| {
        2 * group
            .voters
            .iter()
            .filter(|node| view.full.contains(node))
            .count()
            >= group.voters.len()
    });
    let then = match is_much {
        true => "writes are refused, and reading goes on",
        false => "writes go on while the others have room",
    };
    let disks = told(&view.full, "has a full disk", "have full disks");
    let found = format!("{disks}, up to the reserve: {then}");
    let change = "free space there (docs/first-aid.md, \"A full disk\"); logberg status shows how much there is";
    Some(match is_much {
        true => Finding::must(CHECK, found, change),
        false => Finding::better(CHECK, found, change),
    })
}

fn stood_for(group: &Group, view: &View) -> Option<Finding> {
    let Group {
        name,
        whole,
        voters,
        ..
    } = group;
    // Those that are not heard are told of by themselves.
    let is_heard = |node: &&u64| !view.unheard.contains(node);
    if whole.is_empty() && voters.iter().all(|node| is_heard(&node)) {
        return Some(Finding::must(
            CHECK,
            format!("no node that answers has the whole state of {name}: nothing of it is served"),
            "start the silent nodes that host it, with the directories that they had; if they are lost: docs/first-aid.md, \"Keys\"",
        ));
    }
    let without = voters.iter().filter(|node| !whole.contains(node));
    let is_silent = |id: &&u64| view.nodes.iter().any(|node| node.id == **id && !node.alive);
    let without = without.filter(|node| is_heard(node) && !is_silent(node));
    let without: Vec<u64> = without.copied().collect();
    if without.is_empty() {
        return None;
    }
    let doorless = view.nodes.iter().find(|node| {
        node.alive && node.kv.is_none() && voters.contains(&node.id) && !whole.contains(&node.id)
    });
    let change = match doorless {
        Some(node) => format!(
            "start node {} with --kv HOST:PORT: without it a node keeps no state of groups",
            node.id
        ),
        None => "wait until it is copied (logberg kv status); start the nodes that are silent, and read their logs if it does not come".to_owned(),
    };
    Some(Finding::better(
        CHECK,
        format!(
            "{} not have the whole state of {name}: {} of {} have",
            told(&without, "does", "do"),
            whole.len(),
            voters.len()
        ),
        change,
    ))
}

/// Whether clients find a node where they are told to.
fn reached(node: &Node, view: &View) -> Option<Finding> {
    let (id, place) = (node.id, node.kv.as_ref()?);
    let advertise =
        format!("start node {id} with --kv-advertise HOST:PORT, where clients reach it");
    let wrong = match node.probe.as_ref()? {
        // A busy one is there.
        Probe::Unreachable(why) if why.contains(probe::SILENT) => {
            return Some(Finding::better(
                CHECK,
                format!(
                    "node {id} takes a connection at {place} and says nothing within a second: it is busy, or stands still"
                ),
                format!(
                    "ask again; SLOWLOG GET at {place} tells what took long there, logberg status whether the node stands still"
                ),
            ));
        }
        Probe::Unreachable(why) => {
            format!(
                "node {id} is not reached at {place}, where clients are told to go, from here: {why}"
            )
        }
        Probe::Other => {
            format!(
                "what answers at {place}, where clients of node {id} are told to go, is no node of this cluster"
            )
        }
        Probe::Node(other) if *other != 0 && *other != id => {
            format!("node {other} answers at {place}, where clients of node {id} are told to go")
        }
        // Clients on other machines are told their own.
        Probe::Node(_)
            if is_loopback(place) && view.nodes.iter().any(|node| !is_loopback(&node.address)) =>
        {
            format!(
                "clients are told to find node {id} at {place}, which is their own machine wherever they are"
            )
        }
        Probe::Node(_) | Probe::Guarded => return None,
    };
    Some(Finding::must(CHECK, wrong, advertise))
}

fn is_loopback(place: &str) -> bool {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether some nodes lead more groups than others that could.
fn spread(view: &View) -> Option<Finding> {
    let can = |node: &&Node| {
        let leads = |group: &Group| group.can_lead.contains(&node.id);
        node.alive && node.kv.is_some() && view.groups.iter().any(leads)
    };
    let able = || view.nodes.iter().filter(can);
    let most = able().max_by_key(|node| node.groups_led)?;
    let least = able().min_by_key(|node| node.groups_led)?;
    if most.groups_led < least.groups_led + 2 {
        return None;
    }
    Some(Finding::better(
        CHECK,
        format!(
            "node {} leads {} groups, and node {} {}: the one executes what the others could",
            most.id, most.groups_led, least.id, least.groups_led
        ),
        "logberg kv init, which moves leaders and nothing else where all groups are there",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::super::doctor::finding::Verdict;
    use super::*;
    use wire::told::SlotsRun;

    /// Three nodes, of which each leads one of three groups.
    fn view() -> View {
        let node = |node: u64| Node {
            id: node,
            address: format!("10.0.0.{node}:7117"),
            alive: true,
            kv: Some(format!("10.0.0.{node}:7379")),
            probe: Some(Probe::Node(node)),
            groups_led: 1,
            clients: Some(0),
            commands_per_second: Some(0),
        };
        let group = |number: u16| Group {
            name: name_of(number, 3),
            slots: Some(vec![SlotsRun {
                first: 0,
                last: 5460,
            }]),
            joined: true,
            first_slot: Some(0),
            leader: Some(u64::from(number)),
            can_lead: vec![1, 2, 3],
            voters: vec![1, 2, 3],
            whole: vec![1, 2, 3],
            refusal: None,
            unserved: None,
            untold: 0,
        };
        View {
            map: None,
            unheard: Vec::new(),
            full: Vec::new(),
            groups: (1..=3).map(group).collect(),
            nodes: (1..=3).map(node).collect(),
        }
    }

    fn told(view: &View) -> Vec<(Verdict, String)> {
        let told = findings(view).into_iter().map(|finding| {
            let change = finding.change.unwrap_or_default();
            (finding.verdict, format!("{} | {change}", finding.found))
        });
        told.collect()
    }

    fn only(view: &View, verdict: Verdict, words: &str) {
        let told = told(view);
        let is_it = told.len() == 1 && told[0].0 == verdict && told[0].1.contains(words);
        assert!(is_it, "{words}: {told:?}");
    }

    #[test]
    fn a_cluster_that_is_whole_has_nothing_to_change() {
        only(&view(), Verdict::Ok, "3 groups");
        let none = View {
            map: None,
            unheard: Vec::new(),
            full: Vec::new(),
            groups: Vec::new(),
            nodes: Vec::new(),
        };
        assert!(findings(&none).is_empty());
        let no_group = View {
            groups: Vec::new(),
            ..view()
        };
        only(&no_group, Verdict::Better, "| logberg kv init");
    }

    #[test]
    fn a_leader_that_answers_no_client_serves_nobody() {
        let mut view = view();
        view.nodes[1].kv = None;
        view.nodes[1].probe = None;
        only(
            &view,
            Verdict::Must,
            "node 2 leads kv-2-of-3 and does not answer Redis clients: its slots are not served | start node 2 with --kv HOST:PORT; until then: logberg leader move kv-2-of-3 --to 1",
        );
        view.groups[1].whole = vec![1, 3];
        let told = told(&view);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[1].1.contains("start node 2 with --kv"), "{told:?}");
    }

    #[test]
    fn places_that_clients_do_not_reach_are_told() {
        for (probe, words) in [
            (
                Probe::Unreachable("refused".to_owned()),
                "from here: refused | start node 3 with --kv-advertise",
            ),
            (
                Probe::Node(1),
                "node 1 answers at 10.0.0.3:7379, where clients of node 3",
            ),
            (Probe::Other, "is no node of this cluster"),
        ] {
            let mut view = view();
            view.nodes[2].probe = Some(probe);
            only(&view, Verdict::Must, words);
        }
        let mut busy = view();
        busy.nodes[2].probe = Some(Probe::Unreachable(probe::SILENT.to_owned()));
        only(&busy, Verdict::Better, "it is busy, or stands still");
        // A door that has no group yet does not know its number.
        let mut view = view();
        view.nodes[2].probe = Some(Probe::Node(0));
        only(&view, Verdict::Ok, "");
        view.nodes[2].kv = Some("127.0.0.1:7379".to_owned());
        only(&view, Verdict::Must, "their own machine");
        for node in &mut view.nodes {
            node.address = format!("127.0.0.1:711{}", node.id);
        }
        only(&view, Verdict::Ok, "");
    }

    #[test]
    fn groups_that_are_missing_without_leader_or_state_are_told() {
        let mut missing = view();
        missing.groups.remove(1);
        missing.nodes[1].groups_led = 0;
        only(&missing, Verdict::Must, "kv-2-of-3 is not there");
        let mut leaderless = view();
        leaderless.groups[0].leader = None;
        only(&leaderless, Verdict::Must, "nobody leads kv-1-of-3");
        let mut stateless = view();
        stateless.groups[2].whole = Vec::new();
        only(
            &stateless,
            Verdict::Must,
            "has the whole state of kv-3-of-3",
        );
        let mut filled = view();
        filled.groups[1].refusal = Some("a restore has not ended".to_owned());
        only(
            &filled,
            Verdict::Must,
            "node 2 leads kv-2-of-3 and serves nothing of it: a restore has not ended | what its words say",
        );
        let mut lacking = view();
        assert!(lacks_service(&lacking), "nobody tells the map");
        lacking.groups[0].unserved = Some(Unserved {
            slots: vec![SlotsRun { first: 7, last: 9 }],
            why: "nobody has them".to_owned(),
        });
        only(
            &lacking,
            Verdict::Must,
            "node 1 leads kv-1-of-3 and serves nothing of its slots 7-9: nobody has them",
        );
        let mut slow = view();
        slow.groups[2].untold = 40;
        only(
            &slow,
            Verdict::Better,
            "node 3 leads kv-3-of-3 and did not answer for 40 slots of it within some seconds | ask again",
        );
        let mut full = view();
        full.full = vec![2];
        only(
            &full,
            Verdict::Better,
            "node 2 has a full disk, up to the reserve: writes go on",
        );
        full.full = vec![1, 2];
        only(
            &full,
            Verdict::Must,
            "nodes 1 and 2 have full disks, up to the reserve: writes are refused",
        );
        let mut copied = view();
        copied.groups[2].whole = vec![1, 2];
        only(
            &copied,
            Verdict::Better,
            "node 3 does not have the whole state of kv-3-of-3: 2 of 3 have | wait",
        );
    }

    #[test]
    fn nodes_that_only_others_hear_are_told_and_nothing_is_said_for_them() {
        let mut view = view();
        view.unheard = vec![2, 3];
        let told = "nodes 2 and 3 are alive, and do not answer from here";
        only(&view, Verdict::Better, told);
        for group in &mut view.groups {
            group.whole = vec![1];
            group.leader = group.leader.filter(|leader| *leader != 3);
        }
        only(&view, Verdict::Better, told);
        view.groups[1].whole = Vec::new();
        assert_eq!(
            findings(&view).len(),
            2,
            "node 1 says that it lacks a group"
        );
    }

    #[test]
    fn nodes_that_are_silent_are_told_once() {
        let mut view = view();
        view.nodes[1].alive = false;
        for group in &mut view.groups {
            group.whole = vec![1, 3];
        }
        view.groups[1].leader = Some(3);
        only(
            &view,
            Verdict::Better,
            "node 2 is silent: meanwhile groups have fewer copies",
        );
    }

    #[test]
    fn groups_that_one_node_leads_are_told() {
        let mut view = view();
        for group in &mut view.groups {
            group.leader = Some(1);
        }
        for (node, led) in view.nodes.iter_mut().zip([3, 0, 0]) {
            node.groups_led = led;
        }
        only(
            &view,
            Verdict::Better,
            "node 1 leads 3 groups, and node 2 0",
        );
        // A node that cannot lead is not compared.
        view.nodes[1].alive = false;
        view.nodes[2].kv = None;
        only(&view, Verdict::Better, "node 2 is silent");
    }
}
