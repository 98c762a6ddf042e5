//! Many frames, one proposal, one durable write.

use crate::{Frame, TooLarge};

/// Frames that go to the log together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// Adds a frame. A command that is too large is not added; the others stay.
    pub fn push(&mut self, frame: &Frame<'_>) -> Result<(), TooLarge> {
        frame.append_to(&mut self.bytes)
    }

    pub fn command(&mut self, command: &[u8]) -> Result<(), TooLarge> {
        self.push(&Frame::Command(command))
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the bytes to append; nothing is left.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}
