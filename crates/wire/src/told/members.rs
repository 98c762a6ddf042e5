//! The members of each log, and the outcome of a change of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The members, as the directory's leader says; of each log, as its leader says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Members {
    /// The node that answered.
    pub node: u64,
    /// Counts changes.
    pub version: u64,
    /// The version in which the cluster's logs are written.
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
    /// The node is removed once it has weight nowhere.
    #[serde(default)]
    pub leaving: bool,
    /// The newest version that it speaks.
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
    /// Whether the speaker leads the log, and knows who holds how much.
    #[serde(default)]
    pub leads: bool,
    #[serde(default)]
    pub era: u64,
    #[serde(default)]
    pub output_bytes: u64,
    #[serde(default)]
    pub members: Vec<Member>,
    /// The steps that are left to do, each a sentence.
    #[serde(default)]
    pub steps: Vec<String>,
    /// The reason why the change is not done yet.
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
    /// The part of `output_bytes` that it holds, where that is known.
    #[serde(default)]
    pub held_bytes: Option<u64>,
}

/// The outcome of a change, done or planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub version: u64,
    pub logs: Vec<PlannedLog>,
    /// Nodes that are removed for ever once they have weight nowhere.
    #[serde(default)]
    pub leaves: Vec<u64>,
    #[serde(default)]
    pub risks: Vec<String>,
    /// The whole request is wanted already. Steps may be left to do.
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
