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
//!   ◀──────────────────────────────────────── Stands(…)  so far the state stands, and is durable
//!
//!   Skipped(to) ───────────────────────────────────────▶ the log begins at `to` now: the state is to be copied
//!   ◀─────────────────────────────────────── AskPiece(…)  … of another node, whose host is told PieceAsked(…)
//!   Piece(…) ──────────────────────────────────────────▶ … and answers TellPiece(…)
//!   ◀────────────────────────────────────── Attach(from)  the log goes on where the copy stands
//! ```
//!
//!   AskGroup(…) ───────────────────────────────────────▶  … of another log's group: GroupAsked(…) where that is led,
//!   ◀─────────────────────────────────────── GroupTold(…)  … which answers TellGroup(…)
//!
//! They are of one process: a letter is lost only together with its receiver.

#![forbid(unsafe_code)]

mod figures;
mod http_figures;
mod refusals;
mod rights;

pub use figures::{BOUNDS_US, DoorFigures, Family, FamilyFigures, Fate, Figure};
pub use http_figures::{CLASSES, Count, HttpFigures, HttpMethod, MethodFigures};

pub use refusals::{Refusals, Refused};
pub use rights::{
    Asks, DoorNote, KeptIssuer, KeptToken, No, RIGHTS_KNOWN_FOR, Rights, RightsBoard, Shown,
};

use std::collections::BTreeMap;
use std::sync::Arc;

use formats::frame::ServedPart;
use formats::{LogId, Stand};
use ops::Slice;
use paxos::{NodeId, StreamName};
use slots::{Change, Map};

/// From a node to its host.
#[derive(Debug)]
pub struct ToHost {
    pub log: LogId,
    /// By the number of the last [`Wish::Attach`] that the node has heard. ‡ What was handed over before a host attached anew is
    /// no part of what it is handed since.
    pub attached: u64,
    pub what: News,
}

/// The news of one log.
#[derive(Debug)]
pub enum News {
    /// This node has a replica of the log. Its state is to be opened, and the log to be [attached](Wish::Attach).
    Appeared {
        name: String,
        cluster: [u8; 16],
        /// The node itself.
        own: NodeId,
        /// As in [`Auxiliary`](News::Auxiliary).
        is_auxiliary: bool,
    },
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
    /// The bytes up to this position of the output were trimmed before they were handed over. Nothing follows until the log
    /// is attached again, at this position or above.
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
    Leader { leader: Option<Leader> },
    /// No more is taken for now, for this reason; or it is again. `frees`: what frees room is.
    Full { why: Option<String>, frees: bool },
    /// From now on this node is an auxiliary of the log, which holds no state; or it is one no more, and the state is to be
    /// opened, and the log to be attached.
    Auxiliary { is: bool },
    /// Another node's host asks for a piece of the state. To be [told](Wish::TellPiece), or not; ‡ not if the state here is in
    /// doubt, for another replica's is not the same.
    PieceAsked {
        by: NodeId,
        request: u64,
        bytes: Vec<u8>,
        is_doubted: bool,
    },
    /// The piece that was [asked](Wish::AskPiece) for.
    Piece { request: u64, bytes: Vec<u8> },
    /// Somebody asks the leader of this log's group something. To be [told](Wish::TellGroup).
    GroupAsked {
        by: NodeId,
        request: u64,
        bytes: Vec<u8>,
    },
    /// The answer to a [question](Wish::AskGroup) to this log's group. ‡ Without bytes it is the node's own: nobody was asked.
    GroupTold { request: u64, bytes: Vec<u8> },
    /// The host is to say that it [is here](Wish::Here).
    AreYouThere,
    /// A client of this node says something about rows. It is told [something](Wish::ToClient) before it says more, or is gone.
    Client { client: u64, says: Says },
}

/// A client's word.
#[derive(Debug)]
pub enum Says {
    /// It wants all rows of the machine, as they are once all is there that was chosen by now.
    Save,
    /// It took all that it was told. The next page.
    Next,
    Fill(Fill),
    /// Nobody is there any more.
    Gone,
}

/// A step of filling an empty state with the rows of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// ‡ The identity of the backup: whoever goes on does so with the same rows.
    pub backup: [u8; 32],
    pub step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Begin,
    /// The rows of this page, counted from 0.
    Page {
        number: u64,
        rows: Vec<u8>,
    },
    /// There were so many pages, and that is all of it. The log's time is not before `time_ms` from then on, and the next session has this
    /// number or a greater one.
    End {
        pages: u64,
        time_ms: u64,
        sessions: u64,
    },
}

/// The host's word to a client.
#[derive(Debug)]
pub enum Word {
    /// All rows follow, as of this position and frame.
    Saving {
        position: u64,
        frame: u64,
        time_ms: u64,
        /// The number of the next session.
        sessions: u64,
    },
    /// The next rows; there may be none in the last one.
    Page { rows: Vec<u8>, is_last: bool },
    /// All pages below this one are in the state, and that is chosen.
    Filled { next: u64 },
    /// No more comes.
    Not { why: Not, sentence: String },
}

/// Why a client is told no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Not {
    /// Another node leads, at this address if that is known.
    Leading { leader: Option<String> },
    /// No whole state is here.
    Here,
    /// Nobody can say, or do, it now.
    Now,
    /// As many clients as there may be are served.
    Room,
    /// Something was written already in the state that is to be filled.
    Empty,
    /// It was filled from the same backup already.
    Before,
    /// It makes no sense, or another restore is under way.
    Allowed,
}

/// Another node, which leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    pub node: NodeId,
    pub address: String,
    /// The HOST:PORT at which it answers clients of keys, if it does.
    pub door: Option<String>,
}

/// From a node to its host: which group is to serve which slots, and which one does, as log 0 has it now.
#[derive(Clone, Debug)]
pub struct SlotsMapped {
    pub map: Arc<Map>,
    /// By their logs: the groups of which this node has no replica.
    pub elsewhere: Arc<Elsewhere>,
}

/// From a node to its host, behind the map: it has all that log 0 had chosen when the host [asked](Wish::AskMap) with this number.
#[derive(Clone, Copy, Debug)]
pub struct SlotsCurrent {
    pub number: u64,
}

pub type Elsewhere = BTreeMap<u32, GroupElsewhere>;

/// A group of which this node has no replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupElsewhere {
    pub name: String,
    /// A node that has one: the leader by its own word, else one that is alive if any of them is.
    pub node: NodeId,
    pub is_leading: bool,
    /// The HOST:PORT at which that node answers clients of keys.
    pub door: String,
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
    /// The host takes letters.
    Here,
    /// Hand over the output from this position on.
    Attach { from: u64, number: u64 },
    /// So many bytes that were handed over take no room any more.
    Took { bytes: u64 },
    /// Append this to the host's stream.
    Submit { stream: StreamName, bytes: Vec<u8> },
    /// Say how long the output is, at least, by now.
    Barrier { barrier: u64 },
    /// The state cannot go on, for this reason: this replica is not to lead.
    Halted { why: String },
    /// The state goes no further for now, for this reason; or it goes on.
    Stuck { why: Option<String> },
    /// A restore fills the state, and has come so far in pages; or none does. Meanwhile nothing of it is served.
    Filling { next: Option<u64> },
    /// The state stands so far. One that is not whole is not to lead, and counts as one that lacks what was trimmed.
    Stands(Stand),
    /// Ask another node's host for a piece of the state; each time another node, perhaps. There may be no answer.
    AskPiece { request: u64, bytes: Vec<u8> },
    /// The answer to such a question.
    TellPiece {
        to: NodeId,
        request: u64,
        bytes: Vec<u8>,
    },
    /// Ask the leader of this log's group, on whichever node it is. There may be no answer.
    AskGroup { request: u64, bytes: Vec<u8> },
    /// The answer to such a question.
    TellGroup {
        to: NodeId,
        request: u64,
        bytes: Vec<u8>,
    },
    /// Tell the directory: this log's group serves these slots.
    Serves { parts: Vec<ServedPart> },
    /// Tell the directory: the map of slots is to change so.
    WantSlots(Change),
    /// Say when this node has read all of the map of slots that log 0 had chosen by now. The numbers grow.
    AskMap { number: u64 },
    /// Tell a client of this node.
    ToClient { client: u64, word: Word },
}

/// The bytes that are handed over before some are [taken](Wish::Took).
pub const CREDIT_BYTES: u64 = 4 << 20;
