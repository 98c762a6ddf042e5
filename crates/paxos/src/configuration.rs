//! Weights, and what a quorum is.

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub node: NodeId,
    pub weight: u32,
    pub auxiliary: bool,
}

/// Why a step is not legal in this configuration. It is then a no-op and starts no era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefused {
    Overflow,
    Remainder,
    ZeroFactor,
    UnknownNode(NodeId),
    LastWeight,
    /// The auxiliaries together would be a quorum, or the mark is already so.
    Auxiliary,
    WrongEra,
}

/// No weight and no total exceeds this.
pub const WEIGHT_TOTAL_MAX: u32 = 1 << 20;
