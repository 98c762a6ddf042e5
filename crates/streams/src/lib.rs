//! Named streams, by the rules of the Durable Streams Protocol: what a request does to the rows of a space.
//!
//! ```text
//!  Request ─▶ execute ─▶ Answer, rows written          where the space's log is led; one request at a time
//!  place ────▶ read ───▶ bytes, and where they end     on any replica's rows, as of one moment
//! ```
//!
//! A **space** is one ordered map, and all its streams live in it: forks, conditions and producers need nothing else. It is pure: rows, time
//! and requests go in; an answer and writes come out. It knows no HTTP: statuses and headers are the door's.
//!
//! | module | what it holds |
//! |---|---|
//! | `rows`, `keys`, `stored` | the rows of a space, as whoever keeps them lends them; their keys; their values |
//! | `path`, `media`, `offset` | names of streams, types of their bytes, places in them |
//! | `json`, `sse` | messages in a body; events on a connection |
//! | `request` | what is asked of a space, and what it answers |
//! | `execute` | requests: in its folder `create`, `append`, `remove`, `limit` |
//! | `limits` | how much a space may hold, and how much may be asked of it |
//! | `chain` | the bytes of a stream and of those it was forked from |
//! | `read` | reads and lists |

#![forbid(unsafe_code)]

mod chain;
mod execute;
pub mod json;
mod keys;
mod limits;
mod media;
mod offset;
mod path;
mod read;
mod request;
mod rows;
pub mod sse;
mod stored;

pub use chain::CHUNK_BYTES;
pub use execute::{
    FORK_DEPTH_MAX, PRODUCER_KEPT_MS, PRODUCERS_MAX, STREAMS_MAX, STREAMS_USUAL, execute,
};
pub use keys::{rows_behind, stream_of_tail_row};
pub use limits::{BLOCK_BYTES, Change, Limits, LimitsChange, NAMED_MAX, Rates, RatesChange, Usage};
pub use media::MediaType;
pub use offset::{BadOffset, From, Offset, POSITION_MAX};
pub use path::{BadPath, PATH_BYTES_MAX, Path};
pub use read::{
    Failed, Found, Listed, READ_BYTES_MAX, READ_ROWS_MAX, Read, Standing, due, limits, list, read,
    stand, usage,
};
pub use request::{
    Answer, Append, Create, Expected, ForkFrom, Lifetime, Place, Producer, Refusal, Request,
    Retention,
};
pub use rows::{Page, Row, Rows, View};
