//! The Redis door of a node: clients' connections, and the groups whose slots it serves.
//!
//! ```text
//!  client ─▶ Client: bytes to requests ─▶ Door: answers itself │ finds the group ─▶ Host: executes at its leader (Slots, kv)
//!     ▲                                                                                 │
//!     └──── replies in the order of the requests ◀──── once chosen, or a redirect ◀─────┘
//! ```
//!
//! A door and its host are one machine, on a thread of their own. A command waits in the host while nobody leads its group, up to 1.8 s: a client
//! of an election notices a delay, and no error.
//!
//! ‡ No reply invites a client to do twice what was done. What was not executed is answered with MOVED or CLUSTERDOWN. Where nobody can say, the
//! connection ends without a word.
//!
//! | module | what it does |
//! |---|---|
//! | `door` | the machine: connections; in its folder what becomes of a request: `taking`, `transactions`, `asking`, `preparing`, `counting` |
//! | `client` | one connection: what came, in which order it is answered |
//! | `answers` | what the door says itself: CLUSTER, HELLO, INFO |
//! | `groups` | which slots each group serves, and who leads it |
//! | `askers` | who has asked just now: whoever is alone has a longer way ahead of him |
//! | `large` | values that go ahead of their command, in pieces |
//! | `spread` | commands without a key, on all groups that are led here |
//! | `slots` | the groups' machine: commands on the rows of slots, and how these are handed over |
//! | `moving` | slots on their way: which group copies what from which, and the words between them |
//! | `order` | what a door asks of that machine, as bytes |
//! | `counts`, `unanswered`, `slow` | figures for /metrics and INFO; how long requests take; the slow log |
//! | `watched`, `rows` | WATCH; a machine's rows as `kv` sees them |

#![forbid(unsafe_code)]

mod answers;
mod arrived;
mod askers;
mod bounds;
mod claims;
mod client;
mod counts;
mod door;
mod groups;
mod guard;
mod large;
mod moving;
mod order;
mod pressed;
mod rooms;
mod rows;
mod slots;
mod slow;
mod spread;
mod unanswered;
mod watched;

pub use bounds::Bounds;
pub use client::{BULK_BYTES_MAX, UnderWay};
pub use door::{Door, DoorConfig, System};
pub use large::{Ahead, VALUE_BYTES_MAX};
pub use slots::Slots;

/// The steps of a group's machine by which slots are handed over, for whoever looks at them from outside.
pub mod handover {
    pub use crate::moving::words::{Change, Piece, Row, Span, Step, Told};
    pub use crate::slots::handover::take;
}
