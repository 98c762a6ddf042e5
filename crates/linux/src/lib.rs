//! Performs the node's [`Op`](ops::Op)s with the Linux kernel. It knows no terms, slots or
//! streams.
//!
//! ```text
//!            submit(op)                                  wait(deadline) -> completions
//!                │                                                ▲
//!  ┌─────────────▼────────────────── one thread ─────────────────┴──────────────┐
//!  │ network: connections, listeners      files: what is open, what waits        │
//!  │   recv/sendmsg tried at once,          │               ▲                    │
//!  │   parked until epoll says so           │               │ inbox (eventfd)    │
//!  └────────────────────────────────────────┼───────────────┼────────────────────┘
//!                 writers (one file, one thread) · reader · names · removals · lookups
//! ```
//!
//! So the *direct* mover. With *uring* the loop waits in io_uring instead, which has the receives and
//! sends of open connections and the durable writes of files on a disk; it watches epoll's descriptor
//! for the rest. No mover holds a buffer for a receive that brought none before there is something to receive: one is lent
//! then. [`Mover`] says what is asked for, [`Kernel::mover`] what this machine allowed, and
//! [`Ink`] where files are.
//!
//! [`Kernel::run`] is the loop of [`ops::Machine`]; [`Kernel::submit`] and [`Kernel::wait`] are
//! its pieces:
//!
//! ```
//! use linux::{Kernel, KernelConfig};
//! use ops::{Completion, Op, Token};
//!
//! let mut kernel = Kernel::new(KernelConfig { signals: false, ..KernelConfig::default() })?;
//! kernel.submit(Op::FreeSpace { token: Token(1), path: "/".into() });
//! let mut completions = Vec::new();
//! while completions.is_empty() {
//!     kernel.wait(None, &mut completions)?;
//! }
//! assert!(matches!(completions[0], Completion::Space { token: Token(1), result: Ok(_) }));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Absent here: process globals (but for signal handlers, when asked for), unbounded work for one
//! connection in a round, retries of a failed write, and `unsafe`.

#![forbid(unsafe_code)]

mod config;
mod kernel;
mod landing;
mod mover;
mod tag;

mod connection;
mod epoll;
mod handed;
mod lender;
mod listener;
mod network;
mod resolver;
mod room;
mod unix_socket;

mod directory;
mod disk;
mod disk_file;
mod disk_ring;
mod disk_thread;
mod fault_file;
mod files;
mod growth;
mod ink;
mod ink_file;
mod leftover;
mod medium;
mod paged_file;
mod removal;

mod clock;
mod errors;
mod inbox;
mod lanes;
mod limits;
mod post_office;
mod process;
mod signals;

pub use clock::now;
pub use config::{Faults, KernelConfig};
pub use directory::disk_bytes;
pub use disk::LinuxDisk;
pub use handed::{Dial, FarEnd, Giver, Handed, Seal};
pub use ink::Ink;
pub use kernel::{Kernel, Stopper};
pub use mover::Mover;
pub use post_office::PostOffice;
pub use process::{die_with_parent, raise_file_limit};
pub use signals::hangups;
pub use unix_socket::{UNIX, UnixAddress};
