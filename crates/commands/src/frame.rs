//! Frames: what stands in a leader's stream.
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
//! All numbers are little-endian. Times are microseconds of the clock of whoever led.

const HEADER: usize = 8;
const KIND_SHIFT: u32 = 28;
/// Larger than any command; a greater length is damage, not data.
pub const COMMAND_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Applied each time that it stands in the log.
    Command(Vec<u8>),
    /// A new session; its client's number is the answer.
    OpenSession { time: u64 },
    /// Applied once, however often it stands in the log.
    Session {
        client: u64,
        /// Greater than that of the client's command before it.
        sequence: u64,
        time: u64,
        command: Vec<u8>,
    },
    SnapshotPart {
        part: u32,
        parts: u32,
        bytes: Vec<u8>,
    },
    /// Of a later version.
    Unknown { kind: u8 },
}

impl Frame {
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let kind = match self {
            Frame::Command(command) => {
                body.extend_from_slice(command);
                0
            }
            Frame::OpenSession { time } => {
                body.extend_from_slice(&time.to_le_bytes());
                1
            }
            Frame::Session {
                client,
                sequence,
                time,
                command,
            } => {
                for number in [client, sequence, time] {
                    body.extend_from_slice(&number.to_le_bytes());
                }
                body.extend_from_slice(command);
                2
            }
            Frame::SnapshotPart { part, parts, bytes } => {
                body.extend_from_slice(&part.to_le_bytes());
                body.extend_from_slice(&parts.to_le_bytes());
                body.extend_from_slice(bytes);
                3
            }
            Frame::Unknown { kind } => *kind & 0xF,
        };
        let word = u32::from(kind) << KIND_SHIFT | body.len() as u32;
        let mut frame = Vec::with_capacity(HEADER + body.len());
        frame.extend_from_slice(&word.to_le_bytes());
        frame.extend_from_slice(&checksum(kind, &body).to_le_bytes());
        frame.append(&mut body);
        frame
    }

    /// `None` if the body is shorter than its kind's.
    fn decode(kind: u8, body: &[u8]) -> Option<Frame> {
        let long = |at: usize| {
            let bytes = body.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        Some(match kind {
            0 => Frame::Command(body.to_vec()),
            1 => Frame::OpenSession { time: long(0)? },
            2 => Frame::Session {
                client: long(0)?,
                sequence: long(8)?,
                time: long(16)?,
                command: body[24..].to_vec(),
            },
            3 => Frame::SnapshotPart {
                part: long(0)? as u32,
                parts: (long(0)? >> 32) as u32,
                bytes: body[8..].to_vec(),
            },
            kind => Frame::Unknown { kind },
        })
    }
}

/// Commands need no mark of their kind: nobody else's frames have none.
fn checksum(kind: u8, body: &[u8]) -> u32 {
    match kind {
        0 => crc32c::crc32c(body),
        kind => crc32c::crc32c_append(crc32c::crc32c(&[kind]), body),
    }
}

/// A command's frame.
pub fn encode(command: &[u8]) -> Vec<u8> {
    Frame::Command(command.to_vec()).encode()
}

/// Cuts chosen bytes into frames.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    broken: bool,
}

impl Decoder {
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.broken {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next whole frame. A frame that is no frame ends its stream: what follows it in the stream
    /// is ignored by every replica alike.
    pub fn next_frame(&mut self) -> Option<Frame> {
        let (word, rest) = self.buffer.split_first_chunk::<4>()?;
        let (crc, rest) = rest.split_first_chunk::<4>()?;
        let word = u32::from_le_bytes(*word);
        let (kind, length) = ((word >> KIND_SHIFT) as u8, word & ((1 << KIND_SHIFT) - 1));
        let length = length as usize;
        if length > COMMAND_BYTES_MAX + 24 {
            return self.break_off();
        }
        let body = rest.get(..length)?;
        let is_whole = checksum(kind, body) == u32::from_le_bytes(*crc);
        let Some(frame) = Frame::decode(kind, body).filter(|_| is_whole) else {
            return self.break_off();
        };
        self.buffer.drain(..HEADER + length);
        Some(frame)
    }

    fn break_off(&mut self) -> Option<Frame> {
        self.broken = true;
        self.buffer.clear();
        None
    }

    /// The stream ended: a torn frame at its end is dropped.
    pub fn end_of_stream(&mut self) {
        self.buffer.clear();
        self.broken = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command(text: &[u8]) -> Option<Frame> {
        Some(Frame::Command(text.to_vec()))
    }

    #[test]
    fn a_torn_frame_at_the_end_of_a_stream_is_dropped() {
        let mut decoder = Decoder::default();
        decoder.push(&encode(b"one"));
        decoder.push(&encode(b"two")[..9]);
        assert_eq!(decoder.next_frame(), command(b"one"));
        assert_eq!(decoder.next_frame(), None);
        decoder.end_of_stream();
        decoder.push(&encode(b"three"));
        assert_eq!(decoder.next_frame(), command(b"three"));
    }

    #[test]
    fn a_damaged_frame_silences_the_rest_of_its_stream_only() {
        let mut decoder = Decoder::default();
        let mut frame = encode(b"one");
        frame[9] ^= 1;
        decoder.push(&frame);
        decoder.push(&encode(b"two"));
        assert_eq!(decoder.next_frame(), None);
        assert_eq!(decoder.next_frame(), None);
        decoder.end_of_stream();
        decoder.push(&encode(b"three"));
        assert_eq!(decoder.next_frame(), command(b"three"));
    }

    #[test]
    fn frames_have_these_bytes() {
        let command = encode(b"123456789");
        assert_eq!(command[..8], [9, 0, 0, 0, 0x83, 0x92, 0x06, 0xE3]);
        assert_eq!(command[8..], *b"123456789");
        let open = Frame::OpenSession { time: 1 }.encode();
        assert_eq!(open[..4], [8, 0, 0, 0x10]);
        assert_eq!(open[8..], [1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn another_kind_is_not_mistaken_for_a_command() {
        let mut bytes = Frame::OpenSession { time: 9 }.encode();
        bytes[3] = 0;
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        assert_eq!(decoder.next_frame(), None);
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..50);
        let frame = prop_oneof![
            bytes().prop_map(Frame::Command),
            any::<u64>().prop_map(|time| Frame::OpenSession { time }),
            (any::<[u64; 3]>(), bytes()).prop_map(|(n, command)| Frame::Session {
                client: n[0],
                sequence: n[1],
                time: n[2],
                command,
            }),
            (any::<[u32; 2]>(), bytes()).prop_map(|(n, bytes)| Frame::SnapshotPart {
                part: n[0],
                parts: n[1],
                bytes,
            }),
            (4u8..16).prop_map(|kind| Frame::Unknown { kind }),
        ];
        proptest::collection::vec(frame, 0..10)
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_how_bytes_are_cut(frames in frames(), cut in 1usize..17) {
            let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for piece in bytes.chunks(cut) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame() {
                    got.push(frame);
                }
            }
            prop_assert_eq!(got, frames);
        }
    }
}
