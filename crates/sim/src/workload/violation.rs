//! The bad ends of a run: who saw one, when, and its words.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use serde::Serialize;

/// The checker that saw a violation. The names are stable: reports and scripts carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Checker {
    /// The invariants of docs/invariants.md, wherever they were asserted.
    #[serde(rename = "I1 agreement")]
    Agreement,
    #[serde(rename = "I2 proposal")]
    Proposal,
    #[serde(rename = "I3 one value")]
    OneValue,
    #[serde(rename = "I4 durability")]
    Durability,
    #[serde(rename = "I5 acknowledged")]
    Acknowledged,
    #[serde(rename = "I6 content")]
    Content,
    #[serde(rename = "I7 eras")]
    Eras,
    #[serde(rename = "I8 positions")]
    Positions,
    /// Something was done that cannot be undone, and that nobody wanted.
    #[serde(rename = "intent")]
    Intent,
    /// A name is not the register that it should be.
    #[serde(rename = "names")]
    Names,
    /// Something is in a version that somebody's program could not read.
    #[serde(rename = "versions")]
    Versions,
    /// A writer was told what cannot be.
    #[serde(rename = "writers")]
    Writers,
    /// A reader saw what cannot be, or missed what must be there.
    #[serde(rename = "readers")]
    Readers,
    /// A panic in the node or the engine that names no invariant.
    #[serde(rename = "node assert")]
    NodeAssert,
    /// The node asked its kernel for what the contract forbids.
    #[serde(rename = "kernel contract")]
    KernelContract,
    /// In peace not everything became well in time.
    #[serde(rename = "liveness")]
    Liveness,
    /// A node that lost nothing does not start, or finds its records in contradiction.
    #[serde(rename = "start-up")]
    StartUp,
    /// The same seed ran differently.
    #[serde(rename = "repetition")]
    Repetition,
    /// A mistake of the simulator's own.
    #[serde(rename = "simulator")]
    Simulator,
}

/// A run that showed what must not be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    pub seed: u64,
    /// The step of the nodes when it was seen.
    pub step: u64,
    pub simulated_us: u64,
    pub checker: Checker,
    pub text: String,
    /// In our source; empty if nothing panicked.
    pub location: String,
    /// The number of turns that the nemesis had had.
    pub turns: u64,
}

/// A panic, caught.
pub(crate) struct Caught {
    pub text: String,
    pub location: String,
}

const INVARIANTS: [(&str, Checker); 13] = [
    ("I1", Checker::Agreement),
    ("I2", Checker::Proposal),
    ("I3", Checker::OneValue),
    ("I4", Checker::Durability),
    ("I5", Checker::Acknowledged),
    ("I6", Checker::Content),
    ("I7", Checker::Eras),
    ("I8", Checker::Positions),
    ("intent", Checker::Intent),
    ("names", Checker::Names),
    ("versions", Checker::Versions),
    ("liveness", Checker::Liveness),
    ("start-up", Checker::StartUp),
];

impl Checker {
    pub fn name(self) -> &'static str {
        match self {
            Checker::Agreement => "I1 agreement",
            Checker::Proposal => "I2 proposal",
            Checker::OneValue => "I3 one value",
            Checker::Durability => "I4 durability",
            Checker::Acknowledged => "I5 acknowledged",
            Checker::Content => "I6 content",
            Checker::Eras => "I7 eras",
            Checker::Positions => "I8 positions",
            Checker::Intent => "intent",
            Checker::Names => "names",
            Checker::Versions => "versions",
            Checker::Writers => "writers",
            Checker::Readers => "readers",
            Checker::NodeAssert => "node assert",
            Checker::KernelContract => "kernel contract",
            Checker::Liveness => "liveness",
            Checker::StartUp => "start-up",
            Checker::Repetition => "repetition",
            Checker::Simulator => "simulator",
        }
    }
}

impl Caught {
    /// By the invariant that the text begins with; else by whose assertion it was.
    pub fn checker(&self) -> Checker {
        let begins = |(name, _): &&(&str, Checker)| {
            let rest = self.text.strip_prefix(*name);
            rest.is_some_and(|rest| rest.starts_with(':') || rest.starts_with(' '))
        };
        if let Some((_, checker)) = INVARIANTS.iter().find(begins) {
            return *checker;
        }
        let file = self.location.replace('\\', "/");
        let within = |part: &str| file.contains(part);
        if within("sim/src/client/reader") {
            Checker::Readers
        } else if within("sim/src/client/") {
            Checker::Writers
        } else if within("sim/src/") && !within("sim/src/workload/") {
            Checker::KernelContract
        } else if within("sim/") {
            Checker::Simulator
        } else {
            Checker::NodeAssert
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, seed, step) = (self.checker.name(), self.seed, self.step);
        write!(f, "{name}: seed {seed}, step {step}: {}", self.text)?;
        if !self.location.is_empty() {
            write!(f, " ({})", self.location)?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<Option<Caught>> = const { RefCell::new(None) };
}

/// Runs, and returns a panic instead of passing it on or printing it. Other threads' panics, and
/// those outside, go where they went before.
pub(crate) fn catch<R>(run: impl FnOnce() -> R) -> Result<R, Caught> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CATCHING.get() {
                return before(info);
            }
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let location = info
                .location()
                .map(|at| format!("{}:{}", at.file(), at.line()));
            let caught = Caught {
                text: text.unwrap_or_default(),
                location: location.unwrap_or_default(),
            };
            CAUGHT.with_borrow_mut(|slot| {
                slot.get_or_insert(caught);
            });
        }));
    });
    let outer = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    CATCHING.set(outer);
    let caught = CAUGHT.with_borrow_mut(Option::take);
    result.map_err(|_| {
        caught.unwrap_or(Caught {
            text: "a panic without a word".to_owned(),
            location: String::new(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_somebodys_by_its_words_or_its_place() {
        let seen = |text: &str, location: &str| {
            let (text, location) = (text.to_owned(), location.to_owned());
            Caught { text, location }.checker()
        };
        let engine = "crates/paxos/src/learner.rs:110";
        assert_eq!(seen("I1: [0,1) is chosen", engine), Checker::Agreement);
        assert_eq!(seen("I18 is no invariant", engine), Checker::NodeAssert);
        let reader = "crates/sim/src/client/reader.rs:7";
        assert_eq!(seen("a gap", reader), Checker::Readers);
        let disk = "crates/sim/src/disk.rs:7";
        assert_eq!(seen("offset 3", disk), Checker::KernelContract);
    }

    #[test]
    fn a_panic_is_caught_with_its_text_and_place() {
        let caught = catch(|| -> u32 { panic!("I4: number {}", 7) }).err();
        let caught = caught.expect("it panicked");
        assert_eq!(caught.text, "I4: number 7");
        assert!(caught.location.contains("violation.rs"));
        assert_eq!(catch(|| 5).ok(), Some(5));
    }
}
