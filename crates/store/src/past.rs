//! The past of a disk, as its node tells it and as others remember it (D5,
//! docs/decisions/0029-a-disks-past-is-remembered-by-others.md).
//!
//! ```text
//!  own directory   starts    ⟨incarnation, nonce⟩ of the last starts            told at each connection
//!                  found     where the last starts found that each log ended   told at each connection
//!                  ends      where each log ended when the node was stopped     compared by the next start
//!                  key       names the disk, signs its starts, seals its ends
//!                  refused   a peer said that this is an old copy               no start any more
//!                  met       of each other node: the last start met, and where   compared with what it tells
//!                            its logs ended at least
//! ```
//!
//! ‡ Nothing that a node says reaches an engine before its last start stands in `met` durably. So a node that
//! counted a promise or an acceptance of a start refuses, also after a start of its own, every directory that
//! lacks that start.

pub mod ends;
pub mod found;
pub mod key;
pub mod met;
pub mod own;
mod page;
pub mod refused;
pub mod starts;

pub use met::{Lacks, Met};
