//! Control frames: everything but bytes on their way into a log.

use paxos::{Digest, Message, StreamName, StreamPosition, WishNumber};

use super::error::FrameError;
use super::heartbeat::Heartbeat;
use crate::codec::{DecodeError, Encode, Reader};
use crate::past::Told;
use crate::version::{self, Speaks};
use crate::{LogId, Stand};

pub const CONTROL_PREFIX: usize = 24;

/// The state of a log with all its streams fits.
pub const BODY_BYTES_MAX: u32 = 64 << 20;

/// The body of one part, which is to be short.
const PART_BODY_BYTES_MAX: u32 = 1 << 20;

/// "LBct"
const CONTROL_MAGIC: u32 = u32::from_le_bytes(*b"LBct");

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
    Part(Part),
    Wishes(Vec<WishTold>),
    /// To the other replicas of a log: how far the sender's state of it stands, and the mark of its rows.
    Stand {
        log: LogId,
        stand: Stand,
    },
    AskPiece(Piece),
    TellPiece(Piece),
    /// A question to the leader of a log's group, or its answer. The nodes' machines know what stands in it.
    AskGroup(Piece),
    TellGroup(Piece),
    /// To the directory's leader: the group of that log serves these slots, and has taken note of that version of the map.
    Serves {
        log: LogId,
        parts: Vec<ServedPart>,
    },
    /// To the directory's leader: a wish for the map of slots, in JSON.
    WantSlots(Vec<u8>),
    /// To a node that has no replicas of them: the groups of keys that the sender leads, all of them. ‡ A hint: whoever believes an old one is sent on.
    Leads(Vec<LogId>),
    /// To the directory's leader: a request of somebody at the sender's admin socket, as a line that says so; and its answer.
    AskDirector(Piece),
    TellDirector(Piece),
    /// The past of the sender's disk: the first frame of a connection, and sent again when it grew.
    Past(Told),
}

/// A question for a piece of a log's state, or its answer. The nodes' hosts know what stands in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub log: LogId,
    pub request: u64,
    /// At most [`STATE_PIECE_BYTES_MAX`].
    pub bytes: Vec<u8>,
}

/// Slots that a group serves, by the wish of this version of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedPart {
    pub first: u16,
    pub last: u16,
    pub since: u32,
}

/// To the directory's leader: what the directory wants of a log and that log has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WishTold {
    pub log: LogId,
    pub number: WishNumber,
    /// The log has ended by it.
    pub sealed: bool,
}

impl Frame {
    /// The first version whose programs understand it.
    pub fn since(&self) -> u8 {
        match self {
            Frame::Engine {
                message: Message::AskBarrier { .. } | Message::Barrier { .. },
                ..
            } => version::BARRIERS,
            Frame::Wishes(_) => version::WISHES,
            Frame::Past(_) => version::PASTS,
            Frame::Stand { .. }
            | Frame::AskPiece(_)
            | Frame::TellPiece(_)
            | Frame::AskGroup(_)
            | Frame::TellGroup(_)
            | Frame::Serves { .. }
            | Frame::WantSlots(_)
            | Frame::Leads(_) => version::KINDS,
            Frame::AskDirector(_) | Frame::TellDirector(_) => version::TOKENS,
            _ => version::FIRST,
        }
    }
}

/// A piece of a longer frame, prefix and all. Those of one frame come in order, and others may come
/// between them. Only for peers whose greeting said that they put them together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub log: LogId,
    pub last: bool,
    pub bytes: Vec<u8>,
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

/// The result of reading a piece of a stream from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examined {
    /// Every record in it is sound.
    Digest(Digest),
    /// Some of it is not held, and what is held is sound.
    NotHere,
    /// A record could not be read, or its checksum is wrong.
    Damaged,
}

/// One row of a state is at most so long, and its frame with it.
pub const STATE_PIECE_BYTES_MAX: usize = 24 << 20;

/// A wish for the map of slots is at most so long.
pub const WANTED_BYTES_MAX: usize = 1 << 20;

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

pub(super) const ENGINE: u8 = 1;
const HEARTBEAT: u8 = 2;
const FETCH_BYTES: u8 = 3;
const BYTES_NOT_HERE: u8 = 4;
const ASK_DIGEST: u8 = 5;
const TELL_DIGEST: u8 = 6;
const PART: u8 = 7;
const WISHES: u8 = 8;
const PAST: u8 = 9;
const STAND: u8 = 10;
const ASK_PIECE: u8 = 11;
const TELL_PIECE: u8 = 12;
const ASK_GROUP: u8 = 13;
const TELL_GROUP: u8 = 14;
const SERVES: u8 = 15;
const WANT_SLOTS: u8 = 16;
const LEADS: u8 = 17;
const ASK_DIRECTOR: u8 = 18;
const TELL_DIRECTOR: u8 = 19;

/// The name of frames of that kind, for people.
pub(super) fn kind_name(kind: u8) -> &'static str {
    match kind {
        ENGINE => "engine message",
        HEARTBEAT => "heartbeat",
        FETCH_BYTES => "fetch bytes",
        BYTES_NOT_HERE => "bytes not here",
        ASK_DIGEST => "ask digest",
        TELL_DIGEST => "tell digest",
        PART => "part of a frame",
        WISHES => "wishes",
        PAST => "past",
        STAND => "stand",
        ASK_PIECE => "ask piece",
        TELL_PIECE => "tell piece",
        ASK_GROUP => "ask group",
        TELL_GROUP => "tell group",
        SERVES => "serves",
        WANT_SLOTS => "want slots",
        LEADS => "leads",
        ASK_DIRECTOR => "ask director",
        TELL_DIRECTOR => "tell director",
        _ => "unknown",
    }
}

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
        Frame::Part(part) => {
            part.last.put(&mut out);
            out.extend_from_slice(&part.bytes);
            (PART, part.log)
        }
        Frame::Wishes(told) => {
            told.put(&mut out);
            (WISHES, LogId(0))
        }
        Frame::Past(told) => {
            told.put(&mut out);
            (PAST, LogId(0))
        }
        Frame::Stand { log, stand } => {
            stand.put(&mut out);
            (STAND, *log)
        }
        Frame::AskPiece(piece) => {
            piece.put(&mut out);
            (ASK_PIECE, piece.log)
        }
        Frame::TellPiece(piece) => {
            piece.put(&mut out);
            (TELL_PIECE, piece.log)
        }
        Frame::AskGroup(piece) => {
            piece.put(&mut out);
            (ASK_GROUP, piece.log)
        }
        Frame::TellGroup(piece) => {
            piece.put(&mut out);
            (TELL_GROUP, piece.log)
        }
        Frame::AskDirector(piece) => {
            piece.put(&mut out);
            (ASK_DIRECTOR, piece.log)
        }
        Frame::TellDirector(piece) => {
            piece.put(&mut out);
            (TELL_DIRECTOR, piece.log)
        }
        Frame::Serves { log, parts } => {
            parts.put(&mut out);
            (SERVES, *log)
        }
        Frame::Leads(groups) => {
            groups.put(&mut out);
            (LEADS, LogId(0))
        }
        Frame::WantSlots(bytes) => {
            out.extend_from_slice(bytes);
            (WANT_SLOTS, LogId(0))
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
    let most = match kind {
        PART => PART_BODY_BYTES_MAX,
        _ => BODY_BYTES_MAX,
    };
    if prefix.body_length > most {
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
        PART => Frame::Part(Part {
            log: prefix.log,
            last: bool::parse(from)?,
            bytes: from.rest().to_vec(),
        }),
        WISHES if prefix.log == LogId(0) => Frame::Wishes(Vec::parse(from)?),
        WISHES => return Err(FrameError::Invalid("wishes of one log")),
        PAST if prefix.log == LogId(0) => Frame::Past(Told::parse(from)?),
        STAND => Frame::Stand {
            log: prefix.log,
            stand: Stand::parse(from)?,
        },
        ASK_PIECE => Frame::AskPiece(Piece::parse(prefix.log, from)?),
        TELL_PIECE => Frame::TellPiece(Piece::parse(prefix.log, from)?),
        ASK_GROUP => Frame::AskGroup(Piece::parse(prefix.log, from)?),
        TELL_GROUP => Frame::TellGroup(Piece::parse(prefix.log, from)?),
        ASK_DIRECTOR if prefix.log == LogId(0) => {
            Frame::AskDirector(Piece::parse(prefix.log, from)?)
        }
        TELL_DIRECTOR if prefix.log == LogId(0) => {
            Frame::TellDirector(Piece::parse(prefix.log, from)?)
        }
        ASK_DIRECTOR | TELL_DIRECTOR => {
            return Err(FrameError::Invalid(
                "a request of the directory, of one log",
            ));
        }
        SERVES => Frame::Serves {
            log: prefix.log,
            parts: Vec::parse(from)?,
        },
        WANT_SLOTS if prefix.log == LogId(0) => {
            let bytes = from.rest();
            if bytes.len() > WANTED_BYTES_MAX {
                return Err(FrameError::Invalid("a wish for slots that is too long"));
            }
            Frame::WantSlots(bytes.to_vec())
        }
        LEADS if prefix.log == LogId(0) => Frame::Leads(Vec::parse(from)?),
        LEADS => return Err(FrameError::Invalid("groups that are led, of one log")),
        WANT_SLOTS => return Err(FrameError::Invalid("a wish for the slots of one log")),
        PAST => return Err(FrameError::Invalid("the past of one log")),
        unknown => return Err(FrameError::Kind(unknown)),
    };
    reader.finish()?;
    Ok(frame)
}

impl Piece {
    fn put(&self, out: &mut Vec<u8>) {
        self.request.put(out);
        out.extend_from_slice(&self.bytes);
    }

    fn parse(log: LogId, from: &mut Reader<'_>) -> Result<Piece, FrameError> {
        let request = u64::parse(from)?;
        let bytes = from.rest();
        if bytes.len() > STATE_PIECE_BYTES_MAX {
            return Err(FrameError::Invalid("a piece of a state that is too long"));
        }
        Ok(Piece {
            log,
            request,
            bytes: bytes.to_vec(),
        })
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

impl Encode for ServedPart {
    const BYTES_MIN: usize = 2 + 2 + 4;
    fn put(&self, out: &mut Vec<u8>) {
        self.first.put(out);
        self.last.put(out);
        self.since.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<ServedPart, DecodeError> {
        Ok(ServedPart {
            first: u16::parse(from)?,
            last: u16::parse(from)?,
            since: u32::parse(from)?,
        })
    }
}

impl Encode for WishTold {
    const BYTES_MIN: usize = 4 + WishNumber::BYTES_MIN + 1;
    fn put(&self, out: &mut Vec<u8>) {
        self.log.put(out);
        self.number.put(out);
        self.sealed.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<WishTold, DecodeError> {
        Ok(WishTold {
            log: LogId::parse(from)?,
            number: WishNumber::parse(from)?,
            sealed: bool::parse(from)?,
        })
    }
}
