//! Rows of a machine that are saved, or put back.

use serde::{Deserialize, Serialize};

/// All rows of a machine follow, as of one position of its log's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saving {
    pub position: u64,
    /// The number of the last frame.
    pub frame: u64,
    /// The log's time, in milliseconds since the beginning of 1970.
    pub time_ms: u64,
    /// The number of the next session.
    pub sessions: u64,
}

/// All pages below this one are in the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filled {
    pub next: u64,
}
