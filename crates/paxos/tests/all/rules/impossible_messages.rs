//! Messages that cannot be true.

use paxos::*;

use crate::solo::*;

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
            term: term(0, 0, 2),
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
