//! The room that is left on the disks, ours and the peers', and whether our directory is still there.
//!
//! Files that are open outlive their names: a node whose directory was removed would go on to acknowledge
//! bytes that nobody can find again. So the free space is asked for where one log's files are, each in its turn.

use std::io;
use std::path::Path;
use std::time::Duration;

use formats::LogId;
use formats::segment::directory_name;
use ops::Op;
use paxos::Time;
use replica::Env;

use crate::logs::Logs;
use crate::peers::Peers;
use crate::tokens;

/// The interval between two looks at the disk where this node changed nothing: others may write to it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub struct Space {
    /// Something was written or removed here since the last question.
    is_stale: bool,
    /// An answer is owed.
    asked: bool,
    asked_at: Time,
    /// The log in whose directory the free space is asked for; `None`: the node's.
    place: Option<LogId>,
    /// The log whose directory is not there: the next question is about the node's.
    missed: Option<LogId>,
}

/// The outcome of an answer.
pub enum Found {
    Nothing,
    /// So many bytes are free.
    Room(u64),
    /// So many bytes are free, and this log's directory is gone.
    LogGone(u64, LogId),
    /// The node's directory is gone.
    NodeGone,
}

impl Default for Space {
    fn default() -> Space {
        Space {
            is_stale: true,
            asked: false,
            asked_at: Time::ZERO,
            place: None,
            missed: None,
        }
    }
}

impl Space {
    pub fn on_written(&mut self) {
        self.is_stale = true;
    }

    /// Asks for the free space with every tick while it may change soon. A node without work is not woken for it.
    pub fn ask(&mut self, env: &mut Env, logs: &Logs, directory: &Path) {
        let now = env.now;
        let is_scarce = env.room.free_bytes < 2 * env.limits.disk_reserve_bytes;
        let is_due = now >= self.asked_at + LOOK_EVERY;
        if self.asked || !(self.is_stale || is_scarce || is_due) {
            return;
        }
        let place = match self.missed {
            Some(_) => None,
            None => logs.after(self.place),
        };
        *self = Space {
            is_stale: false,
            asked: true,
            asked_at: now,
            place,
            missed: self.missed,
        };
        let of_log = |log| directory.join(directory_name(log));
        env.out.ops.push_back(Op::FreeSpace {
            token: tokens::SPACE,
            path: place.map_or_else(|| directory.to_owned(), of_log),
        });
    }

    pub fn on_answer(&mut self, free: io::Result<u64>) -> Found {
        self.asked = false;
        match (free, self.place) {
            (Ok(free), place) => match self.missed.take_if(|_| place.is_none()) {
                Some(log) => Found::LogGone(free, log),
                None => Found::Room(free),
            },
            (Err(error), Some(log)) if error.kind() == io::ErrorKind::NotFound => {
                self.missed = Some(log);
                self.is_stale = true;
                Found::Nothing
            }
            (Err(error), None) if error.kind() == io::ErrorKind::NotFound => Found::NodeGone,
            _ => Found::Nothing,
        }
    }
}

/// A disk with less than so many times its reserve will be almost full before long. It is that until twice the reserve is free.
const SCARCE_BELOW_RESERVES: u64 = 3;
/// States are flushed in such pieces, and their logs are trimmed behind them: before that both need room.
const FLUSHES_BYTES: u64 = 128 << 20;

fn is_scarce(free: u64, reserve: u64) -> bool {
    let reserves = reserve.saturating_mul(SCARCE_BELOW_RESERVES);
    free < reserves.saturating_add(FLUSHES_BYTES)
}

/// Judges which disks are full, with hysteresis. Returns whether any is, our own and those of the live peers. Each is
/// judged by its own reserve: only an older program does not say it.
pub fn judge(env: &mut Env, peers: &Peers) -> bool {
    let own_reserve = env.limits.disk_reserve_bytes;
    let is_full = |was: bool, free: u64, reserve: u64| {
        let least = if was {
            reserve.saturating_mul(2)
        } else {
            reserve
        };
        free < least
    };
    env.room.own_is_full = is_full(env.room.own_is_full, env.room.free_bytes, own_reserve);
    let before = std::mem::take(&mut env.room.full_peers);
    let full = peers.live().filter(|(id, peer)| {
        let reserve = peer.said.reserve_bytes().unwrap_or(own_reserve);
        is_full(before.contains(id), peer.said.free_bytes(), reserve)
    });
    env.room.full_peers = full.map(|(id, _)| *id).collect();
    let spent = peers.live().filter(|(_, peer)| {
        let reserve = peer.said.reserve_bytes().unwrap_or(own_reserve);
        peer.said.free_bytes() < reserve / 2
    });
    env.room.spent_peers = spent.map(|(id, _)| *id).collect();
    let scarce = peers.live().filter(|(_, peer)| {
        let reserve = peer.said.reserve_bytes().unwrap_or(own_reserve);
        is_scarce(peer.said.free_bytes(), reserve)
    });
    env.room.scarce = scarce.map(|(id, _)| *id).collect();
    if is_scarce(env.room.free_bytes, own_reserve) {
        env.room.scarce.insert(env.own.identity.node);
    }
    let full = env.room.own_is_full || !env.room.full_peers.is_empty();
    if full != env.room.disk_is_full {
        let own = env.room.own_is_full.then_some(env.own.identity.node);
        let nodes = own.iter().chain(&env.room.full_peers);
        let nodes: Vec<u32> = nodes.map(|node| node.0).collect();
        if full {
            tracing::error!(
                ?nodes,
                "a disk is almost full: logs that cannot do without it take no appends until space is freed"
            );
        } else {
            tracing::info!("there is space again on all disks");
        }
    }
    full
}
