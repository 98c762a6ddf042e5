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
        2 => (stream.clone(), 0u64..20).prop_map(move |(stream, at)| {
            action(Action::CloseStream { stream, at: StreamPosition(at) })
        }),
        2 => (stream, 0u64..20).prop_map(move |(stream, at)| {
            action(Action::CutStream { stream, at: StreamPosition(at) })
        }),
        2 => (0u64..200).prop_map(move |before| action(Action::Trim { before: Slot(before), by: crate::By::Unsaid })),
        1 => (0u32..2, 1u32..5).prop_map(move |(era, node)| {
            action(Action::Reconfigure {
                from: Era(era),
                change: Change::Increment(NodeId(node)),
                by: crate::By::Unsaid,
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
    act(
        &mut state,
        Action::Trim {
            before,
            by: crate::By::Unsaid,
        },
    );
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
    // A writer that did not hear that it continued the first stream is told so even after that is trimmed.
    let before = Action::Trim {
        before: state.next,
        by: crate::By::Unsaid,
    };
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

/// Whoever cuts a stream may not know the last of it: a writer that came back is not cut.
#[test]
fn a_stream_is_cut_at_its_exact_length_and_can_be_continued() {
    let mut state = fresh();
    open(&mut state, name(1, 1), None);
    write(&mut state, name(1, 1), 0, 7);
    let stream = name(1, 1);
    let cut = |at| Action::CutStream {
        stream,
        at: StreamPosition(at),
    };
    assert_eq!(act(&mut state, cut(6)), Outcome::NotCut { stream });
    assert_eq!(state.current, Some(stream));
    assert_eq!(act(&mut state, cut(7)), Outcome::Cut { stream });
    assert_eq!(state.stream(stream).unwrap().end, StreamEnd::Cut);
    assert_eq!(state.current, None);
    let continues = Some((stream, StreamPosition(7)));
    let opened = Outcome::Opened(name(2, 1));
    assert_eq!(open(&mut state, name(2, 1), continues), opened);
    assert_eq!(act(&mut state, cut(7)), Outcome::NotCut { stream });
    assert_eq!(state.current, Some(name(2, 1)), "it goes on");
}

/// ‡ A retried increment must not apply twice.
#[test]
fn a_reconfiguration_applies_in_its_era_only_and_an_invalid_one_starts_none() {
    let mut state = fresh();
    let change = Change::Increment(NodeId(4));
    let increment = Action::Reconfigure {
        from: Era(0),
        change,
        by: crate::By::Unsaid,
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
        by: crate::By::Unsaid,
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
        act(
            state,
            Action::Trim {
                before,
                by: crate::By::Unsaid,
            },
        )
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

/// A reader of a chain by its first stream's name goes on reading it.
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
        act(
            &mut state,
            Action::Trim {
                before,
                by: crate::By::Unsaid,
            },
        );
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
        act(
            &mut after,
            Action::Trim {
                before,
                by: crate::By::Unsaid,
            },
        );
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
        act(
            &mut state,
            Action::Trim {
                before,
                by: crate::By::Unsaid,
            },
        );
        let trimmed = state.stream(stream).unwrap().trimmed.0;
        assert_eq!(trimmed, at, "of {stream}");
        state.apply(
            SlotRange::new(state.next, Slot(state.next.0 + 1)),
            &Value::NoOp,
        );
    }
}
