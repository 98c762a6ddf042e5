//! The lines that clients and peers begin with, and what they are answered (docs/wire.md): the one place
//! where they are declared. Nodes, clients, the simulator and the floor of the benchmarks read and write them
//! by what stands here.
//!
//! ```text
//!   logberg/1 verb word… key=value…   ──▶   word… key=value…
//!          Request, Ask                     ok {JSON}
//!                                           error code key=value…: sentence
//!                                                  Answer, Refusal
//! ```
//!
//! Pure: nothing here knows a connection, a log or a clock.

#![forbid(unsafe_code)]

mod answer;
pub mod ask;
pub mod auth;
pub mod change;
pub mod change_slots;
pub mod line;
mod names;
pub mod quantity;
mod refusal;
mod request;
mod retention;
mod standing;
pub mod told;
mod verb;
pub mod welcome;

/// A node's answers, line by line.
pub use answer::{Answer, ReadEnd, ok};
/// A client's requests.
pub use formats::LogKind;
/// Pages of rows.
pub use formats::rows;

pub use ask::{Ask, BackupId, ConnectionEnd, Format, Mode, NodeIds};
/// The line without its meaning.
pub use line::{LINE_BYTES_MAX, LONG_LINE_BYTES_MAX, LineError, PROTOCOL, encode, line_bytes_max};
/// Streams, and places in them.
pub use names::{
    Before, NoPlace, NoStreamName, NoStreamPlace, StreamName, StreamPlace, parse_place,
    parse_stream,
};
/// `error` lines.
pub use refusal::{Code, Refusal};
/// A request as a node takes it apart.
pub use request::Request;
/// The bounds of a log's retention, as people write them.
pub use retention::{BadRetention, Retention};
/// A node's statements about itself in a greeting.
pub use standing::{NodeKind, Standing, check_zone};
/// The first word of a request line.
pub use verb::Verb;
