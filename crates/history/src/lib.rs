//! Was what clients saw of a log possible? Histories, and two checkers of their linearizability.
//!
//! ```text
//!  invoked ├────── append chain 1, 0..3 ──────┤ completed          a history: who asked for what, when
//!             ├── read → length 2 ──┤                             it began, what came of it, and when
//!
//!  check    all of a long history, near-linear, exact for a growing output; says what is wrong
//!  search   Wing and Gong's search with Lowe's memory: any object (`Model`); says which answers contradict each other, or that it
//!           would take too long
//! ```
//!
//! Objects for the search, which are what keys of a store hold: [`Register`], [`Counters`], [`Fields`], [`List`], [`Lease`]. A history is of one
//! object: what clients saw of several is linearizable if it is of each. What one client saw never goes backwards then.
//!
//! # The growing output
//!
//! One log's output: a sequence of bytes that only grows, at its end, one byte at a time. A byte is
//! named ⟨chain, position⟩: a chain is what one writer appends, over however many streams, and its
//! bytes come in order. Chains may alternate, as when writers take over from each other.
//!
//! | operation | may take effect when the output is S | what came of it |
//! |---|---|---|
//! | append ⟨chain, from, to⟩ | byte by byte: ⟨chain, p⟩ when S holds exactly p bytes of the chain; S grows by it | acknowledged |
//! | read, from a position | S is exactly `length` bytes long | `seen`: S from that position on |
//! | peek, from a position | S is at least so long | `seen`: part of S from there on |
//!
//! A read is what a linearizable reader gets. A peek is what stale readers and followers get: they need only
//! be shown an initial part. A history is *linearizable* if every operation
//! moments, each did what the table says. An operation that never completed may have taken effect at
//! any time after its invocation, or never.
//!
//! Units: times are of one monotonic clock, in whatever unit; operations that touch (one completes
//! when the other is invoked) are concurrent. Positions are bytes.
//!
//! Absent here: clocks, files, and bytes. The recorder of a history has to compare the bytes themselves with
//! what was appended.

#![forbid(unsafe_code)]

mod core;
mod growth;
mod model;
mod moments;
mod objects;
mod output;
mod search;
mod ways;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use growth::{Violation, check};
pub use model::{History, Model, Timed, parse_calls};
pub use moments::UNDER_WAY_MAX;
pub use objects::{counters, fields, lease, list, register};
pub use objects::{
    counters::Counters, fields::Fields, lease::Lease, list::List, register::Register,
};
pub use output::{UNITS_MAX, is_linearizable};
pub use search::{Contradiction, Verdict, search};

/// One client's request and its outcome. As JSON, one line of a history's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub client: u32,
    #[serde(flatten)]
    pub action: Action,
    /// Taken before it began.
    pub invoked: u64,
    /// The time when its outcome was known. `None`: it never was.
    pub completed: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Action {
    /// The bytes `from..to` of a chain.
    Append { chain: u32, from: u64, to: u64 },
    /// A read of the output from `from` on when it was exactly `length` bytes long: nothing if `from` lies beyond.
    Read {
        from: u64,
        length: u64,
        seen: Vec<Extent>,
    },
    /// Some of what the output held from `from` on.
    Peek { from: u64, seen: Vec<Extent> },
}

/// Consecutive bytes of a chain. As JSON: `[chain, from, to]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u64, u64)", into = "(u32, u64, u64)")]
pub struct Extent {
    pub chain: u32,
    pub from: u64,
    pub to: u64,
}

impl From<(u32, u64, u64)> for Extent {
    fn from((chain, from, to): (u32, u64, u64)) -> Self {
        Self { chain, from, to }
    }
}

impl From<Extent> for (u32, u64, u64) {
    fn from(extent: Extent) -> Self {
        (extent.chain, extent.from, extent.to)
    }
}

impl Extent {
    pub fn count(&self) -> u64 {
        self.to - self.from
    }
}

impl Operation {
    /// The observed bytes, their place in the output, and the least length of the output then: of reads and
    /// peeks that came to an end.
    pub(crate) fn observation(&self) -> Option<Observation<'_>> {
        let completed = self.completed?;
        let (from, seen) = match &self.action {
            Action::Append { .. } => return None,
            // An observer that saw nothing was shown nothing wrong, wherever it looked.
            Action::Peek { seen, .. } if seen.is_empty() => return None,
            Action::Read { from, seen, .. } | Action::Peek { from, seen } => (*from, seen),
        };
        let length = match &self.action {
            Action::Read { length, .. } => *length,
            _ => from + seen.iter().map(Extent::count).sum::<u64>(),
        };
        Some(Observation {
            from,
            length,
            seen,
            completed,
        })
    }
}

pub(crate) struct Observation<'a> {
    pub from: u64,
    pub length: u64,
    pub seen: &'a [Extent],
    pub completed: u64,
}

/// Why something is no history. Numbers are those of its operations, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("operation {0} completes before it is invoked")]
    Backwards(usize),
    #[error("call {0} has an answer and no time of it, or a time and no answer")]
    Answer(usize),
    #[error("operation {0} holds a range that ends before it begins, or an empty one")]
    Range(usize),
    #[error("operation {0} saw more or less than lies between its position and its length")]
    Length(usize),
    #[error("the appends of chain {chain} leave out or repeat byte {position}")]
    Chain { chain: u32, position: u64 },
    #[error("nobody ever saw what stands at {0} of the output, and more is known behind it")]
    Unseen(u64),
    #[error("a history of {0} bytes and reads is too large to be searched")]
    TooLarge(usize),
    #[error("line {line}: {reason}")]
    Line { line: usize, reason: String },
}

/// Checks the form that both checkers ask for before they begin: the histories of one recorder have it.
pub(crate) fn check_form(history: &[Operation]) -> Result<(), Malformed> {
    let mut chains: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for (index, operation) in history.iter().enumerate() {
        if operation
            .completed
            .is_some_and(|completed| completed < operation.invoked)
        {
            return Err(Malformed::Backwards(index));
        }
        match &operation.action {
            Action::Append { chain, from, to } => {
                if from >= to {
                    return Err(Malformed::Range(index));
                }
                chains.entry(*chain).or_default().push((*from, *to));
            }
            Action::Read { seen, .. } | Action::Peek { seen, .. } => {
                if seen.iter().any(|extent| extent.from >= extent.to) {
                    return Err(Malformed::Range(index));
                }
            }
        }
        if let Action::Read { from, length, seen } = &operation.action {
            let count: u64 = seen.iter().map(Extent::count).sum();
            if operation.completed.is_some() && count != length.saturating_sub(*from) {
                return Err(Malformed::Length(index));
            }
        }
    }
    for (chain, mut ranges) in chains {
        ranges.sort_unstable();
        let mut position = 0;
        for (from, to) in ranges {
            if from != position {
                let position = position.min(from);
                return Err(Malformed::Chain { chain, position });
            }
            position = to;
        }
    }
    Ok(())
}

/// Reads a history: one operation a line, as JSON; empty lines and those that begin with `#` say
/// nothing.
pub fn parse(text: &str) -> Result<Vec<Operation>, Malformed> {
    lines(text)
        .map(|(line, text)| {
            serde_json::from_str(text).map_err(|error| Malformed::Line {
                line,
                reason: error.to_string(),
            })
        })
        .collect()
}

/// The lines that say something, with their numbers.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    lines.map(|(number, line)| (number + 1, line))
}

/// The line that [`parse`] reads.
pub fn to_line(operation: &Operation) -> String {
    serde_json::to_string(operation).expect("numbers and lists of numbers are JSON")
}
