//! Power that goes and disks that fail, at the worst moments.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::stage::{MS, SECOND, Stage};

#[test]
fn what_was_acknowledged_survives_the_loss_of_power_on_all_nodes_at_the_step_of_the_ack() {
    for seed in 0..6 {
        let mut stage = Stage::three(seed);
        let mut expected = Vec::new();
        for round in 0..5 {
            let leader = stage.leader();
            let mut caller = stage.open(leader, "append main mode=takeover");
            for count in [1, 5_000, 90_000] {
                stage.say_and_wait(&mut caller, count + seed + round);
            }
            // More is under way when the power goes.
            let acknowledged = caller.said;
            caller.say(&mut stage.world, 40_000);
            for index in 0..3 {
                stage.cut_power(index);
            }
            for index in 0..3 {
                stage.restart(index);
            }
            stage.wait_whole(3);
            let read = stage.read_all();
            let kept = (read.len() - expected.len()) as u64;
            assert!(kept >= acknowledged, "{kept} of {acknowledged}");
            expected.extend(caller.content(0..kept));
            assert!(read == expected, "other bytes than were sent");
        }
    }
}

/// The number of segments of each log and each node, by the log's directory.
fn segments(stage: &Stage) -> BTreeMap<PathBuf, usize> {
    let mut segments = BTreeMap::new();
    for node in &stage.nodes {
        for (path, _) in stage.world.disk(*node).files() {
            if path.extension().is_some_and(|extension| extension == "seg") {
                let directory = path.parent().expect("a log's directory").to_owned();
                *segments.entry(directory).or_default() += 1;
            }
        }
    }
    segments
}

/// A log that rested goes on in its last segment: a start costs what changed since the last one. Segments are
/// small here, and a promise in each start fills one now and then.
#[test]
fn nodes_that_start_again_and_again_at_rest_make_a_file_when_one_is_full() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let mut expected = Vec::new();
        for _ in 0..2 {
            let leader = stage.leader();
            let mut caller = stage.open(leader, "append main mode=takeover");
            stage.say_and_wait(&mut caller, 20_000);
            expected.extend(caller.content(0..caller.said));
            stage.wait_whole(3);
            stage.pass(SECOND);
            let mut before = BTreeMap::new();
            for round in 0..12 {
                for index in 0..3 {
                    match round % 3 {
                        0 => stage.cut_power(index),
                        _ => stage.crash(index),
                    }
                    // One after the other, or all at once.
                    if round % 2 == 0 {
                        stage.restart(index);
                        stage.wait_whole(3);
                        stage.pass(SECOND);
                    }
                }
                for index in (0..3).filter(|_| round % 2 == 1) {
                    stage.restart(index);
                }
                stage.wait_whole(3);
                stage.pass(SECOND);
                // The first start says how old what was appended is.
                if round == 0 {
                    before = segments(&stage);
                }
            }
            let starts = 11 * 3;
            for (log, count) in segments(&stage) {
                let more = count - before[&log];
                assert!(more <= starts / 4, "{more} more files in {}", log.display());
            }
            assert!(stage.read_all() == expected, "other bytes than were sent");
        }
    }
}

/// The node that acknowledged and lost power is the only one of the next quorum that knows.
#[test]
fn who_lost_power_right_after_accepting_remembers_it_in_the_next_quorum() {
    for seed in 0..10 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let (witness, absent) = (others[0], others[1]);
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 1_000);
        stage.wait_whole(3);
        stage.isolate(absent);
        stage.say_and_wait(&mut caller, 70_000 + seed);
        stage.cut_power(witness);
        stage.crash(leader);
        stage.world.heal_all();
        stage.pass(100 * MS);
        stage.restart(witness);
        assert!(stage.read_all() == caller.content(0..caller.said));
        stage.wait_whole(2);
    }
}

#[test]
fn a_failed_write_stops_the_replica_until_its_restart_and_nobody_else() {
    let mut stage = Stage::three(1);
    let chain = stage.add_writer(200_000, 2_000, 20 * MS);
    stage.wait("a third of it", |_| chain.borrow().acknowledged > 60_000);
    let leader = stage.leader();
    let disk = stage.world.disk_mut(stage.nodes[leader]);
    disk.faults.broken = true;
    stage.wait("the replica to stop", |look| look.stopped(leader));
    // The next write would succeed. It is not tried.
    stage.world.disk_mut(stage.nodes[leader]).faults.broken = false;
    stage.wait("the others to take it all", |_| chain.borrow().closed);
    assert!(stage.look().stopped(leader));
    assert!(stage.look().leader() != Some(leader));
    stage.crash(leader);
    stage.restart(leader);
    stage.wait_whole(3);
}

#[test]
fn nothing_is_shown_or_acknowledged_before_a_majority_holds_it_durably() {
    let mut stage = Stage::three(2);
    let (leader, others) = stage.roles();
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 100);
    stage.wait_whole(3);
    for index in &others {
        stage.world.hang_disk(stage.nodes[*index]);
    }
    caller.say(&mut stage.world, 5_000);
    // Long enough for the leader's disk and everybody's memory.
    stage.pass(300 * MS);
    assert_eq!(caller.acknowledged(), 100);
    // The followers' disks give nothing at all.
    let reader = stage.call(leader, "read main stale=1");
    stage.wait("the end of the read", |_| reader.is_over());
    assert!(reader.heard() == caller.content(0..100));
    stage.world.release_disk(stage.nodes[others[0]]);
    stage.wait_within(SECOND, "one follower to be enough", |_| caller.has_all());
    assert!(stage.read_all() == caller.content(0..5_100));
}
