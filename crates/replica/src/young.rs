//! The newest bytes that a follower accepted, in memory, for the guest of its log: they were just received, and would be read from the disk
//! that is busy with writing them.
//!
//! ```text
//!  accepted ─▶ pushed │ … chosen … │ found, in order ─▶ the guest; what it took is dropped
//! ```
//!
//! ‡ A position of a stream has the same byte in whatever term it is proposed, and the guest asks for chosen ones alone: nothing here says
//! what is chosen.
//!
//! Units:  positions in a stream, in bytes.
//! Errors: none. What is not here is read from the disk.

use std::collections::VecDeque;
use std::ops::Range;

use ops::Slice;
use paxos::{SlotRange, StreamName, StreamPosition};

#[derive(Default)]
pub struct Young {
    /// In the order of their slots.
    entries: VecDeque<Entry>,
    /// Memory that is pinned.
    bytes: u64,
}

struct Entry {
    slots: SlotRange,
    stream: StreamName,
    positions: Range<u64>,
    payload: Slice,
}

impl Young {
    /// Keeps the bytes of these slots, and of all at most so many.
    pub fn push(
        &mut self,
        slots: SlotRange,
        (stream, from): (StreamName, StreamPosition),
        payload: Slice,
        bytes_max: u64,
    ) {
        // Slots that are accepted again may be other bytes than before.
        while self
            .entries
            .back()
            .is_some_and(|last| slots.start < last.slots.end)
        {
            self.drop_last();
        }
        self.bytes += payload.pinned_bytes() as u64;
        self.entries.push_back(Entry {
            slots,
            stream,
            positions: from.0..from.0 + payload.len() as u64,
            payload,
        });
        while self.bytes > bytes_max {
            self.drop_first();
        }
    }

    /// The bytes of the stream from that position on, as far as one entry has them. What is before is dropped: a guest goes on.
    pub fn find(&mut self, stream: StreamName, position: StreamPosition) -> Option<Slice> {
        let ends_behind =
            |entry: &Entry| entry.stream == stream && entry.positions.end > position.0;
        let past = self.entries.iter().position(ends_behind)?;
        (0..past).for_each(|_| self.drop_first());
        let first = self.entries.front()?;
        let into = position.0.checked_sub(first.positions.start)?;
        Some(first.payload.after(into as usize))
    }

    pub fn clear(&mut self) {
        *self = Young::default();
    }

    fn drop_first(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.payload.pinned_bytes() as u64;
        }
    }

    fn drop_last(&mut self) {
        if let Some(entry) = self.entries.pop_back() {
            self.bytes -= entry.payload.pinned_bytes() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use paxos::Slot;

    use super::*;

    const MAX: u64 = 1_000;

    fn stream(counter: u32) -> StreamName {
        let mut stream = StreamName::default();
        stream.sequence.counter = counter;
        stream
    }

    fn push(young: &mut Young, slot: u64, stream: StreamName, position: u64, bytes: &[u8]) {
        let slots = SlotRange::new(Slot(slot), Slot(slot + bytes.len() as u64));
        let payload = Slice::copied_from(bytes);
        young.push(slots, (stream, StreamPosition(position)), payload, MAX);
    }

    fn find(young: &mut Young, stream: StreamName, position: u64) -> Option<Vec<u8>> {
        young
            .find(stream, StreamPosition(position))
            .map(|slice| slice.to_vec())
    }

    #[test]
    fn bytes_are_found_in_order_and_dropped_behind_the_guest() {
        let mut young = Young::default();
        push(&mut young, 10, stream(1), 0, b"abc");
        push(&mut young, 13, stream(1), 3, b"def");
        push(&mut young, 17, stream(2), 0, b"gh");
        assert_eq!(find(&mut young, stream(1), 1), Some(b"bc".to_vec()));
        assert_eq!(find(&mut young, stream(1), 3), Some(b"def".to_vec()));
        assert_eq!(find(&mut young, stream(1), 6), None);
        assert_eq!(find(&mut young, stream(2), 0), Some(b"gh".to_vec()));
        assert_eq!(find(&mut young, stream(2), 2), None);
        assert_eq!(young.entries.len(), 1, "what was taken is dropped");
    }

    #[test]
    fn slots_that_are_accepted_again_replace_what_was_there() {
        let mut young = Young::default();
        push(&mut young, 10, stream(1), 0, b"abc");
        push(&mut young, 13, stream(1), 3, b"def");
        push(&mut young, 12, stream(2), 0, b"xyz");
        assert_eq!(find(&mut young, stream(1), 0), None);
        assert_eq!(find(&mut young, stream(2), 0), Some(b"xyz".to_vec()));
    }

    #[test]
    fn a_gap_is_not_jumped() {
        let mut young = Young::default();
        push(&mut young, 13, stream(1), 3, b"def");
        assert_eq!(find(&mut young, stream(1), 1), None);
        assert_eq!(find(&mut young, stream(1), 4), Some(b"ef".to_vec()));
    }

    #[test]
    fn the_oldest_go_when_too_many_bytes_are_pinned() {
        let mut young = Young::default();
        push(&mut young, 10, stream(1), 0, &[1; 600]);
        push(&mut young, 610, stream(1), 600, &[2; 600]);
        assert_eq!(find(&mut young, stream(1), 0), None);
        assert_eq!(find(&mut young, stream(1), 600), Some(vec![2; 600]));
        push(&mut young, 1_210, stream(1), 1_200, &[3; 2_000]);
        assert_eq!((young.entries.len(), young.bytes), (0, 0));
    }
}
