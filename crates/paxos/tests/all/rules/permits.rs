//! Permits.

use paxos::*;

use crate::solo::*;

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
