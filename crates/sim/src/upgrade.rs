//! Programs of two versions side by side: which one each node's next start is.
//!
//! Its chance is its own, from the seed: everything else in a run is drawn as without it.
//!
//! The older program of these runs is this one with a lower number. It has to do without the things that
//! programs of that number did not know: the directory that it makes has no key that names its disk, and it
//! cannot prove that it is a disk that has one (docs/decisions/0032). So it starts on no directory that the
//! newer one made.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::rc::Rc;

use formats::version::FIRST;
use formats::{ClusterId, DiskId, Identity, Speaks};
use node::config::Start;
use ops::Disk;
use paxos::NodeId;
use serde::{Deserialize, Serialize};
use store::Manifest;

use crate::random::Random;

/// The way in which nodes get another program, as they are started again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// At the end every node has the newer one; else one keeps the older for ever.
    pub to_the_end: bool,
    /// The time after which, once all have the newer program, there is no way back.
    pub settle_us: u64,
}

/// The programs of one run, shared by all that start its nodes.
pub(crate) type Programs = Rc<RefCell<Running>>;

pub(crate) struct Running {
    random: Random,
    /// By the node's index; `None` until its first start.
    newer: Vec<Option<bool>>,
    /// Whether the newer one made its directory, by the node's index.
    keyed: Vec<bool>,
    /// Whether all have joined. Until then the first node keeps the older program: a cluster that went on
    /// takes in no node that did not.
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

/// The newer program, which differs from this one in its number only: a program that speaks the older number
/// truly refuses all that is marked with it.
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
            keyed: vec![false; nodes],
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
            _ if self.keyed[index] && !disk_is_empty => true,
            (_, Phase::Finishing) => true,
            (Some(now), Phase::Keeping) => now,
            (None, _) => self.random.coin(),
            (Some(false), Phase::Mixing) => self.random.coin(),
            // Somebody does not like it, and goes back.
            (Some(true), Phase::Mixing) => self.random.below(4) > 0,
        };
        self.newer[index] = Some(drawn);
        self.keyed[index] = if disk_is_empty {
            drawn
        } else {
            self.keyed[index]
        };
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

/// An older program's new directory: its id was drawn, and names no key.
pub(crate) fn make_directory_of_before(
    disk: &mut dyn Disk,
    directory: &Path,
    start: &Start,
) -> io::Result<()> {
    let mut drawn = disk.random()?;
    drawn[0] = 0;
    let (cluster, node) = match start {
        Start::Bootstrap { .. } => (ClusterId(disk.random()?), NodeId(1)),
        _ => (ClusterId::default(), NodeId(0)),
    };
    let manifest = Manifest {
        version: FIRST,
        identity: Identity {
            cluster,
            node,
            disk: DiskId(drawn),
        },
        incarnation: 0,
        logs: Vec::new(),
        deleted: BTreeSet::new(),
    };
    disk.create_directory(directory)?;
    manifest.save(disk, directory).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_program_starts_on_no_directory_that_the_newer_one_made() {
        for seed in 0..200 {
            let upgrade = Upgrade {
                to_the_end: seed % 2 == 0,
                settle_us: 0,
            };
            let programs = upgrade.programs(seed, 3);
            let mut programs = programs.borrow_mut();
            programs.on_all_joined();
            for index in 0..3 {
                let made_by = programs.next(index, true);
                let later: Vec<Speaks> = (0..20).map(|_| programs.next(index, false)).collect();
                assert!(made_by == older() || later.iter().all(|speaks| *speaks == newer()));
            }
        }
    }
}
