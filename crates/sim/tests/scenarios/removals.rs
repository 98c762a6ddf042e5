//! Nodes that are removed for ever: the change ends, and a client that comes when they are gone finds those
//! that stay.

use std::path::Path;

use paxos::NodeId;

use crate::stage::{SECOND, Stage, done};

fn id_of(stage: &Stage, index: usize) -> NodeId {
    stage.look().node(index).expect("it runs").id()
}

fn index_of(stage: &Stage, id: u32) -> usize {
    let mut all = 0..stage.nodes.len();
    let found = all.find(|index| id_of(stage, *index) == NodeId(id));
    found.expect("it joined")
}

fn granted(stage: &mut Stage, request: &str) {
    let answer = done(stage, request);
    assert!(answer.starts_with("ok "), "{request}: {answer}");
}

/// As far as that node knows.
fn wait_until_removed(stage: &mut Stage, observer: usize, id: NodeId) {
    stage.wait("the removal", |look| {
        let node = look.node(observer).expect("it runs");
        node.removed_nodes().any(|removed| removed == id.0)
    });
}

/// The second node leaves a log of three whose third node is auxiliary: the word of the one that holds everything is no
/// quorum's then. The index of node 1.
fn pair(stage: &mut Stage) -> usize {
    let first = index_of(stage, 1);
    granted(stage, "create-log pair auxiliary=3");
    granted(stage, "change-members remove 2 force=1");
    first
}

#[test]
fn a_node_leaves_though_an_active_one_and_an_auxiliary_are_left_of_a_log() {
    let mut stage = Stage::three(1);
    let first = pair(&mut stage);
    wait_until_removed(&mut stage, first, NodeId(2));
    // A log of three has an auxiliary again.
    let fourth = stage.add_node_by(first);
    stage.wait("it to join", |look| {
        look.node(fourth).is_some_and(|node| node.id() != NodeId(0))
    });
    stage.pass(SECOND);
    let fourth = id_of(&stage, fourth);
    granted(&mut stage, &format!("change-members add {fourth} force=1"));
    stage.wait("node 3 to be auxiliary", |look| {
        let view = look.view_of(first, "pair");
        let configuration = view.map(|view| view.state.configuration.clone());
        configuration.is_some_and(|c| c.is_auxiliary(NodeId(3)) && c.contains(fourth))
    });
}

/// It was told of the first node alone, which was removed meanwhile, and runs yet.
#[test]
fn who_joins_by_a_node_that_was_removed_is_told_of_the_others() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let gone = id_of(&stage, 0);
        granted(&mut stage, &format!("change-members remove {gone} force=1"));
        wait_until_removed(&mut stage, 1, gone);
        stage.pass(3 * SECOND);
        let late = stage.add_node_by(0);
        stage.wait_within(20 * SECOND, "it to join", |look| {
            look.node(late).is_some_and(|node| node.id() != NodeId(0))
        });
    }
}

/// Else it asks nobody for an id any more, and knows nobody.
#[test]
fn who_has_an_id_on_its_disk_has_the_others_addresses_there() {
    for seed in 0..30 {
        let mut stage = Stage::three(seed);
        let late = stage.add_node();
        let host = stage.nodes[late];
        stage.wait("its id to be on its disk", |look| {
            let manifest = look.world.disk(host).contents(Path::new("/data/manifest"));
            manifest.is_some_and(|bytes| String::from_utf8_lossy(&bytes).contains("\"node\": 4"))
        });
        let kept = stage
            .world
            .disk(host)
            .contents(Path::new("/data/peers.json"));
        let kept = String::from_utf8(kept.unwrap_or_default()).expect("it is JSON");
        for address in &stage.addresses[..3] {
            assert!(kept.contains(address), "seed {seed}: {kept:?}");
        }
        // And it goes on from there.
        stage.cut_power(late);
        stage.restart(late);
        stage.wait("it to host the logs", |look| {
            look.node(late)
                .is_some_and(|node| node.log_views().count() == 2)
        });
    }
}
