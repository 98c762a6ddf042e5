//! One pass over all of a log that was chosen when it began, piece by piece.

use std::ops::Range;

use super::*;
use paxos::LogState;

pub(super) struct Pass {
    pub report: Report,
    pub piece: Option<Piece>,
    /// The next byte: it is in the first stream that was opened here or later. (Streams leave the table when
    /// they are trimmed, so that a place in it means nothing.)
    opened: Slot,
    pub position: u64,
    /// The place behind which nothing was chosen when the pass began.
    end: (Slot, u64),
    /// Pieces of the first round that were not good, and how many replicas were damaged there.
    again: VecDeque<(StreamName, Range<u64>, usize)>,
    second: bool,
    pub second_at: Time,
    /// The end of the rest after a piece that was not good when it was looked at again.
    pub rest_until: Time,
}

/// The most pieces that are looked at again; more of them are unchecked.
const AGAIN_MAX: usize = 4096;

impl Pass {
    pub fn new(number: u64, state: &LogState, rate: u64, asked: bool, now: Time) -> Pass {
        let last = state.streams.last();
        Pass {
            report: Report::new(number, crate::trim::output_bytes(state), rate, asked, now),
            piece: None,
            opened: Slot(0),
            position: 0,
            end: last.map_or((Slot(0), 0), |last| (last.opened, last.length.0)),
            again: VecDeque::new(),
            second: false,
            second_at: Time::ZERO,
            rest_until: Time::ZERO,
        }
    }

    /// The piece to look at next, and the number of damaged replicas if it was looked at before.
    pub fn next(&mut self, state: &LogState) -> Option<(StreamName, Range<u64>, Option<usize>)> {
        match self.second {
            false => self
                .next_new(state)
                .map(|(stream, bytes)| (stream, bytes, None)),
            true => self.next_again(state),
        }
    }

    fn next_new(&mut self, state: &LogState) -> Option<(StreamName, Range<u64>)> {
        let first = state
            .streams
            .partition_point(|stream| stream.opened < self.opened);
        for stream in &state.streams[first..] {
            if stream.opened > self.end.0 {
                return None;
            }
            let known = match stream.opened == self.end.0 {
                true => self.end.1,
                false => stream.length.0,
            };
            let begun = match stream.opened == self.opened {
                true => self.position,
                false => 0,
            };
            let from = begun.max(stream.trimmed.0);
            if from < known {
                let border = (from / PIECE_BYTES_MAX + 1) * PIECE_BYTES_MAX;
                // The end of the piece is known when it was read.
                self.opened = stream.opened;
                self.position = from;
                return Some((stream.name, from..border.min(known)));
            }
        }
        None
    }

    fn next_again(&mut self, state: &LogState) -> Option<(StreamName, Range<u64>, Option<usize>)> {
        loop {
            let (stream, mut bytes, damaged) = self.again.pop_front()?;
            bytes.start = bytes.start.max(crate::trim::trimmed_below(state, stream).0);
            if !bytes.is_empty() {
                return Some((stream, bytes, Some(damaged)));
            }
            self.report.trimmed += damaged as u64;
        }
    }

    pub fn look_again(&mut self, stream: StreamName, bytes: Range<u64>, damaged: usize) {
        match self.again.len() < AGAIN_MAX {
            true => self.again.push_back((stream, bytes, damaged)),
            false => self.report.unchecked_bytes += bytes.end - bytes.start,
        }
    }

    /// Begins the second look at the pieces that were set aside. False if there are none, or if it has begun before.
    pub fn begin_second(&mut self, now: Time) -> bool {
        let begins = !self.second && !self.again.is_empty();
        self.second = true;
        self.second_at = now;
        begins
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paxos::{Action, By, Configuration, Offset, OpenStream, SlotRange, StreamSequence, Value};

    use super::*;

    fn name(counter: u32) -> StreamName {
        let incarnation = 1;
        StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation,
                counter,
            },
        }
    }

    /// Streams of these lengths, one after the other.
    fn state(lengths: &[u64]) -> LogState {
        let mut state = LogState::new(Configuration::equal([NodeId(1)]).expect("it is legal"));
        for (index, length) in lengths.iter().enumerate() {
            let stream = name(index as u32 + 1);
            let open = Action::OpenStream(OpenStream {
                stream,
                label: String::new(),
                metadata: Vec::new(),
                continues: None,
            });
            let at = state.next.0;
            state.apply(
                SlotRange::new(Slot(at), Slot(at + 1)),
                &Value::Action(Arc::new(open)),
            );
            let offset = Offset(at + 1);
            let slots = SlotRange::new(Slot(at + 1), Slot(at + 1 + length));
            state.apply(slots, &Value::Content { stream, offset });
        }
        state
    }

    fn all(pass: &mut Pass, state: &LogState) -> Vec<(u32, Range<u64>)> {
        let mut pieces = Vec::new();
        while let Some((stream, bytes, _)) = pass.next(state) {
            pass.position = bytes.end;
            pieces.push((stream.sequence.counter, bytes));
        }
        pieces
    }

    const MIB: u64 = PIECE_BYTES_MAX;

    #[test]
    fn pieces_end_at_a_mebibyte_of_position_and_at_the_end_of_a_stream() {
        let state = state(&[10, MIB + 5, MIB]);
        let mut pass = Pass::new(1, &state, 1, false, Time::ZERO);
        let expected = [(1, 0..10), (2, 0..MIB), (2, MIB..MIB + 5), (3, 0..MIB)];
        assert_eq!(all(&mut pass, &state), expected);
    }

    #[test]
    fn what_is_appended_meanwhile_is_for_the_next_pass() {
        let mut grown = state(&[10, 20]);
        let mut pass = Pass::new(1, &grown, 1, false, Time::ZERO);
        let (stream, next) = (name(2), grown.next.0);
        let slots = SlotRange::new(Slot(next), Slot(next + 100));
        grown.apply(
            slots,
            &Value::Content {
                stream,
                offset: Offset(next - 20),
            },
        );
        assert_eq!(all(&mut pass, &grown), [(1, 0..10), (2, 0..20)]);
    }

    #[test]
    fn what_is_trimmed_meanwhile_is_passed_over() {
        let whole = state(&[10, 20, 30]);
        let mut pass = Pass::new(1, &whole, 1, false, Time::ZERO);
        let first = pass.next(&whole).expect("there is one");
        pass.position = first.1.end;
        let mut less = whole.clone();
        let before = less
            .trim_point(name(3), StreamPosition(5))
            .expect("there is one");
        let next = less.next;
        let slots = SlotRange::new(next, Slot(next.0 + 1));
        less.apply(
            slots,
            &Value::Action(Arc::new(Action::Trim {
                before,
                by: By::Unsaid,
            })),
        );
        assert_eq!(all(&mut pass, &less), [(3, 5..30)]);
    }

    #[test]
    fn what_was_not_good_is_looked_at_once_more() {
        let state = state(&[10]);
        let mut pass = Pass::new(1, &state, 1, false, Time::ZERO);
        assert_eq!(all(&mut pass, &state).len(), 1);
        pass.look_again(name(1), 0..10, 2);
        assert!(pass.begin_second(Time::from_micros(7)));
        assert_eq!(pass.next(&state), Some((name(1), 0..10, Some(2))));
        assert_eq!(pass.next(&state), None);
        assert!(!pass.begin_second(Time::from_micros(8)));
    }
}
