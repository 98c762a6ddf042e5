//! Nodes that do not know each other yet, or any more.

use paxos::NodeId;

use crate::stage::{LOG, MS, SECOND, Stage};

/// Asks every node in turn, until the one that leads the directory says ok.
fn change(stage: &mut Stage, ask: &str) {
    for round in 0..40 {
        let running: Vec<usize> = (0..stage.nodes.len())
            .filter(|index| stage.look().node(*index).is_some())
            .collect();
        let index = running[round % running.len()];
        let caller = stage.call(index, &format!("change-members {ask} force=1"));
        stage.wait("an answer", |_| caller.is_over());
        if caller.text().starts_with("ok ") {
            return;
        }
        let text = caller.text();
        // The node that is to come may not be in the directory yet.
        let again = ["error not-leader", "error unknown-node"];
        assert!(again.iter().any(|code| text.starts_with(code)), "{text}");
        stage.pass(200 * MS);
    }
    panic!("nobody takes {ask}");
}

/// Its directory says that log 0 is of nodes 1, 2 and 3. The only ones that could tell it more are strangers
/// to it.
#[test]
fn a_node_that_was_away_while_all_that_it_knew_left_finds_the_others() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let leader = stage.leader();
        let mut caller = stage.open(leader, &format!("append {LOG}"));
        stage.say_and_wait(&mut caller, 2_000);
        stage.crash(2);
        for old in [0, 1] {
            let leaves = stage.look().node(old).expect("it runs").id();
            let index = stage.add_node_by(old);
            stage.wait("it to join", |look| {
                look.node(index).is_some_and(|node| node.id() != NodeId(0))
            });
            let comes = stage.look().node(index).expect("it runs").id();
            change(&mut stage, &format!("replace {leaves} {comes}"));
            stage.wait("the change", |look| {
                let node = look.node(index).expect("it runs");
                let has_changed = |view: replica::LogView<'_>| {
                    let configuration = &view.state.configuration;
                    configuration.contains(comes) && !configuration.contains(leaves)
                };
                node.log_views().count() == 2 && node.log_views().all(has_changed)
            });
            stage.pass(3 * SECOND);
            stage.crash(old);
        }
        stage.restart(2);
        stage.wait_whole(3);
        assert!(stage.read_all() == caller.content(0..caller.said));
    }
}
