//! The bad disk is replaced by an old copy of itself, when only nodes are there that were away while the others
//! counted on it.
//!
//! ```text
//!  the bad disk's node   ─┤copied├── starts anew ──────────────┤ the copy ├─── refused: an empty disk
//!  a minority            ─────────── meets that start ──┤ away ├── started anew ──────────────
//!  the others            ───────────────────────────────────── choose ──┤ dead  ├────────────
//! ```

use std::ops::Range;
use std::time::Duration;

use node::Node;
use ops::Time;

use super::{Nemesis, bring_back};
use crate::disk::DiskCopy;
use crate::host::{HostId, Status};
use crate::swarm::Act;
use crate::world::World;

/// The others meet the start that the copy lacks.
const MEET_US: Range<u64> = 2_000_000..4_000_000;
/// Without those who are away they choose.
const ALONE_US: Range<u64> = 300_000..2_000_000;
/// The time for which the nodes that chose are dead.
const DEAD_US: Range<u64> = 2_000_000..4_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// So often somebody looks whether the copy is refused.
const LOOKS: u32 = 240;

/// The parts of one such act: the node with the copy, those that are away, those that choose.
struct PutBack {
    node: HostId,
    copy: DiskCopy,
    away: Vec<HostId>,
    others: Vec<HostId>,
    alone_us: u64,
    dead_us: u64,
}

impl Nemesis {
    /// Nobody else is anybody's victim until it is over, so that more than one bad disk is never needed to lose
    /// anything.
    pub(super) fn put_back(&mut self, world: &mut World, index: usize) {
        let node = self.nodes[index];
        let meet_us = self.random.within(&MEET_US);
        let alone_us = self.random.within(&ALONE_US);
        let dead_us = self.random.within(&DEAD_US);
        let now = world.now();
        let over = now + Duration::from_micros(meet_us + alone_us + dead_us);
        let is_well = |(node, until): (&HostId, &Time)| {
            let state = &world.hosts[node.index()];
            world.is_running(*node)
                && *until <= now
                && state.paused_until <= now
                && state.dies_after_ops.is_none()
        };
        let all_are_well = self.nodes.iter().zip(&self.victims).all(is_well);
        if !all_are_well || !world.net.cuts.is_empty() || over >= self.until {
            return;
        }
        self.did(Act::PutBack);
        world.line(format_args!("nemesis: {:?}", Act::PutBack));
        self.rests_until = over;
        let mut others = self.nodes.clone();
        others.retain(|other| *other != node);
        let keeps = others.len() - (self.nodes.len() - 1) / 2;
        let from = self.random.below(others.len() as u64) as usize;
        others.rotate_left(from);
        let away = others.split_off(keeps);
        world.crash(node);
        let copy = world.copy_disk(node);
        bring_back(world, node);
        for held in self.nodes.clone() {
            self.hold(held, over);
        }
        let it = PutBack {
            node,
            copy,
            away,
            others,
            alone_us,
            dead_us,
        };
        world.at(now + Duration::from_micros(meet_us), move |world| {
            it.send_away(world)
        });
    }
}

impl PutBack {
    /// If all have met the start that the copy lacks: else nobody could tell it from the directory.
    fn send_away(self, world: &mut World) {
        let it = world.machine::<Node>(self.node);
        let Some((id, start)) = it.map(|node| (node.id(), node.incarnation())) else {
            return;
        };
        let has_met = |other: &HostId| {
            let other = world.machine::<Node>(*other);
            other.is_some_and(|other| other.has_met(id) >= Some(start))
        };
        let all = self.away.iter().chain(&self.others).all(has_met);
        if !all || world.is_peace() {
            return;
        }
        for away in &self.away {
            world.crash(*away);
        }
        let at = world.now() + Duration::from_micros(self.alone_us);
        world.at(at, move |world| self.put(world));
    }

    fn put(self, world: &mut World) {
        for other in &self.others {
            world.crash(*other);
        }
        world.crash(self.node);
        world.put_disk_back(self.node, &self.copy);
        for back in self.away.iter().chain([&self.node]) {
            bring_back(world, *back);
        }
        let at = world.now() + Duration::from_micros(self.dead_us);
        let others = self.others.clone();
        world.at(at, move |world| {
            for other in &others {
                bring_back(world, *other);
            }
            give_up(world, self.node, LOOKS);
        });
    }
}

/// Once it is refused its machine gets an empty disk.
fn give_up(world: &mut World, node: HostId, looks: u32) {
    let refused = world.disk(node).contents("/data/refused").is_some();
    let is_down = matches!(world.status(node), Status::Finished | Status::FailedToStart);
    if refused && is_down {
        world.lose_disk(node);
        return bring_back(world, node);
    }
    let again = world.now() + LOOK_EVERY;
    if looks > 0 {
        world.at(again, move |world| give_up(world, node, looks - 1));
    }
}
