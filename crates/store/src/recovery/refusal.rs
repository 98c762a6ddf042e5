//! The reasons why a log is not started from its directory.

use formats::segment::SegmentError;
use thiserror::Error;

/// A refusal. Each says what to do. `at` counts the files that are there, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error(
        "it holds no segment: either the log was never completely created, or its files are lost; a node that lost them must join as a new one"
    )]
    Empty,
    #[error(
        "{} missing between two that are there: put what is missing back, or let the node join as a new one",
        missing(*.first, *.last)
    )]
    MissingSegments { first: u64, last: u64 },
    #[error("{reason}")]
    Foreign { at: usize, reason: SegmentError },
    #[error(
        "its first block and another segment's cannot be read, and their records do not tell which of the two they are of: this is a lost disk, the node must join as a new one"
    )]
    Mixed { at: usize },
    #[error(
        "no checkpoint in it can be read, so the promise is unknown: this is a lost disk, the node must join as a new one"
    )]
    NoCheckpoint,
    #[error(
        "the device does not give a block in which what was acknowledged last may stand, or the word that it was: try again, or let this node join as a new one; a copy of the file lacks the block too"
    )]
    Unreadable { at: usize, offset: u64 },
    #[error(
        "records up to {last_record}, which were acknowledged, cannot be read, and no record behind them tells what may have stood there: this is a lost disk, the node must join as a new one"
    )]
    NoBound {
        at: usize,
        offset: u64,
        last_record: u64,
    },
}

impl Refusal {
    /// The place in the file.
    pub fn offset(&self) -> u64 {
        match self {
            Refusal::Unreadable { offset, .. } | Refusal::NoBound { offset, .. } => *offset,
            _ => 0,
        }
    }

    /// Whether a file is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Refusal::Empty | Refusal::MissingSegments { .. })
    }
}

fn missing(first: u64, last: u64) -> String {
    match first == last {
        true => format!("segment {first} is"),
        false => format!("segments {first} to {last} are"),
    }
}

/// The reason why there is no verdict.
#[derive(Debug)]
pub enum Stop<E> {
    Refused(Refusal),
    Failed(E),
}

impl<E> From<Refusal> for Stop<E> {
    fn from(refusal: Refusal) -> Stop<E> {
        Stop::Refused(refusal)
    }
}
