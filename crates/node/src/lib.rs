//! Decides which bytes move next.
//!
//! ```text
//! client ─ listen ─ ingest ─┬─ own segment ─ durable ─┐
//!                           └─ replicate ⇄ follow ────┴─ accepted ─ paxos ─ chosen ─┬─ acknowledge
//!                                                                                    └─ read / apply
//! ```
//!
//! A node is a state machine around the engines of its logs: [`op::Completion`]s go in,
//! [`op::Op`]s come out. It makes no system call, reads no clock and draws no randomness, so that a
//! simulated kernel can stand in for the real one, and many nodes live in one process.

#![forbid(unsafe_code)]

pub mod buffer;
pub mod format;
mod ids;
pub mod op;
pub mod store;

pub use ids::*;
