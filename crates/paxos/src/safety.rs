//! The rules that may never be wrong: what a quorum of promises allows, and what may be chosen.
//!
//! Everything here is a pure function of what was promised and accepted, so that each rule can be
//! read, and tested, alone.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::acceptor::Acceptance;
use crate::mutation::{self, Mutation};
use crate::runs::RunValue;
use crate::{
    AcceptedRun, AcceptedTerm, Action, Configuration, Era, LABEL_BYTES_MAX, METADATA_BYTES_MAX,
    NodeId, Promise, Slot, SlotRange, Term, Value,
};

/// Slots beyond this are nobody's: it leaves room to add to any position without overflow.
pub(crate) const SLOT_MAX: u64 = 1 << 62;

/// The highest number believed at once in an era in which `highest` is known: above it by a 4096th of what is
/// left, and always by one. So however often numbers jump there is room for thousands more, and a number that
/// was believed can be prepared above (docs/decisions/0030).
pub(crate) fn number_within_reach(highest: u32) -> u32 {
    highest.saturating_add(((u32::MAX - highest) >> 12).max(1))
}

/// Part of what a new leader must propose before anything of its own: an earlier term's value, or
/// a no-op where a quorum promised that nothing was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub slots: SlotRange,
    pub value: Value,
    /// The nodes that reported the value accepted; each holds its bytes.
    pub holders: Vec<NodeId>,
}

/// Two promises for one term report different values accepted in one slot and term (I3 is broken
/// somewhere else): this node's promise is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction(pub NodeId);

/// The pieces to which these promises bind the proposer, from `first_unchosen` on.
///
/// I2: in each slot the value of the highest accepted term reported, or nothing: then the slot is free and
/// holds a no-op. The caller has counted the promises: they come from a quorum, no promise begins after
/// `first_unchosen`, and more reports than a quorum's do no harm.
pub(crate) fn plan(
    first_unchosen: Slot,
    promises: &[(NodeId, &[AcceptedRun])],
) -> Result<VecDeque<Piece>, Contradiction> {
    let mut cuts: Vec<Slot> = Vec::new();
    for (_, runs) in promises {
        for run in runs.iter() {
            cuts.push(run.slots.start.max(first_unchosen));
            cuts.push(run.slots.end.max(first_unchosen));
        }
    }
    cuts.push(first_unchosen);
    cuts.sort_unstable();
    cuts.dedup();
    let mut pieces: VecDeque<Piece> = VecDeque::new();
    for cut in cuts.windows(2) {
        let slots = SlotRange::new(cut[0], cut[1]);
        let mut bound: Option<&AcceptedRun> = None;
        for (node, runs) in promises {
            let Some(run) = run_at(runs, slots.start) else {
                continue;
            };
            match bound {
                Some(other) if other.term == run.term && other.value != run.value => {
                    return Err(Contradiction(*node));
                }
                Some(_) if mutation::is(Mutation::HighestTermIgnored) => {}
                Some(other) if other.term >= run.term => {}
                _ => bound = Some(run),
            }
        }
        let piece = match bound {
            None => Piece {
                slots,
                value: Value::NoOp,
                holders: Vec::new(),
            },
            Some(run) => Piece {
                slots,
                value: run.value.clone(),
                holders: promises
                    .iter()
                    .filter(|(_, runs)| {
                        run_at(runs, slots.start).is_some_and(|held| held.value == run.value)
                    })
                    .map(|(node, _)| *node)
                    .collect(),
            },
        };
        match pieces.back_mut() {
            Some(last) if is_one(last, &piece) => last.slots.end = piece.slots.end,
            _ => pieces.push_back(piece),
        }
    }
    Ok(pieces)
}

fn run_at(runs: &[AcceptedRun], slot: Slot) -> Option<&AcceptedRun> {
    let at = runs.partition_point(|run| run.slots.end <= slot);
    runs.get(at).filter(|run| run.slots.contains(slot))
}

fn is_one(before: &Piece, after: &Piece) -> bool {
    let acceptance = |piece: &Piece| Acceptance {
        term: AcceptedTerm::default(),
        value: piece.value.clone(),
    };
    acceptance(after).extends(&acceptance(before))
        && (before.value == Value::NoOp || before.holders == after.holders)
}

/// A live member that is not the leader, as the leader knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Voter {
    pub node: NodeId,
    pub weight: u64,
    /// It gets the leader's proposals: only then is it of use among the nodes that accept.
    pub accepts: bool,
    /// It has accepted all that is chosen.
    pub level: bool,
}

/// The most sums of weights that are looked at: with more, weights are too uneven to be split.
const SUMS_MAX: usize = 4096;

/// The casting vote: splits the voters in two so that each part is a quorum together with the
/// leader, and neither is without. Returns the part that is asked to promise; the others go on
/// accepting.
///
/// It takes the split that leaves most of the accepting, level voters to accept.
pub(crate) fn casting_vote(
    configuration: &Configuration,
    leader: NodeId,
    voters: &[Voter],
) -> Option<Vec<NodeId>> {
    let own = u64::from(configuration.weight(leader));
    let accepting = voters.iter().filter(|voter| voter.accepts);
    let accepting: u64 = accepting.map(|voter| voter.weight).sum();
    // The key is the weight asked, and the part of it taken from nodes that accept: the cheapest choice.
    let mut sums: BTreeMap<(u64, u64), (u64, Vec<NodeId>)> = BTreeMap::new();
    sums.insert((own, 0), (0, Vec::new()));
    for voter in voters {
        let cost = match (voter.accepts, voter.level) {
            (false, _) => 1,
            (true, false) => 1 << 16,
            (true, true) => 1 << 32,
        };
        let taken = if voter.accepts { voter.weight } else { 0 };
        let longer = sums.iter().map(|((asked, lost), (so_far, nodes))| {
            let mut nodes = nodes.clone();
            nodes.push(voter.node);
            ((asked + voter.weight, lost + taken), (so_far + cost, nodes))
        });
        let longer: Vec<_> = longer
            .filter(|((_, lost), _)| configuration.is_majority(own + accepting - lost))
            .collect();
        for (sum, choice) in longer {
            let known = sums.get(&sum);
            if known.is_none_or(|(cost, _)| choice.0 < *cost) && sums.len() < SUMS_MAX {
                sums.insert(sum, choice);
            }
        }
    }
    let splits = sums.into_iter().filter(|((asked, lost), _)| {
        configuration.is_majority(*asked) && configuration.is_majority(own + accepting - lost)
    });
    let cheapest = splits
        .map(|(_, choice)| choice)
        .min_by_key(|(cost, _)| *cost);
    cheapest.map(|(_, nodes)| nodes)
}

/// P7: whether acceptances in `term` can choose a slot of `era`, all earlier slots being chosen.
pub(crate) fn may_choose(term: Term, era: Era) -> bool {
    let skipped = mutation::is(Mutation::EraSkipped);
    term.era <= era && (era.0 <= term.era.0.saturating_add(1) || skipped)
}

/// Whether a promise from elsewhere can be true: runs in order, none above its term.
pub(crate) fn is_credible_promise(promise: &Promise) -> bool {
    promise.from.0 <= SLOT_MAX
        && promise
            .runs
            .iter()
            .all(|run| run.term.0 < promise.term && is_credible(run.slots, &run.value))
        && promise
            .runs
            .windows(2)
            .all(|pair| pair[0].slots.end <= pair[1].slots.start)
}

pub(crate) fn is_credible_term(term: Term) -> bool {
    term.owner != NodeId(0) && term.number > 0
}

/// Whether a value can fill these slots.
pub(crate) fn is_credible(slots: SlotRange, value: &Value) -> bool {
    !slots.is_empty()
        && slots.end.0 <= SLOT_MAX
        && match value {
            Value::NoOp => true,
            Value::Content { offset, .. } => offset.0 <= slots.start.0,
            Value::Action(action) => slots.len() == 1 && is_credible_action(action),
        }
}

pub(crate) fn is_credible_action(action: &Action) -> bool {
    match action {
        Action::OpenStream(open) => {
            open.label.len() <= LABEL_BYTES_MAX && open.metadata.len() <= METADATA_BYTES_MAX
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Offset, StreamName};
    use alloc::vec;
    use proptest::prelude::*;

    fn term(era: u32, number: u32) -> Term {
        Term {
            era: Era(era),
            number,
            owner: NodeId(1),
        }
    }

    /// A value by its term and slot: in a term, each slot holds one value.
    fn value(term: u32, slot: u64) -> Value {
        match (term + (slot / 5) as u32) % 3 {
            0 => Value::NoOp,
            kind => Value::Content {
                stream: StreamName::default(),
                offset: Offset(u64::from(kind) - 1),
            },
        }
    }

    fn report(slots: &[(u64, u32)]) -> Vec<AcceptedRun> {
        slots
            .iter()
            .map(|(slot, number)| AcceptedRun {
                slots: SlotRange::new(Slot(*slot), Slot(slot + 1)),
                term: AcceptedTerm(term(0, *number)),
                value: value(*number, *slot),
            })
            .collect()
    }

    proptest! {
        /// I2 and P5 against the rule said for one slot.
        #[test]
        fn a_plan_holds_the_highest_accepted_value_of_every_slot(
            reports in proptest::collection::vec(
                proptest::collection::btree_map(0u64..40, 1u32..5, 0..30),
                1..5,
            ),
            first in 0u64..20,
        ) {
            let reports: Vec<(NodeId, Vec<AcceptedRun>)> = reports
                .iter()
                .enumerate()
                .map(|(node, slots)| {
                    let slots: Vec<(u64, u32)> = slots.iter().map(|(s, t)| (*s, *t)).collect();
                    (NodeId(node as u32 + 1), report(&slots))
                })
                .collect();
            let given: Vec<(NodeId, &[AcceptedRun])> =
                reports.iter().map(|(node, runs)| (*node, runs.as_slice())).collect();
            let plan = plan(Slot(first), &given).unwrap();
            let at = |slot: u64| {
                plan.iter().find(|piece| piece.slots.contains(Slot(slot)))
            };
            let mut next = Slot(first);
            for piece in &plan {
                prop_assert_eq!(piece.slots.start, next);
                prop_assert!(!piece.slots.is_empty());
                next = piece.slots.end;
            }
            for slot in first..45 {
                let highest = reports
                    .iter()
                    .flat_map(|(_, runs)| runs.iter())
                    .filter(|run| run.slots.start.0 == slot)
                    .max_by_key(|run| run.term);
                match (highest, at(slot)) {
                    (Some(run), Some(piece)) => {
                        prop_assert_eq!(&run.value, &piece.value);
                        if run.value != Value::NoOp {
                            for (node, runs) in &reports {
                                let holds = runs.iter().any(|held| {
                                    held.slots.start.0 == slot && held.value == run.value
                                });
                                prop_assert_eq!(piece.holders.contains(node), holds);
                            }
                        }
                    }
                    (None, Some(piece)) => prop_assert_eq!(&piece.value, &Value::NoOp),
                    (Some(_), None) => prop_assert!(false, "slot {} is left out", slot),
                    (None, None) => {}
                }
            }
        }
    }

    /// Node 1 leads. Takes weights, of which 0 are no members, and whether each of the others gets proposals.
    fn voters(weights: &[u32], accepts: &[bool]) -> Option<(Configuration, Vec<Voter>)> {
        let members = weights.iter().zip(1..).filter(|(weight, _)| **weight > 0);
        let members = members.map(|(weight, node)| crate::Member {
            node: NodeId(node),
            weight: *weight,
            auxiliary: false,
        });
        let configuration = Configuration::new(members).ok()?;
        let others = configuration
            .members()
            .iter()
            .filter(|m| m.node != NodeId(1));
        let others = others.map(|member| Voter {
            node: member.node,
            weight: u64::from(member.weight),
            accepts: accepts[member.node.0 as usize - 1],
            level: true,
        });
        let others = others.collect();
        Some((configuration, others))
    }

    fn is_split(configuration: &Configuration, voters: &[Voter], asked: &[NodeId]) -> bool {
        let leader = NodeId(1);
        let accepts = |node| {
            voters
                .iter()
                .any(|voter| voter.node == node && voter.accepts)
        };
        configuration.is_quorum(|node| node == leader || asked.contains(&node))
            && configuration
                .is_quorum(|node| node == leader || accepts(node) && !asked.contains(&node))
    }

    proptest! {
        /// The split is held against every way there is to split the voters.
        #[test]
        fn a_split_is_found_where_there_is_one(
            weights in proptest::collection::vec(0u32..5, 7),
            accepts in proptest::collection::vec(any::<bool>(), 7),
        ) {
            let Some((configuration, voters)) = voters(&weights, &accepts) else {
                return Ok(());
            };
            let sets = 0..1u32 << voters.len();
            let ways = sets.map(|set| {
                let within = voters.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0);
                within.map(|(_, voter)| voter.node).collect::<Vec<_>>()
            });
            let mut ways = ways.filter(|asked| is_split(&configuration, &voters, asked));
            match casting_vote(&configuration, NodeId(1), &voters) {
                Some(asked) => prop_assert!(is_split(&configuration, &voters, &asked)),
                None => prop_assert_eq!(ways.next(), None),
            }
        }
    }

    #[test]
    fn who_gets_no_bytes_is_asked_first_then_who_lags() {
        let all = [true; 5];
        let split = |weights: &[u32], accepts: &[bool], lags: &[u32]| {
            let (configuration, mut voters) = voters(weights, accepts).expect("members");
            for voter in &mut voters {
                voter.level = !lags.contains(&voter.node.0);
            }
            casting_vote(&configuration, NodeId(1), &voters)
        };
        assert_eq!(split(&[1, 1, 1], &all, &[3]), Some(vec![NodeId(3)]));
        assert_eq!(split(&[1, 1, 1], &all, &[2]), Some(vec![NodeId(2)]));
        let rests = [true, false, true];
        assert_eq!(split(&[1, 1, 1], &rests, &[3]), Some(vec![NodeId(2)]));
        let five = split(&[1, 1, 1, 1, 1], &all, &[2, 5]);
        assert_eq!(five, Some(vec![NodeId(2), NodeId(5)]));
        // Even totals need a second vote of the leader.
        assert_eq!(split(&[1, 1, 1, 1], &all, &[]), None);
        assert_eq!(split(&[2, 2, 2, 2], &all, &[]), None);
        assert!(split(&[2, 2, 2], &all, &[]).is_some());
        assert!(split(&[2, 2, 2, 1], &all, &[]).is_some());
        assert!(split(&[2, 2, 1, 1], &all, &[]).is_some());
        // Alone it needs nobody.
        assert_eq!(split(&[3, 1, 1], &all, &[]), Some(Vec::new()));
    }

    #[test]
    fn two_values_of_one_term_are_a_contradiction() {
        let run = |value| {
            vec![AcceptedRun {
                slots: SlotRange::new(Slot(0), Slot(4)),
                term: AcceptedTerm(term(0, 1)),
                value,
            }]
        };
        let (one, two) = (run(Value::NoOp), run(value(1, 0)));
        let promises: [(NodeId, &[AcceptedRun]); 2] = [(NodeId(1), &one), (NodeId(2), &two)];
        assert_eq!(plan(Slot(0), &promises), Err(Contradiction(NodeId(2))));
    }

    #[test]
    fn slots_are_chosen_in_a_terms_era_and_the_next() {
        assert!(may_choose(term(3, 1), Era(3)));
        assert!(may_choose(term(3, 1), Era(4)));
        assert!(!may_choose(term(3, 1), Era(5)));
        assert!(!may_choose(term(3, 1), Era(2)));
        assert!(may_choose(term(u32::MAX, 1), Era(u32::MAX)));
    }
}
