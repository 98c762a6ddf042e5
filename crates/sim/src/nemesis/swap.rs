//! Two leaders in turn: the first has bytes that nobody else has, and is back as soon as the second
//! has had other bytes accepted in their place, and dies.

use std::ops::Range;
use std::time::Duration;

use node::Node;
use ops::Time;
use paxos::Role;
use replica::LogView;

use super::depose::leader;
use super::{Nemesis, bring_back, in_war};
use crate::host::HostId;
use crate::swarm::Act;
use crate::world::World;

/// One turn waits so long for a second leader.
const WATCH: Duration = Duration::from_secs(5);
const LOOK_EVERY_US: Range<u64> = 200..2_000;

/// The others elect one of themselves meanwhile.
const DEAD_US: Range<u64> = 2_000_000..6_000_000;

impl Nemesis {
    pub(super) fn swap_leaders(&mut self, world: &mut World) {
        let now = world.now();
        let until = (now + WATCH).min(self.until - Duration::from_micros(1));
        let dead_us = self.random.within(&DEAD_US);
        let Some(first) = leader(world, &self.nodes) else {
            return;
        };
        if !self.takes(first, now, until) {
            return;
        }
        self.did(Act::SwapLeaders);
        world.line(format_args!("nemesis: {:?}", Act::SwapLeaders));
        // Clients go on giving it bytes that nobody else gets.
        self.silence(world, first, until, false, true);
        let latency_us = self.swarm.network.latency_us.start;
        let watch = Watch {
            look_every_us: latency_us.clamp(LOOK_EVERY_US.start, LOOK_EVERY_US.end),
            nodes: self.nodes.clone(),
            first,
            until,
            dead_us,
        };
        world.at(now, move |world| watch.look(world));
    }
}

/// For a second leader.
struct Watch {
    look_every_us: u64,
    nodes: Vec<HostId>,
    first: HostId,
    until: Time,
    dead_us: u64,
}

impl Watch {
    /// Again and again.
    fn look(self, world: &mut World) {
        if world.is_peace() || world.now() >= self.until {
            return;
        }
        if let Some(second) = self.second(world) {
            return self.strike(world, second);
        }
        let again = world.now() + Duration::from_micros(self.look_every_us);
        world.at(again, move |world| self.look(world));
    }

    /// The present leader, once it knows something chosen that a follower accepted and does not know chosen.
    fn second(&self, world: &World) -> Option<HostId> {
        let others = || self.nodes.iter().filter(|host| **host != self.first);
        let leads = |view: &LogView| matches!(view.role, Role::Leader { .. });
        others().copied().find(|second| {
            let node = world.machine::<Node>(*second);
            let views = node.into_iter().flat_map(Node::log_views).filter(leads);
            views.into_iter().any(|led| {
                let knows_less = |host: &HostId| {
                    let node = world.machine::<Node>(*host);
                    let mut views = node.into_iter().flat_map(Node::log_views);
                    views.any(|view| {
                        let follows = matches!(view.role, Role::Follower { term, .. } if led.role == Role::Leader { term });
                        view.id == led.id && follows && view.state.next < led.state.next
                    })
                };
                others().any(knows_less)
            })
        })
    }

    fn strike(self, world: &mut World, second: HostId) {
        let now = world.now();
        let Some(nemesis) = &mut world.nemesis else {
            return;
        };
        let dead_until = (now + Duration::from_micros(self.dead_us))
            .min(nemesis.until - Duration::from_micros(1));
        nemesis.hold(self.first, now);
        if !nemesis.takes(second, now, dead_until) {
            return;
        }
        world.line(format_args!(
            "nemesis: {} leads, and {} is back",
            world.name(second),
            world.name(self.first)
        ));
        world.crash(second);
        for &other in self.nodes.iter().filter(|other| **other != self.first) {
            world.heal(self.first, other);
            world.heal(other, self.first);
        }
        in_war(world, dead_until, move |world| bring_back(world, second));
    }
}
