//! What a node says of itself whenever it starts: which machines it fails together with, and what it is
//! there for. It stands in every greeting of a peer; the directory's leader writes down what is new.
//!
//! Zones: what an operator says by `members zone` holds until the node is started with another zone
//! than it said before. A node that says none changes nothing.

use std::fmt;
use std::str::FromStr;

use formats::LogId;
use serde::{Deserialize, Serialize};

use super::change::check_zone;
use crate::directory::{self, Directory, NodeEntry};
use crate::line::{Refusal, Request};

/// What a machine is there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// It holds whatever its logs hold.
    #[default]
    Full,
    /// It stands in: where it votes it is to hold bytes only while others cannot.
    Auxiliary,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Empty: it says none.
    pub zone: String,
    pub kind: NodeKind,
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeKind::Full => "full",
            NodeKind::Auxiliary => "auxiliary",
        })
    }
}

impl FromStr for NodeKind {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeKind, String> {
        match text {
            "full" => Ok(NodeKind::Full),
            "auxiliary" => Ok(NodeKind::Auxiliary),
            _ => Err("a node's kind is full or auxiliary".to_owned()),
        }
    }
}

impl Standing {
    /// The sentence says what a zone may be called.
    pub fn new(zone: &str, kind: NodeKind) -> Result<Standing, String> {
        let zone = zone.to_owned();
        check_zone(&zone).map_err(|refusal| refusal.sentence)?;
        Ok(Standing { zone, kind })
    }

    /// What goes without saying is not said.
    pub(crate) fn write(&self, mut line: Request) -> Request {
        if !self.zone.is_empty() {
            line = line.key("zone", &self.zone);
        }
        if self.kind != NodeKind::Full {
            line = line.key("node-kind", self.kind);
        }
        line
    }

    pub(crate) fn parse(line: &Request) -> Result<Standing, Refusal> {
        let bad = |sentence: String| Refusal::new("bad-request", sentence);
        let kind = line
            .get("node-kind")
            .unwrap_or("full")
            .parse()
            .map_err(bad)?;
        Standing::new(line.get("zone").unwrap_or_default(), kind).map_err(bad)
    }

    pub(crate) fn is_news_to(&self, entry: &NodeEntry) -> bool {
        let zone = !self.zone.is_empty() && self.zone != entry.said_zone;
        zone || self.kind != entry.kind
    }
}

impl Directory {
    pub fn stands_in(&self, node: u32) -> bool {
        let entry = self.nodes.get(&paxos::NodeId(node));
        entry.is_some_and(|entry| entry.kind == NodeKind::Auxiliary)
    }

    /// Who is auxiliary in a log that begins with these members, when nobody said: those that stand
    /// in, as long as the others are a quorum.
    pub fn auxiliaries_of(&self, members: &[(u32, u32)]) -> Vec<u32> {
        let mut marked = Vec::new();
        let nodes = members.iter().map(|(node, _)| *node);
        for node in nodes.filter(|node| self.stands_in(*node)) {
            marked.push(node);
            let begins = directory::configuration(members, &marked);
            if !begins.is_ok_and(|c| c.is_quorum(|member| !c.is_auxiliary(member))) {
                marked.pop();
            }
        }
        marked
    }

    /// Who is meant to be auxiliary in a log: those it was created with, and members that stand in.
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

    #[test]
    fn a_line_says_what_does_not_go_without_saying() {
        let full = Standing::default();
        assert_eq!(
            full.write(Request::new("peer")).encode(),
            Request::new("peer").encode()
        );
        let said = Standing::new("cellar", NodeKind::Auxiliary).unwrap();
        let line = said.write(Request::new("peer")).encode();
        let line = Request::parse(line.trim_ascii_end()).unwrap();
        assert_eq!(Standing::parse(&line).unwrap(), said);
        let wrong = Request::new("peer").key("node-kind", "big").encode();
        let wrong = Request::parse(wrong.trim_ascii_end()).unwrap();
        assert!(Standing::parse(&wrong).is_err());
        assert!(Standing::new("a b", NodeKind::Full).is_err());
    }
}
