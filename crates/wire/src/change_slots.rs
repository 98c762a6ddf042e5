//! A change of which group of keys serves which slots.

use std::fmt;
use std::str::FromStr;

use crate::Request;
use crate::line::{LineError, LineWriter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotsVerb {
    /// The groups are to have slots, too.
    Join,
    /// The group is to have none.
    Leave,
    /// The slots go to the group.
    Move,
    /// All groups get as many slots, by the fewest moves.
    Balance,
    /// The map of a cluster whose keys are here now: `version` and, as `slots`, `0-99:NAME:SINCE,…`. Only where there is no map.
    Adopt,
    /// All groups are deleted, with all keys.
    Drop,
}

/// The words behind `change-slots`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSlots {
    pub verb: SlotsVerb,
    /// The names of groups: some that join, the one that leaves, or the one that slots go to.
    pub groups: Vec<String>,
    /// `0-99,200`, of a move.
    pub slots: Option<String>,
    /// Only say what would move.
    pub plan: bool,
    /// Only if the map has this version still.
    pub version: Option<u32>,
}

impl SlotsVerb {
    pub fn as_str(self) -> &'static str {
        match self {
            SlotsVerb::Join => "join",
            SlotsVerb::Leave => "leave",
            SlotsVerb::Move => "move",
            SlotsVerb::Balance => "balance",
            SlotsVerb::Adopt => "adopt",
            SlotsVerb::Drop => "drop",
        }
    }
}

impl fmt::Display for SlotsVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SlotsVerb {
    type Err = LineError;

    fn from_str(word: &str) -> Result<SlotsVerb, LineError> {
        let all = [
            SlotsVerb::Join,
            SlotsVerb::Leave,
            SlotsVerb::Move,
            SlotsVerb::Balance,
            SlotsVerb::Adopt,
            SlotsVerb::Drop,
        ];
        let verb = all.into_iter().find(|verb| verb.as_str() == word);
        verb.ok_or_else(|| {
            LineError::Value(format!(
                "{word} is no change of slots: say join, leave, move or balance"
            ))
        })
    }
}

impl ChangeSlots {
    /// These groups are to have slots, too.
    pub fn join(groups: &[String]) -> ChangeSlots {
        ChangeSlots {
            verb: SlotsVerb::Join,
            groups: groups.to_vec(),
            slots: None,
            plan: false,
            version: None,
        }
    }

    pub(crate) fn write(&self, line: LineWriter) -> LineWriter {
        let groups = (!self.groups.is_empty()).then(|| self.groups.join(","));
        line.word(self.verb.as_str())
            .key_if("groups", groups.as_ref())
            .key_if("slots", self.slots.as_ref())
            .flag("plan", self.plan)
            .key_if("version", self.version)
    }

    /// The words and keys of a request.
    ///
    /// Errors: they say too little, or too much.
    pub fn read(request: &Request) -> Result<ChangeSlots, LineError> {
        let verb = request.words.first().map(|word| word.parse());
        let verb: SlotsVerb = verb.ok_or(LineError::Missing("join, leave, move or balance"))??;
        let groups = request.get("groups").unwrap_or_default().split(',');
        let groups = groups.filter(|name| !name.is_empty()).map(str::to_owned);
        let groups: Vec<String> = groups.collect();
        let slots = request.get("slots").map(str::to_owned);
        match (verb, groups.len()) {
            (SlotsVerb::Join, 0) => return Err(LineError::Missing("groups")),
            (SlotsVerb::Leave | SlotsVerb::Move, count) if count != 1 => {
                let sentence = "groups is the name of one group here".to_owned();
                return Err(LineError::Value(sentence));
            }
            _ => {}
        }
        let has_slots = matches!(verb, SlotsVerb::Move | SlotsVerb::Adopt);
        if has_slots != slots.is_some() {
            let sentence = "slots goes with move and adopt, and with nothing else".to_owned();
            return Err(LineError::Value(sentence));
        }
        Ok(ChangeSlots {
            verb,
            groups,
            slots,
            plan: request.flag("plan")?,
            version: request.parsed("version")?,
        })
    }
}
