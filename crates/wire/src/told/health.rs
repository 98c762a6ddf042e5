//! The health of a cluster, as a node sees it and hears of it from the others.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub state: State,
    /// The worst first.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

/// The sum of all warnings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing is wrong. This is also the state of a node that knows nothing of health.
    #[default]
    Healthy,
    /// All is served, and something is wrong or was a moment ago.
    AtRisk,
    /// Appends to a log are refused while all is read.
    Degraded,
    /// Something is not served at all. A state that this program does not know counts as this one.
    #[serde(other)]
    Unavailable,
}

/// docs/operations.md has a section for each code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Warning {
    pub code: String,
    /// The state in which it puts the whole.
    pub state: State,
    /// It is so now; else it was so within the last ten seconds.
    pub active: bool,
    pub for_ms: u64,
    /// The node whose word it is.
    pub by: u64,
    pub node: Option<u64>,
    /// The other one of a pair.
    pub with: Option<u64>,
    /// The first log that it concerns, and how many there are.
    pub log: Option<String>,
    pub logs: u64,
    /// Bytes, microseconds or a count, as the code has it.
    pub amount: u64,
    /// A sentence that says what is wrong.
    pub sentence: String,
    /// A sentence that says what helps.
    pub remedy: String,
}
