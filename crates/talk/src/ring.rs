//! The bytes written and not yet acknowledged, in memory of a fixed bound.
//!
//! ```text
//!            acknowledged      sent            written
//!                 │              │                │
//!   ░░░░░░░░░░░░░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//!   given back    │ kept: sent,  │ kept: unsent   │
//!                 │ may be sent  │                │
//!                 │ once more    │                │
//! ```
//!
//! Chunks of a fixed size are lent to the sender as [`Arc`]s, so that the kernel copies out of
//! them while the writer goes on; a chunk grows only while nobody else holds it. Chunks that were
//! acknowledged are used again: the first touch of cold memory costs more than any copy.

use std::collections::VecDeque;
use std::sync::Arc;

/// One chunk. Large enough that a full one fills a system call, small enough that the last one,
/// partly filled, is a small part of the bound.
pub const CHUNK_BYTES: usize = 256 << 10;

/// acknowledged <= sent <= written, and sent <= sent_max <= written. All are chain positions.
#[derive(Debug)]
pub struct Ring {
    chunks: VecDeque<Chunk>,
    spare: Vec<Vec<u8>>,
    chunks_max: usize,
    acknowledged: u64,
    sent: u64,
    /// The furthest `sent` ever was: what lies below it and above `sent` will be sent once more.
    sent_max: u64,
    written: u64,
    /// The checksum of the stream's bytes that are acknowledged.
    sum: u32,
    sums: bool,
}

#[derive(Debug)]
struct Chunk {
    first: u64,
    bytes: Arc<Vec<u8>>,
}

/// A part of a chunk, lent to the sender.
#[derive(Debug)]
pub struct Lent {
    bytes: Arc<Vec<u8>>,
    from: usize,
    to: usize,
}

impl Lent {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }
}

impl Chunk {
    fn end(&self) -> u64 {
        self.first + self.bytes.len() as u64
    }
}

impl Ring {
    /// A ring that begins at chain position `base` and keeps at most `bytes_max`, rounded up to
    /// whole chunks.
    pub fn new(base: u64, bytes_max: usize) -> Self {
        Self {
            chunks: VecDeque::new(),
            spare: Vec::new(),
            chunks_max: bytes_max.div_ceil(CHUNK_BYTES).max(2),
            acknowledged: base,
            sent: base,
            sent_max: base,
            written: base,
            sum: 0,
            sums: false,
        }
    }

    /// The same, and what is acknowledged is summed up.
    pub fn summing(base: u64, bytes_max: usize) -> Self {
        Self {
            sums: true,
            ..Self::new(base, bytes_max)
        }
    }

    /// The crc32c of all bytes of the present stream that are acknowledged.
    pub fn sum(&self) -> u32 {
        self.sum
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub fn sent(&self) -> u64 {
        self.sent
    }

    pub fn sent_max(&self) -> u64 {
        self.sent_max
    }

    pub fn written(&self) -> u64 {
        self.written
    }

    pub fn unsent(&self) -> u64 {
        self.written - self.sent
    }

    /// Takes as many of `bytes` as there is room for without leaving the last chunk. Zero: full,
    /// until something is acknowledged or the sender gives the last chunk back.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        if let Some(last) = self.chunks.back_mut() {
            let room = CHUNK_BYTES - last.bytes.len();
            if room > 0
                && let Some(last) = Arc::get_mut(&mut last.bytes)
            {
                let count = bytes.len().min(room);
                last.extend_from_slice(&bytes[..count]);
                self.written += count as u64;
                return count;
            }
        }
        match self.take_chunk() {
            None => 0,
            Some(mut chunk) => {
                let count = bytes.len().min(CHUNK_BYTES);
                chunk.extend_from_slice(&bytes[..count]);
                self.push_chunk(chunk);
                count
            }
        }
    }

    /// An empty chunk to fill elsewhere and bring back with [`Ring::push_chunk`].
    pub fn take_chunk(&mut self) -> Option<Vec<u8>> {
        if self.chunks.len() >= self.chunks_max {
            return None;
        }
        Some(
            self.spare
                .pop()
                .unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES)),
        )
    }

    pub fn push_chunk(&mut self, chunk: Vec<u8>) {
        let first = self.written;
        self.written += chunk.len() as u64;
        self.chunks.push_back(Chunk {
            first,
            bytes: Arc::new(chunk),
        });
    }

    /// Whether a whole chunk would be begun by the next byte.
    pub fn at_chunk_end(&self) -> bool {
        let last = self.chunks.back();
        last.is_none_or(|last| last.bytes.len() == CHUNK_BYTES)
    }

    /// Nothing more can be written before something is acknowledged.
    pub fn is_full(&self) -> bool {
        self.chunks.len() >= self.chunks_max && self.at_chunk_end()
    }

    /// Lends what is not sent, in order, in at most `parts_max` parts.
    pub fn lend(&self, parts_max: usize, lent: &mut Vec<Lent>) {
        let start = self
            .chunks
            .partition_point(|chunk| chunk.end() <= self.sent);
        for chunk in self.chunks.range(start..).take(parts_max) {
            lent.push(Lent {
                from: self.sent.saturating_sub(chunk.first) as usize,
                to: chunk.bytes.len(),
                bytes: chunk.bytes.clone(),
            });
        }
    }

    /// Counts `count` more bytes as sent; returns how many of them were sent before.
    pub fn advance_sent(&mut self, count: u64) -> u64 {
        let again = self.sent_max.min(self.sent + count) - self.sent.min(self.sent_max);
        self.sent += count;
        self.sent_max = self.sent_max.max(self.sent);
        debug_assert!(self.sent <= self.written);
        again
    }

    /// Gives back all below `position`. False, and nothing happens, if that was not sent.
    #[must_use]
    pub fn acknowledge(&mut self, position: u64) -> bool {
        if position > self.sent {
            return false;
        }
        self.give_back(position);
        true
    }

    /// A new stream begins at `position`: all below is safe, all above is to be sent (once more).
    /// False, and nothing happens, if `position` is not one that the old stream can have reached.
    #[must_use]
    pub fn resume_at(&mut self, position: u64) -> bool {
        if position < self.acknowledged || position > self.sent_max {
            return false;
        }
        self.give_back(position);
        self.sent = self.acknowledged;
        self.sum = 0;
        true
    }

    /// Sums up the bytes from what is acknowledged to the position.
    fn sum_up(&mut self, position: u64) {
        let start = self
            .chunks
            .partition_point(|chunk| chunk.end() <= self.acknowledged);
        for chunk in self.chunks.range(start..) {
            let from = self.acknowledged.max(chunk.first).min(chunk.end());
            let to = position.clamp(from, chunk.end());
            let bytes = (from - chunk.first) as usize..(to - chunk.first) as usize;
            self.sum = crc32c::crc32c_append(self.sum, &chunk.bytes[bytes]);
            if to < chunk.end() {
                break;
            }
        }
    }

    fn give_back(&mut self, position: u64) {
        if self.sums {
            self.sum_up(position);
        }
        self.acknowledged = self.acknowledged.max(position);
        while let Some(first) = self.chunks.front() {
            if first.end() > self.acknowledged {
                break;
            }
            let chunk = self.chunks.pop_front();
            // A chunk still lent out is let go; its memory is gone once the sender drops it.
            if let Some(Ok(mut bytes)) = chunk.map(|chunk| Arc::try_unwrap(chunk.bytes)) {
                bytes.clear();
                self.spare.push(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unsent_bytes(ring: &Ring) -> Vec<u8> {
        let mut lent = Vec::new();
        ring.lend(usize::MAX, &mut lent);
        lent.iter().flat_map(|part| part.bytes().to_vec()).collect()
    }

    #[test]
    fn a_full_ring_takes_nothing_until_something_is_acknowledged() {
        let mut ring = Ring::new(0, 2 * CHUNK_BYTES);
        let bytes = vec![7; CHUNK_BYTES];
        assert_eq!(ring.write(&bytes), CHUNK_BYTES);
        assert_eq!(ring.write(&bytes), CHUNK_BYTES);
        assert_eq!(ring.write(&bytes), 0);
        ring.advance_sent(CHUNK_BYTES as u64);
        assert!(ring.acknowledge(CHUNK_BYTES as u64));
        assert_eq!(ring.write(&bytes), CHUNK_BYTES);
    }

    #[test]
    fn a_lent_chunk_does_not_change() {
        let mut ring = Ring::new(0, 4 * CHUNK_BYTES);
        ring.write(b"abc");
        let mut lent = Vec::new();
        ring.lend(8, &mut lent);
        ring.write(b"def");
        assert_eq!(lent[0].bytes(), b"abc");
        drop(lent);
        assert_eq!(unsent_bytes(&ring), b"abcdef");
    }

    #[test]
    fn what_a_lost_stream_does_not_hold_is_to_be_sent_again() {
        let mut ring = Ring::new(0, CHUNK_BYTES);
        ring.write(b"abcdef");
        assert_eq!(ring.advance_sent(5), 0);
        assert!(ring.resume_at(2));
        assert_eq!(unsent_bytes(&ring), b"cdef");
        assert_eq!(ring.advance_sent(4), 3, "c, d and e for the second time");
    }

    #[test]
    fn small_writes_share_a_chunk_even_after_they_were_sent() {
        let mut ring = Ring::new(0, 2 * CHUNK_BYTES);
        for _ in 0..1000 {
            assert_eq!(ring.write(b"x"), 1);
            ring.advance_sent(1);
        }
        assert_eq!(ring.chunks.len(), 1);
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        let mut ring = Ring::new(10, CHUNK_BYTES);
        ring.write(b"abc");
        assert!(!ring.acknowledge(11));
        ring.advance_sent(2);
        assert!(ring.acknowledge(12));
        assert!(!ring.acknowledge(13));
    }

    proptest! {
        // Each case moves megabytes.
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against a plain vector: whatever is written, sent, acknowledged and resumed, the unsent
        /// bytes are exactly those from `sent` on.
        #[test]
        fn the_ring_holds_what_a_vector_would(
            base in 0u64..1000,
            steps in proptest::collection::vec((0u8..4, 0usize..600_000), 1..40),
        ) {
            let mut ring = Ring::new(base, 8 * CHUNK_BYTES);
            let mut all: Vec<u8> = Vec::new();
            for (step, amount) in steps {
                match step {
                    0 => {
                        let bytes: Vec<u8> = (0..amount).map(|i| (i * 7 + amount) as u8).collect();
                        let taken = ring.write(&bytes);
                        all.extend_from_slice(&bytes[..taken]);
                    }
                    1 => {
                        let count = (amount as u64).min(ring.unsent());
                        ring.advance_sent(count);
                    }
                    2 => {
                        let span = ring.sent() - ring.acknowledged();
                        let position = ring.acknowledged() + (amount as u64).min(span);
                        prop_assert!(ring.acknowledge(position));
                    }
                    _ => {
                        let span = ring.sent_max() - ring.acknowledged();
                        let position = ring.acknowledged() + (amount as u64).min(span);
                        prop_assert!(ring.resume_at(position));
                        prop_assert_eq!((ring.acknowledged(), ring.sent()), (position, position));
                        prop_assert!(!ring.resume_at(ring.sent_max() + 1));
                    }
                }
                prop_assert!(ring.acknowledged() <= ring.sent());
                prop_assert!(ring.sent() <= ring.sent_max());
                prop_assert!(ring.sent_max() <= ring.written());
                prop_assert_eq!(ring.written(), base + all.len() as u64);
                prop_assert_eq!(unsent_bytes(&ring), &all[(ring.sent() - base) as usize..]);
                prop_assert!(ring.chunks.len() + ring.spare.len() <= 9);
            }
        }
    }
}
