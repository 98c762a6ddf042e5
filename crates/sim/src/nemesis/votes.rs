//! The beginnings of eras: casting votes that somebody is slow to answer, or whose leader goes meanwhile.
//!
//! Mostly such a vote is over within a round trip and a durable write, and little can happen in it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use formats::LogId;
use node::Node;
use ops::Time;
use paxos::{NodeId, PromisedTerm};

use super::{Nemesis, bring_back, in_war};
use crate::host::HostId;
use crate::random::Random;
use crate::swarm::Act;
use crate::world::World;

/// One turn waits so long for votes to strike.
const WATCH: Duration = Duration::from_secs(2);
const LOOK_EVERY_US: Range<u64> = 100..2_000;

/// A leader waits 0.7 s for the promises of those that it asks.
const LASTS_US: Range<u64> = 20_000..900_000;

impl Nemesis {
    pub(super) fn stretch_votes(&mut self, world: &mut World) {
        let now = world.now();
        let until = (now + WATCH).min(self.until - Duration::from_micros(1));
        if now < self.watches_votes_until || until <= now {
            return;
        }
        self.watches_votes_until = until;
        let latency_us = self.swarm.network.latency_us.start;
        let watch = Watch {
            look_every_us: latency_us.clamp(LOOK_EVERY_US.start, LOOK_EVERY_US.end),
            nodes: self.nodes.clone(),
            until,
            random: Random::new(self.random.draw()),
            struck: BTreeSet::new(),
        };
        world.at(now, move |world| watch.look(world));
    }

    /// Whether harm may come to a node until then: from now on it is somebody's victim.
    pub(super) fn takes(&mut self, node: HostId, now: Time, until: Time) -> bool {
        let spare = self.spare(node, now).is_some();
        if spare {
            self.hold(node, until);
        }
        spare
    }
}

/// For a casting vote to begin.
struct Watch {
    look_every_us: u64,
    nodes: Vec<HostId>,
    until: Time,
    random: Random,
    /// The votes that were struck already.
    struck: BTreeSet<(LogId, PromisedTerm)>,
}

/// One that runs.
struct Vote {
    log: LogId,
    promised: PromisedTerm,
    leader: HostId,
    asked: Vec<HostId>,
}

impl Watch {
    /// Again and again.
    fn look(mut self, world: &mut World) {
        if world.is_peace() || world.now() >= self.until {
            return;
        }
        for vote in votes(world, &self.nodes) {
            if self.struck.insert((vote.log, vote.promised)) {
                self.strike(world, &vote);
            }
        }
        let again = world.now() + Duration::from_micros(self.look_every_us);
        world.at(again, move |world| self.look(world));
    }

    fn strike(&mut self, world: &mut World, vote: &Vote) {
        let (now, leader) = (world.now(), vote.leader);
        let kind = self.random.below(8);
        let lasts_us = self.random.within(&LASTS_US);
        let later_us = self.random.below(lasts_us);
        let Some(nemesis) = &mut world.nemesis else {
            return;
        };
        let over =
            (now + Duration::from_micros(lasts_us)).min(nemesis.until - Duration::from_micros(1));
        let mut victims = match kind {
            0..=2 => vec![leader],
            _ => vote.asked.clone(),
        };
        victims.retain(|victim| nemesis.takes(*victim, now, over));
        if victims.is_empty() {
            return;
        }
        nemesis.did(Act::StretchVote);
        world.line(format_args!("nemesis: {:?} {kind}", Act::StretchVote));
        for victim in victims {
            match kind {
                // In the midst of it, perhaps.
                0 => in_war(world, now + Duration::from_micros(later_us), move |world| {
                    world.crash(victim);
                }),
                1 => world.pause(victim, Duration::from_micros(lasts_us)),
                // The leader hears no more of it.
                5..=6 => {
                    world.cut(victim, leader);
                    world.at(over, move |world| world.heal(victim, leader));
                }
                // Its own promise comes late, or those of whom it asked.
                _ => {
                    world.hang_disk(victim);
                    in_war(world, over, move |world| world.release_disk(victim));
                }
            }
            in_war(world, over, move |world| bring_back(world, victim));
        }
    }
}

fn votes(world: &World, nodes: &[HostId]) -> Vec<Vote> {
    let host_of = |id: NodeId| {
        let mut nodes = nodes.iter().copied();
        nodes.find(|host| {
            let node = world.machine::<Node>(*host);
            node.is_some_and(|node| node.id() == id)
        })
    };
    let mut votes = Vec::new();
    for &leader in nodes {
        let Some(node) = world.machine::<Node>(leader) else {
            continue;
        };
        for view in node.log_views().filter(|view| view.stopped.is_none()) {
            if let Some(asked) = view.asked_at_a_casting_vote() {
                votes.push(Vote {
                    log: view.id,
                    promised: view.promised,
                    leader,
                    asked: asked.iter().copied().filter_map(host_of).collect(),
                });
            }
        }
    }
    votes
}
