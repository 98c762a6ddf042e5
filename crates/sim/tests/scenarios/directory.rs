//! Yesterday's words of the directory lose nothing today: a node reads log 0 at its own pace, and no act that
//! cannot be undone depends on how far it came.

use std::collections::BTreeSet;

use node::directory::DIRECTORY_NAME;
use replica::Limits;
use sim::client::SharedChain;
use sim::workload::small_limits;

use crate::caller::Caller;
use crate::stage::{LOG, MS, SECOND, Stage, done};

/// A directory of production length: what was said before is read again at each start.
fn long_directory() -> Limits {
    Limits {
        directory_growth_bytes: Limits::default().directory_growth_bytes,
        ..small_limits()
    }
}

/// Three voters with a long directory.
fn three(seed: u64) -> Stage {
    let mut stage = Stage::with_limits(seed, 3, long_directory());
    stage.add_node();
    stage.add_node();
    stage.wait_whole(3);
    stage
}

/// Asked until it is granted.
fn granted(stage: &mut Stage, request: &str) -> String {
    let answer = done(stage, request);
    assert!(answer.starts_with("ok "), "{request}: {answer}");
    answer
}

/// Says so many commands of which nothing is left but the last one's effect.
pub fn talk(stage: &mut Stage, commands: usize) {
    for round in 0..commands {
        let zone = ["a", "b"][round % 2];
        granted(stage, &format!("change-members zone 1 {zone}"));
    }
}

/// The answer of one node, which has a while to give it. `None` if it says nothing, or cannot now.
fn answer_of(stage: &mut Stage, index: usize, request: &str) -> Option<String> {
    let caller = stage.call(index, request);
    let until = stage.world.now() + 20 * SECOND;
    stage.wait("an answer, or a while", |look| {
        caller.is_over() || caller.is_open() || look.world.now() >= until
    });
    let text = caller.text();
    let later = ["error not-leader", "error no-quorum", "error shutting"];
    let is_answer = !text.is_empty() && !later.iter().any(|word| text.starts_with(word));
    is_answer.then_some(text)
}

/// All at one moment, and back.
fn lose_power(stage: &mut Stage) {
    for index in 0..stage.nodes.len() {
        stage.cut_power(index);
    }
    for index in 0..stage.nodes.len() {
        stage.restart(index);
    }
}

fn slow_disks(stage: &mut Stage, milliseconds: u64) {
    for host in stage.nodes.clone() {
        let read_us = 1_000 * milliseconds..2_000 * milliseconds;
        stage.world.disk_mut(host).model.read_us = read_us;
    }
}

/// 300,000 bytes, and a moment in which the last action of each log becomes known to all.
fn append(stage: &mut Stage) -> SharedChain {
    let chain = stage.add_writer(300_000, 10_000, 5 * MS);
    stage.wait("the writer to have said it all", |_| chain.borrow().closed);
    stage.pass(10 * SECOND);
    chain
}

/// Nothing of it is trimmed.
fn check_all_there(stage: &mut Stage) {
    let table = done(stage, &format!("streams {LOG}"));
    let seed = stage.world.seed();
    assert!(
        table.contains("\"length\":300000,\"trimmed\":0"),
        "seed {seed}: {table}"
    );
}

/// The last command of log 0 is durable everywhere, and perhaps known chosen nowhere: each node stops one
/// short of it when it starts, and `main` may have a leader so before log 0 has one.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_retention_that_was_taken_back_trims_nothing_after_a_start_of_all() {
    for seed in 0..24 {
        let mut stage = three(seed);
        let narrow = ["20kB", "20kB,1s", "1s"][seed as usize % 3];
        granted(&mut stage, &format!("retain {LOG} retention={narrow}"));
        granted(&mut stage, &format!("retain {LOG} retention=forever"));
        append(&mut stage);
        if seed % 2 == 0 {
            slow_disks(&mut stage, 5);
        }
        lose_power(&mut stage);
        stage.wait_whole(3);
        stage.pass(5 * SECOND);
        check_all_there(&mut stage);
        let shown = done(&mut stage, &format!("show-log {LOG}"));
        assert!(shown.contains("\"retention\":\"forever\""), "{shown}");
    }
}

/// Much was said while the narrow one was in force, and the log was empty.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_retention_of_long_ago_trims_nothing_while_log_0_is_replayed() {
    for seed in 0..4 {
        let mut stage = three(seed);
        granted(&mut stage, &format!("retain {LOG} retention=20kB"));
        talk(&mut stage, 200);
        granted(&mut stage, &format!("retain {LOG} retention=forever"));
        append(&mut stage);
        slow_disks(&mut stage, 5);
        lose_power(&mut stage);
        stage.wait_whole(3);
        stage.pass(5 * SECOND);
        check_all_there(&mut stage);
    }
}

/// Two nodes were given votes after much else was said. While log 0 is replayed the wish of yesterday, one
/// vote, takes no vote away.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn weights_of_yesterday_move_nothing_while_log_0_is_replayed() {
    for seed in 0..4 {
        let mut stage = Stage::with_limits(seed, 1, long_directory());
        talk(&mut stage, 200);
        stage.add_node();
        stage.add_node();
        for id in [2, 3] {
            let add = format!("change-members add {id} weight=1 force=1");
            stage.wait("a node to be known", |look| {
                look.node(0)
                    .is_some_and(|node| node.nodes().any(|n| n.0 == id))
            });
            granted(&mut stage, &add);
        }
        stage.wait_whole(3);
        append(&mut stage);
        // Some sixty small records are read at once: the replay is to take a while all the same.
        slow_disks(&mut stage, 200);
        // A node that stands behind the last step, as one that reads it again does, knows an earlier era.
        let eras = |stage: &Stage| -> BTreeSet<(&str, u32)> {
            let of = |log: &'static str| {
                let era = |index| Some(stage.look().view_of(index, log)?.state.era.0);
                (0..3).filter_map(era).max().map(|era| (log, era))
            };
            [LOG, DIRECTORY_NAME].into_iter().filter_map(of).collect()
        };
        let before = eras(&stage);
        lose_power(&mut stage);
        for _ in 0..100 {
            stage.pass(100 * MS);
            for (index, log) in (0..3).flat_map(|index| [(index, LOG), (index, DIRECTORY_NAME)]) {
                let look = stage.look();
                let Some(view) = look.view_of(index, log) else {
                    continue;
                };
                let members = view.state.configuration.members();
                let era = view.state.era.0;
                let is_last = before.contains(&(log, era));
                let is_earlier = before.iter().any(|(of, last)| *of == log && era < *last);
                let is_whole =
                    members.len() == 3 && members.iter().all(|member| member.weight == 1);
                assert!(
                    is_earlier || is_last && is_whole,
                    "seed {seed}: while node {} reads log 0 again, {log} has {members:?}",
                    index + 1
                );
            }
        }
        stage.wait_whole(3);
        assert_eq!(eras(&stage), before, "seed {seed}: nobody asked for a step");
        check_all_there(&mut stage);
    }
}

/// `some` lives on nodes 4, 5 and 6, which are cut off from the directory's.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_append_acknowledged_after_its_log_was_deleted_and_made_anew_is_in_one_of_them() {
    for seed in 0..3 {
        let mut stage = three(seed);
        for _ in 3..6 {
            stage.add_node();
        }
        stage.wait("ids", |look| {
            (0..6).all(|index| look.node(index).is_some_and(|node| node.id().0 > 0))
        });
        let ids: Vec<u32> = (3..6)
            .map(|index| stage.look().node(index).expect("it runs").id().0)
            .collect();
        let (a, b, c) = (ids[0], ids[1], ids[2]);
        granted(&mut stage, &format!("create-log some members={a},{b},{c}"));
        stage.wait("its replicas and its leader", |look| {
            let leads = |index| {
                let view = look.view_of(index, "some");
                view.map(|view| matches!(view.role, paxos::Role::Leader { .. }))
            };
            let leads: Vec<Option<bool>> = (3..6).map(leads).collect();
            leads.iter().all(Option::is_some) && leads.contains(&Some(true))
        });
        let leader = (3..6).find(|index| {
            let look = stage.look();
            let view = look.view_of(*index, "some");
            view.is_some_and(|view| matches!(view.role, paxos::Role::Leader { .. }))
        });
        let leader = leader.expect("just seen");
        for near in 0..3 {
            for far in 3..6 {
                stage.cut_both(near, far);
            }
        }
        stage.pass(SECOND);
        // Strictly one after the other, as one person would.
        let directs = (0..3).find(|index| {
            let look = stage.look();
            let view = look.view_of(*index, DIRECTORY_NAME);
            view.is_some_and(|view| matches!(view.role, paxos::Role::Leader { .. }))
        });
        let directs = directs.expect("the directory's quorum is on one side");
        let deleted = answer_of(&mut stage, directs, "delete-log some");
        let deleted = deleted.is_some_and(|answer| answer.starts_with("ok "));
        let created = answer_of(&mut stage, directs, "create-log some");
        let created = created.is_some_and(|answer| answer.starts_with("ok "));
        assert!(deleted || !created, "seed {seed}: the name was not free");
        let mut writer = stage.call(leader, "append some");
        writer.say(&mut stage.world, 5_000);
        stage.pass(10 * SECOND);
        let acknowledged = writer.is_open() && writer.has_all();
        stage.world.heal_all();
        stage.pass(60 * SECOND);
        if created && acknowledged {
            let content = writer.content(0..5_000);
            let found = read_by_name(&mut stage, "some");
            assert!(
                found.windows(content.len()).any(|part| part == content),
                "seed {seed}: deleted, made anew, then 5000 bytes were acknowledged: {} are there",
                found.len()
            );
        }
        // The log hears that it is to end, and then the name is free for another.
        let gone = done(&mut stage, "delete-log some");
        let is_gone = gone.starts_with("ok ") || gone.starts_with("error unknown-log");
        assert!(is_gone, "seed {seed}: {gone}");
        granted(&mut stage, "create-log some");
        let left = read_by_name(&mut stage, "some");
        assert_eq!(left.len(), 0, "seed {seed}: a new log begins empty");
    }
}

/// The change begins an era of log 0 too. Then its leader does not know for a moment whether what it has read of log 0 is
/// all, and that is no reason to say that every log has heard.
#[test]
fn an_era_of_log_0_in_between_makes_no_change_ok_that_a_log_has_not_heard() {
    for seed in 0..5 {
        let mut stage = Stage::three(seed);
        let far = [stage.add_node(), stage.add_node()];
        stage.wait("ids", |look| {
            (0..5).all(|index| look.node(index).is_some_and(|node| node.id().0 > 0))
        });
        granted(&mut stage, "create-log some members=4,5");
        stage.wait("its replicas", |look| {
            far.iter()
                .all(|index| look.view_of(*index, "some").is_some())
        });
        stage.pass(SECOND);
        for index in far {
            stage.crash(index);
        }
        let era = |stage: &Stage| {
            let look = stage.look();
            look.view_of(0, DIRECTORY_NAME).map(|view| view.state.era.0)
        };
        let before = era(&stage);
        let answer = done(&mut stage, "change-members weight 2 2 force=1");
        assert!(
            answer.starts_with("error not-in-force logs=some"),
            "seed {seed}: {answer}"
        );
        stage.pass(SECOND);
        assert!(era(&stage) > before, "log 0 began an era");
    }
}

fn read_by_name(stage: &mut Stage, log: &str) -> Vec<u8> {
    for round in 0..200 {
        let index = round % stage.nodes.len();
        let caller: Caller = stage.call(index, &format!("read {log}"));
        stage.wait("the end of the read", |_| caller.is_over());
        let heard = caller.heard();
        if !heard.starts_with(b"error ") {
            return heard;
        }
        stage.pass(50 * MS);
    }
    panic!("nobody reads {log}\n{}", stage.look().picture());
}
