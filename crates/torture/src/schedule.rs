//! The choice of faults, of whom they strike and for how long: drawn from the seed alone.
//!
//! ```text
//!  round:  quiet ── strikes begin ── each lasts its time ── healed ── recovered ── next round
//! ```
//!
//! Kinds come from a deck that is shuffled when it is used up, so that each comes as often as every
//! other. In one round different nodes are struck, never more than a minority, except where all are
//! at once and heal by themselves: a restart of all, and now and then a pause of all.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::content::mix;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// SIGKILL, and started again
    Kill,
    /// SIGSTOP, and SIGCONT
    Stop,
    /// Cut off from all, from the other nodes, or from one of them
    Partition,
    /// Hears and is not heard, or is heard and does not hear
    OneWay,
    /// Every durable write takes up to seconds longer
    SlowDisk,
    /// Nothing is free; in half of the cases writes fail too
    FullDisk,
    /// Writes fail with EIO until the node is started again
    IoError,
    /// Bytes flipped in records that are known to be durable
    Corrupt,
    /// All nodes killed at once, and started again
    RestartAll,
    /// With --kv: a node that was killed finds no rows of a group any more
    LoseState,
}

impl Kind {
    /// What can be done to logs.
    pub fn all() -> Vec<Kind> {
        let all = Self::value_variants().iter().copied();
        all.filter(|kind| *kind != Self::LoseState).collect()
    }

    /// What can be done to groups of keys. The payloads of their logs are given to nobody who could say whether they are right again.
    pub fn all_of_keys() -> Vec<Kind> {
        let all = Self::value_variants().iter().copied();
        all.filter(|kind| *kind != Self::Corrupt).collect()
    }

    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The way in which it is done here.
    pub fn mechanism(self) -> &'static str {
        match self {
            Self::Kill => "kill -9 of the process, started again after up to 5 s",
            Self::Stop => "SIGSTOP and SIGCONT; one time in six of all nodes at once",
            Self::Partition => {
                "TCP proxies between all nodes and clients hold back or end connections; network \
                 namespaces are not used"
            }
            Self::OneWay => {
                "the proxies hold back what one node sends to its peers, or what they send to it; \
                 a connection between nodes carries frames one way"
            }
            Self::SlowDisk => {
                "injected into the node's writes (node --faults): 20 ms to 2.5 s before each"
            }
            Self::FullDisk => {
                "injected (node --faults): the node is told that 0 bytes are free, and in half of \
                 the cases its writes fail with ENOSPC; no file system is filled"
            }
            Self::IoError => "injected (node --faults): writes fail with EIO, unwritten",
            Self::Corrupt => {
                "bytes of payload flipped in the node's segment files, while it runs or is dead; \
                 then read back through that node until they are right"
            }
            Self::RestartAll => "kill -9 of all processes, started again within a second",
            Self::LoseState => {
                "kill -9 of the process; the directory of a group's rows is removed before it is \
                 started again"
            }
        }
    }
}

/// One fault, from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    pub kind: Kind,
    /// The node that is struck; of a strike on all, any.
    pub victim: u32,
    pub detail: Detail,
    pub length: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    None,
    /// Not only the victim.
    All,
    /// From nodes and clients.
    FromAll {
        cut: bool,
    },
    /// From nodes only: clients still reach it.
    FromPeers {
        cut: bool,
    },
    FromOne {
        other: u32,
        cut: bool,
    },
    Unheard,
    Deaf,
    Delay {
        millis: u64,
    },
    /// Whether writes fail too.
    Space {
        writes_fail: bool,
    },
    /// The number of bytes, and whether the node is killed for it.
    Flip {
        records: u32,
        dead: bool,
        choice: u64,
    },
    /// The rows of which group.
    Lose {
        choice: u64,
    },
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind.name())?;
        match self.detail {
            Detail::All => write!(f, " of all nodes")?,
            _ if self.kind == Kind::RestartAll => {}
            _ => write!(f, " of node {}", self.victim)?,
        }
        match self.detail {
            Detail::None | Detail::All | Detail::Lose { .. } => {}
            Detail::FromAll { cut } => write!(f, " from everybody{}", ending(cut))?,
            Detail::FromPeers { cut } => write!(f, " from other nodes{}", ending(cut))?,
            Detail::FromOne { other, cut } => write!(f, " from node {other}{}", ending(cut))?,
            Detail::Unheard => write!(f, ", which is not heard")?,
            Detail::Deaf => write!(f, ", which does not hear")?,
            Detail::Delay { millis } => write!(f, ", {millis} ms a write")?,
            Detail::Space { writes_fail: true } => write!(f, ", writes fail")?,
            Detail::Space { writes_fail: false } => write!(f, ", reserve left")?,
            Detail::Flip { records, dead, .. } => {
                let state = if dead { "dead" } else { "running" };
                write!(f, ", {records} records, {state}")?;
            }
        }
        write!(f, ", {} ms", self.length.as_millis())
    }
}

fn ending(cut: bool) -> &'static str {
    match cut {
        true => ", connections ended",
        false => ", in silence",
    }
}

/// The events of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    pub quiet: Duration,
    /// On different nodes, a minority, unless it is one strike on all.
    pub strikes: Vec<Strike>,
}

pub struct Schedule {
    chance: Chance,
    kinds: Vec<Kind>,
    deck: Vec<Kind>,
    nodes: u32,
}

/// A sequence of numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64, what: u64) -> Self {
        Self(mix(seed ^ mix(what)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }
}

impl Schedule {
    pub fn new(seed: u64, kinds: &[Kind], nodes: u32) -> Self {
        let mut kinds = kinds.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        Self {
            chance: Chance::new(seed, 1),
            kinds,
            deck: Vec::new(),
            nodes,
        }
    }

    pub fn next_round(&mut self) -> Round {
        let quiet = self.chance.millis(300, 2500);
        let minority = (self.nodes - 1) / 2;
        if self.kinds.is_empty() {
            return Round {
                quiet,
                strikes: Vec::new(),
            };
        }
        let count = self.chance.between(1, u64::from(minority.max(1)));
        let mut victims: Vec<u32> = (1..=self.nodes).collect();
        let mut strikes: Vec<Strike> = Vec::new();
        while strikes.len() < count as usize {
            let kind = self.draw();
            let at = self.chance.below(victims.len() as u64) as usize;
            let strike = self.strike(kind, victims[at]);
            let on_all = strike.kind == Kind::RestartAll || strike.detail == Detail::All;
            if on_all && !strikes.is_empty() {
                // Its turn comes: alone, in the next round.
                self.deck.push(kind);
                break;
            }
            victims.remove(at);
            strikes.push(strike);
            if on_all {
                break;
            }
        }
        Round { quiet, strikes }
    }

    fn draw(&mut self) -> Kind {
        if self.deck.is_empty() {
            self.deck.clone_from(&self.kinds);
            for index in (1..self.deck.len()).rev() {
                let other = self.chance.below(index as u64 + 1) as usize;
                self.deck.swap(index, other);
            }
        }
        self.deck.pop().expect("filled above if it was empty")
    }

    fn strike(&mut self, kind: Kind, victim: u32) -> Strike {
        let chance = &mut self.chance;
        let cut = chance.one_in(3);
        let (detail, length) = match kind {
            Kind::Kill => (Detail::None, chance.millis(0, 5000)),
            Kind::Stop if chance.one_in(6) => (Detail::All, chance.millis(200, 2000)),
            Kind::Stop => (Detail::None, chance.millis(200, 7000)),
            Kind::Partition => {
                let mut other = chance.between(1, u64::from(self.nodes)) as u32;
                if other == victim {
                    other = other % self.nodes + 1;
                }
                let detail = match chance.below(3) {
                    0 => Detail::FromAll { cut },
                    1 => Detail::FromPeers { cut },
                    _ => Detail::FromOne { other, cut },
                };
                (detail, chance.millis(500, 7000))
            }
            Kind::OneWay => {
                let detail = match chance.one_in(2) {
                    true => Detail::Unheard,
                    false => Detail::Deaf,
                };
                (detail, chance.millis(500, 6000))
            }
            Kind::SlowDisk => {
                let millis = [20, 100, 500, 2500][chance.below(4) as usize];
                (Detail::Delay { millis }, chance.millis(1000, 6000))
            }
            Kind::FullDisk => {
                let writes_fail = chance.one_in(2);
                (Detail::Space { writes_fail }, chance.millis(500, 3000))
            }
            Kind::IoError => (Detail::None, chance.millis(500, 4000)),
            Kind::Corrupt => {
                let detail = Detail::Flip {
                    records: chance.between(1, 3) as u32,
                    dead: chance.one_in(2),
                    choice: chance.next(),
                };
                (detail, chance.millis(0, 1000))
            }
            Kind::RestartAll => (Detail::None, chance.millis(0, 1000)),
            Kind::LoseState => {
                let choice = chance.next();
                (Detail::Lose { choice }, chance.millis(0, 3000))
            }
        };
        Strike {
            kind,
            victim,
            detail,
            length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_seed_makes_the_same_rounds_again_and_another_seed_others() {
        let rounds = |seed| {
            let mut schedule = Schedule::new(seed, &Kind::all(), 5);
            (0..50).map(|_| schedule.next_round()).collect::<Vec<_>>()
        };
        assert_eq!(rounds(1), rounds(1));
        assert_ne!(rounds(1), rounds(2));
    }

    #[test]
    fn never_more_than_a_minority_is_struck_unless_all_are() {
        for nodes in [1, 3, 5, 7] {
            let mut schedule = Schedule::new(7, &Kind::all(), nodes);
            for _ in 0..500 {
                let round = schedule.next_round();
                let victims: BTreeSet<u32> = round.strikes.iter().map(|s| s.victim).collect();
                assert_eq!(victims.len(), round.strikes.len(), "different nodes");
                assert!(victims.len() as u32 <= ((nodes - 1) / 2).max(1));
                let on_all = |s: &Strike| s.kind == Kind::RestartAll || s.detail == Detail::All;
                assert!(round.strikes.len() == 1 || !round.strikes.iter().any(on_all));
            }
        }
    }

    #[test]
    fn every_kind_comes_as_often_as_the_others() {
        let mut schedule = Schedule::new(3, &Kind::all(), 3);
        let mut counts: BTreeMap<Kind, u32> = BTreeMap::new();
        for _ in 0..90 {
            for strike in schedule.next_round().strikes {
                *counts.entry(strike.kind).or_default() += 1;
            }
        }
        assert_eq!(counts.len(), Kind::all().len());
        assert!(counts.values().all(|count| *count == 10), "{counts:?}");
    }
}
