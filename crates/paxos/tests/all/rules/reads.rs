//! Reads.

use paxos::*;

use crate::solo::*;

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
