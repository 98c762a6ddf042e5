//! Figures of a door for clients of keys: the door counts, and its node tells them when it is asked.
//!
//! They are the only thing that a door's thread and its node's share. Each is a number of its own, so a reader may see one that belongs to a
//! moment before the next; it never sees half of one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The steps of a histogram, in microseconds. Those of a node's own histograms are the same.
pub const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// A number that one thread writes, and any may read. ‡ The writer adds without a lock: a second one would lose counts.
#[derive(Debug, Default)]
pub struct Figure(AtomicU64);

impl Figure {
    pub fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The fate of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fate {
    Answered,
    /// An error was the answer.
    Error,
    /// Another node serves the slot.
    Moved,
    /// Nobody does, for now.
    ClusterDown,
    /// Nobody can say what became of it: its connection was closed without a word.
    Unknown,
    /// Its client had gone before.
    Gone,
}

impl Fate {
    pub const ALL: [Fate; 6] = [
        Fate::Answered,
        Fate::Error,
        Fate::Moved,
        Fate::ClusterDown,
        Fate::Unknown,
        Fate::Gone,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Fate::Answered => "answered",
            Fate::Error => "error",
            Fate::Moved => "moved",
            Fate::ClusterDown => "clusterdown",
            Fate::Unknown => "unknown",
            Fate::Gone => "gone",
        }
    }
}

/// Commands that are alike, by the groups of Redis' own pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Family {
    String,
    Hash,
    List,
    Set,
    SortedSet,
    Keys,
    Transactions,
    Connection,
    Server,
}

impl Family {
    pub const ALL: [Family; 9] = [
        Family::String,
        Family::Hash,
        Family::List,
        Family::Set,
        Family::SortedSet,
        Family::Keys,
        Family::Transactions,
        Family::Connection,
        Family::Server,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Family::String => "string",
            Family::Hash => "hash",
            Family::List => "list",
            Family::Set => "set",
            Family::SortedSet => "sorted-set",
            Family::Keys => "keys",
            Family::Transactions => "transactions",
            Family::Connection => "connection",
            Family::Server => "server",
        }
    }
}

/// The commands of one family.
#[derive(Debug, Default)]
pub struct FamilyFigures {
    fates: [Figure; Fate::ALL.len()],
    /// Those that were answered, by how long that took; the last is without bound.
    durations: [Figure; BOUNDS_US.len() + 1],
    sum_us: Figure,
}

impl FamilyFigures {
    /// Counts a command.
    pub fn count(&self, fate: Fate, took: Duration) {
        if let Some(figure) = self.fates.get(fate as usize) {
            figure.add(1);
        }
        if fate == Fate::Gone {
            return;
        }
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS_US.partition_point(|bound_us| *bound_us < took_us);
        if let Some(figure) = self.durations.get(at) {
            figure.add(1);
        }
        self.sum_us.add(took_us);
    }

    pub fn of_fate(&self, fate: Fate) -> u64 {
        self.fates.get(fate as usize).map_or(0, Figure::get)
    }

    pub fn durations(&self) -> impl Iterator<Item = u64> {
        self.durations.iter().map(Figure::get)
    }

    pub fn sum_us(&self) -> u64 {
        self.sum_us.get()
    }
}

/// All figures of a door. Counts only grow.
#[derive(Debug, Default)]
pub struct DoorFigures {
    /// Connections now.
    pub clients: Figure,
    pub connections: Figure,
    /// Connections that were closed at once, since there were as many as may be.
    pub connections_refused: Figure,
    families: [FamilyFigures; Family::ALL.len()],
    /// Requests that are no command, or have the wrong number of words.
    pub requests_refused: Figure,
    pub slow_commands: Figure,
    /// The rate over the last one or two seconds.
    pub commands_per_second: Figure,
    pub received_bytes: Figure,
    pub sent_bytes: Figure,
    /// The bytes of replies that clients have not taken, now.
    pub unread_bytes: Figure,
    /// The bytes of requests that are not taken, now.
    pub unfinished_bytes: Figure,
    /// Connections that were closed because they had read too little, or had sent too much.
    pub clients_closed: Figure,
    /// Keys that were taken away because their deadline had passed, though nobody asked for them.
    pub expired_keys: Figure,
    /// Slots that are on their way to groups that are led here, now.
    pub slots_coming: Figure,
    /// The bytes of rows that came with slots, and the slots that were owned since.
    pub moved_bytes: Figure,
    pub moved_slots: Figure,
}

impl DoorFigures {
    pub fn family(&self, family: Family) -> &FamilyFigures {
        // There is one for each.
        &self.families[family as usize]
    }

    /// The commands of all families.
    pub fn of_fate(&self, fate: Fate) -> u64 {
        let families = self.families.iter();
        families.map(|family| family.of_fate(fate)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_counted_in_its_family_by_its_fate_and_time() {
        let figures = DoorFigures::default();
        let hashes = figures.family(Family::Hash);
        hashes.count(Fate::Answered, Duration::from_micros(100));
        hashes.count(Fate::Answered, Duration::from_micros(101));
        hashes.count(Fate::Error, Duration::from_secs(11));
        hashes.count(Fate::Gone, Duration::from_secs(11));
        let fates = Fate::ALL.map(|fate| hashes.of_fate(fate));
        assert_eq!(fates, [2, 1, 0, 0, 0, 1]);
        let durations: Vec<u64> = hashes.durations().collect();
        assert_eq!((durations[0], durations[1], durations[16]), (1, 1, 1));
        assert_eq!(
            durations.iter().sum::<u64>(),
            3,
            "who is gone waits no more"
        );
        assert_eq!(hashes.sum_us(), 11_000_201);
        assert_eq!(figures.of_fate(Fate::Answered), 2);
        assert_eq!(figures.family(Family::Set).of_fate(Fate::Answered), 0);
    }

    #[test]
    fn each_family_and_each_fate_has_a_place_and_a_name_of_its_own() {
        for (at, family) in Family::ALL.into_iter().enumerate() {
            assert_eq!(family as usize, at, "{}", family.name());
        }
        for (at, fate) in Fate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, at, "{}", fate.name());
        }
    }
}
