//! The frames that wait for a control connection. The state of a log with many streams is tens of megabytes:
//! it goes in parts, and short frames pass between them, so that a heartbeat waits for no more of it than the
//! kernel has taken.

use std::collections::VecDeque;

use formats::frame::{Part, encode_control};
use formats::{Frame, LogId};
use paxos::Message;

/// The frames. They are dropped when the connection breaks or grows stale, as messages may be.
#[derive(Default)]
pub struct Outbound {
    /// Encoded frames, in order.
    short: Vec<u8>,
    /// The states, sent one after the other.
    states: VecDeque<LongFrame>,
}

struct LongFrame {
    log: LogId,
    encoded: Vec<u8>,
    sent: usize,
}

/// The bound for one peer's waiting short frames, and again for its waiting states: frames beyond it are dropped.
const BYTES_MAX: usize = 80 << 20;

impl Outbound {
    /// `part_bytes`: how long a state's parts are, for a peer that puts them together.
    pub fn push(&mut self, version: u8, frame: &Frame, part_bytes: Option<usize>) {
        let Some((log, part_bytes)) = state_of(frame).zip(part_bytes) else {
            return self.push_short(encode_control(version, frame));
        };
        // A peer that waits asks again and again. A state that is on its way is answer enough.
        let is_coming = self.states.iter().any(|state| state.log == log);
        if is_coming || self.state_bytes() > BYTES_MAX {
            return;
        }
        let encoded = encode_control(version, frame);
        match encoded.len() > part_bytes {
            true => self.states.push_back(LongFrame {
                log,
                encoded,
                sent: 0,
            }),
            false => self.push_short(encoded),
        }
    }

    /// Queues a short frame. Its bound is its own: waiting states do not count.
    fn push_short(&mut self, mut encoded: Vec<u8>) {
        if self.short.len() <= BYTES_MAX {
            self.short.append(&mut encoded);
        }
    }

    /// The bytes that are sent next, until when nothing else is: all short frames, and one part.
    pub fn next(&mut self, version: u8, part_bytes: usize) -> Option<Vec<u8>> {
        let mut bytes = std::mem::take(&mut self.short);
        if let Some(state) = self.states.front_mut() {
            let rest = &state.encoded[state.sent..];
            let part = Part {
                log: state.log,
                last: rest.len() <= part_bytes,
                bytes: rest[..rest.len().min(part_bytes)].to_vec(),
            };
            state.sent += part.bytes.len();
            if part.last {
                self.states.pop_front();
            }
            bytes.append(&mut encode_control(version, &Frame::Part(part)));
        }
        (!bytes.is_empty()).then_some(bytes)
    }

    pub fn clear(&mut self) {
        *self = Outbound::default();
    }

    fn state_bytes(&self) -> usize {
        let states = self.states.iter();
        states.map(|state| state.encoded.len() - state.sent).sum()
    }
}

fn state_of(frame: &Frame) -> Option<LogId> {
    match frame {
        Frame::Engine {
            log,
            message: Message::State(_),
        } => Some(*log),
        _ => None,
    }
}
