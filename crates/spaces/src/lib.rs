//! Spaces of named streams, beside a node.
//!
//! ```text
//!  door ─ Submit ─▶ Spaces: executed here, where the space's log is led ─────────────────▶ Host, and so the log
//!                     └──── or asked for, by a word between nodes, at the node that leads ──▶ its Spaces
//!  door ─ See ────▶ Host: a look at the rows, on any node, with all that was answered before
//!  applied rows ──▶ Noticed ─▶ whoever waits at the tails of these streams
//! ```
//!
//! It is pure: letters, words and the time go in; ops and answers come out. A kernel drives it, or a simulation.
//!
//! | module | what it holds |
//! |---|---|
//! | `machine` | requests on the rows of a space's log |
//! | `rows` | those rows, as `streams` sees them |
//! | `spaces` | the machine that a kernel drives: requests, here or elsewhere |
//! | `word` | what the spaces of two nodes say to each other |
//! | `noticed` | shelves that tell which tails moved |

#![forbid(unsafe_code)]

mod machine;
mod noticed;
mod rows;
mod spaces;
mod word;

pub use machine::Space;
pub use noticed::{Moved, Noticed};
pub use rows::OfView;
pub use spaces::{Asker, Fate, See, Seen, Spaces, Submit};
