//! Auxiliary members: when they get proposals, what they count for, and when they may drop bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use paxos::*;

use crate::solo::*;

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const MICROSECOND: Duration = Duration::from_micros(1);

fn marked(node: NodeId) -> LogState {
    let configuration = three().configuration.apply(Change::MarkAuxiliary(node));
    LogState::new(configuration.unwrap())
}

/// Node 1 leads, 2 is the other active member, 3 is auxiliary; a stream is open.
fn leader() -> (Solo, Term) {
    let mut one = Solo::new(fresh(marked(THREE)));
    let t = one.lead();
    one.open_chosen(t, stream(1, 1));
    (one, t)
}

fn status(t: Term, first_unchosen: u64, missing_bytes: u64) -> Message {
    Message::FollowerStatus {
        promised: PromisedTerm(t),
        accepted_term: AcceptedTerm(t),
        accepted_up_to: Slot(first_unchosen),
        first_unchosen: Slot(first_unchosen),
        missing_bytes,
    }
}

/// Bytes that both active members accept.
fn write_chosen(one: &mut Solo, t: Term, count: u64) {
    let state = one.engine.state();
    let position = state.streams.last().unwrap().length.0;
    let slots = one.write(stream(1, 1), position, count, 5);
    one.durable();
    one.accepted(TWO, t, slots, 5);
    assert_eq!(one.next(), slots.end.0);
}

fn pass(one: &mut Solo, time: Duration) -> Vec<Output> {
    one.now += time;
    one.input(Input::Timer)
}

fn releases(out: &[Output]) -> Vec<(NodeId, u32, u64)> {
    let of = |(to, message, _): (NodeId, Message, RecordNumber)| match message {
        Message::Release { era, below } => Some((to, era.0, below.0)),
        _ => None,
    };
    sent(out).into_iter().filter_map(of).collect()
}

fn dropped(out: &[Output]) -> Option<u64> {
    out.iter().find_map(|output| match output {
        Output::Release { below } => Some(below.0),
        _ => None,
    })
}

// Proposals.

#[test]
fn an_auxiliary_at_rest_gets_no_proposals_and_all_when_an_active_member_is_silent() {
    let (mut one, _) = leader();
    assert!(one.engine.wants_proposals(TWO));
    assert!(!one.engine.wants_proposals(THREE));
    assert!(one.engine.wants_proposals(NodeId(9)), "one that is to join");
    one.input(Input::PeerSilent(THREE));
    assert!(!one.engine.is_engaged(), "it holds nothing anyway");
    one.input(Input::PeerAlive(THREE));
    one.input(Input::PeerSilent(TWO));
    assert!(one.engine.wants_proposals(THREE));
}

#[test]
fn auxiliaries_are_engaged_when_nothing_is_chosen_for_a_while() {
    let (mut one, t) = leader();
    pass(&mut one, SECOND);
    assert!(!one.engine.is_engaged(), "nothing is proposed");
    one.write(stream(1, 1), 0, 10, 5);
    let due = one.engine.deadline().unwrap();
    assert!(due <= one.now + Timing::default().engage_after);
    pass(&mut one, Duration::from_micros(99_999));
    assert!(!one.engine.is_engaged());
    // Slots that are chosen meanwhile set the clock back.
    one.durable();
    one.accepted(TWO, t, slots(1, 11), 5);
    one.write(stream(1, 1), 10, 10, 5);
    one.durable();
    pass(&mut one, Duration::from_micros(99_999));
    assert!(!one.engine.is_engaged());
    pass(&mut one, MICROSECOND);
    assert!(one.engine.is_engaged());
}

#[test]
fn what_keeps_all_active_members_waiting_engages_auxiliaries_late() {
    let (mut one, _) = leader();
    one.write(stream(1, 1), 0, 10, 5);
    for _ in 0..99 {
        pass(&mut one, Duration::from_millis(10));
        assert!(!one.engine.is_engaged(), "they wait for one disk, perhaps");
    }
    pass(&mut one, Duration::from_millis(10));
    assert!(one.engine.is_engaged(), "a second is too long");
}

#[test]
fn a_member_that_is_left_behind_after_a_common_stall_is_stood_in_for() {
    for heard in [1, 7, 40] {
        let (mut one, t) = leader();
        let written = one.write(stream(1, 1), 0, 10, 5);
        for _ in 0..240 / heard {
            pass(&mut one, Duration::from_millis(heard));
        }
        // It ends. This disk is the first to say so.
        one.durable();
        assert!(!one.engine.is_engaged());
        pass(&mut one, Duration::from_micros(99_999));
        assert!(!one.engine.is_engaged(), "heard every {heard} ms");
        match heard {
            1 => _ = one.accepted(TWO, t, written, 5),
            _ => _ = pass(&mut one, MICROSECOND),
        }
        assert_eq!(one.engine.is_engaged(), heard != 1);
    }
}

#[test]
fn a_disk_that_goes_on_while_another_hangs_hides_no_stall() {
    let (mut one, _) = leader();
    for at in 0..9 {
        one.write(stream(1, 1), at * 10, 10, 5);
        one.durable();
        assert!(!one.engine.is_engaged());
        pass(&mut one, Duration::from_millis(11));
    }
    one.write(stream(1, 1), 90, 10, 5);
    pass(&mut one, MILLISECOND);
    assert!(
        one.engine.is_engaged(),
        "this disk goes on, and 2 accepts nothing"
    );
}

#[test]
fn auxiliaries_rest_again_once_the_active_members_have_kept_up_for_a_while() {
    let (mut one, t) = leader();
    one.input(Input::PeerSilent(TWO));
    let written = one.write(stream(1, 1), 0, 10, 5);
    one.durable();
    one.accepted(THREE, t, written, 5);
    assert_eq!(one.next(), 11);
    one.input(Input::PeerAlive(TWO));
    pass(&mut one, SECOND * 5);
    assert!(one.engine.is_engaged(), "2 has accepted nothing of that");
    one.from(TWO, status(t, 11, 10));
    pass(&mut one, SECOND - MICROSECOND);
    assert!(one.engine.is_engaged());
    pass(&mut one, MICROSECOND);
    assert!(!one.engine.is_engaged(), "the bytes it lacks come behind");
    let deadline = one.engine.deadline();
    one.input(Input::PeerSilent(TWO));
    assert!(one.engine.is_engaged(), "{deadline:?}");
}

/// Bytes flow: what is proposed is chosen at once, with the auxiliary, and the active member accepts it so much later.
/// The time until the auxiliary rests, if it does within ten seconds.
fn rests_under_load(lag: Duration) -> Option<Duration> {
    let (mut one, t) = leader();
    one.input(Input::PeerSilent(TWO));
    one.input(Input::PeerAlive(TWO));
    assert!(one.engine.is_engaged());
    let begun = one.now;
    let step = Duration::from_millis(10);
    let mut on_the_way = VecDeque::new();
    for number in 0..1000 {
        let written = one.write(stream(1, 1), number * 10, 10, 5);
        one.durable();
        one.accepted(THREE, t, written, 5);
        on_the_way.push_back((one.now + lag, written));
        while let Some((_, slots)) = on_the_way.pop_front_if(|(at, _)| *at <= one.now) {
            one.accepted(TWO, t, slots, 5);
        }
        if !one.engine.is_engaged() {
            return Some(one.now - begun);
        }
        pass(&mut one, step);
    }
    None
}

#[test]
fn auxiliaries_rest_again_while_bytes_flow() {
    let close = rests_under_load(Duration::from_millis(60)).expect("it keeps up");
    assert!(close >= SECOND && close <= SECOND * 11 / 10, "{close:?}");
    // It would stall the log, and the auxiliary be engaged again.
    assert_eq!(rests_under_load(Duration::from_millis(300)), None);
}

#[test]
fn a_leader_that_is_deposed_forgets_whom_it_engaged() {
    let (mut one, _) = leader();
    one.input(Input::PeerSilent(TWO));
    assert!(one.engine.is_engaged());
    let later = term(0, 9, 2);
    one.propose_from(TWO, proposal(later, slots(1, 2), Value::NoOp, 0));
    assert!(!one.engine.is_engaged());
}

// Choosing.

#[test]
fn an_auxiliary_counts_for_what_it_accepted_and_for_nothing_else() {
    let (mut one, t) = leader();
    one.input(Input::PeerSilent(TWO));
    let written = one.write(stream(1, 1), 0, 10, 5);
    one.durable();
    assert_eq!(one.next(), 1);
    one.from(THREE, status(t, 1, u64::MAX));
    assert_eq!(one.next(), 1);
    one.accepted(THREE, t, written, 6);
    assert_eq!(one.next(), 1, "other bytes");
    one.accepted(THREE, t, written, 5);
    assert_eq!(one.next(), 11);
}

#[test]
fn an_auxiliary_at_rest_is_level_when_it_knows_what_is_chosen() {
    let (mut one, t) = leader();
    write_chosen(&mut one, t, 10);
    one.from(THREE, status(t, 1, u64::MAX));
    assert!(!one.engine.is_level(THREE));
    one.write(stream(1, 1), 10, 10, 5);
    one.from(THREE, status(t, 11, u64::MAX));
    assert!(one.engine.is_level(THREE), "whatever is proposed");
    assert_eq!(one.engine.peer_missing_bytes(THREE), None);
    one.input(Input::PeerSilent(TWO));
    assert!(!one.engine.is_level(THREE), "engaged it is to accept it");
    one.accepted(THREE, t, slots(11, 21), 5);
    assert!(one.engine.is_level(THREE), "bytes are not asked of it");
    let above = Message::FollowerStatus {
        promised: PromisedTerm(term(0, t.number + 1, 2)),
        accepted_term: AcceptedTerm(t),
        accepted_up_to: Slot(11),
        first_unchosen: Slot(11),
        missing_bytes: u64::MAX,
    };
    one.from(THREE, above);
    assert!(!one.engine.is_level(THREE), "its promise is above the term");
}

// Learning.

#[test]
fn an_auxiliary_learns_values_by_state_once_in_a_while() {
    let mut one = Solo::new(fresh(marked(ME)));
    one.alive();
    let t = term(0, 3, 2);
    let told = |chosen: u64| Message::LeaderStatus {
        term: t,
        proposed_up_to: Slot(chosen),
        chosen_up_to: Slot(chosen),
        finishing: None,
    };
    let mut state = marked(ME);
    state.apply(slots(0, 1), &action(open(stream(2, 1))));
    let begin = one.now;
    let mut asked = Vec::new();
    let mut chosen = 1;
    while one.now < begin + SECOND * 10 {
        state.apply(slots(chosen, chosen + 100), &content(stream(2, 1), 1));
        chosen += 100;
        let mut out = one.from(TWO, told(chosen));
        one.now += Duration::from_millis(50);
        out.extend(one.input(Input::Timer));
        if let Some(from) = requested_state(&out) {
            assert_eq!(from, TWO);
            asked.push(one.now);
            one.from(TWO, Message::State(Arc::new(state.clone())));
            assert_eq!(one.next(), chosen);
        }
    }
    assert!((8..=10).contains(&asked.len()), "{asked:?}");
    let out = one.propose_from(
        TWO,
        proposal(
            t,
            slots(chosen + 10, chosen + 20),
            content(stream(2, 1), 1),
            chosen,
        ),
    );
    assert!(matches!(
        sent(&out).last(),
        Some((TWO, Message::Accepted { .. }, _))
    ));
}

// Release.

#[test]
fn bytes_are_released_once_every_active_member_says_that_it_holds_them() {
    let (mut one, t) = leader();
    write_chosen(&mut one, t, 10);
    assert!(
        releases(&pass(&mut one, SECOND)).is_empty(),
        "2 has not said so"
    );
    one.from(TWO, status(t, 11, 3));
    assert!(releases(&pass(&mut one, SECOND)).is_empty(), "2 lacks some");
    one.from(TWO, status(t, 6, 0));
    assert_eq!(releases(&pass(&mut one, SECOND)), [(THREE, 0, 6)]);
    one.from(TWO, status(t, 11, 0));
    assert!(
        releases(&pass(&mut one, SECOND - MICROSECOND)).is_empty(),
        "not so soon"
    );
    assert_eq!(releases(&pass(&mut one, MICROSECOND)), [(THREE, 0, 11)]);
    assert_eq!(
        releases(&pass(&mut one, SECOND)),
        [(THREE, 0, 11)],
        "until it is answered"
    );
    let (era, below) = (Era(0), Slot(8));
    one.from(THREE, Message::Released { era, below });
    assert_eq!(
        releases(&pass(&mut one, SECOND)),
        [(THREE, 0, 11)],
        "it knew less"
    );
    one.from(
        THREE,
        Message::Released {
            era,
            below: Slot(11),
        },
    );
    assert!(releases(&pass(&mut one, SECOND)).is_empty());
    assert_eq!(one.engine.deadline(), None, "an idle log wants no time");
}

#[test]
fn what_a_member_held_is_asked_of_it_again_when_it_comes_back_and_by_each_new_leader() {
    let (mut one, t) = leader();
    write_chosen(&mut one, t, 10);
    one.from(TWO, status(t, 11, 0));
    assert_eq!(one.engine.holds_below(TWO), Some(Slot(11)));
    one.input(Input::PeerSilent(TWO));
    one.input(Input::PeerAlive(TWO));
    assert_eq!(
        one.engine.holds_below(TWO),
        Some(Slot(0)),
        "it may have restarted"
    );
    one.from(TWO, status(t, 11, 0));
    assert_eq!(one.engine.holds_below(TWO), Some(Slot(11)));
    // The follower tells its losses under another leader to that leader.
    one.input(Input::StepDown);
    let again = one.lead();
    assert!(again > t);
    assert_eq!(one.engine.holds_below(TWO), Some(Slot(0)));
    assert!(releases(&pass(&mut one, SECOND)).is_empty());
    one.from(TWO, status(again, 11, 0));
    assert_eq!(releases(&pass(&mut one, SECOND)), [(THREE, 0, 11)]);
}

#[test]
fn a_leader_holds_only_what_is_durable_on_its_own_disk() {
    let (mut one, t) = leader();
    one.input(Input::PeerSilent(TWO));
    one.input(Input::PeerAlive(TWO));
    let written = one.write(stream(1, 1), 0, 10, 5);
    one.accepted(TWO, t, written, 5);
    one.accepted(THREE, t, written, 5);
    assert_eq!(one.next(), 11, "two others are a quorum");
    one.from(TWO, status(t, 11, 0));
    assert_eq!(releases(&pass(&mut one, SECOND)), [(THREE, 0, 1)]);
    one.durable();
    assert_eq!(releases(&pass(&mut one, SECOND)), [(THREE, 0, 11)]);
    write_chosen(&mut one, t, 10);
    one.from(TWO, status(t, 21, 0));
    one.input(Input::MissingBytes(1));
    assert!(
        releases(&pass(&mut one, SECOND)).is_empty(),
        "its disk lost a byte"
    );
}

/// ‡ In an earlier era the member may have been auxiliary, and have dropped since what it held.
#[test]
fn what_a_member_said_in_an_earlier_era_does_not_count() {
    let (mut one, t) = leader();
    write_chosen(&mut one, t, 10);
    one.from(TWO, status(t, 11, 0));
    let from = Era(0);
    let change = Change::Multiply(2);
    one.propose(Action::Reconfigure {
        from,
        change,
        by: paxos::By::Unsaid,
    })
    .unwrap();
    one.durable();
    let out = one.accepted(TWO, t, slots(11, 12), 0);
    assert_eq!(one.engine.state().era, Era(1));
    let t = prepared(&out).expect("a new era wants a new term");
    one.durable();
    one.from(TWO, Message::Promise(free(t, 12)));
    assert_eq!(one.engine.role(), Role::Leader { term: t });
    assert_eq!(one.engine.holds_below(TWO), None);
    assert!(releases(&pass(&mut one, SECOND)).is_empty());
    let out = one.from(TWO, status(t, 12, 0));
    assert_eq!(one.engine.holds_below(TWO), Some(Slot(12)));
    assert_eq!(releases(&out), [(THREE, 1, 12)]);
}

#[test]
fn nothing_is_released_to_active_members_that_are_no_quorum() {
    let member = |node, auxiliary| Member {
        node,
        weight: 1,
        auxiliary,
    };
    let two = Configuration::new([member(ME, false), member(THREE, true)]).unwrap();
    let mut one = Solo::new(fresh(LogState::new(two)));
    one.alive();
    one.timer();
    let offer = Message::OfferVote {
        promised: PromisedTerm::default(),
        missing_bytes: true,
    };
    let t = prepared(&one.from(THREE, offer)).expect("prepares");
    one.durable();
    one.from(THREE, Message::Promise(free(t, 0)));
    one.propose(open(stream(1, 1))).unwrap();
    one.durable();
    one.accepted(THREE, t, slots(0, 1), 0);
    assert_eq!(one.next(), 1);
    assert!(
        releases(&pass(&mut one, SECOND)).is_empty(),
        "one copy is less than a quorum has"
    );
}

/// Node 1 is auxiliary and follows 2; bytes 0..10 are chosen, 10..20 accepted.
fn auxiliary() -> Solo {
    let mut one = Solo::new(fresh(marked(ME)));
    one.alive();
    let t = term(0, 3, 2);
    one.propose_from(TWO, proposal(t, slots(0, 1), action(open(stream(2, 1))), 0));
    one.propose_from(TWO, proposal(t, slots(1, 21), content(stream(2, 1), 1), 11));
    one.durable();
    assert_eq!(one.next(), 11);
    one
}

fn release(era: u32, below: u64) -> Message {
    Message::Release {
        era: Era(era),
        below: Slot(below),
    }
}

#[test]
fn an_auxiliary_drops_only_what_its_disk_says_is_chosen_and_no_accepted_byte() {
    let mut one = auxiliary();
    let out = one.from(TWO, release(0, 900));
    assert_eq!(
        dropped(&out),
        None,
        "first it is on disk that all below is chosen"
    );
    assert!(sent(&out).is_empty());
    assert!(
        matches!(one.persisted.last(), Some((_, Persist::State, c)) if c.state.next == Slot(11))
    );
    let out = one.durable();
    assert_eq!(dropped(&out), Some(11), "no further than it knows");
    let released = Message::Released {
        era: Era(0),
        below: Slot(11),
    };
    assert_eq!(sent(&out), [(TWO, released, RecordNumber(0))]);
    assert_eq!(
        one.engine.bytes_below(Slot(11)),
        [(stream(2, 1), StreamPosition(10))]
    );
    assert_eq!(
        one.engine.bytes_below(Slot(9)),
        [(stream(2, 1), StreamPosition(8))]
    );
    assert_eq!(
        one.engine.bytes_below(Slot(900)),
        [(stream(2, 1), StreamPosition(10))]
    );
    let records = one.persisted.len();
    assert_eq!(
        dropped(&one.from(TWO, release(0, 5))),
        Some(5),
        "that is on disk already"
    );
    assert_eq!(one.persisted.len(), records);
}

#[test]
fn a_release_of_another_era_or_to_an_active_member_changes_nothing() {
    let mut one = auxiliary();
    let out = one.from(TWO, release(1, 5));
    assert!(ignored(&out, Ignored::Stale) && dropped(&out).is_none());
    let mut active = Solo::new(fresh(marked(THREE)));
    let out = active.from(TWO, release(0, 5));
    assert!(ignored(&out, Ignored::Stale) && dropped(&out).is_none());
}

#[test]
fn a_release_is_void_when_the_era_ends_before_its_record_is_durable() {
    let mut one = auxiliary();
    let t = term(0, 3, 2);
    one.from(TWO, release(0, 11));
    let from = Era(0);
    let change = Change::UnmarkAuxiliary(ME);
    let unmark = action(Action::Reconfigure {
        from,
        change,
        by: paxos::By::Unsaid,
    });
    one.propose_from(TWO, proposal(t, slots(21, 22), unmark, 21));
    let chosen = Slot(22);
    one.from(
        TWO,
        Message::LeaderStatus {
            term: t,
            proposed_up_to: chosen,
            chosen_up_to: chosen,
            finishing: None,
        },
    );
    assert_eq!(one.engine.state().era, Era(1));
    let out = one.durable();
    assert_eq!(dropped(&out), None);
}

/// ‡ Nobody takes an auxiliary for whole before its node has counted.
#[test]
fn an_auxiliary_says_that_it_holds_nothing_until_it_is_active_and_has_counted() {
    let told = |one: &Solo| match one.engine.follower_status() {
        Message::FollowerStatus { missing_bytes, .. } => missing_bytes,
        _ => unreachable!(),
    };
    let mut one = auxiliary();
    assert_eq!(told(&one), u64::MAX);
    one.input(Input::MissingBytes(0));
    assert_eq!(told(&one), u64::MAX);
    let (from, change) = (Era(0), Change::UnmarkAuxiliary(ME));
    let mut state = one.engine.state().clone();
    state.apply(
        slots(11, 12),
        &action(Action::Reconfigure {
            from,
            change,
            by: paxos::By::Unsaid,
        }),
    );
    one.from(TWO, Message::State(Arc::new(state)));
    assert!(!one.engine.is_auxiliary());
    assert_eq!(told(&one), u64::MAX);
    one.input(Input::MissingBytes(7));
    assert_eq!(told(&one), 7);
    one.input(Input::MissingBytes(0));
    assert_eq!(told(&one), 0);
}

#[test]
fn what_is_chosen_and_not_durable_is_not_spoken_of() {
    let mut one = Solo::new(fresh(marked(THREE)));
    one.alive();
    let t = term(0, 3, 2);
    one.propose_from(TWO, proposal(t, slots(0, 1), action(open(stream(2, 1))), 0));
    one.durable();
    one.propose_from(TWO, proposal(t, slots(1, 21), content(stream(2, 1), 1), 11));
    assert_eq!(one.next(), 11);
    let held = |one: &Solo| match one.engine.follower_status() {
        Message::FollowerStatus {
            first_unchosen,
            accepted_up_to,
            missing_bytes: 0,
            ..
        } => (first_unchosen.0, accepted_up_to.0),
        _ => unreachable!(),
    };
    assert_eq!(held(&one), (1, 1), "as if it knew no more chosen");
    one.durable();
    assert_eq!(held(&one), (11, 21));
}

// A new split.

#[test]
fn a_member_is_spared_once_others_that_are_a_quorum_hold_everything() {
    let mut one = Solo::new(fresh(marked(TWO)));
    let t = one.lead();
    one.open_chosen(t, stream(1, 1));
    let written = one.write(stream(1, 1), 0, 10, 5);
    one.durable();
    one.accepted(THREE, t, written, 5);
    let unmark = Action::Reconfigure {
        from: Era(0),
        change: Change::UnmarkAuxiliary(TWO),
        by: paxos::By::Unsaid,
    };
    // 3 is active and goes; 2 is to take its place.
    one.input(Input::PeerSilent(THREE));
    one.propose(unmark).unwrap();
    one.durable();
    one.accepted(TWO, t, slots(11, 12), 0);
    assert_eq!(one.engine.state().era, Era(1));
    one.durable();
    assert!(
        !one.engine
            .bytes_stand_without(THREE, one.engine.first_unchosen())
    );
    one.from(TWO, status(t, 12, 4));
    assert!(
        !one.engine
            .bytes_stand_without(THREE, one.engine.first_unchosen()),
        "2 lacks some"
    );
    one.from(TWO, status(t, 12, 0));
    assert!(
        one.engine
            .bytes_stand_without(THREE, one.engine.first_unchosen())
    );
    assert!(
        !one.engine
            .bytes_stand_without(ME, one.engine.first_unchosen()),
        "of 3 nothing is known in this era"
    );
}
