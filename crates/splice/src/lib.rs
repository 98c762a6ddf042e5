//! Bytes from sockets into files and back, without a copy of them in the process.
//!
//! ```text
//! socket ──splice──▶ pipe ──splice──▶ page cache of a file ──sendfile──▶ sockets
//!                                     │
//!                                     └ mapped, to be read where it is
//! ```
//!
//! A [`Part`] of a file is read as memory. Bytes received into it are the file's and the memory's at once;
//! changes by the process itself are the memory's alone (a private mapping): the file gets them by an
//! ordinary write.

#![allow(unsafe_code)] // one use, which says why it is sound

mod part;
mod pipe;

pub use part::Part;
pub use pipe::{Pipe, TransferError};
