//! The protocols of Redis' clients, RESP 2 and RESP 3, both ways.
//!
//! ```text
//!  bytes received ─ Parser ─▶ Request: its arguments, where they lie in those bytes
//!  Value ─ encode ─▶ bytes to be sent, in the protocol that the connection speaks
//!  bytes received ─ Decoder ─▶ Value, for clients of our own
//! ```
//!
//! **A request is flat**: an array of bulks, or a line. A parser keeps its place between two calls, reads no byte twice but those of a
//! line that has no end yet, and copies none but those of a quoted word. ‡ It reserves nothing because a length claims it, and does
//! not call itself: what a stranger sends costs no more than its own bytes and one range for each argument that has come.
//!
//! ```
//! use resp::{Found, Limits, Parser};
//!
//! let mut received: Vec<u8> = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n*1".to_vec();
//! let mut parser = Parser::new(Limits::default());
//! let mut seen = Vec::new();
//! loop {
//!     let length = match parser.next(&received)? {
//!         Found::Request(request) => {
//!             seen.push(request.arguments().map(<[u8]>::to_vec).collect::<Vec<_>>());
//!             request.length()
//!         }
//!         Found::Nothing { length } | Found::Dropped { length } | Found::TooLong { length } => length,
//!         Found::More => break,
//!     };
//!     received.drain(..length);
//! }
//! assert_eq!(seen, [vec![b"GET".to_vec(), b"a".to_vec()], vec![b"PING".to_vec()]]);
//! # Ok::<(), resp::Wrong>(())
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `request`, `inline` | requests: arrays of bulks, and lines with quoted words |
//! | `wrong` | what is wrong with bytes, in Redis' words |
//! | `value`, `encode` | replies, and how they are written in each protocol |
//! | `decode` | replies, as our own clients read them |
//! | `number` | numbers as text, as Redis reads and writes them |

#![forbid(unsafe_code)]

mod decode;
mod encode;
mod inline;
mod number;
mod request;
mod value;
mod wrong;

pub use decode::{DEPTH_MAX, Decoder, NoReply};
pub use encode::{Protocol, encode};
pub use number::{double_text, integer_of};
pub use request::{Found, Limits, Parser, Request};
pub use value::Value;
pub use wrong::Wrong;
