//! The words that two nodes exchange all the time.

use paxos::{Message, NodeId};

use crate::LogId;
use crate::codec::{DecodeError, Encode, Reader};

/// A warning, as a heartbeat carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The node whose word it is: the sender, or one that the receiver does not hear.
    pub by: NodeId,
    /// The kind of the warning, perhaps a newer program's.
    pub code: u8,
    pub about: NodeId,
    pub with: NodeId,
    pub log: LogId,
    pub logs: u32,
    pub amount: u64,
    /// It is so now; else it was so not long ago.
    pub is_active: bool,
}

/// In one heartbeat.
pub const TOLD_MAX: usize = 256;

/// One per pair of nodes, for all their logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    pub round: u64,
    /// The last round heard from the receiver; 0 if none.
    pub answers: u64,
    /// `LeaderStatus` and `FollowerStatus` only.
    pub entries: Vec<(LogId, Message)>,
    pub free_bytes: u64,
    /// No program that does not speak it starts on the sender's disk any more.
    pub disk_version: u8,
    /// The version of the members in the sender's directory, and the leaving nodes that have no part any more
    /// in a log that it leads.
    pub members_version: u64,
    pub parted: Vec<(LogId, NodeId)>,
    /// The sender's, and those of nodes that the receiver does not hear; none if this heartbeat says
    /// nothing of them.
    pub warnings: Option<Vec<Told>>,
}

impl Encode for Heartbeat {
    const BYTES_MIN: usize = 45;
    fn put(&self, out: &mut Vec<u8>) {
        self.round.put(out);
        self.answers.put(out);
        self.entries.put(out);
        self.free_bytes.put(out);
        self.disk_version.put(out);
        self.members_version.put(out);
        self.parted.put(out);
        self.warnings.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Heartbeat, DecodeError> {
        let heartbeat = Heartbeat {
            round: u64::parse(from)?,
            answers: u64::parse(from)?,
            entries: Vec::parse(from)?,
            free_bytes: u64::parse(from)?,
            disk_version: u8::parse(from)?,
            members_version: u64::parse(from)?,
            parted: Vec::parse(from)?,
            warnings: Option::parse(from)?,
        };
        let is_status = |message: &Message| {
            matches!(
                message,
                Message::LeaderStatus { .. } | Message::FollowerStatus { .. }
            )
        };
        if !heartbeat.entries.iter().all(|(_, entry)| is_status(entry)) {
            return Err(DecodeError::Invalid("a heartbeat's entry"));
        }
        let told = heartbeat.warnings.as_ref();
        if told.is_some_and(|told| told.len() > TOLD_MAX) {
            return Err(DecodeError::TooLong("a heartbeat's list of warnings"));
        }
        Ok(heartbeat)
    }
}

impl Encode for Told {
    const BYTES_MIN: usize = 30;
    fn put(&self, out: &mut Vec<u8>) {
        self.by.put(out);
        self.code.put(out);
        self.about.put(out);
        self.with.put(out);
        self.log.put(out);
        self.logs.put(out);
        self.amount.put(out);
        self.is_active.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Told, DecodeError> {
        Ok(Told {
            by: NodeId::parse(from)?,
            code: u8::parse(from)?,
            about: NodeId::parse(from)?,
            with: NodeId::parse(from)?,
            log: LogId::parse(from)?,
            logs: u32::parse(from)?,
            amount: u64::parse(from)?,
            is_active: bool::parse(from)?,
        })
    }
}
