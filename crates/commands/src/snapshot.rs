//! A replica as bytes, and these bytes as parts: frames of at most 1 MiB, one at a time.
//!
//! ```text
//! snapshot = version u8 | crc32c u32, of all that follows (version 2 only)
//!          | applied u64 | time u64 | last client u64
//!          | sessions u64 | each: client, sequence, used u64, answer
//!          | state                                        bytes = length u64 | bytes
//!
//! part     = part u32 | of so many u32 | bytes            a frame, with a checksum of its own
//!
//!   writing   the state, measured piece by piece ─▶ then piece by piece ─▶ part 0, 1, 2 …
//!   reading   part 0, 1, 2 … ─▶ sessions, one by one ─▶ the state's bytes, as they come
//! ```
//!
//! Neither side ever holds more of it than one part and one piece; a length that claims more takes no memory.

mod reading;
mod writing;

use thiserror::Error;

pub(crate) use reading::{Parts, Took};
pub(crate) use writing::Source;
pub use writing::{Mark, Snapshot};

/// Small enough to be proposed and sent among other frames.
pub(crate) const PART_BYTES: usize = 1 << 20;
/// A state machine gives its state in pieces of about this size.
pub const PIECE_BYTES: usize = 64 << 10;

/// The layout of a snapshot that is written. Both layouts are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Version 1. Each part has a checksum, and the whole has none.
    Plain,
    /// Version 2. The whole has a checksum too.
    Checked,
}

/// Parts that are not a snapshot's next one. One that is the same as the part before it is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misplaced {
    #[error("part {found} of a snapshot stands where part {expected} belongs")]
    Order { expected: u32, found: u32 },
    #[error("a part of a snapshot of {found} parts stands among those of a snapshot of {expected}")]
    Foreign { expected: u32, found: u32 },
    #[error("a part claims to be number {part}, from 0, of {parts}")]
    Number { part: u32, parts: u32 },
    #[error("a command stands among the parts of a snapshot, before part {expected}")]
    Interrupted { expected: u32 },
}
