//! The state of the guest's writing.

use std::collections::VecDeque;

use paxos::StreamName;

#[derive(Default)]
pub(crate) struct Writing {
    /// Bytes of the own stream that are not proposed yet.
    pub(super) pending: VecDeque<u8>,
    /// A stream of the guest's own is being opened.
    pub(super) is_opening: bool,
    /// The stream that the guest was told it may write.
    pub(super) begun: Option<StreamName>,
}

impl Writing {
    /// Notes that the stream is open, or came to nothing.
    pub(crate) fn on_opened(&mut self) {
        self.is_opening = false;
    }

    /// Drops the bytes that are not proposed: they never will be.
    pub(crate) fn stop(&mut self) {
        self.pending.clear();
        self.is_opening = false;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.is_opening
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_opening
    }
}
