//! The ops of a connection that the ring has.

use std::ops::Range;

use uring::Id;

#[derive(Default)]
pub(super) struct Flights {
    pub receive: Option<(Id, Awaited)>,
    pub send: Option<Id>,
}

/// A receive without its buffer.
pub(super) struct Awaited {
    pub range: Range<usize>,
    pub count: usize,
    pub whole: bool,
}

impl Flights {
    pub fn has_receive(&self) -> bool {
        self.receive.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.receive.is_none() && self.send.is_none()
    }
}
