//! What a control connection brought: frames, some of them in parts.

use crate::format::Frame;
use crate::format::frame::{
    BODY_BYTES_MAX, CONTROL_PREFIX, FrameError, Part, decode_control_body, decode_control_prefix,
};
use crate::version::Speaks;

#[derive(Default)]
pub struct Inbound {
    bytes: Vec<u8>,
    /// Bytes before were taken.
    taken: usize,
    /// Of a frame that is not whole yet.
    parts: Vec<u8>,
}

/// A frame's longest form: what is put together must not be longer than what comes at once.
const FRAME_BYTES_MAX: usize = CONTROL_PREFIX + BODY_BYTES_MAX as usize;

impl Inbound {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, which is no part of one.
    pub fn next(&mut self, speaks: Speaks) -> Result<Option<Frame>, FrameError> {
        while let Some((frame, length)) = read(speaks, &self.bytes[self.taken..])? {
            self.taken += length;
            let whole = match frame {
                Frame::Part(part) => self.put_together(speaks, &part)?,
                frame => Some(frame),
            };
            if whole.is_some() {
                return Ok(whole);
            }
        }
        self.bytes.drain(..self.taken);
        self.taken = 0;
        Ok(None)
    }

    fn put_together(&mut self, speaks: Speaks, part: &Part) -> Result<Option<Frame>, FrameError> {
        let length = self.parts.len() + part.bytes.len();
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(length as u32));
        }
        self.parts.extend_from_slice(&part.bytes);
        if !part.last {
            return Ok(None);
        }
        let parts = std::mem::take(&mut self.parts);
        match read(speaks, &parts)? {
            Some((frame, length)) if length == parts.len() && !matches!(frame, Frame::Part(_)) => {
                Ok(Some(frame))
            }
            _ => Err(FrameError::Invalid("its parts are not one frame")),
        }
    }
}

/// The frame in front, and its length, if it is all there.
fn read(speaks: Speaks, bytes: &[u8]) -> Result<Option<(Frame, usize)>, FrameError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<CONTROL_PREFIX>() else {
        return Ok(None);
    };
    let prefix = decode_control_prefix(speaks, prefix)?;
    let Some(body) = rest.get(..prefix.body_length()) else {
        return Ok(None);
    };
    let frame = decode_control_body(&prefix, body)?;
    Ok(Some((frame, CONTROL_PREFIX + body.len())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paxos::{Configuration, LogState, Message, NodeId, Slot, StreamName, StreamPosition};
    use proptest::prelude::*;

    use super::super::outbound::Outbound;
    use super::*;
    use crate::LogId;
    use crate::format::frame::{FetchBytes, encode_control};
    use crate::version::FIRST;

    fn state(log: u32, next: u64) -> Frame {
        let configuration = Configuration::equal((1..=5).map(NodeId)).expect("they are enough");
        let mut state = LogState::new(configuration);
        state.next = Slot(next);
        Frame::Engine {
            log: LogId(log),
            message: Message::State(Arc::new(state)),
        }
    }

    fn short(request: u64) -> Frame {
        Frame::FetchBytes(FetchBytes {
            log: LogId(9),
            request,
            stream: StreamName::default(),
            from: StreamPosition(0),
            to: StreamPosition(1),
        })
    }

    fn all(inbound: &mut Inbound) -> Vec<Frame> {
        let next = || inbound.next(Speaks::THIS).expect("it was sent so");
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn what_is_short_passes_between_the_parts_of_a_state() {
        let mut out = Outbound::default();
        let mut inbound = Inbound::default();
        out.push(FIRST, &state(1, 7), Some(16));
        out.push(FIRST, &state(2, 8), Some(16));
        out.push(FIRST, &state(1, 9), Some(16)); // The first is on its way.
        out.push(FIRST, &short(1), Some(16));
        let mut heard = Vec::new();
        let mut request = 1;
        while let Some(bytes) = out.next(FIRST, 16) {
            inbound.push(&bytes);
            heard.append(&mut all(&mut inbound));
            request += 1;
            if request <= 4 {
                out.push(FIRST, &short(request), Some(16));
            }
        }
        let expected = [
            short(1),
            short(2),
            short(3),
            short(4),
            state(1, 7),
            state(2, 8),
        ];
        assert_eq!(heard, expected);
        // Now it is news again.
        out.push(FIRST, &state(1, 9), Some(16));
        assert!(out.next(FIRST, 16).is_some());
    }

    #[test]
    fn states_that_wait_hold_up_nothing_short() {
        let mut out = Outbound::default();
        let Frame::Engine {
            message: Message::State(mut many),
            ..
        } = state(0, 0)
        else {
            panic!("it is a state");
        };
        let opened = |counter| paxos::StreamState {
            name: StreamName::default(),
            label: "x".repeat(255),
            metadata: vec![0; 4096],
            continues: None,
            chain: None,
            continued_by: None,
            opened: Slot(counter),
            length: StreamPosition(0),
            trimmed: StreamPosition(0),
            end: paxos::StreamEnd::Cut,
        };
        Arc::make_mut(&mut many).streams = (0..10_000).map(opened).collect();
        for log in 1..4 {
            let message = Message::State(many.clone());
            let log = LogId(log);
            out.push(FIRST, &Frame::Engine { log, message }, Some(1 << 16));
        }
        out.push(FIRST, &short(1), Some(1 << 16));
        let sent = out.next(FIRST, 1 << 16).expect("all that waits");
        assert!(sent.starts_with(&encode_control(FIRST, &short(1))));
        let parts = std::iter::from_fn(|| out.next(FIRST, 1 << 16));
        let states: usize = sent.len() + parts.map(|part| part.len()).sum::<usize>();
        assert!(
            (80 << 20..130 << 20).contains(&states),
            "two of three: {states}"
        );
    }

    #[test]
    fn who_cannot_put_parts_together_gets_all_at_once() {
        let mut out = Outbound::default();
        out.push(FIRST, &state(1, 7), None);
        let bytes = out.next(FIRST, 16).expect("a frame waits");
        assert_eq!(bytes, encode_control(FIRST, &state(1, 7)));
        assert_eq!(out.next(FIRST, 16), None);
    }

    fn part(last: bool, bytes: &[u8]) -> Vec<u8> {
        let part = Part {
            log: LogId(1),
            last,
            bytes: bytes.to_vec(),
        };
        encode_control(FIRST, &Frame::Part(part))
    }

    #[test]
    fn parts_that_are_not_one_frame_are_refused() {
        let whole = encode_control(FIRST, &short(1));
        let cut = &whole[..whole.len() - 1];
        let long = [&whole[..], &[0]].concat();
        let nested = part(true, &whole);
        for wrong in [cut, &long[..], &nested[..], b"LBct", b""] {
            let mut inbound = Inbound::default();
            inbound.push(&part(true, wrong));
            assert!(inbound.next(Speaks::THIS).is_err(), "{wrong:?}");
        }
        let mut inbound = Inbound::default();
        let endless = part(false, &vec![0; (1 << 20) - 1]);
        let mut refused = (0..80).filter(|_| {
            inbound.push(&endless);
            inbound.next(Speaks::THIS).is_err()
        });
        assert_eq!(refused.next(), Some(64), "no more than a frame may be");
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            states in prop::collection::vec(any::<bool>(), 1..8),
            part_bytes in 1usize..300,
            piece in 1usize..300,
        ) {
            let mut out = Outbound::default();
            let frames = states.iter().zip(1u32..).map(|(is_state, number)| match is_state {
                true => state(number, 5),
                false => short(u64::from(number)),
            });
            let frames: Vec<Frame> = frames.collect();
            for frame in &frames {
                out.push(FIRST, frame, Some(part_bytes));
            }
            let mut sent = Vec::new();
            while let Some(mut bytes) = out.next(FIRST, part_bytes) {
                sent.append(&mut bytes);
            }
            let mut inbound = Inbound::default();
            let mut heard = Vec::new();
            for bytes in sent.chunks(piece) {
                inbound.push(bytes);
                heard.append(&mut all(&mut inbound));
            }
            for is_state in [true, false] {
                let of = |frames: &[Frame]| -> Vec<Frame> {
                    let of = frames.iter().filter(|f| matches!(f, Frame::Engine { .. }) == is_state);
                    of.cloned().collect()
                };
                prop_assert_eq!(of(&heard), of(&frames), "each kind in its order");
            }
        }
    }
}
