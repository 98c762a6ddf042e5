//! The bytes of a control connection: frames, some of them in parts.

use std::time::Duration;

use formats::Frame;
use formats::frame::{
    BODY_BYTES_MAX, CONTROL_PREFIX, FrameError, Part, decode_control_body, decode_control_prefix,
};
use formats::version::Speaks;
use paxos::Time;

/// ‡ A frame that was begun is whole in time, and the bytes held until then are bounded: for one connection
/// by `frame_bytes_max`, for all together by the node.
pub struct Inbound {
    bytes: Vec<u8>,
    /// The number of bytes in front that were taken.
    taken: usize,
    /// The parts of a frame that is not whole yet.
    parts: Vec<u8>,
    frame_bytes_max: usize,
    /// The time when the last bytes came.
    grew_at: Time,
    /// The time since which there are bytes of a frame that is not whole, and that of parts of one.
    bytes_since: Option<Time>,
    parts_since: Option<Time>,
}

impl Default for Inbound {
    fn default() -> Inbound {
        Inbound {
            bytes: Vec::new(),
            taken: 0,
            parts: Vec::new(),
            frame_bytes_max: FRAME_BYTES_MAX,
            grew_at: Time::ZERO,
            bytes_since: None,
            parts_since: None,
        }
    }
}

/// The longest frame of a guest. The state of log 0, which is trimmed to its snapshots, is shorter by far.
const GUEST_FRAME_BYTES_MAX: usize = 1 << 20;

/// The time after which a frame of which nothing more came is stalled.
const STALLED: Duration = Duration::from_secs(10);

/// The memory that is kept for the next frames where a long one was.
const KEPT_BYTES: usize = 256 << 10;

/// The longest form of a frame: one that is put together must not be longer than one that comes at once.
const FRAME_BYTES_MAX: usize = CONTROL_PREFIX + BODY_BYTES_MAX as usize;

impl Inbound {
    /// An inbound side for the frames of a node that is not known.
    pub fn of_guest() -> Inbound {
        Inbound {
            frame_bytes_max: GUEST_FRAME_BYTES_MAX,
            ..Inbound::default()
        }
    }

    pub fn push(&mut self, now: Time, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.grew_at = now;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The memory that it takes.
    pub fn held(&self) -> usize {
        self.bytes.capacity() + self.parts.capacity()
    }

    /// Whether a frame was begun, and neither ended nor gone on with.
    pub fn is_late(&self, now: Time, within: Duration) -> bool {
        let late = |since: Time| {
            let has_stalled = now > self.grew_at + STALLED;
            has_stalled || now > since + within
        };
        [self.bytes_since, self.parts_since]
            .into_iter()
            .flatten()
            .any(late)
    }

    /// The next whole frame, which is no part of one.
    pub fn next(&mut self, speaks: Speaks) -> Result<Option<Frame>, FrameError> {
        let bytes_max = self.frame_bytes_max;
        while let Some((frame, length)) = read(speaks, &self.bytes[self.taken..], bytes_max)? {
            self.taken += length;
            let whole = match frame {
                Frame::Part(part) => self.put_together(speaks, &part)?,
                frame => Some(frame),
            };
            if whole.is_some() {
                return Ok(whole);
            }
        }
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            self.bytes_since = None; // What is left, if anything, is of another frame.
        }
        if self.bytes.len() < KEPT_BYTES && self.bytes.capacity() > 2 * KEPT_BYTES {
            self.bytes.shrink_to(KEPT_BYTES);
        }
        let since =
            |is_there: bool, before: Option<Time>| is_there.then(|| before.unwrap_or(self.grew_at));
        self.bytes_since = since(!self.bytes.is_empty(), self.bytes_since);
        self.parts_since = since(!self.parts.is_empty(), self.parts_since);
        Ok(None)
    }

    fn put_together(&mut self, speaks: Speaks, part: &Part) -> Result<Option<Frame>, FrameError> {
        let length = self.parts.len() + part.bytes.len();
        if length > self.frame_bytes_max {
            return Err(FrameError::TooLong(length as u32));
        }
        self.parts.extend_from_slice(&part.bytes);
        if !part.last {
            return Ok(None);
        }
        self.parts_since = None;
        let parts = std::mem::take(&mut self.parts);
        match read(speaks, &parts, self.frame_bytes_max)? {
            Some((frame, length)) if length == parts.len() && !matches!(frame, Frame::Part(_)) => {
                Ok(Some(frame))
            }
            _ => Err(FrameError::Invalid("its parts are not one frame")),
        }
    }
}

/// The frame in front, and its length, if it is all there.
fn read(
    speaks: Speaks,
    bytes: &[u8],
    bytes_max: usize,
) -> Result<Option<(Frame, usize)>, FrameError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<CONTROL_PREFIX>() else {
        return Ok(None);
    };
    let prefix = decode_control_prefix(speaks, prefix)?;
    if CONTROL_PREFIX + prefix.body_length() > bytes_max {
        return Err(FrameError::TooLong(prefix.body_length() as u32));
    }
    let Some(body) = rest.get(..prefix.body_length()) else {
        return Ok(None);
    };
    let frame = decode_control_body(&prefix, body)?;
    Ok(Some((frame, CONTROL_PREFIX + body.len())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use formats::LogId;
    use formats::frame::{FetchBytes, encode_control};
    use formats::version::FIRST;
    use paxos::{Configuration, LogState, Message, NodeId, Slot, StreamName, StreamPosition};
    use proptest::prelude::*;

    use super::super::outbound::Outbound;
    use super::*;

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
            inbound.push(Time::ZERO, &bytes);
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
        // The state is news again.
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
    fn a_frame_that_is_begun_is_whole_in_time_and_what_it_took_is_given_back() {
        const SECOND: u64 = 1_000_000;
        let within = Duration::from_micros(60 * SECOND);
        let long = part(false, &vec![7; (1 << 20) - 1]);
        let mut inbound = Inbound::default();
        inbound.push(Time::from_micros(SECOND), &encode_control(FIRST, &short(1)));
        assert_eq!(all(&mut inbound).len(), 1);
        assert!(
            !inbound.is_late(Time::from_micros(500 * SECOND), within),
            "nothing is begun"
        );
        inbound.push(Time::from_micros(2 * SECOND), &long[..100]);
        assert!(all(&mut inbound).is_empty());
        assert!(!inbound.is_late(Time::from_micros(12 * SECOND), within));
        assert!(
            inbound.is_late(Time::from_micros(13 * SECOND), within),
            "it stalls"
        );
        inbound.push(Time::from_micros(30 * SECOND), &long[100..]);
        assert!(all(&mut inbound).is_empty());
        assert!(inbound.held() >= 1_000_000);
        // Heartbeats between the parts do not make the whole frame younger.
        for at in 31..93 {
            inbound.push(
                Time::from_micros(at * SECOND),
                &encode_control(FIRST, &short(at)),
            );
            assert_eq!(all(&mut inbound).len(), 1);
            let is_late = inbound.is_late(Time::from_micros(at * SECOND), within);
            assert_eq!(is_late, at > 90, "{at}");
        }
        assert!(
            inbound.bytes.capacity() <= 1 << 20,
            "the rest was given back"
        );
    }

    #[test]
    fn a_guest_has_a_megabyte() {
        let mut inbound = Inbound::of_guest();
        let long = encode_control(FIRST, &state(1, 7));
        inbound.push(Time::ZERO, &long);
        assert_eq!(all(&mut inbound).len(), 1);
        let mut claims = part(false, &vec![0; (1 << 20) - 1]);
        claims.truncate(CONTROL_PREFIX);
        inbound.push(Time::ZERO, &claims);
        assert!(
            inbound.next(Speaks::THIS).is_err(),
            "its prefix says too much"
        );
        let mut inbound = Inbound::of_guest();
        let half = part(false, &vec![0; 600 << 10]);
        inbound.push(Time::ZERO, &half);
        assert_eq!(inbound.next(Speaks::THIS), Ok(None));
        inbound.push(Time::ZERO, &half);
        assert!(
            inbound.next(Speaks::THIS).is_err(),
            "its parts are too many"
        );
    }

    #[test]
    fn parts_that_are_not_one_frame_are_refused() {
        let whole = encode_control(FIRST, &short(1));
        let cut = &whole[..whole.len() - 1];
        let long = [&whole[..], &[0]].concat();
        let nested = part(true, &whole);
        for wrong in [cut, &long[..], &nested[..], b"LBct", b""] {
            let mut inbound = Inbound::default();
            inbound.push(Time::ZERO, &part(true, wrong));
            assert!(inbound.next(Speaks::THIS).is_err(), "{wrong:?}");
        }
        let mut inbound = Inbound::default();
        let endless = part(false, &vec![0; (1 << 20) - 1]);
        let mut refused = (0..80).filter(|_| {
            inbound.push(Time::ZERO, &endless);
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
                inbound.push(Time::ZERO, bytes);
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
