//! A replicated machine of one's own, in a few lines.
//!
//! ```no_run
//! use embed::{Machine, Node, State, Stop};
//!
//! /// Counts by name.
//! struct Counters;
//!
//! impl Machine for Counters {
//!     /// The answer is the new count, as 8 bytes (little-endian).
//!     fn execute(&self, state: &mut State<'_>, name: &[u8]) -> Result<Vec<u8>, Stop> {
//!         let before = state.get(name)?.unwrap_or_else(|| vec![0; 8]);
//!         let before = before.try_into().map_err(|_| Stop::refused("this is no counter"))?;
//!         let count = (u64::from_le_bytes(before) + 1).to_le_bytes();
//!         state.put(name, &count)?;
//!         Ok(count.to_vec())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::open("data")                 // its directory; made if there is none
//!     .listen("10.0.0.1:7117")
//!     .bootstrap(3)                             // the first of three; the others: .join("10.0.0.1:7117")
//!     .machine("counters", Counters)
//!     .start()?;
//! let counters = node.machine("counters");
//! let count = counters.submit(b"visits")?;      // executed where the log is led; on the disks of a majority now
//! let read = counters.read(|rows| rows.get(b"visits"))??;
//! assert_eq!(read, Some(count));
//! # Ok(())
//! # }
//! ```
//!
//! *Where commands are executed.* One node leads a machine's log at a time. [`Handle::submit`] executes there, and answers
//! [`Failure::NotLeader`] elsewhere, with the address of the node that leads: send the command there by whatever your program speaks.
//!
//! *What an answer says.* `Ok`: the command's writes are on the disks of a majority, and no reader sees the state without them any more.
//! [`Failure::NotLeader`] and [`Failure::NotNow`]: it was not executed, and never will be. [`Failure::Unknown`]: nobody can say; a
//! [`Session`] asks again without doing it twice.
//!
//! *Reads.* [`Handle::read`] sees all that was answered anywhere before it was called, on any node. [`Handle::read_stale`] shows what
//! this node has, and asks nobody.
//!
//! *State.* Rows, in the order of their keys, on disk beside the log, on every node: `DIRECTORY/state`. They need not fit into memory.
//! After a kill or a power loss they are what was flushed last, and the log has the rest. The log is trimmed behind states that a
//! majority has durably. A state that was lost or damaged, or that the log does not reach back to any more, is copied from another
//! node; until it is whole that node answers no reads and leads no more than it must.
//!
//! *Backups.* `logberg backup` saves all rows as of one moment from running nodes, and `logberg restore` fills a new machine with them: until the last
//! row is there [`Failure::NotNow`] answers every command and every read. Sessions end there.
//!
//! Each machine has a log of its name, of kind `state`. It is made by itself, and nothing but its machine writes there.

#![forbid(unsafe_code)]

mod handle;
mod running;
mod start;

pub use handle::{Failure, Handle, Session};
pub use host::{Bounds, Machine, Rows, State, Stop, View};
pub use running::Node;
pub use shelf::ShelfError;
pub use start::{Builder, NotStarted};
