//! Replicated machines whose state need not fit into memory, one on each log.
//!
//! ```text
//!  caller ─ command ─▶ executed where the log is led ─ writes, in a frame ─▶ node ─ chosen ─▶ every replica: shelf
//!                                 └──── answer, once the frame is chosen ◀────────┘
//! ```
//!
//! **The log holds writes, not commands.** A command is executed once, by the leader, on rows: what is applied, and what the
//! leader wrote itself since (the overlay). What it came to goes into the log as puts, deletes and forgotten prefixes, and every
//! replica applies them blindly. So no replica can differ by a clock, by chance or by the version of a program, and state
//! is one ordered map: who copies or compares it need not understand it.
//!
//! It is sound because the output of a stream is always an initial part of what was written, and a leader executes only once
//! all that was chosen before its own stream is on its shelf.
//!
//! | module | what it does |
//! |---|---|
//! | `machine`, `state` | a machine of one's own, and the rows that its commands see |
//! | `sessions` | commands that are executed once |
//! | `filling` | an empty state is given the rows of a backup |
//! | `group` | one log's machine and state: leading, looking, keeping, copying, saving |
//! | `piece` | what hosts ask each other: pieces of a state |
//! | `overlay`, `frame`, `intake` | what a leader wrote; how it stands in the log; how it is read from there |
//! | `jobs` | the work that takes time, on lanes |
//! | `host` | the machine that a kernel drives, beside a node |

#![forbid(unsafe_code)]

mod bounds;
mod filling;
mod frame;
mod group;
mod host;
mod intake;
mod jobs;
mod machine;
mod on_disk;
mod overlay;
mod piece;
mod room;
mod sessions;
mod state;

pub use bounds::{Bounds, LARGE_ANSWER_BYTES};
pub use filling::ROW as FILL_ROW;
pub use frame::{Decoder, Frame, NoFrame, WRITES_BYTES_MAX};
pub use group::Group;
pub use group::{COPY_ROW, Caller, Replier};
pub use host::{Ask, Host, HostConfig, What, Word};
pub use jobs::{Look, Shelves};
pub use machine::{Command, Machine, Outcome};
pub use on_disk::OnDisk;
pub use sessions::{ANSWER_BYTES_MAX, SESSIONS_MAX};
pub use state::{RANGE_BYTES_MAX, Rows, State, Stop, View, row_of_machine};
