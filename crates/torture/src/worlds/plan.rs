//! A world and the events in it, drawn from its seed.

use std::fmt;
use std::time::Duration;

use crate::schedule::Chance;

/// A cluster, as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Node 1, then node 2 …
    pub nodes: Vec<Node>,
    pub voters: u32,
    /// Beside `main`.
    pub logs: Vec<Log>,
    pub length: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub zone: Option<char>,
    pub auxiliary: bool,
    /// It has a disk of its own, which can be filled.
    pub small_disk: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub name: String,
    /// None are all, also those that come.
    pub members: Vec<u64>,
    pub auxiliary: Vec<u64>,
}

/// Something that is done to places of nodes, which are numbered as the nodes were at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    Kill(u32),
    Stop(u32),
    /// Nobody talks with it.
    Pull(u32),
    /// Two do not talk with each other.
    Pair(u32, u32),
    /// The first is not heard by the second.
    OneWay(u32, u32),
    Full(u32),
    /// To the last byte: writes fail, and replicas stop until their node is started again.
    Brim(u32),
    KillAll,
    StopAll,
}

/// An operator's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Weight {
        log: usize,
        place: u32,
        weight: u64,
    },
    Lead {
        log: usize,
    },
    Create,
    Delete,
    Retain,
    /// A node's disk is lost, and another takes its place.
    Replace {
        place: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    pub quiet: Duration,
    /// At once, and healed at once.
    pub strikes: Vec<Strike>,
    pub length: Duration,
    /// Given while the strikes last. A replacement comes alone.
    pub command: Option<Command>,
}

impl Plan {
    pub fn draw(chance: &mut Chance) -> Plan {
        let count = [3, 3, 4, 5][chance.below(4) as usize];
        let zones = chance.one_in(3);
        let has_auxiliary = chance.one_in(3);
        let small = chance.between(1, count) as u32;
        let node = |place: u32| Node {
            zone: zones.then(|| char::from(b'a' + (place - 1) as u8)),
            auxiliary: has_auxiliary && u64::from(place) == count,
            small_disk: place == small,
        };
        let nodes = (1..=count as u32).map(node).collect();
        let voters = if count < 5 || chance.one_in(2) { 3 } else { 5 };
        let mut logs = vec![Log {
            name: "everywhere".to_owned(),
            members: Vec::new(),
            auxiliary: Vec::new(),
        }];
        let mut members: Vec<u64> = (1..=count).collect();
        while members.len() > 3 {
            members.remove(chance.below(members.len() as u64) as usize);
        }
        let auxiliary = members[chance.below(3) as usize];
        // An auxiliary node would be one more, and two of three cannot be.
        let auxiliary = match has_auxiliary {
            true => Vec::new(),
            false => vec![auxiliary],
        };
        logs.push(Log {
            name: "placed".to_owned(),
            members,
            auxiliary,
        });
        Plan {
            nodes,
            voters,
            logs,
            length: chance.millis(60_000, 180_000),
        }
    }

    fn count(&self) -> u64 {
        self.nodes.len() as u64
    }

    pub fn draw_round(&self, chance: &mut Chance) -> Round {
        let quiet = chance.millis(200, 1500);
        if chance.one_in(7) {
            let place = chance.between(1, self.count()) as u32;
            return Round {
                quiet,
                strikes: Vec::new(),
                length: Duration::ZERO,
                command: Some(Command::Replace { place }),
            };
        }
        let mut strikes = match chance.below(9) {
            0 => Vec::new(),
            _ => vec![self.draw_strike(chance)],
        };
        // Two of five voters may be struck.
        if self.voters == 5 && chance.one_in(3) {
            let second = self.draw_strike(chance);
            if strikes.iter().all(|first| first.may_come_with(second)) {
                strikes.push(second);
            }
        }
        let command = match strikes.is_empty() || chance.one_in(2) {
            true => Some(self.draw_command(chance)),
            false => None,
        };
        Round {
            quiet,
            strikes,
            length: chance.millis(300, 7000),
            command,
        }
    }

    fn draw_strike(&self, chance: &mut Chance) -> Strike {
        let one = chance.between(1, self.count()) as u32;
        let other = one % self.count() as u32 + 1;
        match chance.below(20) {
            0..=3 => Strike::Kill(one),
            4..=6 => Strike::Stop(one),
            7..=9 => Strike::Pull(one),
            10..=12 => Strike::Pair(one, other),
            13..=14 => Strike::OneWay(one, other),
            15..=17 => {
                let mut all = (1..).zip(&self.nodes);
                let small = all.find(|(_, node)| node.small_disk);
                let place = small.map_or(one, |(place, _)| place);
                match chance.one_in(3) {
                    true => Strike::Brim(place),
                    false => Strike::Full(place),
                }
            }
            18 => Strike::KillAll,
            _ => Strike::StopAll,
        }
    }

    fn draw_command(&self, chance: &mut Chance) -> Command {
        // `main` is the first of them.
        let log = chance.below(1 + self.logs.len() as u64) as usize;
        match chance.below(6) {
            0..=1 => Command::Weight {
                log,
                place: chance.between(1, self.count()) as u32,
                weight: chance.between(1, 2),
            },
            2 => Command::Lead { log },
            3 => Command::Create,
            4 => Command::Delete,
            _ => Command::Retain,
        }
    }
}

impl Strike {
    /// The place that takes no part while it lasts.
    pub fn out(self) -> Option<u32> {
        match self {
            Self::Kill(place) | Self::Stop(place) | Self::Pull(place) => Some(place),
            _ => None,
        }
    }

    /// Two nodes of which one may have to do without the other.
    pub fn apart(self) -> Option<(u32, u32)> {
        match self {
            Self::Pair(one, other) | Self::OneWay(one, other) => Some((one, other)),
            _ => None,
        }
    }

    fn may_come_with(self, other: Strike) -> bool {
        match (self.out(), other.out()) {
            (Some(one), Some(two)) => one != two,
            _ => false,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Kill(_) => "kill",
            Self::Stop(_) => "stop",
            Self::Pull(_) => "pull",
            Self::Pair(..) => "pair",
            Self::OneWay(..) => "one-way",
            Self::Full(_) => "full",
            Self::Brim(_) => "brim",
            Self::KillAll => "kill-all",
            Self::StopAll => "stop-all",
        }
    }
}

impl Command {
    pub fn name(self) -> &'static str {
        match self {
            Self::Weight { .. } => "weight",
            Self::Lead { .. } => "lead",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Retain => "retain",
            Self::Replace { .. } => "replace",
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for strike in &self.strikes {
            write!(f, "{strike:?} ")?;
        }
        if let Some(command) = self.command {
            write!(f, "{command:?} ")?;
        }
        write!(f, "{} ms", self.length.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worlds() -> impl Iterator<Item = (Plan, Vec<Round>)> {
        (0..200).map(|seed| {
            let mut chance = Chance::new(seed, 1);
            let plan = Plan::draw(&mut chance);
            let rounds = (0..40).map(|_| plan.draw_round(&mut chance)).collect();
            (plan, rounds)
        })
    }

    #[test]
    fn a_seed_makes_the_same_world_again() {
        assert!(worlds().eq(worlds()));
        let first: Vec<Plan> = worlds().map(|(plan, _)| plan).take(20).collect();
        assert!(first.windows(2).any(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn every_strike_and_every_command_comes_and_names_places_that_there_are() {
        let mut names = std::collections::BTreeSet::new();
        for (plan, rounds) in worlds() {
            let places = 1..=plan.nodes.len() as u32;
            for round in rounds {
                for strike in &round.strikes {
                    names.insert(strike.name());
                    let apart = strike.apart().map_or(vec![], |(a, b)| vec![a, b]);
                    for place in strike.out().into_iter().chain(apart.iter().copied()) {
                        assert!(places.contains(&place), "{strike:?}");
                    }
                    assert!(apart.first().is_none_or(|one| apart[1] != *one));
                }
                names.extend(round.command.map(Command::name));
            }
        }
        let all = "brim create delete full kill kill-all lead one-way pair pull replace retain stop stop-all weight";
        assert_eq!(names.into_iter().collect::<Vec<_>>().join(" "), all);
    }

    #[test]
    fn at_most_a_minority_of_the_voters_is_out() {
        for (plan, rounds) in worlds() {
            for round in rounds {
                let out: Vec<u32> = round.strikes.iter().filter_map(|s| s.out()).collect();
                assert!(out.len() as u32 <= (plan.voters - 1) / 2, "{round}");
            }
        }
    }
}
