//! A register: one value or none, which may be set on conditions.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::if_so;
use crate::model::Model;

pub struct Register;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    Get,
    Set(String),
    /// Sets it, and returns what was there.
    Replace(String),
    SetIfNone(String),
    /// Sets it if it is as somebody saw it: a transaction that watches. One that was not done is not part of a history.
    Swap {
        from: Option<String>,
        to: String,
    },
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Done,
    Value(Option<String>),
    /// Whether it was set, or there was something to delete.
    Did(bool),
}

impl Model for Register {
    type Call = Call;
    type Answer = Answer;
    type State = Option<String>;

    fn first(&self) -> Self::State {
        None
    }

    fn step(
        &self,
        state: &Self::State,
        call: &Call,
        answer: Option<&Answer>,
    ) -> Option<Self::State> {
        let (after, says) = match call {
            Call::Get => (state.clone(), Answer::Value(state.clone())),
            Call::Set(value) => (Some(value.clone()), Answer::Done),
            Call::Replace(value) => (Some(value.clone()), Answer::Value(state.clone())),
            Call::SetIfNone(value) => match state {
                Some(_) => (state.clone(), Answer::Did(false)),
                None => (Some(value.clone()), Answer::Did(true)),
            },
            Call::Swap { from, .. } if from != state => return None,
            Call::Swap { to, .. } => (Some(to.clone()), Answer::Done),
            Call::Delete => (None, Answer::Did(state.is_some())),
        };
        if_so(after, &says, answer)
    }

    fn is_read(&self, call: &Call) -> bool {
        *call == Call::Get
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => write!(f, "get"),
            Self::Set(value) => write!(f, "set {value}"),
            Self::Replace(value) => write!(f, "replace by {value}"),
            Self::SetIfNone(value) => write!(f, "set {value} if there is none"),
            Self::Swap { from, to } => write!(f, "swap {} for {to}", or_none(from.as_deref())),
            Self::Delete => write!(f, "delete"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => write!(f, "done"),
            Self::Value(value) => f.write_str(or_none(value.as_deref())),
            Self::Did(did) => write!(f, "{did}"),
        }
    }
}

fn or_none(value: Option<&str>) -> &str {
    value.unwrap_or("nothing")
}
