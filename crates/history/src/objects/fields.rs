//! The fields of a hash.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::if_so;
use crate::model::Model;

pub struct Fields;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    Get(String),
    All,
    Set {
        field: String,
        value: String,
    },
    /// A field that is none counts as 0.
    Add {
        field: String,
        by: i64,
    },
    Delete(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Value(Option<String>),
    All(BTreeMap<String, String>),
    Number(i64),
    /// Whether the field is new, or was there to be deleted.
    Did(bool),
}

impl Model for Fields {
    type Call = Call;
    type Answer = Answer;
    type State = BTreeMap<String, String>;

    fn first(&self) -> Self::State {
        BTreeMap::new()
    }

    fn step(
        &self,
        state: &Self::State,
        call: &Call,
        answer: Option<&Answer>,
    ) -> Option<Self::State> {
        let mut after = state.clone();
        let says = match call {
            Call::Get(field) => Answer::Value(state.get(field).cloned()),
            Call::All => Answer::All(state.clone()),
            Call::Set { field, value } => {
                Answer::Did(after.insert(field.clone(), value.clone()).is_none())
            }
            Call::Add { field, by } => {
                let before = state.get(field).map_or(Ok(0), |value| value.parse::<i64>());
                let number = before.ok()?.checked_add(*by)?;
                after.insert(field.clone(), number.to_string());
                Answer::Number(number)
            }
            Call::Delete(field) => Answer::Did(after.remove(field).is_some()),
        };
        if_so(after, &says, answer)
    }

    fn is_read(&self, call: &Call) -> bool {
        matches!(call, Call::Get(_) | Call::All)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get(field) => write!(f, "get {field}"),
            Self::All => write!(f, "get all"),
            Self::Set { field, value } => write!(f, "set {field} {value}"),
            Self::Add { field, by } => write!(f, "add {by} to {field}"),
            Self::Delete(field) => write!(f, "delete {field}"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => f.write_str(value.as_deref().unwrap_or("nothing")),
            Self::All(all) => {
                let words = all.iter().map(|(field, value)| format!("{field} {value}"));
                f.write_str(&words.collect::<Vec<_>>().join(", "))
            }
            Self::Number(number) => write!(f, "{number}"),
            Self::Did(did) => write!(f, "{did}"),
        }
    }
}
