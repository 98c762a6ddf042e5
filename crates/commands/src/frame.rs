//! Frames: the units of a leader's stream.
//!
//! ```text
//! frame = kind u4 | length u28 LE, of the body | crc32c u32 LE, of the kind and the body | body
//!
//! kind 0  command             the command's bytes; the crc is of the body alone
//! kind 1  a session is opened time u64
//! kind 2  command, once       client u64 | sequence u64 | time u64 | the command's bytes
//! kind 3  part of a snapshot  part u32 | of so many u32 | its bytes
//! ```
//!
//! All numbers are little-endian. Times are microseconds of the leader's clock.

use thiserror::Error;

pub(crate) const HEADER_BYTES: usize = 8;
const KIND_SHIFT: u32 = 28;
/// The bytes before the command in a frame of kind 2.
const SESSION_BYTES: usize = 24;
/// No command is larger: a frame of a larger one is refused before it is proposed.
pub const COMMAND_BYTES_MAX: usize = 16 << 20;
/// A greater length is damage, not data.
const BODY_BYTES_MAX: usize = COMMAND_BYTES_MAX + SESSION_BYTES;

/// The bytes of commands and parts are borrowed: from the caller, or from the [`Decoder`](crate::Decoder).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Applied each time that it stands in the log.
    Command(&'a [u8]),
    /// A new session; its client's number is the answer.
    OpenSession { time: u64 },
    /// Applied once, however often it stands in the log.
    Session {
        client: u64,
        /// Greater than that of the client's command before it.
        sequence: u64,
        time: u64,
        command: &'a [u8],
    },
    SnapshotPart {
        part: u32,
        parts: u32,
        bytes: &'a [u8],
    },
    /// A frame of a later version.
    Unknown { kind: u8 },
}

/// A command that no replica would take: it is not to be proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a command of {bytes} bytes is too large: a command has at most {COMMAND_BYTES_MAX} bytes")]
pub struct TooLarge {
    pub bytes: usize,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoFrame {
    #[error("a frame there claims {0} bytes, and none has more than {BODY_BYTES_MAX}")]
    Length(usize),
    #[error("the checksum of the frame there is wrong")]
    Checksum,
    #[error("the frame of kind {kind} there has only {bytes} bytes")]
    Body { kind: u8, bytes: usize },
}

impl<'a> Frame<'a> {
    pub fn encode(&self) -> Result<Vec<u8>, TooLarge> {
        let mut frame = Vec::new();
        self.append_to(&mut frame)?;
        Ok(frame)
    }

    /// After an error `into` is as it was.
    pub fn append_to(&self, into: &mut Vec<u8>) -> Result<(), TooLarge> {
        let mut numbers = [0; SESSION_BYTES];
        let (kind, numbers, bytes): (u8, &[u8], &[u8]) = match self {
            Frame::Command(command) => (0, &[], command),
            Frame::OpenSession { time } => {
                numbers[..8].copy_from_slice(&time.to_le_bytes());
                (1, &numbers[..8], &[])
            }
            Frame::Session {
                client,
                sequence,
                time,
                command,
            } => {
                for (at, number) in [client, sequence, time].into_iter().enumerate() {
                    numbers[8 * at..][..8].copy_from_slice(&number.to_le_bytes());
                }
                (2, &numbers, command)
            }
            Frame::SnapshotPart { part, parts, bytes } => {
                numbers[..4].copy_from_slice(&part.to_le_bytes());
                numbers[4..8].copy_from_slice(&parts.to_le_bytes());
                (3, &numbers[..8], bytes)
            }
            Frame::Unknown { kind } => (*kind & 0xF, &[], &[]),
        };
        if bytes.len() > COMMAND_BYTES_MAX {
            return Err(TooLarge { bytes: bytes.len() });
        }
        let length = numbers.len() + bytes.len();
        let word = u32::from(kind) << KIND_SHIFT | length as u32;
        into.reserve(HEADER_BYTES + length);
        into.extend_from_slice(&word.to_le_bytes());
        into.extend_from_slice(&checksum(kind, &[numbers, bytes]).to_le_bytes());
        into.extend_from_slice(numbers);
        into.extend_from_slice(bytes);
        Ok(())
    }

    /// The frame that `bytes` begin with, and how many bytes it takes. `None` if they end within it.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Option<(Frame<'a>, usize)>, NoFrame> {
        let Some((word, rest)) = bytes.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let word = u32::from_le_bytes(*word);
        let (kind, length) = ((word >> KIND_SHIFT) as u8, word & ((1 << KIND_SHIFT) - 1));
        let length = length as usize;
        if length > BODY_BYTES_MAX {
            return Err(NoFrame::Length(length));
        }
        let Some((crc, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        if checksum(kind, &[body]) != u32::from_le_bytes(*crc) {
            return Err(NoFrame::Checksum);
        }
        let bytes = body.len();
        let frame = Frame::of_body(kind, body).ok_or(NoFrame::Body { kind, bytes })?;
        Ok(Some((frame, HEADER_BYTES + length)))
    }

    /// `None` if the body is shorter than its kind's.
    fn of_body(kind: u8, body: &'a [u8]) -> Option<Frame<'a>> {
        let mut left = body;
        let mut number = || {
            let (number, behind) = left.split_first_chunk::<8>()?;
            left = behind;
            Some(u64::from_le_bytes(*number))
        };
        Some(match kind {
            0 => Frame::Command(body),
            1 => Frame::OpenSession { time: number()? },
            2 => Frame::Session {
                client: number()?,
                sequence: number()?,
                time: number()?,
                command: left,
            },
            3 => {
                let both = number()?;
                Frame::SnapshotPart {
                    part: both as u32,
                    parts: (both >> 32) as u32,
                    bytes: left,
                }
            }
            kind => Frame::Unknown { kind },
        })
    }
}

/// Commands need no mark of their kind: nobody else's frames have none.
fn checksum(kind: u8, body: &[&[u8]]) -> u32 {
    let kind = match kind {
        0 => 0,
        kind => crc32c::crc32c(&[kind]),
    };
    body.iter()
        .fold(kind, |crc, bytes| crc32c::crc32c_append(crc, bytes))
}

/// A command's frame.
pub fn encode(command: &[u8]) -> Result<Vec<u8>, TooLarge> {
    Frame::Command(command).encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_these_bytes() {
        let command = encode(b"123456789").unwrap();
        assert_eq!(command[..8], [9, 0, 0, 0, 0x83, 0x92, 0x06, 0xE3]);
        assert_eq!(command[8..], *b"123456789");
        let open = Frame::OpenSession { time: 1 }.encode().unwrap();
        assert_eq!(open[..4], [8, 0, 0, 0x10]);
        assert_eq!(open[8..], [1, 0, 0, 0, 0, 0, 0, 0]);
        let part = Frame::SnapshotPart {
            part: 1,
            parts: 2,
            bytes: b"x",
        };
        let part = part.encode().unwrap();
        assert_eq!(part[..4], [9, 0, 0, 0x30]);
        assert_eq!(part[8..], [1, 0, 0, 0, 2, 0, 0, 0, b'x']);
    }

    #[test]
    fn a_command_over_the_limit_is_refused_and_leaves_nothing_behind() {
        let command = vec![0; COMMAND_BYTES_MAX + 1];
        let mut bytes = encode(b"before").unwrap();
        let before = bytes.clone();
        let refused = Frame::Command(&command).append_to(&mut bytes).unwrap_err();
        assert_eq!(bytes, before);
        assert_eq!(
            refused.to_string(),
            "a command of 16777217 bytes is too large: a command has at most 16777216 bytes"
        );
        let once = Frame::Session {
            client: 1,
            sequence: 1,
            time: 1,
            command: &command,
        };
        assert_eq!(once.encode(), Err(refused));
        let largest = &command[1..];
        let frame = encode(largest).unwrap();
        let decoded = Frame::decode(&frame).unwrap();
        assert_eq!(decoded, Some((Frame::Command(largest), frame.len())));
        let once = Frame::Session {
            client: 1,
            sequence: 1,
            time: 1,
            command: largest,
        };
        let frame = once.encode().unwrap();
        assert_eq!(Frame::decode(&frame), Ok(Some((once, frame.len()))));
    }
}
