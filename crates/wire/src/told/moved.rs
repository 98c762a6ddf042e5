//! The outcome of moving a leader.

use serde::{Deserialize, Serialize};

/// The outcome of a move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    pub log: String,
    pub from: u64,
    pub to: u64,
    pub term: String,
    /// The time for which nothing could be proposed, as the old leader saw it. Unknown if its answer was lost.
    #[serde(default)]
    pub pause_ms: Option<f64>,
}
