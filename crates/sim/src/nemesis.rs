//! Does harm by chance, undoes it, and at last leaves the world in peace.

mod depose;
mod put_back;
mod swap;
mod tail;
mod votes;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use ops::Time;

use crate::clockwork::Event;
use crate::host::{HostId, Status};
use crate::random::{PerMillion, Random, mixed};
use crate::swarm::{Act, Swarm};
use crate::world::World;

/// Harms `nodes`, also on their way to and from everybody else, until `until`. Then it repairs
/// everything and starts every node that is down, so that the end of a run can ask for liveness.
pub struct Nemesis {
    swarm: Swarm,
    nodes: Vec<HostId>,
    until: Time,
    /// The number of its turns. Each has its own chance, from the seed and its number alone: the act of one
    /// turn depends neither on the nodes nor on the acts of the others.
    turns: u64,
    random: Random,
    /// Until when each node is somebody's victim.
    victims: Vec<Time>,
    acts: BTreeMap<Act, u64>,
    /// The start of the node with the bad disk in which a bit was turned last.
    flipped_in_start: Option<u64>,
    watches_votes_until: Time,
    /// It does nothing.
    rests_until: Time,
    peace: bool,
}

const SALT: u64 = 0x006e_656d_6573_6973;

/// The time for which all is quiet before all die: disks may have been told by then what is chosen, or not.
const REST_US: Range<u64> = 50_000..3_000_000;

/// The little room that a filling disk has left.
const ROOM_BYTES_MAX: u64 = 256 << 10;

impl World {
    /// Lets a nemesis loose. The swarm also chooses the kind of network and disks.
    pub fn unleash(&mut self, swarm: Swarm, nodes: &[HostId], until: Time) {
        self.net.model = swarm.network.clone();
        self.net.nodes = nodes.iter().copied().collect();
        let mut random = Random::new(self.seed() ^ SALT);
        for &node in nodes {
            let disk = &mut self.disks[node.index()];
            disk.model = swarm.disk.clone();
            disk.faults.write_errors = swarm.write_errors;
            disk.faults.read_errors = swarm.read_errors;
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
            turns: 0,
            random,
            victims: vec![Time::ZERO; nodes.len()],
            acts: BTreeMap::new(),
            flipped_in_start: None,
            watches_votes_until: Time::ZERO,
            rests_until: Time::ZERO,
            peace: false,
        }));
        self.clock.after(Duration::ZERO, Event::Nemesis);
    }

    /// It has left: nothing goes wrong any more.
    pub fn is_peace(&self) -> bool {
        self.nemesis.as_ref().is_none_or(|nemesis| nemesis.peace)
    }

    pub fn acts(&self) -> u64 {
        let acts = self
            .nemesis
            .iter()
            .flat_map(|nemesis| nemesis.acts.values());
        acts.sum()
    }

    /// The turns it had, and what it did in them.
    pub fn turns(&self) -> u64 {
        self.nemesis.as_ref().map_or(0, |nemesis| nemesis.turns)
    }

    /// Every fault that was there, by its name.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        let acts = self.nemesis.iter().flat_map(|nemesis| &nemesis.acts);
        let mut faults: BTreeMap<_, _> = acts.map(|(act, count)| (act.name(), *count)).collect();
        let mut add = |name, count| {
            if count > 0 {
                *faults.entry(name).or_default() += count;
            }
        };
        add("lost-segment", self.net.losses);
        add("reset-in-flight", self.net.resets);
        add("flipped-in-flight", self.net.flips);
        for disk in &self.disks {
            let counts = &disk.counts;
            add("failed-write", counts.failed_changes);
            add("failed-read", counts.failed_reads);
            add("no-space", counts.refused_for_space);
            add("torn-write", counts.torn_writes);
            add("failed-read-at-start", counts.failed_start_reads);
            add("flipped-read-at-start", counts.flipped_start_reads);
        }
        faults
    }

    /// The nemesis leaves at its next turn.
    pub(crate) fn end_harm(&mut self) {
        let now = self.now();
        if let Some(nemesis) = &mut self.nemesis {
            nemesis.until = nemesis.until.min(now);
        }
        self.clock.after(Duration::ZERO, Event::Nemesis);
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
        let turn = self.turns;
        self.turns += 1;
        self.random = Random::new(mixed(world.seed() ^ SALT).wrapping_add(mixed(turn)));
        let rest_us = self.random.within(&self.swarm.rest_us);
        for (&node, &victim_until) in self.nodes.iter().zip(&self.victims) {
            if victim_until <= world.now() {
                // It may have ended by itself.
                bring_back(world, node);
            }
        }
        let only = self.swarm.only_turns.as_ref();
        let rests = world.now() < self.rests_until;
        if only.is_none_or(|only| only.contains(&turn)) && !rests {
            self.take_turn(world);
        }
        let next = (world.now() + Duration::from_micros(rest_us)).min(self.until);
        world.clock.schedule(next, Event::Nemesis);
    }

    fn take_turn(&mut self, world: &mut World) {
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
    }

    fn did(&mut self, act: Act) {
        *self.acts.entry(act).or_default() += 1;
    }

    fn leave(&mut self, world: &mut World) {
        self.peace = true;
        world.calm();
        for (&node, &victim_until) in self.nodes.iter().zip(&self.victims) {
            // It stopped over a failed write, as it should, until somebody restarts it; or the harm
            // ends early, and it is still on its way down.
            let failed = world.disk(node).failed_changes() > 0;
            if failed || victim_until > world.now() {
                world.crash(node);
            }
        }
        let dead = self.stay_dead(world);
        for &node in self.nodes.iter().filter(|node| !dead.contains(node)) {
            bring_back(world, node);
        }
    }

    /// The hosts that are to stay dead for now.
    fn stay_dead(&mut self, world: &mut World) -> Vec<HostId> {
        if !self.swarm.leaves_dead {
            return Vec::new();
        }
        let is_dead = |node: &&HostId| world.status(**node) == Status::Crashed;
        let mut dead: Vec<HostId> = self.nodes.iter().filter(is_dead).copied().collect();
        if dead.is_empty()
            && let Some(leader) = depose::leader(world, &self.nodes)
        {
            world.crash(leader);
            dead.push(leader);
        }
        dead.truncate((self.nodes.len() - 1) / 2);
        dead
    }

    fn perform(&mut self, world: &mut World, act: Act) {
        let lasts_us = self.random.within(&self.swarm.lasts_us);
        // Every fault is undone before the nemesis leaves.
        let over = (world.now() + Duration::from_micros(lasts_us))
            .min(self.until - Duration::from_micros(1));
        match act {
            Act::KillAll => return self.kill_all(world, over),
            Act::KillRested => return self.kill_rested(world),
            act if act.is_damage() => return self.damage(world, act, over),
            Act::Depose => return self.depose(world),
            Act::StretchVote => return self.stretch_votes(world),
            Act::SwapLeaders => return self.swap_leaders(world),
            Act::Reset => return self.reset(world),
            Act::JumpClock => {
                if let Some(&node) = self.random.pick(&self.nodes) {
                    self.did(act);
                    world.jump_clock(node, lasts_us);
                }
                return;
            }
            _ => {}
        }
        let Some(victim) = self.victim(world.now(), over) else {
            return;
        };
        self.did(act);
        world.line(format_args!("nemesis: {act:?}"));
        match act {
            Act::Kill => world.crash(victim),
            Act::FailReadsAtStart => {
                world.crash(victim);
                let chance = PerMillion(10_u32.pow(3 + self.random.below(3) as u32));
                world.disk_mut(victim).faults.start_read_errors = chance;
            }
            Act::KillBetweenOps => {
                world.crash_after_ops(victim, self.random.below(20));
            }
            Act::Vanish => world.crash_silently(victim),
            Act::Stop => {
                world.stop(victim);
                // It has time to stop by itself.
                in_war(world, over, move |world| world.crash(victim));
            }
            Act::Pause => world.pause(victim, Duration::from_micros(lasts_us)),
            Act::CutOneWay | Act::CutPair | Act::Isolate => self.cut(world, act, victim, over),
            Act::SlowDisk => {
                let factor = 2 << self.random.below(8);
                world.disk_mut(victim).faults.slow_factor = factor;
                in_war(world, over, move |world| {
                    world.disk_mut(victim).faults.slow_factor = 1;
                });
            }
            Act::HangDisk => {
                world.hang_disk(victim);
                in_war(world, over, move |world| world.release_disk(victim));
            }
            Act::BreakDisk => {
                world.disk_mut(victim).faults.broken = true;
                in_war(world, over, move |world| {
                    world.disk_mut(victim).faults.broken = false;
                    world.crash(victim);
                });
            }
            Act::FillDisk => {
                let room = self.random.below(ROOM_BYTES_MAX);
                let disk = world.disk_mut(victim);
                let capacity = disk.used_bytes() + room;
                let before = std::mem::replace(&mut disk.faults.capacity_bytes, capacity);
                in_war(world, over, move |world| {
                    let disk = world.disk_mut(victim);
                    disk.faults.capacity_bytes = disk.faults.capacity_bytes.max(before);
                    if disk.failed_changes() > 0 {
                        world.crash(victim);
                    }
                });
            }
            Act::KillAll | Act::KillRested | Act::Reset | Act::JumpClock => {}
            Act::Depose | Act::StretchVote | Act::SwapLeaders => {}
            Act::FlipBit | Act::FlipBitAtStart | Act::FlipBitInTail => {}
            Act::LoseDisk | Act::PutBack => {}
        }
        in_war(world, over, move |world| bring_back(world, victim));
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
        self.did(Act::KillAll);
        let silently = self.random.coin();
        for (index, &node) in self.nodes.iter().enumerate() {
            match silently {
                true => world.crash_silently(node),
                false => world.crash(node),
            }
            let later_us = self.random.within(&self.swarm.lasts_us);
            let back = over + Duration::from_micros(later_us);
            self.victims[index] = back;
            in_war(world, back, move |world| bring_back(world, node));
        }
    }

    /// At once and back at once, with the power gone or not.
    fn kill_rested(&mut self, world: &mut World) {
        let rest_us = self.random.within(&REST_US);
        let over = (world.now() + Duration::from_micros(rest_us))
            .min(self.until - Duration::from_micros(1));
        if over <= world.now() {
            return;
        }
        self.did(Act::KillRested);
        self.rests_until = over;
        let silently = self.random.coin();
        for &node in &self.nodes {
            in_war(world, over, move |world| match silently {
                true => world.crash_silently(node),
                false => world.crash(node),
            });
        }
        for &node in &self.nodes {
            in_war(world, over, move |world| bring_back(world, node));
        }
    }

    /// Always to the same node: more than a minority of bad disks is more than can be survived.
    fn damage(&mut self, world: &mut World, act: Act, over: Time) {
        let index = (world.seed() % self.nodes.len() as u64) as usize;
        let node = self.nodes[index];
        if act == Act::FlipBitInTail {
            return self.flip_in_tail(world, index, over);
        }
        if act == Act::PutBack {
            return self.put_back(world, index);
        }
        if act != Act::FlipBit {
            self.did(act);
            world.crash(node);
            match act {
                Act::LoseDisk => world.lose_disk(node),
                _ => {
                    let chance = PerMillion(10_u32.pow(3 + self.random.below(3) as u32));
                    world.disk_mut(node).faults.start_flips = chance;
                }
            }
            self.victims[index] = self.victims[index].max(over);
            return in_war(world, over, move |world| bring_back(world, node));
        }
        // A node whose manifest is damaged is a lost disk; that is another act.
        let mut files = world.disk(node).files();
        files.retain(|(path, _)| path.extension().is_some_and(|e| e == "seg"));
        if let Some((path, length)) = self.random.pick(&files) {
            let settled = world.disk(node).settled_below(path).min(*length);
            if settled > 0 {
                let offset = self.random.below(settled);
                self.did(act);
                self.flipped_in_start = Some(world.starts(node));
                world.corrupt(node, path, offset);
            }
        }
    }

    fn reset(&mut self, world: &mut World) {
        let Some(&node) = self.random.pick(&self.nodes) else {
            return;
        };
        let conns: Vec<_> = world.net.conns[node.index()].keys().copied().collect();
        if let Some(&conn) = self.random.pick(&conns) {
            self.did(Act::Reset);
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

/// Acts while the nemesis is here. Once it has left, all is well and everybody is back; and a process that
/// stops then was asked to.
fn in_war(world: &mut World, at: Time, action: impl FnOnce(&mut World) + 'static) {
    world.at(at, move |world| {
        if !world.is_peace() {
            action(world);
        }
    });
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
        let again = world.now() + Duration::from_millis(500);
        world.at(again, move |world| {
            // Somebody else may have started it meanwhile, and asked it to stop.
            if world.status(node) == Status::FailedToStart {
                bring_back(world, node);
            }
        });
    }
}
