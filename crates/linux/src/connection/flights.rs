//! The ops of a connection that the ring has.

use std::ops::Range;

use uring::Id;

#[derive(Default)]
pub(super) struct Flights {
    pub receive: Option<(Id, Incoming)>,
    pub send: Option<Id>,
}

pub(super) enum Incoming {
    /// The first receive of the queue, which is not there meanwhile.
    Receive(Awaited),
    /// Whether there is something for the first receive of the queue, which has no buffer.
    Watch,
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
