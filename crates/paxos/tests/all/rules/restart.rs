//! Restart.

use std::sync::Arc;

use paxos::*;

use crate::solo::*;

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
        by: paxos::By::Unsaid,
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
