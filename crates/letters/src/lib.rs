//! Letters between a node and a host: a machine of the same process that keeps the state of logs.
//!
//! ```text
//!  node                                                  host
//!   Appeared(log) ─────────────────────────────────────▶ opens the state
//!   ◀───────────────────────────────────── Attach(from)  it stands for all before `from`
//!   Bytes … Ended … Bytes … ───────────────────────────▶ applies them
//!   ◀────────────────────────────────────────── Took(n)  there is room for so many more
//!   Begins(stream) ────────────────────────────────────▶ this node leads, all before the stream was handed over
//!   ◀──────────────────────────── Submit(stream, bytes)
//!   Bytes of that stream ──────────────────────────────▶ so much of it is chosen
//!   Deposed … Ended(stream, length) ───────────────────▶ and no more ever
//!   ◀────────────────────────────────────── Barrier(n)
//!   Passed(n, end) ────────────────────────────────────▶ the output was as long as `end` at least
//! ```
//!
//! They are of one process: a letter is lost only together with its receiver.

#![forbid(unsafe_code)]

use formats::LogId;
use ops::Slice;
use paxos::StreamName;

/// From a node to its host.
#[derive(Debug)]
pub struct ToHost {
    pub log: LogId,
    pub what: News,
}

/// The news of one log.
#[derive(Debug)]
pub enum News {
    /// This node has a replica of the log. Its state is to be opened, and the log to be [attached](Wish::Attach).
    Appeared { name: String, cluster: [u8; 16] },
    /// This node has no replica any more: the log was deleted, or this node is not among its members.
    Gone,
    /// The next chosen bytes.
    Bytes {
        stream: StreamName,
        /// The position of the first of them in the log's output.
        at: u64,
        /// And in their stream.
        position: u64,
        bytes: Slice,
    },
    /// The stream is over for good. Its length is unknown if it was trimmed before this node handed it over.
    Ended {
        stream: StreamName,
        length: Option<u64>,
    },
    /// The bytes up to this position of the output were trimmed before they were handed over.
    Skipped { to: u64 },
    /// From now on the host may submit bytes of this stream. All before it were handed over.
    Begins { stream: StreamName },
    /// The host may submit no more of this stream.
    Deposed { stream: StreamName },
    /// The barrier has passed: the output had this length, or more, when it was asked for, and was handed over
    /// or will be. `stream`: the host's own at this moment.
    Passed {
        barrier: u64,
        end: u64,
        stream: Option<StreamName>,
    },
    /// Another node, or none that is known, leads.
    Leader { address: Option<String> },
    /// No more is taken for now, for this reason; or it is again.
    Full { why: Option<String> },
}

/// From a host to its node.
#[derive(Debug)]
pub struct ToNode {
    pub log: LogId,
    pub what: Wish,
}

/// The host's wish for one log.
#[derive(Debug)]
pub enum Wish {
    /// Hand over the output from this position on.
    Attach { from: u64 },
    /// So many bytes that were handed over take no room any more.
    Took { bytes: u64 },
    /// Append this to the host's stream.
    Submit { stream: StreamName, bytes: Vec<u8> },
    /// Say how long the output is, at least, by now.
    Barrier { barrier: u64 },
    /// The state cannot go on, for this reason: this replica is not to lead.
    Halted { why: String },
}

/// The bytes that are handed over before some are [taken](Wish::Took).
pub const CREDIT_BYTES: u64 = 4 << 20;
