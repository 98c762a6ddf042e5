//! One command, executed once.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::machine::{Command, Machine, Outcome};
use crate::overlay::Overlay;
use crate::sessions;
use crate::state::{Done, Missing, Pinned, State, Stop, Why};

pub enum Ran {
    Done(Outcome, Done),
    /// Nothing is done: these rows have to be fetched.
    Missing(Missing),
    /// Nothing is done: it has to wait.
    Later,
}

pub fn run(
    machine: &dyn Machine,
    command: &Command,
    overlay: &Overlay,
    pinned: &Pinned,
    time_ms: u64,
    random: u64,
) -> Ran {
    let mut state = State::new(overlay, pinned, time_ms, random);
    state.may_forget = machine.forgets();
    // Nothing that a panic could leave half done outlives it: the state is dropped.
    let executed = catch_unwind(AssertUnwindSafe(|| {
        sessions::execute(machine, &mut state, command)
    }));
    if !state.missing.is_empty() {
        return Ran::Missing(state.missing);
    }
    let why = match executed {
        Ok(Ok(outcome)) => return Ran::Done(outcome, state.done()),
        Ok(Err(Stop(Why::Later))) => return Ran::Later,
        Ok(Err(Stop(Why::Answered(answer)))) => {
            let done = state.done().without_writes();
            return Ran::Done(Outcome::Chosen(answer), done);
        }
        Ok(Err(stop)) => sessions::refusal(stop).unwrap_or_default(),
        Err(panic) => {
            let why = format!("the command made the machine panic: {}", message(&*panic));
            tracing::error!("{why}");
            why
        }
    };
    // A refusal depends on what was read, and undoes what was written.
    let mut after = State::new(overlay, pinned, time_ms, random);
    let noted = sessions::note_refusal(&mut after, command, &why);
    if !after.missing.is_empty() {
        return Ran::Missing(after.missing);
    }
    let why = match noted {
        Ok(()) => why,
        Err(stop) => sessions::refusal(stop).unwrap_or_default(),
    };
    let mut done = after.done();
    done.seen = done.seen.max(state.done().seen);
    Ran::Done(Outcome::Refused(why), done)
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it said nothing")
}
