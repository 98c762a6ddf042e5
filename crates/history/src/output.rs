//! The growing output as an object of the general search, to hold [`crate::check`] to it. For small histories.

use crate::model::{Model, Timed};
use crate::moments::UNDER_WAY_MAX;
use crate::search::{Verdict, search};
use crate::{Action, Extent, Malformed, Operation, check_form};

/// Bytes appended, reads and peeks together.
pub const UNITS_MAX: usize = UNDER_WAY_MAX;

/// More than histories of so few take.
const STEPS_MAX: u64 = 50_000_000;

struct Output;

#[derive(Clone, PartialEq)]
enum Unit {
    Byte(u32, u64),
    Look,
}

#[derive(Clone)]
struct Seen {
    from: u64,
    /// Of reads: how long the output is.
    length: Option<u64>,
    extents: Vec<Extent>,
}

/// Whether the history is linearizable.
pub fn is_linearizable(history: &[Operation]) -> Result<bool, Malformed> {
    check_form(history)?;
    let units: Vec<Timed<Unit, Seen>> = history.iter().flat_map(units_of).collect();
    if units.len() > UNITS_MAX {
        return Err(Malformed::TooLarge(units.len()));
    }
    match search(&Output, &units, STEPS_MAX)? {
        Verdict::Linearizable => Ok(true),
        Verdict::Refused(_) => Ok(false),
        Verdict::Undecided => Err(Malformed::TooLarge(units.len())),
    }
}

fn units_of(operation: &Operation) -> Vec<Timed<Unit, Seen>> {
    let unit = |call, seen| Timed {
        client: operation.client,
        call,
        answer: operation.completed.map(|_| seen),
        invoked: operation.invoked,
        completed: operation.completed,
    };
    let (from, length, extents) = match &operation.action {
        Action::Append { chain, from, to } => {
            let byte = |position| {
                let nothing = Seen {
                    from: 0,
                    length: None,
                    extents: Vec::new(),
                };
                unit(Unit::Byte(*chain, position), nothing)
            };
            return (*from..*to).map(byte).collect();
        }
        Action::Read { from, length, seen } => (*from, Some(*length), seen.clone()),
        Action::Peek { from, seen } => (*from, None, seen.clone()),
    };
    let seen = Seen {
        from,
        length,
        extents,
    };
    vec![unit(Unit::Look, seen)]
}

impl Model for Output {
    type Call = Unit;
    type Answer = Seen;
    /// ⟨chain, position⟩ of each byte.
    type State = Vec<(u32, u64)>;

    fn first(&self) -> Self::State {
        Vec::new()
    }

    fn step(&self, state: &Self::State, call: &Unit, answer: Option<&Seen>) -> Option<Self::State> {
        let mut after = state.clone();
        if let Unit::Byte(chain, position) = call {
            let held = state.iter().filter(|(of, _)| of == chain).count();
            after.push((*chain, *position));
            return (held as u64 == *position).then_some(after);
        }
        let is_so = answer.is_none_or(|seen| {
            let length = state.len() as u64;
            seen.length.is_none_or(|said| said == length) && shows(state, seen)
        });
        is_so.then_some(after)
    }

    fn is_read(&self, call: &Unit) -> bool {
        *call == Unit::Look
    }
}

fn shows(state: &[(u32, u64)], seen: &Seen) -> bool {
    let mut bytes = state.iter().skip(seen.from as usize);
    let mut seen = seen
        .extents
        .iter()
        .flat_map(|extent| (extent.from..extent.to).map(|position| (extent.chain, position)));
    seen.all(|byte| bytes.next() == Some(&byte))
}
