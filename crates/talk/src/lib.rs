//! The client of a Logberg cluster as a machine: it decides what to say to whom, and performs nothing.
//!
//! ```text
//!                 handle(now, known, Connected | Received | Lost | Time)
//!   caller ───────────────────────────────────────────────────────────────► Appender, Reader, Asker
//!          ◄───────────────────────────────────────────────────────────────
//!                 poll_output: Connect | Send | Close      deadline: call me then
//! ```
//!
//! The caller owns sockets and the clock. After each `handle` it does what `poll_output` says until that is
//! nothing, and calls again when something happened or the deadline has come; time is counted from whenever
//! the caller likes, and never goes back. `examples/tokio.rs` is such a caller in some fifty lines; the crate
//! `client` is another, on threads; the simulator is a third.
//!
//! - [`Appender`] keeps written bytes in a ring until they are acknowledged, finds the leader, and continues the
//!   chain of streams wherever it has to. The caller moves bytes from the ring to the connection without a copy.
//! - [`Reader`] hands out bytes whose checksum it verified, each once and in order.
//! - [`Asker`] asks one question until somebody answers; [`Learner`] asks one server who else there is.
//! - [`Known`] is what they learned of the cluster. It is lent to each of them.
//!
//! Bounds: an appender holds its ring, a reader one chunk of at most 16 MiB and the next one while it arrives,
//! each connection one line; an answer in JSON is at most 64 MiB.

#![forbid(unsafe_code)]

mod append;
mod ask;
mod known;
mod links;
mod lookout;
mod owed;
mod question;
mod read;
mod ring;
mod said;
mod search;
mod seek;

pub use append::{AppendError, AppendOptions, Appender, COALESCE_BYTES, Closed, Statistics};
pub use ask::{Asked, Asker, NoAnswer};
pub use known::Known;
pub use links::{Input, Link, Output};
pub use question::Learner;
pub use read::{ReadError, ReadOptions, Reader};
pub use ring::{CHUNK_BYTES, Lent, Ring};
pub use said::{Said, Timeouts, Unreachable};
