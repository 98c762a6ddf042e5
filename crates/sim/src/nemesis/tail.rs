//! The bad disk forgets what its node accepted last, in the moment in which somebody asks for it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use formats::RECORD_HEADER;
use ops::{BLOCK, Time};

use super::{Nemesis, bring_back, depose, in_war};
use crate::host::HostId;
use crate::random::Random;
use crate::swarm::Act;
use crate::world::World;

/// A node that runs for so long and has nothing to write has said that what it wrote is durable.
const REST: Duration = Duration::from_millis(300);

/// The length of a node's last writes, as far as they count as last.
const TAIL_BYTES: u64 = 16 << 10;

/// For so long the others choose without the minority that is away.
const ALONE_US: Range<u64> = 200_000..3_000_000;

/// The time for which the nodes that know what was chosen are dead.
const DEAD_US: Range<u64> = 1_500_000..6_000_000;

/// Among so many blocks a record is spoilt.
const LAST_BLOCKS: u64 = 6;

impl Nemesis {
    /// The bad disk turns a bit of its node's last writes; while the node starts again, the leader dies, so
    /// that somebody asks for promises.
    pub(super) fn flip_in_tail(&mut self, world: &mut World, index: usize, over: Time) {
        if self.random.coin() {
            return self.forget_alone(world, index);
        }
        let node = self.nodes[index];
        let files = segments(world, node);
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
        let leader = depose::leader(world, &self.nodes).filter(|leader| kills && *leader != node);
        if let Some(leader) = leader
            && let Some(index) = self.nodes.iter().position(|other| *other == leader)
        {
            let again =
                (over + Duration::from_micros(lasts_us)).min(self.until - Duration::from_micros(1));
            self.victims[index] = self.victims[index].max(again);
            in_war(world, over, move |world| world.crash(leader));
            in_war(world, again, move |world| bring_back(world, leader));
        }
    }

    /// A minority is away while the others choose. Then those die who know what was chosen, all but
    /// the node with the bad disk, and that forgets it. With the minority it is a quorum: if it
    /// promises anything before the others are back, what they chose is lost.
    fn forget_alone(&mut self, world: &mut World, index: usize) {
        let node = self.nodes[index];
        let alone_us = self.random.within(&ALONE_US);
        let dead_us = self.random.within(&DEAD_US);
        let mut random = Random::new(self.random.draw());
        let Some(leader) = depose::leader(world, &self.nodes).filter(|leader| *leader != node)
        else {
            return;
        };
        let last = self.until - Duration::from_micros(1);
        let begins = (world.now() + Duration::from_micros(alone_us)).min(last);
        // It has a moment of rest before.
        let forgets = (begins + REST + REST / 4).min(last);
        let over = (forgets + Duration::from_micros(dead_us)).min(last);
        world.line(format_args!("nemesis: {:?} alone", Act::FlipBitInTail));
        let away = self.send_away(world, &[node, leader], forgets);
        self.hold(node, over);
        let mut knowing = self.nodes.clone();
        knowing.retain(|other| *other != node && !away.contains(other));
        for other in knowing {
            self.hold(other, over);
            in_war(world, begins, move |world| world.crash(other));
            in_war(world, over, move |world| bring_back(world, other));
        }
        in_war(world, forgets, move |world| {
            if let Some(mut nemesis) = world.nemesis.take() {
                nemesis.spoil(world, node, &mut random);
                world.nemesis = Some(nemesis);
            }
            world.crash(node);
            bring_back(world, node);
        });
    }

    /// Turns a bit of one of the last records of the log that was written last.
    fn spoil(&mut self, world: &mut World, node: HostId, random: &mut Random) {
        let disk = world.disk(node);
        let files = segments(world, node).into_iter();
        let Some((path, length)) = files.max_by_key(|(path, _)| disk.quiet_from(path)) else {
            return;
        };
        let settled = self.settled_below(world, node, &path).min(length);
        let Some(last) = settled.checked_sub(1) else {
            return;
        };
        let block = (last / BLOCK as u64).saturating_sub(random.below(LAST_BLOCKS));
        // A record begins with a block.
        let offset = block * BLOCK as u64 + random.below(RECORD_HEADER as u64);
        self.did(Act::FlipBitInTail);
        self.flipped_in_start = Some(world.starts(node));
        world.corrupt(node, path, offset.min(last));
    }

    /// The end below which records are settled. A record says that a node's last writes were durable once the
    /// node has had a moment of rest; if that record is damaged too, nothing says so any more.
    fn settled_below(&self, world: &World, node: HostId, path: &Path) -> u64 {
        let disk = world.disk(node);
        let rested = world.now() - REST;
        let state = &world.hosts[node.index()];
        let ran = world.is_running(node) && state.started.max(state.paused_until) <= rested;
        let once = self.flipped_in_start != Some(world.starts(node));
        match ran && once && disk.is_quiet(path, rested) {
            true => disk.written_end(path),
            false => disk.settled_below(path),
        }
    }
}

/// With their lengths.
fn segments(world: &World, node: HostId) -> Vec<(PathBuf, u64)> {
    let mut files = world.disk(node).files();
    files.retain(|(path, _)| path.extension().is_some_and(|e| e == "seg"));
    files
}
