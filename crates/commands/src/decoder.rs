//! Cuts chosen bytes into frames.
//!
//! ```text
//! buffer   given out │ not given out yet │ pushed next
//!                  read                 end              position: of the stream, at `read`
//! ```
//!
//! Bytes that were given out are dropped once they are half of the buffer: each byte is moved at most once.
//! The buffer holds bytes that came, and never room for bytes that a length claims.

use thiserror::Error;

use crate::Frame;
use crate::frame::NoFrame;

/// The room that is kept for the next bytes.
const ROOM_BYTES_KEPT: usize = 1 << 20;

#[derive(Clone, Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    read: usize,
    position: u64,
    broken: Option<Broken>,
}

/// A stream goes on with bytes that are no frame. Their writer, or the disk that kept them, was wrong:
/// nothing that follows them can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stream is broken at byte {position}: {why}")]
pub struct Broken {
    /// The position of the frame's first byte, counted from the first byte of the stream that was pushed.
    pub position: u64,
    pub why: NoFrame,
}

/// A stream ended within a frame. This happens when a leader was lost while it wrote: the frame was never
/// chosen whole, and nobody was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The position of the frame's first byte, as in [`Broken`].
    pub position: u64,
    /// The bytes of it that came.
    pub bytes: usize,
}

impl Decoder {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.broken.is_some() {
            self.buffer = Vec::new();
            self.read = 0;
            return;
        }
        if self.read >= self.buffer.len() - self.read {
            self.buffer.drain(..self.read);
            self.read = 0;
            if self.buffer.len() < ROOM_BYTES_KEPT {
                self.buffer.shrink_to(ROOM_BYTES_KEPT);
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is there. An error stays: a decoder that met a broken stream gives nothing
    /// any more, not even from the streams that follow.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        match Frame::decode(&self.buffer[self.read..]) {
            Ok(None) => Ok(None),
            Ok(Some((frame, length))) => {
                self.read += length;
                self.position += length as u64;
                Ok(Some(frame))
            }
            Err(why) => {
                let position = self.position;
                let broken = Broken { position, why };
                self.broken = Some(broken);
                Err(broken)
            }
        }
    }

    /// Says that the next bytes are another stream's. The rest of an unfinished frame is dropped, and told.
    #[must_use = "a torn frame was dropped"]
    pub fn end_of_stream(&mut self) -> Option<Torn> {
        let bytes = self.buffer.len() - self.read;
        let position = self.position;
        self.buffer.clear();
        self.read = 0;
        self.position = 0;
        let is_torn = bytes > 0 && self.broken.is_none();
        is_torn.then_some(Torn { position, bytes })
    }

    /// Bytes of a frame that is not whole yet, or of frames that were not asked for.
    pub fn waiting_bytes(&self) -> usize {
        match self.broken {
            Some(_) => 0,
            None => self.buffer.len() - self.read,
        }
    }

    #[cfg(test)]
    fn room_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{COMMAND_BYTES_MAX, encode};
    use proptest::prelude::*;

    fn framed(command: &[u8]) -> Vec<u8> {
        encode(command).unwrap()
    }

    #[test]
    fn a_torn_frame_at_the_end_of_a_stream_is_dropped_and_told() {
        let mut decoder = Decoder::default();
        decoder.push(&framed(b"one"));
        decoder.push(&framed(b"two")[..9]);
        assert_eq!(decoder.next_frame(), Ok(Some(Frame::Command(b"one"))));
        assert_eq!(decoder.next_frame(), Ok(None));
        let torn = Torn {
            position: 11,
            bytes: 9,
        };
        assert_eq!(decoder.end_of_stream(), Some(torn));
        decoder.push(&framed(b"three"));
        assert_eq!(decoder.next_frame(), Ok(Some(Frame::Command(b"three"))));
        assert_eq!(decoder.end_of_stream(), None);
    }

    #[test]
    fn a_damaged_frame_is_told_with_its_place_and_nothing_follows_it() {
        let mut decoder = Decoder::default();
        decoder.push(&framed(b"one"));
        let mut frame = framed(b"two");
        frame[9] ^= 1;
        decoder.push(&frame);
        decoder.push(&framed(b"three"));
        assert_eq!(decoder.next_frame(), Ok(Some(Frame::Command(b"one"))));
        let broken = Broken {
            position: 11,
            why: NoFrame::Checksum,
        };
        assert_eq!(decoder.next_frame(), Err(broken));
        assert_eq!(decoder.end_of_stream(), None);
        decoder.push(&framed(b"four"));
        assert_eq!(decoder.next_frame(), Err(broken));
        assert_eq!(
            broken.to_string(),
            "the stream is broken at byte 11: the checksum of the frame there is wrong"
        );
    }

    #[test]
    fn a_length_that_cannot_be_is_told_before_its_bytes_come() {
        let mut decoder = Decoder::default();
        decoder.push(&(COMMAND_BYTES_MAX as u32 + 25).to_le_bytes());
        let why = NoFrame::Length(COMMAND_BYTES_MAX + 25);
        let position = 0;
        assert_eq!(decoder.next_frame(), Err(Broken { position, why }));
    }

    #[test]
    fn a_body_that_is_shorter_than_its_kind_s_is_told() {
        for (kind, bytes) in [(1, 7), (2, 23), (3, 7)] {
            let body = vec![0; bytes];
            let crc = crc32c::crc32c_append(crc32c::crc32c(&[kind]), &body);
            let mut decoder = Decoder::default();
            decoder.push(&(u32::from(kind) << 28 | bytes as u32).to_le_bytes());
            decoder.push(&crc.to_le_bytes());
            decoder.push(&body);
            let why = NoFrame::Body { kind, bytes };
            let position = 0;
            assert_eq!(decoder.next_frame(), Err(Broken { position, why }));
        }
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut decoder = Decoder::default();
        decoder.push(&(COMMAND_BYTES_MAX as u32).to_le_bytes());
        decoder.push(&[0; 4]);
        assert_eq!(decoder.next_frame(), Ok(None));
        assert!(decoder.room_bytes() < 100, "{}", decoder.room_bytes());
    }

    #[test]
    fn what_was_given_out_is_not_kept() {
        let mut decoder = Decoder::default();
        decoder.push(&framed(&vec![1; 8 << 20]));
        assert!(matches!(decoder.next_frame(), Ok(Some(_))));
        let frame = framed(&[2; 64]);
        for _ in 0..100_000 {
            decoder.push(&frame);
            assert_eq!(decoder.next_frame(), Ok(Some(Frame::Command(&[2; 64]))));
        }
        assert_eq!(decoder.waiting_bytes(), 0);
        assert!(decoder.room_bytes() <= ROOM_BYTES_KEPT);
    }

    #[test]
    fn another_kind_is_not_mistaken_for_a_command() {
        let mut bytes = Frame::OpenSession { time: 9 }.encode().unwrap();
        bytes[3] = 0;
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        assert!(decoder.next_frame().is_err());
    }

    #[derive(Clone, Debug)]
    enum Drawn {
        Command(Vec<u8>),
        OpenSession(u64),
        Session([u64; 3], Vec<u8>),
        Part([u32; 2], Vec<u8>),
        Unknown(u8),
    }

    impl Drawn {
        fn frame(&self) -> Frame<'_> {
            match self {
                Drawn::Command(command) => Frame::Command(command),
                Drawn::OpenSession(time) => Frame::OpenSession { time: *time },
                Drawn::Session([client, sequence, time], command) => Frame::Session {
                    client: *client,
                    sequence: *sequence,
                    time: *time,
                    command,
                },
                Drawn::Part([part, parts], bytes) => Frame::SnapshotPart {
                    part: *part,
                    parts: *parts,
                    bytes,
                },
                Drawn::Unknown(kind) => Frame::Unknown { kind: *kind },
            }
        }
    }

    fn frames(at_least: usize) -> impl Strategy<Value = Vec<Drawn>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..50);
        let frame = prop_oneof![
            bytes().prop_map(Drawn::Command),
            any::<u64>().prop_map(Drawn::OpenSession),
            (any::<[u64; 3]>(), bytes()).prop_map(|(n, command)| Drawn::Session(n, command)),
            (any::<[u32; 2]>(), bytes()).prop_map(|(n, bytes)| Drawn::Part(n, bytes)),
            (4u8..16).prop_map(Drawn::Unknown),
        ];
        proptest::collection::vec(frame, at_least..10)
    }

    proptest! {
        /// The frames are the same however the bytes come, and whenever the frames are asked for.
        #[test]
        fn frames_do_not_depend_on_how_bytes_are_cut(
            frames in frames(0),
            cuts in proptest::collection::vec((1usize..90, any::<bool>()), 1..40),
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|f| f.frame().encode().unwrap()).collect();
            let mut decoder = Decoder::default();
            let (mut left, mut got) = (&bytes[..], 0);
            for (cut, asks) in cuts.iter().cycle() {
                let (piece, behind) = left.split_at((*cut).min(left.len()));
                decoder.push(piece);
                left = behind;
                while *asks || left.is_empty() {
                    let Some(frame) = decoder.next_frame().unwrap() else {
                        break;
                    };
                    prop_assert_eq!(Some(frame), frames.get(got).map(Drawn::frame));
                    got += 1;
                }
                if left.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got, frames.len());
            prop_assert_eq!(decoder.end_of_stream(), None);
        }

        /// The frames before the flipped bit come as they are. Then either the stream is broken or, where the
        /// frame now claims bytes that never come, it is torn.
        #[test]
        fn a_flipped_bit_is_told_at_its_frame_and_nothing_comes_after_it(
            frames in frames(1),
            bit in any::<proptest::sample::Index>(),
            cut in 1usize..90,
        ) {
            let encoded: Vec<Vec<u8>> = frames.iter().map(|f| f.frame().encode().unwrap()).collect();
            let mut bytes = encoded.concat();
            let bit = bit.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            let ends = encoded.iter().scan(0, |end, frame| {
                *end += frame.len();
                Some(*end)
            });
            let sound = ends.take_while(|end| *end <= bit / 8).count();
            let position = encoded[..sound].concat().len() as u64;
            let mut decoder = Decoder::default();
            let (mut got, mut broken) = (0, None);
            for piece in bytes.chunks(cut) {
                decoder.push(piece);
                loop {
                    match decoder.next_frame() {
                        Ok(None) => break,
                        Ok(Some(frame)) => {
                            prop_assert_eq!(Some(frame), frames.get(got).map(Drawn::frame));
                            got += 1;
                        }
                        Err(first) => {
                            prop_assert_eq!(*broken.get_or_insert(first), first);
                            break;
                        }
                    }
                }
            }
            prop_assert_eq!(got, sound);
            let torn = decoder.end_of_stream();
            prop_assert!(broken.is_some() != torn.is_some(), "{:?} {:?}", broken, torn);
            let told = broken.map(|b| b.position).or(torn.map(|t| t.position));
            prop_assert_eq!(told, Some(position));
        }
    }
}
