//! The words between the bench and its nodes: an order on a line of JSON, an answer on another.

use serde::{Deserialize, Serialize};

use super::callers::Figures;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Submits one command, and waits for its answer.
    Try,
    /// Looks at one row of the state, with all in it that was answered before.
    Read,
    /// Writes these rows, many in each command.
    Fill { from: u64, to: u64 },
    /// Callers begin to submit, each a row in a command. They end by themselves after so many seconds.
    Load { callers: u32, seconds_max: f64 },
    /// Asks for the answers since the last window.
    Window,
    /// The callers end.
    Rest,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Done,
    Counted(Figures),
    /// It was not done, for this reason.
    Failed(String),
}
