//! Elections on purpose: leaders that go at the wrong moment.

use std::ops::Range;
use std::time::Duration;

use node::Node;
use ops::Time;
use paxos::{NodeId, Role};
use replica::LogView;

use super::{Nemesis, bring_back, in_war};
use crate::host::HostId;
use crate::swarm::Act;
use crate::world::World;

/// The shortest time for which a leader is deposed; drawn are up to 64 times as much.
const LASTS_US: u64 = 100_000;

/// The time after its return in which a deposed leader may be killed for the bytes that it alone has.
const HUNT: Duration = Duration::from_secs(3);
const LOOK_EVERY_US: Range<u64> = 200..2_000;

/// Its peers have noticed by then.
const UNHEARD_US: u64 = 1_000_000;

/// And it stays dead for longer than anybody waits for bytes.
const DEAD: Duration = Duration::from_secs(15);

/// The leader of a log, if anybody leads.
pub(super) fn leader(world: &World, nodes: &[HostId]) -> Option<HostId> {
    let leads = |view: LogView| view.stopped.is_none() && matches!(view.role, Role::Leader { .. });
    let mut nodes = nodes.iter().copied();
    nodes.find(|host| {
        let node = world.machine::<Node>(*host);
        node.is_some_and(|node| node.log_views().any(leads))
    })
}

impl Nemesis {
    pub(super) fn depose(&mut self, world: &mut World) {
        let now = world.now();
        let longest_us = LASTS_US << self.random.below(7);
        let mut lasts_us = self.random.within(&(LASTS_US..longest_us));
        let (mut kind, mut from_peers_only) = (self.random.below(8), self.random.below(4) > 0);
        let hunted = self.random.coin();
        let scarce = hunted && self.random.coin();
        if scarce {
            // Clients go on giving it bytes that nobody else gets.
            (kind, from_peers_only) = (7, true);
            lasts_us = lasts_us.max(UNHEARD_US);
        }
        let last = self.until - Duration::from_micros(1);
        let over = (now + Duration::from_micros(lasts_us)).min(last);
        let (hunt_until, dead_until) = match hunted {
            true => (
                (over + HUNT).min(last),
                // Perhaps until the end, and then it may be among those that stay dead.
                over + HUNT + DEAD,
            ),
            false => (over, over),
        };
        let Some(victim) = leader(world, &self.nodes) else {
            return;
        };
        let Some(index) = self.spare(victim, now) else {
            return;
        };
        self.victims[index] = hunt_until;
        self.did(Act::Depose);
        world.line(format_args!("nemesis: {:?} {kind}", Act::Depose));
        match kind {
            0 => world.crash(victim),
            1 => world.crash_silently(victim),
            2 => world.pause(victim, over - now),
            _ => self.silence(world, victim, over, kind % 2 == 0, from_peers_only),
        }
        in_war(world, over, move |world| bring_back(world, victim));
        if !hunted {
            return;
        }
        let away = match scarce {
            true => self.send_away(world, &[victim], hunt_until),
            false => Vec::new(),
        };
        let latency_us = self.swarm.network.latency_us.start;
        let hunt = Hunt {
            look_every_us: latency_us.clamp(LOOK_EVERY_US.start, LOOK_EVERY_US.end),
            nodes: self.nodes.clone(),
            prey: victim,
            away,
            until: hunt_until,
            dead_until,
        };
        world.at(over, move |world| hunt.look(world));
    }

    /// Kills a minority of the other nodes until then: the next leader needs all that are left.
    pub(super) fn send_away(
        &mut self,
        world: &mut World,
        but: &[HostId],
        until: Time,
    ) -> Vec<HostId> {
        let mut away = self.nodes.clone();
        away.retain(|node| !but.contains(node));
        away.truncate((self.nodes.len() - 1) / 2);
        for &node in &away {
            world.crash(node);
            self.hold(node, until);
            in_war(world, until, move |world| bring_back(world, node));
        }
        away
    }

    /// Nobody else's victim until then.
    pub(super) fn hold(&mut self, node: HostId, until: Time) {
        if let Some(index) = self.nodes.iter().position(|other| *other == node) {
            self.victims[index] = until;
        }
    }

    /// The index of a node that nothing is wrong with yet, if there may be one more victim.
    pub(super) fn spare(&self, node: HostId, now: Time) -> Option<usize> {
        let index = self.nodes.iter().position(|other| *other == node)?;
        let victims = self.victims.iter().filter(|until| **until > now).count();
        (self.victims[index] <= now && victims < self.swarm.victims_max).then_some(index)
    }

    /// It is not heard any more, and hears nobody either unless it `hears`.
    pub(super) fn silence(
        &mut self,
        world: &mut World,
        victim: HostId,
        over: Time,
        hears: bool,
        from_peers_only: bool,
    ) {
        let others: Vec<HostId> = match from_peers_only {
            true => self.nodes.clone(),
            false => (0..world.hosts.len() as u32).map(HostId).collect(),
        };
        for other in others.into_iter().filter(|other| *other != victim) {
            world.cut(victim, other);
            world.at(over, move |world| world.heal(victim, other));
            if !hears {
                world.cut(other, victim);
                world.at(over, move |world| world.heal(other, victim));
            }
        }
    }
}

/// For a deposed leader, once its successor needs the bytes that it alone has.
struct Hunt {
    look_every_us: u64,
    nodes: Vec<HostId>,
    prey: HostId,
    /// They come back as soon as it is dead, so that there is a quorum without it.
    away: Vec<HostId>,
    until: Time,
    dead_until: Time,
}

impl Hunt {
    /// Again and again.
    fn look(self, world: &mut World) {
        if world.is_peace() || world.now() >= self.until {
            return;
        }
        let Some(id) = world.machine::<Node>(self.prey).map(Node::id) else {
            return;
        };
        let mut nodes = self.nodes.iter();
        if nodes.any(|host| lacks_bytes_of(world, *host, id)) {
            return self.strike(world);
        }
        let again = world.now() + Duration::from_micros(self.look_every_us);
        world.at(again, move |world| self.look(world));
    }

    fn strike(self, world: &mut World) {
        let prey = self.prey;
        world.line(format_args!(
            "nemesis: the next leader needs {}",
            world.name(prey)
        ));
        world.crash(prey);
        for &node in &self.away {
            bring_back(world, node);
        }
        let now = world.now();
        let Some(nemesis) = &mut world.nemesis else {
            return;
        };
        nemesis.hold(prey, self.dead_until);
        for &node in &self.away {
            nemesis.hold(node, now);
        }
        if nemesis.swarm.leaves_dead && !self.away.is_empty() {
            // Nothing but a quorum without it helps the next leader now.
            return world.end_harm();
        }
        in_war(world, self.dead_until, move |world| bring_back(world, prey));
    }
}

fn lacks_bytes_of(world: &World, host: HostId, holder: NodeId) -> bool {
    let lacks = |view: LogView| view.lacks_bytes_of().contains(&holder);
    let node = world.machine::<Node>(host);
    node.is_some_and(|node| node.log_views().any(lacks))
}
