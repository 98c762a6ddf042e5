//! Stands between a node and its kernel, and changes how the bytes of its peers travel.
//!
//! ```text
//!  node ── Op ──▶ carrier ── Op ──▶ kernel ── clients, disk, peers
//!                   ├ late     what goes to another node waits until it is due; its order is kept
//!                   ├ count    frames and bytes by kind; nothing is moved differently
//!                   ├ slow     all timers of the node take longer
//!                   └ carried  connections between nodes are a way's: another transport in the place of the kernel's
//! ```
//!
//! Everything else is passed on untouched. The node, its batches and its disk are the same as ever, and no proxy copies a byte.
//!
//! | module | what it does |
//! |---|---|
//! | `lag` | how much later: always as much, or drawn |
//! | `link` | one connection to another node: what waits there |
//! | `late` | the machine around the node that holds |
//! | `slow` | the machine around the node whose time goes slower |
//! | `tally` | frames by kind, wherever a send cuts them |
//! | `count` | the machine around the node that counts |
//! | `way` | the contract of a transport |
//! | `inflow` | one connection's bytes on their way in, and the receives that wait for them |
//! | `carried` | the machine around the node whose peers are reached by a way |

#![forbid(unsafe_code)]

mod carried;
mod count;
mod inflow;
mod lag;
mod late;
mod link;
mod slow;
mod tally;
mod way;

pub use carried::Carried;
pub use count::Count;
pub use lag::{LAG_MAX, Lag, NotALag};
pub use late::Late;
pub use slow::Slow;
pub use tally::{Amount, Counts, Reading};
pub use way::{ACCEPTED_FROM, News, Way};
