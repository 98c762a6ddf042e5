//! The progress of a log's scrubs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The progress of one node's scrubs of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrubView {
    pub log: String,
    /// The node that answers.
    pub node: u64,
    /// Whether it leads the log: passes are led by the leader.
    pub leads: bool,
    /// The pass under way.
    pub pass: Option<ScrubReport>,
    /// The pass that ended last.
    pub last: Option<ScrubReport>,
    #[serde(default)]
    pub differences: Vec<ScrubDifference>,
    /// Damaged records on that node's own disk, found by scrubs since it started.
    #[serde(default)]
    pub found_here: u64,
    #[serde(default)]
    pub repaired_here: u64,
    /// The rate of passes that begin by themselves, in bytes a second; 0: there are none.
    #[serde(default)]
    pub background_rate: u64,
}

/// One pass over a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Counts the passes that this leader began.
    pub number: u64,
    #[serde(default)]
    pub asked: bool,
    #[serde(default)]
    pub rate: u64,
    pub of_bytes: u64,
    pub bytes: u64,
    /// Bytes with the same digest on two replicas or more.
    #[serde(default)]
    pub compared_bytes: u64,
    /// Pieces that could not be read on a replica, or had a wrong checksum there.
    #[serde(default)]
    pub damaged: u64,
    /// The damaged pieces that are sound again.
    #[serde(default)]
    pub repaired: u64,
    /// The damaged pieces that were trimmed before.
    #[serde(default)]
    pub trimmed: u64,
    /// Pieces that are sound on all replicas, and not the same.
    #[serde(default)]
    pub different: u64,
    /// Bytes not compared with all replicas: some did not hold them, or did not answer.
    #[serde(default)]
    pub unchecked_bytes: u64,
    /// Bytes that no member holds any more.
    #[serde(default)]
    pub lost_bytes: u64,
    #[serde(default)]
    pub took_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms_ago: Option<u64>,
}

/// Replicas hold different bytes, and every checksum is right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubDifference {
    pub stream: String,
    pub from: u64,
    pub to: u64,
    /// The digest of the bytes, by node.
    pub digests: BTreeMap<u64, String>,
}

impl ScrubReport {
    /// The damaged pieces that are not whole again.
    pub fn unrepaired(&self) -> u64 {
        self.damaged.saturating_sub(self.repaired + self.trimmed)
    }

    pub fn is_sound(&self) -> bool {
        self.unrepaired() == 0 && self.different == 0 && self.lost_bytes == 0
    }
}
