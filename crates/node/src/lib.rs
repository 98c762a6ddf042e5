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
mod start;
pub mod wires;

// The conductor, and its loans to parts.
mod lent;
mod node;

// Connections of nobody yet, and of peers.
mod beat;
mod gate;
mod greeting;
mod join;
mod peers;

// Logs, and the disk they are on.
mod disk;
mod logs;
mod past;
mod tokens;

// The cluster's directory, and what follows from it.
mod cluster;
pub mod directory;
mod membership;
mod split;

pub mod health;
pub mod hosted;
pub mod rescue;

mod counts;
mod ending;
mod rounds;

pub use counts::NodeCounts;
pub use node::{Node, VersionsView};
pub use peers::file as peers_file;
pub use start::StartError;
