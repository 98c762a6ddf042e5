//! A part of a list of streams, as it was asked for, and how far it has come.

use paxos::StreamName;
use wire::{Refusal, Request};

/// The streams that a list is to name, and its progress.
#[derive(Clone, Debug)]
pub struct StreamList {
    pub(super) after: Option<StreamName>,
    /// The number that may still be named.
    pub(super) left: u64,
    /// The next stream's index among all streams that the table ever had.
    pub(super) next: u64,
    /// A stream was named: the next stands behind a comma.
    pub(super) named: bool,
}

/// The number of entries of a list that are asked for.
pub fn limit(request: &Request) -> Result<u64, Refusal> {
    Ok(wire::ask::limit(request)?.unwrap_or(u64::MAX))
}

impl StreamList {
    /// `[after=NAME] [limit=N]`
    pub fn asked(request: &Request) -> Result<StreamList, Refusal> {
        Ok(StreamList {
            after: request.stream("after")?,
            left: limit(request)?,
            next: 0,
            named: false,
        })
    }
}
