//! What elections are made of: leaders that go at the wrong moment.

use std::path::{Path, PathBuf};

use node::op::Time;
use node::{LogView, Node};
use paxos::{NodeId, Role};

use super::{Nemesis, bring_back, in_war};
use crate::host::HostId;
use crate::swarm::Act;
use crate::world::World;

/// The shortest time for which a leader is deposed; drawn are up to 64 times as much.
const LASTS_US: u64 = 100_000;

/// So long after its return a deposed leader may be killed for the bytes that it alone has.
const HUNT_US: u64 = 3_000_000;
const LOOK_EVERY_US: u64 = 2_000;

/// And it stays dead for longer than anybody waits for bytes.
const DEAD_US: u64 = 15_000_000;

/// A node that has nothing to write for so long has said that what it wrote is durable.
const REST_US: u64 = 300_000;

/// What a node wrote last, as far as it counts as written last.
const TAIL_BYTES: u64 = 16 << 10;

/// Who leads a log, if anybody does.
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
        let lasts_us = self.random.within(&(LASTS_US..longest_us));
        let (kind, from_peers_only) = (self.random.below(8), self.random.below(4) > 0);
        let hunted = self.random.coin();
        let last = self.until.0 - 1;
        let over = Time((now.0 + lasts_us).min(last));
        let (hunt_until, dead_until) = match hunted {
            true => (
                Time((over.0 + HUNT_US).min(last)),
                // Perhaps until the end, and then it may be among those that stay dead.
                Time(over.0 + HUNT_US + DEAD_US),
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
            2 => world.pause(victim, over.0 - now.0),
            _ => self.silence(world, victim, over, kind % 2 == 0, from_peers_only),
        }
        in_war(world, over, move |world| bring_back(world, victim));
        if hunted {
            let nodes = self.nodes.clone();
            world.at(over, move |world| {
                hunt(world, nodes, victim, hunt_until, dead_until);
            });
        }
    }

    /// The index of a node that nothing is wrong with yet, if there may be one more victim.
    fn spare(&self, node: HostId, now: Time) -> Option<usize> {
        let index = self.nodes.iter().position(|other| *other == node)?;
        let victims = self.victims.iter().filter(|until| **until > now).count();
        (self.victims[index] <= now && victims < self.swarm.victims_max).then_some(index)
    }

    /// It is not heard any more, and hears nobody either unless it `hears`.
    fn silence(
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

    /// The bad disk turns a bit of what its node wrote last; while the node starts again, whoever
    /// leads dies, so that somebody asks for promises.
    pub(super) fn flip_in_tail(&mut self, world: &mut World, index: usize, over: Time) {
        let node = self.nodes[index];
        let mut files = world.disk(node).files();
        files.retain(|(path, _)| path.extension().is_some_and(|e| e == "seg"));
        // The last of one log's segments.
        let Some((chosen, _)) = self.random.pick(&files).cloned() else {
            return;
        };
        let siblings = files
            .into_iter()
            .filter(|(p, _)| p.parent() == chosen.parent());
        let last: Option<(PathBuf, u64)> = siblings.max();
        let Some((path, length)) = last else {
            return;
        };
        let settled = self.settled_below(world, node, &path).min(length);
        world.crash(node);
        let back = self.random.below(settled.clamp(1, TAIL_BYTES));
        let kills = self.random.coin();
        let lasts_us = self.random.within(&self.swarm.lasts_us);
        if settled > 0 {
            self.did(Act::FlipBitInTail);
            self.flipped_in_start = Some(world.starts(node));
            world.corrupt(node, path, settled - 1 - back);
        }
        self.victims[index] = self.victims[index].max(over);
        in_war(world, over, move |world| bring_back(world, node));
        let leader = leader(world, &self.nodes).filter(|leader| kills && *leader != node);
        if let Some(leader) = leader
            && let Some(index) = self.nodes.iter().position(|other| *other == leader)
        {
            let again = Time((over.0 + lasts_us).min(self.until.0 - 1));
            self.victims[index] = self.victims[index].max(again);
            in_war(world, over, move |world| world.crash(leader));
            in_war(world, again, move |world| bring_back(world, leader));
        }
    }

    /// Of what a node wrote last a record says that it was durable once the node has had a moment
    /// of rest. If that record is damaged too, nothing says so any more.
    fn settled_below(&self, world: &World, node: HostId, path: &Path) -> u64 {
        let disk = world.disk(node);
        let rested = Time(world.now().0.saturating_sub(REST_US));
        let ran = world.is_running(node) && world.hosts[node.index()].paused_until <= rested;
        let once = self.flipped_in_start != Some(world.starts(node));
        match ran && once && disk.is_quiet(path, rested) {
            true => disk.written_end(path),
            false => disk.settled_below(path),
        }
    }
}

/// Looks again and again whether a new leader lacks bytes of the old one, and then kills that.
fn hunt(world: &mut World, nodes: Vec<HostId>, prey: HostId, until: Time, dead_until: Time) {
    if world.is_peace() || world.now() >= until {
        return;
    }
    let Some(id) = world.machine::<Node>(prey).map(Node::id) else {
        return;
    };
    if nodes.iter().any(|host| lacks_bytes_of(world, *host, id)) {
        world.line(format_args!(
            "nemesis: the next leader needs {}",
            world.name(prey)
        ));
        world.crash(prey);
        if let Some(nemesis) = &mut world.nemesis
            && let Some(index) = nodes.iter().position(|node| *node == prey)
        {
            nemesis.victims[index] = dead_until;
        }
        return in_war(world, dead_until, move |world| bring_back(world, prey));
    }
    let again = Time(world.now().0 + LOOK_EVERY_US);
    world.at(again, move |world| {
        hunt(world, nodes, prey, until, dead_until)
    });
}

fn lacks_bytes_of(world: &World, host: HostId, holder: NodeId) -> bool {
    let lacks = |view: LogView| view.lacks_bytes_of().contains(&holder);
    let node = world.machine::<Node>(host);
    node.is_some_and(|node| node.log_views().any(lacks))
}
