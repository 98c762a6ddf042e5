//! Phase 1 and its plan (I2, P5).

use std::time::Duration;

use paxos::*;

use crate::solo::*;

#[test]
fn the_value_of_the_highest_accepted_term_is_proposed_again_and_holes_are_no_ops() {
    let mut one = Solo::new(fresh(three()));
    let (a, b) = (stream(2, 1), stream(3, 1));
    let own = bound(
        term(0, 9, 9),
        0,
        &[
            (slots(0, 1), term(0, 1, 2), action(open(a))),
            (slots(4, 5), term(0, 1, 2), action(Action::GenerateNodeId)),
        ],
    );
    one.propose_from(
        TWO,
        proposal(term(0, 1, 2), slots(0, 1), own.runs[0].value.clone(), 0),
    );
    one.propose_from(
        TWO,
        proposal(term(0, 1, 2), slots(4, 5), own.runs[1].value.clone(), 0),
    );
    one.durable();
    one.input(Input::PeerSilent(TWO));
    let t = one.prepare(term(0, 2, 3));
    assert!(t > term(0, 2, 3));
    one.durable();
    let theirs = bound(t, 0, &[(slots(0, 1), term(0, 2, 3), action(open(b)))]);
    let out = one.from(THREE, Message::Promise(theirs));
    let expected = [
        (slots(0, 1), action(open(b))),
        (slots(1, 4), Value::NoOp),
        (slots(4, 5), action(Action::GenerateNodeId)),
    ];
    let replicated: Vec<_> = replicated(&out)
        .into_iter()
        .map(|proposal| (proposal.slots, proposal.value))
        .collect();
    assert_eq!(replicated, expected);
    let permit = one.engine.permit().unwrap();
    assert_eq!(permit.content, PermitContent::Free);
    assert_eq!(permit.next, Slot(5));
}

#[test]
fn bound_bytes_come_through_a_permit_before_anything_new() {
    let mut one = Solo::new(fresh(three()));
    let name = stream(2, 1);
    let runs = [
        (slots(0, 1), term(0, 1, 2), action(open(name))),
        (slots(1, 51), term(0, 1, 2), content(name, 1)),
    ];
    let t = one.lead_after(term(0, 1, 2), |t| bound(t, 0, &runs));
    let permit = one.engine.permit().unwrap().clone();
    let expected = PermitContent::Bound {
        stream: name,
        position: StreamPosition(0),
        holders: vec![TWO],
    };
    assert_eq!(permit.content, expected);
    assert_eq!((permit.next, permit.limit), (Slot(1), Slot(51)));
    assert!(one.propose(Action::GenerateNodeId).is_err());
    one.write(name, 0, 20, 5);
    let permit = one.engine.permit().unwrap().clone();
    assert_eq!(permit.next, Slot(21));
    assert!(matches!(
        permit.content,
        PermitContent::Bound {
            position: StreamPosition(20),
            ..
        }
    ));
    one.write(name, 20, 30, 6);
    assert_eq!(one.engine.permit().unwrap().content, PermitContent::Free);
    one.durable();
    one.accepted(TWO, t, slots(0, 1), 0);
    one.accepted(TWO, t, slots(1, 21), 5);
    one.accepted(TWO, t, slots(21, 51), 6);
    assert_eq!(one.next(), 51);
    assert_eq!(one.engine.state().stream(name).unwrap().length.0, 50);
}

/// ‡ The leader's own bytes in slots that nobody else accepted are proposed again, so that its
/// client's stream is not cut.
#[test]
fn a_leader_that_prepares_again_proposes_its_own_bytes_again() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    let name = stream(1, 1);
    one.open_chosen(t, name);
    one.write(name, 0, 10, 1);
    one.durable();
    one.now += Duration::from_millis(100);
    let refusal = Message::Refuse {
        refused: t,
        promised: PromisedTerm(term(0, 40, 3)),
    };
    let out = one.from(THREE, refusal);
    let again = prepared(&out).unwrap();
    assert!(again > term(0, 40, 3));
    assert_eq!(
        one.engine.permit(),
        None,
        "raising the promise closes the permit"
    );
    assert_eq!(one.engine.role(), Role::Leader { term: t });
    one.durable();
    one.from(THREE, Message::Promise(free(again, 1)));
    assert_eq!(one.engine.role(), Role::Leader { term: again });
    let permit = one.engine.permit().unwrap().clone();
    assert_eq!((permit.next, permit.limit), (Slot(1), Slot(11)));
    let expected = PermitContent::Bound {
        stream: name,
        position: StreamPosition(0),
        holders: vec![ME],
    };
    assert_eq!(permit.content, expected);
}

#[test]
fn acceptances_in_the_old_term_still_count_while_the_next_is_prepared() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    let name = stream(1, 1);
    one.open_chosen(t, name);
    let batch = one.write(name, 0, 10, 1);
    one.durable();
    one.now += Duration::from_millis(100);
    let promised = PromisedTerm(term(0, 40, 3));
    one.from(
        THREE,
        Message::Refuse {
            refused: t,
            promised,
        },
    );
    one.accepted(TWO, t, batch, 1);
    assert_eq!(one.next(), 11);
}

/// Whether a status of this term tells before a prepare that all is chosen below this slot.
fn tells_before_it_prepares(out: &[Output], told: Term, next: u64) -> bool {
    let messages = out.iter().filter_map(|output| match output {
        Output::Send {
            to: TWO, message, ..
        } => Some(message),
        _ => None,
    });
    let mut before = messages.take_while(|message| !matches!(message, Message::Prepare { .. }));
    before.any(|message| match message {
        Message::LeaderStatus {
            term, chosen_up_to, ..
        } => *term == told && chosen_up_to.0 == next,
        _ => false,
    })
}

/// A leader that prepares for each batch of bytes, and has written one.
fn with_a_batch(phase_one: PhaseOne) -> (Solo, Term, SlotRange) {
    let mut one = Solo::preparing(fresh(three()), phase_one);
    let t = one.lead();
    let name = stream(1, 1);
    one.open_chosen(t, name);
    assert!(
        one.may_begin_batch(),
        "the first has the term's own phase 1"
    );
    let batch = one.write(name, 0, 10, 1);
    one.durable();
    (one, t, batch)
}

#[test]
fn a_batch_waits_until_the_one_before_is_chosen_and_its_own_term_is_durable_at_a_quorum() {
    let (mut one, t, batch) = with_a_batch(PhaseOne::PerBatch);
    assert!(!one.may_begin_batch(), "the one before is not chosen");
    assert_eq!(prepared(&one.out), None);
    one.accepted(TWO, t, batch, 1);
    assert_eq!(one.next(), batch.end.0);
    assert!(one.engine.permit().is_some(), "it is on demand");

    assert!(!one.may_begin_batch());
    let next = prepared(&one.out).expect("it prepares");
    assert!(next > t && next.owner == ME);
    assert!(tells_before_it_prepares(&one.out, t, batch.end.0));
    assert!(one.engine.permit().is_none(), "its own promise comes first");
    assert!(!one.may_begin_batch());
    assert_eq!(prepared(&one.out), None, "once is enough");
    one.from(TWO, Message::Promise(free(next, one.next())));
    assert!(!one.may_begin_batch(), "its own promise is not durable");
    one.durable();
    assert_eq!(one.engine.role(), Role::Leader { term: next });
    assert!(one.may_begin_batch());
    let batch = one.write(stream(1, 1), 10, 10, 1);
    one.durable();
    one.accepted(TWO, next, batch, 1);
    assert_eq!(one.next(), batch.end.0);
}

#[test]
fn a_term_ahead_is_prepared_when_the_batch_before_is_chosen() {
    let (mut one, t, batch) = with_a_batch(PhaseOne::PerBatchAhead);
    let out = one.accepted(TWO, t, batch, 1);
    let next = prepared(&out).expect("it prepares");
    assert!(tells_before_it_prepares(&out, t, batch.end.0));
    one.durable();
    one.from(TWO, Message::Promise(free(next, one.next())));
    assert!(one.may_begin_batch());
}

#[test]
fn one_phase_1_is_enough_for_all_batches() {
    let (mut one, t, batch) = with_a_batch(PhaseOne::PerTerm);
    assert!(one.may_begin_batch());
    one.accepted(TWO, t, batch, 1);
    assert!(one.may_begin_batch());
    assert_eq!(prepared(&one.out), None);
}
