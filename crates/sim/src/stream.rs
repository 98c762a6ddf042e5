//! One direction of a connection: bytes in order, with a bounded kernel buffer at each end.
//!
//! ```text
//! taken <= arrived <= sent <= given <= asked          all count bytes since the beginning
//! acknowledged <= arrived      what the sender knows of it; its buffer is given - acknowledged
//! sent <= window               the receiver's buffer ends there, as far as the sender knows
//! ```

use std::collections::VecDeque;
use std::ops::Range;

use ops::{Slice, Time};

#[derive(Default)]
pub(crate) struct Stream {
    /// The bytes from `taken` to `asked`, shared with their sender.
    chunks: VecDeque<Slice>,
    /// The bytes of the first chunk that were taken already.
    taken_of_first: usize,

    /// By the receiving process, into its buffers.
    taken: u64,
    /// In the receiver's kernel buffer.
    arrived: u64,
    /// As segments.
    sent: u64,
    /// Copied into the sender's kernel buffer.
    given: u64,
    /// In send ops.
    asked: u64,
    acknowledged: u64,
    window: u64,

    ops: SendOps,
    transit: Transit,

    /// No more sends will come; an end follows the last byte.
    shut: bool,
    end_sent: bool,
    end_arrived: bool,
    /// Nothing more will arrive or be sent.
    dead: bool,
}

/// The send ops that the sending process waits for.
#[derive(Default)]
struct SendOps {
    /// The end of each unfinished send op.
    ends: VecDeque<u64>,
    /// Send ops behind the stream's end: they fail when those before them are done.
    refused: usize,
}

/// The segments between the two kernels.
#[derive(Default)]
struct Transit {
    /// Oldest first.
    segments: VecDeque<Segment>,
    /// Counts how often the segments in flight had to be sent again.
    sending: u32,
    last_arrival: Time,
    /// Since when the sender waits for an acknowledgement in vain.
    stalled_since: Option<Time>,
    /// The oldest segment in flight reached a cut: all of them wait for it to heal.
    stuck: bool,
}

struct Segment {
    end: u64,
    /// Nothing comes after `end`.
    last: bool,
}

impl Stream {
    /// A stream of a new connection, whose receiver has a buffer of so many bytes.
    pub fn new(buffer_bytes: u64) -> Stream {
        Stream {
            window: buffer_bytes,
            ..Stream::default()
        }
    }

    /// A send op.
    pub fn push(&mut self, slices: Vec<Slice>) {
        if self.shut {
            self.ops.refused += 1;
            return;
        }
        for slice in slices {
            self.asked += slice.len() as u64;
            if !slice.is_empty() {
                self.chunks.push_back(slice);
            }
        }
        self.ops.ends.push_back(self.asked);
    }

    /// An end follows what was asked so far.
    pub fn shut(&mut self) {
        self.shut = true;
    }

    pub fn is_dead(&self) -> bool {
        self.dead
    }

    pub fn given(&self) -> u64 {
        self.given
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The sender's kernel, with a buffer of so many bytes, takes what it has room for.
    pub fn give(&mut self, buffer_bytes: u64) {
        let room_until = self.acknowledged + buffer_bytes;
        self.given = self.given.max(self.asked.min(room_until));
    }

    /// The oldest send op is over. False: it is not, or there is none.
    pub fn finish_send(&mut self) -> bool {
        let given = self.given;
        let done = self.ops.ends.pop_front_if(|end| *end <= given);
        done.is_some()
    }

    /// Takes the number of send ops that fail now, as none before them is unfinished. `None`: some are.
    pub fn take_refused(&mut self) -> Option<usize> {
        let first = self.ops.ends.is_empty();
        first.then(|| std::mem::take(&mut self.ops.refused))
    }

    /// The bytes that may be sent now, and whether the end is sent behind them.
    pub fn begin_sending(&mut self) -> (Range<u64>, bool) {
        let limit = self.given.min(self.window);
        let last = self.shut && !self.end_sent && limit == self.asked;
        self.end_sent |= last;
        (self.sent..limit, last)
    }

    /// A segment of so many bytes leaves, that would arrive at `at`. When it will, as segments do not
    /// overtake each other, and for which sending.
    pub fn depart(&mut self, at: Time, count: u64, last: bool) -> (Time, u32) {
        let at = self.not_before_the_last(at);
        self.transit.last_arrival = at;
        self.sent += count;
        let end = self.sent;
        self.transit.segments.push_back(Segment { end, last });
        (at, self.transit.sending)
    }

    fn not_before_the_last(&self, at: Time) -> Time {
        at.max(self.transit.last_arrival)
    }

    /// All segments in flight arrive later: when, for which sending, and how many they are.
    pub fn send_again(&mut self, at: Time) -> (Time, u32, usize) {
        self.transit.sending += 1;
        let at = self.not_before_the_last(at);
        self.transit.last_arrival = at;
        (at, self.transit.sending, self.transit.segments.len())
    }

    pub fn is_sending(&self, sending: u32) -> bool {
        self.transit.sending == sending
    }

    /// The oldest segment in flight arrives. False: none is.
    pub fn arrive(&mut self) -> bool {
        let Some(segment) = self.transit.segments.pop_front() else {
            return false;
        };
        self.arrived = segment.end;
        self.end_arrived |= segment.last;
        self.check();
        true
    }

    /// The receiver has all bytes up to the end, which has arrived.
    pub fn has_ended(&self) -> bool {
        self.end_arrived && self.unread() == 0
    }

    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged >= self.arrived
    }

    /// The sender hears what arrived, and what room there is in a buffer of so many bytes.
    pub fn acknowledge(&mut self, buffer_bytes: u64) {
        self.acknowledged = self.arrived;
        self.window = self.taken + buffer_bytes;
        if !self.transit.stuck {
            self.transit.stalled_since = None;
        }
    }

    /// The sender waits in vain from now on. False: it did before, or waits for nothing.
    pub fn stall(&mut self, now: Time) -> bool {
        let begins = !self.dead && self.transit.stalled_since.is_none();
        if begins {
            self.transit.stalled_since = Some(now);
        }
        begins
    }

    pub fn is_stalled_since(&self, since: Time) -> bool {
        self.transit.stalled_since == Some(since)
    }

    pub fn is_stuck(&self) -> bool {
        self.transit.stuck
    }

    pub fn set_stuck(&mut self, stuck: bool) {
        self.transit.stuck = stuck;
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
        let ends = std::mem::take(&mut self.ops.ends);
        ends.len() + std::mem::take(&mut self.ops.refused)
    }

    /// The sender asked for more than its kernel will ever take.
    pub fn forget_ungiven(&mut self) {
        self.asked = self.given;
        self.ops.ends.clear();
        self.shut = true;
    }

    /// The sender's kernel forgets what it did not send.
    fn forget_unsent(&mut self) {
        self.given = self.sent;
        self.forget_ungiven();
    }

    /// A reset is sent behind what is in flight, that would arrive at `at`. When it will.
    pub fn send_reset(&mut self, at: Time) -> Time {
        self.forget_unsent();
        self.end_sent = true;
        self.not_before_the_last(at)
    }

    /// Drops the bytes in flight: they never arrive.
    pub fn die(&mut self) {
        self.transit.segments.clear();
        self.transit.sending += 1;
        self.sent = self.arrived;
        self.forget_unsent();
        self.transit.stalled_since = None;
        self.transit.stuck = false;
        self.dead = true;
    }

    /// Every byte and the end are delivered, or never will be.
    pub fn is_over(&self) -> bool {
        self.dead || self.end_arrived
    }

    fn check(&self) {
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
