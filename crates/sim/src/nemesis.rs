//! Does harm by chance, undoes it, and at last leaves the world in peace.

use node::op::Time;

use crate::clockwork::Event;
use crate::host::{HostId, Status};
use crate::random::Random;
use crate::swarm::{Act, Swarm};
use crate::world::World;

/// Harms `nodes`, also on their way to and from everybody else, until `until`. Then it repairs
/// everything and starts every node that is down, so that the end of a run can ask for liveness.
pub struct Nemesis {
    swarm: Swarm,
    nodes: Vec<HostId>,
    until: Time,
    /// Its own chance: what it does depends on the seed alone, not on what the nodes do.
    random: Random,
    /// Until when each node is somebody's victim.
    victims: Vec<Time>,
    acts: u64,
    peace: bool,
}

/// The little room that a filling disk has left.
const ROOM_BYTES_MAX: u64 = 256 << 10;

impl World {
    /// Lets a nemesis loose. What kind of network and disks there are is the swarm's choice too.
    pub fn unleash(&mut self, swarm: Swarm, nodes: &[HostId], until: Time) {
        self.net.model = swarm.network.clone();
        let mut random = Random::new(self.seed() ^ 0x006e_656d_6573_6973);
        for &node in nodes {
            let disk = &mut self.disks[node.index()];
            disk.model = swarm.disk.clone();
            disk.faults.write_errors = swarm.write_errors;
            let ppm_max = swarm.clock_drift_ppm_max;
            if ppm_max > 0 {
                let gains_ppm = random.below(2 * ppm_max + 1) as i64 - ppm_max as i64;
                self.drift_clock(node, gains_ppm);
            }
        }
        self.nemesis = Some(Box::new(Nemesis {
            swarm,
            nodes: nodes.to_vec(),
            until,
            random,
            victims: vec![Time(0); nodes.len()],
            acts: 0,
            peace: false,
        }));
        self.clock.after(0, Event::Nemesis);
    }

    /// It has left: nothing goes wrong any more.
    pub fn is_peace(&self) -> bool {
        self.nemesis.as_ref().is_none_or(|nemesis| nemesis.peace)
    }

    pub fn acts(&self) -> u64 {
        self.nemesis.as_ref().map_or(0, |nemesis| nemesis.acts)
    }
}

impl Nemesis {
    pub(crate) fn act(&mut self, world: &mut World) {
        if self.peace {
            return;
        }
        if world.now() >= self.until {
            return self.leave(world);
        }
        for (&node, &victim_until) in self.nodes.iter().zip(&self.victims) {
            if victim_until <= world.now() {
                // It may have ended by itself.
                bring_back(world, node);
            }
        }
        let weights: u64 = self.swarm.acts.iter().map(|(_, w)| u64::from(*w)).sum();
        if weights > 0 {
            let mut drawn = self.random.below(weights);
            let chosen = self.swarm.acts.iter().find(|(_, weight)| {
                let found = drawn < u64::from(*weight);
                drawn = drawn.saturating_sub(u64::from(*weight));
                found
            });
            if let Some(&(act, _)) = chosen {
                self.perform(world, act);
            }
        }
        let rest_us = self.random.within(&self.swarm.rest_us);
        let next = Time(world.now().0 + rest_us).min(self.until);
        world.clock.schedule(next, Event::Nemesis);
    }

    fn leave(&mut self, world: &mut World) {
        self.peace = true;
        world.calm();
        for &node in &self.nodes {
            if world.disk(node).failed_changes() > 0 {
                // It stopped over a failed write, as it should, until somebody restarts it.
                world.crash(node);
            }
            bring_back(world, node);
        }
    }

    fn perform(&mut self, world: &mut World, act: Act) {
        let lasts_us = self.random.within(&self.swarm.lasts_us);
        // Whatever it does is undone before it leaves.
        let over = Time((world.now().0 + lasts_us).min(self.until.0 - 1));
        match act {
            Act::KillAll => return self.kill_all(world, over),
            Act::FlipBit | Act::LoseDisk => return self.damage(world, act, over),
            Act::Reset => return self.reset(world),
            Act::JumpClock => {
                if let Some(&node) = self.random.pick(&self.nodes) {
                    world.jump_clock(node, lasts_us);
                }
                return;
            }
            _ => {}
        }
        let Some(victim) = self.victim(world.now(), over) else {
            return;
        };
        self.acts += 1;
        world.line(format_args!("nemesis: {act:?}"));
        match act {
            Act::Kill => world.crash(victim),
            Act::KillBetweenOps => {
                world.crash_after_ops(victim, self.random.below(20));
            }
            Act::Vanish => world.crash_silently(victim),
            Act::Stop => {
                world.stop(victim);
                // It has time to stop by itself.
                world.at(over, move |world| world.crash(victim));
            }
            Act::Pause => world.pause(victim, lasts_us),
            Act::CutOneWay | Act::CutPair | Act::Isolate => self.cut(world, act, victim, over),
            Act::SlowDisk => {
                let factor = 2 << self.random.below(8);
                world.disk_mut(victim).faults.slow_factor = factor;
                world.at(over, move |world| {
                    world.disk_mut(victim).faults.slow_factor = 1;
                });
            }
            Act::HangDisk => {
                world.hang_disk(victim);
                world.at(over, move |world| world.release_disk(victim));
            }
            Act::BreakDisk => {
                world.disk_mut(victim).faults.broken = true;
                world.at(over, move |world| {
                    world.disk_mut(victim).faults.broken = false;
                    world.crash(victim);
                });
            }
            Act::FillDisk => {
                let room = self.random.below(ROOM_BYTES_MAX);
                let disk = world.disk_mut(victim);
                let capacity = disk.used_bytes() + room;
                let before = std::mem::replace(&mut disk.faults.capacity_bytes, capacity);
                world.at(over, move |world| {
                    let disk = world.disk_mut(victim);
                    disk.faults.capacity_bytes = disk.faults.capacity_bytes.max(before);
                    if disk.failed_changes() > 0 {
                        world.crash(victim);
                    }
                });
            }
            Act::KillAll | Act::Reset | Act::JumpClock | Act::FlipBit | Act::LoseDisk => {}
        }
        world.at(over, move |world| bring_back_in_war(world, victim));
    }

    /// A node that nothing is wrong with yet, if there may be one more victim.
    fn victim(&mut self, now: Time, over: Time) -> Option<HostId> {
        let well: Vec<usize> = (0..self.nodes.len())
            .filter(|&i| self.victims[i] <= now)
            .collect();
        if self.nodes.len() - well.len() >= self.swarm.victims_max {
            return None;
        }
        let &index = self.random.pick(&well)?;
        self.victims[index] = over;
        Some(self.nodes[index])
    }

    fn kill_all(&mut self, world: &mut World, over: Time) {
        self.acts += 1;
        let silently = self.random.coin();
        for (index, &node) in self.nodes.iter().enumerate() {
            match silently {
                true => world.crash_silently(node),
                false => world.crash(node),
            }
            let later_us = self.random.within(&self.swarm.lasts_us);
            let back = Time(over.0 + later_us);
            self.victims[index] = back;
            world.at(back, move |world| bring_back_in_war(world, node));
        }
    }

    /// Always to the same node: more than a minority of bad disks is more than can be survived.
    fn damage(&mut self, world: &mut World, act: Act, over: Time) {
        let index = (world.seed() % self.nodes.len() as u64) as usize;
        let node = self.nodes[index];
        self.acts += 1;
        if act == Act::LoseDisk {
            world.crash(node);
            world.lose_disk(node);
            self.victims[index] = self.victims[index].max(over);
            return world.at(over, move |world| bring_back_in_war(world, node));
        }
        // A node whose manifest is damaged is a lost disk; that is another act.
        let mut files = world.disk(node).files();
        files.retain(|(path, _)| path.extension().is_some_and(|e| e == "seg"));
        if let Some((path, length)) = self.random.pick(&files)
            && *length > 0
        {
            let offset = self.random.below(*length);
            world.corrupt(node, path, offset);
        }
    }

    fn reset(&mut self, world: &mut World) {
        let Some(&node) = self.random.pick(&self.nodes) else {
            return;
        };
        let conns: Vec<_> = world.net.conns[node.index()].keys().copied().collect();
        if let Some(&conn) = self.random.pick(&conns) {
            self.acts += 1;
            world.reset(node, conn);
        }
    }

    fn cut(&mut self, world: &mut World, act: Act, victim: HostId, over: Time) {
        let all = (0..world.hosts.len() as u32).map(HostId);
        let others: Vec<HostId> = match (act, self.random.coin()) {
            // From its peers only, or from everybody.
            (Act::Isolate, true) => all.filter(|host| *host != victim).collect(),
            (Act::Isolate, false) => {
                let peers = self.nodes.iter().copied();
                peers.filter(|host| *host != victim).collect()
            }
            _ => {
                let others: Vec<_> = all.filter(|host| *host != victim).collect();
                self.random.pick(&others).copied().into_iter().collect()
            }
        };
        let (to, from) = match (act, self.random.below(3)) {
            (Act::CutPair, _) | (_, 2) if act != Act::CutOneWay => (true, true),
            (_, 0) => (true, false),
            _ => (false, true),
        };
        for other in others {
            if to {
                world.cut(victim, other);
                world.at(over, move |world| world.heal(victim, other));
            }
            if from {
                world.cut(other, victim);
                world.at(over, move |world| world.heal(other, victim));
            }
        }
    }
}

/// Once it has left, everybody is back, and who stops then was asked to.
fn bring_back_in_war(world: &mut World, node: HostId) {
    if !world.is_peace() {
        bring_back(world, node);
    }
}

/// Starts a node that is down, and tries again if it does not start.
fn bring_back(world: &mut World, node: HostId) {
    match world.status(node) {
        Status::NeverStarted => return,
        // It was to die between two ops and did not get so far.
        Status::Running => return world.hosts[node.index()].dies_after_ops = None,
        Status::Finished | Status::Crashed | Status::FailedToStart => {}
    }
    if world.restart(node).is_err() {
        let again = Time(world.now().0 + 500_000);
        world.at(again, move |world| bring_back(world, node));
    }
}
