//! Decides which bytes are chosen.
//!
//! ```text
//!                 handle(now, Input)
//!   messages ──────────────┐            ┌──────── Output::Persist   one durable record
//!   durable records ───────┤   Engine   ├──────── Output::Send      a message, after a record
//!   bytes written ─────────┤ (one log,  ├──────── Output::Replicate a proposal without bytes
//!   peers alive or silent ─┤  one node) ├──────── Output::Permit    which slots may be filled
//!   the passage of time ───┘            └──────── Output::Chosen    how far everything is agreed
//! ```
//!
//! The engine is UPaxos (Turner 2016): Paxos whose pipeline is unbounded, also across
//! reconfigurations. It is a pure state machine. It never sees a byte of client data, a clock, a
//! socket or a file, and it draws no randomness: the passage of time and a seed are inputs.
//!
//! The contract: call [`Engine::handle`] with one input, then call [`Engine::poll_output`] until
//! it returns `None` and perform every output in order, before the next input.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod slot;
mod term;
mod value;

mod configuration;
mod contract;
mod message;
mod state;

mod engine;
mod follower;
mod leadership;
mod learner;
mod proposer;
mod reads;
mod recovery;

mod acceptor;
mod peers;
mod random;
mod runs;
mod safety;

pub use configuration::*;
pub use contract::*;
pub use engine::Engine;
pub use message::*;
pub use recovery::{Recovery, RecoveryError};
pub use slot::*;
pub use state::*;
pub use term::*;
pub use value::*;
