//! The first block of a segment file: whose it is, and what came before.
//!
//! ```text
//!   0 ┬ magic "LOGBERGS" ─ checksum u32 ─ version u32
//!  16 ┼ cluster 16 bytes
//!  32 ┼ disk 16 bytes
//!  48 ┼ node u32 ─ log u32
//!  56 ┼ segment number u64 ─ salt u64
//!  72 ┼ the preceding segment: its last record's number u64 ─ end u64 ─ checksum u32
//!  92 ┼ 1 if the file was another segment's before, u32
//!  96 ┼ its birth: second of 1970's clock u64 (0: unknown) ─ first unchosen slot u64
//! 112 ┼ zero
//! 4096┴
//! ```
//!
//! The checksum is crc32c over the whole block but itself, and stands at the same place in every
//! version: so a flipped bit is never taken for a newer program's file.

use ops::BLOCK;
use paxos::{NodeId, Slot};
use thiserror::Error;

use super::codec::{DecodeError, Encode, Reader};
use crate::version::{Speaks, Unspoken};
use crate::{ClusterId, DiskId, Identity, LogId};

const MAGIC: [u8; 8] = *b"LOGBERGS";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The version of everything in the segment.
    pub version: u8,
    pub identity: Identity,
    pub log: LogId,
    pub number: u64,
    /// Drawn at each use of a file; seeds the checksums of its records.
    pub salt: u64,
    pub predecessor: Predecessor,
    pub birth: Birth,
}

/// When the segment was made, and in what kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Birth {
    /// Whether records behind the segment's own may be those of an earlier use.
    pub in_used_file: bool,
    /// Since the beginning of 1970, by the node's clock; 0 if it had none.
    pub second: u64,
    /// All slots below were known chosen by then.
    pub first_unchosen: Slot,
}

/// The end of the preceding segment; all zero for the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predecessor {
    pub last_record: u64,
    /// The file's bytes from here on mean nothing.
    pub end: u64,
    pub checksum: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SegmentError {
    /// Nothing was ever written here, or not all of it.
    #[error("it has no valid first block")]
    NoHeader,
    #[error("it is written in {0}")]
    Version(#[from] Unspoken),
    #[error("it belongs to another cluster: point the node at its own directory")]
    OtherCluster,
    #[error("it belongs to node {0}: point the node at its own directory")]
    OtherNode(NodeId),
    #[error(
        "it comes from another disk of this node: a copied directory cannot stand in for a lost one, join as a new node"
    )]
    OtherDisk,
    #[error("it belongs to log {0}: somebody moved it; move it back")]
    OtherLog(LogId),
    #[error("it is segment {0} by its content: somebody renamed it; rename it back")]
    OtherNumber(u64),
}

impl SegmentHeader {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK);
        out.extend_from_slice(&MAGIC);
        0u32.put(&mut out);
        u32::from(self.version).put(&mut out);
        out.extend_from_slice(&self.identity.cluster.0);
        out.extend_from_slice(&self.identity.disk.0);
        self.identity.node.put(&mut out);
        self.log.0.put(&mut out);
        self.number.put(&mut out);
        self.salt.put(&mut out);
        self.predecessor.last_record.put(&mut out);
        self.predecessor.end.put(&mut out);
        self.predecessor.checksum.put(&mut out);
        u32::from(self.birth.in_used_file).put(&mut out);
        self.birth.second.put(&mut out);
        self.birth.first_unchosen.put(&mut out);
        out.resize(BLOCK, 0);
        let checksum = block_checksum(&out);
        out[8..12].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub fn decode(speaks: Speaks, block: &[u8]) -> Result<SegmentHeader, SegmentError> {
        let block = block.get(..BLOCK).ok_or(SegmentError::NoHeader)?;
        let mut from = Reader::new(block);
        parse_header(speaks, &mut from, block).map_err(|_| SegmentError::NoHeader)?
    }

    /// Refuses a file that is not that segment of that log in that node's directory.
    pub fn belongs_to(
        &self,
        identity: &Identity,
        log: LogId,
        number: u64,
    ) -> Result<(), SegmentError> {
        if self.identity.cluster != identity.cluster {
            Err(SegmentError::OtherCluster)
        } else if self.identity.node != identity.node {
            Err(SegmentError::OtherNode(self.identity.node))
        } else if self.identity.disk != identity.disk {
            Err(SegmentError::OtherDisk)
        } else if self.log != log {
            Err(SegmentError::OtherLog(self.log))
        } else if self.number != number {
            Err(SegmentError::OtherNumber(self.number))
        } else {
            Ok(())
        }
    }
}

fn block_checksum(block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block[..8]), &block[12..])
}

fn parse_header(
    speaks: Speaks,
    from: &mut Reader<'_>,
    block: &[u8],
) -> Result<Result<SegmentHeader, SegmentError>, DecodeError> {
    let magic = from.bytes(8)?;
    let checksum = u32::parse(from)?;
    if magic != MAGIC || checksum != block_checksum(block) {
        return Ok(Err(SegmentError::NoHeader));
    }
    let version = match speaks.check(u32::parse(from)?) {
        Ok(version) => version,
        Err(unspoken) => return Ok(Err(unspoken.into())),
    };
    let cluster = ClusterId(sixteen(from)?);
    let disk = DiskId(sixteen(from)?);
    let node = NodeId::parse(from)?;
    Ok(Ok(SegmentHeader {
        version,
        identity: Identity {
            cluster,
            node,
            disk,
        },
        log: LogId(u32::parse(from)?),
        number: u64::parse(from)?,
        salt: u64::parse(from)?,
        predecessor: Predecessor {
            last_record: u64::parse(from)?,
            end: u64::parse(from)?,
            checksum: u32::parse(from)?,
        },
        birth: Birth {
            in_used_file: u32::parse(from)? != 0,
            second: u64::parse(from)?,
            first_unchosen: Slot::parse(from)?,
        },
    }))
}

fn sixteen(from: &mut Reader<'_>) -> Result<[u8; 16], DecodeError> {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(from.bytes(16)?);
    Ok(bytes)
}

/// `0000000000000001.seg`
pub fn file_name(number: u64) -> String {
    format!("{number:016}.seg")
}

/// The inverse of [`file_name`].
pub fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    let number = digits.parse().ok()?;
    (number > 0 && file_name(number) == name).then_some(number)
}

/// `0000000000000001.free`: a file that is kept to become another segment's, by the number of the
/// segment that it was.
pub fn spare_name(number: u64) -> String {
    format!("{number:016}.free")
}

/// The inverse of [`spare_name`].
pub fn spare_number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".free")?;
    let number = digits.parse().ok()?;
    (number > 0 && spare_name(number) == name).then_some(number)
}

/// `log-7`
pub fn directory_name(log: LogId) -> String {
    format!("log-{log}")
}

/// The inverse of [`directory_name`].
pub fn log_of(name: &str) -> Option<LogId> {
    let log = LogId(name.strip_prefix("log-")?.parse().ok()?);
    (directory_name(log) == name).then_some(log)
}
