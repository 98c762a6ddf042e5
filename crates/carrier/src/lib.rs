//! Stands between a node and its kernel, and changes how the bytes of its peers travel.
//!
//! ```text
//!  node ── Op ──▶ carrier ── Op ──▶ kernel ── clients, disk, peers
//!                   └ late: what goes to another node waits until it is due; its order is kept
//! ```
//!
//! Everything else is passed on untouched. The node, its batches and its disk are the same as ever, and no proxy copies a byte.
//!
//! | module | what it does |
//! |---|---|
//! | `lag` | how much later: always as much, or drawn |
//! | `link` | one connection to another node: what waits there |
//! | `late` | the machine around the node |

#![forbid(unsafe_code)]

mod lag;
mod late;
mod link;

pub use lag::{LAG_MAX, Lag, NotALag};
pub use late::Late;
