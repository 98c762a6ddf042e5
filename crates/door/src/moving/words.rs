//! The words by which slots are handed over: what a door has its group's machine do, for itself or for another group, and what comes of it.
//!
//! ```text
//! word = version u8 (1) │ postcard
//! ```

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;

/// Slots from the first to the last, both among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    pub first: u16,
    pub last: u16,
}

impl Span {
    pub const ALL: Span = Span {
        first: 0,
        last: kv::SLOTS - 1,
    };

    pub fn slots(self) -> impl Iterator<Item = u16> + Clone {
        self.first..=self.last
    }

    /// Whether there are such slots.
    pub fn is_sound(self) -> bool {
        self.first <= self.last && self.last < kv::SLOTS
    }

    /// Whether some slot is in both.
    pub fn meets(self, other: Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub fn has(self, slot: u16) -> bool {
        (self.first..=self.last).contains(&slot)
    }
}

/// Slots that are moved together, and the version of the map that wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Piece {
    pub span: Span,
    pub wish: u32,
}

/// A row of a slot: the rest of its key stands behind the slot's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub slot: u16,
    #[serde(with = "serde_bytes")]
    pub rest: Vec<u8>,
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

/// The last row that was copied: its slot, and the rest of its key.
pub type Place = (u16, Vec<u8>);

/// A change of a slot that is being copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The row is so now, or gone.
    Row {
        slot: u16,
        #[serde(with = "serde_bytes")]
        rest: Vec<u8>,
        #[serde(with = "serde_bytes")]
        value: Option<Vec<u8>>,
    },
    /// All rows that begin so are gone.
    Forget {
        slot: u16,
        #[serde(with = "serde_bytes")]
        rest: Vec<u8>,
    },
    /// All rows of the slot are gone.
    Whole { slot: u16 },
}

impl Change {
    pub fn slot(&self) -> u16 {
        match self {
            Change::Row { slot, .. } | Change::Forget { slot, .. } | Change::Whole { slot } => {
                *slot
            }
        }
    }
}

/// A step of a group's machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Tells which of these slots it has.
    Stand { span: Span },
    /// It takes note of the wish that it keeps these slots. `founds`: those that it began with.
    Keep { piece: Piece, founds: Vec<Span> },

    // Of the group that has the slots:
    /// From now on it notes what changes there. ‡ Which slots it began with its own door says, by the map, and not whoever asks.
    Leave {
        piece: Piece,
        to: u32,
        founds: Vec<Span>,
    },
    /// Rows behind a place.
    Rows {
        piece: Piece,
        to: u32,
        changes: u64,
        after: Option<Place>,
        rows_max: u32,
    },
    /// Changes from a number on. What was before is known there.
    Tail {
        piece: Piece,
        to: u32,
        changes: u64,
        from: u64,
    },
    /// From now on it serves them no more.
    /// The answer has the changes from that one on, as that to Tail has.
    Freeze {
        piece: Piece,
        to: u32,
        changes: u64,
        from: u64,
    },
    /// `to` owns them: their rows are forgotten.
    Gone { piece: Piece, to: u32 },
    /// They do not go to `to` after all: what is noted under that number is forgotten.
    Release { piece: Piece, to: u32, changes: u64 },

    // Of the group that is to have them:
    /// It begins to copy.
    Come {
        piece: Piece,
        from: u32,
        changes: u64,
    },
    TakeRows {
        piece: Piece,
        after: Option<Place>,
        rows: Vec<Row>,
        /// Where these end.
        last: Option<Place>,
        is_last: bool,
    },
    TakeTail {
        piece: Piece,
        from: u64,
        tail: Vec<Change>,
        next: u64,
    },
    /// The last changes before the slots were frozen, and those that were written to, with whether they have keys: from now on it owns them.
    Own {
        piece: Piece,
        from: u64,
        tail: Vec<Change>,
        used: Vec<(u16, bool)>,
    },
    /// The slots do not come here after all.
    Drop { piece: Piece },
    /// Whether it owns the slots by this wish, or did.
    Owns { piece: Piece },
}

/// How far a copy has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incoming {
    pub piece: Piece,
    pub from: u32,
    /// The number under which the source notes changes.
    pub changes: u64,
    pub after: Option<Place>,
    pub is_read: bool,
    /// The next change.
    pub tail: u64,
    /// The bytes that were copied, for people.
    pub bytes: u64,
}

/// Slots beside each other of which a group knows the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub span: Span,
    /// The latest wish by which the group was to have them.
    pub kept: u32,
    pub token: Held,
}

/// Whose slots are, as one group knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    None,
    Owned,
    Leaving { to: u32, wish: u32, changes: u64 },
    Frozen { to: u32, wish: u32, changes: u64 },
    Gone,
    Coming { wish: u32 },
}

/// A word to another group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// It is to take this step, and to tell what came of it.
    Take(Step),
    /// It owns what it waited for: whoever has it frozen may look. A hint: he asks.
    Look,
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    Done,
    /// Not now: nobody leads here, or knows that version of the map, or something else has to be done first.
    NotNow,
    /// ‡ There is a newer wish for some of the slots: this one is over.
    Superseded,
    /// Some of the slots are there, or on their way there.
    Elsewhere {
        group: u32,
    },
    /// Changes are noted, under this number.
    Leaving {
        changes: u64,
    },
    Rows {
        rows: Vec<Row>,
        last: Option<Place>,
        is_last: bool,
        /// Clients are served there meanwhile.
        is_loaded: bool,
    },
    Tail {
        tail: Vec<Change>,
        next: u64,
        /// No change stands behind these.
        is_all: bool,
        frozen: Option<Frozen>,
    },
    Owns(bool),
    Stand {
        runs: Vec<Run>,
        coming: Vec<Incoming>,
    },
}

/// For people who read a node's log.
impl Step {
    pub fn name(&self) -> &'static str {
        match self {
            Step::Stand { .. } => "stand",
            Step::Keep { .. } => "keep",
            Step::Leave { .. } => "leave",
            Step::Rows { .. } => "rows",
            Step::Tail { .. } => "tail",
            Step::Freeze { .. } => "freeze",
            Step::Gone { .. } => "gone",
            Step::Release { .. } => "release",
            Step::Come { .. } => "come",
            Step::TakeRows { .. } => "take rows",
            Step::TakeTail { .. } => "take tail",
            Step::Own { .. } => "own",
            Step::Drop { .. } => "drop",
            Step::Owns { .. } => "owns",
        }
    }
}

/// For people who read a node's log.
impl Told {
    pub fn name(&self) -> &'static str {
        match self {
            Told::Done => "done",
            Told::NotNow => "not now",
            Told::Superseded => "superseded",
            Told::Elsewhere { .. } => "elsewhere",
            Told::Leaving { .. } => "leaving",
            Told::Rows { .. } => "rows",
            Told::Tail { frozen: None, .. } => "tail",
            Told::Tail {
                frozen: Some(_), ..
            } => "frozen",
            Told::Owns(true) => "owns",
            Told::Owns(false) => "owns not",
            Told::Stand { .. } => "stands",
        }
    }
}

/// Nothing changes in these slots any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// The log's time.
    pub time_ms: u64,
    /// The slots that were written to, and whether they have keys.
    pub used: Vec<(u16, bool)>,
}

pub fn encode<T: Serialize>(word: &T) -> Vec<u8> {
    let bytes = postcard::to_extend(word, vec![VERSION]);
    bytes.unwrap_or_default()
}

/// `None`: these bytes are no word of this version.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (version, rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    let (word, rest) = postcard::take_from_bytes(rest).ok()?;
    rest.is_empty().then_some(word)
}

impl Step {
    /// The slots that it is about, and the wish.
    pub fn piece(&self) -> Piece {
        match self {
            Step::Stand { span } => {
                let (span, wish) = (*span, 1);
                Piece { span, wish }
            }
            Step::Keep { piece, .. }
            | Step::Leave { piece, .. }
            | Step::Rows { piece, .. }
            | Step::Tail { piece, .. }
            | Step::Freeze { piece, .. }
            | Step::Gone { piece, .. }
            | Step::Release { piece, .. }
            | Step::Come { piece, .. }
            | Step::TakeRows { piece, .. }
            | Step::TakeTail { piece, .. }
            | Step::Own { piece, .. }
            | Step::Drop { piece }
            | Step::Owns { piece } => *piece,
        }
    }
}
