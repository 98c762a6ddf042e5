//! A step of the configuration leaves what is chosen with a quorum that holds it.

use paxos::*;

use crate::solo::*;

const FOUR: NodeId = NodeId(4);

fn step(change: Change) -> Action {
    Action::Reconfigure {
        from: Era(0),
        change,
        by: By::Unsaid,
    }
}

/// Leads three members, and something is chosen.
fn leader() -> (Solo, Term) {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    one.propose(Action::GenerateNodeId).unwrap();
    one.durable();
    one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(one.next(), 1);
    (one, t)
}

fn propose(one: &mut Solo, change: Change) -> Result<Slot, NotProposed> {
    one.propose_as_it_is(step(change))
}

#[test]
fn no_weight_is_taken_while_too_few_others_are_known_to_hold_everything() {
    let (mut one, _) = leader();
    let change = Change::Decrement(THREE);
    let refused = Err(NotProposed::HeldByNoQuorum { change });
    assert_eq!(propose(&mut one, change), refused, "nobody said anything");
    let mut lacks = holds_below(1);
    if let Message::FollowerStatus { missing_bytes, .. } = &mut lacks {
        *missing_bytes = 7;
    }
    one.from(TWO, lacks);
    one.from(THREE, holds_below(1));
    assert_eq!(
        propose(&mut one, change),
        refused,
        "2 lacks bytes, and 3 is to lose"
    );
    one.from(TWO, holds_below(1));
    assert!(propose(&mut one, change).is_ok());
}

#[test]
fn weight_is_given_to_who_holds_everything_or_where_the_others_do() {
    let (mut one, _) = leader();
    let change = Change::Increment(FOUR);
    assert_eq!(
        propose(&mut one, change),
        Err(NotProposed::HeldByNoQuorum { change })
    );
    one.from(TWO, holds_below(1));
    one.from(FOUR, holds_below(1));
    assert!(propose(&mut one, change).is_ok());
    let (mut one, _) = leader();
    one.from(TWO, holds_below(1));
    one.from(THREE, holds_below(1));
    assert!(propose(&mut one, change).is_ok());
}

#[test]
fn no_member_becomes_auxiliary_while_its_bytes_are_needed() {
    let (mut one, _) = leader();
    let change = Change::MarkAuxiliary(THREE);
    one.from(THREE, holds_below(1));
    assert_eq!(
        propose(&mut one, change),
        Err(NotProposed::HeldByNoQuorum { change })
    );
    one.from(TWO, holds_below(1));
    assert!(propose(&mut one, change).is_ok());
}

#[test]
fn a_step_that_takes_nothing_from_anybody_needs_no_word() {
    let (mut one, _) = leader();
    assert!(propose(&mut one, Change::Multiply(2)).is_ok());
    let state = LogState::new(Configuration::equal([ME]).unwrap());
    let mut alone = Solo::new(fresh(state));
    alone.durable();
    assert!(propose(&mut alone, Change::Increment(ME)).is_ok());
}
