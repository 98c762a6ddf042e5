//! Backups of a log: its streams with their names, positions and bytes, or the rows of its machine, in files that know whether they
//! are whole.
//!
//! ```text
//! Client::back_up ─▶ part 1 ─ part 2 ─ part 3 …      each holds what was chosen since the one before
//! Backup::open    ─▶ all parts, checked against each other
//! Client::restore ◀─ every byte checked again
//! ```
//!
//! Only the newest stream of a log grows, so the output of a log is one sequence that only gets longer (and
//! shorter in front, when it is trimmed). A part is an interval of it; the next part begins where it ends.
//! Of a machine each part has all rows, as of one position.
//! docs/backup.md draws the bytes.

mod format;
mod link;
mod listed;
mod restore;
mod rows;
mod set;
mod take;

pub use format::{
    BackupError, FORMAT_VERSION, Header, Identity, MachineKind, Next, PAYLOAD_BYTES_MAX,
    PartReader, PartWriter, Saved, hex,
};
pub use link::LinkError;
pub use restore::{Lost, RestoreError, RestoreOptions, Restored};
pub use set::{Backup, Part, Seen, Stop, Wrong};
pub use take::{TakeError, Taken};
