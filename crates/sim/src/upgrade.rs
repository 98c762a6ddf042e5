//! Programs of two versions side by side: which one each node's next start is.
//!
//! Its chance is its own, from the seed: what else happens in a run is drawn as without it.

use std::cell::RefCell;
use std::rc::Rc;

use formats::Speaks;
use formats::version::FIRST;
use serde::{Deserialize, Serialize};

use crate::random::Random;

/// How nodes get another program, as they are started again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// At the end every node has the newer one; else one keeps the older for ever.
    pub to_the_end: bool,
    /// So long after all have it, there is no way back.
    pub settle_us: u64,
}

/// Of one run, shared by all that start its nodes.
pub(crate) type Programs = Rc<RefCell<Running>>;

pub(crate) struct Running {
    random: Random,
    /// By the node's index; `None` until its first start.
    newer: Vec<Option<bool>>,
    /// Until then the first one keeps the older program: a cluster that went on takes in nobody who did
    /// not.
    all_joined: bool,
    pinned: Option<usize>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Any start may be of the other program.
    Mixing,
    /// Each keeps the one it has.
    Keeping,
    /// Each gets the newer one.
    Finishing,
}

const SALT: u64 = 0x7665_7273_696f_6e73;

pub(crate) fn older() -> Speaks {
    Speaks::new(FIRST, FIRST).expect("it is a range")
}

/// It differs from this one in its number only: whoever speaks the older one truly refuses all that
/// is marked with it.
pub(crate) fn newer() -> Speaks {
    Speaks::new(FIRST, FIRST + 1).expect("it is a range")
}

impl Upgrade {
    /// For about every fourth seed.
    pub fn draw(seed: u64) -> Option<Upgrade> {
        let random = &mut Random::new(seed ^ SALT);
        (random.below(4) == 0).then(|| Upgrade {
            to_the_end: random.below(4) > 0,
            settle_us: 100_000 << random.below(6),
        })
    }

    pub(crate) fn programs(&self, seed: u64, nodes: usize) -> Programs {
        let mut random = Random::new(seed ^ !SALT);
        let pinned = random.below(nodes as u64) as usize;
        Rc::new(RefCell::new(Running {
            random,
            newer: vec![None; nodes],
            all_joined: false,
            pinned: (!self.to_the_end).then_some(pinned),
            phase: Phase::Mixing,
        }))
    }
}

impl Running {
    /// The program that the node of this index starts with now.
    pub fn next(&mut self, index: usize, disk_is_empty: bool) -> Speaks {
        let drawn = match (self.newer[index], self.phase) {
            _ if self.pinned == Some(index) => false,
            _ if index == 0 && !self.all_joined => false,
            // It joins again.
            (Some(_), _) if disk_is_empty => true,
            (_, Phase::Finishing) => true,
            (Some(now), Phase::Keeping) => now,
            (None, _) => self.random.coin(),
            (Some(false), Phase::Mixing) => self.random.coin(),
            // Somebody does not like it, and goes back.
            (Some(true), Phase::Mixing) => self.random.below(4) > 0,
        };
        self.newer[index] = Some(drawn);
        match drawn {
            true => newer(),
            false => older(),
        }
    }

    /// There was no way back: next time it is the newer one again.
    pub fn refused(&mut self, index: usize) {
        self.newer[index] = Some(true);
    }

    pub fn on_all_joined(&mut self) {
        self.all_joined = true;
    }

    pub fn keep(&mut self) {
        self.phase = Phase::Keeping;
    }

    pub fn finish(&mut self) {
        self.phase = Phase::Finishing;
    }
}
