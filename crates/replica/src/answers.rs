//! Answers that may be long: made as they are read, in pieces, and bounded over the whole node.
//!
//! ```text
//!   table ─► piece ─► socket ─► the kernel has it ─► next piece ─► … ─► the last one, and the end
//!                       └─ a client that does not read: nothing more is made for it
//! ```
//!
//! Shape:  a state, or a line that was made of one moment -> pieces -> socket.
//! Units:  `held_bytes` are what is made and not yet with the kernel, of all answers together.
//! Errors: when others need the room, the answer that has not moved for longest is broken off by a reset; and
//!         at last, when nothing of it has moved for so long that nobody may be there any more.
//!
//! A table in pieces is no picture of one moment. Each piece is made of a state at or after the read
//! barrier that the answer waited for, and none of an older state than the piece before it. The last one
//! names all that stands in the table by then, so that what any entry refers to stands behind it.

use std::collections::BTreeMap;
use std::time::Duration;

use formats::LogId;
use ops::ConnId;
use paxos::Time;

use crate::streams::list::StreamList;

/// The rest of an answer, to be said once its last piece is with the kernel.
#[derive(Debug)]
pub enum Rest {
    Nothing,
    /// The rest of a line that was made whole.
    Line {
        bytes: Vec<u8>,
        at: usize,
    },
    Streams(LogId, StreamList),
}

#[derive(Debug)]
struct Answer {
    rest: Rest,
    held: u64,
    /// Counts pieces of all answers: the answer with the lowest count has not moved for longest.
    moved: u64,
    since: Time,
}

#[derive(Debug, Default)]
pub struct Answers {
    under_way: BTreeMap<ConnId, Answer>,
    by_age: BTreeMap<u64, ConnId>,
    moves: u64,
    held_bytes: u64,
    /// Answers broken off for want of room, since the node started.
    broken: u64,
}

impl Answers {
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    pub fn broken(&self) -> u64 {
        self.broken
    }

    pub fn enter(&mut self, now: Time, conn: ConnId, rest: Rest, held: u64) {
        self.moves += 1;
        let moved = self.moves;
        self.by_age.insert(moved, conn);
        self.held_bytes += held;
        let answer = Answer {
            rest,
            held,
            moved,
            since: now,
        };
        self.under_way.insert(conn, answer);
    }

    /// Counts an answer that was broken off for want of room.
    pub fn count_broken(&mut self) {
        self.broken += 1;
    }

    pub fn leave(&mut self, conn: ConnId) -> Option<Rest> {
        let answer = self.under_way.remove(&conn)?;
        self.by_age.remove(&answer.moved);
        self.held_bytes -= answer.held;
        Some(answer.rest)
    }

    /// The answer that has not moved for so long, if there is one.
    pub fn late(&self, now: Time, within: Duration) -> Option<ConnId> {
        let (_, conn) = self.by_age.first_key_value()?;
        let answer = self.under_way.get(conn)?;
        (now > answer.since + within).then_some(*conn)
    }

    /// The answer that goes so that the others fit. The one that moved last stays, however much it holds.
    pub fn excess(&self, bytes_max: u64) -> Option<ConnId> {
        if self.held_bytes <= bytes_max || self.by_age.len() < 2 {
            return None;
        }
        self.by_age.values().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_not_moved_for_longest_makes_room_and_who_moved_last_stays() {
        let mut answers = Answers::default();
        for conn in 1..=3 {
            answers.enter(Time::from_micros(conn), ConnId(conn), Rest::Nothing, 10);
        }
        assert_eq!(answers.excess(30), None);
        assert_eq!(answers.excess(29), Some(ConnId(1)));
        answers.leave(ConnId(1));
        answers.enter(Time::from_micros(4), ConnId(1), Rest::Nothing, 10);
        assert_eq!(answers.excess(29), Some(ConnId(2)), "1 has moved since");
        let within = Duration::from_micros(5);
        assert_eq!(answers.late(Time::from_micros(7), within), None);
        assert_eq!(answers.late(Time::from_micros(8), within), Some(ConnId(2)));
        answers.leave(ConnId(2));
        answers.leave(ConnId(3));
        assert_eq!(answers.held_bytes(), 10);
        assert_eq!(answers.excess(5), None, "one answer always fits");
    }
}
