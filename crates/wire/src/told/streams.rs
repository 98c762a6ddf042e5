//! The streams of a log, and what a trim left of them.

use serde::{Deserialize, Serialize};

/// One stream of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamInfo {
    /// `owner.incarnation.counter`
    pub name: String,
    #[serde(default)]
    pub label: Option<String>,
    /// Chosen bytes of this stream alone.
    pub length: u64,
    /// Bytes at the front that were trimmed.
    #[serde(default)]
    pub trimmed: u64,
    pub end: StreamEnd,
    #[serde(default)]
    pub continues: Option<Continues>,
    /// The stream that continues this one.
    #[serde(default)]
    pub continued_by: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamEnd {
    /// It may still grow.
    Open,
    /// It ended cleanly.
    Closed,
    /// Its writer vanished or was superseded.
    Cut,
}

/// The place where a stream goes on from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continues {
    pub stream: String,
    pub at: u64,
}

/// The outcome of a trim, done or planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trimmed {
    /// All slots below are forgotten.
    pub before: u64,
    /// Bytes forgotten by this trim.
    pub bytes: u64,
    /// Streams of which nothing is left, not even their names.
    pub streams: u64,
    pub left_bytes: u64,
    /// The position in the log's output at which the rest begins: a read without `stream` can begin there.
    pub left_from: u64,
}
