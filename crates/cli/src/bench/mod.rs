//! What `logberg bench` is made of.
//!
//! ```text
//!   append     cluster and floor in turn ── load ── latency ──┐
//! ```
//!
//! Every bench makes its own directory, starts its own processes, says how far it is if somebody
//! watches, ends by itself and leaves nothing behind, also when it is interrupted. A figure without
//! its circumstances is worth little, so each report names the machine.

mod environment;
mod process;
mod scratch;
mod watch;

mod batches;
mod content;
mod latency;
mod load;

mod floor;
mod floor_cluster;
mod level;

pub mod append;

pub use floor_cluster::serve_floor;
