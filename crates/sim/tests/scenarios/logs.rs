//! Logs come and go, and the directory that lists them stays short.

use std::time::Duration;

use formats::LogId;
use node::directory::DIRECTORY_NAME;
use paxos::Role;

use crate::stage::{LOG, MS, SECOND, Stage, done};

fn created(stage: &mut Stage, request: &str) -> LogId {
    let answer = done(stage, request);
    let id = answer.strip_prefix("ok {\"id\":").expect(&answer);
    LogId(id.split(',').next().unwrap().parse().unwrap())
}

fn hosts(stage: &Stage, index: usize, log: &str) -> bool {
    stage.look().view_of(index, log).is_some()
}

/// Files of that log on a node's disk, also those that were put aside.
fn files(stage: &Stage, index: usize, log: LogId) -> usize {
    let directory = format!("/data/log-{}", log.0);
    let files = stage.world.disk(stage.nodes[index]).files();
    let below = files.iter().filter(|(path, _)| {
        let path = path.to_string_lossy();
        path.strip_prefix(&directory)
            .is_some_and(|rest| rest.starts_with(['/', '.']))
    });
    below.count()
}

#[test]
fn a_deleted_log_is_gone_everywhere_also_on_a_node_that_was_away() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let id = created(&mut stage, "create-log extra");
        stage.wait("replicas", |look| {
            (0..3).all(|index| look.view_of(index, "extra").is_some())
        });
        let answer = done(&mut stage, "append extra mode=takeover");
        assert!(answer.starts_with("stream "), "{answer}");
        let away = (stage.leader() + 1) % 3;
        stage.crash(away);
        let answer = done(&mut stage, "delete-log extra");
        assert_eq!(
            answer,
            format!("ok {{\"id\":{},\"name\":\"extra\"}}\n", id.0)
        );
        for request in [
            "delete-log extra",
            "show-log extra",
            "append extra",
            "read extra",
        ] {
            let answer = done(&mut stage, request);
            assert!(answer.starts_with("error unknown-log"), "{answer}");
        }
        assert!(files(&stage, away, id) > 0, "it has not heard of it");
        stage.restart(away);
        stage.wait("the others to hear of it", |look| {
            (0..3).all(|index| look.view_of(index, "extra").is_none())
        });
        stage.pass(2 * SECOND);
        for index in 0..3 {
            assert_eq!(files(&stage, index, id), 0, "node {}", index + 1);
        }
        // The name is free, the number is not.
        let next = created(&mut stage, "create-log extra");
        assert!(next > id);
        for index in 0..3 {
            stage.cut_power(index);
            stage.restart(index);
        }
        stage.wait("the new one", |look| {
            (0..3).all(|index| look.view_of(index, "extra").is_some_and(|v| v.id == next))
        });
    }
}

/// At every moment of it: what is half removed is no lost disk, and does not come back.
#[test]
fn power_loss_in_the_middle_of_a_deletion_is_harmless() {
    for moment in 0..16 {
        let mut stage = Stage::three(moment);
        let id = created(&mut stage, "create-log extra");
        stage.wait("replicas", |look| {
            (0..3).all(|index| look.view_of(index, "extra").is_some())
        });
        let answer = done(&mut stage, "delete-log extra");
        assert!(answer.starts_with("ok "), "{answer}");
        stage.pass(Duration::from_micros(500 * moment));
        for index in 0..3 {
            stage.cut_power(index);
        }
        for index in 0..3 {
            stage.restart(index);
        }
        stage.wait_whole(3);
        stage.wait("nobody to host it", |look| {
            (0..3).all(|index| look.view_of(index, "extra").is_none())
        });
        stage.pass(2 * SECOND);
        for index in 0..3 {
            assert_eq!(files(&stage, index, id), 0, "node {}", index + 1);
        }
    }
}

#[test]
fn a_log_with_members_is_hosted_by_them_alone_and_found_through_all() {
    let mut stage = Stage::three(1);
    let ids: Vec<u32> = (0..3)
        .map(|index| stage.look().node(index).expect("it runs").id().0)
        .collect();
    let refused = done(&mut stage, "create-log some members=1,9");
    assert!(refused.starts_with("error unknown-node"), "{refused}");
    assert!(refused.contains("no node 9"), "{refused}");
    created(
        &mut stage,
        &format!("create-log some members={},{}", ids[1], ids[2]),
    );
    stage.wait("its members", |look| {
        [1, 2]
            .iter()
            .all(|index| look.view_of(*index, "some").is_some())
    });
    let answer = done(&mut stage, "append some");
    assert!(answer.starts_with("stream "), "{answer}");
    assert!(!hosts(&stage, 0, "some"));
    let elsewhere = stage.call(0, "append some");
    stage.wait("an answer", |_| elsewhere.is_over());
    let text = elsewhere.text();
    assert!(text.starts_with("error not-leader leader=node"), "{text}");
    assert!(!text.contains("leader=node1:"), "{text}");
    let shown = done(&mut stage, "show-log some");
    assert!(shown.contains("\"on_all_nodes\":false"), "{shown}");
    stage.pass(2 * SECOND);
    assert!(!hosts(&stage, 0, "some"));
}

/// The directory's leader does not host the log, and cannot know by itself which nodes are needed there.
#[test]
fn a_node_that_leaves_is_kept_until_the_leader_of_each_of_its_logs_needs_it_no_more() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        for _ in 3..6 {
            stage.add_node();
        }
        let id_of = |stage: &Stage, index: usize| stage.look().node(index).expect("it runs").id().0;
        stage.wait("ids", |look| {
            (0..6).all(|index| look.node(index).is_some_and(|node| node.id().0 > 0))
        });
        let ids: Vec<u32> = (0..6).map(|index| id_of(&stage, index)).collect();
        let (a, b, leaves) = (ids[3], ids[4], ids[5]);
        created(
            &mut stage,
            &format!("create-log some members={a},{b},{leaves}"),
        );
        stage.wait("its replicas", |look| {
            (3..6).all(|index| look.view_of(index, "some").is_some())
        });
        // The others alone have the bytes chosen from here on.
        stage.crash(3);
        let answer = done(&mut stage, "append some mode=takeover");
        assert!(answer.starts_with("stream "), "{answer}");
        let answer = done(
            &mut stage,
            &format!("change-members remove {leaves} force=1"),
        );
        assert!(answer.starts_with("ok "), "{answer}");
        let gone = format!("\"removed\":[{leaves}]");
        for _ in 0..20 {
            stage.pass(200 * MS);
            let members = done(&mut stage, "members");
            assert!(!members.contains(&gone), "it is needed: {members}");
            let needed = format!("node {leaves} is kept until the leader of log");
            assert!(members.contains(&needed), "{members}");
        }
        let answer = done(&mut stage, "append some mode=takeover");
        assert!(answer.starts_with("stream "), "{answer}");
        stage.restart(3);
        stage.wait("it to be without the one that leaves", |look| {
            let view = look.view_of(3, "some");
            view.is_some_and(|view| !view.state.configuration.contains(paxos::NodeId(leaves)))
        });
        for _ in 0..200 {
            stage.pass(50 * MS);
            if done(&mut stage, "members").contains(&gone) {
                break;
            }
        }
        let members = done(&mut stage, "members");
        assert!(members.contains(&gone), "{members}");
    }
}

/// Snapshots stand for what came before, at restarts and for nodes that join.
#[test]
fn the_directory_is_as_long_as_what_it_says_and_a_new_node_begins_at_its_snapshot() {
    let mut stage = Stage::three(5);
    let mut last = LogId(0);
    for round in 0..40 {
        last = created(&mut stage, &format!("create-log extra{round} members=1"));
        done(&mut stage, &format!("delete-log extra{round}"));
        if round == 20 {
            let leader = stage.leader();
            stage.crash(leader);
            stage.pass(SECOND);
            stage.restart(leader);
        }
    }
    stage.wait("a short directory", |look| {
        (0..3).all(|index| {
            let view = look.view_of(index, "directory").expect("it runs");
            let streams = view.state.streams.iter();
            let left: u64 = streams.map(|s| s.length.0 - s.trimmed.0).sum();
            view.state.trimmed.0 > 0 && left < 8 << 10
        })
    });
    for index in 0..3 {
        stage.cut_power(index);
        stage.restart(index);
    }
    stage.wait_whole(3);
    let answer = done(&mut stage, "show-log extra7");
    assert!(answer.starts_with("error unknown-log"), "{answer}");
    let new = stage.add_node();
    stage.wait("the new node to host what there is", |look| {
        look.view_of(new, LOG).is_some()
    });
    let next = created(&mut stage, "create-log another");
    assert!(next > last, "{next:?} after {last:?}");
    stage.wait("all to host it", |look| {
        (0..4).all(|index| look.view_of(index, "another").is_some())
    });
}

/// Each written log has a connection to each of its followers.
#[test]
fn logs_at_rest_give_their_connections_back_where_these_are_scarce() {
    const LOGS: usize = 12;
    let open = |stage: &Stage| -> usize {
        let nodes = stage.nodes.iter();
        nodes.map(|node| stage.world.open_connections(*node)).sum()
    };
    for (connections_max, scarce) in [(40, true), (4_000, false)] {
        let limits = replica::Limits {
            connections_max,
            ..sim::workload::small_limits()
        };
        let mut stage = Stage::with_limits(1, 3, limits);
        stage.add_node();
        stage.add_node();
        stage.wait_whole(3);
        let write = |stage: &mut Stage, number: usize| {
            let answer = done(stage, &format!("append extra{number} mode=takeover"));
            assert!(answer.starts_with("stream "), "{answer}");
        };
        for number in 0..LOGS {
            created(&mut stage, &format!("create-log extra{number}"));
            write(&mut stage, number);
        }
        stage.pass(5 * SECOND);
        let before = open(&stage);
        stage.pass(10 * SECOND);
        let after = open(&stage);
        assert_eq!(
            after + 4 * LOGS / 2 < before,
            scarce,
            "{before}, then {after}"
        );
        for number in 0..LOGS {
            write(&mut stage, number);
        }
    }
}

/// The next line of a script appends to it.
#[test]
fn a_created_log_is_answered_once_its_leader_is_known() {
    for seed in 0..10 {
        let mut stage = Stage::three(seed);
        stage.wait_whole(3);
        let directs = (0..3).find(|index| {
            let view = stage.look().view_of(*index, DIRECTORY_NAME).map(|v| v.role);
            matches!(view, Some(Role::Leader { .. }))
        });
        let directs = directs.expect("it is whole");
        let caller = stage.call(directs, "create-log next");
        stage.wait("an answer", |_| caller.is_over());
        assert!(caller.text().starts_with("ok "), "{}", caller.text());
        let look = stage.look();
        let role = look.view_of(directs, "next").expect("it is hosted").role;
        assert!(!matches!(role, Role::Candidate), "seed {seed}");
    }
}
