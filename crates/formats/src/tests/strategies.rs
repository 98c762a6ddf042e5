//! Values of every kind, drawn.

use std::sync::Arc;

use paxos::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

prop_compose! {
    pub fn stream()(owner in any::<u32>(), incarnation in any::<u32>(), counter in any::<u32>())
        -> StreamName {
        StreamName { owner: NodeId(owner), sequence: StreamSequence { incarnation, counter } }
    }
}

prop_compose! {
    pub fn term()(era in any::<u32>(), number in any::<u32>(), owner in any::<u32>()) -> Term {
        Term { era: Era(era), number, owner: NodeId(owner) }
    }
}

prop_compose! {
    pub fn slots()(start in any::<u64>(), length in any::<u64>()) -> SlotRange {
        SlotRange::new(Slot(start), Slot(start.saturating_add(length)))
    }
}

fn position() -> impl Strategy<Value = StreamPosition> {
    any::<u64>().prop_map(StreamPosition)
}

fn change() -> impl Strategy<Value = Change> {
    (0..6, any::<u32>()).prop_map(|(kind, operand)| match kind {
        0 => Change::Increment(NodeId(operand)),
        1 => Change::Decrement(NodeId(operand)),
        2 => Change::Multiply(operand),
        3 => Change::Divide(operand),
        4 => Change::MarkAuxiliary(NodeId(operand)),
        _ => Change::UnmarkAuxiliary(NodeId(operand)),
    })
}

prop_compose! {
    fn open_stream()(
        stream in stream(),
        label in "\\PC{0,40}",
        metadata in vec(any::<u8>(), 0..40),
        continues in option::of((stream(), position())),
    ) -> OpenStream {
        OpenStream { stream, label, metadata, continues }
    }
}

pub fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::GenerateNodeId),
        (any::<u32>(), change()).prop_map(|(from, change)| Action::Reconfigure {
            from: Era(from),
            change,
            by: paxos::By::Unsaid,
        }),
        (any::<u32>(), change(), by()).prop_map(|(from, change, by)| Action::Reconfigure {
            from: Era(from),
            change,
            by,
        }),
        (any::<u64>(), by()).prop_map(|(before, by)| Action::Trim {
            before: Slot(before),
            by,
        }),
        wish().prop_map(|wish| Action::Wish(Arc::new(wish))),
        open_stream().prop_map(Action::OpenStream),
        (stream(), position()).prop_map(|(stream, at)| Action::CloseStream { stream, at }),
        (stream(), position()).prop_map(|(stream, at)| Action::CutStream { stream, at }),
        any::<u64>().prop_map(|before| Action::Trim {
            before: Slot(before),
            by: paxos::By::Unsaid,
        }),
    ]
}

fn by() -> impl Strategy<Value = By> {
    prop_oneof![
        Just(By::Unsaid),
        Just(By::Hand),
        wish_number().prop_map(By::Wish)
    ]
}

prop_compose! {
    fn wish_number()(rescues in any::<u32>(), count in any::<u64>()) -> WishNumber {
        WishNumber { rescues, count }
    }
}

prop_compose! {
    fn wish()(
        number in wish_number(),
        max_bytes in option::of(any::<u64>()),
        max_age_s in option::of(any::<u64>()),
        weights in proptest::collection::btree_map(any::<u32>(), 1u32.., 0..4),
        auxiliaries in proptest::collection::btree_set(any::<u32>(), 0..4),
        sealed in any::<bool>(),
        min_copies in 0u32..5,
    ) -> Wish {
        Wish {
            number,
            max_bytes,
            max_age_s,
            weights: weights.into_iter().map(|(node, weight)| (NodeId(node), weight)).collect(),
            auxiliaries: auxiliaries.into_iter().map(NodeId).collect(),
            sealed,
            min_copies,
        }
    }
}

pub fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::NoOp),
        (stream(), any::<u64>()).prop_map(|(stream, offset)| Value::Content {
            stream,
            offset: Offset(offset)
        }),
        action().prop_map(|action| Value::Action(Arc::new(action))),
    ]
}

prop_compose! {
    pub fn run()(slots in slots(), term in term(), value in value()) -> AcceptedRun {
        AcceptedRun { slots, term: AcceptedTerm(term), value }
    }
}

prop_compose! {
    fn stream_state()(
        open in open_stream(),
        continued_by in option::of(stream()),
        opened in any::<u64>(),
        length in position(),
        trimmed in position(),
        chain in option::of((stream(), position())),
        end in prop_oneof![Just(StreamEnd::Open), Just(StreamEnd::Closed), Just(StreamEnd::Cut)],
    ) -> StreamState {
        StreamState {
            name: open.stream,
            label: open.label,
            metadata: open.metadata,
            continues: open.continues,
            chain,
            continued_by,
            opened: Slot(opened),
            length,
            trimmed,
            end,
        }
    }
}

prop_compose! {
    fn configuration()(nodes in proptest::collection::btree_set(1u32.., 0..5), weight in 1u32..9)
        -> Configuration {
        let member = |node| Member { node: NodeId(node), weight, auxiliary: false };
        Configuration::new(nodes.into_iter().map(member)).unwrap_or_default()
    }
}

prop_compose! {
    pub fn state()(
        numbers in any::<[u64; 4]>(),
        era in any::<u32>(),
        configuration in configuration(),
        next_node_id in any::<u32>(),
        sequences in vec(stream(), 0..4),
        streams in vec(stream_state(), 0..4),
        current in option::of(stream()),
        wish in option::of(wish()),
    ) -> LogState {
        LogState {
            next: Slot(numbers[0]),
            era: Era(era),
            era_start: Slot(numbers[1]),
            configuration,
            next_node_id: NodeId(next_node_id),
            sequences: sequences.into_iter().map(|name| (name.owner, name.sequence)).collect(),
            streams,
            streams_trimmed: match numbers[2] % 4 {
                0 => StreamsTrimmed::default(),
                _ => StreamsTrimmed { count: numbers[2], bytes: numbers[3] },
            },
            current,
            trimmed: Slot(numbers[3]),
            wish: wish.map(Arc::new),
        }
    }
}

pub fn finishing() -> impl Strategy<Value = Option<Finishing>> {
    let finishing = (term(), any::<u64>());
    proptest::option::of(finishing.prop_map(|(term, below)| Finishing {
        term,
        below: Slot(below),
    }))
}

pub fn status() -> impl Strategy<Value = Message> {
    prop_oneof![
        (term(), any::<u64>(), any::<u64>(), finishing()).prop_map(|(term, a, b, finishing)| {
            Message::LeaderStatus {
                term,
                proposed_up_to: Slot(a),
                chosen_up_to: Slot(b),
                finishing,
            }
        }),
        (term(), term(), any::<[u64; 3]>()).prop_map(|(a, b, numbers)| Message::FollowerStatus {
            promised: PromisedTerm(a),
            accepted_term: AcceptedTerm(b),
            accepted_up_to: Slot(numbers[0]),
            first_unchosen: Slot(numbers[1]),
            missing_bytes: numbers[2],
        }),
    ]
}

fn ask_number() -> impl Strategy<Value = AskNumber> {
    (any::<u32>(), any::<u64>()).prop_map(|(incarnation, count)| AskNumber { incarnation, count })
}

pub fn message() -> impl Strategy<Value = Message> {
    let slot = || any::<u64>().prop_map(Slot);
    let promised = || term().prop_map(PromisedTerm);
    prop_oneof![
        status(),
        (slot(), promised(), any::<bool>()).prop_map(
            |(first_unchosen, promised, missing_bytes)| Message::SeekVotes {
                first_unchosen,
                promised,
                missing_bytes,
            }
        ),
        (promised(), any::<bool>()).prop_map(|(promised, missing_bytes)| Message::OfferVote {
            promised,
            missing_bytes,
        }),
        slot().prop_map(|first_unchosen| Message::OfferCatchUp { first_unchosen }),
        (slot(), any::<u64>()).prop_map(|(first_unchosen, streams_known)| Message::RequestState {
            first_unchosen,
            streams_known,
        }),
        state().prop_map(|state| Message::State(Arc::new(state))),
        term().prop_map(|term| Message::Prepare { term }),
        (term(), slot(), vec(run(), 0..4))
            .prop_map(|(term, from, runs)| Message::Promise(Promise { term, from, runs })),
        (term(), promised()).prop_map(|(refused, promised)| Message::Refuse { refused, promised }),
        (term(), slots(), any::<u32>()).prop_map(|(term, slots, digest)| Message::Accepted {
            term,
            slots,
            digest: Digest(digest),
        }),
        (term(), any::<u64>()).prop_map(|(term, round)| Message::Confirm { term, round }),
        (term(), any::<u64>()).prop_map(|(term, round)| Message::Confirmed { term, round }),
        (term(), ask_number()).prop_map(|(term, number)| Message::AskBarrier { term, number }),
        (term(), ask_number(), slot()).prop_map(|(term, number, slot)| Message::Barrier {
            term,
            number,
            slot
        }),
        (any::<u32>(), slot()).prop_map(|(era, below)| {
            let era = Era(era);
            Message::Release { era, below }
        }),
        (any::<u32>(), slot()).prop_map(|(era, below)| {
            let era = Era(era);
            Message::Released { era, below }
        }),
    ]
}
