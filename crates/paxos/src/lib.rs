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
//! it returns `None` and perform every output in order, before the next input. When
//! [`Engine::deadline`] has passed, the input is [`Input::Timer`]. A log of one node, whose disk is
//! a list and takes no time:
//!
//! ```
//! use logberg_paxos::*;
//!
//! /// Performs what the engine asks for; the real one writes, sends and moves bytes.
//! fn perform(engine: &mut Engine, now: Time, disk: &mut Vec<Persist>) {
//!     loop {
//!         let mut durable = None;
//!         while let Some(output) = engine.poll_output() {
//!             match output {
//!                 Output::Persist { record, what } => {
//!                     disk.push(what);
//!                     durable = Some(record);
//!                 }
//!                 Output::Applied { slot, outcome } => println!("slot {slot}: {outcome:?}"),
//!                 Output::Send { .. } => unreachable!("it is alone"),
//!                 _ => {}
//!             }
//!         }
//!         match durable {
//!             Some(up_to) => engine.handle(now, Input::Durable { up_to }),
//!             None => return,
//!         }
//!     }
//! }
//!
//! let node = NodeId(1);
//! let initial = LogState::new(Configuration::equal([node])?);
//! let recovered = Recovery::new(initial).finish(); // after feeding it the disk's records
//! let config = EngineConfig {
//!     node,
//!     incarnation: 1,
//!     seed: 42,
//!     unchosen_bytes_max: 64 << 20,
//!     timing: Timing::default(),
//!     phase_one: PhaseOne::PerTerm,
//! };
//! let (now, mut disk) = (Time::ZERO, Vec::new());
//! let mut engine = Engine::new(config, recovered, now);
//! perform(&mut engine, now, &mut disk);
//! assert!(matches!(engine.role(), Role::Leader { .. }));
//!
//! let slot = engine.propose(now, Action::GenerateNodeId).expect("it leads");
//! perform(&mut engine, now, &mut disk);
//! assert!(engine.first_unchosen() > slot);
//! assert_eq!(disk.len(), 2); // a promise and an acceptance
//! # Ok::<(), ChangeRefused>(())
//! ```
//!
//! | module | what it decides |
//! |---|---|
//! | `leadership` | who stands, who waits, who yields |
//! | `phase1` | what a new leader must propose again, and which slots are free |
//! | `proposer` | what is proposed in which slot, and who may write bytes where |
//! | `tenure` | when a leader prepares anew, hands over or steps down |
//! | `casting` | how a new era begins without a stall |
//! | `follower` | what this replica promises and accepts |
//! | `learner` | what is chosen, and what to ask others for |
//! | `auxiliary` | when auxiliaries get proposals, and when they may drop bytes |
//! | `stall` | whether one member holds up a log, or something that all have in common |
//! | `reads` | when a read of the leader sees everything chosen before it |
//! | `asking` | the same for a read of a follower: it asks its leader |
//! | `wish` | what the cluster wants of this log, and which acts may take effect for it |
//! | `recovery` | where a replica begins again after a restart |
//! | `rescue` | what a lone survivor goes on with, outside of any agreement |
//! | `safety` | the rules that may never be wrong, as pure functions |
//!
//! Bytes, clocks, sockets, files, hashing in random order are absent, and so is any way to take back a promise.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;

pub mod mutation;

mod slot;
mod term;
mod time;
mod value;
mod wish;

mod configuration;
mod contract;
mod message;
mod state;

mod asking;
mod auxiliary;
mod casting;
mod copies;
mod engine;
mod follower;
mod leadership;
mod learner;
mod phase1;
mod proposer;
mod reads;
mod recovery;
mod rescue;
mod stall;
mod tenure;

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
pub use rescue::OutputPlace;
pub use slot::*;
pub use state::*;
pub use term::*;
pub use time::Time;
pub use value::*;
pub use wish::*;

/// The page of the package is compiled, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
