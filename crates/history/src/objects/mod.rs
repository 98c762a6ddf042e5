//! Objects that keys hold.

pub mod counters;
pub mod fields;
pub mod lease;
pub mod list;
pub mod register;

/// The state, where the answer is what the object says in the state before.
fn if_so<S, A: PartialEq>(state: S, says: &A, answer: Option<&A>) -> Option<S> {
    answer.is_none_or(|answer| answer == says).then_some(state)
}
