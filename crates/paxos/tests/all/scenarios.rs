//! Failures of other systems, where one engine is enough to show them. docs/scenarios.md has the list.

use paxos::*;

use crate::solo::*;

/// Another system's server proposed in its ballot again after a restart, without a phase 1: what
/// it had accepted before, and what the others had chosen, was decided differently.
#[test]
fn a_restarted_leader_proposes_nothing_without_a_phase_one_and_then_what_it_accepted() {
    let used = term(0, 1, 1);
    let accepted = action(open(stream(1, 1)));
    let mut checkpoint = fresh(three());
    checkpoint.promised = PromisedTerm(used);
    checkpoint.accepted = vec![AcceptedRun {
        slots: slots(0, 1),
        term: AcceptedTerm(used),
        value: accepted.clone(),
    }];
    let mut one = Solo::new(checkpoint);
    assert!(one.propose(Action::GenerateNodeId).is_err());
    let t = one.prepare(Term::default());
    assert!(t > used);
    assert!(one.propose(Action::GenerateNodeId).is_err());
    assert!(replicated(&one.durable()).is_empty());
    let out = one.from(TWO, Message::Promise(free(t, 0)));
    let again = replicated(&out);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].term, t);
    assert_eq!((again[0].slots, &again[0].value), (slots(0, 1), &accepted));
    // Its own news comes after it.
    assert_eq!(one.propose(Action::GenerateNodeId), Ok(Slot(1)));
}

/// In the same system a proposer took the first accepted value it was told of, not that of the
/// highest term, and so undid what the others had chosen.
#[test]
fn what_the_others_chose_is_proposed_again_whoever_answers_first() {
    let nodes = [ME, TWO, THREE, NodeId(4), NodeId(5)];
    let chosen = action(open(stream(3, 1)));
    let older = action(open(stream(2, 1)));
    for order in [[TWO, THREE], [THREE, TWO]] {
        let state = LogState::new(Configuration::equal(nodes).expect("five nodes"));
        let mut one = Solo::new(fresh(state));
        for node in &nodes[1..] {
            one.input(Input::PeerAlive(*node));
        }
        one.timer();
        let mut prepared_in = None;
        for node in [TWO, THREE] {
            let offer = Message::OfferVote {
                promised: PromisedTerm(term(0, 2, 3)),
                missing_bytes: false,
            };
            prepared_in = prepared_in.or(prepared(&one.from(node, offer)));
        }
        let t = prepared_in.expect("three of five offered");
        one.durable();
        let mut out = Vec::new();
        for node in order {
            let (accepted_in, value) = match node {
                TWO => (term(0, 1, 2), &older),
                _ => (term(0, 2, 3), &chosen),
            };
            let runs = [(slots(0, 1), accepted_in, value.clone())];
            out = one.from(node, Message::Promise(bound(t, 0, &runs)));
        }
        let again = replicated(&out);
        assert_eq!(again[0].slots, slots(0, 1));
        assert_eq!(again[0].value, chosen);
    }
}

/// The budget of a stable leader: to each follower the proposal, from each follower its acceptance.
#[test]
fn a_decree_costs_one_message_to_each_follower_and_one_back() {
    let decrees = 50;
    let mut leader = Solo::new(fresh(three()));
    let t = leader.lead();
    let mut out = Vec::new();
    for slot in 0..decrees {
        leader.propose(Action::GenerateNodeId).expect("it leads");
        out.extend(leader.input(Input::PeerAlive(TWO)));
        out.extend(leader.durable());
        for node in [TWO, THREE] {
            out.extend(leader.accepted(node, t, slots(slot, slot + 1), 0));
        }
    }
    assert_eq!(leader.next(), decrees);
    let said: Vec<_> = sent(&out);
    assert!(said.is_empty(), "besides the proposals: {said:?}");

    let mut follower = Solo::new(fresh(three()));
    follower.input(Input::PeerAlive(TWO));
    let t = term(0, 1, 2);
    let mut said = Vec::new();
    for slot in 0..decrees {
        let value = action(Action::GenerateNodeId);
        let decree = proposal(t, slots(slot, slot + 1), value, slot);
        said.extend(sent(&follower.propose_from(TWO, decree)));
        said.extend(sent(&follower.durable()));
    }
    assert_eq!(said.len() as u64, decrees, "{said:?}");
    assert!(said.iter().all(|(to, ..)| *to == TWO));
}

/// Another system took the promise of a node for its acceptance.
#[test]
fn who_promised_a_term_is_not_taken_for_having_accepted_in_it() {
    let mut one = Solo::new(fresh(three()));
    let t = one.lead();
    for _ in 0..3 {
        one.propose(Action::GenerateNodeId).expect("it leads");
    }
    one.durable();
    let status = |accepted_term, accepted_up_to| Message::FollowerStatus {
        promised: PromisedTerm(t),
        accepted_term: AcceptedTerm(accepted_term),
        accepted_up_to: Slot(accepted_up_to),
        first_unchosen: Slot(0),
        missing_bytes: 0,
    };
    // The others chose these slots meanwhile: the status alone decides to whom they need not be sent.
    for slot in 0..3 {
        one.accepted(THREE, t, slots(slot, slot + 1), 0);
    }
    assert_eq!(one.next(), 3);
    one.from(TWO, status(term(0, 0, 2), 3));
    assert!(!one.engine.is_level(TWO), "it accepted other values there");
    assert_eq!(one.engine.peer_accepted_up_to(TWO), None);
    one.from(TWO, status(t, 3));
    assert_eq!(one.engine.peer_accepted_up_to(TWO), Some(Slot(3)));
}

/// Another system's counter of acknowledged bytes had 32 bits.
#[test]
fn a_stream_of_more_than_four_gib_is_counted_to_the_byte() {
    const BATCH: u64 = 1 << 30;
    let mut one = Solo::with_window(fresh(three()), 16 << 30);
    let t = one.lead();
    let name = stream(1, 1);
    let opened = one.open_chosen(t, name).0;
    let mut length = 0;
    for count in [BATCH, BATCH, BATCH, BATCH, BATCH, 1, BATCH] {
        one.write(name, length, count, 7);
        length += count;
    }
    // All of the stream is unchosen, and then all at once chosen.
    let proposed = one.engine.permit().expect("there is room").next;
    assert_eq!(proposed, Slot(opened + 1 + length));
    one.durable();
    let mut at = opened + 1;
    for count in [BATCH, BATCH, BATCH, BATCH, BATCH, 1, BATCH] {
        one.accepted(TWO, t, slots(at, at + count), 7);
        at += count;
    }
    assert_eq!(one.next(), opened + 1 + length);
    let state = one.engine.state();
    let output = state.streams.iter().find(|stream| stream.name == name);
    assert_eq!(
        output.map(|stream| stream.length),
        Some(StreamPosition(length))
    );
    let close = Action::CloseStream {
        stream: name,
        at: StreamPosition(length),
    };
    let slot = one.propose(close).expect("it leads");
    one.durable();
    one.accepted(TWO, t, slots(slot.0, slot.0 + 1), 0);
    let state = one.engine.state();
    let output = state.streams.iter().find(|stream| stream.name == name);
    assert_eq!(output.map(|stream| stream.end), Some(StreamEnd::Closed));
}

#[test]
fn terms_are_ordered_by_era_then_number_then_owner() {
    let ascending = [
        term(0, 0, 1),
        term(0, 0, 2),
        term(0, 1, 1),
        term(0, u32::MAX, 1),
        term(0, u32::MAX, u32::MAX),
        term(1, 0, 1),
        term(1, 1, 0),
    ];
    assert!(ascending.is_sorted_by(|a, b| a < b));
    assert!(ascending.is_sorted_by(|a, b| PromisedTerm(*a) < PromisedTerm(*b)));
    assert!(ascending.is_sorted_by(|a, b| AcceptedTerm(*a) < AcceptedTerm(*b)));
}

#[test]
fn a_range_of_slots_holds_its_start_and_not_its_end() {
    let range = slots(5, 8);
    assert_eq!(range.len(), 3);
    let inside: Vec<u64> = (0..10).filter(|slot| range.contains(Slot(*slot))).collect();
    assert_eq!(inside, [5, 6, 7]);
    for nothing in [slots(5, 5), slots(8, 5)] {
        assert!(nothing.is_empty());
        assert_eq!(nothing.len(), 0);
        assert!(!nothing.contains(Slot(5)));
    }
    assert_eq!(slots(0, u64::MAX).len(), u64::MAX);
}
