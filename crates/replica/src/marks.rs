//! The marks that replicas told of their states: whose differ, and which of those nothing is to rest on.
//!
//! ```text
//!  position    4 MiB   8 MiB   12 MiB
//!  node 1       aa      bb      cc       with node 2 a quorum
//!  node 2       aa      bb      cc
//!  node 3       aa      bd               differs from both: in doubt, and outvoted
//! ```
//!
//! Each replica is told by each of the others, and believes nobody's word but that on his own state. Two are compared at the
//! last position of which both told a mark.
//!
//! ‡ A state that differs from another is in doubt, unless those that told its mark of a position where the two differ are a quorum: from a
//! state in doubt none is copied, and no trim rests on it. Where no quorum agrees both are in doubt, and people have to say.
//!
//! ‡ A mark is of a state, not of a process: what starts again is as wrong as it was. Once its node says that the state is being
//! made anew, the marks before say nothing of the new one. They still say what the frames come to: the one who copies would else take with it
//! the only witness for the state that it copies.

use std::collections::{BTreeMap, VecDeque};

use formats::{Mark, Stand};
use paxos::mutation::{self, Mutation};
use paxos::{Configuration, NodeId};

/// So many are remembered of each node: others take theirs sooner or later.
const MARKS_MAX: usize = 4;

#[derive(Default)]
pub(crate) struct Marks {
    of: BTreeMap<NodeId, Told>,
    /// The differences that this leader told of, by node, and their positions.
    told: BTreeMap<NodeId, u64>,
    compared: u64,
}

/// The marks of one node, in the order of their positions.
#[derive(Default)]
struct Told {
    /// Those of the state that it has.
    live: VecDeque<Mark>,
    /// Those of states that it had.
    past: VecDeque<Mark>,
}

/// A quorum's word on one of two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    For,
    Against,
}

/// Two replicas have applied the same frames, and hold other rows.
#[derive(Debug)]
pub(crate) struct Differs {
    pub node: NodeId,
    pub own: Mark,
    pub theirs: Mark,
}

impl Marks {
    /// Takes a node's word on its state.
    pub fn hear(&mut self, own: NodeId, node: NodeId, stand: &Stand) {
        let Some(mark) = stand.mark else {
            if !stand.is_whole
                && let Some(told) = self.of.get_mut(&node)
            {
                told.past.append(&mut told.live);
                keep_last(&mut told.past);
            }
            return;
        };
        let live = &mut self.of.entry(node).or_default().live;
        if live.back() == Some(&mark) {
            return;
        }
        // ‡ A state that was taken back comes to its marks again: those of the time before hold no more.
        while live
            .back()
            .is_some_and(|last| last.position >= mark.position)
        {
            live.pop_back();
        }
        live.push_back(mark);
        keep_last(live);
        let is_other = |other: &NodeId| (*other == own) != (node == own);
        let others = self.of.keys().filter(|other| is_other(other));
        let comparable = others.filter(|other| self.live_at(**other, mark.position).is_some());
        self.compared += comparable.count() as u64;
    }

    /// The states of nodes that take no part any more are compared with nobody's. Their marks still say what the frames come to.
    pub fn keep(&mut self, takes_part: impl Fn(NodeId) -> bool) {
        for (_, told) in self.of.iter_mut().filter(|(node, _)| !takes_part(**node)) {
            told.past.append(&mut told.live);
            keep_last(&mut told.past);
        }
    }

    /// Forgets what was told of: another leader, or this one in another term, tells it anew.
    pub fn tell_anew(&mut self) {
        self.told.clear();
    }

    /// The differences between this leader's state and others' that were not told of.
    pub fn news(&mut self, own: NodeId) -> Vec<Differs> {
        let differing: Vec<Differs> = self.differing(own).collect();
        self.told
            .retain(|node, _| differing.iter().any(|differs| differs.node == *node));
        let mut is_news = |differs: &Differs| {
            let position = differs.own.position;
            self.told.insert(differs.node, position) != Some(position)
        };
        differing.into_iter().filter(|it| is_news(it)).collect()
    }

    /// The nodes whose states differ from that one's.
    pub fn differing(&self, node: NodeId) -> impl Iterator<Item = Differs> {
        let others = self.of.keys().filter(move |other| **other != node);
        others.filter_map(move |other| {
            let (own, theirs) = self.of_both(node, *other).next()?;
            let other = *other;
            (own != theirs).then_some(Differs {
                node: other,
                own,
                theirs,
            })
        })
    }

    /// How often a mark was one of a position where this replica, and another, has one.
    pub fn compared(&self) -> u64 {
        self.compared
    }

    /// ‡ Whether nothing is to rest on this node's state.
    pub fn is_doubted(&self, node: NodeId, configuration: &Configuration) -> bool {
        let is_doubted = |differs: Differs| {
            let verdict = self.verdict(node, differs.node, configuration);
            verdict != Some(Verdict::For)
        };
        !mutation::is(Mutation::DoubtedStatesCount) && self.differing(node).any(is_doubted)
    }

    /// Whether a quorum of states says otherwise than this node's.
    pub fn is_outvoted(&self, node: NodeId, configuration: &Configuration) -> bool {
        let is_outvoted = |differs: Differs| {
            let verdict = self.verdict(node, differs.node, configuration);
            verdict == Some(Verdict::Against)
        };
        !mutation::is(Mutation::DoubtedStatesCount) && self.differing(node).any(is_outvoted)
    }

    /// The last time that a quorum said whose of two states is right. It counts as long as they differ: nobody may have been there
    /// since to say so again.
    fn verdict(
        &self,
        node: NodeId,
        other: NodeId,
        configuration: &Configuration,
    ) -> Option<Verdict> {
        let mut differing = self
            .of_both(node, other)
            .filter(|(own, theirs)| own != theirs);
        differing.find_map(|(own, theirs)| {
            let speaks_for = self.is_agreed(own, configuration).then_some(Verdict::For);
            let against = self.is_agreed(theirs, configuration);
            speaks_for.or(against.then_some(Verdict::Against))
        })
    }

    fn is_agreed(&self, mark: Mark, configuration: &Configuration) -> bool {
        let says_so = |node| {
            let past = self
                .of
                .get(&node)
                .and_then(|told| at(&told.past, mark.position));
            self.live_at(node, mark.position).or(past) == Some(mark)
        };
        configuration.is_quorum(says_so)
    }

    fn live_at(&self, node: NodeId, position: u64) -> Option<Mark> {
        at(&self.of.get(&node)?.live, position)
    }

    /// The marks of the positions at which both have one, the last first.
    fn of_both(&self, node: NodeId, other: NodeId) -> impl Iterator<Item = (Mark, Mark)> {
        let marks = self.of.get(&node).into_iter();
        let marks = marks.flat_map(|told| told.live.iter().rev());
        marks.filter_map(move |mark| Some((*mark, self.live_at(other, mark.position)?)))
    }
}

fn at(marks: &VecDeque<Mark>, position: u64) -> Option<Mark> {
    let mut marks = marks.iter().rev();
    marks.find(|mark| mark.position == position).copied()
}

fn keep_last(marks: &mut VecDeque<Mark>) {
    while marks.len() > MARKS_MAX {
        marks.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn told(position: u64, crc32c: u32) -> Stand {
        Stand {
            applied: position,
            durable: 0,
            needed_from: 0,
            is_whole: true,
            disk_bytes: 0,
            mark: Some(Mark {
                position,
                rows: 1,
                crc32c,
            }),
        }
    }

    fn three() -> Configuration {
        Configuration::equal([A, B, C]).expect("three of equal weight")
    }

    fn doubted(marks: &Marks) -> Vec<NodeId> {
        let all = [A, B, C].into_iter();
        all.filter(|node| marks.is_doubted(*node, &three()))
            .collect()
    }

    #[test]
    fn the_one_that_a_quorum_contradicts_is_in_doubt_and_outvoted() {
        let mut marks = Marks::default();
        for (node, sum) in [(A, 7), (B, 7), (C, 8)] {
            marks.hear(A, node, &told(10, sum));
        }
        assert_eq!(doubted(&marks), [C]);
        assert!(marks.is_outvoted(C, &three()) && !marks.is_outvoted(A, &three()));
        assert_eq!(marks.news(A).len(), 1);
        assert!(marks.news(A).is_empty(), "it was told");
        assert_eq!(marks.compared(), 2);
    }

    #[test]
    fn agreement_before_a_difference_speaks_for_nobody() {
        let mut marks = Marks::default();
        for node in [A, B, C] {
            marks.hear(A, node, &told(10, 7));
        }
        marks.hear(A, A, &told(20, 1));
        marks.hear(A, B, &told(20, 2));
        assert_eq!(doubted(&marks), [A, B]);
        assert!(!marks.is_outvoted(A, &three()) && !marks.is_outvoted(B, &three()));
        marks.hear(A, C, &told(20, 2));
        assert_eq!(doubted(&marks), [A]);
        // C is away, and nobody says so again. The two still differ.
        marks.hear(A, A, &told(30, 1));
        marks.hear(A, B, &told(30, 2));
        assert_eq!(doubted(&marks), [A]);
    }

    #[test]
    fn doubt_outlives_a_process_and_ends_with_a_state() {
        let mut marks = Marks::default();
        for (node, sum) in [(A, 7), (B, 8)] {
            marks.hear(A, node, &told(10, sum));
        }
        let started_again = Stand {
            mark: None,
            ..told(30, 0)
        };
        marks.hear(A, B, &started_again);
        assert_eq!(doubted(&marks), [A, B]);
        let made_anew = Stand {
            is_whole: false,
            ..started_again
        };
        marks.hear(A, B, &made_anew);
        assert_eq!(doubted(&marks), []);
    }

    #[test]
    fn a_node_that_was_removed_puts_nobody_in_doubt() {
        let mut marks = Marks::default();
        for (node, sum) in [(A, 7), (C, 8)] {
            marks.hear(A, node, &told(10, sum));
        }
        assert_eq!(doubted(&marks), [A, C]);
        marks.keep(|node| node != C);
        assert_eq!(doubted(&marks), []);
        // Its word still counts for a quorum of which it is a part.
        marks.hear(A, B, &told(10, 8));
        assert!(marks.is_outvoted(A, &three()));
    }

    #[test]
    fn the_one_that_agreed_and_loses_its_state_stays_a_witness() {
        let mut marks = Marks::default();
        for (node, sum) in [(A, 7), (B, 8), (C, 7)] {
            marks.hear(A, node, &told(10, sum));
        }
        let made_anew = Stand {
            is_whole: false,
            mark: None,
            ..told(0, 0)
        };
        marks.hear(A, C, &made_anew);
        assert_eq!(doubted(&marks), [B]);
        // Its new state is nobody's until it has a mark.
        marks.hear(A, C, &told(20, 7));
        marks.hear(A, B, &told(20, 8));
        assert_eq!(doubted(&marks), [B, C]);
        assert!(!marks.is_outvoted(C, &three()));
        marks.hear(A, A, &told(20, 7));
        assert_eq!(doubted(&marks), [B]);
    }

    #[test]
    fn a_state_that_was_taken_back_takes_its_later_marks_back() {
        let mut marks = Marks::default();
        for (position, sum) in [(10, 7), (20, 7)] {
            marks.hear(A, A, &told(position, sum));
        }
        marks.hear(A, B, &told(20, 8));
        assert_eq!(doubted(&marks), [A, B]);
        marks.hear(A, B, &told(10, 7));
        assert_eq!(doubted(&marks), []);
    }
}
