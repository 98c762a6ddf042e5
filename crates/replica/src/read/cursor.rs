//! A place in a chain of continued streams, or in all outputs of a log one after the other.

use paxos::{LogState, StreamEnd, StreamName, StreamState};

/// A place in a chain of streams.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    pub(crate) target: Target,
    pub(crate) at: u64,
    /// The stream that `at` is in, and where that stream begins.
    pub(crate) stream: Option<StreamName>,
    pub(crate) base: u64,
    /// The stream's index among all streams of the log, those that left the table included.
    pub(crate) index: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Everything,
    Chain(StreamName),
}

/// The spot at which the cursor points.
pub(crate) struct Spot {
    pub(crate) stream: StreamName,
    pub(crate) position: u64,
    /// Chosen bytes from there to the stream's end.
    pub(crate) available: u64,
    /// The first position with bytes, or with bytes to come, if the cursor points at trimmed ones.
    pub(crate) left_from: Option<u64>,
    pub(crate) end: StreamEnd,
    /// A later stream of the chain was entered to get here.
    pub(crate) moved: bool,
}

impl Cursor {
    pub(crate) fn new(target: Target, at: u64) -> Cursor {
        Cursor {
            target,
            at,
            stream: None,
            base: 0,
            index: 0,
        }
    }

    /// `None` while there is nothing at all, or if nothing of the chain is left in the table.
    pub(crate) fn spot(&mut self, state: &LogState) -> Option<Spot> {
        let mut moved = false;
        loop {
            let (stream, base) = self.find(state)?;
            moved |= self
                .stream
                .replace(stream.name)
                .is_some_and(|s| s != stream.name);
            self.base = base;
            let length = stream.length.0;
            if self.at >= base + length
                && stream.end != StreamEnd::Open
                && let Some((next, index)) = self.next(state, stream)
            {
                self.base += length;
                self.index = index;
                self.stream = Some(next.name);
                moved = true;
                continue;
            }
            let position = self.at.saturating_sub(base);
            let is_gone = self.at < base + stream.trimmed.0;
            return Some(Spot {
                stream: stream.name,
                position,
                available: length.saturating_sub(position),
                left_from: is_gone.then(|| self.left_from(state, stream)),
                end: stream.end,
                moved,
            });
        }
    }

    /// The stream that the cursor is in, and where it begins: the oldest one left of its chain if
    /// that one has left the table.
    fn find<'s>(&mut self, state: &'s LogState) -> Option<(&'s StreamState, u64)> {
        match self.target {
            Target::Chain(first) => {
                let gone = state.streams_trimmed.count;
                let here = self.index.checked_sub(gone);
                let here = here.and_then(|at| state.streams.get(at as usize));
                if let Some(stream) = here.filter(|s| self.stream == Some(s.name)) {
                    return Some((stream, self.base));
                }
                let (stream, begins) = state.chain_from(first)?;
                let before = state.streams.partition_point(|s| s.opened < stream.opened);
                self.index = gone + before as u64;
                Some((stream, begins.0))
            }
            Target::Everything => {
                let gone = state.streams_trimmed;
                if self.index < gone.count {
                    self.index = gone.count;
                    self.base = gone.bytes;
                }
                let stream = state.streams.get((self.index - gone.count) as usize)?;
                Some((stream, self.base))
            }
        }
    }

    /// The stream that follows the one that the cursor is in, and its index. It was opened later, so that a
    /// walk through a chain looks at no stream twice.
    fn next<'s>(
        &self,
        state: &'s LogState,
        stream: &StreamState,
    ) -> Option<(&'s StreamState, u64)> {
        let after = self.index + 1;
        let later = after - state.streams_trimmed.count;
        let later = state.streams.get(later as usize..)?;
        let skipped = match self.target {
            Target::Chain(_) => {
                let next = stream.continued_by?;
                later.iter().position(|stream| stream.name == next)?
            }
            Target::Everything => 0,
        };
        Some((later.get(skipped)?, after + skipped as u64))
    }

    /// The last stream of a chain so far, and where it begins.
    fn last_of_chain<'s>(&self, state: &'s LogState) -> Option<(&'s StreamState, u64)> {
        let mut cursor = Cursor::new(self.target, 0);
        let (mut stream, mut base) = cursor.find(state)?;
        while let Some((next, index)) = cursor.next(state, stream) {
            base += stream.length.0;
            (stream, cursor.index) = (next, index);
        }
        Some((stream, base))
    }

    /// The first position with bytes from the stream on, at which the cursor is.
    fn left_from(&self, state: &LogState, stream: &StreamState) -> u64 {
        let mut cursor = self.clone();
        let mut stream = stream;
        while stream.trimmed == stream.length
            && stream.end != StreamEnd::Open
            && let Some((next, index)) = cursor.next(state, stream)
        {
            cursor.base += stream.length.0;
            cursor.index = index;
            stream = next;
        }
        cursor.base + stream.trimmed.0
    }

    /// Whether a writer may still be active at its end.
    pub(crate) fn is_open(&self, state: &LogState) -> bool {
        match self.target {
            Target::Everything => state.current.is_some(),
            Target::Chain(_) => self
                .last_of_chain(state)
                .is_some_and(|(stream, _)| stream.end == StreamEnd::Open),
        }
    }

    /// Chosen bytes from the chain's beginning to its end so far, trimmed ones included.
    pub(crate) fn length(&self, state: &LogState) -> Option<u64> {
        match self.target {
            Target::Everything => {
                let left: u64 = state.streams.iter().map(|s| s.length.0).sum();
                Some(state.streams_trimmed.bytes + left)
            }
            Target::Chain(_) => {
                let (stream, begins) = self.last_of_chain(state)?;
                Some(begins + stream.length.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paxos::{
        Action, By, Configuration, NodeId, Offset, OpenStream, Slot, SlotRange, StreamPosition,
        StreamSequence, Value,
    };

    use super::*;

    fn name(counter: u32) -> StreamName {
        StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation: 1,
                counter,
            },
        }
    }

    fn apply(state: &mut LogState, count: u64, value: &Value) {
        let slots = SlotRange::new(state.next, Slot(state.next.0 + count));
        state.apply(slots, value);
    }

    fn act(state: &mut LogState, action: Action) {
        apply(state, 1, &Value::Action(Arc::new(action)));
    }

    /// Streams of ten bytes each: 2 continues 1, then an unrelated 3, then 4 continues 2.
    fn state() -> LogState {
        let mut state = LogState::new(Configuration::equal([NodeId(1)]).unwrap());
        let continued = [None, Some(1), None, Some(2)];
        for (counter, continues) in (1..).zip(continued) {
            let stream = name(counter);
            act(
                &mut state,
                Action::OpenStream(OpenStream {
                    stream,
                    label: String::new(),
                    metadata: Vec::new(),
                    continues: continues.map(|before| (name(before), StreamPosition(10))),
                }),
            );
            let offset = Offset(state.next.0);
            apply(&mut state, 10, &Value::Content { stream, offset });
        }
        state
    }

    fn trim(state: &mut LogState, counter: u32, position: u64) {
        let before = state.trim_point(name(counter), StreamPosition(position));
        act(
            state,
            Action::Trim {
                before: before.unwrap(),
                by: By::Unsaid,
            },
        );
    }

    /// The place of the cursor, and the place from which on there are bytes if there are none.
    fn at(cursor: &mut Cursor, state: &LogState) -> (u32, u64, Option<u64>) {
        let spot = cursor.spot(state).unwrap();
        let counter = spot.stream.sequence.counter;
        (counter, spot.position, spot.left_from)
    }

    #[test]
    fn a_position_means_the_same_however_much_is_trimmed() {
        let mut state = state();
        let everything = |at| Cursor::new(Target::Everything, at);
        let chain = |at| Cursor::new(Target::Chain(name(1)), at);
        let (mut old, mut old_in_chain) = (everything(5), chain(5));
        assert_eq!(at(&mut old, &state), (1, 5, None));
        assert_eq!(at(&mut old_in_chain, &state), (1, 5, None));
        trim(&mut state, 2, 4);
        assert_eq!(at(&mut old, &state).2, Some(14));
        assert_eq!(at(&mut old_in_chain, &state).2, Some(14));
        assert_eq!(at(&mut everything(14), &state), (2, 4, None));
        assert_eq!(at(&mut everything(37), &state), (4, 7, None));
        assert_eq!(at(&mut chain(27), &state), (4, 7, None));
        trim(&mut state, 4, 0);
        assert_eq!(at(&mut everything(14), &state).2, Some(30));
        assert_eq!(at(&mut chain(14), &state).2, Some(20));
        assert_eq!(at(&mut chain(20), &state), (4, 0, None));
        for cursor in [everything(0), chain(0)] {
            let length = cursor.length(&state);
            assert_eq!(
                length,
                Some(if cursor.target == Target::Everything {
                    40
                } else {
                    30
                })
            );
        }
        assert!(chain(0).is_open(&state));
        assert!(
            Cursor::new(Target::Chain(name(2)), 0)
                .spot(&state)
                .is_none()
        );
    }

    #[test]
    fn a_cursor_in_a_chain_goes_on_where_it_was_however_much_leaves_the_table_meanwhile() {
        let mut state = state();
        let mut cursor = Cursor::new(Target::Chain(name(1)), 15);
        assert_eq!(at(&mut cursor, &state), (2, 5, None));
        // All of stream 1 leaves the table.
        trim(&mut state, 2, 2);
        assert_eq!(at(&mut cursor, &state), (2, 5, None));
        cursor.at = 20;
        assert_eq!(
            at(&mut cursor, &state),
            (4, 0, None),
            "behind the unrelated 3"
        );
        assert_eq!(cursor.length(&state), Some(30));
        // All of streams 2 and 3 leaves the table.
        trim(&mut state, 4, 3);
        assert_eq!(at(&mut cursor, &state), (4, 0, Some(23)));
        assert_eq!(cursor.length(&state), Some(30));
        assert!(cursor.is_open(&state));
    }

    #[test]
    fn wholly_trimmed_streams_are_passed_over() {
        let mut state = state();
        // All of streams 3 and 4 is trimmed: the last one stays in the table, with no byte left.
        trim(&mut state, 4, 10);
        assert_eq!(
            at(&mut Cursor::new(Target::Everything, 0), &state).2,
            Some(40)
        );
        let mut end = Cursor::new(Target::Everything, 40);
        assert_eq!(at(&mut end, &state), (4, 10, None));
    }
}
