//! Commands whose answers had no room: each waits in its place until as much as its answer took is free, and is executed anew.
//!
//! ```text
//!  execute ─ a large answer, no room ─▶ queue, by arrival ─ the host: the first of all groups has room ─▶ fetched, with room set aside
//!                                         ▲                                                               │
//!                                         └────────── its answer is larger than it was ◀──────────────────┘
//! ```
//!
//! ‡ It waits for as long as its client does: what it waits for is that other clients read, and the door sees to it that they do.

use std::collections::VecDeque;

use paxos::Time;
use paxos::mutation::{self, Mutation};

use super::Leading;
use super::executing::Round;
use super::fetching::Waiting;
use crate::bounds::Bounds;
use crate::machine::Outcome;
use crate::room::{Held, Room, Size};

/// By the number of their calls. ‡ Their rows are not kept: many would take more than the answers that have no room.
#[derive(Default)]
pub(super) struct Roomless {
    queue: VecDeque<Waiting>,
    /// The bytes of their commands.
    bytes: usize,
}

impl Roomless {
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn put(&mut self, waiting: Waiting) {
        self.bytes += waiting.call.command.bytes();
        let is_before = |other: &Waiting| other.number < waiting.number;
        let at = self.queue.partition_point(is_before);
        self.queue.insert(at, waiting);
    }

    /// The place of the first one whose answer is of this size.
    fn first(&self, size: Size, room: &Room) -> Option<usize> {
        let is_of_it = |waiting: &Waiting| room.size_of(waiting.asks.bytes) == size;
        self.queue.iter().position(is_of_it)
    }

    fn pop(&mut self, size: Size, room: &Room) -> Option<Waiting> {
        let first = self.queue.remove(self.first(size, room)?)?;
        self.bytes -= first.call.command.bytes();
        Some(first)
    }

    pub fn retain(&mut self, keeps: impl Fn(&Waiting) -> bool) {
        self.queue.retain(keeps);
        self.bytes = self.queue.iter().map(|w| w.call.command.bytes()).sum();
    }

    /// They wait for a leader from now on, and no longer for room.
    pub fn begin_anew(&mut self, now: Time) {
        for waiting in &mut self.queue {
            waiting.call.since = now;
        }
    }

    pub fn take_all(&mut self) -> VecDeque<Waiting> {
        std::mem::take(self).queue
    }

    fn is_full(&self, bounds: &Bounds) -> bool {
        self.queue.len() >= bounds.waiting_max || self.bytes > bounds.waiting_bytes_max
    }
}

/// The commands behind one of their order that is not executed yet.
#[derive(Default)]
pub(super) struct Behind {
    pub behind: Vec<Waiting>,
    /// That one is put aside, and so are they.
    is_aside: bool,
}

/// An answer that had no room.
#[derive(Default)]
pub(super) struct Asks {
    /// The bytes that it had.
    bytes: usize,
    /// The room that was set aside for it since.
    pub set_aside: Option<Held>,
}

impl Leading {
    /// Keeps a command whose answer of so many bytes was thrown away.
    pub(super) fn wait_for_room(
        &mut self,
        waiting: Waiting,
        bytes: usize,
        bounds: &Bounds,
        round: &mut Round,
    ) {
        round.on_thrown_away(bytes);
        if self.roomless.is_full(bounds) {
            let why = "too many commands wait until other clients have read their replies: ask again in a moment";
            return waiting.call.replier.reply(Outcome::NotNow(why.to_owned()));
        }
        let mut waiting = waiting.later();
        waiting.asks = Asks {
            bytes,
            set_aside: None,
        };
        self.room.set_awaited(self.room.size_of(bytes), true);
        waiting.call.put_aside(&self.room);
        // Commands that follow it in its order wait as long as it does.
        if let Some(order) = waiting.call.order
            && !mutation::is(Mutation::OrderOvertaken)
        {
            let held = self.held.entry(order).or_default();
            held.is_aside = true;
            let behind = held.behind.iter_mut();
            behind.for_each(|waiting| waiting.call.put_aside(&self.room));
        }
        self.roomless.put(waiting);
    }

    /// Keeps a command behind another of its order that was not executed yet.
    pub(super) fn hold_behind(&mut self, order: u64, mut waiting: Waiting) {
        let held = self.held.entry(order).or_default();
        if held.is_aside {
            waiting.call.put_aside(&self.room);
        }
        held.behind.push(waiting);
    }

    /// The first command that waits for room for an answer of this size: when it came, and how much it needs.
    pub fn waits_for_room(&self, size: Size) -> Option<(Time, usize)> {
        let first = self.roomless.first(size, &self.room)?;
        let first = self.roomless.queue.get(first)?;
        Some((first.call.since, first.asks.bytes))
    }

    /// Whether a command waits for room that is of another order.
    pub fn others_wait_for_room(&self, order: u64) -> bool {
        let mut queue = self.roomless.queue.iter();
        queue.any(|waiting| waiting.call.order != Some(order))
    }

    /// Sets room aside for the first command that waits for it, and executes that one in this round.
    pub fn let_in(&mut self, size: Size) {
        if let Some(mut first) = self.roomless.pop(size, &self.room) {
            first.asks.set_aside = Some(self.room.hold(first.asks.bytes));
            self.fetched.push_back(first);
        }
    }

    /// Whether commands wait here that are executed in no round while this node does not lead, or has no state.
    pub(super) fn has_let_in(&self) -> bool {
        let mut here = self.fetched.iter();
        !self.roomless.is_empty() || here.any(|waiting| waiting.asks.set_aside.is_some())
    }
}

#[cfg(test)]
mod tests;
