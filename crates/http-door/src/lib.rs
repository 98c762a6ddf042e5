//! The HTTP door: named streams, by the Durable Streams Protocol, and raw logs, for whoever speaks HTTP.
//!
//! ```text
//!  client ─▶ listen: a connection ─▶ serve: guard, route        ─┬─ write: PUT, POST, DELETE ─▶ space ─ Submit ─▶ Spaces
//!                                                                 ├─ read: GET, HEAD ─────────▶ space ─ See ────▶ rows, on this node
//!                                                                 ├─ events: GET, live ◀─ tails ◀─ rows were applied
//!                                                                 └─ log: /v1/log/NAME ═ Logs ═ the raw pipe, to whichever node it takes
//! ```
//!
//! It runs on threads of its own, and knows no terms and no slots: letters go to the [`Spaces`](spaces::Spaces) of its node, and closures come back.
//! Reads are answered on the node that was asked, with all that was answered anywhere before; writes are executed where the space is led.
//!
//! | module | what it does |
//! |---|---|
//! | `listen`, `stuck`, `bounds` | connections, and how much of everything there may be |
//! | `serve`, `route`, `name`, `guard` | a request: what it asks for, what its asker needs, where it comes from |
//! | `quota`, `limits` | how much may be asked for each second; what the space may hold, told and changed |
//! | `rights` | tokens: who asks, and whether he may |
//! | `headers`, `query`, `cursor` | the protocol's words |
//! | `write`, `read`, `list`, `whole`, `range`, `events` | the answers |
//! | `crowd`, `flow` | a crowd that reads the same events; answers that come piece by piece |
//! | `log` | raw logs: `contract` is what the door asks for, and `write`, `read`, `live` its answers |
//! | `fault`, `body` | errors; bytes that are there, or come |
//! | `openapi` | what may be asked for, described for programs |
//! | `space`, `tails` | a space; whoever waits at the tails of its streams |

#![forbid(unsafe_code)]

mod answers;
mod body;
mod bounds;
mod crowd;
mod cursor;
mod events;
mod fault;
mod flow;
mod guard;
mod headers;
mod limits;
mod list;
mod listen;
pub mod log;
#[cfg(test)]
mod malformed;
mod name;
mod openapi;
mod query;
mod quota;
mod range;
mod read;
mod rights;
mod route;
mod secure;
mod serve;
mod space;
mod stuck;
mod tails;
mod whole;
mod write;

pub use bounds::Bounds;
pub use guard::{Foreign, Words, name_of};
pub use listen::{Config, Running, start};
pub use name::SPACE;
pub use route::Route;
pub use secure::Tls;
pub use space::{Handle, Space, Spaces};
pub use tails::Tails;
pub use write::BODY_BYTES_MAX;
