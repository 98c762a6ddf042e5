//! One direction of a connection: bytes in order, with a bounded kernel buffer at each end.
//!
//! ```text
//! taken <= arrived <= sent <= given <= asked          all count bytes since the beginning
//! acknowledged <= arrived      what the sender knows of it; its buffer is given - acknowledged
//! sent <= window               the receiver's buffer ends there, as far as the sender knows
//! ```

use std::collections::VecDeque;

use ops::{Slice, Time};

#[derive(Default)]
pub(crate) struct Stream {
    /// The bytes from `taken` to `asked`, shared with their sender.
    chunks: VecDeque<Slice>,
    /// The bytes of the first chunk that were taken already.
    taken_of_first: usize,

    /// By the receiving process, into its buffers.
    pub taken: u64,
    /// In the receiver's kernel buffer.
    pub arrived: u64,
    /// As segments.
    pub sent: u64,
    /// Copied into the sender's kernel buffer.
    pub given: u64,
    /// In send ops.
    pub asked: u64,
    pub acknowledged: u64,
    pub window: u64,

    /// The end of each unfinished send op.
    pub sends: VecDeque<u64>,
    /// Send ops behind the stream's end: they fail when those before them are done.
    pub refused: usize,
    /// Oldest first.
    pub in_flight: VecDeque<Segment>,
    /// Counts how often the segments in flight had to be sent again.
    pub sending: u32,
    pub last_arrival: Time,
    /// Since when the sender waits for an acknowledgement in vain.
    pub stalled_since: Option<Time>,
    /// The oldest segment in flight reached a cut: all of them wait for it to heal.
    pub stuck: bool,

    /// No more sends will come; an end follows the last byte.
    pub shut: bool,
    pub end_sent: bool,
    pub end_arrived: bool,
    /// Nothing more will arrive or be sent.
    pub dead: bool,
}

pub(crate) struct Segment {
    pub end: u64,
    /// The last one: nothing comes after `end`.
    pub last: bool,
}

impl Stream {
    pub fn push(&mut self, slices: Vec<Slice>) {
        for slice in slices {
            self.asked += slice.len() as u64;
            if !slice.is_empty() {
                self.chunks.push_back(slice);
            }
        }
        self.sends.push_back(self.asked);
    }

    /// Moves bytes that arrived into the receiver's memory.
    pub fn take(&mut self, mut into: &mut [u8]) {
        assert!(self.taken + into.len() as u64 <= self.arrived);
        self.taken += into.len() as u64;
        while !into.is_empty() {
            let first = self.chunks.front().expect("bytes up to `asked` are here");
            let left = &first[self.taken_of_first..];
            let count = left.len().min(into.len());
            into[..count].copy_from_slice(&left[..count]);
            into = &mut into[count..];
            self.taken_of_first += count;
            if self.taken_of_first == first.len() {
                self.chunks.pop_front();
                self.taken_of_first = 0;
            }
        }
    }

    pub fn discard_unread(&mut self) {
        let mut left = self.unread();
        self.taken = self.arrived;
        while left > 0 {
            let first = self.chunks.front().expect("bytes up to `asked` are here");
            let count = left.min((first.len() - self.taken_of_first) as u64);
            left -= count;
            self.taken_of_first += count as usize;
            if self.taken_of_first == first.len() {
                self.chunks.pop_front();
                self.taken_of_first = 0;
            }
        }
    }

    pub fn unread(&self) -> u64 {
        self.arrived - self.taken
    }

    /// Takes the number of unfinished send ops; they are counted anew from here on.
    pub fn take_sends(&mut self) -> usize {
        let sends = std::mem::take(&mut self.sends);
        sends.len() + std::mem::take(&mut self.refused)
    }

    /// The sender asked for more than its kernel will ever take.
    pub fn forget_ungiven(&mut self) {
        self.asked = self.given;
        self.sends.clear();
        self.shut = true;
    }

    /// The sender's kernel forgets what it did not send.
    pub fn forget_unsent(&mut self) {
        self.given = self.sent;
        self.forget_ungiven();
    }

    /// Drops the bytes in flight: they never arrive.
    pub fn die(&mut self) {
        self.in_flight.clear();
        self.sending += 1;
        self.sent = self.arrived;
        self.forget_unsent();
        self.stalled_since = None;
        self.stuck = false;
        self.dead = true;
    }

    /// Every byte and the end are delivered, or never will be.
    pub fn is_over(&self) -> bool {
        self.dead || self.end_arrived
    }

    pub fn check(&self) {
        let order = [self.taken, self.arrived, self.sent, self.given, self.asked];
        assert!(order.is_sorted(), "positions out of order: {order:?}");
        assert!(self.acknowledged <= self.arrived);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_in_order_across_chunks() {
        let mut stream = Stream::default();
        stream.push(vec![
            Slice::copied_from(b"abc"),
            Slice::copied_from(b""),
            Slice::copied_from(b"defg"),
        ]);
        stream.given = 7;
        stream.sent = 7;
        stream.arrived = 7;
        let mut seen = Vec::new();
        for count in [1, 3, 2, 1] {
            let mut part = vec![0; count];
            stream.take(&mut part);
            seen.extend(part);
        }
        assert_eq!(seen, b"abcdefg");
        assert_eq!(stream.unread(), 0);
        stream.check();
    }
}
