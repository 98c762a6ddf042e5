//! A list that is pushed and popped at both ends.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::if_so;
use crate::model::Model;

pub struct List;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    All,
    PushBack(String),
    PushFront(String),
    PopBack,
    PopFront,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    All(Vec<String>),
    Length(usize),
    Value(Option<String>),
}

impl Model for List {
    type Call = Call;
    type Answer = Answer;
    type State = VecDeque<String>;

    fn first(&self) -> Self::State {
        VecDeque::new()
    }

    fn step(
        &self,
        state: &Self::State,
        call: &Call,
        answer: Option<&Answer>,
    ) -> Option<Self::State> {
        let mut after = state.clone();
        let says = match call {
            Call::All => Answer::All(state.iter().cloned().collect()),
            Call::PushBack(item) => {
                after.push_back(item.clone());
                Answer::Length(after.len())
            }
            Call::PushFront(item) => {
                after.push_front(item.clone());
                Answer::Length(after.len())
            }
            Call::PopBack => Answer::Value(after.pop_back()),
            Call::PopFront => Answer::Value(after.pop_front()),
        };
        if_so(after, &says, answer)
    }

    fn is_read(&self, call: &Call) -> bool {
        *call == Call::All
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "all"),
            Self::PushBack(item) => write!(f, "push {item} back"),
            Self::PushFront(item) => write!(f, "push {item} front"),
            Self::PopBack => write!(f, "pop back"),
            Self::PopFront => write!(f, "pop front"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(items) => write!(f, "[{}]", items.join(" ")),
            Self::Length(length) => write!(f, "{length} items"),
            Self::Value(value) => f.write_str(value.as_deref().unwrap_or("nothing")),
        }
    }
}
