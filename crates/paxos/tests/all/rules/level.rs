//! Level (announcements are repeated).

use std::time::Duration;

use paxos::*;

use super::handing_over::level;
use crate::solo::*;

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
    one.now += Duration::from_secs(1);
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
