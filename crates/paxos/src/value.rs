//! The values that are agreed in slots.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::{By, Era, NodeId, Offset, Slot, SlotRange, StreamPosition, Term, Wish};

/// The name of a stream, which is the bytes of one writer. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    pub owner: NodeId,
    pub sequence: StreamSequence,
}

/// Ordered: a node's incarnation (which start of the node it was), then a counter within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamSequence {
    pub incarnation: u32,
    pub counter: u32,
}

/// Printed and parsed as `owner.incarnation.counter`.
impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            self.owner.0, self.sequence.incarnation, self.sequence.counter
        )
    }
}

/// The value of one slot. A content value is equal for consecutive bytes in consecutive slots, so a run of
/// any length is one value; actions fill exactly one slot each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    NoOp,
    Content { stream: StreamName, offset: Offset },
    Action(Arc<Action>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    GenerateNodeId,
    /// Takes effect only in era `from`, and only if its author still wants it.
    Reconfigure {
        from: Era,
        change: Change,
        by: By,
    },
    OpenStream(OpenStream),
    /// A clean end. Takes effect only if `stream` is current and exactly `at` long.
    CloseStream {
        stream: StreamName,
        at: StreamPosition,
    },
    /// The end of a stream whose writer is gone. Takes effect only if `stream` is current and exactly `at` long. The
    /// stream can be continued all the same.
    CutStream {
        stream: StreamName,
        at: StreamPosition,
    },
    /// Forgets all slots below the lesser of `before` and this action's own slot, if its author still wants it.
    Trim {
        before: Slot,
        by: By,
    },
    /// The directory's wish for this log. Takes effect only if its number is above the last one's.
    Wish(Arc<Wish>),
}

/// One legal step of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Increment(NodeId),
    Decrement(NodeId),
    Multiply(u32),
    Divide(u32),
    MarkAuxiliary(NodeId),
    UnmarkAuxiliary(NodeId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenStream {
    pub stream: StreamName,
    pub label: String,
    /// At most [`METADATA_BYTES_MAX`].
    pub metadata: Vec<u8>,
    /// The continued stream. Takes effect only if its output is then exactly so long and nothing else continued it.
    pub continues: Option<(StreamName, StreamPosition)>,
}

pub const LABEL_BYTES_MAX: usize = 256;
pub const METADATA_BYTES_MAX: usize = 4096;

/// A maximal range of slots with equal term and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub slots: SlotRange,
    pub term: Term,
    pub value: Value,
}

/// crc32c over the payload of one batch. The engine compares it and never computes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(pub u32);
