//! A log whose name is freed by `delete-log abandon=1`: the nodes that may still answer from it, and until when.

use node::directory::DIRECTORY_NAME;
use paxos::{NodeId, Role};

use crate::stage::{Look, SECOND, Stage, done};

fn granted(stage: &mut Stage, request: &str) -> String {
    let answer = done(stage, request);
    assert!(answer.starts_with("ok "), "{request}: {answer}");
    answer
}

fn leader_of(look: &Look<'_>, nodes: usize, log: &str) -> Option<usize> {
    (0..nodes).find(|index| {
        let view = look.view_of(*index, log);
        view.is_some_and(|view| matches!(view.role, Role::Leader { .. }))
    })
}

fn wait_for_leader(stage: &mut Stage, log: &str) -> usize {
    let nodes = stage.nodes.len();
    stage.wait("a leader", |look| leader_of(look, nodes, log).is_some());
    leader_of(&stage.look(), nodes, log).expect("just seen")
}

fn answer_of(stage: &mut Stage, index: usize, request: &str) -> String {
    let caller = stage.call(index, request);
    stage.wait("an answer", |_| caller.is_over());
    caller.text()
}

/// The leader of log 0 has applied the deletion when it says ok. The others hear of it some milliseconds
/// later, and one of them leads the log.
#[test]
fn nobody_answers_from_a_log_that_could_end_once_it_is_abandoned() {
    for seed in 0..10 {
        let mut stage = Stage::three(seed);
        granted(&mut stage, "create-log some");
        let directs = wait_for_leader(&mut stage, DIRECTORY_NAME);
        let other = (directs + 1) % 3;
        let other_id = stage.look().node(other).expect("it runs").id();
        stage.wait("its replicas", |look| {
            (0..3).all(|index| look.view_of(index, "some").is_some())
        });
        if wait_for_leader(&mut stage, "some") == directs {
            granted(&mut stage, &format!("lead some to={other_id}"));
        }
        stage.pass(SECOND);
        assert_ne!(wait_for_leader(&mut stage, "some"), directs, "seed {seed}");
        let before = answer_of(&mut stage, other, "streams some");
        assert!(before.starts_with("ok "), "{before}");
        let deleted = answer_of(&mut stage, directs, "delete-log some abandon=1");
        assert!(deleted.starts_with("ok "), "{deleted}");
        let asked: Vec<_> = (0..3)
            .flat_map(|index| [(index, "streams some"), (index, "read some")])
            .map(|(index, request)| (index, request, stage.call(index, request)))
            .collect();
        for (index, request, caller) in asked {
            stage.wait("an answer", |_| caller.is_over());
            let text = caller.text();
            let node = index + 1;
            assert!(
                text.starts_with("error unknown-log"),
                "seed {seed}: {request} at node {node}: {text:?}"
            );
        }
    }
}

/// `some` lives on nodes that hear nothing of log 0's. It goes on there until they hear, as the operator was told.
#[test]
fn a_log_that_cannot_end_goes_on_where_nobody_hears_and_ends_when_they_do() {
    let mut stage = Stage::three(1);
    for _ in 3..6 {
        stage.add_node();
    }
    stage.wait("ids", |look| {
        (0..6).all(|index| look.node(index).is_some_and(|node| node.id() != NodeId(0)))
    });
    let ids = (3..6).map(|index| stage.look().node(index).expect("it runs").id().to_string());
    let ids: Vec<String> = ids.collect();
    granted(
        &mut stage,
        &format!("create-log some members={}", ids.join(",")),
    );
    let leader = wait_for_leader(&mut stage, "some");
    let mut writer = stage.open(leader, "append some");
    stage.say_and_wait(&mut writer, 1_000);
    for near in 0..3 {
        for far in 3..6 {
            stage.cut_both(near, far);
        }
    }
    stage.pass(SECOND);
    let directs = wait_for_leader(&mut stage, DIRECTORY_NAME);
    let began = stage.world.now();
    let deleted = answer_of(&mut stage, directs, "delete-log some abandon=1");
    assert!(deleted.starts_with("ok "), "{deleted}");
    let took = stage.world.now() - began;
    assert!((SECOND..2 * SECOND).contains(&took), "{took:?}");
    // On the side of log 0 nobody knows it any more, and the name is free.
    for near in 0..3 {
        let text = answer_of(&mut stage, near, "streams some");
        assert!(text.starts_with("error unknown-log"), "{text}");
    }
    granted(&mut stage, "create-log some members=1,2,3");
    // On the other side it goes on,
    stage.say_and_wait(&mut writer, 1_000);
    let old = answer_of(&mut stage, leader, "streams some");
    assert!(old.contains("\"length\":2000"), "{old}");
    // until they hear: then there is one log of that name, and its bytes are the new one's.
    stage.world.heal_all();
    stage.wait("the writer to be told", |_| writer.is_over());
    stage.pass(10 * SECOND);
    for index in 0..6 {
        let text = answer_of(&mut stage, index, "streams some");
        let is_new = text == "ok []\n" || text.starts_with("error not-leader");
        assert!(is_new, "node {}: {text}", index + 1);
    }
}
