//! How much room is left on the disks, ours and the peers'.

use paxos::Time;

use super::{Node, TOKEN_SPACE};
use crate::op::Op;

/// Others may write to the same disk: where nothing changed by us, it is looked at so often.
const LOOK_EVERY: u64 = 1_000_000;

pub(super) struct Space {
    /// Something was written here or removed since the last question.
    pub is_stale: bool,
    /// An answer is owed.
    asked: bool,
    asked_at: Time,
}

impl Default for Space {
    fn default() -> Space {
        Space {
            is_stale: true,
            asked: false,
            asked_at: Time(0),
        }
    }
}

impl Node {
    /// With every tick while it may change soon. A node without work is not woken for it.
    pub(super) fn ask_space(&mut self) {
        let now = self.env.now;
        let is_scarce = self.env.free_bytes < 2 * self.env.limits.disk_reserve_bytes;
        let is_due = now.0 >= self.space.asked_at.0 + LOOK_EVERY;
        if self.space.asked || !(self.space.is_stale || is_scarce || is_due) {
            return;
        }
        self.space = Space {
            is_stale: false,
            asked: true,
            asked_at: now,
        };
        self.env.ops.push_back(Op::FreeSpace {
            token: TOKEN_SPACE,
            path: self.config.directory.clone(),
        });
    }

    pub(super) fn on_space(&mut self, free: std::io::Result<u64>) {
        self.space.asked = false;
        if let Ok(free) = free {
            let queued = self.logs.values().map(|log| log.store.queued_bytes());
            self.env.free_bytes = free.saturating_sub(queued.sum());
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
        let least = peers.chain([self.env.free_bytes]).min().unwrap_or(u64::MAX);
        let reserve = self.env.limits.disk_reserve_bytes;
        let is_full = |was: bool, free: u64| free < if was { 2 * reserve } else { reserve };
        self.env.own_is_full = is_full(self.env.own_is_full, self.env.free_bytes);
        let before = std::mem::take(&mut self.env.full_peers);
        let peers = self.peers.peers.iter().filter(|(_, peer)| peer.alive);
        let full = peers.filter(|(id, peer)| is_full(before.contains(id), peer.free_bytes));
        self.env.full_peers = full.map(|(id, _)| *id).collect();
        let full = self.env.own_is_full || !self.env.full_peers.is_empty();
        if full != self.env.disk_is_full {
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
