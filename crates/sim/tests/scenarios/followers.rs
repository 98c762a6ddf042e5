//! Reads of nodes that follow.

use formats::Speaks;

use crate::caller::Caller;
use crate::stage::{MS, SECOND, Stage};

fn answer(stage: &mut Stage, index: usize, request: &str) -> String {
    let caller = stage.call(index, request);
    stage.wait("an answer", |_| caller.is_over());
    caller.text()
}

/// A leader, a follower, and what a writer at the leader has acknowledged.
fn written(stage: &mut Stage, count: u64) -> (usize, usize, Caller) {
    let (leader, followers) = stage.roles();
    let mut writer = stage.open(leader, "append main");
    stage.say_and_wait(&mut writer, count);
    (leader, followers[0], writer)
}

#[test]
fn a_follower_shows_what_was_acknowledged_at_its_leader_a_moment_ago() {
    for seed in 0..10 {
        let mut stage = Stage::three(seed);
        let (_, follower, mut writer) = written(&mut stage, 1_000);
        for _ in 0..5 {
            stage.say_and_wait(&mut writer, 100);
            let reader = stage.call(follower, "read main");
            stage.wait("its end", |_| reader.is_over());
            assert_eq!(reader.heard(), writer.content(0..writer.said));
            let streams = answer(&mut stage, follower, "streams main");
            let length = format!("\"length\":{}", writer.said);
            assert!(streams.contains(&length), "{streams}");
        }
        let status = answer(&mut stage, follower, "status fresh=1");
        assert!(status.starts_with("ok {"), "{status}");
    }
}

/// The round trip to the leader is all that it costs.
#[test]
fn a_read_of_a_follower_waits_for_no_heartbeat() {
    let mut stage = Stage::three(3);
    let (_, follower, _writer) = written(&mut stage, 1_000);
    stage.pass(SECOND);
    let begun = stage.world.now();
    answer(&mut stage, follower, "streams main");
    let took = stage.world.now() - begun;
    assert!(took < 30 * MS, "{took:?}");
}

/// The old leader does not know that there is another, and neither does who follows it.
#[test]
fn on_the_side_of_a_deposed_leader_no_follower_answers() {
    for seed in 0..10 {
        let mut stage = Stage::new(seed, 5);
        for _ in 1..5 {
            stage.add_node();
        }
        stage.wait_whole(5);
        let (leader, follower, _writer) = written(&mut stage, 1_000);
        for node in (0..5).filter(|node| ![leader, follower].contains(node)) {
            stage.cut_both(leader, node);
            stage.cut_both(follower, node);
        }
        for request in ["read main", "streams main", "status fresh=1"] {
            let caller = stage.call(follower, request);
            stage.pass(200 * MS);
            assert!(!caller.text().contains("ok "), "{}", caller.text());
            stage.wait("its end", |_| caller.is_over());
            let text = caller.text();
            assert!(text.starts_with("error not-leader"), "{request}: {text}");
        }
    }
}

#[test]
fn who_follows_at_a_follower_stays_over_a_change_of_leader_and_leaves_one_that_is_cut_off() {
    let mut stage = Stage::three(5);
    let (leader, follower, _writer) = written(&mut stage, 1_000);
    let reader = stage.call(follower, "read main follow=1 format=framed");
    let text = |reader: &Caller| String::from_utf8_lossy(&reader.heard()).into_owned();
    stage.wait("the bytes", |_| text(&reader).contains("\ndata 0 1000 "));
    stage.crash(leader);
    stage.wait("another leader", |look| {
        look.leader().is_some_and(|new| new != leader)
    });
    stage.pass(3 * SECOND);
    assert!(!reader.is_over(), "{}", text(&reader));
    stage.restart(leader);
    stage.wait_whole(3);
    let follower_leads = stage.look().leader() == Some(follower);
    stage.isolate(follower);
    stage.wait("its end", |_| reader.is_over());
    let said = text(&reader);
    assert!(
        said.contains("\nerror not-leader"),
        "{follower_leads}: {said}"
    );
}

#[test]
fn a_follower_does_not_ask_a_leader_of_an_older_program() {
    let limits = replica::Limits {
        version_settle: 1_000 * SECOND,
        ..sim::workload::small_limits()
    };
    let program = |text: &str| text.parse::<Speaks>().expect("it is a range");
    let mut stage = Stage::of_program(program("1"), 7, 3, limits);
    stage.add_node();
    stage.add_node();
    stage.wait_whole(3);
    let (leader, follower, _writer) = written(&mut stage, 100);
    stage.crash(follower);
    stage.give_program(follower, program("1-2"));
    stage.restart(follower);
    stage.wait_whole(3);
    assert_eq!(stage.leader(), leader);
    let text = answer(&mut stage, follower, "read main");
    assert!(text.starts_with("error not-leader leader="), "{text}");
    let text = answer(&mut stage, follower, "status fresh=1");
    assert!(text.starts_with("error not-leader"), "{text}");
    let text = answer(&mut stage, leader, "status fresh=1");
    assert!(text.starts_with("ok "), "{text}");
}
