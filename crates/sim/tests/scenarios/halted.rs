//! A replica that stopped over its disk, in a process that lives: its node is heard, and it takes no part. For its log
//! it is as good as silent, to the other nodes, to clients and to operators.

use formats::Speaks;
use sim::workload::small_limits;

use crate::caller::Caller;
use crate::stage::{SECOND, Stage, done};

/// Has the replica of `main` at these nodes meet a failing write. The next one would succeed.
fn stop_main(stage: &mut Stage, caller: &mut Caller, indices: &[usize]) {
    for index in indices {
        stage.world.disk_mut(stage.nodes[*index]).faults.broken = true;
    }
    caller.say(&mut stage.world, 30_000);
    stage.wait("the replicas to stop", |look| {
        indices.iter().all(|index| look.stopped(*index))
    });
    for index in indices {
        stage.world.disk_mut(stage.nodes[*index]).faults.broken = false;
    }
}

fn ask(stage: &mut Stage, index: usize, request: &str) -> String {
    let caller = stage.call(index, request);
    stage.wait("an answer", |_| caller.is_over());
    caller.text()
}

fn directs(stage: &Stage) -> Option<usize> {
    let look = stage.look();
    (0..stage.nodes.len()).find(|index| {
        let view = look.view_of(*index, node::directory::DIRECTORY_NAME);
        view.is_some_and(|view| matches!(view.role, paxos::Role::Leader { .. }))
    })
}

#[test]
fn a_log_whose_followers_stopped_has_no_leader_and_everybody_says_that_it_is_not_served() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 100_000);
        stop_main(&mut stage, &mut caller, &others);
        stage.wait_within(4 * SECOND, "the leader to step down", |look| {
            look.leader().is_none()
        });
        stage.wait("an answer to the writer", |_| caller.is_over());
        stage.pass(3 * SECOND);
        for index in 0..3 {
            let told = ask(&mut stage, index, "status");
            assert!(told.contains("\"state\":\"unavailable\""), "{told}");
            assert!(told.contains("\"code\":\"replica-stopped\""), "{told}");
        }
        // One that comes back is enough.
        stage.crash(others[0]);
        stage.restart(others[0]);
        stage.wait_within(10 * SECOND, "a leader", |look| look.leader().is_some());
        let now = stage.leader();
        let mut caller = stage.open(now, "append main");
        stage.say_and_wait(&mut caller, 10_000);
        stage.crash(others[1]);
        stage.restart(others[1]);
        stage.wait_whole(3);
    }
}

#[test]
fn one_that_stopped_beside_two_that_are_well_is_a_quorum_at_risk() {
    let mut stage = Stage::three(3);
    let (leader, others) = stage.roles();
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 100_000);
    stop_main(&mut stage, &mut caller, &others[..1]);
    stage.say_and_wait(&mut caller, 10_000);
    stage.pass(3 * SECOND);
    let told = ask(&mut stage, leader, "status");
    assert!(told.contains("\"code\":\"quorum-at-risk\""), "{told}");
    // A process that starts so fast that nobody missed it is heard as a new one.
    stage.crash(others[0]);
    stage.restart(others[0]);
    stage.wait_whole(3);
    stage.pass(15 * SECOND);
    let told = ask(&mut stage, leader, "status");
    assert!(told.contains("\"state\":\"healthy\""), "{told}");
}

#[test]
fn beside_one_that_stopped_one_that_is_full_is_a_full_log() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 100_000);
        stop_main(&mut stage, &mut caller, &others[..1]);
        stage.say_and_wait(&mut caller, 10_000);
        let disk = stage.world.disk_mut(stage.nodes[others[1]]);
        disk.faults.capacity_bytes = disk.used_bytes() + 2_000_000;
        stage.pass(2 * SECOND);
        let answer = ask(&mut stage, leader, "append main mode=takeover");
        assert!(answer.starts_with("error full"), "{answer}");
        let told = ask(&mut stage, leader, "status");
        assert!(told.contains("\"code\":\"disk-full\""), "{told}");
        let disk = stage.world.disk_mut(stage.nodes[others[1]]);
        disk.faults.capacity_bytes = 1 << 40;
        stage.pass(2 * SECOND);
        let now = stage.leader();
        let mut caller = stage.open(now, "append main mode=takeover");
        stage.say_and_wait(&mut caller, 10_000);
    }
}

/// Version 1 has no frame in which a greeting's challenge could be answered. A node that comes back with a key is heard there
/// all the same: for its peers its replica is well again, and it leads them.
#[test]
fn one_that_stopped_and_starts_again_is_well_for_peers_that_speak_version_1() {
    for seed in 0..4 {
        let older: Speaks = "1".parse().expect("it is a range");
        let mut stage = Stage::of_program(older, seed, 3, small_limits());
        stage.add_node();
        stage.next_program(Speaks::THIS);
        let newer = stage.add_node();
        stage.wait_whole(3);
        let leader = stage.leader();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 100_000);
        stop_main(&mut stage, &mut caller, &[newer]);
        stage.pass(SECOND);
        for index in [0, 1] {
            let told = ask(&mut stage, index, "status");
            assert!(told.contains("\"code\":\"replica-stopped\""), "{told}");
        }
        stage.crash(newer);
        stage.restart(newer);
        stage.wait_whole(3);
        let id = stage.look().node(newer).expect("it runs").id();
        let moved = done(&mut stage, &format!("lead main to={id}"));
        assert!(moved.starts_with("ok "), "seed {seed}: {moved}");
        stage.pass(5 * SECOND);
        stage.wait_whole(3);
        assert_eq!(stage.look().leader(), Some(newer), "seed {seed}");
        for index in 0..3 {
            let told = ask(&mut stage, index, "status");
            assert!(told.contains("\"state\":\"healthy\""), "{told}");
        }
    }
}

/// ⟨node, weight⟩ of each, in `members` or `show-log`.
fn weights(text: &str, log: &str) -> Vec<(u64, u64)> {
    let json: serde_json::Value =
        serde_json::from_str(text.strip_prefix("ok ").unwrap_or(text)).expect("an answer");
    let of_log = match json["logs"].as_array() {
        Some(logs) => logs.iter().find(|shown| shown["name"] == log).cloned(),
        None => Some(json),
    };
    let members = of_log.and_then(|log| log["members"].as_array().cloned());
    let members = members.unwrap_or_default();
    let weight =
        |member: &serde_json::Value| Some((member["node"].as_u64()?, member["weight"].as_u64()?));
    members.iter().filter_map(weight).collect()
}

#[test]
fn what_a_replica_knew_when_it_stopped_is_told_nobody_as_the_present() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        stage.add_node();
        stage.pass(2 * SECOND);
        let directs = directs(&stage).expect("somebody leads the directory");
        let leader = stage.leader();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 100_000);
        // If it leads `main`, another does from then on.
        stop_main(&mut stage, &mut caller, &[directs]);
        stage.pass(3 * SECOND);
        let added = done(&mut stage, "change-members add 4 log=main");
        assert!(added.starts_with("ok "), "{added}");
        stage.wait_within(60 * SECOND, "the fourth vote", |look| {
            let leader = look.leader();
            leader.is_some_and(|leader| look.weight(leader, paxos::NodeId(4)) == 1)
        });
        let all = vec![(1, 1), (2, 1), (3, 1), (4, 1)];
        for index in 0..4 {
            let told = ask(&mut stage, index, "show-log main");
            assert_eq!(weights(&told, "main"), all, "node {}", index + 1);
        }
        let told = ask(&mut stage, directs, "members local=1");
        let stale: Vec<(u64, u64)> = weights(&told, "main")
            .into_iter()
            .filter(|(_, weight)| *weight > 0)
            .collect();
        assert_eq!(stale, [], "a replica that stopped knows no weights: {told}");
        let now = stage.leader();
        let told = ask(&mut stage, now, "members local=1");
        assert_eq!(weights(&told, "main"), all, "{told}");
        let told = ask(&mut stage, directs, "status");
        assert!(
            told.contains("\"role\":\"stopped\",\"leader\":null"),
            "{told}"
        );
    }
}
