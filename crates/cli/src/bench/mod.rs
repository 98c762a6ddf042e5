//! What `logberg bench` is made of.
//!
//! ```text
//!   append     cluster and floor in turn ── load ── latency ──┐
//!   failover   cluster, a fault, the next ack ── proxied ─────┤   report, one line of JSON
//!   move       cluster, the leader moved under load ──────────┤
//!   auxiliary  cluster, two logs, the active follower killed ─┤
//!   memory     cluster, a paused node, an idle reader ────────┤   or a short table
//!   catch-up   cluster, a node that was away, acks ───────┤
//!   many-logs  cluster, idle logs, a start of all nodes ────┤
//!   reconfigure  cluster, weights that change, acks ───────────┤
//!   elections  cluster and busy cores ────────────────────────┤
//!   machine    the disk, the loopback and memory themselves ──┘
//! ```
//!
//! Every bench makes its own directory, starts its own processes, says how far it is if somebody
//! watches, ends by itself and leaves nothing behind, also when it is interrupted. A figure without
//! its circumstances is worth little, so each report names the machine.

mod disk;
pub mod environment;
mod process;
mod report;
mod roles;
pub mod scratch;
pub mod watch;

mod batches;
mod bed;
mod content;
mod figures;
mod history;
mod latency;
mod limits;
mod load;
mod measure;
mod pace;

mod floor;
mod floor_cluster;
pub mod level;
mod proxied;
#[allow(dead_code, reason = "its tests use all of it")]
pub mod proxy;

pub mod append;
pub mod auxiliary;
pub mod catch_up;
pub mod elections;
pub mod failover;
pub mod machine;
pub mod many_logs;
pub mod memory;
pub mod moves;
pub mod paper;
pub mod read;
pub mod reconfigure;
pub mod recover;

pub use floor_cluster::serve_floor;
