//! Terms that nobody can have prepared, and numbers that leave no room.

use paxos::*;

use crate::solo::*;

const STRANGER: NodeId = NodeId(99);

fn follower() -> Solo {
    let mut one = Solo::new(fresh(three()));
    one.alive();
    one
}

fn status(term: Term) -> Message {
    Message::LeaderStatus {
        term,
        proposed_up_to: Slot(0),
        chosen_up_to: Slot(0),
        finishing: None,
    }
}

#[test]
fn a_term_whose_owner_is_no_member_changes_nothing() {
    let mut one = follower();
    let t = term(0, 1, 99);
    for message in [
        Message::Prepare { term: t },
        status(t),
        Message::Propose(proposal(t, slots(0, 1), Value::NoOp, 0)),
    ] {
        let out = one.from(STRANGER, message.clone());
        assert!(ignored(&out, Ignored::NotMember), "{message:?}");
        assert_eq!(persists(&out), 0);
        assert_eq!(one.engine.role(), Role::Candidate);
    }
    // A term of an era to come leads to the question what that era is, and to no more.
    let out = one.from(STRANGER, status(term(7, 1, 99)));
    assert!(ignored(&out, Ignored::EraNotKnown));
    assert_eq!(one.engine.role(), Role::Candidate);
}

/// A replica in era 1, of nodes 1 to 3, with a promise of the era before.
fn after_an_era(promised: Term) -> Solo {
    let mut state = three();
    state.era = Era(1);
    let mut checkpoint = fresh(state);
    checkpoint.promised = PromisedTerm(promised);
    let mut one = Solo::new(checkpoint);
    one.alive();
    one
}

/// The stranger has left, or was never here: the term that it prepared before this era stands in the way of a
/// leader of this one all the same.
#[test]
fn an_earlier_eras_term_of_who_is_no_member_deposes_nobody() {
    let (promised, later) = (term(0, 3, 2), term(0, 4, 99));
    let mut one = after_an_era(promised);
    one.from(TWO, status(promised));
    let follows = Role::Follower {
        leader: TWO,
        term: promised,
    };
    assert_eq!(one.engine.role(), follows);
    for message in [
        Message::Prepare { term: later },
        status(later),
        Message::Propose(proposal(later, slots(0, 1), Value::NoOp, 0)),
    ] {
        let out = one.from(STRANGER, message.clone());
        assert!(ignored(&out, Ignored::NotMember), "{message:?}");
        assert_eq!(persists(&out), 0);
        assert_eq!(one.engine.role(), follows);
    }
    // A present member may have prepared the term before it knew this era.
    let later = term(0, 4, 3);
    one.from(THREE, Message::Prepare { term: later });
    assert_eq!(one.engine.promised().0, later);
}

/// The leader was followed before this replica knew the era without it: it finishes what it began, and hands over.
#[test]
fn a_leader_that_left_is_heard_while_it_is_followed() {
    let four = [1, 2, 3, 99].map(NodeId);
    let state = LogState::new(Configuration::equal(four).unwrap());
    let mut one = Solo::new(fresh(state));
    one.input(Input::PeerAlive(STRANGER));
    let led = term(0, 3, 99);
    one.from(STRANGER, status(led));
    let mut later = three();
    later.era = Era(1);
    later.era_start = Slot(5);
    later.next = Slot(5);
    one.from(STRANGER, Message::State(later.into()));
    assert_eq!(one.engine.state().era, Era(1));
    let out = one.from(STRANGER, status(led));
    assert!(!ignored(&out, Ignored::NotMember));
    let out = one.from(
        STRANGER,
        Message::Prepare {
            term: term(1, 1, 2),
        },
    );
    assert!(promised(&out).is_some(), "for its successor");
}

#[test]
fn nobody_but_a_member_prepares_a_members_term() {
    let mut one = follower();
    for owner in [1, 2] {
        let prepare = Message::Prepare {
            term: term(0, 3, owner),
        };
        let out = one.from(STRANGER, prepare);
        assert!(ignored(&out, Ignored::NotOwner));
        assert_eq!(persists(&out), 0);
    }
}

#[test]
fn what_a_stranger_says_that_it_promised_raises_no_number_and_deposes_nobody() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    let promised = PromisedTerm(term(0, 1 << 30, 99));
    let seek = Message::SeekVotes {
        first_unchosen: Slot(0),
        promised,
        missing_bytes: false,
    };
    let refuse = Message::Refuse {
        refused: t,
        promised,
    };
    for message in [seek, refuse] {
        one.from(STRANGER, message);
        assert_eq!(one.engine.role(), Role::Leader { term: t });
    }
    one.input(Input::StepDown);
    let next = one.lead();
    assert!(next.number < 10, "{next}");
}

#[test]
fn a_number_far_ahead_is_believed_only_when_it_was_heard_often() {
    let mut one = follower();
    let far = term(0, 1 << 30, 2);
    let prepare = Message::Prepare { term: far };
    let out = one.from(TWO, prepare.clone());
    assert!(ignored(&out, Ignored::TooFarAhead));
    assert_eq!(persists(&out), 0);
    let mut heard = 1;
    while promised(&one.from(TWO, prepare.clone())).is_none() {
        heard += 1;
    }
    assert!((1_000..1_400).contains(&heard), "{heard}");
    assert_eq!(one.engine.promised().0, far);
}

#[test]
fn however_often_numbers_jump_there_is_room_above() {
    let mut one = follower();
    let mut number = 0;
    for _ in 0..200_000 {
        number = jump(number);
        let prepare = Message::Prepare {
            term: term(0, number, 2),
        };
        assert!(promised(&one.from(TWO, prepare)).is_some(), "{number}");
        one.persisted.clear();
        one.durable();
        if number > u32::MAX - 4_000 {
            break;
        }
    }
    assert!(number < u32::MAX - 1_000, "{number}");
    let next = one.lead_after(Term::default(), |term| free(term, 0));
    assert_eq!(next.number, number + 1);
}

/// The farthest number that a node can reach at once if it wants to use numbers up.
fn jump(highest: u32) -> u32 {
    highest + ((u32::MAX - highest) >> 12).max(1)
}

/// An earlier program promised such a term to a stranger, and believed no number above it.
#[test]
fn a_log_that_a_stranger_wedged_finds_a_leader_again() {
    let mut wedged = fresh(three());
    wedged.promised = PromisedTerm(term(0, 1 << 30, 99));
    let mut one = Solo::new(wedged.clone());
    let t = one.lead_after(wedged.promised.0, |term| free(term, 0));
    assert_eq!(t, term(0, (1 << 30) + 1, 1));
    let mut another = Solo::new(wedged);
    another.alive();
    let prepare = Message::Prepare {
        term: term(0, (1 << 30) + 1, 2),
    };
    another.from(TWO, prepare);
    assert!(another.engine.promised().0.number > 1 << 30);
    // A node that was away meanwhile hears of the term step by step.
    let mut away = follower();
    let prepare = Message::Prepare {
        term: term(0, (1 << 30) + 1, 2),
    };
    for _ in 0..2_000 {
        away.from(TWO, prepare.clone());
    }
    assert_eq!(away.engine.promised().0, term(0, (1 << 30) + 1, 2));
}
