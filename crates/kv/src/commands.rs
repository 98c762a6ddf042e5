//! The commands, by the type of their values.

pub(crate) mod about;
mod deadline;
pub(crate) mod hash;
pub(crate) mod keyspace;
pub(crate) mod list;
pub(crate) mod once;
pub(crate) mod scan;
pub(crate) mod set;
pub(crate) mod sort;
pub(crate) mod string;
pub(crate) mod zset;

pub use once::{SESSIONS_MAX, UNUSED_MS};
pub use scan::{SCANNED_SLOTS_MAX, scans_from};

/// The reply of a command, or the reason why there is none.
pub(crate) type Done = Result<resp::Value, crate::fail::Fail>;
