//! A kernel with faults: disk, network and clock for machines, in one thread and from one seed.
//!
//! ```text
//!   seed ── Random ──┬── Clockwork: what happens next ──┐
//!   Nemesis ─────────┤                                  ├── World ── after_step: checks
//!                    ├── SimDisk, one per host ─────────┤              trace hash
//!                    └── Network, between all of them ──┘
//!                            ▲ Op        Completion ▼
//!                      Machine: a node, a client, anything
//! ```
//!
//! The machines are the ones that run in production; only what performs their [`ops::Op`]s is
//! different. Everything that happens is an event in one queue, so the same seed gives the same
//! run, and [`World::trace_hash`] says so.
//!
//! ```
//! # use std::time::Duration; use ops::*; use sim::*;
//! # struct Quiet; impl Machine for Quiet {
//! #     fn handle(&mut self, _: Time, _: Completion) {} fn on_time(&mut self, _: Time) {}
//! #     fn poll_op(&mut self) -> Option<Op> { None } fn deadline(&self) -> Option<Time> { None }
//! #     fn is_finished(&self) -> bool { true } }
//! let mut world = World::new(7);
//! let host = world.add_host("a");
//! world.start(host, |_disk, _now| Ok(Box::new(Quiet))).unwrap();
//! assert_eq!(world.run_for(Duration::from_secs(1), 10_000), Outcome::Idle);
//! ```

#![forbid(unsafe_code)]

mod world;

mod clockwork;
mod host;
mod household;
mod random;
mod trace;

mod disk;
mod landing;
mod media;
mod startup;

mod handshake;
mod net;
mod stream;
mod traffic;

mod faults;
mod nemesis;
mod swarm;

mod audit;
pub mod client;
#[cfg(feature = "mutations")]
pub mod mutations;
pub mod scenario;
mod upgrade;
mod witness;
pub mod workload;

pub use audit::Audited;
pub use disk::{DiskCopy, DiskFaults, DiskModel, SimDisk};
pub use host::{HostId, Process, Start, Status};
pub use media::TornBlocks;
pub use net::{Network, NetworkModel};
pub use random::{PerMillion, Random};
pub use scenario::{BatchTerms, Cluster, Failure, Scenario, each_seed};
pub use swarm::{Act, Swarm};
pub use trace::Trace;
pub use upgrade::Upgrade;
pub use world::{Limits, Outcome, World};
