//! What peers send each other: small control frames, and data frames that lead bytes in.
//!
//! ```text
//! control  magic u32 ─ version u8 ─ kind u8 ─ 0 u16 ─ log u32 ─ body length u32 ─ body crc32c u32
//!          ─ crc32c of the 20 bytes before u32 ─ body
//!
//! data       0 ┬ magic u32 ─ version u8 ─ kind u8 ─ value kind u8 ─ 0 u8 ─ log u32
//!           12 ┼ payload length u32 ─ digest u32
//!           20 ┼ term: era, number, owner          | 0
//!           32 ┼ first slot u64 ─ slot count u64   | request u64 ─ position u64
//!           48 ┼ chosen up to u64                  | 0
//!           56 ┼ stream: owner, incarnation, counter ─ 0 u32
//!           72 ┼ offset u64                        | 0
//!           80 ┼ zero ─ 92 crc32c of the 92 bytes before u32
//!           96 ┴ payload
//! ```
//!
//! A slot is never inferred by counting: every batch says its own.

use paxos::{
    Digest, Message, NodeId, Offset, Proposal, Slot, SlotRange, StreamName, StreamPosition, Term,
    Value,
};
use std::sync::Arc;
use thiserror::Error;

use super::codec::{self, DecodeError, Encode, Reader};
use super::record::PAYLOAD_BYTES_MAX;
use crate::LogId;
use crate::health::{TOLD_MAX, Told};
use crate::version::{Speaks, Unspoken};

pub const CONTROL_PREFIX: usize = 24;
pub const DATA_HEADER: usize = 96;

/// States of logs with many streams travel in one frame.
pub const BODY_BYTES_MAX: u32 = 64 << 20;

/// "LBct"
const CONTROL_MAGIC: u32 = u32::from_le_bytes(*b"LBct");
/// "LBdt"
const DATA_MAGIC: u32 = u32::from_le_bytes(*b"LBdt");

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Any message but a proposal, which travels with its bytes in a data frame.
    Engine {
        log: LogId,
        message: Message,
    },
    Heartbeat(Heartbeat),
    FetchBytes(FetchBytes),
    BytesNotHere(BytesNotHere),
    AskDigest(AskDigest),
    TellDigest(TellDigest),
}

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
    /// What the sender's directory calls its members' version, and who of those that leave has no part any
    /// more in which log that it leads.
    pub members_version: u64,
    pub parted: Vec<(LogId, NodeId)>,
    /// The sender's, and those of nodes that the receiver does not hear; none if this heartbeat says
    /// nothing of them.
    pub warnings: Option<Vec<Told>>,
}

/// Asks for the stream's bytes `from..to`, for storing as bytes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchBytes {
    pub log: LogId,
    pub request: u64,
    pub stream: StreamName,
    pub from: StreamPosition,
    pub to: StreamPosition,
}

/// The answer of a node that does not hold the byte at `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesNotHere {
    pub log: LogId,
    pub request: u64,
    pub stream: StreamName,
    pub from: StreamPosition,
}

/// Asks what the stream's bytes `from..to` come to on the receiver's disk. Only for peers whose greeting
/// said that they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskDigest {
    pub log: LogId,
    pub request: u64,
    pub stream: StreamName,
    pub from: StreamPosition,
    pub to: StreamPosition,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TellDigest {
    pub log: LogId,
    pub request: u64,
    pub found: Examined,
}

/// What reading a piece of a stream from the disk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examined {
    /// Every record in it is sound.
    Digest(Digest),
    /// Some of it is not held, and what is held is sound.
    NotHere,
    /// A record could not be read, or its checksum is wrong.
    Damaged,
}

/// A question is about so many bytes at most.
pub const PIECE_BYTES_MAX: u64 = 1 << 20;

/// A control frame's first bytes, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlPrefix {
    kind: u8,
    log: LogId,
    body_length: u32,
    body_checksum: u32,
}

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

/// Why a frame is refused. The connection it came on is of no more use: what follows cannot be
/// told from what it destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("the peer does not speak frames here")]
    Magic,
    #[error("a frame in {0}")]
    Version(#[from] Unspoken),
    #[error("a frame arrived damaged")]
    Checksum,
    #[error("a frame of {0} bytes is too long")]
    TooLong(u32),
    #[error("frame kind {0} is unknown")]
    Kind(u8),
    #[error("a frame is inconsistent: {0}")]
    Invalid(&'static str),
    #[error("a frame's body cannot be read: {0}")]
    Body(#[from] DecodeError),
}

impl FrameError {
    /// The peer should have known that this program does not speak it.
    pub fn is_of_version(&self) -> bool {
        matches!(
            self,
            FrameError::Version(_) | FrameError::Body(DecodeError::Version(_))
        )
    }
}

const ENGINE: u8 = 1;
const HEARTBEAT: u8 = 2;
const FETCH_BYTES: u8 = 3;
const BYTES_NOT_HERE: u8 = 4;
const ASK_DIGEST: u8 = 5;
const TELL_DIGEST: u8 = 6;

const PROPOSE: u8 = 1;
const BYTES: u8 = 2;

pub fn encode_control(version: u8, frame: &Frame) -> Vec<u8> {
    let mut out = vec![0; CONTROL_PREFIX];
    let (kind, log) = match frame {
        Frame::Engine { log, message } => {
            message.put(&mut out);
            (ENGINE, *log)
        }
        Frame::Heartbeat(heartbeat) => {
            heartbeat.put(&mut out);
            (HEARTBEAT, LogId(0))
        }
        Frame::FetchBytes(fetch) => {
            fetch.request.put(&mut out);
            fetch.stream.put(&mut out);
            fetch.from.put(&mut out);
            fetch.to.put(&mut out);
            (FETCH_BYTES, fetch.log)
        }
        Frame::BytesNotHere(missing) => {
            missing.request.put(&mut out);
            missing.stream.put(&mut out);
            missing.from.put(&mut out);
            (BYTES_NOT_HERE, missing.log)
        }
        Frame::AskDigest(ask) => {
            ask.request.put(&mut out);
            ask.stream.put(&mut out);
            ask.from.put(&mut out);
            ask.to.put(&mut out);
            (ASK_DIGEST, ask.log)
        }
        Frame::TellDigest(told) => {
            told.request.put(&mut out);
            told.found.put(&mut out);
            (TELL_DIGEST, told.log)
        }
    };
    let body = &out[CONTROL_PREFIX..];
    assert!(
        body.len() <= BODY_BYTES_MAX as usize,
        "a control frame has room for every state"
    );
    let mut prefix = Vec::with_capacity(CONTROL_PREFIX);
    CONTROL_MAGIC.put(&mut prefix);
    prefix.extend_from_slice(&[version, kind, 0, 0]);
    log.0.put(&mut prefix);
    (body.len() as u32).put(&mut prefix);
    crc32c::crc32c(body).put(&mut prefix);
    crc32c::crc32c(&prefix).put(&mut prefix);
    out[..CONTROL_PREFIX].copy_from_slice(&prefix);
    out
}

pub fn decode_control_prefix(
    speaks: Speaks,
    bytes: &[u8; CONTROL_PREFIX],
) -> Result<ControlPrefix, FrameError> {
    let mut from = Reader::new(bytes);
    let from = &mut from;
    if u32::parse(from)? != CONTROL_MAGIC {
        return Err(FrameError::Magic);
    }
    let version = u8::parse(from)?;
    let kind = u8::parse(from)?;
    let zero = u16::parse(from)?;
    let prefix = ControlPrefix {
        kind,
        log: LogId(u32::parse(from)?),
        body_length: u32::parse(from)?,
        body_checksum: u32::parse(from)?,
    };
    if u32::parse(from)? != crc32c::crc32c(&bytes[..20]) {
        return Err(FrameError::Checksum);
    }
    speaks.check(u32::from(version))?;
    if zero != 0 {
        return Err(FrameError::Invalid("unused bytes are not zero"));
    }
    if prefix.body_length > BODY_BYTES_MAX {
        return Err(FrameError::TooLong(prefix.body_length));
    }
    Ok(prefix)
}

impl ControlPrefix {
    pub fn body_length(&self) -> usize {
        self.body_length as usize
    }
}

pub fn decode_control_body(prefix: &ControlPrefix, body: &[u8]) -> Result<Frame, FrameError> {
    if body.len() != prefix.body_length() || crc32c::crc32c(body) != prefix.body_checksum {
        return Err(FrameError::Checksum);
    }
    let mut reader = Reader::new(body);
    let from = &mut reader;
    let frame = match prefix.kind {
        ENGINE => Frame::Engine {
            log: prefix.log,
            message: Message::parse(from)?,
        },
        HEARTBEAT if prefix.log == LogId(0) => Frame::Heartbeat(Heartbeat::parse(from)?),
        HEARTBEAT => return Err(FrameError::Invalid("a heartbeat of one log")),
        FETCH_BYTES => {
            let fetch = FetchBytes {
                log: prefix.log,
                request: u64::parse(from)?,
                stream: StreamName::parse(from)?,
                from: StreamPosition::parse(from)?,
                to: StreamPosition::parse(from)?,
            };
            if fetch.to <= fetch.from {
                return Err(FrameError::Invalid("a fetch of nothing"));
            }
            Frame::FetchBytes(fetch)
        }
        BYTES_NOT_HERE => Frame::BytesNotHere(BytesNotHere {
            log: prefix.log,
            request: u64::parse(from)?,
            stream: StreamName::parse(from)?,
            from: StreamPosition::parse(from)?,
        }),
        ASK_DIGEST => {
            let ask = AskDigest {
                log: prefix.log,
                request: u64::parse(from)?,
                stream: StreamName::parse(from)?,
                from: StreamPosition::parse(from)?,
                to: StreamPosition::parse(from)?,
            };
            let length = ask.to.0.checked_sub(ask.from.0);
            if !length.is_some_and(|length| (1..=PIECE_BYTES_MAX).contains(&length)) {
                return Err(FrameError::Invalid("a digest of nothing, or of too much"));
            }
            Frame::AskDigest(ask)
        }
        TELL_DIGEST => Frame::TellDigest(TellDigest {
            log: prefix.log,
            request: u64::parse(from)?,
            found: Examined::parse(from)?,
        }),
        unknown => return Err(FrameError::Kind(unknown)),
    };
    reader.finish()?;
    Ok(frame)
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
            && (payload.is_empty() || super::digest(payload) == self.digest())
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

impl Encode for LogId {
    const BYTES_MIN: usize = 4;
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<LogId, DecodeError> {
        Ok(LogId(u32::parse(from)?))
    }
}

impl Encode for Examined {
    const BYTES_MIN: usize = 5;
    fn put(&self, out: &mut Vec<u8>) {
        let (kind, digest) = match self {
            Examined::Digest(digest) => (1u8, digest.0),
            Examined::NotHere => (2, 0),
            Examined::Damaged => (3, 0),
        };
        kind.put(out);
        digest.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Examined, DecodeError> {
        match (u8::parse(from)?, u32::parse(from)?) {
            (1, digest) => Ok(Examined::Digest(Digest(digest))),
            (2, 0) => Ok(Examined::NotHere),
            (3, 0) => Ok(Examined::Damaged),
            _ => Err(DecodeError::Invalid("what was examined")),
        }
    }
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
