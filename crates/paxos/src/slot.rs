//! Positions: in the agreed sequence of a log, and in one stream.

use core::fmt;

/// A position in a log's sequence of actions. One slot of stream content is one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u64);

/// Bytes from the start of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamPosition(pub u64);

/// `slot - position`: constant while consecutive bytes of a stream fill consecutive slots, so
/// that a run of any length is one value. Never negative: every byte before took a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

/// The half-open range of slots `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotRange {
    /// The first slot.
    pub start: Slot,
    /// The slot behind the last.
    pub end: Slot,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{},{})", self.start.0, self.end.0)
    }
}

impl SlotRange {
    /// The slots from `start` to `end`, `end` not among them; empty if `end` is not above `start`.
    pub fn new(start: Slot, end: Slot) -> SlotRange {
        SlotRange { start, end }
    }

    /// The number of slots.
    pub fn len(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Whether no slot is in it.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Whether the slot is in it.
    pub fn contains(&self, slot: Slot) -> bool {
        self.start <= slot && slot < self.end
    }
}
