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

mod configuration;
mod engine;
mod message;
mod slot;
mod state;
mod term;
mod value;

pub use configuration::*;
pub use engine::*;
pub use message::*;
pub use slot::*;
pub use state::*;
pub use term::*;
pub use value::*;
