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
//!   instructions engine, formats and nodes, under valgrind ─────────│
//!   machine      the disk, the loopback and memory themselves ──────┘
//! ```
//!
//! Every bench makes its own directory, starts its own processes, says how far it is if somebody
//! watches, ends by itself and leaves nothing behind, also when it is interrupted. A figure without
//! its circumstances is worth little, so each report names the machine.

mod arguments;

mod disk;
mod report;
mod roles;

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
mod proxied;

mod append;
mod auxiliary;
mod catch_up;
mod elections;
mod failover;
mod instructions;
pub mod machine;
mod many_logs;
mod memory;
mod moves;
mod paper;
mod read;
mod reconfigure;
mod recover;
mod rivals;

use floor_cluster::serve_floor;

pub use arguments::{Arguments, HELP};
