//! How much room is left on the disks, ours and the peers', and whether ours is still there.
//!
//! Files that are open outlive their names: a node whose directory was removed would go on to acknowledge
//! bytes that nobody can find again. So the free space is asked for where one log's files are, each in its turn.

use std::io;

use formats::LogId;
use formats::segment::directory_name;
use ops::Op;
use paxos::Time;

use super::Node;
use crate::tokens;

/// Others may write to the same disk: where nothing changed by us, it is looked at so often.
const LOOK_EVERY: u64 = 1_000_000;

pub(super) struct Space {
    /// Something was written here or removed since the last question.
    pub is_stale: bool,
    /// An answer is owed.
    asked: bool,
    asked_at: Time,
    /// In this log's directory; `None`: in the node's.
    place: Option<LogId>,
    /// This log's directory is not there: the next question is about the node's.
    missed: Option<LogId>,
}

impl Default for Space {
    fn default() -> Space {
        Space {
            is_stale: true,
            asked: false,
            asked_at: Time(0),
            place: None,
            missed: None,
        }
    }
}

impl Node {
    /// With every tick while it may change soon. A node without work is not woken for it.
    pub(super) fn ask_space(&mut self) {
        let now = self.env.now;
        let is_scarce = self.env.room.free_bytes < 2 * self.env.limits.disk_reserve_bytes;
        let is_due = now.0 >= self.space.asked_at.0 + LOOK_EVERY;
        if self.space.asked || !(self.space.is_stale || is_scarce || is_due) {
            return;
        }
        let place = match self.space.missed {
            Some(_) => None,
            None => self.logs.after(self.space.place),
        };
        let directory = self.config.directory.clone();
        self.space = Space {
            is_stale: false,
            asked: true,
            asked_at: now,
            place,
            missed: self.space.missed,
        };
        self.env.out.ops.push_back(Op::FreeSpace {
            token: tokens::SPACE,
            path: place.map_or(directory.clone(), |log| directory.join(directory_name(log))),
        });
    }

    pub(super) fn on_space(&mut self, free: io::Result<u64>) {
        self.space.asked = false;
        match (free, self.space.place) {
            (Ok(free), place) => {
                let queued = self.logs.values().map(|log| log.store().queued_bytes());
                self.env.room.free_bytes = free.saturating_sub(queued.sum());
                let missed = self.space.missed.take_if(|_| place.is_none());
                if let Some(log) = missed.and_then(|log| self.logs.get_mut(&log)) {
                    log.on_directory_gone(&mut self.env);
                    self.due.touch(log.id());
                }
            }
            (Err(error), Some(log)) if error.kind() == io::ErrorKind::NotFound => {
                self.space.missed = Some(log);
                self.space.is_stale = true;
            }
            (Err(error), None) if error.kind() == io::ErrorKind::NotFound => {
                self.fail(format!(
                    "{} is gone: somebody removed or moved this node's directory while it ran, and nothing is acknowledged any more that would go there; put it back, or let a new node join with --join and an empty directory",
                    self.config.directory.display()
                ));
            }
            _ => {}
        }
    }

    /// With hysteresis, and for the scarcest disk among us and the live peers.
    pub(super) fn judge_space(&mut self) -> bool {
        let peers = self
            .peers
            .peers
            .values()
            .filter(|p| p.alive)
            .map(|p| p.free_bytes);
        let least = peers
            .chain([self.env.room.free_bytes])
            .min()
            .unwrap_or(u64::MAX);
        let reserve = self.env.limits.disk_reserve_bytes;
        let is_full = |was: bool, free: u64| free < if was { 2 * reserve } else { reserve };
        self.env.room.own_is_full = is_full(self.env.room.own_is_full, self.env.room.free_bytes);
        let before = std::mem::take(&mut self.env.room.full_peers);
        let peers = self.peers.peers.iter().filter(|(_, peer)| peer.alive);
        let full = peers.filter(|(id, peer)| is_full(before.contains(id), peer.free_bytes));
        self.env.room.full_peers = full.map(|(id, _)| *id).collect();
        let full = self.env.room.own_is_full || !self.env.room.full_peers.is_empty();
        if full != self.env.room.disk_is_full {
            if full {
                tracing::error!(
                    free_bytes = least,
                    reserve,
                    "a disk is almost full: appends that need it are refused until space is freed"
                );
            } else {
                tracing::info!(
                    free_bytes = least,
                    "there is space again: appends are taken"
                );
            }
        }
        full
    }
}
