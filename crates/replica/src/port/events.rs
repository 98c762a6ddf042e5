//! The news and refusals that a guest is told.

use ops::Slice;
use paxos::StreamName;
use wire::Refusal;

/// News for a guest, in order.
#[derive(Debug)]
pub enum Event {
    /// The next chosen bytes.
    Bytes {
        stream: StreamName,
        /// The position of the first of them in the stream, and in the log's output.
        position: u64,
        at: u64,
        bytes: Slice,
    },
    /// The stream that was read is over for good: the next bytes are another's. Its length is unknown if it
    /// was trimmed.
    Ended {
        stream: StreamName,
        length: Option<u64>,
    },
    /// The next bytes were trimmed: the bytes that follow are the first that are left, from this position of the output on.
    Skipped { to: u64 },
    /// From now on the guest may submit. All bytes chosen before this stream are taken, and nobody adds to them.
    Begins { stream: StreamName },
    /// The guest may submit no more: this node no longer leads, or somebody else writes.
    Deposed { stream: StreamName },
}

/// The reason why nothing can be submitted now.
#[derive(Clone, Debug)]
pub enum NotNow {
    /// `Begins` has not come, or the guest was deposed since.
    NotWriting,
    /// Too much waits for the disk or the followers: try again once the log was settled.
    Later,
    /// A disk has reached its reserve.
    Full(Refusal),
}
