//! One durable fact, as it stands in a segment.
//!
//! ```text
//!   0 ┬ magic u32 ─ checksum u32 ─ kind u8 ─ value kind u8 ─ 0 u16 ─ total length u32
//!  16 ┼ payload length u32 ─ payload digest u32 ─ predecessor's checksum u32 ─ log u32
//!  32 ┼ salt u64 ─ number u64
//!  48 ┼ watermark u64 ─ promised: era u32, number u32, owner u32
//!  68 ┼ term: era u32, number u32, owner u32
//!  80 ┼ first unchosen slot u64 ─ accepted up to u64
//!  96 ┼ first slot u64 ─ slot count u64
//! 112 ┼ stream: owner u32, incarnation u32, counter u32 ─ 0 u32 ─ position u64
//! 136 ┼ learn past u64 ─ zero
//! 192 ┼ payload
//!     ┴ zero up to the next multiple of 4096
//! ```
//!
//! The checksum is crc32c over the header but itself, seeded with the segment's salt. It covers the
//! payload's digest, which is the plain crc32c of the payload: so the digest that acceptances carry
//! is computed once, and yet an old generation's payload cannot pass for a new one's.

use ops::BLOCK;
use paxos::mutation::{self, Mutation};
use paxos::{Digest, NodeId, PromisedTerm, Slot, SlotRange, StreamName, StreamPosition, Term};
use thiserror::Error;

use super::codec::{Encode, Reader};
use crate::LogId;

pub const RECORD_HEADER: usize = 192;

/// A full record of content: what one batch's buffer holds. A block more than 256 KiB, so that who
/// appends a power of two and waits has no second batch for what the header took.
pub const BATCH_BUFFER: usize = (256 << 10) + BLOCK;

/// Content of one batch. Its bytes start at [`RECORD_HEADER`] inside the buffer.
pub const PAYLOAD_BYTES_MAX: usize = BATCH_BUFFER - RECORD_HEADER;

/// "LBrc"
const MAGIC: u32 = u32::from_le_bytes(*b"LBrc");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// First of a segment. Payload: a checkpoint.
    Checkpoint,
    /// Payload: a checkpoint, which carries the promise.
    Promise,
    /// The state jumped to a peer's. Payload: a checkpoint.
    State,
    /// Payload: content, or the encoded action, or nothing. Content without payload is accepted
    /// over bytes that other records hold.
    Accept,
    /// Backfilled content: no acceptance.
    Bytes,
    /// `slots.len()` bytes of the stream from the position on are not held any more.
    Lost,
    /// Nothing but a watermark.
    Idle,
    /// Payload: what the preceding segment holds. Second of a segment.
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    NoOp,
    Content,
    Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    pub kind: RecordKind,
    /// The value of an acceptance; `NoOp` for every other record.
    pub value: ValueKind,
    pub log: LogId,
    /// Counts a log's records from 1, through all its segments.
    pub number: u64,
    /// Every record up to here was known durable when this one was written.
    pub watermark: u64,
    /// The predecessor's checksum.
    pub chain: u32,
    /// This record included.
    pub promised: PromisedTerm,
    pub first_unchosen: Slot,
    /// No acceptance up to and including this record reaches beyond it.
    pub accepted_up_to: Slot,
    /// Acceptances below this slot may have been lost to corruption: no prepare is answered until
    /// every slot below it is known chosen. 0: none.
    pub learn_past: Slot,
    pub term: Term,
    pub slots: SlotRange,
    pub stream: StreamName,
    pub position: StreamPosition,
    pub payload_length: u32,
    pub digest: Digest,
}

/// Why a block does not begin a record of this segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    #[error("no record starts here")]
    NoRecord,
    #[error("a record of another use of this file")]
    OtherSalt,
    #[error("the header's checksum is wrong")]
    Checksum,
    #[error("the header is inconsistent: {0}")]
    Invalid(&'static str),
    #[error("the payload's checksum is wrong")]
    Payload,
    #[error("the device does not give it")]
    Unreadable,
}

impl RecordHeader {
    /// Its whole length on disk.
    pub fn total_length(&self) -> usize {
        total_length(self.payload_length as usize)
    }

    /// The stream's bytes in the payload, or those a `Lost` speaks of.
    pub fn bytes(&self) -> Option<std::ops::Range<u64>> {
        let length = match (self.kind, self.value) {
            (RecordKind::Accept, ValueKind::Content) | (RecordKind::Bytes, _) => {
                self.payload_length as u64
            }
            (RecordKind::Lost, _) => self.slots.len(),
            _ => 0,
        };
        (length > 0).then(|| self.position.0..self.position.0.saturating_add(length))
    }

    /// Returns the checksum, for the successor's chain.
    pub fn encode(&self, salt: u64, into: &mut [u8]) -> u32 {
        let mut out = Vec::with_capacity(RECORD_HEADER);
        MAGIC.put(&mut out);
        0u32.put(&mut out);
        out.push(match self.kind {
            RecordKind::Checkpoint => 1,
            RecordKind::Promise => 2,
            RecordKind::State => 3,
            RecordKind::Accept => 4,
            RecordKind::Bytes => 5,
            RecordKind::Lost => 6,
            RecordKind::Idle => 7,
            RecordKind::Index => 8,
        });
        out.push(match self.value {
            ValueKind::NoOp => 0,
            ValueKind::Content => 1,
            ValueKind::Action => 2,
        });
        0u16.put(&mut out);
        (self.total_length() as u32).put(&mut out);
        self.payload_length.put(&mut out);
        self.digest.0.put(&mut out);
        self.chain.put(&mut out);
        self.log.0.put(&mut out);
        salt.put(&mut out);
        self.number.put(&mut out);
        self.watermark.put(&mut out);
        self.promised.put(&mut out);
        self.term.put(&mut out);
        self.first_unchosen.put(&mut out);
        self.accepted_up_to.put(&mut out);
        self.slots.start.put(&mut out);
        self.slots.len().put(&mut out);
        self.stream.put(&mut out);
        0u32.put(&mut out);
        self.position.put(&mut out);
        self.learn_past.put(&mut out);
        out.resize(RECORD_HEADER, 0);
        let checksum = header_checksum(salt, &out);
        out[4..8].copy_from_slice(&checksum.to_le_bytes());
        into[..RECORD_HEADER].copy_from_slice(&out);
        checksum
    }

    /// Parses the header at the start of `bytes`; returns it with its checksum. Without a salt any
    /// use of the file is taken, and the salt found is returned.
    pub fn decode(
        bytes: &[u8],
        salt: Option<u64>,
    ) -> Result<(RecordHeader, u32, u64), RecordError> {
        let bytes = bytes.get(..RECORD_HEADER).ok_or(RecordError::NoRecord)?;
        if bytes[..4] != MAGIC.to_le_bytes() {
            return Err(RecordError::NoRecord);
        }
        let fields = parse_fields(bytes).map_err(|_| RecordError::NoRecord)?;
        if salt.is_some_and(|salt| salt != fields.salt) {
            return Err(RecordError::OtherSalt);
        }
        if fields.checksum != header_checksum(fields.salt, bytes) {
            return Err(RecordError::Checksum);
        }
        let header = fields.check()?;
        Ok((header, fields.checksum, fields.salt))
    }

    pub fn payload_is_right(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload_length as usize
            && (payload.is_empty()
                || super::digest(payload) == self.digest
                || mutation::is(Mutation::PayloadNotChecked))
    }
}

/// On disk, of a record with so much payload.
pub fn total_length(payload_length: usize) -> usize {
    (RECORD_HEADER + payload_length).next_multiple_of(BLOCK)
}

fn header_checksum(salt: u64, header: &[u8]) -> u32 {
    let seed = crc32c::crc32c(&salt.to_le_bytes());
    let before = crc32c::crc32c_append(seed, &header[..4]);
    crc32c::crc32c_append(before, &header[8..RECORD_HEADER])
}

/// The fields as they stand, before they are believed.
struct Fields {
    checksum: u32,
    kind: u8,
    value: u8,
    total_length: u32,
    slot_count: u64,
    salt: u64,
    zero: bool,
    header: RecordHeader,
}

fn parse_fields(bytes: &[u8]) -> Result<Fields, super::DecodeError> {
    let mut from = Reader::new(bytes);
    let from = &mut from;
    u32::parse(from)?;
    let checksum = u32::parse(from)?;
    let kind = u8::parse(from)?;
    let value = u8::parse(from)?;
    let zero_a = u16::parse(from)?;
    let total_length = u32::parse(from)?;
    let payload_length = u32::parse(from)?;
    let digest = Digest(u32::parse(from)?);
    let chain = u32::parse(from)?;
    let log = LogId(u32::parse(from)?);
    let salt = u64::parse(from)?;
    let number = u64::parse(from)?;
    let watermark = u64::parse(from)?;
    let promised = PromisedTerm::parse(from)?;
    let term = Term::parse(from)?;
    let first_unchosen = Slot::parse(from)?;
    let accepted_up_to = Slot::parse(from)?;
    let start = Slot::parse(from)?;
    let slot_count = u64::parse(from)?;
    let stream = StreamName::parse(from)?;
    let zero_b = u32::parse(from)?;
    let position = StreamPosition::parse(from)?;
    let learn_past = Slot::parse(from)?;
    let zero = zero_a == 0 && zero_b == 0 && bytes[144..RECORD_HEADER].iter().all(|b| *b == 0);
    Ok(Fields {
        checksum,
        kind,
        value,
        total_length,
        slot_count,
        salt,
        zero,
        header: RecordHeader {
            kind: RecordKind::Idle,
            value: ValueKind::NoOp,
            log,
            number,
            watermark,
            chain,
            promised,
            first_unchosen,
            accepted_up_to,
            learn_past,
            term,
            slots: SlotRange::new(start, start),
            stream,
            position,
            payload_length,
            digest,
        },
    })
}

impl Fields {
    fn check(&self) -> Result<RecordHeader, RecordError> {
        let mut header = self.header;
        header.kind = match self.kind {
            1 => RecordKind::Checkpoint,
            2 => RecordKind::Promise,
            3 => RecordKind::State,
            4 => RecordKind::Accept,
            5 => RecordKind::Bytes,
            6 => RecordKind::Lost,
            7 => RecordKind::Idle,
            8 => RecordKind::Index,
            _ => return Err(RecordError::Invalid("its kind is unknown")),
        };
        header.value = match self.value {
            0 => ValueKind::NoOp,
            1 => ValueKind::Content,
            2 => ValueKind::Action,
            _ => return Err(RecordError::Invalid("its value's kind is unknown")),
        };
        if !self.zero {
            return Err(RecordError::Invalid("unused bytes are not zero"));
        }
        if self.total_length as usize != header.total_length() {
            return Err(RecordError::Invalid("its lengths disagree"));
        }
        if header.number == 0 || header.watermark >= header.number {
            return Err(RecordError::Invalid(
                "its watermark is not below its number",
            ));
        }
        let end = header.slots.start.0.checked_add(self.slot_count);
        let end = end.ok_or(RecordError::Invalid("its slots do not end"))?;
        header.slots.end = Slot(end);
        let payload = header.payload_length as u64;
        let fits = match (header.kind, header.value) {
            (RecordKind::Accept, ValueKind::NoOp) => payload == 0 && self.slot_count > 0,
            (RecordKind::Accept, ValueKind::Action) => payload > 0 && self.slot_count == 1,
            (RecordKind::Accept, ValueKind::Content) => {
                self.slot_count > 0
                    && (payload == 0 || payload == self.slot_count)
                    && header.position.0 <= header.slots.start.0
            }
            (_, ValueKind::Content | ValueKind::Action) => false,
            (RecordKind::Bytes, _) => payload > 0 && self.slot_count == 0,
            (RecordKind::Lost, _) => payload == 0 && self.slot_count > 0,
            (RecordKind::Idle, _) => payload == 0 && self.slot_count == 0,
            _ => payload > 0 && self.slot_count == 0,
        };
        if !fits {
            return Err(RecordError::Invalid("its payload does not fit its kind"));
        }
        if let Some(bytes) = header.bytes()
            && bytes.end.checked_sub(bytes.start) != Some(payload.max(self.slot_count))
        {
            return Err(RecordError::Invalid("its bytes do not end"));
        }
        let is_content = matches!(header.kind, RecordKind::Bytes)
            || (header.kind, header.value) == (RecordKind::Accept, ValueKind::Content);
        if is_content && payload > PAYLOAD_BYTES_MAX as u64 {
            return Err(RecordError::Invalid("more content than one batch holds"));
        }
        Ok(header)
    }
}

impl Default for RecordHeader {
    /// An idle record of nobody, to be filled in.
    fn default() -> RecordHeader {
        RecordHeader {
            kind: RecordKind::Idle,
            value: ValueKind::NoOp,
            log: LogId(0),
            number: 0,
            watermark: 0,
            chain: 0,
            promised: PromisedTerm::default(),
            first_unchosen: Slot(0),
            accepted_up_to: Slot(0),
            learn_past: Slot(0),
            term: Term::default(),
            slots: SlotRange::default(),
            stream: StreamName {
                owner: NodeId(0),
                ..StreamName::default()
            },
            position: StreamPosition(0),
            payload_length: 0,
            digest: Digest(0),
        }
    }
}
