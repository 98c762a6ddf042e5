//! The room for answers: those that the groups of a host have made and not given, and those that whoever serves clients holds unread.
//!
//! ```text
//!                 ┌ small, or there is room ─▶ held until it is given ─▶ unread until its client has taken it
//!  an answer ─────┤
//!                 └ large, and no room ─▶ thrown away: its command waits, and has room set aside when it is executed again
//! ```
//!
//! Commands that wait for such room are put aside: they have room of their own, in which whoever asked no longer counts them.
//!
//! ‡ One thread has all groups of a host, and those who ask them: nobody takes room between a look and what follows it.

use std::cell::Cell;
use std::rc::Rc;

use crate::bounds::Bounds;
use crate::machine::Outcome;

/// An answer has room, however large it is, beside others of this part of the room together: of 193 MiB, 1.5 MiB.
const BESIDE_PART: usize = 128;

/// A command that is put aside takes so many bytes beside its own.
const ASIDE_BYTES: usize = 1 << 10;

/// The two sizes of answers.
pub(crate) const SIZES: [Size; 2] = [Size::Middling, Size::Large];

/// Answers of each size have room of their own: whoever asks for some hundred KiB does not wait for those who take 64 MiB slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Small ones are counted with these.
    Middling,
    Large,
}

/// The room of a host. Its clones are the same.
#[derive(Clone)]
pub(crate) struct Room(Rc<Counts>);

struct Counts {
    counted_bytes: usize,
    large_bytes: usize,
    sizes: [Count; 2],
    aside_bytes_max: usize,
    aside: Cell<usize>,
}

struct Count {
    bytes_max: usize,
    held: Cell<usize>,
    unread: Cell<usize>,
    is_awaited: Cell<bool>,
}

impl Room {
    pub fn new(bounds: &Bounds) -> Room {
        let count = |bytes_max| Count {
            bytes_max,
            held: Cell::new(0),
            unread: Cell::new(0),
            is_awaited: Cell::new(false),
        };
        Room(Rc::new(Counts {
            counted_bytes: bounds.counted_answer_bytes,
            large_bytes: bounds.large_answer_bytes,
            sizes: bounds.answers_bytes_max.map(count),
            aside_bytes_max: bounds.aside_bytes_max,
            aside: Cell::new(0),
        }))
    }

    pub fn size_of(&self, bytes: usize) -> Size {
        match bytes >= self.0.large_bytes {
            true => Size::Large,
            false => Size::Middling,
        }
    }

    fn count(&self, size: Size) -> &Count {
        let [middling, large] = &self.0.sizes;
        match size {
            Size::Middling => middling,
            Size::Large => large,
        }
    }

    /// The door holds so many bytes for its clients.
    pub fn set_unread(&self, size: Size, bytes: usize) {
        self.count(size).unread.set(bytes);
    }

    /// Whether a command waits for room.
    pub fn is_awaited(&self, size: Size) -> bool {
        self.count(size).is_awaited.get()
    }

    pub fn set_awaited(&self, size: Size, is: bool) {
        self.count(size).is_awaited.set(is);
    }

    /// Whether so many bytes more have room.
    pub fn has(&self, bytes: usize) -> bool {
        let count = self.count(self.size_of(bytes));
        let others = count.held.get() + count.unread.get();
        others + bytes <= count.bytes_max || others <= count.bytes_max / BESIDE_PART
    }

    /// Holds so many bytes, whether there is room or not.
    pub fn hold(&self, bytes: usize) -> Held {
        let held = &self.count(self.size_of(bytes)).held;
        held.set(held.get() + bytes);
        Held {
            bytes,
            room: self.clone(),
        }
    }

    /// Holds an answer of so many bytes, if it is small or has room. ‡ One that had no room set aside has none while others of its size wait: those that come
    /// later would else take what the first of them waits for.
    pub fn take(&self, bytes: usize, set_aside: Option<Held>) -> Option<Held> {
        let (is_let_in, before) = match set_aside {
            Some(held) => (true, held.bytes),
            None => (false, 0),
        };
        let fits = || match is_let_in {
            true => bytes <= before || self.has(bytes),
            false => !self.is_awaited(self.size_of(bytes)) && self.has(bytes),
        };
        (bytes < self.0.counted_bytes || fits()).then(|| self.hold(bytes))
    }

    /// Room for a command of so many bytes that is put aside, if there is.
    pub fn take_aside(&self, bytes: usize) -> Option<Aside> {
        let bytes = bytes + ASIDE_BYTES;
        let all = self.0.aside.get() + bytes;
        (all <= self.0.aside_bytes_max).then(|| {
            self.0.aside.set(all);
            Aside {
                bytes,
                room: self.clone(),
            }
        })
    }
}

/// The bytes of a command that is put aside, until this is dropped.
pub(crate) struct Aside {
    bytes: usize,
    room: Room,
}

impl Drop for Aside {
    fn drop(&mut self) {
        let aside = &self.room.0.aside;
        aside.set(aside.get() - self.bytes);
    }
}

/// Bytes that are held, until this is dropped.
pub(crate) struct Held {
    bytes: usize,
    room: Room,
}

impl Drop for Held {
    fn drop(&mut self) {
        let size = self.room.size_of(self.bytes);
        let held = &self.room.count(size).held;
        held.set(held.get() - self.bytes);
    }
}

/// An answer that is held until it is given.
pub(crate) struct Answer {
    outcome: Outcome,
    _held: Held,
}

impl Answer {
    pub fn new(outcome: Outcome, held: Held) -> Answer {
        Answer {
            outcome,
            _held: held,
        }
    }

    pub fn bytes(&self) -> usize {
        bytes_of(&self.outcome)
    }

    pub fn give(self) -> Outcome {
        self.outcome
    }
}

pub(crate) fn bytes_of(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Chosen(answer) => answer.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Room {
        Room::new(&Bounds {
            answers_bytes_max: [5_000, 10 << 20],
            counted_answer_bytes: 1_000,
            large_answer_bytes: 3_000,
            ..Bounds::default()
        })
    }

    #[test]
    fn large_answers_have_room_and_small_ones_need_none() {
        let room = room();
        let first = room.take(6 << 20, None).expect("there is room");
        assert!(room.take(5 << 20, None).is_none());
        let second = room.take(4 << 20, None).expect("just enough");
        let small = room.take(999, None).expect("it is small");
        assert!(room.take(3_000, None).is_none());
        drop(first);
        room.set_unread(Size::Large, 7 << 20);
        assert!(room.take(3_000, None).is_none());
        drop((second, small));
        assert!(room.take(3 << 20, None).is_some());
        assert_eq!(
            room.0.sizes.each_ref().map(|count| count.held.get()),
            [0, 0]
        );
    }

    #[test]
    fn whatever_is_next_to_alone_has_room() {
        let room = room();
        room.set_unread(Size::Large, 80 << 10);
        assert!(room.take(100 << 20, None).is_some());
        room.set_unread(Size::Large, (80 << 10) + 1);
        assert!(room.take(100 << 20, None).is_none());
    }

    #[test]
    fn room_is_set_aside_for_those_who_wait_and_nobody_overtakes_them() {
        let room = room();
        room.set_awaited(Size::Large, true);
        assert!(room.take(3_000, None).is_none());
        assert!(room.take(999, None).is_some());
        let aside = room.hold(6 << 20);
        room.set_unread(Size::Large, 9 << 20);
        assert!(room.take(6 << 20, Some(aside)).is_some());
        // Its answer is larger than it was.
        let aside = room.hold(6 << 20);
        assert!(room.take((6 << 20) + 1, Some(aside)).is_none());
        assert_eq!(room.count(Size::Large).held.get(), 0);
    }

    #[test]
    fn middling_answers_do_not_wait_for_large_ones() {
        let room = room();
        room.set_unread(Size::Large, 10 << 20);
        room.set_awaited(Size::Large, true);
        assert!(room.take(3_000, None).is_none());
        let some = room.take(2_999, None).expect("there is room");
        assert!(room.take(2_100, None).is_none(), "beside that one");
        room.set_awaited(Size::Middling, true);
        drop(some);
        assert!(room.take(1_000, None).is_none(), "others wait");
    }
}
