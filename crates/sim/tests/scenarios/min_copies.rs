//! A log that wants more copies of what it acknowledges than a majority (`min_copies`).

use crate::stage::{SECOND, Stage, done};

fn wants(stage: &mut Stage, copies: u32) {
    let answer = done(stage, &format!("retain main min_copies={copies}"));
    assert!(answer.starts_with("ok "), "{answer}");
}

/// The answer to an append at the leader, once it is open or over.
fn append(stage: &mut Stage, at: usize) -> String {
    let caller = stage.call(at, "append main mode=takeover");
    stage.wait("an answer", |_| caller.is_open() || caller.is_over());
    caller.text()
}

/// The number of disks that lack what was acknowledged last, at the very step of the acknowledgement.
fn lacking(seed: u64, copies: u32) -> usize {
    let mut stage = Stage::three(seed);
    stage.wait_whole(3);
    wants(&mut stage, copies);
    let leader = stage.leader();
    let mut caller = stage.open(leader, "append main");
    for _ in 0..5 {
        stage.say_and_wait(&mut caller, 200);
    }
    for node in 0..3 {
        stage.cut_power(node);
    }
    let last = caller.content(992..1_000);
    let lacking = (0..3).filter(|node| stage.place_of(*node, &last).is_none());
    // Where a record ends among these bytes, no disk has them in a row: two have them for certain.
    match lacking.count() {
        3 => 0,
        lacking => lacking,
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_was_acknowledged_is_on_as_many_disks_as_the_log_wants() {
    let by_majority: usize = (0..8).map(|seed| lacking(seed, 0)).sum();
    assert!(by_majority > 0, "a third disk was never the slowest");
    for seed in 0..8 {
        assert_eq!(lacking(seed, 3), 0, "seed {seed}");
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
fn a_log_whose_copies_are_too_few_refuses_appends_and_can_still_be_changed() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        stage.wait_whole(3);
        wants(&mut stage, 3);
        let (leader, others) = stage.roles();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 1_000);
        stage.crash(others[0]);
        caller.say(&mut stage.world, 1_000);
        stage.wait("the refusal", |_| caller.is_over());
        let text = caller.text();
        assert!(text.contains("error too-few-copies "), "{text}");
        assert_eq!(caller.acknowledged(), 1_000, "seed {seed}");
        let refused = append(&mut stage, leader);
        let said = "error too-few-copies copies=2 wanted=3";
        assert!(refused.starts_with(said), "seed {seed}: {refused}");

        wants(&mut stage, 2);
        let mut fewer = stage.open(leader, "append main mode=takeover");
        stage.say_and_wait(&mut fewer, 1_000);
        wants(&mut stage, 3);
        assert!(append(&mut stage, leader).starts_with(said));

        // Once it has caught up it counts again.
        stage.restart(others[0]);
        stage.wait_whole(3);
        let mut whole = stage.open(leader, "append main mode=takeover");
        stage.say_and_wait(&mut whole, 1_000);
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
fn the_number_of_copies_outlives_restarts_and_its_leader() {
    let mut stage = Stage::three(3);
    stage.wait_whole(3);
    wants(&mut stage, 3);
    for node in 0..3 {
        stage.cut_power(node);
    }
    for node in 0..3 {
        stage.restart(node);
    }
    stage.wait_whole(3);
    let first = stage.leader();
    stage.crash(first);
    stage.pass(5 * SECOND);
    let second = stage.leader();
    let refused = append(&mut stage, second);
    assert!(refused.starts_with("error too-few-copies"), "{refused}");
    let shown = done(&mut stage, "show-log main");
    assert!(shown.contains(r#""min_copies":3"#), "{shown}");
}

/// Its node is there, is heard, and accepts nothing in time: nobody waits for it for ever.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_log_that_waits_for_a_copy_goes_on_after_a_while() {
    let mut stage = Stage::three(5);
    stage.wait_whole(3);
    let four = done(&mut stage, "retain main min_copies=4");
    assert!(four.starts_with("error refused"), "{four}");
    wants(&mut stage, 3);
    let (leader, others) = stage.roles();
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 100);
    stage.world.hang_disk(stage.nodes[others[1]]);
    caller.say(&mut stage.world, 100);
    stage.wait_within(10 * SECOND, "the refusal", |_| caller.is_over());
    let text = caller.text();
    assert!(text.contains("error too-few-copies "), "{text}");
    wants(&mut stage, 0);
    assert!(append(&mut stage, leader).starts_with("stream "));
}

/// It knows less than the leader, and lacks nothing of what it knows.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_voter_that_was_away_is_a_copy_again_once_it_holds_what_was_chosen_meanwhile() {
    let mut early = 0;
    for seed in 0..8 {
        let mut stage = Stage::three(seed);
        stage.wait_whole(3);
        wants(&mut stage, 2);
        let (leader, others) = stage.roles();
        stage.crash(others[0]);
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 2_000_000);
        let stream = caller.stream();
        wants(&mut stage, 3);
        stage.restart(others[0]);
        // The other stands for what it was told: that all below its place has three copies.
        let opened = loop {
            let next = stage.call(leader, "append main mode=takeover");
            stage.wait("an answer", |_| next.is_open() || next.is_over());
            if next.is_open() {
                break next;
            }
        };
        assert!(!opened.is_over());
        let look = stage.look();
        let holds = look.view_of(others[0], "main").is_some_and(|view| {
            let mut streams = view.state.streams.iter();
            let first = streams.find(|found| found.name.to_string() == stream);
            first.is_some_and(|first| view.holds(first.name, 0..2_000_000))
        });
        early += usize::from(!holds);
    }
    assert_eq!(early, 0, "opened before the third copy was there");
}

#[cfg_attr(not(feature = "mutations"), test)]
fn a_log_that_lacks_copies_is_degraded_and_says_so() {
    let mut stage = Stage::three(2);
    stage.wait_whole(3);
    wants(&mut stage, 3);
    stage.pass(5 * SECOND);
    let calm = done(&mut stage, "status");
    assert!(!calm.contains("too-few-copies"), "{calm}");
    let (leader, others) = stage.roles();
    stage.crash(others[0]);
    stage.pass(4 * SECOND);
    let caller = stage.call(leader, "status");
    stage.wait("an answer", |_| caller.is_over());
    let status = caller.text();
    let warned = r#""code":"too-few-copies","state":"degraded","active":true"#;
    assert!(status.contains(warned), "{status}");
    let said = "main wants 3 copies of what it acknowledges, and 2 of its voters";
    assert!(status.contains(said), "{status}");
    assert!(status.contains(r#""min_copies":3,"copies":2"#), "{status}");
    stage.restart(others[0]);
    stage.wait_whole(3);
    stage.pass(12 * SECOND);
    let over = done(&mut stage, "status");
    assert!(!over.contains("too-few-copies"), "{over}");
}
