//! What can be asked of the map, and why it is refused.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::part::Part;
use crate::span::Span;

/// The most groups of a map.
pub const GROUPS_MAX: usize = 1_024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum Change {
    /// These groups are to have slots, too. All slots are balanced.
    Join {
        groups: Vec<u32>,
    },
    /// This group is to have none. All slots are balanced.
    Leave {
        group: u32,
    },
    /// These slots go to that group, and stay there until the next balance.
    Move {
        spans: Vec<Span>,
        group: u32,
    },
    Balance,
    /// The map of another cluster, of which this one has all keys: first, last, group, since. Only where there is no map.
    Adopt {
        version: u32,
        parts: Vec<Part>,
    },
}

/// Why the map does not change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    #[error("group {0} has not joined: let it join first (logberg kv join)")]
    NotIn(u32),
    #[error("the last group keeps the slots: let another one join first (logberg kv join)")]
    Last,
    #[error("no slots are named: say which, as 0-99 or 5")]
    NoSlots,
    #[error("slot {0} is named twice: name each once")]
    Twice(u16),
    #[error("there is a map already: bring keys back into a cluster without one")]
    Begun,
    #[error(
        "the parts do not have each slot once, or are of a later version: take the map as it was saved"
    )]
    Unsound,
    #[error("a map has at most {GROUPS_MAX} groups: join fewer")]
    TooMany,
    #[error("it is to have slots: move them away first (logberg kv leave)")]
    HasSlots(u32),
    #[error(
        "slots are still on their way, perhaps to this group: wait until none is (logberg kv status)"
    )]
    Moving,
}
