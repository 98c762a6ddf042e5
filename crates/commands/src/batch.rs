//! Many frames, one proposal, one durable write.

use crate::Frame;

/// Frames that go to the log together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    pub fn push(&mut self, frame: &Frame) {
        self.bytes.extend(frame.encode());
    }

    pub fn command(&mut self, command: &[u8]) {
        self.bytes.extend(crate::encode(command));
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What to append; nothing is left.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}
