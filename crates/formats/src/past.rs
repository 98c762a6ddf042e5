//! What a node tells its peers of its disk: its starts, and where its logs end
//! (docs/decisions/0029-a-disks-past-is-remembered-by-others.md).

use paxos::{PromisedTerm, Slot};

use crate::LogId;
use crate::codec::{DecodeError, Encode, Reader};
use crate::proof::{Seal, Signature};

/// One start of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start {
    pub incarnation: u32,
    /// Drawn at that start: two copies of one directory draw two.
    pub nonce: u64,
}

/// How far one log's records go: what was promised, and below which slot everything accepted stands. Both only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    pub promised: PromisedTerm,
    pub accepted_up_to: Slot,
}

/// What a node tells its peers of its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The last of them, this one included, in order. Empty in all but a connection's first.
    pub starts: Vec<Start>,
    /// What is durable; of all logs in a connection's first, then of those in which it grew.
    pub ends: Vec<(LogId, End)>,
    /// One for each end, by which its node knows its own word; or none at all.
    pub seals: Vec<Seal>,
    /// First and last of each range of logs that were deleted; in a connection's first.
    pub deleted: Vec<(u32, u32)>,
    /// To the challenge of whoever is told, where the disk has a key; in a connection's first.
    pub answer: Option<Signature>,
}

/// So many starts are kept, and told.
pub const STARTS_KEPT: usize = 64;

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

impl Told {
    /// The ends, each with the seal that it came with.
    pub fn sealed(&self) -> impl Iterator<Item = (LogId, End, Option<Seal>)> {
        let seals = self.seals.iter().map(|seal| Some(*seal));
        let seals = seals.chain(std::iter::repeat(None));
        let ends = self.ends.iter().zip(seals);
        ends.map(|((log, end), seal)| (*log, *end, seal))
    }

    pub fn has_deleted(&self, log: LogId) -> bool {
        let above = self.deleted.partition_point(|(first, _)| *first <= log.0);
        let range = above.checked_sub(1).map(|at| self.deleted[at]);
        range.is_some_and(|(_, last)| log.0 <= last)
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

impl Encode for Told {
    const BYTES_MIN: usize = 17;
    fn put(&self, out: &mut Vec<u8>) {
        self.starts.put(out);
        self.ends.put(out);
        self.deleted.put(out);
        self.seals.put(out);
        self.answer.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Told, DecodeError> {
        let told = Told {
            starts: Vec::parse(from)?,
            ends: Vec::parse(from)?,
            deleted: Vec::parse(from)?,
            seals: Vec::parse(from)?,
            answer: Option::parse(from)?,
        };
        if !told.seals.is_empty() && told.seals.len() != told.ends.len() {
            return Err(DecodeError::Invalid("seals of other ends"));
        }
        if told.starts.len() > STARTS_KEPT {
            return Err(DecodeError::TooLong("a list of starts"));
        }
        let in_order = told.starts.windows(2);
        if !in_order
            .into_iter()
            .all(|two| two[0].incarnation < two[1].incarnation)
        {
            return Err(DecodeError::Invalid("starts that are not in order"));
        }
        let sound = told.deleted.iter().all(|(first, last)| first <= last);
        let apart = told.deleted.windows(2).all(|two| two[0].1 < two[1].0);
        if !(sound && apart) {
            return Err(DecodeError::Invalid("ranges that are not in order"));
        }
        Ok(told)
    }
}
