//! Which group of keys serves which slots.

use serde::{Deserialize, Serialize};

/// The answer to `slots`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsTold {
    /// Counts changes of the map; 0: no group ever joined.
    pub version: u32,
    pub groups: Vec<SlotsGroup>,
    /// All slots, and the groups that are to serve them.
    pub wanted: Vec<SlotsPart>,
    /// The slots that groups said they serve.
    pub served: Vec<SlotsPart>,
    /// What is on its way.
    pub moving: Vec<SlotsMove>,
    /// The same, by the version of the map that sent slots to a group.
    pub under_way: Vec<SlotsUnderWay>,
    /// The versions that can be asked for: the first ones, and the last.
    pub first_version: u32,
    pub last_version: u32,
}

/// A group of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsGroup {
    /// The id of its log. Maps that were saved with keys by earlier programs call it `log`.
    #[serde(alias = "log")]
    pub id: u64,
    pub name: String,
    /// Whether it is to have slots.
    pub joined: bool,
    /// How many slots it is to have, and serves.
    pub wanted: u32,
    pub served: u32,
}

/// Slots from the first to the last, both among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsRun {
    pub first: u16,
    pub last: u16,
}

/// Slots from the first to the last, both among them, and whose they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsPart {
    pub first: u16,
    pub last: u16,
    pub group: String,
    /// The version of the map that gave them to it.
    pub since: u32,
}

/// Slots on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsMove {
    pub first: u16,
    pub last: u16,
    /// `null`: nobody serves them yet.
    pub from: Option<String>,
    pub to: String,
}

/// Slots that one version of the map sent to a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsUnderWay {
    pub to: String,
    /// The version of the map.
    pub since: u32,
    /// The slots that it sent there, and that are still to go there.
    pub slots: u32,
    /// Those of them that are not there yet.
    pub left: u32,
    /// Since the node that answers heard of that version: since its start, if that was later.
    pub for_ms: u64,
}

/// The answer to `change-slots`: what it moves, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsChanged {
    /// The version before, and the one with the change: the same if it changes nothing.
    pub before: u32,
    pub version: u32,
    pub moves: Vec<SlotsMove>,
    pub slots: u32,
}
