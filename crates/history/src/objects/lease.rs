//! A lease: a value that is gone when its time is over.
//!
//! Nobody knows at which moment a lease was taken, but within the call that took it. So its end lies between two times: it is not gone before the
//! one, and not there after the other; and once somebody found it gone, it is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::Model;

pub struct Lease;

/// What is asked for, and the call's own times: when it began, and when it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub ask: Ask,
    pub begun: u64,
    pub ended: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// If there is none: until some time from `gone_from` on, and up to `gone_by`, if that can be told.
    Take {
        value: String,
        gone_from: u64,
        gone_by: Option<u64>,
    },
    Get,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Value(Option<String>),
    /// Whether it was taken, or there was something to delete.
    Did(bool),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    pub value: String,
    pub gone_from: u64,
    pub gone_by: Option<u64>,
}

impl Held {
    /// Whether it may be gone while this call takes place.
    fn may_be_gone(&self, call: &Call) -> bool {
        call.ended.is_none_or(|ended| ended >= self.gone_from)
    }

    /// Whether it may be there still.
    fn may_be_there(&self, call: &Call) -> bool {
        self.gone_by.is_none_or(|gone_by| call.begun <= gone_by)
    }
}

impl Model for Lease {
    type Call = Call;
    type Answer = Answer;
    type State = Option<Held>;

    fn first(&self) -> Self::State {
        None
    }

    fn step(
        &self,
        state: &Self::State,
        call: &Call,
        answer: Option<&Answer>,
    ) -> Option<Self::State> {
        // Without an answer it may take effect at any later time.
        let may_be_gone = |held: &Held| answer.is_none() || held.may_be_gone(call);
        let is_gone = state.as_ref().is_none_or(may_be_gone);
        let is_there = state.as_ref().filter(|held| held.may_be_there(call));
        match (&call.ask, answer) {
            (
                Ask::Take {
                    value,
                    gone_from,
                    gone_by,
                },
                None | Some(Answer::Did(true)),
            ) => {
                let held = Held {
                    value: value.clone(),
                    gone_from: *gone_from,
                    gone_by: *gone_by,
                };
                is_gone.then_some(Some(held))
            }
            (Ask::Take { .. }, Some(Answer::Did(false))) => is_there.map(|_| state.clone()),
            (Ask::Get, None) => Some(state.clone()),
            (Ask::Get, Some(Answer::Value(Some(value)))) => is_there
                .filter(|held| held.value == *value)
                .map(|_| state.clone()),
            (Ask::Get, Some(Answer::Value(None))) => is_gone.then_some(None),
            (Ask::Delete, None) => Some(None),
            (Ask::Delete, Some(Answer::Did(true))) => is_there.map(|_| None),
            (Ask::Delete, Some(Answer::Did(false))) => is_gone.then_some(None),
            _ => None,
        }
    }

    /// Whoever finds it gone makes sure that it is.
    fn is_read(&self, _call: &Call) -> bool {
        false
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ask {
            Ask::Take { value, .. } => write!(f, "take {value}"),
            Ask::Get => write!(f, "get"),
            Ask::Delete => write!(f, "delete"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => f.write_str(value.as_deref().unwrap_or("nothing")),
            Self::Did(did) => write!(f, "{did}"),
        }
    }
}
