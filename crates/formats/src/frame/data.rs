//! Headers of data frames, which lead bytes in.

use std::sync::Arc;

use paxos::{Digest, Offset, Proposal, Slot, SlotRange, StreamName, StreamPosition, Term, Value};

use super::error::FrameError;
use crate::LogId;
use crate::codec::{self, DecodeError, Encode, Reader};
use crate::record::PAYLOAD_BYTES_MAX;
use crate::version::Speaks;

pub const DATA_HEADER: usize = 96;

/// "LBdt"
const DATA_MAGIC: u32 = u32::from_le_bytes(*b"LBdt");

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataHeader {
    Propose(ProposeHeader),
    /// Content asked for with [`FetchBytes`].
    Bytes(BytesHeader),
}

/// A proposal; the payload is the content, the encoded action, or nothing: for no-ops, and for
/// content that the receiver is known to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposeHeader {
    pub log: LogId,
    pub term: Term,
    pub slots: SlotRange,
    pub value: ProposedValue,
    pub digest: Digest,
    pub chosen_up_to: Slot,
    pub payload_length: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposedValue {
    NoOp,
    Content {
        stream: StreamName,
        offset: Offset,
    },
    /// It is in the payload.
    Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesHeader {
    pub log: LogId,
    pub request: u64,
    pub stream: StreamName,
    pub position: StreamPosition,
    pub digest: Digest,
    pub payload_length: u32,
}

const PROPOSE: u8 = 1;
const BYTES: u8 = 2;

/// The name of frames of that kind, for people.
pub(super) fn kind_name(kind: u8) -> &'static str {
    match kind {
        PROPOSE => "propose",
        BYTES => "bytes",
        _ => "unknown",
    }
}

impl DataHeader {
    pub fn log(&self) -> LogId {
        match self {
            DataHeader::Propose(header) => header.log,
            DataHeader::Bytes(header) => header.log,
        }
    }

    pub fn payload_length(&self) -> usize {
        match self {
            DataHeader::Propose(header) => header.payload_length as usize,
            DataHeader::Bytes(header) => header.payload_length as usize,
        }
    }

    pub fn digest(&self) -> Digest {
        match self {
            DataHeader::Propose(header) => header.digest,
            DataHeader::Bytes(header) => header.digest,
        }
    }

    pub fn encode(&self, version: u8) -> [u8; DATA_HEADER] {
        let mut out = Vec::with_capacity(DATA_HEADER);
        let (kind, value) = match self {
            DataHeader::Propose(header) => match header.value {
                ProposedValue::NoOp => (PROPOSE, 0),
                ProposedValue::Content { .. } => (PROPOSE, 1),
                ProposedValue::Action => (PROPOSE, 2),
            },
            DataHeader::Bytes(_) => (BYTES, 0),
        };
        DATA_MAGIC.put(&mut out);
        out.extend_from_slice(&[version, kind, value, 0]);
        self.log().0.put(&mut out);
        (self.payload_length() as u32).put(&mut out);
        self.digest().0.put(&mut out);
        match self {
            DataHeader::Propose(header) => {
                let (stream, offset) = match header.value {
                    ProposedValue::Content { stream, offset } => (stream, offset),
                    _ => Default::default(),
                };
                header.term.put(&mut out);
                header.slots.start.put(&mut out);
                header.slots.len().put(&mut out);
                header.chosen_up_to.put(&mut out);
                stream.put(&mut out);
                0u32.put(&mut out);
                offset.put(&mut out);
            }
            DataHeader::Bytes(header) => {
                Term::default().put(&mut out);
                header.request.put(&mut out);
                header.position.put(&mut out);
                0u64.put(&mut out);
                header.stream.put(&mut out);
            }
        }
        out.resize(92, 0);
        crc32c::crc32c(&out).put(&mut out);
        let mut bytes = [0; DATA_HEADER];
        bytes.copy_from_slice(&out);
        bytes
    }

    pub fn decode(speaks: Speaks, bytes: &[u8]) -> Result<DataHeader, FrameError> {
        let bytes = bytes.get(..DATA_HEADER).ok_or(DecodeError::Short)?;
        let mut reader = Reader::new(bytes);
        let from = &mut reader;
        if u32::parse(from)? != DATA_MAGIC {
            return Err(FrameError::Magic);
        }
        if bytes[92..] != crc32c::crc32c(&bytes[..92]).to_le_bytes() {
            return Err(FrameError::Checksum);
        }
        let version = speaks.check(u32::from(u8::parse(from)?))?;
        let kind = u8::parse(from)?;
        let value = u8::parse(from)?;
        u8::parse(from)?;
        let log = LogId(u32::parse(from)?);
        let payload_length = u32::parse(from)?;
        let digest = Digest(u32::parse(from)?);
        if payload_length as usize > PAYLOAD_BYTES_MAX {
            return Err(FrameError::TooLong(payload_length));
        }
        let term = Term::parse(from)?;
        let first = u64::parse(from)?;
        let second = u64::parse(from)?;
        let third = u64::parse(from)?;
        let stream = StreamName::parse(from)?;
        u32::parse(from)?;
        let offset = Offset::parse(from)?;
        let header = match kind {
            PROPOSE => {
                let value = match value {
                    0 => ProposedValue::NoOp,
                    1 => ProposedValue::Content { stream, offset },
                    2 => ProposedValue::Action,
                    _ => return Err(FrameError::Invalid("the proposed value's kind is unknown")),
                };
                let end = first.checked_add(second);
                let end = end.ok_or(FrameError::Invalid("its slots do not end"))?;
                DataHeader::Propose(ProposeHeader {
                    log,
                    term,
                    slots: SlotRange::new(Slot(first), Slot(end)),
                    value,
                    digest,
                    chosen_up_to: Slot(third),
                    payload_length,
                })
            }
            BYTES => DataHeader::Bytes(BytesHeader {
                log,
                request: first,
                stream,
                position: StreamPosition(second),
                digest,
                payload_length,
            }),
            unknown => return Err(FrameError::Kind(unknown)),
        };
        header.check()?;
        // One header, one encoding: what this version does not use must be zero.
        if header.encode(version) != bytes {
            return Err(FrameError::Invalid("unused bytes are not zero"));
        }
        Ok(header)
    }

    fn check(&self) -> Result<(), FrameError> {
        let fits = match self {
            DataHeader::Propose(header) => {
                let payload = header.payload_length as u64;
                let count = header.slots.len();
                match header.value {
                    ProposedValue::NoOp => count > 0 && payload == 0 && header.digest.0 == 0,
                    ProposedValue::Action => count == 1 && payload > 0,
                    ProposedValue::Content { offset, .. } => {
                        count > 0
                            && (payload == 0 || payload == count)
                            && offset.0 <= header.slots.start.0
                    }
                }
            }
            DataHeader::Bytes(header) => {
                let length = header.payload_length as u64;
                length > 0 && header.position.0.checked_add(length).is_some()
            }
        };
        fits.then_some(())
            .ok_or(FrameError::Invalid("the payload does not fit the header"))
    }

    /// Whether these are the bytes the header announced.
    pub fn payload_is_right(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload_length()
            && (payload.is_empty() || crate::digest(payload) == self.digest())
    }
}

impl ProposeHeader {
    /// The header of this proposal with so much content (actions need their payload's length).
    pub fn new(log: LogId, proposal: &Proposal, payload_length: usize) -> ProposeHeader {
        ProposeHeader {
            log,
            term: proposal.term,
            slots: proposal.slots,
            value: match &proposal.value {
                Value::NoOp => ProposedValue::NoOp,
                Value::Content { stream, offset } => ProposedValue::Content {
                    stream: *stream,
                    offset: *offset,
                },
                Value::Action(_) => ProposedValue::Action,
            },
            digest: proposal.digest,
            chosen_up_to: proposal.chosen_up_to,
            payload_length: payload_length as u32,
        }
    }

    /// The proposal, its action decoded from the payload.
    pub fn proposal(&self, speaks: Speaks, payload: &[u8]) -> Result<Proposal, FrameError> {
        Ok(Proposal {
            term: self.term,
            slots: self.slots,
            value: match self.value {
                ProposedValue::NoOp => Value::NoOp,
                ProposedValue::Content { stream, offset } => Value::Content { stream, offset },
                ProposedValue::Action => Value::Action(Arc::new(codec::decode(speaks, payload)?)),
            },
            digest: self.digest,
            chosen_up_to: self.chosen_up_to,
        })
    }
}
