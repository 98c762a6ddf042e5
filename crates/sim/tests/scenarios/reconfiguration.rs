//! Nodes that join and get a vote, in bad moments. Operators' own reconfigurations do not exist yet.

use std::time::Duration;

use paxos::NodeId;

use crate::stage::{LOG, MS, SECOND, Stage};

#[test]
fn a_clients_stream_is_not_cut_while_nodes_join_and_get_their_votes() {
    for seed in 0..5 {
        let mut stage = Stage::new(seed, 3);
        let mut caller = stage.open(0, "append main");
        let mut longest = Duration::ZERO;
        for tick in 0..400 {
            if tick == 20 || tick == 100 {
                stage.add_node();
            }
            let begin = stage.world.now();
            stage.say_and_wait(&mut caller, 500);
            longest = longest.max(stage.world.now() - begin);
            stage.pass(10 * MS);
        }
        stage.wait_whole(3);
        assert!(stage.look().era(0) >= Some(2));
        assert!(!caller.is_over(), "{}", caller.text());
        assert!(longest < SECOND, "a stall of {longest:?}");
        assert!(stage.read_all() == caller.content(0..caller.said));
    }
}

/// A configuration that is not persisted everywhere: nobody may be unable to promise either era.
#[test]
fn the_power_goes_on_all_nodes_in_the_very_step_in_which_an_era_begins() {
    for seed in 0..4 {
        for era in 1..=2 {
            for observer in 0..=era as usize {
                let mut stage = Stage::new(seed, 3);
                let mut caller = stage.open(0, "append main");
                stage.say_and_wait(&mut caller, 2_000);
                stage.add_node();
                stage.add_node();
                // The observer is the first, or the last, to know.
                stage.wait("the era", |look| look.era(observer) >= Some(era));
                for index in 0..3 {
                    stage.cut_power(index);
                }
                stage.pass(100 * MS);
                for index in 0..3 {
                    stage.restart(index);
                }
                stage.wait_whole(3);
                assert!(stage.read_all() == caller.content(0..2_000));
                let leader = stage.leader();
                let mut caller = stage.open(leader, "append main mode=takeover");
                stage.say_and_wait(&mut caller, 1_000);
            }
        }
    }
}

#[test]
fn a_node_that_joins_while_another_is_cut_off_gets_its_vote_when_that_is_safe() {
    for seed in 0..5 {
        let mut stage = Stage::new(seed, 3);
        stage.add_node();
        stage.wait_whole(2);
        let mut caller = stage.open(0, "append main");
        stage.say_and_wait(&mut caller, 1_000);
        stage.wait_whole(2);
        // Both of two members are needed for a change, so there is no change.
        stage.isolate(1);
        stage.add_node();
        stage.pass(5 * SECOND);
        assert_eq!(stage.look().weight(0, NodeId(3)), 0);
        stage.world.heal_all();
        stage.wait_whole(3);
        assert!(stage.read_all() == caller.content(0..1_000));
    }
}

#[test]
fn a_node_back_with_its_old_name_and_an_empty_disk_has_no_vote() {
    let mut stage = Stage::three(1);
    let leader = stage.leader();
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 1_000);
    stage.wait_whole(3);
    // Not the first: it would make a cluster of its own.
    let lost = if leader == 2 { 1 } else { 2 };
    let third = 3 - leader - lost;
    stage.crash(lost);
    stage.world.lose_disk(stage.nodes[lost]);
    stage.restart(lost);
    stage.wait("it to be filled", |look| {
        let joined = look.node(lost).is_some_and(|node| node.id() == NodeId(4));
        joined && look.next(lost) == look.next(leader) && look.missing_bytes(lost) == 0
    });
    assert_eq!(stage.look().weight(leader, NodeId(4)), 0);
    // With it alone nothing is chosen.
    stage.crash(third);
    caller.say(&mut stage.world, 1_000);
    stage.pass(5 * SECOND);
    assert_eq!(caller.acknowledged(), 1_000);
    let refused = stage.call(leader, &format!("append {LOG} mode=takeover"));
    stage.pass(5 * SECOND);
    assert!(!refused.is_open(), "{}", refused.text());
    stage.restart(third);
    stage.wait("two of the three", |look| look.leader().is_some());
    let read = stage.read_all();
    assert!(read.len() >= 1_000 && read == caller.content(0..read.len() as u64));
}
