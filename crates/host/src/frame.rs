//! Frames: what one round of a leader writes, as its log holds it.
//!
//! ```text
//! frame = length u32, of the body | crc32c u32, of the body | body
//! body  = version u8 (1) | number u64 | time u64 | writes
//!
//! put     1 | key length u32 | value length u32 | key | value
//! delete  2 | key length u32 | key
//! forget  3 | prefix length u32 | prefix
//! ```
//!
//! All numbers are little-endian. Frames are numbered from 1, without a gap, over the log's whole life: a frame that is
//! not the next one is not applied. The time is that of the log, in milliseconds since the beginning of 1970; it never goes back.

use shelf::Write;
use thiserror::Error;

/// One command's writes, all together, keys and values counted.
pub const WRITES_BYTES_MAX: usize = 8 << 20;
/// A greater length is damage, not data: each write has at most 9 bytes beside its key and value, and one at least in them.
const BODY_BYTES_MAX: usize = 10 * WRITES_BYTES_MAX + BODY_HEADER;
const HEADER: usize = 8;
const BODY_HEADER: usize = 17;
const VERSION: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub number: u64,
    pub time_ms: u64,
    pub writes: Vec<Write>,
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoFrame {
    #[error("a frame there claims {0} bytes, and none has so many")]
    Length(usize),
    #[error("the checksum of the frame there is wrong")]
    Checksum,
    #[error(
        "the frame there is of version {0}, and this program knows version {VERSION}: start a newer one"
    )]
    Version(u8),
    #[error("the frame there has a whole checksum and no sense")]
    Body,
}

impl Frame {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.time_ms.to_le_bytes());
        for write in &self.writes {
            match write {
                Write::Put { key, value } => {
                    bytes.push(1);
                    bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(key);
                    bytes.extend_from_slice(value);
                }
                Write::Delete { key } => push_key(&mut bytes, 2, key),
                Write::Forget { prefix } => push_key(&mut bytes, 3, prefix),
            }
        }
        let body = bytes.len() - HEADER;
        let checksum = crc32c::crc32c(&bytes[HEADER..]);
        bytes[..4].copy_from_slice(&(body as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(body: &[u8]) -> Result<Frame, NoFrame> {
        let mut rest = Rest(body);
        let version = rest.byte()?;
        if version != VERSION {
            return Err(NoFrame::Version(version));
        }
        let mut frame = Frame {
            number: rest.number()?,
            time_ms: rest.number()?,
            writes: Vec::new(),
        };
        while !rest.0.is_empty() {
            frame.writes.push(match rest.byte()? {
                1 => {
                    let (key, value) = (rest.length()?, rest.length()?);
                    Write::Put {
                        key: rest.take(key)?.to_vec(),
                        value: rest.take(value)?.to_vec(),
                    }
                }
                2 => Write::Delete { key: rest.key()? },
                3 => Write::Forget {
                    prefix: rest.key()?,
                },
                _ => return Err(NoFrame::Body),
            });
        }
        Ok(frame)
    }
}

fn push_key(bytes: &mut Vec<u8>, kind: u8, key: &[u8]) {
    bytes.push(kind);
    bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
    bytes.extend_from_slice(key);
}

/// The bytes of a body that are not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], NoFrame> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(NoFrame::Body)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, NoFrame> {
        Ok(self.take(1)?[0])
    }

    fn length(&mut self) -> Result<usize, NoFrame> {
        let bytes = self.take(4)?.try_into().map_err(|_| NoFrame::Body)?;
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    fn number(&mut self) -> Result<u64, NoFrame> {
        let bytes = self.take(8)?.try_into().map_err(|_| NoFrame::Body)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn key(&mut self) -> Result<Vec<u8>, NoFrame> {
        let length = self.length()?;
        Ok(self.take(length)?.to_vec())
    }
}

/// Cuts a stream's bytes into frames, however they come.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// So many of them are decoded.
    start: usize,
    /// The checksum of the last frame.
    checksum: u32,
}

impl Decoder {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, once all of it is there.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, NoFrame> {
        let rest = self.bytes.get(self.start..).unwrap_or_default();
        let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [a, b, c, d, checksum @ ..] = *header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if !(BODY_HEADER..=BODY_BYTES_MAX).contains(&length) {
            return Err(NoFrame::Length(length));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let checksum = u32::from_le_bytes(checksum);
        if crc32c::crc32c(body) != checksum {
            return Err(NoFrame::Checksum);
        }
        self.checksum = checksum;
        let frame = Frame::decode(body)?;
        self.start += HEADER + length;
        Ok(Some(frame))
    }

    /// The checksum of the last frame that was given out.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Bytes of a frame that is not all there.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Drops them: no more of their stream comes. A leader that was lost leaves such a frame, and nobody was answered for it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write() -> impl Strategy<Value = Write> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            (bytes(), bytes()).prop_map(|(key, value)| Write::Put { key, value }),
            bytes().prop_map(|key| Write::Delete { key }),
            bytes().prop_map(|prefix| Write::Forget { prefix }),
        ]
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let frame = (
            any::<u64>(),
            any::<u64>(),
            proptest::collection::vec(write(), 0..5),
        );
        let frame = frame.prop_map(|(number, time_ms, writes)| Frame {
            number,
            time_ms,
            writes,
        });
        proptest::collection::vec(frame, 1..6)
    }

    #[test]
    fn a_frame_is_these_bytes() {
        let frame = Frame {
            number: 7,
            time_ms: 0x0102,
            writes: vec![
                Write::Put {
                    key: b"k".to_vec(),
                    value: b"vv".to_vec(),
                },
                Write::Delete { key: b"d".to_vec() },
                Write::Forget {
                    prefix: b"p".to_vec(),
                },
            ],
        };
        let expected: &[u8] = &[
            41, 0, 0, 0, 0xf6, 0xb4, 0x83, 0x65, // length, checksum
            1, 7, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, // version, number, time
            1, 1, 0, 0, 0, 2, 0, 0, 0, b'k', b'v', b'v', // put
            2, 1, 0, 0, 0, b'd', // delete
            3, 1, 0, 0, 0, b'p', // forget
        ];
        assert_eq!(frame.encode(), expected);
    }

    proptest! {
        #[test]
        fn frames_come_back_however_their_bytes_are_cut(
            frames in frames(),
            cuts in proptest::collection::vec(1_usize..40, 1..20),
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let count = rest.len().min(*cuts.next().unwrap());
                decoder.push(&rest[..count]);
                rest = &rest[count..];
                while let Some(frame) = decoder.next_frame().unwrap() {
                    found.push(frame);
                }
            }
            prop_assert_eq!(found, frames);
            prop_assert_eq!(decoder.waiting(), 0);
        }

        #[test]
        fn a_flipped_bit_gives_no_other_frame(frames in frames(), bit in any::<u16>()) {
            let mut bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
            let bit = bit as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            let mut count = 0;
            while let Ok(Some(frame)) = decoder.next_frame() {
                prop_assert_eq!(&frame, &frames[count]);
                count += 1;
            }
            prop_assert!(count < frames.len());
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frame::decode(&bytes);
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_frame() {}
        }
    }
}
