//! Reads of followers.

use paxos::*;

use crate::rounds::{T, barrier, follower, is_ready, none_is_ready, number, status};
use crate::solo::*;

/// The leader that this replica asked for a barrier, and the question.
fn asked(out: &[Output]) -> Vec<(NodeId, Term, AskNumber)> {
    let sent = sent(out).into_iter();
    let asked = sent.filter_map(|(to, message, _)| match message {
        Message::AskBarrier { term, number } => Some((to, term, number)),
        _ => None,
    });
    asked.collect()
}

fn answered(out: &[Output]) -> Vec<(NodeId, Message)> {
    let sent = sent(out).into_iter();
    let sent = sent.map(|(to, message, _)| (to, message));
    sent.filter(|(_, message)| matches!(message, Message::Barrier { .. }))
        .collect()
}

#[test]
fn a_read_of_a_follower_is_ready_once_it_has_applied_all_below_its_leaders_answer() {
    let mut one = follower();
    let out = one.input(Input::Read(ReadId(1)));
    assert_eq!(asked(&out), [(TWO, T, number(1))]);
    one.propose_from(TWO, proposal(T, slots(0, 2), Value::NoOp, 0));
    let out = one.from(TWO, barrier(T, number(1), 3));
    assert!(none_is_ready(&out));
    assert_eq!(one.next(), 2, "the answer says what is chosen");
    let out = one.propose_from(TWO, proposal(T, slots(2, 3), Value::NoOp, 2));
    assert!(is_ready(&out, 1));
    assert_eq!(one.engine.deadline(), None);
}

#[test]
fn all_that_wait_at_a_follower_share_a_question_and_whoever_comes_later_shares_the_next() {
    let mut one = follower();
    let out = one.input(Input::Read(ReadId(1)));
    assert_eq!(asked(&out), [(TWO, T, number(1))]);
    for id in 2..=4 {
        assert!(asked(&one.input(Input::Read(ReadId(id)))).is_empty());
    }
    let out = one.from(TWO, barrier(T, number(1), 0));
    assert!(is_ready(&out, 1));
    assert_eq!(asked(&out), [(TWO, T, number(2))]);
    let out = one.from(TWO, barrier(T, number(2), 0));
    assert!(is_ready(&out, 4));
    assert!(asked(&out).is_empty());
}

#[test]
fn a_follower_that_lags_serves_its_first_readers_however_many_come_meanwhile() {
    let mut one = follower();
    one.input(Input::Read(ReadId(1)));
    one.from(TWO, barrier(T, number(1), 1));
    assert!(asked(&one.input(Input::Read(ReadId(2)))).is_empty());
    let out = one.propose_from(TWO, proposal(T, slots(0, 1), Value::NoOp, 0));
    assert!(is_ready(&out, 1));
    assert_eq!(asked(&out), [(TWO, T, number(2))]);
}

#[test]
fn a_question_without_an_answer_is_repeated() {
    let mut one = follower();
    one.input(Input::Read(ReadId(1)));
    assert_eq!(asked(&one.timer()), [(TWO, T, number(1))]);
    assert_eq!(asked(&one.timer()), [(TWO, T, number(1))]);
    let out = one.from(TWO, barrier(T, number(1), 0));
    assert!(is_ready(&out, 1));
    assert_eq!(one.engine.deadline(), None);
}

#[test]
fn a_leader_that_begins_a_later_term_is_asked_again_in_it() {
    let mut one = follower();
    one.input(Input::Read(ReadId(1)));
    let later = term(0, 6, 2);
    let out = one.from(TWO, status(later, 0));
    assert_eq!(asked(&out), [(TWO, later, number(1))]);
    assert!(none_is_ready(&one.from(TWO, barrier(T, number(1), 0))));
    assert!(is_ready(&one.from(TWO, barrier(later, number(1), 0)), 1));
}

#[test]
fn reads_of_a_follower_fail_with_their_leader() {
    // It falls silent.
    let mut one = follower();
    one.input(Input::Read(ReadId(1)));
    let out = one.input(Input::PeerSilent(TWO));
    assert!(out.contains(&Output::ReadsFailed));
    assert!(none_is_ready(&one.from(TWO, barrier(T, number(1), 0))));
    // Another one leads.
    let mut one = follower();
    one.input(Input::Read(ReadId(1)));
    let out = one.from(THREE, status(term(0, 9, 3), 0));
    assert!(out.contains(&Output::ReadsFailed));
    let out = one.input(Input::Read(ReadId(2)));
    assert_eq!(asked(&out), [(THREE, term(0, 9, 3), number(2))]);
    assert!(none_is_ready(&one.from(TWO, barrier(T, number(1), 0))));
    // The answer is here, and the slots it speaks of are not.
    let mut one = follower();
    one.input(Input::Read(ReadId(1)));
    one.from(TWO, barrier(T, number(1), 7));
    let out = one.input(Input::PeerSilent(TWO));
    assert!(out.contains(&Output::ReadsFailed));
    // Nobody waits.
    let mut one = follower();
    let out = one.input(Input::PeerSilent(TWO));
    assert!(!out.contains(&Output::ReadsFailed));
}

#[test]
fn a_follower_that_comes_to_lead_counts_no_answer_to_what_it_asked() {
    let mut one = follower();
    one.input(Input::Read(ReadId(1)));
    one.input(Input::PeerSilent(TWO));
    let t = one.lead_after(T, |t| free(t, 0));
    one.input(Input::Read(ReadId(2)));
    for of in [T, t] {
        let out = one.from(TWO, barrier(of, number(1), 0));
        assert!(none_is_ready(&out) && ignored(&out, Ignored::Stale));
    }
    let confirmed = Message::Confirmed { term: t, round: 1 };
    assert!(is_ready(&one.from(THREE, confirmed), 2));
}

#[test]
fn a_leader_answers_a_follower_after_a_round_begun_behind_its_question() {
    let mut one = Solo::new(fresh(three()));
    let runs = [(slots(0, 1), term(0, 1, 2), Value::NoOp)];
    let t = one.lead_after(term(0, 1, 2), |t| bound(t, 0, &runs));
    one.input(Input::Read(ReadId(1)));
    let ask = |count| Message::AskBarrier {
        term: t,
        number: number(count),
    };
    let out = one.from(THREE, ask(7));
    assert!(sent(&out).is_empty(), "the round under way is no answer");
    let out = one.from(TWO, Message::Confirmed { term: t, round: 1 });
    assert!(answered(&out).is_empty());
    let out = one.from(TWO, Message::Confirmed { term: t, round: 2 });
    assert!(answered(&out).is_empty(), "phase 1 reported a slot");
    one.durable();
    let out = one.accepted(TWO, t, slots(0, 1), 0);
    assert!(is_ready(&out, 1));
    assert_eq!(answered(&out), [(THREE, barrier(t, number(7), 1))]);
    assert_eq!(one.engine.deadline(), None);
}

#[test]
fn a_question_that_is_repeated_costs_no_other_round() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    let ask = |count| Message::AskBarrier {
        term: t,
        number: number(count),
    };
    let rounds = |out: &[Output]| {
        let sent = sent(out).into_iter();
        sent.filter(|(_, m, _)| matches!(m, Message::Confirm { .. }))
            .count()
    };
    assert_eq!(rounds(&one.from(TWO, ask(1))), 2);
    assert_eq!(rounds(&one.from(TWO, ask(1))), 0);
    let out = one.from(THREE, Message::Confirmed { term: t, round: 1 });
    assert_eq!(answered(&out), [(TWO, barrier(t, number(1), 0))]);
    assert_eq!(rounds(&out), 0);
    // The later of two questions of one follower counts, in whatever order they come.
    one.from(THREE, ask(1));
    one.from(TWO, ask(3));
    one.from(TWO, ask(2));
    one.from(THREE, Message::Confirmed { term: t, round: 2 });
    let out = one.from(THREE, Message::Confirmed { term: t, round: 3 });
    assert_eq!(answered(&out), [(TWO, barrier(t, number(3), 0))]);
}

#[test]
fn only_a_leader_answers_and_only_in_its_own_term() {
    let mut one = Solo::new(fresh(three()));
    let ask = |term| Message::AskBarrier {
        term,
        number: number(1),
    };
    let out = one.from(TWO, ask(term(0, 3, 1)));
    assert!(sent(&out).is_empty() && ignored(&out, Ignored::Stale));
    let t = one.lead();
    let earlier = Term {
        number: t.number - 1,
        ..t
    };
    let out = one.from(TWO, ask(earlier));
    assert!(
        matches!(&sent(&out)[..], [(TWO, Message::LeaderStatus { term, .. }, _)] if *term == t),
        "the follower hears which term it is"
    );
    one.from(TWO, ask(t));
    let out = one.from(
        THREE,
        Message::Prepare {
            term: term(0, 90, 3),
        },
    );
    assert!(
        !out.contains(&Output::ReadsFailed),
        "no read of its own waits"
    );
    let out = one.from(THREE, Message::Confirmed { term: t, round: 1 });
    assert!(answered(&out).is_empty(), "it no longer leads");
}

#[test]
fn a_leader_alone_answers_at_once() {
    let state = LogState::new(Configuration::equal([ME]).unwrap());
    let mut one = Solo::new(fresh(state));
    one.durable();
    let Role::Leader { term } = one.engine.role() else {
        panic!("it leads");
    };
    let out = one.from(
        TWO,
        Message::AskBarrier {
            term,
            number: number(1),
        },
    );
    assert_eq!(answered(&out), [(TWO, barrier(term, number(1), 0))]);
}
