//! Messages from a peer that has lost its mind: nothing panics, whatever they say, and what this replica
//! itself did stays true.

use std::sync::Arc;
use std::time::Duration;

use paxos::*;
use proptest::prelude::*;

fn term() -> impl Strategy<Value = Term> {
    (0u32..3, prop_oneof![0u32..6, Just(u32::MAX)], 0u32..4).prop_map(|(era, number, owner)| Term {
        era: Era(era),
        number,
        owner: NodeId(owner),
    })
}

fn slot() -> impl Strategy<Value = Slot> {
    prop_oneof![20 => 0u64..30, 1 => Just(u64::MAX), 1 => Just(u64::MAX / 2)].prop_map(Slot)
}

fn slots() -> impl Strategy<Value = SlotRange> {
    prop_oneof![
        10 => (0u64..30, 1u64..9).prop_map(|(s, n)| SlotRange::new(Slot(s), Slot(s + n))),
        3 => (0u64..30).prop_map(|s| SlotRange::new(Slot(s), Slot(s + 1))),
        1 => (slot(), slot()).prop_map(|(start, end)| SlotRange::new(start, end)),
    ]
}

fn name() -> impl Strategy<Value = StreamName> {
    (1u32..4, 1u32..3).prop_map(|(owner, counter)| StreamName {
        owner: NodeId(owner),
        sequence: StreamSequence {
            incarnation: 1,
            counter,
        },
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::NoOp),
        (name(), 0u64..20).prop_map(|(stream, offset)| Value::Content {
            stream,
            offset: Offset(offset)
        }),
        name().prop_map(
            |stream| Value::Action(Arc::new(Action::OpenStream(OpenStream {
                stream,
                label: String::new(),
                metadata: Vec::new(),
                continues: None,
            })))
        ),
        (0u32..2, 1u32..5).prop_map(|(era, node)| Value::Action(Arc::new(Action::Reconfigure {
            from: Era(era),
            change: Change::Increment(NodeId(node)),
            by: paxos::By::Unsaid,
        }))),
        slot().prop_map(|before| Value::Action(Arc::new(Action::Trim {
            before,
            by: paxos::By::Unsaid
        }))),
    ]
}

fn run() -> impl Strategy<Value = AcceptedRun> {
    (slots(), term(), value()).prop_map(|(slots, term, value)| AcceptedRun {
        slots,
        term: AcceptedTerm(term),
        value,
    })
}

fn state() -> impl Strategy<Value = LogState> {
    (proptest::collection::vec(value(), 0..30), 0u8..8).prop_map(|(values, spoil)| {
        let mut state = LogState::new(Configuration::equal([1, 2, 3].map(NodeId)).unwrap());
        for (slot, value) in values.into_iter().enumerate() {
            let slots = SlotRange::new(Slot(slot as u64), Slot(slot as u64 + 1));
            state.apply(slots, &value);
        }
        match spoil {
            0 => state.current = None,
            1 => state.next = Slot(0),
            2 => state.configuration = Configuration::default(),
            _ => {}
        }
        state
    })
}

fn number() -> impl Strategy<Value = AskNumber> {
    (0u32..3, 0u64..4).prop_map(|(incarnation, count)| AskNumber { incarnation, count })
}

fn message() -> impl Strategy<Value = Message> {
    let promised = || term().prop_map(PromisedTerm);
    prop_oneof![
        (slot(), promised()).prop_map(|(first_unchosen, promised)| Message::SeekVotes {
            first_unchosen,
            promised,
            missing_bytes: false
        }),
        promised().prop_map(|promised| Message::OfferVote {
            promised,
            missing_bytes: false
        }),
        slot().prop_map(|first_unchosen| Message::OfferCatchUp { first_unchosen }),
        slot().prop_map(|first_unchosen| Message::RequestState {
            first_unchosen,
            streams_known: 0
        }),
        state().prop_map(|state| Message::State(Arc::new(state))),
        term().prop_map(|term| Message::Prepare { term }),
        (term(), slot(), proptest::collection::vec(run(), 0..4))
            .prop_map(|(term, from, runs)| Message::Promise(Promise { term, from, runs })),
        (term(), promised()).prop_map(|(refused, promised)| Message::Refuse { refused, promised }),
        (term(), slots(), value(), slot()).prop_map(|(term, slots, value, chosen_up_to)| {
            Message::Propose(Proposal {
                term,
                slots,
                value,
                digest: Digest(0),
                chosen_up_to,
            })
        }),
        (term(), slots()).prop_map(|(term, slots)| Message::Accepted {
            term,
            slots,
            digest: Digest(0)
        }),
        (term(), slot(), slot()).prop_map(|(term, proposed_up_to, chosen_up_to)| {
            Message::LeaderStatus {
                term,
                proposed_up_to,
                chosen_up_to,
                finishing: None,
            }
        }),
        (promised(), term(), slot(), slot()).prop_map(
            |(promised, term, accepted_up_to, first_unchosen)| Message::FollowerStatus {
                promised,
                accepted_term: AcceptedTerm(term),
                accepted_up_to,
                first_unchosen,
                missing_bytes: 0,
            }
        ),
        (term(), 0u64..4).prop_map(|(term, round)| Message::Confirm { term, round }),
        (term(), 0u64..4).prop_map(|(term, round)| Message::Confirmed { term, round }),
        (term(), number()).prop_map(|(term, number)| Message::AskBarrier { term, number }),
        (term(), number(), slot()).prop_map(|(term, number, slot)| Message::Barrier {
            term,
            number,
            slot
        }),
        (0u32..3, slot()).prop_map(|(era, below)| {
            let era = Era(era);
            Message::Release { era, below }
        }),
        (0u32..3, slot()).prop_map(|(era, below)| {
            let era = Era(era);
            Message::Released { era, below }
        }),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Message(u32, Message),
    /// A promise for the term under way, so that nonsense meets leaders too.
    Promise(u32, Vec<AcceptedRun>),
    /// An acceptance of the last proposal.
    Accept(u32),
    Durable,
    Timer,
    Alive(u32, bool),
    Propose,
    Write(u64),
    Read,
    Abdicate,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0u32..5, message()).prop_map(|(from, message)| Step::Message(from, message)),
        4 => (2u32..4, proptest::collection::vec(run(), 0..2))
            .prop_map(|(from, runs)| Step::Promise(from, runs)),
        3 => (2u32..4).prop_map(Step::Accept),
        6 => Just(Step::Durable),
        3 => Just(Step::Timer),
        3 => (1u32..4, any::<bool>()).prop_map(|(node, alive)| Step::Alive(node, alive)),
        2 => Just(Step::Propose),
        2 => (1u64..9).prop_map(Step::Write),
        1 => Just(Step::Read),
        1 => Just(Step::Abdicate),
    ]
}

fn perform(steps: Vec<Step>) {
    let initial = LogState::new(Configuration::equal([1, 2, 3].map(NodeId)).unwrap());
    let config = EngineConfig {
        node: NodeId(1),
        incarnation: 1,
        seed: 3,
        unchosen_bytes_max: 40,
        timing: Timing::default(),
        phase_one: PhaseOne::PerTerm,
    };
    let checkpoint = Recovery::new(initial).finish();
    let mut now = Time::ZERO;
    let mut engine = Engine::new(config, checkpoint, now);
    let mut last = RecordNumber(0);
    let mut under_way = Term::default();
    let mut promised = PromisedTerm::default();
    let mut first_unchosen = Slot(0);
    let mut proposed = None;
    for (at, step) in steps.into_iter().enumerate() {
        now += Duration::from_millis(1);
        let message = |from, message| Input::Message {
            from: NodeId(from),
            message,
        };
        let input = match step {
            Step::Message(from, what) => message(from, what),
            Step::Promise(from, runs) => message(
                from,
                Message::Promise(Promise {
                    term: under_way,
                    from: first_unchosen,
                    runs,
                }),
            ),
            Step::Accept(from) => {
                let Some((term, slots)) = proposed else {
                    continue;
                };
                let digest = Digest(0);
                message(
                    from,
                    Message::Accepted {
                        term,
                        slots,
                        digest,
                    },
                )
            }
            Step::Durable => Input::Durable { up_to: last },
            Step::Timer => {
                now = engine.deadline().unwrap_or(now).max(now);
                Input::Timer
            }
            Step::Alive(node, true) => Input::PeerAlive(NodeId(node)),
            Step::Alive(node, false) => Input::PeerSilent(NodeId(node)),
            Step::Propose => {
                let _ = engine.propose(now, Action::GenerateNodeId);
                Input::MissingBytes(0)
            }
            Step::Write(count) => {
                let Some(permit) = engine.permit().cloned() else {
                    continue;
                };
                let count = count.min(permit.limit.0 - permit.next.0);
                if count == 0 {
                    continue;
                }
                let (stream, position) = match permit.content {
                    PermitContent::Free => (StreamName::default(), StreamPosition(0)),
                    PermitContent::Bound {
                        stream, position, ..
                    } => (stream, position),
                };
                Input::BytesWritten(BytesWritten {
                    term: permit.term,
                    first_slot: permit.next,
                    count,
                    stream,
                    position,
                    digest: Digest(0),
                })
            }
            Step::Read => Input::Read(ReadId(at as u64)),
            Step::Abdicate => Input::Abdicate { to: None },
        };
        engine.handle(now, input);
        while let Some(output) = engine.poll_output() {
            match output {
                Output::Persist { record, what } => {
                    assert_eq!(record.0, last.0 + 1, "records are numbered in order");
                    last = record;
                    if let Persist::Accept { term, slots, .. } = what {
                        assert!(PromisedTerm(term) >= promised, "I4");
                        proposed = Some((term, slots));
                    }
                }
                Output::Send { after, .. } => assert!(after <= last),
                Output::Note(Note::StandingForElection { term } | Note::PhaseOneAgain { term }) => {
                    assert!(term > under_way, "I3: terms of a node only grow");
                    assert_eq!(term.owner, NodeId(1));
                    under_way = term;
                }
                _ => {}
            }
        }
        assert!(engine.promised() >= promised, "I4: promises only grow");
        promised = engine.promised();
        assert!(engine.first_unchosen() >= first_unchosen);
        first_unchosen = engine.first_unchosen();
        if let Some(permit) = engine.permit() {
            assert_eq!(permit.term, promised.0);
            assert!(first_unchosen <= permit.next && permit.next <= permit.limit);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nonsense_from_peers_never_panics(steps in proptest::collection::vec(step(), 1..120)) {
        perform(steps);
    }
}
