//! Who is a member of which log, and what a change of that comes to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// As the node says that leads the directory; of each log, as its leader says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Members {
    /// That answered.
    pub node: u64,
    /// Counts changes.
    pub version: u64,
    /// What the cluster's logs are written in.
    #[serde(default)]
    pub cluster_version: u64,
    pub nodes: Vec<Node>,
    pub logs: Vec<Log>,
    /// Ids that never come back.
    #[serde(default)]
    pub removed: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub id: u64,
    #[serde(default)]
    pub address: String,
    #[serde(default)]
    pub zone: Option<String>,
    /// full or auxiliary.
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub alive: bool,
    /// It is removed once it has weight nowhere.
    #[serde(default)]
    pub leaving: bool,
    /// That it speaks.
    #[serde(default)]
    pub newest_version: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Log {
    pub id: u64,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub leader: Option<u64>,
    /// Whether who said this leads the log, and knows who holds how much.
    #[serde(default)]
    pub leads: bool,
    #[serde(default)]
    pub era: u64,
    #[serde(default)]
    pub output_bytes: u64,
    #[serde(default)]
    pub members: Vec<Member>,
    /// What is left to do, each a sentence.
    #[serde(default)]
    pub steps: Vec<String>,
    /// Why it is not done yet.
    #[serde(default)]
    pub waits_for: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub node: u64,
    pub weight: u64,
    #[serde(default)]
    pub wanted: u64,
    /// leader, voter, auxiliary, learner or unknown.
    #[serde(default)]
    pub role: String,
    /// Of `output_bytes`, where that is known.
    #[serde(default)]
    pub held_bytes: Option<u64>,
}

/// What comes of a change, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub version: u64,
    pub logs: Vec<PlannedLog>,
    /// Nodes that are removed for ever once they have weight nowhere.
    #[serde(default)]
    pub leaves: Vec<u64>,
    #[serde(default)]
    pub risks: Vec<String>,
    /// All that was asked for is wanted already. Steps may be left to do.
    #[serde(default)]
    pub nothing: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLog {
    pub id: u64,
    pub name: String,
    /// ⟨node, weight⟩
    pub from: BTreeMap<u64, u64>,
    pub to: BTreeMap<u64, u64>,
    pub steps: Vec<String>,
}
