//! Recovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use paxos::*;

use crate::solo::*;

#[test]
fn recovery_resolves_by_the_highest_term_and_refuses_contradictions() {
    let mut recovery = Recovery::new(three());
    let (a, b) = (term(0, 1, 2), term(0, 2, 3));
    recovery.on_accept(a, slots(0, 10), Value::NoOp).unwrap();
    let name = stream(3, 1);
    recovery
        .on_accept(b, slots(0, 1), action(open(name)))
        .unwrap();
    recovery
        .on_accept(b, slots(1, 5), content(name, 1))
        .unwrap();
    let refused = recovery.on_accept(a, slots(20, 21), Value::NoOp);
    let expected = RecoveryError::BelowPromise {
        accepted: a,
        promised: b,
    };
    assert_eq!(refused, Err(expected));
    recovery.on_chosen(Slot(4)).unwrap();
    let missing = recovery.clone().on_chosen(Slot(11));
    let expected = RecoveryError::NotAccepted {
        slot: Slot(10),
        first_unchosen: Slot(11),
    };
    assert_eq!(missing, Err(expected));
    let checkpoint = recovery.finish();
    assert_eq!(checkpoint.promised, PromisedTerm(b));
    assert_eq!(checkpoint.state.stream(name).unwrap().length.0, 3);
    let runs: BTreeMap<u64, Term> = checkpoint
        .accepted
        .iter()
        .map(|run| (run.slots.start.0, run.term.0))
        .collect();
    assert_eq!(runs, BTreeMap::from([(4, b), (5, a)]));
}

#[test]
fn recovery_from_a_checkpoint_equals_recovery_from_all_records() {
    let mut all = Recovery::new(three());
    let t = term(0, 1, 2);
    all.on_accept(t, slots(0, 3), Value::NoOp).unwrap();
    all.on_chosen(Slot(2)).unwrap();
    let mut later = Recovery::new(three());
    later.on_checkpoint(all.clone().finish());
    for recovery in [&mut all, &mut later] {
        recovery.on_promise(PromisedTerm(term(0, 7, 3)), None, three());
        let mut state = three();
        state.apply(slots(0, 9), &Value::NoOp);
        recovery
            .on_accept(term(0, 8, 3), slots(8, 12), Value::NoOp)
            .unwrap();
        recovery.on_state(state);
    }
    let (all, later) = (all.finish(), later.finish());
    assert_eq!(all.state, later.state);
    assert_eq!(all.promised, later.promised);
    assert_eq!(all.accepted, later.accepted);
    assert_eq!(all.accepted[0].slots, slots(9, 12));
}

#[test]
fn a_checkpoint_read_late_takes_no_later_acceptance_back() {
    let (a, b) = (term(0, 1, 2), term(0, 2, 3));
    let mut older = Recovery::new(three());
    older.on_accept(a, slots(0, 9), Value::NoOp).unwrap();
    let mut recovery = Recovery::new(three());
    let generate = action(Action::GenerateNodeId);
    recovery
        .on_accept(b, slots(4, 5), generate.clone())
        .unwrap();
    recovery.on_checkpoint(older.finish());
    let checkpoint = recovery.finish();
    assert_eq!(checkpoint.promised, PromisedTerm(b));
    let runs: Vec<_> = checkpoint
        .accepted
        .iter()
        .map(|run| (run.slots, run.term.0))
        .collect();
    assert_eq!(runs, [(slots(0, 4), a), (slots(4, 5), b), (slots(5, 9), a)]);
    assert_eq!(checkpoint.accepted[1].value, generate);
}

#[test]
fn a_replica_that_may_have_forgotten_promises_nothing_until_it_has_learned_past_it() {
    let config = EngineConfig {
        node: ME,
        incarnation: 1,
        seed: 7,
        unchosen_bytes_max: 1000,
        timing: Timing::default(),
        phase_one: PhaseOne::PerTerm,
    };
    let now = Time::from_micros(1_000_000);
    let mut solo = Solo::new(fresh(three()));
    solo.engine = Engine::with_gaps(config, fresh(three()), Slot(5), now);
    solo.drain();
    let promises = |out: &[Output]| {
        let is_promise = |o: &Output| {
            matches!(
                o,
                Output::Send {
                    message: Message::Promise(_) | Message::OfferVote { .. },
                    ..
                }
            )
        };
        out.iter().any(is_promise)
    };
    let prepare = || Message::Prepare {
        term: term(0, 3, 2),
    };
    assert!(!promises(&solo.from(TWO, prepare())));
    let seek = Message::SeekVotes {
        first_unchosen: Slot(0),
        promised: PromisedTerm(term(0, 2, 2)),
        missing_bytes: false,
    };
    assert!(!promises(&solo.from(TWO, seek)));

    let mut state = three();
    state.apply(slots(0, 5), &Value::NoOp);
    solo.from(TWO, Message::State(Arc::new(state)));
    assert!(promises(&solo.from(TWO, prepare())));
}
