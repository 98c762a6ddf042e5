//! A read waits for the answer to its own question: that of a round begun after it, of the leader that is followed. Broken on
//! purpose this shows in some drawn world of hundreds, so it is broken here as well (exhaustive_mutations).

use paxos::*;

use crate::solo::*;

pub const T: Term = Term {
    era: Era(0),
    number: 5,
    owner: TWO,
};

/// Follows node 2 in that term.
pub fn follower() -> Solo {
    let mut one = Solo::new(fresh(three()));
    one.alive();
    one.from(TWO, status(T, 0));
    let term = T;
    assert_eq!(one.engine.role(), Role::Follower { leader: TWO, term });
    one
}

pub fn status(term: Term, chosen: u64) -> Message {
    Message::LeaderStatus {
        term,
        proposed_up_to: Slot(chosen),
        chosen_up_to: Slot(chosen),
        finishing: None,
    }
}

pub fn number(count: u64) -> AskNumber {
    AskNumber {
        incarnation: 1,
        count,
    }
}

pub fn barrier(term: Term, number: AskNumber, slot: u64) -> Message {
    let slot = Slot(slot);
    Message::Barrier { term, number, slot }
}

pub fn is_ready(out: &[Output], id: u64) -> bool {
    out.contains(&Output::ReadReady(ReadId(id)))
}

pub fn none_is_ready(out: &[Output]) -> bool {
    !out.iter().any(|o| matches!(o, Output::ReadReady(_)))
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_answer_to_another_question_counts_for_none() {
    let mut one = follower();
    one.input(Input::Read(ReadId(1)));
    one.from(TWO, barrier(T, number(1), 0));
    one.input(Input::Read(ReadId(2)));
    let of_an_earlier_start = AskNumber {
        incarnation: 0,
        count: 2,
    };
    let not_the_answer = [
        (TWO, barrier(T, number(1), 0)),
        (TWO, barrier(T, number(3), 0)),
        (TWO, barrier(T, of_an_earlier_start, 0)),
        (TWO, barrier(term(0, 4, 2), number(2), 0)),
        (TWO, barrier(term(0, 6, 2), number(2), 0)),
        (THREE, barrier(T, number(2), 0)),
        (TWO, barrier(T, number(2), u64::MAX)),
    ];
    for (from, message) in not_the_answer {
        let out = one.from(from, message.clone());
        assert!(none_is_ready(&out), "{message:?}");
    }
    let out = one.from(TWO, barrier(T, number(2), 0));
    assert!(is_ready(&out, 2));
    let out = one.from(TWO, barrier(T, number(2), 0));
    assert!(none_is_ready(&out) && ignored(&out, Ignored::Stale));
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_read_waits_for_a_round_begun_after_it_and_for_the_slots_phase_one_reported() {
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
