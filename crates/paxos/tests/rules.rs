//! One replica against hand-made messages: each rule of the contract as a fact.

mod solo;

use std::collections::BTreeMap;
use std::sync::Arc;

use paxos::*;
use solo::*;

// Promises (I2, I4, and the rule of `from`).

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

// Phase 1 and its plan (I2, P5).

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
    one.now.0 += 100_000;
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
    one.now.0 += 100_000;
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

// Restart.

/// ‡ A node proposes in a term only after its own promise of it is durable, quorum or not.
#[test]
fn nothing_is_proposed_before_the_own_promise_is_durable() {
    let mut one = Solo::new(fresh(three()));
    let t = one.prepare(Term::default());
    one.from(TWO, Message::Promise(free(t, 0)));
    one.from(THREE, Message::Promise(free(t, 0)));
    assert_eq!(one.engine.role(), Role::Candidate);
    one.durable();
    assert_eq!(one.engine.role(), Role::Leader { term: t });
}

#[test]
fn a_restarted_node_prepares_only_above_every_promise_on_its_disk() {
    let mut checkpoint = fresh(three());
    checkpoint.promised = PromisedTerm(term(0, 17, 1));
    let mut one = Solo::new(checkpoint);
    let t = one.prepare(Term::default());
    assert!(t > term(0, 17, 1));
    one.durable();
    let out = one.from(TWO, Message::Promise(free(term(0, 17, 1), 0)));
    assert!(
        ignored(&out, Ignored::Stale),
        "a promise of an earlier life"
    );
    assert_eq!(one.engine.role(), Role::Candidate);
}

#[test]
fn an_abdication_of_before_the_restart_is_not_taken_up() {
    let mut checkpoint = fresh(three());
    checkpoint.promised = PromisedTerm(term(0, 17, 1));
    let mut one = Solo::new(checkpoint);
    let out = one.from(
        TWO,
        Message::Prepare {
            term: term(0, 17, 1),
        },
    );
    assert_eq!(prepared(&out), None);
}

/// ‡ Else a power loss could leave all nodes unable to promise either era.
#[test]
fn accepting_in_a_later_era_records_its_state_and_claims_no_bytes_early() {
    let mut state = three();
    let increment = Action::Reconfigure {
        from: Era(0),
        change: Change::Increment(TWO),
    };
    state.apply(slots(0, 1), &action(increment));
    let mut one = Solo::new(fresh(three()));
    one.from(TWO, Message::State(Arc::new(state)));
    let out = one.propose_from(
        TWO,
        proposal(term(1, 1, 2), slots(1, 9), content(stream(2, 1), 1), 1),
    );
    assert_eq!(persists(&out), 2);
    let (_, what, checkpoint) = &one.persisted[one.persisted.len() - 2];
    assert!(matches!(what, Persist::Promise { .. }));
    assert_eq!(checkpoint.state.era, Era(1));
    assert!(
        checkpoint.accepted.is_empty(),
        "the bytes' record comes later"
    );
    let (_, what, checkpoint) = one.persisted.last().unwrap();
    assert!(matches!(what, Persist::Accept { .. }));
    assert_eq!(checkpoint.accepted.len(), 1);
}

// Choosing (P7, I1).

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
        one.propose(Action::Reconfigure { from, change }).unwrap();
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
    one.propose(Action::Reconfigure { from, change }).unwrap();
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
    one.now.0 += 1_000_000;
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

// Leaders and candidates.

#[test]
fn votes_are_offered_by_those_without_a_leader_only() {
    let mut one = Solo::new(fresh(three()));
    one.input(Input::PeerAlive(TWO));
    let seek = |slot| Message::SeekVotes {
        first_unchosen: Slot(slot),
        promised: PromisedTerm::default(),
        missing_bytes: false,
    };
    let out = one.from(THREE, seek(0));
    assert!(matches!(sent(&out)[0].1, Message::OfferVote { .. }));
    one.propose_from(TWO, proposal(term(0, 1, 2), slots(0, 1), Value::NoOp, 0));
    let out = one.from(THREE, seek(0));
    assert!(sent(&out).is_empty());
    assert!(ignored(&out, Ignored::HasLeader));
    let chosen = Message::LeaderStatus {
        term: term(0, 1, 2),
        proposed_up_to: Slot(1),
        chosen_up_to: Slot(1),
        finishing: None,
    };
    one.from(TWO, chosen);
    one.input(Input::PeerSilent(TWO));
    let out = one.from(THREE, seek(0));
    let offer = Message::OfferCatchUp {
        first_unchosen: Slot(1),
    };
    assert_eq!(sent(&out)[0].1, offer);
    let out = one.from(THREE, seek(1));
    assert!(matches!(sent(&out)[0].1, Message::OfferVote { .. }));
}

#[test]
fn a_leader_that_seeks_votes_leads_no_more() {
    let mut one = Solo::new(fresh(three()));
    one.input(Input::PeerAlive(TWO));
    one.propose_from(TWO, proposal(term(0, 1, 2), slots(0, 1), Value::NoOp, 0));
    let seek = Message::SeekVotes {
        first_unchosen: Slot(0),
        promised: PromisedTerm(term(0, 1, 2)),
        missing_bytes: false,
    };
    let out = one.from(TWO, seek);
    assert!(matches!(sent(&out)[0].1, Message::OfferVote { .. }));
    assert_eq!(one.engine.role(), Role::Candidate);
}

#[test]
fn a_follower_whose_leader_falls_silent_stands_within_the_first_backoff() {
    let mut one = Solo::new(fresh(three()));
    one.alive();
    one.propose_from(TWO, proposal(term(0, 1, 2), slots(0, 1), Value::NoOp, 0));
    assert_eq!(
        one.engine.deadline(),
        None,
        "followers of a live leader wait for nothing"
    );
    one.input(Input::PeerSilent(TWO));
    let wait = one.engine.deadline().unwrap().0 - one.now.0;
    assert!(wait <= Timing::default().candidate_backoff_first);
}

/// ‡ Backoff is random, growing, capped, and reset by progress.
#[test]
fn backoff_is_capped_and_reset_by_progress() {
    let mut one = Solo::new(fresh(three()));
    one.alive();
    let timing = Timing::default();
    let mut longest = 0;
    for _ in 0..50 {
        one.timer();
        longest = longest.max(one.engine.deadline().unwrap().0 - one.now.0);
    }
    assert!(longest > 300_000, "it grows");
    assert!(longest <= timing.candidate_backoff_max + timing.retry);
    let t = term(0, 1, 2);
    one.propose_from(TWO, proposal(t, slots(0, 1), Value::NoOp, 0));
    one.input(Input::PeerSilent(TWO));
    let wait = one.engine.deadline().unwrap().0 - one.now.0;
    assert!(wait <= timing.candidate_backoff_first);
}

/// ‡ Rate-limited.
#[test]
fn a_leader_prepares_above_later_terms_but_not_too_often() {
    let mut one = Solo::new(fresh(three()));
    one.lead();
    one.now.0 += 1_000_000;
    let seek = |number| Message::SeekVotes {
        first_unchosen: Slot(0),
        promised: PromisedTerm(term(0, number, 3)),
        missing_bytes: false,
    };
    let out = one.from(THREE, seek(10));
    assert_eq!(prepared(&out), Some(term(0, 11, 1)));
    let out = one.from(THREE, seek(20));
    assert_eq!(prepared(&out), None);
    let out = one.timer();
    assert_eq!(prepared(&out), Some(term(0, 21, 1)));
}

#[test]
fn a_later_leaders_heartbeat_deposes_and_an_earlier_ones_resets_nothing() {
    let mut one = Solo::new(fresh(three()));
    one.lead();
    let status = |t| Message::LeaderStatus {
        term: t,
        proposed_up_to: Slot(0),
        chosen_up_to: Slot(0),
        finishing: None,
    };
    let out = one.from(TWO, status(term(0, 30, 2)));
    assert!(out.contains(&Output::Permit(None)));
    let role = Role::Follower {
        leader: TWO,
        term: term(0, 30, 2),
    };
    assert_eq!(one.engine.role(), role);
    one.input(Input::PeerSilent(TWO));
    let before = one.engine.deadline();
    one.from(
        TWO,
        status(Term {
            number: 0,
            ..term(0, 0, 2)
        }),
    );
    assert_eq!(one.engine.role(), Role::Candidate);
    one.from(
        THREE,
        Message::Prepare {
            term: term(0, 50, 3),
        },
    );
    let patient = one.engine.deadline();
    assert!(patient >= before);
    one.from(TWO, status(term(0, 40, 2)));
    assert_eq!(one.engine.role(), Role::Candidate);
    assert_eq!(one.engine.deadline(), patient);
}

/// ‡ A leader without answers stops its heartbeats at once, and steps down after a while.
#[test]
fn a_leader_without_a_quorum_is_silent_at_once_and_steps_down_soon() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    assert!(one.engine.leader_status().is_some());
    assert_eq!(
        one.engine.deadline(),
        None,
        "an idle leader waits for nothing"
    );
    one.input(Input::PeerSilent(TWO));
    assert!(one.engine.leader_status().is_some());
    one.input(Input::PeerSilent(THREE));
    assert!(one.engine.leader_status().is_none());
    let timeout = Timing::default().leader_timeout;
    assert_eq!(one.engine.deadline(), Some(Time(one.now.0 + timeout)));
    let out = one.timer();
    let note = Note::SteppedDown {
        term: t,
        reason: StepDownReason::NoQuorum,
    };
    assert!(out.contains(&Output::Note(note)));
    assert_eq!(one.engine.role(), Role::Candidate);
}

#[test]
fn a_single_member_elects_itself_at_once() {
    let alone = LogState::new(Configuration::equal([ME]).unwrap());
    let mut one = Solo::new(fresh(alone));
    assert_eq!(one.engine.role(), Role::Candidate);
    one.durable();
    assert!(matches!(one.engine.role(), Role::Leader { .. }));
    one.propose(Action::GenerateNodeId).unwrap();
    assert_eq!(one.next(), 0);
    one.durable();
    assert_eq!(one.next(), 1);
    let out = one.input(Input::Read(ReadId(4)));
    assert!(out.contains(&Output::ReadReady(ReadId(4))));
}

#[test]
fn neither_a_learner_nor_an_auxiliary_stands_but_both_ask_for_the_leader() {
    let others = Configuration::equal([TWO, THREE]).unwrap();
    let marked = three()
        .configuration
        .apply(Change::MarkAuxiliary(ME))
        .unwrap();
    for configuration in [others, marked] {
        let mut one = Solo::new(fresh(LogState::new(configuration)));
        one.alive();
        one.timer(); // at once when a peer appears
        for _ in 0..5 {
            let before = one.now;
            let out = one.timer();
            assert!(one.now.0 - before.0 >= Timing::default().candidate_backoff_max);
            assert!(
                sent(&out)
                    .iter()
                    .any(|(_, m, _)| matches!(m, Message::SeekVotes { .. }))
            );
            for by in [TWO, THREE] {
                let offer = Message::OfferVote {
                    promised: PromisedTerm::default(),
                    missing_bytes: false,
                };
                assert_eq!(prepared(&one.from(by, offer)), None);
            }
        }
    }
}

#[test]
fn a_node_missing_bytes_lets_whole_ones_stand_first() {
    let mut one = Solo::new(fresh(three()));
    one.alive();
    one.timer();
    one.input(Input::MissingBytes(5));
    let offer = Message::OfferVote {
        promised: PromisedTerm::default(),
        missing_bytes: false,
    };
    let out = one.from(TWO, offer.clone());
    assert_eq!(prepared(&out), None);
    let handicap = Timing::default().missing_bytes_handicap;
    one.timer();
    assert!(one.engine.deadline().unwrap().0 - one.now.0 > handicap);
    for _ in 0..9 {
        one.timer();
        if prepared(&one.from(TWO, offer.clone())).is_some() {
            return;
        }
    }
    panic!("it stands in the end: the whole one may be unable to win");
}

// Handing over.

fn level(one: &mut Solo, node: NodeId, t: Term) {
    one.from(
        node,
        Message::FollowerStatus {
            promised: PromisedTerm(t),
            accepted_term: AcceptedTerm(t),
            accepted_up_to: one.engine.proposed_up_to(),
            first_unchosen: one.engine.first_unchosen(),
            missing_bytes: 0,
        },
    );
}

/// ‡ Only a level, live follower succeeds; without a sign of it the old leader prepares above.
#[test]
fn only_a_level_live_follower_succeeds() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    one.input(Input::PeerSilent(THREE));
    level(&mut one, TWO, t);
    assert!(one.engine.is_level(TWO));
    let out = one.input(Input::Abdicate { to: Some(THREE) });
    assert_eq!(prepared(&out), None);
    assert!(one.engine.permit().is_some(), "it goes on leading");
    one.propose(Action::GenerateNodeId).unwrap();
    one.durable();
    assert!(!one.engine.is_level(TWO));
    let out = one.input(Input::Abdicate { to: None });
    assert_eq!(prepared(&out), None, "two is not level yet");
    assert_eq!(one.engine.permit(), None);
    one.accepted(TWO, t, slots(0, 1), 0);
    let out = {
        level(&mut one, TWO, t);
        one.out.clone()
    };
    let handed = prepared(&out).expect("two is level now");
    assert_eq!(handed.owner, TWO);
    let (to, promise, after) = promised(&out).unwrap();
    assert_eq!((to, promise.term, after), (TWO, handed, one.last));
    assert_eq!(one.engine.role(), Role::Candidate);
    let out = one.timer();
    let above = prepared(&out).expect("no sign of two");
    assert!(above > handed && above.owner == ME);
}

#[test]
fn a_successor_that_does_not_become_level_in_time_ends_the_abdication() {
    let mut one = Solo::new(fresh(three()));
    one.lead();
    one.input(Input::Abdicate { to: Some(TWO) });
    assert_eq!(one.engine.permit(), None);
    one.timer();
    assert!(one.engine.permit().is_some());
}

/// Heartbeats would tell too, but writers wait meanwhile.
#[test]
fn who_accepted_everything_is_asked_at_once_whether_it_is_level() {
    let asked = |out: &[Output]| {
        let sent = sent(out);
        let status = |(to, m, _): &&(NodeId, Message, RecordNumber)| {
            *to == TWO && matches!(m, Message::LeaderStatus { .. })
        };
        sent.iter().filter(status).count()
    };
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    one.propose(Action::GenerateNodeId).unwrap();
    one.durable();
    let out = one.input(Input::Abdicate { to: Some(TWO) });
    assert_eq!(asked(&out), 0, "it has not accepted everything");
    let out = one.accepted(THREE, t, slots(0, 1), 0);
    assert_eq!(asked(&out), 0, "all is chosen, but not with its help");
    let out = one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(asked(&out), 1);
    let out = one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(asked(&out), 0, "once");
    assert!(one.engine.is_abdicating());
    level(&mut one, TWO, t);
    assert!(one.engine.has_handed_over());
}

#[test]
fn a_successor_takes_up_the_term_prepared_for_it() {
    let mut one = Solo::new(fresh(three()));
    one.alive();
    one.propose_from(TWO, proposal(term(0, 1, 2), slots(0, 1), Value::NoOp, 0));
    let mine = term(0, 2, 1);
    let out = one.from(TWO, Message::Prepare { term: mine });
    assert_eq!(prepared(&out), Some(mine));
    one.durable();
    let theirs = [(slots(0, 1), term(0, 1, 2), Value::NoOp)];
    one.from(TWO, Message::Promise(bound(mine, 0, &theirs)));
    assert_eq!(one.engine.role(), Role::Leader { term: mine });
}

#[test]
fn asked_to_step_down_it_says_so_and_waits_long() {
    let mut one = Solo::new(fresh(three()));
    one.lead();
    let out = one.input(Input::StepDown);
    assert!(out.contains(&Output::Permit(None)));
    assert!(out.contains(&Output::Role(Role::Candidate)));
    let seeks = sent(&out);
    assert!(
        seeks
            .iter()
            .any(|(_, m, _)| matches!(m, Message::SeekVotes { .. }))
    );
    let wait = one.engine.deadline().unwrap().0 - one.now.0;
    assert!(wait > Timing::default().candidate_backoff_max);
}

// Permits.

#[test]
fn unchosen_bytes_are_bounded() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    let name = stream(1, 1);
    one.open_chosen(t, name);
    assert_eq!(one.engine.permit().unwrap().limit, Slot(1001));
    let batch = one.write(name, 0, 1000, 1);
    let permit = one.engine.permit().unwrap();
    assert_eq!(permit.next, permit.limit);
    assert!(
        one.propose(Action::GenerateNodeId).is_ok(),
        "actions need no room"
    );
    one.durable();
    let out = one.accepted(TWO, t, batch, 1);
    let told = out
        .iter()
        .any(|o| matches!(o, Output::Permit(Some(p)) if p.limit == Slot(2001)));
    assert!(told, "growth after exhaustion is told");
}

#[test]
#[should_panic(expected = "I3: bytes were written outside the permit")]
fn bytes_written_outside_the_permit_are_a_mistake_of_ours() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    one.from(
        THREE,
        Message::Prepare {
            term: term(0, 90, 3),
        },
    );
    one.input(Input::BytesWritten(BytesWritten {
        term: t,
        first_slot: Slot(0),
        count: 1,
        stream: stream(1, 1),
        position: StreamPosition(0),
        digest: Digest(0),
    }));
}

/// ‡ Phase 1 without the only holders, as soon as a quorum without them is there.
#[test]
fn bytes_that_cannot_be_had_are_given_up_only_with_a_quorum_without_their_holders() {
    let mut one = Solo::new(fresh(three()));
    let name = stream(2, 1);
    let runs = [
        (slots(0, 1), term(0, 1, 2), action(open(name))),
        (slots(1, 51), term(0, 1, 2), content(name, 1)),
    ];
    let t = one.lead_after(term(0, 1, 2), |t| bound(t, 0, &runs));
    one.input(Input::PeerSilent(THREE));
    let unavailable = Input::BytesUnavailable {
        term: t,
        holders: vec![TWO],
    };
    let out = one.input(unavailable);
    assert_eq!(
        prepared(&out),
        None,
        "two may be one of the quorum that accepted"
    );
    let out = one.input(Input::PeerAlive(THREE));
    let again = prepared(&out).expect("one and three are a quorum");
    one.durable();
    one.from(TWO, Message::Promise(bound(again, 0, &runs)));
    assert_eq!(
        one.engine.role(),
        Role::Leader { term: t },
        "two is not counted"
    );
    one.from(THREE, Message::Promise(free(again, 0)));
    assert_eq!(one.engine.role(), Role::Leader { term: again });
    assert_eq!(one.engine.permit().unwrap().content, PermitContent::Free);
    assert_eq!(
        one.engine.proposed_up_to(),
        Slot(1),
        "the open-stream is its own acceptance"
    );
}

// Level (announcements are repeated).

#[test]
fn a_follower_is_level_only_when_its_announcement_arrived() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    one.propose(Action::GenerateNodeId).unwrap();
    level(&mut one, TWO, t);
    assert!(!one.engine.is_level(TWO));
    assert_eq!(one.engine.peer_accepted_up_to(TWO), Some(Slot(0)));
    assert_eq!(one.engine.proposals(Slot(0)).count(), 1);
    one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(one.engine.peer_accepted_up_to(TWO), Some(Slot(1)));
    one.durable();
    level(&mut one, TWO, t);
    assert!(one.engine.is_level(TWO));
}

#[test]
fn an_announcement_is_repeated_until_the_leader_has_heard_it() {
    let mut one = Solo::new(fresh(three()));
    one.input(Input::PeerAlive(TWO));
    let t = term(0, 1, 2);
    let batch = proposal(t, slots(0, 4), Value::NoOp, 0);
    one.propose_from(TWO, batch.clone());
    let record = one.last;
    one.durable();
    one.now.0 += 1_000_000;
    let status = Message::LeaderStatus {
        term: t,
        proposed_up_to: Slot(4),
        chosen_up_to: Slot(0),
        finishing: None,
    };
    let accepted = Message::Accepted {
        term: t,
        slots: slots(0, 4),
        digest: Digest(0),
    };
    let out = one.from(TWO, status.clone());
    assert_eq!(sent(&out), vec![(TWO, accepted.clone(), record)]);
    assert!(sent(&one.from(TWO, status)).is_empty(), "not too often");
    let out = one.propose_from(TWO, batch);
    assert_eq!(sent(&out), vec![(TWO, accepted, record)]);
    assert_eq!(persists(&out), 0, "accepted once");
}

#[test]
fn a_status_tells_only_what_is_durable() {
    let mut one = Solo::new(fresh(three()));
    let t = term(0, 1, 2);
    one.propose_from(TWO, proposal(t, slots(0, 4), Value::NoOp, 0));
    let Message::FollowerStatus {
        promised,
        accepted_up_to,
        ..
    } = one.engine.follower_status()
    else {
        panic!("a status")
    };
    assert_eq!(
        (promised, accepted_up_to),
        (PromisedTerm::default(), Slot(0))
    );
    one.durable();
    let Message::FollowerStatus {
        promised,
        accepted_up_to,
        ..
    } = one.engine.follower_status()
    else {
        panic!("a status")
    };
    assert_eq!((promised, accepted_up_to), (PromisedTerm(t), Slot(4)));
}

// Reads.

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
fn a_deposed_leader_fails_its_reads_and_a_follower_takes_none() {
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

// Messages that cannot be true.

#[test]
fn what_cannot_be_true_is_ignored() {
    let mut one = Solo::new(fresh(three()));
    let t = term(0, 5, 2);
    let generate = action(Action::GenerateNodeId);
    let overlapping = bound(
        t,
        0,
        &[
            (slots(0, 4), term(0, 1, 3), Value::NoOp),
            (slots(3, 5), term(0, 1, 3), Value::NoOp),
        ],
    );
    for message in [
        Message::Propose(proposal(t, slots(3, 3), Value::NoOp, 0)),
        Message::Propose(proposal(t, slots(9, 3), Value::NoOp, 0)),
        Message::Propose(proposal(t, slots(0, u64::MAX), Value::NoOp, 0)),
        Message::Propose(proposal(t, slots(0, 2), generate, 0)),
        Message::Propose(proposal(t, slots(3, 4), content(stream(2, 1), 9), 0)),
        Message::Propose(proposal(term(0, 5, 0), slots(0, 1), Value::NoOp, 0)),
        Message::Prepare {
            term: term(0, u32::MAX, 2),
        },
        Message::Promise(overlapping),
    ] {
        let out = one.from(TWO, message.clone());
        assert!(ignored(&out, Ignored::Malformed), "{message:?}");
        assert_eq!(persists(&out), 0);
    }
    let other = proposal(term(0, 5, 3), slots(0, 1), Value::NoOp, 0);
    assert!(ignored(&one.propose_from(TWO, other), Ignored::NotOwner));
    one.propose_from(TWO, proposal(t, slots(0, 1), Value::NoOp, 0));
    let second = proposal(t, slots(0, 1), action(Action::GenerateNodeId), 0);
    let out = one.propose_from(TWO, second);
    assert!(
        ignored(&out, Ignored::Malformed),
        "I3: one value per term and slot"
    );
}

// Recovery.

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
        seed: 7,
        unchosen_bytes_max: 1000,
        timing: Timing::default(),
    };
    let now = Time(1_000_000);
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
