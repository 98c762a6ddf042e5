//! Programs of two versions side by side, and the way from one to the next. The newer one differs in
//! its number only: the older truly refuses all that is marked with it.

use std::time::Duration;

use formats::Speaks;

use crate::stage::{MS, SECOND, Stage};

const OLDER: &str = "1";
const NEWER: &str = "1-2";

fn speaks(text: &str) -> Speaks {
    text.parse().expect("it is a range")
}

/// Three nodes of the older program, which have so long to go back once all have the newer one.
fn stage(seed: u64, version_settle: Duration) -> Stage {
    let limits = replica::Limits {
        version_settle,
        ..sim::workload::small_limits()
    };
    let mut stage = Stage::of_program(speaks(OLDER), seed, 3, limits);
    stage.add_node();
    stage.add_node();
    stage.wait_whole(3);
    stage
}

/// Starts the node again, as that program.
fn change_program(stage: &mut Stage, index: usize, program: &str) {
    stage.crash(index);
    stage.pass(200 * MS);
    stage.give_program(index, speaks(program));
    stage.restart(index);
    stage.wait_whole(3);
}

fn wait_for_version(stage: &mut Stage, version: u8) {
    stage.wait("the version to be agreed on", |look| {
        let mut nodes = (0..3).map(|index| look.node(index));
        nodes.all(|node| {
            let versions = node.map(|node| node.versions());
            versions.is_some_and(|v| v.agreed == version && v.disk == version)
        })
    });
}

#[test]
fn nodes_are_upgraded_one_after_the_other_under_appends() {
    for seed in 0..5 {
        let mut stage = stage(seed, SECOND);
        let chain = stage.add_writer(400_000, 1_000, 20 * MS);
        stage.add_reader(&chain, true);
        for index in 0..3 {
            stage.pass(500 * MS);
            assert_eq!(stage.look().version(index), 1, "not before all speak it");
            change_program(&mut stage, index, NEWER);
        }
        wait_for_version(&mut stage, 2);
        stage.wait("the writer to have said it all", |_| {
            chain.borrow().acknowledged == 400_000
        });
        stage.wait_for_readers();
        // The newer program finds again what it wrote.
        for index in 0..3 {
            change_program(&mut stage, index, NEWER);
        }
        wait_for_version(&mut stage, 2);
    }
}

#[test]
fn a_node_goes_back_before_a_version_is_prepared_and_not_after() {
    for seed in 0..5 {
        let mut stage = stage(seed, 5 * SECOND);
        for index in 0..3 {
            change_program(&mut stage, index, NEWER);
        }
        // There was no time yet.
        change_program(&mut stage, 1, OLDER);
        stage.pass(20 * SECOND);
        for index in 0..3 {
            assert_eq!(
                stage.look().version(index),
                1,
                "one of them does not speak more"
            );
        }
        let leader = stage.leader();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 2_000);
        change_program(&mut stage, 1, NEWER);
        wait_for_version(&mut stage, 2);
        for index in 0..3 {
            stage.crash(index);
            stage.give_program(index, speaks(OLDER));
            let node = stage.nodes[index];
            let refused = stage.world.restart(node).unwrap_err().to_string();
            assert!(
                refused.contains("written in version 2")
                    && refused.contains("start a newer program"),
                "{refused}"
            );
            stage.give_program(index, speaks(NEWER));
            stage.restart(index);
            stage.wait_whole(3);
        }
        assert!(stage.read_all() == caller.content(0..2_000));
    }
}

#[test]
fn who_joins_speaks_what_the_cluster_agreed_on() {
    let mut stage = stage(1, SECOND);
    for index in 0..3 {
        change_program(&mut stage, index, NEWER);
    }
    wait_for_version(&mut stage, 2);
    stage.next_program(speaks(OLDER));
    let late = stage.add_node();
    stage.pass(10 * SECOND);
    let id = |stage: &Stage| stage.look().node(late).map_or(0, |node| node.id().0);
    assert_eq!(id(&stage), 0, "it speaks too little");
    let answer = stage.call(
        0,
        "join address=node4:7000 disk=00112233445566778899aabbccddeeff speaks=1",
    );
    stage.wait("an answer", |_| answer.is_over());
    let text = answer.text();
    assert!(text.contains("error version speaks=1-2: "), "{text}");
    assert!(
        text.contains("start the node that joins with a newer program"),
        "{text}"
    );
    stage.crash(late);
    stage.give_program(late, speaks(NEWER));
    stage.restart(late);
    stage.wait("it to join", |look| {
        let node = look.node(late);
        node.is_some_and(|node| node.id().0 == 4 && node.versions().disk == 2)
            && look.next(late) == look.next(0)
    });
}

/// Version 1 has no frame in which a greeting's challenge could be answered. The address of a node with a key counts there
/// all the same.
#[test]
fn a_node_that_moved_is_dialled_there_by_peers_that_speak_version_1() {
    for seed in 0..4 {
        let mut stage = stage(seed, SECOND);
        change_program(&mut stage, 2, NEWER);
        stage.crash(2);
        stage.pass(SECOND);
        stage.move_node(2, "/data", "node3:7001");
        stage.wait_whole(3);
        assert_eq!(stage.look().version(0), 1, "not before all speak more");
    }
}

/// A leader of before the last node came, whose word is chosen later, raises nothing.
#[test]
fn a_node_that_is_silent_is_waited_for() {
    let mut stage = stage(3, SECOND);
    change_program(&mut stage, 0, NEWER);
    change_program(&mut stage, 1, NEWER);
    change_program(&mut stage, 2, NEWER);
    stage.crash(2);
    stage.pass(30 * SECOND);
    for index in 0..2 {
        assert_eq!(
            stage.look().version(index),
            1,
            "nobody knows what it comes back as"
        );
    }
    stage.give_program(2, speaks(OLDER));
    stage.restart(2);
    stage.wait_whole(3);
    stage.pass(5 * SECOND);
    assert_eq!(stage.look().version(0), 1);
    change_program(&mut stage, 2, NEWER);
    wait_for_version(&mut stage, 2);
}
