//! The rest of a log when a majority of its replicas is lost for good.
//!
//! Nothing here is consensus: somebody decided, outside of it, that one replica's knowledge is the truth
//! from now on, in a cluster that has nothing to do with the one before.

use crate::mutation::{self, Mutation};
use crate::{
    AcceptedRun, ChangeRefused, Configuration, Era, LogState, NodeId, Slot, SlotRange, StreamEnd,
    StreamName, StreamPosition, Value,
};

/// A place in a log's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputPlace {
    /// The stream.
    pub stream: StreamName,
    /// The position in it.
    pub position: StreamPosition,
}

impl LogState {
    /// Takes for chosen what this replica accepted next, without a hole: it may have been chosen, and nobody
    /// is left to ask. Returns the first slot that it accepted behind a hole, if there is any.
    pub fn take_for_chosen(&mut self, accepted: &[AcceptedRun]) -> Option<Slot> {
        for run in accepted {
            if run.slots.end <= self.next {
                continue;
            }
            if run.slots.start > self.next {
                return Some(run.slots.start);
            }
            self.apply(SlotRange::new(self.next, run.slots.end), &run.value);
        }
        None
    }

    /// Forgets the output before one place and after another, both in the table, which lie in this
    /// order. Positions keep their meaning, and a stream that lost its end was cut there.
    pub fn keep_between(&mut self, from: OutputPlace, to: OutputPlace) {
        let at = |streams: &[crate::StreamState], name| streams.iter().position(|s| s.name == name);
        let Some(last) = at(&self.streams, to.stream) else {
            return;
        };
        let dropped = self.streams.len() > last + 1;
        self.streams.truncate(last + 1);
        let stream = &mut self.streams[last];
        if stream.length > to.position {
            stream.length = to.position;
            stream.end = StreamEnd::Cut;
            self.current = None;
        }
        if dropped {
            self.current = None;
        }
        for at in 0..self.streams.len() {
            let by = self.streams[at].continued_by;
            self.streams[at].continued_by = by.filter(|by| self.stream(*by).is_some());
        }
        if let Some(first) = at(&self.streams, from.stream) {
            self.forget_first(first);
            let stream = &mut self.streams[0];
            stream.trimmed = stream.trimmed.max(from.position).min(stream.length);
            if first > 0 || stream.trimmed > StreamPosition(0) {
                self.trimmed = self.trimmed.max(stream.opened);
            }
        }
    }

    /// Forgets the whole output, and lets it go on at this position: a state stands for all before.
    pub fn begin_at(&mut self, position: u64) {
        self.forget_first(self.streams.len());
        self.streams_trimmed.count = self.streams_trimmed.count.max(1);
        self.streams_trimmed.bytes = position;
        self.current = None;
        // No output is longer than the slots that it could have.
        if position > self.next.0 {
            self.apply(SlotRange::new(self.next, Slot(position)), &Value::NoOp);
        }
        self.trimmed = self.next;
    }

    /// Lets this node decide alone from slot `next` on, in a new era; slots up to there hold nothing more.
    pub fn decided_by(&mut self, node: NodeId, next: Slot) -> Result<(), ChangeRefused> {
        let configuration = Configuration::equal([node])?;
        let era = self.era.0.checked_add(1).ok_or(ChangeRefused::Overflow)?;
        if next > self.next {
            self.apply(SlotRange::new(self.next, next), &Value::NoOp);
        }
        self.configuration = configuration;
        self.era = Era(era);
        self.era_start = self.next;
        // ‡ The lost cluster's directory may have known later wishes, and sealed logs that are carried over.
        if !mutation::is(Mutation::RescueKeepsTheWish) {
            self.wish = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::{AcceptedTerm, Action, Offset, OpenStream, StreamSequence, Term};
    use alloc::string::String;
    use alloc::sync::Arc;

    fn name(counter: u32) -> StreamName {
        StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation: 1,
                counter,
            },
        }
    }

    fn place(counter: u32, position: u64) -> OutputPlace {
        OutputPlace {
            stream: name(counter),
            position: StreamPosition(position),
        }
    }

    fn opens(counter: u32, continues: Option<(u32, u64)>) -> Value {
        Value::Action(Arc::new(Action::OpenStream(OpenStream {
            stream: name(counter),
            label: String::new(),
            metadata: Vec::new(),
            continues: continues.map(|(c, at)| (name(c), StreamPosition(at))),
        })))
    }

    fn bytes(counter: u32, offset: u64) -> Value {
        let (stream, offset) = (name(counter), Offset(offset));
        Value::Content { stream, offset }
    }

    fn apply(state: &mut LogState, count: u64, value: Value) {
        let slots = SlotRange::new(state.next, Slot(state.next.0 + count));
        state.apply(slots, &value);
    }

    /// Three streams of 10 bytes, the last open; the second continues the first.
    fn three() -> LogState {
        let nodes = [1, 2, 3].map(NodeId);
        let mut state = LogState::new(Configuration::equal(nodes).unwrap());
        apply(&mut state, 1, opens(1, None));
        apply(&mut state, 10, bytes(1, 1));
        apply(&mut state, 1, opens(2, Some((1, 10))));
        apply(&mut state, 10, bytes(2, 12));
        apply(&mut state, 1, opens(3, None));
        apply(&mut state, 10, bytes(3, 23));
        state
    }

    fn run(from: u64, to: u64, value: Value) -> AcceptedRun {
        AcceptedRun {
            slots: SlotRange::new(Slot(from), Slot(to)),
            term: AcceptedTerm(Term::default()),
            value,
        }
    }

    #[test]
    fn what_was_accepted_next_counts_up_to_the_first_hole() {
        let mut state = three();
        let accepted = vec![
            run(30, 36, bytes(3, 23)), // below 33 it is known
            run(36, 37, Value::NoOp),
            run(40, 50, bytes(3, 24)),
        ];
        assert_eq!(state.take_for_chosen(&accepted), Some(Slot(40)));
        assert_eq!(state.next, Slot(37));
        assert_eq!(state.stream(name(3)).unwrap().length.0, 13);
        assert_eq!(state.take_for_chosen(&[]), None);
    }

    #[test]
    fn what_is_kept_keeps_its_positions_and_the_rest_is_forgotten() {
        let mut state = three();
        state.keep_between(place(2, 4), place(3, 7));
        assert!(state.is_sound());
        let names: Vec<_> = state.streams.iter().map(|s| s.name).collect();
        assert_eq!(names, [name(2), name(3)]);
        let (second, third) = (&state.streams[0], &state.streams[1]);
        assert_eq!((second.trimmed.0, second.length.0), (4, 10));
        assert_eq!(second.chain, Some((name(1), StreamPosition(10))));
        assert_eq!((third.length.0, third.end), (7, StreamEnd::Cut));
        assert_eq!(state.current, None);
        assert!(state.is_forgotten(name(1)));
    }

    #[test]
    fn streams_after_the_end_leave_no_trace_but_their_names() {
        let mut state = three();
        state.keep_between(place(1, 0), place(1, 10));
        assert!(state.is_sound());
        assert_eq!(state.streams.len(), 1);
        assert_eq!(state.streams[0].continued_by, None, "it may be continued");
        assert!(!state.is_new(name(3)), "the name is never used again");
    }

    #[test]
    fn an_output_goes_on_where_a_state_stands() {
        for position in [0, 12, 30, 1_000] {
            let mut state = three();
            state.begin_at(position);
            assert!(state.is_sound(), "{position}");
            assert_eq!(state.streams_trimmed.bytes, position);
            assert!(state.next >= three().next && state.next.0 >= position);
            let next = state.next.0;
            apply(&mut state, 1, opens(4, None));
            apply(&mut state, 5, bytes(4, next + 1));
            assert!(state.is_sound());
            assert!(!state.is_new(name(3)) && state.is_forgotten(name(3)));
        }
    }

    #[test]
    fn to_keep_all_changes_nothing() {
        let mut state = three();
        state.keep_between(place(1, 0), place(3, 10));
        assert_eq!(state, three());
    }

    #[test]
    fn one_node_decides_in_an_era_of_its_own() {
        let mut state = three();
        state.decided_by(NodeId(3), Slot(99)).unwrap();
        assert!(state.is_sound());
        assert_eq!((state.next, state.era_start), (Slot(99), Slot(99)));
        assert_eq!(state.era, Era(1));
        assert!(state.configuration.is_quorum(|node| node == NodeId(3)));
        assert!(!state.configuration.contains(NodeId(1)));
    }
}
