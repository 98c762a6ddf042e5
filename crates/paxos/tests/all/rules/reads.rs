//! Reads.

use paxos::*;

use crate::solo::*;

#[test]
fn a_read_waits_for_a_round_begun_after_it_and_for_the_slots_phase_one_reported() {
    let mut one = Solo::new(fresh(three()));
    let runs = [(slots(0, 1), term(0, 1, 2), Value::NoOp)];
    let t = one.lead_after(term(0, 1, 2), |t| bound(t, 0, &runs));
    let out = one.input(Input::Read(ReadId(1)));
    let confirm = |round| Message::Confirm { term: t, round };
    assert!(sent(&out).iter().any(|(_, m, _)| *m == confirm(1)));
    let out = one.input(Input::Read(ReadId(2)));
    assert!(
        sent(&out).is_empty(),
        "the round under way does not cover it"
    );
    let out = one.from(TWO, Message::Confirmed { term: t, round: 1 });
    assert!(!out.iter().any(|o| matches!(o, Output::ReadReady(_))));
    assert!(sent(&out).iter().any(|(_, m, _)| *m == confirm(2)));
    one.durable();
    let out = one.accepted(TWO, t, slots(0, 1), 0);
    assert!(out.contains(&Output::ReadReady(ReadId(1))));
    let ready = out.iter().position(|o| *o == Output::ReadReady(ReadId(1)));
    let chosen = out
        .iter()
        .position(|o| *o == Output::Chosen { up_to: Slot(1) });
    assert!(chosen < ready);
    let out = one.from(TWO, Message::Confirmed { term: t, round: 1 });
    assert!(
        !out.iter().any(|o| matches!(o, Output::ReadReady(_))),
        "an old answer"
    );
    let out = one.from(THREE, Message::Confirmed { term: t, round: 2 });
    assert!(out.contains(&Output::ReadReady(ReadId(2))));
    assert_eq!(one.engine.deadline(), None);
}

#[test]
fn a_deposed_leader_fails_its_reads_and_a_candidate_takes_none() {
    let mut one = Solo::new(fresh(three()));
    one.lead();
    one.input(Input::Read(ReadId(1)));
    let out = one.from(
        THREE,
        Message::Prepare {
            term: term(0, 90, 3),
        },
    );
    assert!(out.contains(&Output::ReadsFailed));
    let out = one.input(Input::Read(ReadId(2)));
    assert!(out.contains(&Output::ReadsFailed));
}

#[test]
fn a_later_promise_confirms_nothing() {
    let mut one = Solo::new(fresh(three()));
    let out = one.from(
        TWO,
        Message::Confirm {
            term: term(0, 5, 2),
            round: 3,
        },
    );
    let confirmed = Message::Confirmed {
        term: term(0, 5, 2),
        round: 3,
    };
    assert_eq!(sent(&out)[0].1, confirmed);
    one.from(
        THREE,
        Message::Prepare {
            term: term(0, 6, 3),
        },
    );
    let out = one.from(
        TWO,
        Message::Confirm {
            term: term(0, 5, 2),
            round: 4,
        },
    );
    assert!(matches!(sent(&out)[0].1, Message::Refuse { .. }));
}
