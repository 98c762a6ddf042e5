//! Whether one state can have become another: chosen slots stay chosen.

use core::fmt;

use super::{LogState, StreamEnd};
use crate::{Era, Slot, StreamName, StreamPosition};

/// A statement of one state that another one denies, or lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradicted {
    /// Both say what all slots below come to, and differ.
    Slots(Slot),
    /// One state began the era, and the other had gone past its beginning without it, or began it otherwise.
    Era(Era),
    /// One state holds the stream so far, and the other has none of it, or less, or another one in its place.
    Stream {
        /// The stream.
        name: StreamName,
        /// Its length by the state that holds more.
        length: StreamPosition,
    },
    /// The later state still has what the earlier one had forgotten, or counts less than it did.
    Trims(Slot),
}

impl fmt::Display for Contradicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contradicted::Slots(slot) => {
                write!(f, "what was chosen in the slots below {slot}")
            }
            Contradicted::Era(era) => write!(f, "how era {} began", era.0),
            Contradicted::Stream { name, length } => {
                write!(f, "stream {name}, of which {length} bytes are chosen")
            }
            Contradicted::Trims(slot) => write!(f, "what was trimmed below slot {slot}"),
        }
    }
}

impl LogState {
    /// ‡ The first thing that one of two states knows to be chosen and the other contradicts, or lacks though
    /// it knows of later slots. `None` if either became the other. Takes as long as there are streams.
    ///
    /// A state of which nothing is chosen contradicts none: its beginning is only what its maker knew (a
    /// rescue carries logs out whose beginning nobody who joins later makes the same).
    pub fn contradicted_by(&self, other: &LogState) -> Option<Contradicted> {
        if self.next == Slot(0) || other.next == Slot(0) {
            return None;
        }
        match self.next <= other.next {
            true => self.contradicted_later_by(other),
            false => other.contradicted_later_by(self),
        }
    }

    fn contradicted_later_by(&self, later: &LogState) -> Option<Contradicted> {
        let same_era = later.era == self.era
            && later.era_start == self.era_start
            && later.configuration == self.configuration;
        if !same_era && (later.era <= self.era || later.era_start <= self.next) {
            return Some(Contradicted::Era(self.era.max(later.era)));
        }
        if let Some(stream) = self.stream_lost_in(later) {
            return Some(stream);
        }
        let mut sequences = self.sequences.iter();
        let counts_on = sequences.all(|(owner, last)| later.sequences.get(owner) >= Some(last))
            && later.next_node_id >= self.next_node_id
            && later.streams_trimmed.bytes >= self.streams_trimmed.bytes
            && later.wish_number() >= self.wish_number();
        if later.trimmed < self.trimmed || !counts_on {
            return Some(Contradicted::Trims(self.trimmed.max(later.trimmed)));
        }
        (later.next == self.next && later != self).then_some(Contradicted::Slots(self.next))
    }

    /// A stream that the later state lacks. Streams leave the table from its beginning, and come at its end.
    fn stream_lost_in(&self, later: &LogState) -> Option<Contradicted> {
        let contradicted = |stream: &super::StreamState| Contradicted::Stream {
            name: stream.name,
            length: stream.length,
        };
        let gone = later
            .streams_trimmed
            .count
            .checked_sub(self.streams_trimmed.count);
        let Some(gone) = gone.and_then(|gone| usize::try_from(gone).ok()) else {
            return Some(Contradicted::Trims(later.trimmed));
        };
        let left = self.streams.get(gone..).unwrap_or_default();
        for (at, stream) in left.iter().enumerate() {
            let same = later.streams.get(at).is_some_and(|then| {
                let ended = stream.end != StreamEnd::Open;
                then.name == stream.name
                    && then.opened == stream.opened
                    && then.continues == stream.continues
                    && then.label == stream.label
                    && then.metadata == stream.metadata
                    && then.length >= stream.length
                    && then.trimmed >= stream.trimmed
                    && !(ended && (then.length != stream.length || then.end != stream.end))
            });
            if !same {
                return Some(contradicted(stream));
            }
        }
        let mut new = later.streams.iter().skip(left.len());
        new.find(|stream| stream.opened < self.next)
            .map(contradicted)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use super::*;
    use crate::{
        Action, By, Change, Configuration, NodeId, Offset, OpenStream, SlotRange, StreamSequence,
        Value,
    };

    fn name(counter: u32) -> StreamName {
        StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation: 1,
                counter,
            },
        }
    }

    fn act(state: &LogState, action: Action) -> LogState {
        let mut state = state.clone();
        let slots = SlotRange::new(state.next, Slot(state.next.0 + 1));
        state.apply(slots, &Value::Action(Arc::new(action)));
        state
    }

    fn open(state: &LogState, counter: u32) -> LogState {
        let open = OpenStream {
            stream: name(counter),
            label: "a".into(),
            metadata: Vec::new(),
            continues: None,
        };
        act(state, Action::OpenStream(open))
    }

    fn say(state: &LogState, counter: u32, bytes: u64) -> LogState {
        let mut state = state.clone();
        let length = state.stream(name(counter)).map_or(0, |s| s.length.0);
        let value = Value::Content {
            stream: name(counter),
            offset: Offset(state.next.0 - length),
        };
        let slots = SlotRange::new(state.next, Slot(state.next.0 + bytes));
        state.apply(slots, &value);
        state
    }

    fn new() -> LogState {
        LogState::new(Configuration::equal((1..=3).map(NodeId)).expect("three may be"))
    }

    /// One history, state by state.
    fn history() -> Vec<LogState> {
        let mut all = Vec::from([new()]);
        let mut add = |next: &dyn Fn(&LogState) -> LogState| {
            let next = next(all.last().expect("there is a first"));
            all.push(next);
        };
        for counter in 1..5 {
            add(&|s| open(s, counter));
            add(&|s| say(s, counter, 10));
            add(&|s| say(s, counter, 7));
            add(&|s| {
                let before = Slot(s.next.0.saturating_sub(20));
                let by = By::Hand;
                act(s, Action::Trim { before, by })
            });
            add(&|s| {
                let change = Change::Multiply(2);
                let (from, by) = (s.era, By::Hand);
                act(s, Action::Reconfigure { from, change, by })
            });
            add(&|s| {
                let (stream, at) = (name(counter), StreamPosition(17));
                act(s, Action::CloseStream { stream, at })
            });
            add(&|s| act(s, Action::GenerateNodeId));
        }
        all
    }

    /// A state after a rescue: the log that was carried out knows of no node that joined since.
    #[test]
    fn a_state_in_which_nothing_is_chosen_contradicts_none() {
        let nodes = |nodes: &[u32]| {
            let nodes = nodes.iter().copied().map(NodeId);
            LogState::new(Configuration::equal(nodes).unwrap())
        };
        let (fresh, kept) = (nodes(&[1, 2, 3]), say(&open(&nodes(&[1]), 1), 1, 9));
        assert!(fresh.next_node_id > kept.next_node_id);
        assert_eq!(fresh.contradicted_by(&kept), None);
        assert_eq!(kept.contradicted_by(&fresh), None);
    }

    #[test]
    fn what_a_state_became_contradicts_it_nowhere() {
        let all = history();
        for one in &all {
            for other in &all {
                assert_eq!(one.contradicted_by(other), None, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn another_history_contradicts_it_whichever_is_longer() {
        let stem = say(&open(&new(), 1), 1, 10);
        let long = say(&stem, 1, 90);
        let stream = Contradicted::Stream {
            name: name(1),
            length: StreamPosition(100),
        };
        // The other state has as many slots and more, and lacks bytes that were chosen.
        let other = open(&stem, 2);
        assert_eq!(other.contradicted_by(&long).map(|_| ()), Some(()));
        let longer = say(&other, 2, 500);
        assert_eq!(long.contradicted_by(&longer), Some(stream));
        assert_eq!(longer.contradicted_by(&long), Some(stream));
        assert!(stream.to_string().contains("100 bytes"));
        // The slots are the same, and nothing but the end is another one.
        let close = Action::CloseStream {
            stream: name(1),
            at: StreamPosition(10),
        };
        let noop = say(&stem, 9, 1);
        assert!(act(&stem, close).contradicted_by(&noop).is_some());
        // Eras.
        let change = Change::Multiply(2);
        let reconfigure = Action::Reconfigure {
            from: stem.era,
            change,
            by: By::Hand,
        };
        let era = act(&stem, reconfigure);
        let without = say(&stem, 1, 5);
        assert_eq!(
            era.contradicted_by(&without),
            Some(Contradicted::Era(era.era))
        );
        // The other state lacks a stream that was there.
        let with = say(&open(&say(&stem, 1, 3), 3), 3, 4);
        let lacks = say(&stem, 1, 50);
        assert!(with.contradicted_by(&lacks).is_some());
    }
}
