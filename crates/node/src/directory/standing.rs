//! The nodes that stand in, by their own word.
//!
//! Zones: the zone that an operator sets by `members zone` holds until the node is started with another zone
//! than it said before. A node that says none changes nothing.

use std::collections::BTreeMap;

use formats::LogId;
use wire::{NodeKind, Standing};

use super::{Directory, NodeEntry, configuration};
use crate::split::has_active_quorum;

impl NodeEntry {
    /// Whether a node that says this says something new.
    pub fn is_news(&self, said: &Standing) -> bool {
        let zone = !said.zone.is_empty() && said.zone != self.said_zone;
        zone || said.kind != self.kind
    }
}

impl Directory {
    pub fn stands_in(&self, node: u32) -> bool {
        let entry = self.nodes.get(&paxos::NodeId(node));
        entry.is_some_and(|entry| entry.kind == NodeKind::Auxiliary)
    }

    /// The auxiliaries of a log that begins with these members, when nobody chose them: the nodes that stand
    /// in, as long as the others are a quorum.
    pub fn auxiliaries_of(&self, members: &[(u32, u32)]) -> Vec<u32> {
        let mut marked = Vec::new();
        let nodes = members.iter().map(|(node, _)| *node);
        for node in nodes.filter(|node| self.stands_in(*node)) {
            marked.push(node);
            let begins = configuration(members, &marked);
            if !begins.is_ok_and(|begins| has_active_quorum(&begins)) {
                marked.pop();
            }
        }
        marked
    }

    /// The nodes that are meant to be auxiliary in a log: those it was created with, and members that stand in.
    pub fn meant_auxiliaries(&self, log: LogId) -> Vec<u32> {
        let created = self.logs.get(&log).into_iter();
        let mut meant: Vec<u32> = created.flat_map(|entry| entry.auxiliary.clone()).collect();
        let wanted = self.members.wanted.get(&log.0).into_iter();
        let members = wanted.flat_map(|wanted| wanted.weights.keys().copied());
        let stand_in = members.filter(|n| self.stands_in(*n) && !meant.contains(n));
        let stand_in: Vec<u32> = stand_in.collect();
        meant.extend(stand_in);
        meant
    }

    /// The number of voters that are to hold all bytes of a log.
    pub fn full_voters(&self, log: LogId) -> usize {
        let wanted = self.members.wanted.get(&log.0);
        wanted.map_or(0, |wanted| self.full_voters_of(log, &wanted.weights))
    }

    /// … with these weights.
    pub fn full_voters_of(&self, log: LogId, weights: &BTreeMap<u32, u32>) -> usize {
        let auxiliary = self.meant_auxiliaries(log);
        let voters = weights.iter().filter(|(_, weight)| **weight > 0);
        let full = voters.filter(|(node, _)| !auxiliary.contains(node) && !self.stands_in(**node));
        full.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Command;

    fn of(count: u32, auxiliary: &[u32]) -> Directory {
        let mut directory = Directory::default();
        for id in 1..=count {
            directory.apply(&Command::AddNode {
                id,
                address: format!("a:{id}"),
                disk: format!("d{id}"),
                newest: 1,
                by_hand: false,
                token: None,
                certificate: None,
                replaces: None,
            });
        }
        for node in auxiliary {
            directory.apply(&describe(*node, "", NodeKind::Auxiliary));
        }
        directory
    }

    fn describe(node: u32, zone: &str, kind: NodeKind) -> Command {
        let zone = zone.to_owned();
        Command::DescribeNode { node, zone, kind }
    }

    fn zone(directory: &Directory) -> Option<&str> {
        directory.members.zones.get(&1).map(String::as_str)
    }

    #[test]
    fn what_the_operator_said_of_a_zone_holds_until_the_node_says_something_new() {
        let mut directory = of(1, &[]);
        let says = |directory: &mut Directory, zone: &str| {
            directory.apply(&describe(1, zone, NodeKind::Full));
        };
        says(&mut directory, "a");
        assert_eq!(zone(&directory), Some("a"));
        let (node, moved) = (1, "b".to_owned());
        directory.apply(&Command::SetZone { node, zone: moved });
        says(&mut directory, "a");
        says(&mut directory, "");
        assert_eq!(zone(&directory), Some("b"), "it said a before");
        says(&mut directory, "c");
        assert_eq!(zone(&directory), Some("c"));
        let version = directory.members.version;
        says(&mut directory, "c");
        assert_eq!(directory.members.version, version);
    }

    #[test]
    fn as_many_of_those_that_stand_in_are_marked_as_leave_a_quorum() {
        let equal = |count: u32| (1..=count).map(|node| (node, 1)).collect::<Vec<_>>();
        assert_eq!(of(3, &[3]).auxiliaries_of(&equal(3)), [3]);
        assert_eq!(of(3, &[2, 3]).auxiliaries_of(&equal(3)), [2]);
        assert_eq!(of(5, &[3, 4, 5]).auxiliaries_of(&equal(5)), [3, 4]);
        assert_eq!(of(4, &[3, 4]).auxiliaries_of(&equal(4)), [3]);
        assert!(of(2, &[2]).auxiliaries_of(&equal(2)).is_empty());
        assert!(
            of(3, &[3])
                .auxiliaries_of(&[(1, 1), (2, 1), (3, 3)])
                .is_empty()
        );
    }
}
