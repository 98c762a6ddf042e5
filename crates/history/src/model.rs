//! Any object, and what clients were answered by it.

use std::hash::Hash;

use serde::{Deserialize, Serialize};

use crate::Malformed;

/// An object: what its calls do, one after the other.
pub trait Model {
    /// What a client asks for.
    type Call: Clone + PartialEq;
    /// What it is told.
    type Answer: Clone;
    type State: Clone + Eq + Hash;

    /// The state in which histories begin.
    fn first(&self) -> Self::State;

    /// The state after a call that was answered so; `None` if it cannot be answered so in this state. Without an answer: whatever it
    /// does in this state.
    fn step(
        &self,
        state: &Self::State,
        call: &Self::Call,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;

    /// Whether the call leaves every state as it is.
    fn is_read(&self, call: &Self::Call) -> bool;
}

/// One call and what came of it. As JSON, one line of a history's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed<C, A> {
    pub client: u32,
    pub call: C,
    /// `None`: its client was never told. It may have taken effect at any time after it was invoked, or never.
    pub answer: Option<A>,
    /// Taken before it began.
    pub invoked: u64,
    /// When its answer was known; `None` if and only if there is none.
    pub completed: Option<u64>,
}

/// The calls of one object, in any order.
pub type History<M> = Vec<Timed<<M as Model>::Call, <M as Model>::Answer>>;

impl<C, A> Timed<C, A> {
    /// Without its answer, as if its client had never been told.
    pub fn open(mut self) -> Self {
        self.answer = None;
        self.completed = None;
        self
    }

    pub(crate) fn check_form(&self, index: usize) -> Result<(), Malformed> {
        match (self.completed, &self.answer) {
            (Some(completed), _) if completed < self.invoked => Err(Malformed::Backwards(index)),
            (Some(_), Some(_)) | (None, None) => Ok(()),
            _ => Err(Malformed::Answer(index)),
        }
    }
}

/// Reads a history: one call a line, as JSON; empty lines and those that begin with `#` say nothing.
pub fn parse_calls<C, A>(text: &str) -> Result<Vec<Timed<C, A>>, Malformed>
where
    C: for<'a> Deserialize<'a>,
    A: for<'a> Deserialize<'a>,
{
    crate::lines(text)
        .map(|(line, text)| {
            serde_json::from_str(text).map_err(|error| Malformed::Line {
                line,
                reason: error.to_string(),
            })
        })
        .collect()
}
