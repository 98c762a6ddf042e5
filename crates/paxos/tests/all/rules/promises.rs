//! Promises (I2, I4, and the rule of `from`).

use std::sync::Arc;

use paxos::*;

use crate::solo::*;

#[test]
fn a_promise_goes_out_after_its_record_and_reports_what_was_accepted_before() {
    let mut one = Solo::new(fresh(three()));
    let t = term(0, 3, 2);
    let out = one.propose_from(TWO, proposal(t, slots(0, 1), action(open(stream(2, 1))), 0));
    let (_, accepted, after) = sent(&out).pop().unwrap();
    assert!(matches!(accepted, Message::Accepted { .. }));
    assert_eq!(after, one.last);
    let out = one.from(
        THREE,
        Message::Prepare {
            term: term(0, 4, 3),
        },
    );
    let (to, promise, after) = promised(&out).unwrap();
    assert_eq!((to, after), (THREE, one.last));
    assert_eq!(promise.runs.len(), 1);
    assert_eq!(promise.runs[0].term, AcceptedTerm(t));
    let (record, what, checkpoint) = one.persisted.last().unwrap();
    assert_eq!(*record, one.last);
    let promised = PromisedTerm(term(0, 4, 3));
    assert_eq!(*what, Persist::Promise { term: promised });
    assert_eq!(checkpoint.promised, promised);
    assert_eq!(checkpoint.accepted.len(), 1);
}

#[test]
fn nothing_is_accepted_below_the_promise_and_the_refusal_carries_it() {
    let mut one = Solo::new(fresh(three()));
    one.from(
        THREE,
        Message::Prepare {
            term: term(0, 9, 3),
        },
    );
    let old = term(0, 8, 2);
    for message in [
        Message::Propose(proposal(old, slots(0, 1), Value::NoOp, 0)),
        Message::Prepare { term: old },
        Message::Confirm {
            term: old,
            round: 1,
        },
    ] {
        let out = one.from(TWO, message);
        assert_eq!(persists(&out), 0);
        let refusal = Message::Refuse {
            refused: old,
            promised: PromisedTerm(term(0, 9, 3)),
        };
        assert_eq!(sent(&out), vec![(TWO, refusal, one.last)]);
    }
}

#[test]
fn a_prepare_for_a_term_accepted_in_is_not_answered() {
    let mut one = Solo::new(fresh(three()));
    let t = term(0, 3, 2);
    let out = one.from(TWO, Message::Prepare { term: t });
    assert!(promised(&out).is_some());
    let out = one.from(TWO, Message::Prepare { term: t });
    assert!(promised(&out).is_some(), "a lost promise is repeated");
    one.propose_from(TWO, proposal(t, slots(0, 1), Value::NoOp, 0));
    let out = one.from(TWO, Message::Prepare { term: t });
    assert!(promised(&out).is_none());
    assert!(ignored(&out, Ignored::AlreadyAcceptedInTerm));
}

#[test]
fn a_term_of_an_unknown_era_is_not_promised_and_state_is_asked_for() {
    let mut one = Solo::new(fresh(three()));
    let out = one.from(
        TWO,
        Message::Prepare {
            term: term(1, 1, 2),
        },
    );
    assert!(promised(&out).is_none());
    assert_eq!(requested_state(&out), Some(TWO));
    assert_eq!(one.engine.promised(), PromisedTerm::default());
    let out = one.propose_from(THREE, proposal(term(2, 1, 3), slots(9, 10), Value::NoOp, 0));
    assert_eq!(persists(&out), 0);
    assert!(ignored(&out, Ignored::EraNotKnown));
}

/// ‡ A promise says nothing on the slots below its `from`: its sender knows them chosen.
#[test]
fn a_late_promise_cannot_free_a_slot_below_its_from() {
    let mut one = Solo::new(fresh(three()));
    let t = one.prepare(Term::default());
    one.durable();
    let out = one.from(TWO, Message::Promise(free(t, 5)));
    assert_eq!(one.engine.role(), Role::Candidate);
    assert_eq!(requested_state(&out), Some(TWO), "first catches up");
    let mut chosen = three();
    chosen.apply(slots(0, 1), &action(open(stream(2, 1))));
    chosen.apply(slots(1, 5), &content(stream(2, 1), 1));
    let out = one.from(TWO, Message::State(Arc::new(chosen.clone())));
    assert_eq!(one.engine.role(), Role::Leader { term: t });
    assert!(replicated(&out).is_empty());
    assert_eq!(one.engine.proposed_up_to(), Slot(5));
    assert_eq!(*one.engine.state(), chosen);
}

#[test]
fn a_promise_from_further_up_is_no_part_of_a_quorum_for_the_slots_below() {
    let mut one = Solo::new(fresh(three()));
    let t = one.prepare(Term::default());
    one.durable();
    one.from(TWO, Message::Promise(free(t, 5)));
    one.input(Input::PeerSilent(TWO));
    one.durable();
    assert_eq!(one.engine.role(), Role::Candidate);
}

#[test]
fn a_silent_peer_ahead_does_not_stop_a_quorum_without_it() {
    let mut one = Solo::new(fresh(three()));
    let t = one.prepare(Term::default());
    one.durable();
    one.from(TWO, Message::Promise(free(t, 5)));
    one.from(THREE, Message::Promise(free(t, 0)));
    assert_eq!(one.engine.role(), Role::Candidate);
    one.input(Input::PeerSilent(TWO));
    assert_eq!(one.engine.role(), Role::Leader { term: t });
    assert_eq!(one.engine.proposed_up_to(), Slot(0));
}
