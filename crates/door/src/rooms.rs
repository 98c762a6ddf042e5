//! The room of groups: a door hands a group no more commands than it takes, and the others wait at the door.
//!
//! ```text
//!  command ─ has its group room? ─┬─ yes ─▶ handed over with a hold on some room, until it is answered or dropped
//!                                 └─ no  ─▶ its client stands in line, and nothing of it is read; it has its turn as room comes back
//! ```
//!
//! A group refuses what it has no room for. A door that waits instead leaves no hole in a pipeline, and lets clients have turns.
//!
//! A group has two rooms. A command whose reply may be large may wait for long until others have read theirs; one whose reply is short waits for
//! nobody's reading, nor for room that such a command has.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bounds::Bounds;
use crate::client::Client;

#[derive(Default)]
struct UnderWay {
    commands: AtomicUsize,
    /// Those of commands that are not small.
    bytes: AtomicUsize,
}

/// Which room a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// Its reply is short, whatever it finds.
    Brief,
    /// Its reply may be large.
    Any,
}

/// Room that a command takes. It comes back when this is dropped: with the command, however that ends.
pub struct Hold {
    of: Arc<UnderWay>,
    bytes: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.of.commands.fetch_sub(1, Ordering::Relaxed);
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Room {
    under_way: Arc<UnderWay>,
    /// The clients that wait for room, in the order in which they came.
    line: VecDeque<u64>,
}

impl Room {
    fn is_full(&self, bounds: &Bounds) -> bool {
        self.under_way.commands.load(Ordering::Relaxed) >= bounds.group_commands_max
            || self.under_way.bytes.load(Ordering::Relaxed) >= bounds.group_bytes_max
    }
}

/// The room of each group of a door.
pub struct Rooms {
    bounds: Bounds,
    by_group: BTreeMap<String, [Room; 2]>,
    /// The client that has its turn: nobody else is before it.
    turn: Option<u64>,
}

impl Rooms {
    pub fn new(bounds: Bounds) -> Rooms {
        Rooms {
            bounds,
            by_group: BTreeMap::new(),
            turn: None,
        }
    }

    fn room(&mut self, group: &str, which: Which) -> Option<&mut Room> {
        let [brief, any] = self.by_group.get_mut(group)?;
        Some(match which {
            Which::Brief => brief,
            Which::Any => any,
        })
    }

    /// Whether the group takes a command of so many bytes of this client now; else it stands in line. ‡ A small one is always taken of a client that has nothing
    /// under way: what the others of a full room wait for may take long, and is no matter of his.
    pub fn admits(&mut self, group: &str, which: Which, client: &Client, bytes: usize) -> bool {
        let (id, is_first) = (client.id, client.is_idle());
        let (bounds, turn) = (self.bounds, self.turn);
        let Some(room) = self.room(group, which) else {
            return true;
        };
        let is_next = room.line.is_empty() || turn == Some(id);
        let commands = room.under_way.commands.load(Ordering::Relaxed);
        let is_small = bytes <= bounds.small_command_bytes;
        let is_small = is_small && (is_first || commands < bounds.group_commands_max);
        if is_small || (is_next && !room.is_full(&bounds)) {
            return true;
        }
        // It may have its place there, and have tried again since nothing is under way.
        if !room.line.contains(&id) {
            room.line.push_back(id);
        }
        false
    }

    /// Takes room for a command of so many bytes.
    pub fn hold(&mut self, group: &str, which: Which, bytes: usize) -> Hold {
        if !self.by_group.contains_key(group) {
            self.by_group.insert(group.to_owned(), Default::default());
        }
        let room = self.room(group, which);
        let of = room.map(|room| room.under_way.clone()).unwrap_or_default();
        let bytes = match bytes <= self.bounds.small_command_bytes {
            true => 0,
            false => bytes,
        };
        of.commands.fetch_add(1, Ordering::Relaxed);
        of.bytes.fetch_add(bytes, Ordering::Relaxed);
        Hold { of, bytes }
    }

    /// The next client in a line whose group has room again. It has its turn until the next call.
    pub fn next(&mut self) -> Option<u64> {
        let mut rooms = self.by_group.values_mut().flatten();
        self.turn = rooms.find_map(|room| match room.is_full(&self.bounds) {
            true => None,
            false => room.line.pop_front(),
        });
        self.turn
    }

    /// Whether somebody may have a turn.
    pub fn are_due(&self) -> bool {
        let mut rooms = self.by_group.values().flatten();
        rooms.any(|room| !room.line.is_empty() && !room.is_full(&self.bounds))
    }

    /// Takes a client out of all lines.
    pub fn forget(&mut self, id: u64) {
        for room in self.by_group.values_mut().flatten() {
            room.line.retain(|other| *other != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use letters::Shown;

    use super::Which::{Any, Brief};
    use super::*;

    const MANY: usize = 8_192;

    fn idle(id: u64) -> Client {
        Client::new(id, String::new(), Shown::Nothing)
    }

    /// One that has a command under way.
    fn busy(id: u64) -> Client {
        let mut client = idle(id);
        client.await_answer(0);
        client
    }

    #[test]
    fn clients_have_turns_as_room_comes_back() {
        let mut rooms = Rooms::new(Bounds::default());
        let half = Bounds::default().group_bytes_max / 2;
        let mut holds = VecDeque::new();
        for id in [1, 2] {
            assert!(rooms.admits("a", Any, &busy(id), half));
            holds.push_back(rooms.hold("a", Any, half));
        }
        assert!(
            !rooms.admits("a", Any, &busy(1), half) && !rooms.admits("a", Any, &busy(2), 5_000)
        );
        assert!(
            rooms.admits("a", Any, &busy(3), Bounds::default().small_command_bytes),
            "small ones go on"
        );
        assert!(rooms.admits("b", Any, &busy(3), half), "another group");
        assert!(!rooms.are_due() && rooms.next().is_none());
        holds.pop_front();
        assert!(rooms.are_due());
        assert!(!rooms.admits("a", Any, &busy(3), half), "two are before it");
        assert_eq!(rooms.next(), Some(1));
        assert!(rooms.admits("a", Any, &busy(1), half));
        holds.push_back(rooms.hold("a", Any, half));
        assert!(
            !rooms.admits("a", Any, &busy(1), half),
            "it is full again, and its turn is over"
        );
        assert_eq!(rooms.next(), None);
        rooms.forget(3);
        holds.clear();
        let order: Vec<u64> = std::iter::from_fn(|| rooms.next()).collect();
        assert_eq!(order, [2, 1]);
        assert!(rooms.admits("a", Any, &busy(4), half));
    }

    #[test]
    fn many_small_commands_wait_too() {
        let mut rooms = Rooms::new(Bounds::default());
        let mut holds: Vec<Hold> = (0..MANY).map(|_| rooms.hold("a", Any, 10)).collect();
        assert!(!rooms.admits("a", Any, &busy(1), 10));
        assert!(rooms.admits("a", Any, &idle(2), 10), "it has none");
        assert!(!rooms.admits("a", Any, &idle(2), 5_000));
        holds.truncate(MANY - 1);
        rooms.forget(2);
        assert_eq!(rooms.next(), Some(1));
        assert!(rooms.admits("a", Any, &busy(1), 10));
    }

    #[test]
    fn those_with_short_replies_do_not_wait_for_others() {
        let mut rooms = Rooms::new(Bounds::default());
        let all = Bounds::default().group_bytes_max;
        let hold = rooms.hold("a", Any, all);
        assert!(
            !rooms.admits("a", Any, &busy(1), 5_000) && rooms.admits("a", Brief, &busy(2), 5_000)
        );
        let brief = rooms.hold("a", Brief, all);
        assert!(!rooms.admits("a", Brief, &busy(2), 5_000) && !rooms.are_due());
        drop(hold);
        assert_eq!((rooms.next(), rooms.next()), (Some(1), None));
        drop(brief);
        assert_eq!(rooms.next(), Some(2));
    }
}
