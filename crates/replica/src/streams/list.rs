//! A part of a list of streams, as it was asked for, and how far it has come.

use paxos::StreamName;
use wire::{Refusal, Request};

/// Which streams a list is to name, and how far it has come.
#[derive(Clone, Debug)]
pub struct StreamList {
    pub(super) after: Option<StreamName>,
    /// How many may still be named.
    pub(super) left: u64,
    /// The next one's index among all streams that the table ever had.
    pub(super) next: u64,
    /// One was named: the next stands behind a comma.
    pub(super) named: bool,
}

/// How many of a list are asked for.
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
