//! Which group of keys is to serve which of the 16,384 slots, and which one does.
//!
//! ```text
//!  Join, Leave, Move, Balance ─▶ wanted (version n) ─ groups hand slots over ─▶ served
//! ```
//!
//! A group is the number of its log. All of it is pure, and a part of log 0: whoever applies the same changes comes to the same map, and a change that
//! changes nothing makes no version, so it may be asked for again.
//!
//! | module | what it does |
//! |---|---|
//! | `span` | slots beside each other |
//! | `part` | slots, whose they are, and since when |
//! | `map` | what is wanted, and what is so |
//! | `change` | what can be asked for, and why it is refused |
//! | `balance` | evenly, with the fewest moves |
//! | `past` | what was wanted before |

#![forbid(unsafe_code)]

mod balance;
mod change;
mod map;
mod part;
mod past;
mod span;

pub use balance::balanced;
pub use change::{Change, GROUPS_MAX, Refused};
pub use map::{Map, Moving};
pub use part::{Part, Whose, spread};
pub use span::{NoSpan, SLOTS, Span};
