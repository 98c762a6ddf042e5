//! The boundary between what decides and what performs: operations go out, completions come in.
//!
//! ```text
//!   node ─ Op ─▶ linux, sim ─ Completion ─▶ node
//! ```
//!
//! A [`Machine`] hands out [`Op`]s and is handed [`Completion`]s; a kernel, real or simulated, performs
//! the ops. Bytes cross in [`Buffer`]s and [`Slice`]s. Nothing here decides and nothing performs: the crates
//! that decide and those that perform depend on this crate, and not on each other.

#![forbid(unsafe_code)]

mod buffer;
mod landing;
mod letter;
mod op;

/// A moment of a monotonic clock, in microseconds.
pub use paxos::Time;

/// The memory that crosses the boundary: filled by one, read by many.
pub use buffer::{Buffer, Pool, Shared, Slice};
/// Memory that is a part of a file, which a kernel may offer.
pub use landing::{Landed, Landing, Place, Reservation};
/// Letters between the machines of one process, and work for other threads.
pub use letter::{Lane, Letter, MachineId, Work};
/// The machine that a kernel drives.
pub use op::Machine;
/// The operations, their completions, and the numbers that name things.
pub use op::{
    BLOCK, ClientCertificate, Completion, ConnId, FileId, LENT_BYTES_MAX, Op, OpenMode, Received,
    Token,
};
/// The disk at a start and in offline checks, without a machine.
pub use op::{COPY_BYTES, DirectoryEntry, Disk};
