//! Decides which bytes move next.
//!
//! ```text
//! client ─ greet ── ingest ─┬─ own segment ─ durable ─┐
//!                           └─ replicate ⇄ follow ────┴─ accepted ─ paxos ─ chosen ─┬─ acknowledge
//!                                                                                    └─ read / apply
//! ```
//!
//! A node is a state machine around the engines of its logs: [`ops::Completion`]s go in,
//! [`ops::Op`]s come out. It makes no system call, reads no clock and draws no randomness, so that a
//! simulated kernel can stand in for the real one, and many nodes live in one process.

#![forbid(unsafe_code)]

pub mod config;

mod beat;
mod cluster;
mod disk;
mod ending;
mod greeting;
pub mod health;
pub mod hosted;

mod counts;
pub mod directory;
mod join;
mod lent;
mod logs;
mod membership;
mod node;
mod past;
mod peers;
pub mod rescue;
mod rounds;
mod split;
mod start;
mod tokens;

pub use counts::NodeCounts;
pub use node::{Node, VersionsView};
pub use peers::file as peers_file;
pub use start::StartError;
