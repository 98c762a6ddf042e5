//! Whether a leader's log may yet get another configuration, by what was proposed so far.

use paxos::*;

use crate::solo::*;

fn join_four(from: Era) -> Action {
    let change = Change::Increment(NodeId(4));
    Action::Reconfigure {
        from,
        change,
        by: paxos::By::Unsaid,
    }
}

#[test]
fn a_proposed_reconfiguration_may_come_until_it_is_chosen() {
    let mut one = Solo::new(fresh(three()));
    assert!(!one.engine.may_yet_reconfigure(), "it does not lead");
    let t = one.lead();
    one.open_chosen(t, stream(1, 1));
    assert!(!one.engine.may_yet_reconfigure());
    let slot = one.propose(join_four(Era(0))).unwrap();
    one.durable();
    assert!(one.engine.may_yet_reconfigure());
    // Also with other things behind it.
    let close = Action::CloseStream {
        stream: stream(1, 1),
        at: StreamPosition(0),
    };
    one.propose(close).unwrap();
    assert!(one.engine.may_yet_reconfigure());
    one.accepted(TWO, t, slots(slot.0, slot.0 + 1), 0);
    assert_eq!(one.engine.state().era, Era(1));
    assert!(!one.engine.may_yet_reconfigure());
}

#[test]
fn one_that_an_earlier_term_left_may_come_too() {
    let mut one = Solo::new(fresh(three()));
    let left = (slots(0, 1), term(0, 1, 2), action(join_four(Era(0))));
    let t = one.lead_after(term(0, 1, 2), |t| bound(t, 0, std::slice::from_ref(&left)));
    assert!(one.engine.may_yet_reconfigure());
    one.durable();
    one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(one.engine.state().era, Era(1));
    assert!(!one.engine.may_yet_reconfigure());
}
