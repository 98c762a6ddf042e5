//! The start of a node that speaks, and how far a log of its disk goes.

use paxos::{PromisedTerm, Slot};

use crate::codec::{DecodeError, Encode, Reader};

/// One start of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start {
    pub incarnation: u32,
    /// Drawn at that start: two copies of one directory draw two.
    pub nonce: u64,
}

/// The end of one log's records: what was promised, and below which slot everything accepted stands. Both
/// only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    pub promised: PromisedTerm,
    pub accepted_up_to: Slot,
}

impl End {
    /// Both of them.
    pub fn and(self, other: End) -> End {
        End {
            promised: self.promised.max(other.promised),
            accepted_up_to: self.accepted_up_to.max(other.accepted_up_to),
        }
    }

    pub fn has(self, other: End) -> bool {
        self.and(other) == self
    }
}

impl Encode for Start {
    const BYTES_MIN: usize = 12;
    fn put(&self, out: &mut Vec<u8>) {
        self.incarnation.put(out);
        self.nonce.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Start, DecodeError> {
        Ok(Start {
            incarnation: u32::parse(from)?,
            nonce: u64::parse(from)?,
        })
    }
}

impl Encode for End {
    const BYTES_MIN: usize = PromisedTerm::BYTES_MIN + Slot::BYTES_MIN;
    fn put(&self, out: &mut Vec<u8>) {
        self.promised.put(out);
        self.accepted_up_to.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<End, DecodeError> {
        Ok(End {
            promised: PromisedTerm::parse(from)?,
            accepted_up_to: Slot::parse(from)?,
        })
    }
}
