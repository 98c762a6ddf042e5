//! What `logberg bench` is made of.
//!
//! ```text
//!   append       cluster, floor and machine in turn, load, latency ─┐
//!   paper        its grid of rates and sizes, cell by cell ─────────│
//!   read         load, and readers of the tail and of history ──────│
//!   recover      a long log, all nodes restarted, a node filled ────│
//!   many-logs    idle logs, or active ones with a writer each ──────│
//!   rivals       other people's programs, in turn with us ──────────│
//!   failover     cluster, a fault, the next ack, proxied ───────────┤ one line of JSON, a table,
//!   move         cluster, the leader moved under load ──────────────┤ or a page with plots
//!   auxiliary    cluster, two logs, the active follower killed ─────│
//!   memory       cluster, a paused node, an idle reader ────────────│
//!   catch-up     cluster, a node that was away, acks ───────────────│
//!   reconfigure  cluster, weights that change, acks ────────────────│
//!   elections    cluster and busy cores ────────────────────────────│
//!   machine      the disk, the loopback and memory themselves ──────┘
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
mod raw;

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
pub mod rivals;

pub use floor_cluster::serve_floor;
