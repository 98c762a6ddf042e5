//! Counters that are changed and read together: one, or those of a transaction.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::if_so;
use crate::model::Model;

/// So many counters, which begin with 0.
pub struct Counters(pub usize);

/// Is added to each of these counters, by their numbers, in turn; 0 reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call(pub Vec<(usize, i64)>);

/// What each of them is then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer(pub Vec<i64>);

impl Model for Counters {
    type Call = Call;
    type Answer = Answer;
    type State = Vec<i64>;

    fn first(&self) -> Self::State {
        vec![0; self.0]
    }

    fn step(
        &self,
        state: &Self::State,
        call: &Call,
        answer: Option<&Answer>,
    ) -> Option<Self::State> {
        let mut after = state.clone();
        let mut says = Vec::new();
        for (number, by) in &call.0 {
            let counter = after.get_mut(*number)?;
            *counter = counter.checked_add(*by)?;
            says.push(*counter);
        }
        if_so(after, &Answer(says), answer)
    }

    fn is_read(&self, call: &Call) -> bool {
        call.0.iter().all(|(_, by)| *by == 0)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.iter().map(|(number, by)| match by {
            0 => format!("counter {number}"),
            by => format!("counter {number} {by:+}"),
        });
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(i64::to_string).collect();
        f.write_str(&words.join(", "))
    }
}
