//! The lines that clients and peers begin with, and what they are answered (docs/wire.md).
//!
//! ```text
//!   logberg/1 verb word… key=value…   ──▶   ok {JSON}
//!                                           error code key=value…: sentence
//! ```
//!
//! Pure: nothing here knows a connection, a log or a clock.

#![forbid(unsafe_code)]

mod answer;
pub mod line;
mod retention;
mod standing;
pub mod welcome;

/// An answer that is JSON.
pub use answer::ok;
/// Requests, and refusals with a sentence.
pub use line::{LINE_BYTES_MAX, LineError, PROTOCOL, Refusal, Request, encode, parse_stream};
/// How much of a log is kept, as people write it.
pub use retention::{BadRetention, Retention};
/// What a node says of itself in a greeting.
pub use standing::{NodeKind, Standing, check_zone};
