//! The places where a peer may be found, when it is not where it was last.
//!
//! ```text
//!   peers.json ── its own word ── the directory ── --peer, --join
//!        └──────────────┴──────────────┴────────────────┴──► dialled in turn until it answers
//! ```
//!
//! Nodes move while others are down, or all at once, and then no quorum is there to agree on where they are:
//! so no word about an address is final before the node itself has answered there. A node that answers
//! elsewhere says which node it is, and the place is tried for that one.

use std::collections::{BTreeMap, VecDeque};

use paxos::NodeId;
use wire::Refusal;

use crate::config::Place;

#[derive(Debug, Default)]
pub struct Places {
    /// The places of each node, the newest first.
    of: BTreeMap<NodeId, VecDeque<String>>,
    /// The places said of no node in particular.
    of_somebody: Vec<String>,
}

/// The longest address: HOST:PORT, and a name is at most 253 bytes long.
pub const ADDRESS_BYTES_MAX: usize = 300;

pub fn check_address(address: &str) -> Result<(), Refusal> {
    match address.len() <= ADDRESS_BYTES_MAX {
        true => Ok(()),
        false => Err(Refusal::new(
            "bad-request",
            format!("an address is HOST:PORT, and at most {ADDRESS_BYTES_MAX} bytes long"),
        )),
    }
}

/// The most places of one node, besides where it is thought to be.
const PLACES_MAX: usize = 4;
/// The most places of no node in particular.
const SOMEWHERE_MAX: usize = 64;

impl Places {
    pub fn new(said: &[Place]) -> Places {
        let mut places = Places::default();
        for place in said.iter().rev() {
            match place.node {
                Some(node) => places.note(node, &place.address),
                None => places.of_somebody.insert(0, place.address.clone()),
            }
        }
        places.of_somebody.truncate(SOMEWHERE_MAX);
        places
    }

    pub fn note(&mut self, node: NodeId, address: &str) {
        if address.is_empty() {
            return;
        }
        let known = self.of.entry(node).or_default();
        known.retain(|other| other != address);
        known.push_front(address.to_owned());
        known.truncate(PLACES_MAX);
    }

    /// Notes that this node answers there, so that no other is looked for there any more.
    pub fn is_of(&mut self, node: NodeId, address: &str) {
        for known in self.of.values_mut() {
            known.retain(|other| other != address);
        }
        self.of_somebody.retain(|other| other != address);
        self.note(node, address);
    }

    pub fn forget(&mut self, node: NodeId) {
        self.of.remove(&node);
    }

    /// The place to dial at this attempt since it was there: first the usual one, and that again between any
    /// two others.
    pub fn choose<'a>(&'a self, node: NodeId, usual: &'a str, attempt: u32) -> &'a str {
        let own = self.of.get(&node).into_iter().flatten();
        let others = own.chain(&self.of_somebody);
        let others: Vec<&String> = others.filter(|other| *other != usual).collect();
        match (attempt % 2 == 1, others.len()) {
            (true, count) if count > 0 => others[(attempt / 2) as usize % count],
            _ => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(said: &[&str]) -> Places {
        let said: Vec<Place> = said.iter().map(|text| text.parse().unwrap()).collect();
        Places::new(&said)
    }

    fn chosen(places: &Places, node: u32, attempts: u32) -> Vec<&str> {
        let all = 0..attempts;
        all.map(|attempt| places.choose(NodeId(node), "usual:1", attempt))
            .collect()
    }

    #[test]
    fn every_place_is_tried_in_turn_and_the_usual_one_between_them() {
        let places = places(&["2@there:1", "host:1", "usual:1", "3@other:1"]);
        let two = [
            "usual:1", "there:1", "usual:1", "host:1", "usual:1", "there:1",
        ];
        assert_eq!(chosen(&places, 2, 6), two);
        let four = ["usual:1", "host:1", "usual:1", "host:1"];
        assert_eq!(chosen(&places, 4, 4), four);
        assert_eq!(chosen(&Places::default(), 2, 2), ["usual:1", "usual:1"]);
    }

    #[test]
    fn where_another_answers_is_tried_for_that_one_alone() {
        let mut places = places(&["host:1", "2@host:2"]);
        places.is_of(NodeId(3), "host:1");
        places.is_of(NodeId(3), "host:2");
        assert_eq!(chosen(&places, 2, 2), ["usual:1", "usual:1"]);
        let three = ["usual:1", "host:2", "usual:1", "host:1"];
        assert_eq!(chosen(&places, 3, 4), three);
    }

    #[test]
    fn only_so_many_places_of_a_node_are_kept_and_the_newest_come_first() {
        let mut places = Places::default();
        for number in 0..100 {
            places.note(NodeId(2), &format!("host:{number}"));
        }
        places.note(NodeId(2), "host:97");
        assert_eq!(
            places.of[&NodeId(2)],
            ["host:97", "host:99", "host:98", "host:96"]
        );
        assert_eq!(places.choose(NodeId(2), "usual:1", 1), "host:97");
    }
}
