//! Weights and quorums.

use alloc::vec::Vec;

use crate::{Change, NodeId};

/// The weights of one era: ordered by node, every weight positive.
///
/// A quorum is a strict weighted majority, for both phases. Every quorum of era e then meets every
/// quorum of e and of e+1: a step changes one weight by one, or scales all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    members: Vec<Member>,
}

/// A node that votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// What its vote counts; at least 1.
    pub weight: u32,
    /// It holds bytes only while others cannot, and never leads.
    pub auxiliary: bool,
}

/// The reason why a step is not legal in this configuration. The step is then a no-op and starts no era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefused {
    /// A weight or the total would exceed [`WEIGHT_TOTAL_MAX`].
    Overflow,
    /// Not all weights can be divided by that number.
    Remainder,
    /// Nothing is multiplied or divided by 0.
    ZeroFactor,
    /// The node is no member, or 0, or named twice.
    UnknownNode(NodeId),
    /// No weight at all would be left.
    LastWeight,
    /// The auxiliaries together would be a quorum, or the mark is already so.
    Auxiliary,
    /// The step was meant for another era.
    WrongEra,
    /// A wish is chosen that is later than the one that the step names.
    StaleWish,
}

/// No weight and no total exceeds this.
pub const WEIGHT_TOTAL_MAX: u32 = 1 << 20;

impl Configuration {
    /// The configuration with exactly these members, in any order. Refused if none has weight, a
    /// node is named twice or is 0, a weight is 0, the total is too great, or auxiliaries alone
    /// would be a quorum.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Configuration, ChangeRefused> {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort_by_key(|member| member.node);
        for pair in members.windows(2) {
            if pair[0].node == pair[1].node {
                return Err(ChangeRefused::UnknownNode(pair[0].node));
            }
        }
        Configuration { members }.checked()
    }

    /// One member of weight 1 for each of these nodes.
    pub fn equal(nodes: impl IntoIterator<Item = NodeId>) -> Result<Configuration, ChangeRefused> {
        Configuration::new(nodes.into_iter().map(|node| Member {
            node,
            weight: 1,
            auxiliary: false,
        }))
    }

    /// Ordered by node.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member of that number, if it is one.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        let at = self.members.binary_search_by_key(&node, |m| m.node).ok()?;
        Some(&self.members[at])
    }

    /// Whether the node is a member.
    pub fn contains(&self, node: NodeId) -> bool {
        self.member(node).is_some()
    }

    /// The node's weight; 0 for a node that is no member: it may learn, and its voice does not count.
    pub fn weight(&self, node: NodeId) -> u32 {
        self.member(node).map_or(0, |member| member.weight)
    }

    /// Whether the node is a member that holds bytes only while others cannot.
    pub fn is_auxiliary(&self, node: NodeId) -> bool {
        self.member(node).is_some_and(|member| member.auxiliary)
    }

    /// Whether any member holds bytes only while others cannot.
    pub fn has_auxiliaries(&self) -> bool {
        self.members.iter().any(|member| member.auxiliary)
    }

    /// All weights together.
    pub fn total(&self) -> u64 {
        self.members.iter().map(|m| u64::from(m.weight)).sum()
    }

    /// Whether this much weight is a strict majority of all weight.
    pub fn is_majority(&self, weight: u64) -> bool {
        // No overflow: no weight of a member exceeds WEIGHT_TOTAL_MAX and no member counts twice.
        weight.saturating_mul(2) > self.total()
    }

    /// Whether the members that satisfy `within` are a quorum.
    pub fn is_quorum(&self, mut within: impl FnMut(NodeId) -> bool) -> bool {
        let weight = self
            .members
            .iter()
            .filter(|member| within(member.node))
            .map(|member| u64::from(member.weight))
            .sum();
        self.is_majority(weight)
    }

    /// The configuration one legal step further.
    pub fn apply(&self, change: Change) -> Result<Configuration, ChangeRefused> {
        let mut next = self.clone();
        match change {
            Change::Increment(node) => match next.member_mut(node) {
                Some(member) => {
                    member.weight = member
                        .weight
                        .checked_add(1)
                        .ok_or(ChangeRefused::Overflow)?;
                }
                None => {
                    let at = next.members.partition_point(|m| m.node < node);
                    let member = Member {
                        node,
                        weight: 1,
                        auxiliary: false,
                    };
                    next.members.insert(at, member);
                }
            },
            Change::Decrement(node) => {
                if self.total() <= 1 && self.contains(node) {
                    return Err(ChangeRefused::LastWeight);
                }
                let member = next
                    .member_mut(node)
                    .ok_or(ChangeRefused::UnknownNode(node))?;
                member.weight -= 1; // positive in every configuration
                next.members.retain(|member| member.weight > 0);
            }
            Change::Multiply(factor) => {
                if factor == 0 {
                    return Err(ChangeRefused::ZeroFactor);
                }
                for member in &mut next.members {
                    let weight = member.weight.checked_mul(factor);
                    member.weight = weight.ok_or(ChangeRefused::Overflow)?;
                }
            }
            Change::Divide(factor) => {
                if factor == 0 {
                    return Err(ChangeRefused::ZeroFactor);
                }
                for member in &mut next.members {
                    if member.weight % factor != 0 {
                        return Err(ChangeRefused::Remainder);
                    }
                    member.weight /= factor;
                }
            }
            Change::MarkAuxiliary(node) => next.mark(node, true)?,
            Change::UnmarkAuxiliary(node) => next.mark(node, false)?,
        }
        next.checked()
    }

    fn mark(&mut self, node: NodeId, auxiliary: bool) -> Result<(), ChangeRefused> {
        let member = self
            .member_mut(node)
            .ok_or(ChangeRefused::UnknownNode(node))?;
        if member.auxiliary == auxiliary {
            return Err(ChangeRefused::Auxiliary);
        }
        member.auxiliary = auxiliary;
        Ok(())
    }

    fn member_mut(&mut self, node: NodeId) -> Option<&mut Member> {
        let at = self.members.binary_search_by_key(&node, |m| m.node).ok()?;
        Some(&mut self.members[at])
    }

    fn checked(self) -> Result<Configuration, ChangeRefused> {
        let mut total = 0u64;
        for member in &self.members {
            if member.node == NodeId(0) {
                return Err(ChangeRefused::UnknownNode(member.node));
            }
            if member.weight == 0 {
                return Err(ChangeRefused::LastWeight);
            }
            total += u64::from(member.weight); // at most 2^32 members of less than 2^32 each
        }
        if total == 0 {
            return Err(ChangeRefused::LastWeight);
        }
        if total > u64::from(WEIGHT_TOTAL_MAX) {
            return Err(ChangeRefused::Overflow);
        }
        if self.is_quorum(|node| self.is_auxiliary(node)) {
            return Err(ChangeRefused::Auxiliary);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    fn weights(weights: &[u32]) -> Option<Configuration> {
        let members = weights.iter().enumerate().filter(|(_, w)| **w > 0);
        Configuration::new(members.map(|(n, w)| Member {
            node: NodeId(n as u32 + 1),
            weight: *w,
            auxiliary: false,
        }))
        .ok()
    }

    fn quorum(configuration: &Configuration, set: u32) -> bool {
        configuration.is_quorum(|node| set & (1 << node.0) != 0)
    }

    fn meet(a: &Configuration, b: &Configuration) -> bool {
        let sets = || (0..64u32).step_by(2);
        sets().all(|q| !quorum(a, q) || sets().all(|r| !quorum(b, r) || q & r != 0))
    }

    /// P1, by force: every quorum of e meets every quorum of e and of e+1.
    #[test]
    fn quorums_of_an_era_meet_those_of_the_next() {
        let mut checked = 0;
        for code in 0..4u32.pow(5) {
            let of = |n: u32| code / 4u32.pow(n) % 4;
            let Some(now) = weights(&[of(0), of(1), of(2), of(3), of(4)]) else {
                continue;
            };
            assert!(meet(&now, &now));
            let mut changes = vec![Change::Multiply(2), Change::Multiply(3), Change::Divide(2)];
            for node in 1..=5 {
                changes.push(Change::Increment(NodeId(node)));
                changes.push(Change::Decrement(NodeId(node)));
            }
            for change in changes {
                let Ok(next) = now.apply(change) else {
                    continue;
                };
                assert!(meet(&now, &next), "{now:?} {change:?}");
                checked += 1;
            }
        }
        assert!(checked > 10_000);
    }

    /// A rule broken elsewhere: the original computed the overflow check in int. Three weights of 1 times 100
    /// wrapped to a total of 44, and one node alone was a quorum.
    #[test]
    fn multiplying_beyond_the_limit_is_refused() {
        let three = weights(&[1, 1, 1]).unwrap();
        let greatest = WEIGHT_TOTAL_MAX / 3;
        assert!(three.apply(Change::Multiply(greatest)).is_ok());
        for factor in [greatest + 1, 1 << 31, u32::MAX] {
            let refused = three.apply(Change::Multiply(factor));
            assert_eq!(refused, Err(ChangeRefused::Overflow));
        }
        let hundred = three.apply(Change::Multiply(100)).unwrap();
        assert!(!hundred.is_quorum(|node| node == NodeId(1)));
    }

    #[test]
    fn incrementing_beyond_the_limit_is_refused() {
        let full = weights(&[WEIGHT_TOTAL_MAX]).unwrap();
        let refused = full.apply(Change::Increment(NodeId(1)));
        assert_eq!(refused, Err(ChangeRefused::Overflow));
        let refused = full.apply(Change::Increment(NodeId(9)));
        assert_eq!(refused, Err(ChangeRefused::Overflow));
    }

    #[test]
    fn a_division_with_remainder_is_refused() {
        let odd = weights(&[2, 4, 3]).unwrap();
        assert_eq!(odd.apply(Change::Divide(2)), Err(ChangeRefused::Remainder));
        let even = weights(&[2, 4, 6]).unwrap();
        assert_eq!(
            even.apply(Change::Divide(2)),
            Ok(weights(&[1, 2, 3]).unwrap())
        );
        assert_eq!(
            even.apply(Change::Divide(0)),
            Err(ChangeRefused::ZeroFactor)
        );
        assert_eq!(
            even.apply(Change::Multiply(0)),
            Err(ChangeRefused::ZeroFactor)
        );
    }

    #[test]
    fn the_last_weight_stays() {
        let one = weights(&[1]).unwrap();
        let refused = one.apply(Change::Decrement(NodeId(1)));
        assert_eq!(refused, Err(ChangeRefused::LastWeight));
        assert_eq!(Configuration::new([]), Err(ChangeRefused::LastWeight));
    }

    #[test]
    fn unknown_nodes_cannot_lose_weight_or_be_marked() {
        let one = weights(&[2]).unwrap();
        let unknown = Err(ChangeRefused::UnknownNode(NodeId(7)));
        assert_eq!(one.apply(Change::Decrement(NodeId(7))), unknown);
        assert_eq!(one.apply(Change::MarkAuxiliary(NodeId(7))), unknown);
        let nobody = Err(ChangeRefused::UnknownNode(NodeId(0)));
        assert_eq!(one.apply(Change::Increment(NodeId(0))), nobody);
    }

    #[test]
    fn a_decrement_to_nothing_removes_the_node() {
        let two = weights(&[1, 1]).unwrap();
        let one = two.apply(Change::Decrement(NodeId(1))).unwrap();
        assert!(!one.contains(NodeId(1)));
        assert_eq!(one.weight(NodeId(1)), 0);
        assert!(one.is_quorum(|node| node == NodeId(2)));
    }

    #[test]
    fn auxiliaries_together_are_below_a_quorum() {
        let three = weights(&[1, 1, 1]).unwrap();
        let marked = three.apply(Change::MarkAuxiliary(NodeId(3))).unwrap();
        assert!(marked.is_auxiliary(NodeId(3)));
        let refused = Err(ChangeRefused::Auxiliary);
        assert_eq!(marked.apply(Change::MarkAuxiliary(NodeId(3))), refused);
        assert_eq!(marked.apply(Change::MarkAuxiliary(NodeId(2))), refused);
        assert_eq!(three.apply(Change::UnmarkAuxiliary(NodeId(2))), refused);
        assert_eq!(
            marked
                .apply(Change::Increment(NodeId(3)))
                .map(|c| c.total()),
            Ok(4)
        );
        let heavy = marked.apply(Change::Increment(NodeId(3))).unwrap();
        assert_eq!(heavy.apply(Change::Decrement(NodeId(1))), refused);
        assert_eq!(heavy.apply(Change::Increment(NodeId(3))), refused);
    }

    #[test]
    fn more_than_64_nodes_are_counted() {
        let hundred = Configuration::equal((1..=100).map(NodeId)).unwrap();
        assert!(!hundred.is_quorum(|node| node.0 <= 50));
        assert!(hundred.is_quorum(|node| node.0 > 49));
    }
}
