//! The casting vote: a new era begins while the term before goes on (src/casting.rs).

use std::time::Duration;

use paxos::*;

use crate::solo::*;

const NAME: (u32, u32) = (1, 1);

fn name() -> StreamName {
    stream(NAME.0, NAME.1)
}

/// The nodes asked to promise, and the term.
fn asked(out: &[Output]) -> Vec<(NodeId, Term)> {
    let sent = sent(out).into_iter();
    let prepares = sent.filter_map(|(to, message, _)| match message {
        Message::Prepare { term } => Some((to, term)),
        _ => None,
    });
    prepares.collect()
}

fn reconfigure(one: &mut Solo, change: Change) -> Slot {
    let from = one.engine.state().era;
    let action = Action::Reconfigure {
        from,
        change,
        by: paxos::By::Unsaid,
    };
    one.propose(action).unwrap()
}

/// Leads in t with ten bytes chosen, and a reconfiguration that TWO has accepted, so that it is chosen: in
/// slot 11, and the era begins in slot 12. Returns t and the outputs of the choice.
fn begin(one: &mut Solo, change: Change) -> (Term, Vec<Output>) {
    let t = one.lead();
    one.open_chosen(t, name());
    let batch = one.write(name(), 0, 10, 1);
    one.durable();
    one.accepted(TWO, t, batch, 1);
    let slot = reconfigure(one, change);
    one.durable();
    let out = one.accepted(TWO, t, slots(slot.0, slot.0 + 1), 0);
    assert_eq!(one.engine.state().era, Era(1));
    (t, out)
}

fn write_and_sync(one: &mut Solo, position: u64, count: u64) -> SlotRange {
    let batch = one.write(name(), position, count, 1);
    one.durable();
    batch
}

#[test]
fn a_new_era_begins_while_the_term_before_goes_on() {
    let mut one = Solo::new(fresh(three()));
    let (t, out) = begin(&mut one, Change::Multiply(2));
    let next = term(1, 1, 1);
    assert_eq!(asked(&out), [(THREE, next)], "two goes on accepting");
    assert!(out.contains(&Output::Note(Note::CastingVote { term: next })));
    let (_, what, checkpoint) = one.persisted.last().unwrap().clone();
    let promised = PromisedTerm(next);
    assert_eq!(what, Persist::Promise { term: promised });
    let finishing = Finishing {
        term: t,
        below: Slot(12 + 1000),
    };
    assert_eq!(checkpoint.finishing, Some(finishing));
    assert_eq!(checkpoint.promised, promised);

    // t goes on, through two, before and after the own promise is durable.
    let permit = one.engine.permit().expect("it stays open").clone();
    assert_eq!((permit.term, permit.next), (t, Slot(12)));
    let early = one.write(name(), 10, 5, 1);
    one.accepted(TWO, t, early, 1);
    one.durable();
    assert_eq!(one.next(), 17, "one and two are a quorum of the new era");
    assert_eq!(one.engine.role(), Role::Leader { term: t });
    assert!(one.engine.leader_status().is_some());
    let refused = Message::Refuse {
        refused: t,
        promised,
    };
    assert_eq!(asked(&one.from(THREE, refused)), [], "that is the own term");

    // Three has promised: the next term takes over behind what is under way.
    let late = write_and_sync(&mut one, 15, 5);
    let out = one.from(THREE, Message::Promise(free(next, 12)));
    assert_eq!(one.engine.role(), Role::Leader { term: next });
    let status = Message::LeaderStatus {
        term: next,
        proposed_up_to: Slot(22),
        chosen_up_to: Slot(17),
        finishing: Some(Finishing {
            term: t,
            below: Slot(22),
        }),
    };
    let told: Vec<NodeId> = sent(&out)
        .into_iter()
        .filter(|(_, message, _)| *message == status)
        .map(|(to, ..)| to)
        .collect();
    assert_eq!(told, [TWO, THREE]);
    assert_eq!(one.engine.leader_status(), Some(status));
    let permit = one.engine.permit().unwrap().clone();
    assert_eq!((permit.term, permit.next), (next, Slot(22)));
    assert_eq!(permit.content, PermitContent::Free);
    assert_eq!(one.engine.finishing(), None, "nothing is left open");

    // The slots under way are finished in t, and only there; slots behind them, in the new term.
    let new = write_and_sync(&mut one, 20, 5);
    one.accepted(TWO, next, new, 1);
    one.accepted(THREE, next, new, 1);
    assert_eq!(one.next(), 17, "a hole is below");
    one.accepted(THREE, next, late, 1);
    assert_eq!(one.next(), 17, "nobody proposed that in the new term");
    let terms: Vec<Term> = one.engine.proposals(Slot(17)).map(|p| p.term).collect();
    assert_eq!(terms, [t, next]);
    one.accepted(TWO, t, late, 1);
    assert_eq!(one.next(), 27);
    assert_eq!(one.engine.state().current_stream().unwrap().length.0, 25);
}

#[test]
fn nothing_is_proposed_in_the_next_term_before_the_own_promise_is_durable() {
    let mut one = Solo::new(fresh(three()));
    let (t, out) = begin(&mut one, Change::Multiply(2));
    let [(_, next)] = asked(&out)[..] else {
        panic!("one is asked: {out:?}");
    };
    one.from(THREE, Message::Promise(free(next, 12)));
    assert_eq!(one.engine.role(), Role::Leader { term: t });
    assert_eq!(one.engine.permit().unwrap().term, t);
    one.durable();
    assert_eq!(one.engine.role(), Role::Leader { term: next });
}

#[test]
fn a_leader_alone_casts_its_vote_at_its_own_disk() {
    let alone = LogState::new(Configuration::equal([ME]).unwrap());
    let mut one = Solo::new(fresh(alone));
    one.durable();
    let slot = reconfigure(&mut one, Change::Multiply(3));
    let out = one.durable();
    assert!(asked(&out).is_empty());
    assert_eq!(one.engine.first_unchosen(), Slot(slot.0 + 1));
    let permit = one.engine.permit().expect("it stays open");
    assert_eq!(permit.term, term(0, 1, 1));
    one.durable();
    assert_eq!(one.engine.permit().unwrap().term, term(1, 1, 1));
}

/// Phase 1 as it always was: everybody is asked, and the permit is closed.
fn stalls(one: &Solo, out: &[Output], everybody: &[NodeId]) {
    let nodes: Vec<NodeId> = asked(out).iter().map(|(to, _)| *to).collect();
    assert_eq!(nodes, everybody);
    assert_eq!(one.engine.permit(), None);
}

#[test]
fn without_a_split_everybody_is_asked() {
    let two = LogState::new(Configuration::equal([ME, TWO]).unwrap());
    let mut one = Solo::new(fresh(two));
    let (_, out) = begin(&mut one, Change::Multiply(2));
    stalls(&one, &out, &[TWO]);
    // Four equal votes cannot be split by one of them.
    let mut one = Solo::new(fresh(three()));
    let (_, out) = begin(&mut one, Change::Increment(NodeId(4)));
    stalls(&one, &out, &[TWO, THREE, NodeId(4)]);
    // A silent node is in neither part.
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    one.input(Input::PeerSilent(THREE));
    reconfigure(&mut one, Change::Multiply(2));
    one.durable();
    let out = one.accepted(TWO, t, slots(0, 1), 0);
    stalls(&one, &out, &[TWO, THREE]);
}

#[test]
fn an_auxiliary_is_asked_and_the_active_go_on() {
    let auxiliary = |node: NodeId| Member {
        node,
        weight: 1,
        auxiliary: node == TWO,
    };
    let members = [ME, TWO, THREE].map(auxiliary);
    let state = LogState::new(Configuration::new(members).unwrap());
    let mut one = Solo::new(fresh(state));
    let t = one.lead();
    reconfigure(&mut one, Change::Multiply(2));
    one.durable();
    let out = one.accepted(THREE, t, slots(0, 1), 0);
    assert_eq!(asked(&out), [(TWO, term(1, 1, 1))]);
    let slot = one.propose(Action::GenerateNodeId).unwrap();
    one.durable();
    one.accepted(THREE, t, slots(slot.0, slot.0 + 1), 0);
    assert_eq!(one.next(), slot.0 + 1);
}

#[test]
fn who_was_asked_falls_silent_so_all_are_asked() {
    for (silent, rest) in [(THREE, vec![TWO]), (TWO, vec![TWO])] {
        let mut one = Solo::new(fresh(three()));
        let (t, out) = begin(&mut one, Change::Multiply(2));
        let next = asked(&out)[0].1;
        let under_way = write_and_sync(&mut one, 10, 5);
        let out = one.input(Input::PeerSilent(silent));
        stalls(&one, &out, &rest);
        assert_eq!(asked(&out)[0].1, next, "the term is as good as before");
        one.durable();
        // Its acceptances in t still count until the next term's phase 1 is done.
        assert_eq!(one.engine.role(), Role::Leader { term: t });
        let who = if silent == TWO { THREE } else { TWO };
        let runs = [(under_way, t, content(name(), 2))];
        let promise = match who {
            TWO => bound(next, 12, &runs),
            _ => free(next, 12),
        };
        one.from(who, Message::Promise(promise));
        assert_eq!(one.engine.role(), Role::Leader { term: next });
        let permit = one.engine.permit().unwrap();
        assert_eq!((permit.next, permit.limit), (Slot(12), Slot(17)));
        assert!(
            matches!(permit.content, PermitContent::Bound { .. }),
            "what was under way is proposed again: {permit:?}"
        );
        assert_eq!(one.engine.took_over_from(), None);
    }
}

#[test]
fn what_another_term_left_behind_the_permit_is_bound_as_ever() {
    let mut one = Solo::new(fresh(three()));
    let (_, out) = begin(&mut one, Change::Multiply(2));
    let next = asked(&out)[0].1;
    one.durable();
    let left = [(slots(15, 18), term(0, 1, 3), content(stream(3, 9), 15))];
    let out = one.from(THREE, Message::Promise(bound(next, 12, &left)));
    // Everybody is asked; with one's own promise three's is a quorum already.
    assert_eq!(asked(&out), [(TWO, next)]);
    assert_eq!(one.engine.role(), Role::Leader { term: next });
    assert_eq!(one.engine.took_over_from(), None);
    let replicated = replicated(&out);
    assert_eq!(replicated[0].slots, slots(12, 15));
    assert_eq!(replicated[0].value, Value::NoOp);
}

#[test]
fn another_leaders_prepare_closes_what_was_left_open() {
    let mut one = Solo::new(fresh(three()));
    let (t, _) = begin(&mut one, Change::Multiply(2));
    let batch = write_and_sync(&mut one, 10, 5);
    let later = term(1, 7, 2);
    let out = one.from(TWO, Message::Prepare { term: later });
    assert_eq!(one.engine.permit(), None);
    assert_eq!(one.engine.finishing(), None);
    let (_, promise, after) = promised(&out).unwrap();
    assert_eq!(promise.from, Slot(12));
    assert_eq!(promise.runs.len(), 1);
    assert_eq!(promise.runs[0].slots, batch);
    assert_eq!(promise.runs[0].term, AcceptedTerm(t));
    assert_eq!(after, one.last);
}

#[test]
fn nothing_is_proposed_at_or_behind_the_end_of_the_permit() {
    let mut one = Solo::with_window(fresh(three()), 20);
    let (t, out) = begin(&mut one, Change::Multiply(2));
    let next = asked(&out)[0].1;
    let end = Slot(12 + 20);
    let batch = write_and_sync(&mut one, 10, 15);
    one.accepted(TWO, t, batch, 1);
    assert_eq!(one.next(), 27);
    let permit = one.engine.permit().unwrap();
    assert_eq!(
        permit.limit, end,
        "the window moved, the permit's end did not"
    );
    let rest = write_and_sync(&mut one, 25, 5);
    assert_eq!(rest.end, end);
    let refused = one.propose(Action::GenerateNodeId);
    assert!(refused.is_err(), "not even an action, which needs no room");
    one.from(THREE, Message::Promise(free(next, 12)));
    let permit = one.engine.permit().unwrap();
    assert_eq!((permit.term, permit.next), (next, end));
    one.propose(Action::GenerateNodeId).unwrap();
}

#[test]
fn a_second_era_while_the_first_begins_is_waited_for() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    let mut one_era = |from| {
        let change = Change::Multiply(2);
        let from = Era(from);
        one.propose(Action::Reconfigure {
            from,
            change,
            by: paxos::By::Unsaid,
        })
    };
    assert!(one_era(0).is_ok() && one_era(1).is_ok());
    one.propose(Action::GenerateNodeId).unwrap();
    one.durable();
    let out = one.accepted(TWO, t, slots(0, 1), 0);
    assert_eq!(asked(&out).len(), 1, "the vote is cast");
    let out = one.accepted(TWO, t, slots(1, 2), 0);
    assert_eq!(one.engine.state().era, Era(2));
    stalls(&one, &out, &[TWO, THREE]);
    assert_eq!(asked(&out)[0].1.era, Era(2));
    one.accepted(TWO, t, slots(2, 3), 0);
    assert_eq!(one.next(), 2, "t chooses nothing two eras on");
}

#[test]
fn no_other_era_is_proposed_while_one_begins() {
    let mut one = Solo::new(fresh(three()));
    let (t, out) = begin(&mut one, Change::Multiply(2));
    let next = asked(&out)[0].1;
    let change = Action::Reconfigure {
        from: Era(1),
        change: Change::Multiply(2),
        by: paxos::By::Unsaid,
    };
    assert!(
        one.propose(change.clone()).is_err(),
        "the vote is being cast"
    );
    let batch = write_and_sync(&mut one, 10, 5);
    one.from(THREE, Message::Promise(free(next, 12)));
    assert!(one.propose(change.clone()).is_err(), "not all is finished");
    one.accepted(TWO, t, batch, 1);
    assert!(one.propose(change).is_ok());
}

#[test]
fn an_era_that_begins_before_all_is_finished_is_waited_for() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    for era in 0..2 {
        let (from, change) = (Era(era), Change::Multiply(2));
        one.propose(Action::Reconfigure {
            from,
            change,
            by: paxos::By::Unsaid,
        })
        .unwrap();
    }
    one.propose(Action::GenerateNodeId).unwrap();
    one.durable();
    let out = one.accepted(TWO, t, slots(0, 1), 0);
    let [(asked_node, next)] = asked(&out)[..] else {
        panic!("one is asked: {out:?}");
    };
    one.durable();
    one.from(asked_node, Message::Promise(free(next, 1)));
    assert_eq!(one.engine.role(), Role::Leader { term: next });
    let out = one.accepted(TWO, t, slots(1, 2), 0);
    assert_eq!(one.engine.state().era, Era(2));
    stalls(&one, &out, &[TWO, THREE]);
}

#[test]
fn what_cannot_be_finished_is_proposed_again() {
    let mut one = Solo::new(fresh(three()));
    let (_, out) = begin(&mut one, Change::Multiply(2));
    let next = asked(&out)[0].1;
    write_and_sync(&mut one, 10, 5);
    one.from(THREE, Message::Promise(free(next, 12)));
    assert_eq!(one.engine.role(), Role::Leader { term: next });
    one.input(Input::PeerSilent(TWO));
    let again = (0..20).find_map(|_| prepared(&one.timer()));
    let again = again.expect("it prepares above the term that took over");
    assert!(again > next);
    one.durable();
    one.from(THREE, Message::Promise(free(again, 12)));
    let permit = one.engine.permit().unwrap();
    assert_eq!((permit.term, permit.next), (again, Slot(12)));
    assert!(matches!(permit.content, PermitContent::Bound { .. }));
}

#[test]
fn as_long_as_some_of_it_is_chosen_it_is_finished() {
    let mut one = Solo::new(fresh(three()));
    let (t, out) = begin(&mut one, Change::Multiply(2));
    let next = asked(&out)[0].1;
    let batches = [10, 15, 20].map(|at| write_and_sync(&mut one, at, 5));
    one.from(THREE, Message::Promise(free(next, 12)));
    assert_eq!(one.engine.role(), Role::Leader { term: next });
    // The waits together are twice as long as nothing may be chosen.
    let wait = Timing::default().leader_timeout * 2 / 3;
    for batch in batches {
        one.now += wait;
        let out = one.input(Input::Timer);
        assert_eq!(prepared(&out), None, "before {batch:?}");
        one.accepted(TWO, t, batch, 1);
    }
    assert_eq!(one.next(), 27);
    assert_eq!(one.engine.role(), Role::Leader { term: next });
}

#[test]
fn reads_are_served_while_the_vote_is_cast() {
    let mut one = Solo::new(fresh(three()));
    let (t, _) = begin(&mut one, Change::Multiply(2));
    one.durable();
    let out = one.input(Input::Read(ReadId(1)));
    let round = sent(&out).iter().find_map(|(_, message, _)| match message {
        Message::Confirm { term, round } if *term == t => Some(*round),
        _ => None,
    });
    let round = round.expect("a round begins");
    let confirmed = Message::Confirmed { term: t, round };
    let out = one.from(TWO, confirmed);
    assert!(out.contains(&Output::ReadReady(ReadId(1))));
}

// The record, and what it says to a start.

fn recovered(one: &Solo, more: &[(Term, SlotRange)]) -> Result<Checkpoint, RecoveryError> {
    let mut recovery = Recovery::new(three());
    for (_, what, checkpoint) in &one.persisted {
        match what {
            Persist::Promise { .. } => recovery.on_checkpoint(checkpoint.clone()),
            Persist::Accept {
                term, slots, value, ..
            } => recovery.on_accept(*term, *slots, value.clone())?,
            Persist::State => unreachable!("nobody sent one"),
        }
    }
    for (term, slots) in more {
        recovery.on_accept(*term, *slots, Value::NoOp)?;
    }
    Ok(recovery.finish())
}

#[test]
fn a_start_knows_what_the_promise_left_open() {
    let mut one = Solo::new(fresh(three()));
    let (t, out) = begin(&mut one, Change::Multiply(2));
    let next = asked(&out)[0].1;
    let end = 12 + 1000;
    let batch = write_and_sync(&mut one, 10, 5);
    let checkpoint = recovered(&one, &[]).unwrap();
    assert_eq!(checkpoint.promised, PromisedTerm(next));
    assert_eq!(
        checkpoint.finishing, None,
        "another life goes on in no term"
    );
    let run = checkpoint.accepted.last().unwrap();
    assert_eq!((run.slots.end, run.term), (batch.end, AcceptedTerm(t)));
    // The records contradict each other if they go beyond that.
    let below = |term| RecoveryError::BelowPromise {
        accepted: term,
        promised: next,
    };
    assert!(recovered(&one, &[(t, slots(17, end))]).is_ok());
    for (term, slots) in [
        (t, slots(17, end + 1)),
        (t, slots(end, end + 1)),
        (term(0, t.number + 1, 2), slots(17, 18)),
    ] {
        assert_eq!(recovered(&one, &[(term, slots)]).err(), Some(below(term)));
    }
    // Once something is accepted in the term that took over, the one before is over.
    let after = [(next, slots(20, 21)), (t, slots(17, 18))];
    assert_eq!(recovered(&one, &after).err(), Some(below(t)));
    // A restarted node leads in a term above both.
    let mut again = Solo::new(checkpoint);
    assert!(again.prepare(Term::default()) > next);
}

#[test]
fn a_segment_that_begins_meanwhile_says_it_too() {
    let mut one = Solo::new(fresh(three()));
    let (_, out) = begin(&mut one, Change::Multiply(2));
    let next = asked(&out)[0].1;
    write_and_sync(&mut one, 10, 5);
    assert!(one.engine.checkpoint().finishing.is_some());
    one.from(THREE, Message::Promise(free(next, 12)));
    assert_eq!(one.engine.checkpoint().finishing, None);
}

// Followers.

/// Follows TWO in its term t of era 0 with slots 0..10 accepted, of which slot 0 doubles all weights.
fn follows() -> (Solo, Term) {
    let mut one = Solo::new(fresh(three()));
    one.alive();
    let t = term(0, 1, 2);
    let change = Action::Reconfigure {
        from: Era(0),
        change: Change::Multiply(2),
        by: paxos::By::Unsaid,
    };
    one.propose_from(TWO, proposal(t, slots(0, 1), action(change), 0));
    one.propose_from(TWO, proposal(t, slots(1, 10), Value::NoOp, 0));
    one.durable();
    (one, t)
}

fn took_over(t: Term, below: u64, chosen: u64) -> Message {
    Message::LeaderStatus {
        term: term(1, 1, 2),
        proposed_up_to: Slot(below + 10),
        chosen_up_to: Slot(chosen),
        finishing: Some(Finishing {
            term: t,
            below: Slot(below),
        }),
    }
}

#[test]
fn a_follower_learns_what_is_finished_in_the_term_before() {
    let (mut one, t) = follows();
    let next = term(1, 1, 2);
    // It knows neither that the era began nor that the term took over.
    let out = one.from(TWO, took_over(t, 10, 4));
    assert_eq!(requested_state(&out), None);
    assert_eq!(one.next(), 4);
    assert_eq!(one.engine.state().era, Era(1));
    one.propose_from(TWO, proposal(next, slots(10, 20), Value::NoOp, 4));
    one.durable();
    let out = one.from(TWO, took_over(t, 10, 15));
    assert_eq!(requested_state(&out), None);
    assert_eq!(
        one.next(),
        15,
        "ten slots in the one term, five in the other"
    );
}

#[test]
fn a_follower_takes_nothing_for_chosen_that_it_accepted_in_other_terms() {
    let (mut one, t) = follows();
    let other = term(0, 2, 2);
    assert!(other > t);
    one.from(TWO, took_over(other, 10, 4));
    assert_eq!(one.next(), 0);
    // Only its owner's earlier terms can be finished.
    one.from(TWO, took_over(term(0, 1, 3), 10, 4));
    assert_eq!(one.next(), 0);
}

#[test]
fn a_proposal_that_comes_before_the_word_of_it_asks_for_no_state() {
    let (mut one, t) = follows();
    let status = Message::LeaderStatus {
        term: t,
        proposed_up_to: Slot(10),
        chosen_up_to: Slot(1),
        finishing: None,
    };
    one.from(TWO, status);
    let next = term(1, 1, 2);
    let out = one.propose_from(TWO, proposal(next, slots(10, 20), Value::NoOp, 8));
    assert_eq!(requested_state(&out), None);
    assert_eq!(one.next(), 1);
    one.from(TWO, took_over(t, 10, 8));
    assert_eq!(one.next(), 8);
}

/// The two come by different connections.
#[test]
fn the_word_of_it_may_overtake_what_is_to_be_finished() {
    let (mut one, t) = follows();
    let next = term(1, 1, 2);
    one.from(TWO, took_over(t, 15, 4));
    let out = one.propose_from(TWO, proposal(t, slots(10, 15), Value::NoOp, 1));
    assert_eq!(persists(&out), 1, "it is accepted: {out:?}");
    let other = term(0, 1, 3);
    let out = one.propose_from(THREE, proposal(other, slots(15, 16), Value::NoOp, 1));
    assert_eq!(persists(&out), 0);
    one.propose_from(TWO, proposal(next, slots(15, 20), Value::NoOp, 4));
    // From here on the term before is over at this replica.
    let out = one.propose_from(TWO, proposal(t, slots(12, 15), Value::NoOp, 1));
    assert_eq!(persists(&out), 0);
    one.durable();
    one.from(TWO, took_over(t, 15, 20));
    assert_eq!(one.next(), 20);
}

#[test]
fn acceptances_in_the_term_before_are_announced_again() {
    let (mut one, t) = follows();
    let next = term(1, 1, 2);
    one.from(TWO, took_over(t, 10, 1));
    one.propose_from(TWO, proposal(next, slots(10, 20), Value::NoOp, 1));
    one.durable();
    one.now += Duration::from_secs(1);
    let out = one.from(TWO, took_over(t, 10, 1));
    let announced: Vec<(Term, SlotRange)> = sent(&out)
        .into_iter()
        .filter_map(|(_, message, _)| match message {
            Message::Accepted { term, slots, .. } => Some((term, slots)),
            _ => None,
        })
        .collect();
    assert_eq!(announced, [(t, slots(1, 10)), (next, slots(10, 20))]);
}

#[test]
fn a_prepare_that_comes_before_its_era_is_answered_when_that_is_known() {
    let (mut one, t) = follows();
    let next = term(1, 1, 2);
    let out = one.from(TWO, Message::Prepare { term: next });
    assert!(ignored(&out, Ignored::EraNotKnown));
    let status = Message::LeaderStatus {
        term: t,
        proposed_up_to: Slot(10),
        chosen_up_to: Slot(3),
        finishing: None,
    };
    let out = one.from(TWO, status);
    let (to, promise, _) = promised(&out).expect("it need not be asked again");
    assert_eq!((to, promise.term, promise.from), (TWO, next, Slot(3)));
}

/// Node 1 prepares a term of its own when it is told of an era in which somebody else's prepare waits for an
/// answer: it gives that one, and no second promise in the same breath.
#[test]
fn who_learns_of_an_era_promises_once() {
    let mut one = Solo::new(fresh(three()));
    one.alive();
    one.prepare(term(0, 1, 3));
    let next = term(1, 7, 2);
    let out = one.from(TWO, Message::Prepare { term: next });
    assert!(ignored(&out, Ignored::EraNotKnown));
    let mut state = three();
    let change = Action::Reconfigure {
        from: Era(0),
        change: Change::Multiply(2),
        by: paxos::By::Unsaid,
    };
    let value = Value::Action(std::sync::Arc::new(change));
    state.apply(slots(0, 1), &value).expect("an outcome");
    let out = one.from(TWO, Message::State(std::sync::Arc::new(state)));
    let is_promise = |what: &Persist| matches!(what, Persist::Promise { .. });
    let raised: Vec<&Persist> = out
        .iter()
        .filter_map(|output| match output {
            Output::Persist { what, .. } if is_promise(what) => Some(what),
            _ => None,
        })
        .collect();
    assert_eq!(raised.len(), 1, "{raised:?}");
    assert_eq!(one.engine.promised(), PromisedTerm(next));
}
