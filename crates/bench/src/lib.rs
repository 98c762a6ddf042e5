//! The parts that benches are made of, and the four that are shipped with `logberg bench`. Those of
//! `logberg-lab bench`
//! stand in `lab`, on the same instruments.
//!
//! ```text
//!   append       cluster, floor and machine in turn, load, latency ─┐
//!   read         load, and readers of the tail and of history ──────┤ one line of JSON, a table,
//!   failover     cluster, a fault, the next ack, proxied ───────────┤ or a page with plots
//!   machine      the disk, the loopback and memory themselves ──────┘
//! ```
//!
//! Every bench makes its own directory, starts its own processes, says how far it is if somebody
//! watches, ends by itself and leaves nothing behind, also when it is interrupted. A figure without
//! its circumstances is worth little, so each report names the machine.

pub mod disk;
pub mod report;
pub mod roles;

pub mod batches;
pub mod bed;
pub mod certificates;
pub mod content;
pub mod figures;
pub mod history;
pub mod latency;
pub mod limits;
pub mod load;
pub mod measure;
mod pace;
pub mod promise;
pub mod raw;

mod floor;
pub mod floor_cluster;
pub mod proxied;

pub mod append;
pub mod failover;
pub mod machine;
pub mod read;
