//! One log's replica on one node: it decides which bytes of its log move next.
//!
//! ```text
//! client ── ingest ─┬─ own segment ─ durable ─┐
//!                   └─ replicate ⇄ follow ────┴─ accepted ─ paxos ─ chosen ─┬─ acknowledge
//!                                                                            └─ read, port
//! ```
//!
//! A [`Log`] knows no other log, no directory and no member's place. The node around it hands over everything
//! that arrives on the log's connections and from its disk, lends it an [`Env`], and settles it once a round.

#![forbid(unsafe_code)]

mod answers;
mod auxiliary;
mod catch_up;
mod conns;
mod counts;
mod env;
mod feed;
mod follow;
mod full;
mod ingest;
mod inspect;
mod lead;
mod lent;
mod limits;
mod log;
mod marks;
mod port;
mod pulse;
mod read;
mod rebind;
mod replicate;
mod retention;
mod ring;
mod scrub;
mod share;
mod stands;
mod streams;
mod trim;
mod turns;
mod young;

/// Answers in pieces, and the rest of one.
pub use answers::Rest;
/// The environment that a log is lent, and its words to the node around it.
pub use conns::{Conns, Purpose};
pub use counts::LogCounts;
pub use env::{Env, LogEvent, Memory, Moments, Neighbours, Out, Own, Room, WrittenIn};
/// The view of a checker.
pub use inspect::LogView;
pub use limits::Limits;
pub use log::Log;
/// A log as a guest inside this process uses it.
pub use port::{Event, NotNow, Port};
/// The duration of proposals.
pub use pulse::Pulse;
/// A connection of ours to a peer, and its progress.
pub use replicate::Link;
pub use scrub::Progress;
/// Memory that each log may hold.
pub use share::Share;
pub use streams::list::{StreamList, limit};
/// Bytes of the output that are left, and that are trimmed.
pub use trim::{forgotten_bytes, output_bytes};
pub use turns::Turns;
