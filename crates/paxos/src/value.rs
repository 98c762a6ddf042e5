//! The values that are agreed in slots.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::{By, Era, NodeId, Offset, Slot, SlotRange, StreamPosition, Term, Wish};

/// The name of a stream, which is the bytes of one writer. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    /// The node that took the writer's connection.
    pub owner: NodeId,
    /// The number that this node gave it.
    pub sequence: StreamSequence,
}

/// Ordered: a node's incarnation (which start of the node it was), then a counter within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamSequence {
    /// The number of the owner's start.
    pub incarnation: u32,
    /// Counts the streams of that start.
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
    /// Nothing: the slot is filled so that those behind it can be applied.
    NoOp,
    /// A byte of a stream, at the position that slot and offset come to.
    Content {
        /// The stream.
        stream: StreamName,
        /// The distance from the position in it to the slot.
        offset: Offset,
    },
    /// An act on the log's own state.
    Action(Arc<Action>),
}

/// An act that is chosen in one slot, and applied by every replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Takes the next node id for a new node.
    GenerateNodeId,
    /// Takes effect only in era `from`, and only if its author still wants it.
    Reconfigure {
        /// The era in which the step is legal.
        from: Era,
        /// The step.
        change: Change,
        /// The wish on whose behalf it is proposed.
        by: By,
    },
    /// Begins a stream, which cuts the one that was current.
    OpenStream(OpenStream),
    /// A clean end. Takes effect only if `stream` is current and exactly `at` long.
    CloseStream {
        /// The stream that ends.
        stream: StreamName,
        /// Its length.
        at: StreamPosition,
    },
    /// The end of a stream whose writer is gone. Takes effect only if `stream` is current and exactly `at` long. The
    /// stream can be continued all the same.
    CutStream {
        /// The stream that ends.
        stream: StreamName,
        /// Its length.
        at: StreamPosition,
    },
    /// Forgets all slots below the lesser of `before` and this action's own slot, if its author still wants it.
    Trim {
        /// The first slot that is kept.
        before: Slot,
        /// The wish on whose behalf it is proposed.
        by: By,
    },
    /// The directory's wish for this log. Takes effect only if its number is above the last one's.
    Wish(Arc<Wish>),
}

/// One legal step of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds one to the node's weight: a node without weight becomes a member.
    Increment(NodeId),
    /// Takes one from the node's weight: a node whose last weight goes is no member any more.
    Decrement(NodeId),
    /// Multiplies all weights, which changes no quorum.
    Multiply(u32),
    /// Divides all weights, which must leave no remainder.
    Divide(u32),
    /// Has the member hold bytes only while others cannot.
    MarkAuxiliary(NodeId),
    /// Has the member hold all bytes.
    UnmarkAuxiliary(NodeId),
}

/// The beginning of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenStream {
    /// The name of the new stream.
    pub stream: StreamName,
    /// Words of its writer, at most [`LABEL_BYTES_MAX`] bytes.
    pub label: String,
    /// At most [`METADATA_BYTES_MAX`].
    pub metadata: Vec<u8>,
    /// The continued stream. Takes effect only if its output is then exactly so long and nothing else continued it.
    pub continues: Option<(StreamName, StreamPosition)>,
}

/// Bytes of a stream's label.
pub const LABEL_BYTES_MAX: usize = 256;
/// Bytes that a writer may keep with a stream.
pub const METADATA_BYTES_MAX: usize = 4096;

/// A maximal range of slots with equal term and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The slots.
    pub slots: SlotRange,
    /// The term in which all of them were proposed or accepted.
    pub term: Term,
    /// The value of each of them.
    pub value: Value,
}

/// crc32c over the payload of one batch. The engine compares it and never computes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(pub u32);
