//! What the chosen slots add up to: the log's own state machine.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{
    ChangeRefused, Configuration, Era, NodeId, Slot, StreamName, StreamPosition, StreamSequence,
};

/// The state after all slots below `next` were applied. Applying is defined slot by slot, and its
/// result does not depend on how runs are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The first slot not applied.
    pub next: Slot,
    pub era: Era,
    /// The first slot of `era`.
    pub era_start: Slot,
    pub configuration: Configuration,
    pub next_node_id: NodeId,
    /// For each owner the greatest sequence number it ever opened. Never trimmed.
    pub sequences: BTreeMap<NodeId, StreamSequence>,
    /// Every untrimmed stream in the order of opening; `streams_trimmed` came before them.
    pub streams: Vec<StreamState>,
    pub streams_trimmed: u64,
    /// The last of `streams` may still grow.
    pub current: Option<StreamName>,
    /// Slots below are forgotten.
    pub trimmed: Slot,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub name: StreamName,
    pub label: String,
    pub metadata: Vec<u8>,
    pub continues: Option<(StreamName, StreamPosition)>,
    pub continued_by: Option<StreamName>,
    /// The slot of its open-stream.
    pub opened: Slot,
    /// Its output so far: bytes `trimmed..length` can be read.
    pub length: StreamPosition,
    pub trimmed: StreamPosition,
    pub end: StreamEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// It may grow.
    Open,
    /// By close-stream: complete.
    Closed,
    /// Another stream was opened, or a gap followed: cut off.
    Cut,
}

/// What applying an action came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    NodeId(NodeId),
    Opened(StreamName),
    NotOpened {
        stream: StreamName,
        reason: NotOpened,
    },
    Closed {
        stream: StreamName,
        at: StreamPosition,
    },
    /// Not current, or not that long.
    NotClosed {
        stream: StreamName,
    },
    Reconfigured {
        era: Era,
    },
    NotReconfigured(ChangeRefused),
    Trimmed {
        before: Slot,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// Its sequence number does not exceed its owner's last.
    NotNew,
    /// The stream to continue has another length, or was already continued.
    Continues {
        length: StreamPosition,
        continued_by: Option<StreamName>,
    },
    UnknownStream,
}
