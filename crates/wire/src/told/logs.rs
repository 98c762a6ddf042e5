//! The logs of a cluster, as its directory has them.

use serde::{Deserialize, Serialize};

use super::status::Weight;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogInfo {
    pub id: u64,
    pub name: String,
    /// The retention, such as `10GiB,7d`; or `forever`.
    #[serde(default = "forever")]
    pub retention: String,
    /// Its deletion is agreed. Its name is free once the log itself has agreed to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
}

fn forever() -> String {
    "forever".to_owned()
}

/// A log, and its settings from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    pub name: String,
    pub retention: String,
    /// The number of full members that hold what is acknowledged; 0 if a majority decides.
    #[serde(default)]
    pub min_copies: u32,
}

/// The directory's entry of one log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogDetails {
    pub id: u64,
    pub name: String,
    /// `bytes`: the bytes are its writers' own; `state`: the writes of a machine, and no client appends.
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub members: Vec<Weight>,
    #[serde(default)]
    pub on_all_nodes: bool,
    #[serde(default = "forever")]
    pub retention: String,
    /// The number of full members that hold what is acknowledged; 0 if a majority decides.
    #[serde(default)]
    pub min_copies: u32,
}

/// A log that is no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedLog {
    /// `None` if an earlier attempt, whose answer was lost, deleted it.
    pub id: Option<u64>,
    pub name: String,
}
