//! The one place that shares memory with io_uring: requests on buffers that belong to the ring until
//! they are finished.
//!
//! ```text
//! begin(tag, request) ──▶ submission queue ─┐ one system call for all,
//! wait(timeout)       ◀── completion queue ─┘ and for the wait
//! ```
//!
//! The kernel reads and writes a request's memory at any time between its submission and its
//! completion. Safe Rust cannot say so, hence this crate, whose interface is safe by one rule: **a
//! request moves into the ring with everything the kernel may touch, and comes back with its
//! completion.** Nobody else can reach a [`Buffer`](ops::Buffer)
//! meanwhile, and a [`Slice`](ops::Slice) does not change. Cancelling asks for an early completion and frees
//! nothing. A ring that is dropped waits for what is outstanding; where it cannot, it gives the
//! memory up for good.
//!
//! All `unsafe` on memory stands in `slot`; each says which part of the rule it rests on.

mod request;
mod ring;
mod slot;
mod still;

pub use request::{File, Finished, Id, Request};
pub use ring::Ring;
/// Whether a ring, or anybody else, can still write to a file.
pub use still::is_still;
