//! Choosing (P7, I1).

use std::sync::Arc;
use std::time::Duration;

use paxos::*;

use crate::solo::*;

#[test]
fn a_slot_above_a_hole_is_not_chosen() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    one.propose(Action::GenerateNodeId).unwrap();
    one.propose(Action::GenerateNodeId).unwrap();
    one.durable();
    one.accepted(TWO, t, slots(1, 2), 0);
    assert_eq!(one.next(), 0);
    one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(one.next(), 2);
}

#[test]
fn two_followers_choose_without_the_leaders_disk() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    one.propose(Action::GenerateNodeId).unwrap();
    one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(one.next(), 0);
    one.accepted(THREE, t, slots(0, 1), 0);
    assert_eq!(one.next(), 1);
}

/// ‡ The leader counts an acceptance only if its checksum is its own.
#[test]
fn an_acceptance_of_other_bytes_does_not_count() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    let name = stream(1, 1);
    one.open_chosen(t, name);
    let batch = one.write(name, 0, 10, 77);
    one.durable();
    let out = one.accepted(TWO, t, batch, 78);
    let mismatch = Output::Note(Note::DigestMismatch {
        by: TWO,
        slots: batch,
    });
    assert!(out.contains(&mismatch));
    assert_eq!(one.next(), 1);
    one.accepted(TWO, t, slots(1, 5), 77);
    assert_eq!(one.next(), 1, "not the batch's slots");
    one.accepted(TWO, t, batch, 77);
    assert_eq!(one.next(), 11);
}

/// ‡ Acceptances from any node are kept until the slot's era is known.
#[test]
fn a_new_members_acceptance_counts_in_the_era_it_is_a_member_of() {
    let two = LogState::new(Configuration::equal([ME, TWO]).unwrap());
    let mut one = Solo::new(fresh(two));
    let t = one.lead();
    let add = |change| Action::Reconfigure {
        from: Era(0),
        change,
        by: paxos::By::Unsaid,
    };
    one.propose(add(Change::Increment(THREE))).unwrap();
    one.propose(Action::GenerateNodeId).unwrap();
    one.durable();
    one.accepted(THREE, t, slots(0, 1), 0);
    one.accepted(THREE, t, slots(1, 2), 0);
    assert_eq!(one.next(), 0, "three is no member yet");
    one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(
        one.next(),
        2,
        "one and three are a majority of the next era"
    );
    assert_eq!(one.engine.state().era, Era(1));
}

/// P7: one era of lag, not two.
#[test]
fn a_term_chooses_nothing_two_eras_on() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    for era in 0..2 {
        let from = Era(era);
        let change = Change::Multiply(2);
        one.propose(Action::Reconfigure {
            from,
            change,
            by: paxos::By::Unsaid,
        })
        .unwrap();
    }
    one.propose(Action::GenerateNodeId).unwrap();
    one.durable();
    let out = one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(
        prepared(&out).unwrap().era,
        Era(1),
        "at once for the new era"
    );
    one.accepted(TWO, t, slots(1, 2), 0);
    assert_eq!(one.engine.state().era, Era(2));
    one.accepted(TWO, t, slots(2, 3), 0);
    one.accepted(THREE, t, slots(2, 3), 0);
    assert_eq!(one.next(), 2);
    one.durable();
    let again = term(2, 1, 1);
    one.from(TWO, Message::Promise(free(again, 2)));
    assert_eq!(one.engine.role(), Role::Leader { term: again });
    one.durable();
    one.accepted(TWO, again, slots(2, 3), 0);
    assert_eq!(one.next(), 3);
}

#[test]
fn followers_hear_that_an_era_began_before_they_are_asked_to_promise_in_it() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    let (from, change) = (Era(0), Change::Multiply(2));
    one.propose(Action::Reconfigure {
        from,
        change,
        by: paxos::By::Unsaid,
    })
    .unwrap();
    one.durable();
    let out = sent(&one.accepted(TWO, t, slots(0, 1), 0));
    let status = Message::LeaderStatus {
        term: t,
        proposed_up_to: Slot(1),
        chosen_up_to: Slot(1),
        finishing: None,
    };
    let prepare = Message::Prepare {
        term: term(1, 1, 1),
    };
    // At a casting vote one is asked, and the term before goes on through the other.
    let mut asked = Vec::new();
    for node in [TWO, THREE] {
        let to = out.iter().filter(|(to, ..)| *to == node);
        let to: Vec<&Message> = to.map(|(_, message, _)| message).collect();
        assert_eq!(to[0], &status, "{node} hears of the era first");
        assert!(to[1..].iter().all(|message| **message == prepare), "{to:?}");
        asked.extend(to[1..].iter().map(|_| node));
    }
    assert_eq!(asked.len(), 1, "{asked:?}");
}

#[test]
fn a_follower_learns_only_what_it_accepted_in_the_leaders_term() {
    let mut one = Solo::new(fresh(three()));
    one.input(Input::PeerAlive(TWO));
    one.propose_from(TWO, proposal(term(0, 1, 2), slots(0, 1), Value::NoOp, 0));
    let later = term(0, 2, 2);
    let status = |chosen| Message::LeaderStatus {
        term: later,
        proposed_up_to: Slot(2),
        chosen_up_to: Slot(chosen),
        finishing: None,
    };
    one.from(TWO, status(1));
    assert_eq!(one.next(), 0, "accepted in an earlier term");
    one.propose_from(TWO, proposal(later, slots(0, 1), Value::NoOp, 0));
    assert_eq!(one.next(), 1);
    one.propose_from(TWO, proposal(later, slots(1, 2), Value::NoOp, 1));
    assert_eq!(one.next(), 1, "accepted, not chosen");
    one.from(TWO, status(9));
    assert_eq!(one.next(), 2, "no further than it accepted");
}

#[test]
fn a_gap_that_nothing_fills_is_asked_for_and_batches_under_way_are_not() {
    let mut one = Solo::new(fresh(three()));
    one.input(Input::PeerAlive(TWO));
    let t = term(0, 2, 2);
    let status = Message::LeaderStatus {
        term: t,
        proposed_up_to: Slot(9),
        chosen_up_to: Slot(5),
        finishing: None,
    };
    let out = one.from(TWO, status);
    assert_eq!(requested_state(&out), None);
    let out = one.timer();
    assert_eq!(requested_state(&out), Some(TWO));
    one.now += Duration::from_secs(1);
    let out = one.propose_from(TWO, proposal(t, slots(6, 7), Value::NoOp, 5));
    assert_eq!(
        requested_state(&out),
        Some(TWO),
        "at once below an acceptance"
    );
    let mut state = three();
    state.apply(slots(0, 6), &Value::NoOp);
    let out = one.from(TWO, Message::State(Arc::new(state)));
    assert!(out.contains(&Output::StateInstalled));
    assert!(out.contains(&Output::Chosen { up_to: Slot(6) }));
    assert_eq!(one.engine.deadline(), None);
}
