//! Leaders and candidates.

use std::time::Duration;

use paxos::*;

use crate::solo::*;

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
    let wait = one.engine.deadline().unwrap() - one.now;
    assert!(wait <= Timing::default().candidate_backoff_first);
}

/// ‡ Backoff is random, growing, capped, and reset by progress.
#[test]
fn backoff_is_capped_and_reset_by_progress() {
    let mut one = Solo::new(fresh(three()));
    one.alive();
    let timing = Timing::default();
    let mut longest = Duration::ZERO;
    for _ in 0..50 {
        one.timer();
        longest = longest.max(one.engine.deadline().unwrap() - one.now);
    }
    assert!(longest > Duration::from_millis(300), "it grows");
    assert!(longest <= timing.candidate_backoff_max + timing.retry);
    let t = term(0, 1, 2);
    one.propose_from(TWO, proposal(t, slots(0, 1), Value::NoOp, 0));
    one.input(Input::PeerSilent(TWO));
    let wait = one.engine.deadline().unwrap() - one.now;
    assert!(wait <= timing.candidate_backoff_first);
}

/// ‡ Rate-limited.
#[test]
fn a_leader_prepares_above_later_terms_but_not_too_often() {
    let mut one = Solo::new(fresh(three()));
    one.lead();
    one.now += Duration::from_secs(1);
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
fn a_leader_stands_aside_for_a_later_term_of_a_third_node() {
    let refused = |owner| Message::Refuse {
        refused: term(0, 1, 1),
        promised: PromisedTerm(term(0, 10, owner)),
    };
    let mut one = Solo::new(fresh(three()));
    one.lead();
    one.now += Duration::from_secs(1);
    let out = one.from(THREE, refused(2));
    assert_eq!(prepared(&out), None, "2 may lead where 1 is not heard");
    assert_eq!(one.engine.role(), Role::Candidate);
    let mut one = Solo::new(fresh(three()));
    one.lead();
    one.now += Duration::from_secs(1);
    let out = one.from(THREE, refused(3));
    assert_eq!(
        prepared(&out),
        Some(term(0, 11, 1)),
        "3 does not lead: it follows"
    );
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
    assert_eq!(one.engine.deadline(), Some(one.now + timeout));
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
            assert!(one.now - before >= Timing::default().candidate_backoff_max);
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
    assert!(one.engine.deadline().unwrap() - one.now > handicap);
    for _ in 0..9 {
        one.timer();
        if prepared(&one.from(TWO, offer.clone())).is_some() {
            return;
        }
    }
    panic!("it stands in the end: the whole one may be unable to win");
}
