//! What the chosen slots add up to: the log's own state machine.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::mutation::{self, Mutation};
use crate::{
    Action, ChangeRefused, Configuration, Era, NodeId, OpenStream, Slot, SlotRange, StreamName,
    StreamPosition, StreamSequence, Value,
};

/// The state after all slots below `next` were applied. Applying is defined slot by slot, and its
/// result does not depend on how runs are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The first slot not applied.
    pub next: Slot,
    pub era: Era,
    /// The first slot of `era`.
    pub era_start: Slot,
    pub configuration: Configuration,
    pub next_node_id: NodeId,
    /// For each owner the greatest sequence number it ever opened. Never trimmed.
    pub sequences: BTreeMap<NodeId, StreamSequence>,
    /// Every untrimmed stream in the order of opening; `streams_trimmed` came before them.
    pub streams: Vec<StreamState>,
    pub streams_trimmed: StreamsTrimmed,
    /// The last of `streams` may still grow.
    pub current: Option<StreamName>,
    /// Slots below are forgotten.
    pub trimmed: Slot,
}

/// What is left of the streams that left the table: so that positions in the log's output, and in
/// chains of streams, mean the same for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamsTrimmed {
    pub count: u64,
    /// Their outputs together; none without a stream.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub name: StreamName,
    pub label: String,
    pub metadata: Vec<u8>,
    pub continues: Option<(StreamName, StreamPosition)>,
    /// Once the stream that it continues has left the table: the first stream of their chain, and
    /// the chain's position at which this one begins.
    pub chain: Option<(StreamName, StreamPosition)>,
    pub continued_by: Option<StreamName>,
    /// The slot of its open-stream.
    pub opened: Slot,
    /// Its output so far: bytes `trimmed..length` can be read.
    pub length: StreamPosition,
    pub trimmed: StreamPosition,
    pub end: StreamEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// It may grow.
    Open,
    /// By close-stream: complete.
    Closed,
    /// Another stream was opened, or a gap followed: cut off.
    Cut,
}

/// What applying an action came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    NodeId(NodeId),
    Opened(StreamName),
    NotOpened {
        stream: StreamName,
        reason: NotOpened,
    },
    Closed {
        stream: StreamName,
        at: StreamPosition,
    },
    /// Not current, or not that long.
    NotClosed {
        stream: StreamName,
    },
    Reconfigured {
        era: Era,
    },
    NotReconfigured(ChangeRefused),
    Trimmed {
        before: Slot,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// Its sequence number does not exceed its owner's last.
    NotNew,
    /// The stream to continue has another length, or was already continued.
    Continues {
        length: StreamPosition,
        continued_by: Option<StreamName>,
    },
    UnknownStream,
}

impl LogState {
    /// Of a log in which nothing was chosen yet.
    pub fn new(configuration: Configuration) -> LogState {
        let greatest = configuration.members().last().map_or(0, |m| m.node.0);
        LogState {
            next: Slot(0),
            era: Era(0),
            era_start: Slot(0),
            configuration,
            next_node_id: NodeId(greatest.saturating_add(1)),
            sequences: BTreeMap::new(),
            streams: Vec::new(),
            streams_trimmed: StreamsTrimmed::default(),
            current: None,
            trimmed: Slot(0),
        }
    }

    /// An untrimmed stream.
    pub fn stream(&self, name: StreamName) -> Option<&StreamState> {
        self.index_of(name).map(|at| &self.streams[at])
    }

    /// The stream that may still grow.
    pub fn current_stream(&self) -> Option<&StreamState> {
        self.current.and(self.streams.last())
    }

    /// Newest first: it is nearly always the last that is asked for.
    fn index_of(&self, name: StreamName) -> Option<usize> {
        self.streams.iter().rposition(|stream| stream.name == name)
    }

    /// Of a stream that is trimmed it may still be known who continued it, and so how long it was:
    /// for a writer that did so itself and did not hear of it.
    pub fn continuation_of_forgotten(&self, name: StreamName) -> Option<NotOpened> {
        if self.index_of(name).is_some() {
            return None;
        }
        let mut streams = self.streams.iter();
        streams.find_map(|stream| match stream.continues {
            Some((continued, length)) if continued == name => Some(NotOpened::Continues {
                length,
                continued_by: Some(stream.name),
            }),
            _ => None,
        })
    }

    /// Applies `value` to each slot of a run that begins at `next`. An action fills one slot and
    /// has an outcome. Takes the same time however long the run is.
    pub fn apply(&mut self, slots: SlotRange, value: &Value) -> Option<Outcome> {
        crate::invariant!(
            slots.start == self.next && !slots.is_empty(),
            "I7: slots are applied in order, {slots} at {}",
            self.next
        );
        let outcome = match value {
            Value::NoOp => None,
            Value::Content { stream, offset } => {
                let position = slots.start.0.checked_sub(offset.0).map(StreamPosition);
                self.grow(*stream, position, slots.len());
                None
            }
            Value::Action(action) => {
                crate::invariant!(
                    slots.len() == 1,
                    "I7: an action fills one slot, not {slots}"
                );
                Some(self.act(slots.start, action))
            }
        };
        self.next = slots.end;
        if let Some(Outcome::Reconfigured { .. }) = outcome {
            self.era_start = self.next;
        }
        outcome
    }

    /// Only the current stream grows, and only by its next byte. Its first slot at another
    /// position ends it, so the run's later slots find it over: one look decides for all.
    fn grow(&mut self, name: StreamName, position: Option<StreamPosition>, count: u64) {
        if self.current != Some(name) {
            return;
        }
        let Some(stream) = self.streams.last_mut() else {
            return;
        };
        if position == Some(stream.length) {
            let whole = mutation::is(Mutation::RunsAppliedWhole);
            stream.length.0 += if whole { count.min(1 << 14) } else { count }; // never more than the slots so far
        } else {
            self.end_current(StreamEnd::Cut);
        }
    }

    fn end_current(&mut self, end: StreamEnd) {
        if self.current.take().is_some()
            && let Some(stream) = self.streams.last_mut()
        {
            stream.end = end;
        }
    }

    fn act(&mut self, slot: Slot, action: &Action) -> Outcome {
        match action {
            Action::GenerateNodeId => {
                let id = self.next_node_id;
                match id.0.checked_add(1) {
                    Some(next) => {
                        self.next_node_id = NodeId(next);
                        Outcome::NodeId(id)
                    }
                    None => Outcome::NodeId(NodeId(0)), // all are given; 0 is never a node
                }
            }
            Action::Reconfigure { from, change } => {
                if *from != self.era && !mutation::is(Mutation::ReconfigureInAnyEra) {
                    return Outcome::NotReconfigured(ChangeRefused::WrongEra);
                }
                let Some(era) = self.era.0.checked_add(1).map(Era) else {
                    return Outcome::NotReconfigured(ChangeRefused::Overflow);
                };
                match self.configuration.apply(*change) {
                    Ok(configuration) => {
                        self.configuration = configuration;
                        self.era = era;
                        Outcome::Reconfigured { era }
                    }
                    Err(refused) => Outcome::NotReconfigured(refused),
                }
            }
            Action::OpenStream(open) => self.open(slot, open),
            Action::CloseStream { stream, at } => match self.current_stream() {
                Some(current) if current.name == *stream && current.length == *at => {
                    self.end_current(StreamEnd::Closed);
                    Outcome::Closed {
                        stream: *stream,
                        at: *at,
                    }
                }
                _ => Outcome::NotClosed { stream: *stream },
            },
            Action::Trim { before } => self.trim(slot, *before),
        }
    }

    fn open(&mut self, slot: Slot, open: &OpenStream) -> Outcome {
        let name = open.stream;
        let refused = |reason| Outcome::NotOpened {
            stream: name,
            reason,
        };
        let reused = mutation::is(Mutation::StreamNumberReused);
        if !self.is_new(name) && !reused {
            return refused(NotOpened::NotNew);
        }
        if let Some((continued, at)) = open.continues {
            if let Some(before) = self.continuation_of_forgotten(continued) {
                return refused(before);
            }
            let Some(index) = self.index_of(continued) else {
                return refused(NotOpened::UnknownStream);
            };
            let before = &mut self.streams[index];
            let other_length = before.length != at;
            let once_more = before.continued_by.is_some();
            if other_length && !mutation::is(Mutation::ContinuesAtAnyLength)
                || once_more && !mutation::is(Mutation::ContinuedTwice)
            {
                return refused(NotOpened::Continues {
                    length: before.length,
                    continued_by: before.continued_by,
                });
            }
            before.continued_by = Some(name);
        }
        self.end_current(StreamEnd::Cut);
        self.sequences.insert(name.owner, name.sequence);
        self.current = Some(name);
        self.streams.push(StreamState {
            name,
            label: open.label.clone(),
            metadata: open.metadata.clone(),
            continues: open.continues,
            chain: None,
            continued_by: None,
            opened: slot,
            length: StreamPosition(0),
            trimmed: StreamPosition(0),
            end: StreamEnd::Open,
        });
        Outcome::Opened(name)
    }

    /// Forgets the slots below. The state does not hold which slot each byte took; it knows that a
    /// stream's bytes lie before the next stream's opening (the last one's before this very slot),
    /// so of the bytes at or above `before` there are at most so many as slots from there on. What
    /// remains is certainly below and is forgotten; the bytes kept in excess are as many as there
    /// are actions in between. The last stream stays in the table, so that it can be continued.
    fn trim(&mut self, slot: Slot, before: Slot) -> Outcome {
        let before = before.min(slot).max(self.trimmed);
        self.trimmed = before;
        let gone = self
            .streams
            .windows(2)
            .take_while(|pair| pair[1].opened <= before)
            .count();
        self.forget_first(gone);
        for at in 0..self.streams.len() {
            let stream = &self.streams[at];
            if stream.opened >= before {
                break;
            }
            let bytes_end = self.bytes_end(at, slot);
            let kept_max = bytes_end.0 - before.0; // else it is in `gone`, or the last one
            let trimmed = StreamPosition(stream.length.0.saturating_sub(kept_max));
            let stream = &mut self.streams[at];
            stream.trimmed = stream.trimmed.max(trimmed);
        }
        Outcome::Trimmed { before }
    }

    /// The oldest streams leave the table. Whoever continues them remembers where it stands.
    pub(crate) fn forget_first(&mut self, count: usize) {
        let mut chains = BTreeMap::new();
        for gone in self.streams.drain(..count) {
            self.streams_trimmed.count += 1;
            self.streams_trimmed.bytes += gone.length.0;
            let chain = gone.chain.or_else(|| chains.remove(&gone.name));
            let (first, begins) = chain.unwrap_or((gone.name, StreamPosition(0)));
            if let Some(next) = gone.continued_by {
                chains.insert(next, (first, StreamPosition(begins.0 + gone.length.0)));
            }
        }
        for stream in &mut self.streams {
            if chains.is_empty() {
                break;
            }
            if let Some(chain) = chains.remove(&stream.name) {
                stream.chain = Some(chain);
            }
        }
    }

    /// The first stream of the chain that this one is part of, and the chain's position at which
    /// this one begins.
    pub fn chain_of(&self, name: StreamName) -> Option<(StreamName, StreamPosition)> {
        let mut at = self.index_of(name)?;
        let mut begins = 0;
        loop {
            let stream = &self.streams[at];
            if let Some((first, position)) = stream.chain {
                return Some((first, StreamPosition(position.0 + begins)));
            }
            let Some((before, length)) = stream.continues else {
                return Some((stream.name, StreamPosition(begins)));
            };
            begins += length.0;
            at = self.streams[..at].iter().rposition(|s| s.name == before)?;
        }
    }

    /// What is left of the chain that begins with `first`: its oldest stream in the table, and the
    /// chain's position at which that begins.
    pub fn chain_from(&self, first: StreamName) -> Option<(&StreamState, StreamPosition)> {
        if let Some(stream) = self.stream(first) {
            return Some((stream, StreamPosition(0)));
        }
        self.streams.iter().find_map(|stream| match stream.chain {
            Some((name, begins)) if name == first => Some((stream, begins)),
            _ => None,
        })
    }

    /// Whether a stream of this name can have been opened and trimmed since. No other of this name
    /// will ever be opened.
    pub fn is_forgotten(&self, name: StreamName) -> bool {
        self.streams_trimmed.count > 0 && !self.is_new(name) && self.stream(name).is_none()
    }

    /// Whether a stream of this name may be opened: its number exceeds its owner's last.
    pub fn is_new(&self, name: StreamName) -> bool {
        let last = self.sequences.get(&name.owner);
        last.is_none_or(|last| name.sequence > *last)
    }

    /// The slot before which all is to be trimmed so that the bytes of the stream from the position
    /// on stay, and those below it, with everything older, are forgotten. None if there is no such
    /// stream, or it is not that long.
    pub fn trim_point(&self, stream: StreamName, position: StreamPosition) -> Option<Slot> {
        let at = self.index_of(stream)?;
        let found = &self.streams[at];
        if position == StreamPosition(0) {
            return Some(found.opened);
        }
        let bytes_end = self.bytes_end(at, self.next);
        let kept = found.length.0.checked_sub(position.0)?;
        Some(Slot(bytes_end.0.saturating_sub(kept)))
    }

    /// Whether a trim before this slot would forget anything: of what is there, only the oldest
    /// stream can have lost bytes already.
    pub fn would_forget(&self, before: Slot) -> bool {
        let Some(oldest) = self.streams.first() else {
            return false;
        };
        let leaves = self.streams.get(1).is_some_and(|s| s.opened <= before);
        let kept_max = self.bytes_end(0, self.next).0.saturating_sub(before.0);
        leaves || oldest.length.0.saturating_sub(kept_max) > oldest.trimmed.0
    }

    /// No byte of this stream stands at or above this slot, if `next` is the first slot not applied.
    fn bytes_end(&self, at: usize, next: Slot) -> Slot {
        self.streams.get(at + 1).map_or(next, |next| next.opened)
    }

    /// Whether a state that came from elsewhere can be true at all.
    pub fn is_sound(&self) -> bool {
        let growing = match self.current {
            None => self.streams.iter().all(|s| s.end != StreamEnd::Open),
            Some(name) => self
                .streams
                .last()
                .is_some_and(|s| s.name == name && s.end == StreamEnd::Open),
        };
        let begins_within = |stream: &StreamState| {
            let begins = stream.chain.map_or(0, |(_, begins)| begins.0);
            begins <= self.streams_trimmed.bytes
        };
        growing
            && self.streams.iter().all(begins_within)
            && (self.streams_trimmed.count > 0 || self.streams_trimmed.bytes == 0)
            && self.streams_trimmed.bytes <= self.next.0
            && self.era_start <= self.next
            && self.trimmed <= self.next
            && Configuration::new(self.configuration.members().iter().copied())
                .as_ref()
                .is_ok_and(|sound| *sound == self.configuration)
            && self.streams.windows(2).all(|s| s[0].opened < s[1].opened)
            && self
                .streams
                .iter()
                .all(|s| s.opened < self.next && s.trimmed <= s.length && s.length.0 <= self.next.0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Change, Offset};
    use alloc::sync::Arc;
    use proptest::prelude::*;
    use std::vec;

    fn name(owner: u32, counter: u32) -> StreamName {
        StreamName {
            owner: NodeId(owner),
            sequence: StreamSequence {
                incarnation: 1,
                counter,
            },
        }
    }

    fn fresh() -> LogState {
        LogState::new(Configuration::equal([1, 2, 3].map(NodeId)).unwrap())
    }

    fn act(state: &mut LogState, action: Action) -> Outcome {
        let slots = SlotRange::new(state.next, Slot(state.next.0 + 1));
        state
            .apply(slots, &Value::Action(Arc::new(action)))
            .expect("actions have outcomes")
    }

    fn open(
        state: &mut LogState,
        stream: StreamName,
        continues: Option<(StreamName, StreamPosition)>,
    ) -> Outcome {
        let open = OpenStream {
            stream,
            label: String::from("label"),
            metadata: vec![1],
            continues,
        };
        act(state, Action::OpenStream(open))
    }

    /// `count` bytes of `stream` from `position` on, in the next slots.
    fn write(state: &mut LogState, stream: StreamName, position: u64, count: u64) {
        let slots = SlotRange::new(state.next, Slot(state.next.0 + count));
        let offset = Offset(state.next.0 - position);
        state.apply(slots, &Value::Content { stream, offset });
    }

    fn value() -> impl Strategy<Value = (u64, Value)> {
        let stream = (1u32..3, 1u32..4).prop_map(|(owner, counter)| name(owner, counter));
        let action = |action| (1, Value::Action(Arc::new(action)));
        prop_oneof![
            2 => (1u64..9).prop_map(|count| (count, Value::NoOp)),
            8 => (stream.clone(), 0u64..30, 1u64..20).prop_map(|(stream, offset, count)| {
                (count, Value::Content { stream, offset: Offset(offset) })
            }),
            6 => (stream.clone(), proptest::option::of((stream.clone(), 0u64..20))).prop_map(
                move |(stream, continues)| action(Action::OpenStream(OpenStream {
                    stream,
                    label: String::new(),
                    metadata: Vec::new(),
                    continues: continues.map(|(stream, at)| (stream, StreamPosition(at))),
                }))
            ),
            2 => (stream, 0u64..20).prop_map(move |(stream, at)| {
                action(Action::CloseStream { stream, at: StreamPosition(at) })
            }),
            2 => (0u64..200).prop_map(move |before| action(Action::Trim { before: Slot(before) })),
            1 => (0u32..2, 1u32..5).prop_map(move |(era, node)| {
                action(Action::Reconfigure {
                    from: Era(era),
                    change: Change::Increment(NodeId(node)),
                })
            }),
        ]
    }

    proptest! {
        /// ‡ Applying is defined slot by slot.
        #[test]
        fn the_result_does_not_depend_on_how_runs_are_cut(
            values in proptest::collection::vec((value(), any::<u64>()), 1..60),
        ) {
            let (mut whole, mut cut, mut single) = (fresh(), fresh(), fresh());
            for ((count, value), seed) in values {
                // Half of the content continues the current stream as it should.
                let value = match (&value, whole.current_stream()) {
                    (Value::Content { .. }, Some(stream)) if seed % 2 == 0 => Value::Content {
                        stream: stream.name,
                        offset: Offset(whole.next.0 - stream.length.0),
                    },
                    _ => value,
                };
                let start = whole.next.0;
                let end = start + count;
                whole.apply(SlotRange::new(Slot(start), Slot(end)), &value);
                let middle = start + (seed >> 8) % count;
                for (from, to) in [(start, middle), (middle, end)] {
                    if from < to {
                        cut.apply(SlotRange::new(Slot(from), Slot(to)), &value);
                    }
                }
                for slot in start..end {
                    single.apply(SlotRange::new(Slot(slot), Slot(slot + 1)), &value);
                }
                prop_assert_eq!(&whole, &cut);
                prop_assert_eq!(&whole, &single);
                prop_assert!(whole.is_sound());
            }
        }
    }

    #[test]
    fn a_no_op_changes_nothing_but_the_next_slot() {
        let mut state = fresh();
        open(&mut state, name(1, 1), None);
        write(&mut state, name(1, 1), 0, 5);
        let mut before = state.clone();
        let slots = SlotRange::new(state.next, Slot(state.next.0 + 1000));
        assert_eq!(state.apply(slots, &Value::NoOp), None);
        before.next = state.next;
        assert_eq!(state, before);
    }

    #[test]
    fn a_stream_goes_on_over_slots_of_others() {
        let mut state = fresh();
        open(&mut state, name(1, 1), None);
        write(&mut state, name(1, 1), 0, 5);
        act(&mut state, Action::GenerateNodeId);
        write(&mut state, name(1, 1), 5, 5);
        assert_eq!(state.current_stream().unwrap().length.0, 10);
    }

    #[test]
    fn a_gap_ends_the_stream_and_other_streams_content_does_not() {
        let mut state = fresh();
        open(&mut state, name(1, 1), None);
        write(&mut state, name(1, 1), 0, 5);
        write(&mut state, name(2, 1), 0, 3);
        assert_eq!(
            state.current,
            Some(name(1, 1)),
            "unopened content is nothing"
        );
        let slots = SlotRange::new(state.next, Slot(state.next.0 + 3));
        let offset = Offset(state.next.0 - 6);
        let stream = name(1, 1);
        state.apply(slots, &Value::Content { stream, offset });
        assert_eq!(state.current, None);
        let stream = state.stream(name(1, 1)).unwrap();
        assert_eq!((stream.length.0, stream.end), (5, StreamEnd::Cut));
        write(&mut state, name(1, 1), 5, 3);
        assert_eq!(state.stream(name(1, 1)).unwrap().length.0, 5, "it is over");
    }

    #[test]
    fn opening_closes_the_stream_before() {
        let mut state = fresh();
        assert_eq!(
            open(&mut state, name(1, 1), None),
            Outcome::Opened(name(1, 1))
        );
        assert_eq!(
            open(&mut state, name(2, 1), None),
            Outcome::Opened(name(2, 1))
        );
        assert_eq!(state.stream(name(1, 1)).unwrap().end, StreamEnd::Cut);
        assert_eq!(state.current, Some(name(2, 1)));
    }

    /// ‡ One number per owner, never trimmed.
    #[test]
    fn a_stream_is_new_only_above_every_number_of_its_owner() {
        let mut state = fresh();
        open(&mut state, name(1, 5), None);
        open(&mut state, name(2, 9), None);
        let before = Slot(u64::MAX);
        act(&mut state, Action::Trim { before });
        for counter in [4, 5] {
            let refused = Outcome::NotOpened {
                stream: name(1, counter),
                reason: NotOpened::NotNew,
            };
            assert_eq!(open(&mut state, name(1, counter), None), refused);
        }
        assert_eq!(state.current, Some(name(2, 9)), "a no-op");
        assert_eq!(
            open(&mut state, name(1, 6), None),
            Outcome::Opened(name(1, 6))
        );
    }

    /// ‡ Exact resumption is possible only through this outcome.
    #[test]
    fn a_stream_continues_another_only_at_its_very_end_and_once() {
        let mut state = fresh();
        open(&mut state, name(1, 1), None);
        write(&mut state, name(1, 1), 0, 7);
        let mut refused = |counter, at, length, continued_by: Option<StreamName>| {
            let continues = Some((name(1, 1), StreamPosition(at)));
            let expected = Outcome::NotOpened {
                stream: name(2, counter),
                reason: NotOpened::Continues {
                    length: StreamPosition(length),
                    continued_by,
                },
            };
            assert_eq!(open(&mut state, name(2, counter), continues), expected);
        };
        refused(1, 6, 7, None);
        refused(1, 8, 7, None);
        let continues = Some((name(1, 1), StreamPosition(7)));
        let opened = Outcome::Opened(name(2, 1));
        assert_eq!(open(&mut state, name(2, 1), continues), opened);
        let twice = Outcome::NotOpened {
            stream: name(3, 1),
            reason: NotOpened::Continues {
                length: StreamPosition(7),
                continued_by: Some(name(2, 1)),
            },
        };
        assert_eq!(open(&mut state, name(3, 1), continues), twice);
        let unknown = Outcome::NotOpened {
            stream: name(3, 1),
            reason: NotOpened::UnknownStream,
        };
        // Whoever did not hear that it continued the first one is told so even after that is trimmed.
        let before = Action::Trim { before: state.next };
        act(&mut state, before);
        assert!(state.is_forgotten(name(1, 1)));
        assert_eq!(open(&mut state, name(3, 1), continues), twice);
        let nobody = Some((name(9, 9), StreamPosition(0)));
        assert_eq!(open(&mut state, name(3, 1), nobody), unknown);
    }

    #[test]
    fn a_clean_end_needs_the_exact_length() {
        let mut state = fresh();
        open(&mut state, name(1, 1), None);
        write(&mut state, name(1, 1), 0, 7);
        let stream = name(1, 1);
        let close = |at| Action::CloseStream {
            stream,
            at: StreamPosition(at),
        };
        assert_eq!(act(&mut state, close(6)), Outcome::NotClosed { stream });
        let at = StreamPosition(7);
        assert_eq!(act(&mut state, close(7)), Outcome::Closed { stream, at });
        assert_eq!(act(&mut state, close(7)), Outcome::NotClosed { stream });
        assert_eq!(state.stream(stream).unwrap().end, StreamEnd::Closed);
        open(&mut state, name(2, 1), None);
        assert_eq!(state.stream(stream).unwrap().end, StreamEnd::Closed);
    }

    /// ‡ A retried increment must not apply twice.
    #[test]
    fn a_reconfiguration_applies_in_its_era_only_and_an_invalid_one_starts_none() {
        let mut state = fresh();
        let change = Change::Increment(NodeId(4));
        let increment = Action::Reconfigure {
            from: Era(0),
            change,
        };
        let era = Era(1);
        assert_eq!(
            act(&mut state, increment.clone()),
            Outcome::Reconfigured { era }
        );
        assert_eq!((state.era, state.era_start), (Era(1), Slot(1)));
        let late = Outcome::NotReconfigured(ChangeRefused::WrongEra);
        assert_eq!(act(&mut state, increment), late);
        assert_eq!(state.configuration.weight(NodeId(4)), 1);
        let change = Change::Divide(2);
        let invalid = Action::Reconfigure {
            from: Era(1),
            change,
        };
        let refused = Outcome::NotReconfigured(ChangeRefused::Remainder);
        assert_eq!(act(&mut state, invalid), refused);
        assert_eq!((state.era, state.era_start), (Era(1), Slot(1)));
    }

    #[test]
    fn node_ids_are_given_once() {
        let mut state = fresh();
        for id in 4..8 {
            let given = act(&mut state, Action::GenerateNodeId);
            assert_eq!(given, Outcome::NodeId(NodeId(id)));
        }
        state.next_node_id = NodeId(u32::MAX);
        let none = Outcome::NodeId(NodeId(0));
        assert_eq!(act(&mut state, Action::GenerateNodeId), none);
    }

    #[test]
    fn a_trim_forgets_no_slot_at_or_above_it() {
        let mut state = fresh();
        open(&mut state, name(1, 1), None); // slot 0
        write(&mut state, name(1, 1), 0, 100); // 1..101
        open(&mut state, name(2, 1), None); // 101
        write(&mut state, name(2, 1), 0, 50); // 102..152
        act(&mut state, Action::GenerateNodeId); // 152
        write(&mut state, name(2, 1), 50, 50); // 153..203
        let trim = |state: &mut LogState, before| {
            let before = Slot(before);
            act(state, Action::Trim { before })
        };
        trim(&mut state, 41);
        assert_eq!(
            state.stream(name(1, 1)).unwrap().trimmed.0,
            40,
            "exact inside a stream"
        );
        let before = Slot(41);
        assert_eq!(
            trim(&mut state, 7),
            Outcome::Trimmed { before },
            "nothing comes back"
        );
        trim(&mut state, 112);
        assert_eq!(state.stream(name(1, 1)), None);
        let trimmed = StreamsTrimmed {
            count: 1,
            bytes: 100,
        };
        assert_eq!(state.streams_trimmed, trimmed);
        let trimmed = state.stream(name(2, 1)).unwrap().trimmed.0;
        assert!(
            (6..=10).contains(&trimmed),
            "late by the actions in between: {trimmed}"
        );
        let own = state.next;
        assert_eq!(trim(&mut state, u64::MAX), Outcome::Trimmed { before: own });
        let last = state.stream(name(2, 1)).unwrap();
        assert_eq!(last.trimmed, last.length, "the last stays, to be continued");
        let at = last.length;
        let continues = Some((name(2, 1), at));
        assert_eq!(
            open(&mut state, name(3, 1), continues),
            Outcome::Opened(name(3, 1))
        );
        write(&mut state, name(3, 1), 0, 5);
        assert!(state.is_sound());
    }

    /// Whoever reads a chain by its first stream's name goes on doing so.
    #[test]
    fn a_chain_keeps_its_positions_when_its_first_streams_are_gone() {
        let mut state = fresh();
        open(&mut state, name(1, 1), None); // slot 0
        write(&mut state, name(1, 1), 0, 10);
        let at_ten = Some((name(1, 1), StreamPosition(10)));
        open(&mut state, name(2, 1), at_ten); // 11
        write(&mut state, name(2, 1), 0, 20);
        let at_twenty = Some((name(2, 1), StreamPosition(20)));
        open(&mut state, name(3, 1), at_twenty); // 32
        write(&mut state, name(3, 1), 0, 5);
        let place = |state: &LogState| {
            let chain = state.chain_of(name(3, 1)).unwrap();
            (chain.0, chain.1.0)
        };
        assert_eq!(place(&state), (name(1, 1), 30));
        for (before, begins) in [(Slot(11), 10), (Slot(32), 30)] {
            act(&mut state, Action::Trim { before });
            assert_eq!(place(&state), (name(1, 1), 30), "before {before}");
            let left = state.chain_from(name(1, 1)).unwrap();
            assert_eq!((left.0.opened, left.1.0), (before, begins));
            assert_eq!(state.streams_trimmed.bytes, begins);
        }
        assert!(state.is_forgotten(name(1, 1)) && state.is_forgotten(name(2, 1)));
        assert!(!state.is_forgotten(name(3, 1)) && !state.is_forgotten(name(3, 2)));
        assert_eq!(
            state.chain_from(name(2, 1)),
            None,
            "its place is not known any more"
        );
        assert!(state.is_sound());
    }

    #[test]
    fn a_trim_that_would_forget_nothing_is_known_beforehand() {
        let mut state = fresh();
        assert!(!state.would_forget(Slot(9)));
        open(&mut state, name(1, 1), None);
        write(&mut state, name(1, 1), 0, 10);
        open(&mut state, name(2, 1), None);
        write(&mut state, name(2, 1), 0, 10);
        for before in [0, 1, 2, 5, 5, 10, 11, 12, 13, 20, 22, 22, 23, 99] {
            let before = Slot(before);
            let mut after = state.clone();
            act(&mut after, Action::Trim { before });
            assert_eq!(
                state.would_forget(before),
                after.streams != state.streams,
                "{before}"
            );
            state = after;
        }
    }

    #[test]
    fn a_trim_point_is_exact_though_bytes_are_chosen_meanwhile() {
        let mut state = fresh();
        open(&mut state, name(1, 1), None);
        write(&mut state, name(1, 1), 0, 100);
        open(&mut state, name(2, 1), None);
        write(&mut state, name(2, 1), 0, 50);
        let point = |state: &LogState, stream, at| state.trim_point(stream, StreamPosition(at));
        assert_eq!(point(&state, name(1, 1), 101), None, "it is not that long");
        assert_eq!(point(&state, name(9, 1), 0), None);
        for (stream, at) in [
            (name(1, 1), 30),
            (name(2, 1), 0),
            (name(2, 1), 20),
            (name(2, 1), 50),
        ] {
            let before = point(&state, stream, at).unwrap();
            let length = state.streams.last().unwrap().length.0;
            write(&mut state, name(2, 1), length, 7);
            act(&mut state, Action::Trim { before });
            let trimmed = state.stream(stream).unwrap().trimmed.0;
            assert_eq!(trimmed, at, "of {stream}");
            state.apply(
                SlotRange::new(state.next, Slot(state.next.0 + 1)),
                &Value::NoOp,
            );
        }
    }
}
