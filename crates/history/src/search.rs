//! The general search: tries every order that the times allow.
//!
//! Source: Wing and Gong, Testing and verifying concurrent objects, 1993; Lowe, Testing for
//! linearizability, 2017, whose memory of ⟨what has taken effect, state⟩ spares trying twice.
//! Exponential in what is concurrent; for small histories, and as a check of [`crate::check`].

use std::collections::HashSet;

use crate::{Action, Extent, Malformed, Operation, check_form};

/// Bytes appended, reads and peeks together.
pub const UNITS_MAX: usize = 128;

/// ⟨chain, position⟩ of each byte.
type State = Vec<(u32, u64)>;

struct Unit<'a> {
    invoked: u64,
    /// `u64::MAX`: it may take effect at any later time, or never.
    completed: u64,
    effect: Effect<'a>,
}

enum Effect<'a> {
    Byte(u32, u64),
    Read {
        from: u64,
        length: u64,
        seen: &'a [Extent],
    },
    Peek {
        from: u64,
        seen: &'a [Extent],
    },
}

/// Whether the history is linearizable.
pub fn is_linearizable(history: &[Operation]) -> Result<bool, Malformed> {
    check_form(history)?;
    let units = units_of(history);
    if units.len() > UNITS_MAX {
        return Err(Malformed::TooLarge(units.len()));
    }
    let mut search = Search {
        units,
        tried: HashSet::new(),
    };
    Ok(search.goes_on(0, &Vec::new()))
}

fn units_of(history: &[Operation]) -> Vec<Unit<'_>> {
    let mut units = Vec::new();
    for operation in history {
        let completed = operation.completed.unwrap_or(u64::MAX);
        let mut add = |effect| {
            units.push(Unit {
                invoked: operation.invoked,
                completed,
                effect,
            });
        };
        match &operation.action {
            Action::Append { chain, from, to } => {
                for position in *from..*to {
                    add(Effect::Byte(*chain, position));
                }
            }
            // A read without an outcome needs no explanation.
            _ if operation.completed.is_none() => {}
            Action::Read { from, length, seen } => add(Effect::Read {
                from: *from,
                length: *length,
                seen,
            }),
            Action::Peek { from, seen } => add(Effect::Peek { from: *from, seen }),
        }
    }
    units
}

struct Search<'a> {
    units: Vec<Unit<'a>>,
    tried: HashSet<(u128, State)>,
}

impl Search<'_> {
    /// `done`: a bit for each unit that took effect; `state`: what came of them.
    fn goes_on(&mut self, done: u128, state: &State) -> bool {
        let left = |index: &usize| done & (1 << index) == 0;
        let deadline = (0..self.units.len())
            .filter(left)
            .map(|index| self.units[index].completed)
            .min();
        // The remaining operations never completed, and need not take effect.
        if deadline.is_none_or(|deadline| deadline == u64::MAX) {
            return true;
        }
        let next: Vec<usize> = (0..self.units.len())
            .filter(left)
            .filter(|index| Some(self.units[*index].invoked) <= deadline)
            .collect();
        for index in next {
            let Some(after) = self.units[index].effect.on(state) else {
                continue;
            };
            let done = done | (1 << index);
            if self.tried.insert((done, after.clone())) && self.goes_on(done, &after) {
                return true;
            }
        }
        false
    }
}

impl Effect<'_> {
    /// The state afterwards; None if it cannot take effect now.
    fn on(&self, state: &State) -> Option<State> {
        match self {
            Self::Byte(chain, position) => {
                let held = state.iter().filter(|(of, _)| of == chain).count();
                if held as u64 != *position {
                    return None;
                }
                let mut after = state.clone();
                after.push((*chain, *position));
                Some(after)
            }
            Self::Read { from, length, seen } => {
                (state.len() as u64 == *length && shows(state, *from, seen)).then(|| state.clone())
            }
            Self::Peek { from, seen } => shows(state, *from, seen).then(|| state.clone()),
        }
    }
}

fn shows(state: &State, from: u64, seen: &[Extent]) -> bool {
    let mut bytes = state.iter().skip(from as usize);
    let mut seen = seen
        .iter()
        .flat_map(|extent| (extent.from..extent.to).map(|position| (extent.chain, position)));
    seen.all(|byte| bytes.next() == Some(&byte))
}
