//! Terms: the right to propose, and its order.

use core::fmt;

/// A node's number in its cluster: given once, never reused. 0 is never a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// An era: the number of reconfigurations that were chosen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Era(pub u32);

/// A ballot. Ordered lexicographically; only its owner proposes in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// The era whose quorums decide in it.
    pub era: Era,
    /// Counts the terms that an era's members began, from 1; owners tell equal ones apart.
    pub number: u32,
    /// The only node that proposes in it.
    pub owner: NodeId,
}

/// A promise: this node will accept nothing older. (Not an [`AcceptedTerm`]: mixing up the two un-committed
/// data in another system, so they are different types.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromisedTerm(pub Term);

/// An acceptance: this node did accept under this term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcceptedTerm(pub Term);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.era.0, self.number, self.owner.0)
    }
}
