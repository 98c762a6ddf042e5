//! Handing over.

use paxos::*;

use crate::solo::*;

pub fn level(one: &mut Solo, node: NodeId, t: Term) {
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

/// Heartbeats would tell a follower's level too, but writers wait meanwhile.
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
    let wait = one.engine.deadline().unwrap() - one.now;
    assert!(wait > Timing::default().candidate_backoff_max);
}
