//! A node's word of the cluster's health: no more and no less than is so.

use node::health::{Code, State};
use paxos::NodeId;

use crate::stage::{Look, MS, SECOND, Stage};

fn state(look: &Look<'_>, index: usize) -> State {
    look.node(index).expect("it runs").warnings().0
}

fn says(look: &Look<'_>, index: usize, code: Code) -> bool {
    let warnings = look.node(index).map(|node| node.warnings().1);
    let mut warnings = warnings.into_iter().flatten();
    warnings.any(|(found, _, active)| found == code && active)
}

fn says_of(look: &Look<'_>, index: usize, code: Code, about: NodeId) -> bool {
    let warnings = look.node(index).map(|node| node.warnings().1);
    warnings.is_some_and(|warnings| warnings.contains(&(code, about, true)))
}

fn all(look: &Look<'_>, said: impl Fn(usize) -> bool) -> bool {
    (0..3).filter(|index| look.node(*index).is_some()).all(said)
}

/// They join in any order.
fn id(stage: &Stage, index: usize) -> NodeId {
    stage.look().node(index).expect("it runs").id()
}

/// Three nodes, some time after their first election: none of them is new any more.
fn well(seed: u64) -> Stage {
    let mut stage = Stage::three(seed);
    stage.pass(11 * SECOND);
    stage.wait_within(15 * SECOND, "all to be well", |look| {
        all(look, |index| state(look, index) == State::Healthy)
    });
    stage
}

/// Nodes have just joined, and are given what there is: nobody could do anything about that.
#[test]
fn a_new_cluster_is_healthy_at_once_and_stays_so() {
    let mut stage = Stage::three(1);
    for _ in 0..40 {
        let look = stage.look();
        assert!(all(&look, |index| state(&look, index) == State::Healthy));
        stage.pass(SECOND);
    }
}

/// A planned election that settles within a second is nothing to wake anybody for.
#[test]
fn a_planned_move_and_a_new_log_leave_the_cluster_healthy() {
    for seed in 0..3 {
        let mut stage = well(seed);
        let healthy_for = |stage: &mut Stage, rounds: usize, what: &str| {
            for round in 0..rounds {
                stage.pass(50 * MS);
                let look = stage.look();
                let healthy = all(&look, |index| state(&look, index) == State::Healthy);
                assert!(
                    healthy,
                    "seed {seed}, {what}, round {round}: {}",
                    look.picture()
                );
            }
        };
        let leader = stage.leader();
        let moved = stage.call(leader, "lead main");
        healthy_for(&mut stage, 100, "a move");
        assert!(moved.text().starts_with("ok "), "{}", moved.text());
        assert_ne!(stage.leader(), leader);
        let made = crate::stage::done(&mut stage, "create-log try");
        assert!(made.starts_with("ok "), "{made}");
        healthy_for(&mut stage, 100, "a new log");
        let elections = (0..3).filter(|index| says_ever(&stage.look(), *index, Code::Election));
        assert!(elections.count() > 0, "there was one, and it is told");
    }
}

fn says_ever(look: &Look<'_>, index: usize, code: Code) -> bool {
    let warnings = look.node(index).map(|node| node.warnings().1);
    let mut warnings = warnings.into_iter().flatten();
    warnings.any(|(found, _, _)| found == code)
}

#[test]
fn a_dead_node_puts_the_others_at_risk_and_a_second_one_stops_them() {
    let mut stage = well(2);
    let (leader, others) = stage.roles();
    let dead = id(&stage, others[0]);
    stage.crash(others[0]);
    stage.wait_within(3 * SECOND, "the warnings", |look| {
        all(look, |index| {
            says_of(look, index, Code::NodeUnreachable, dead)
                && says(look, index, Code::QuorumAtRisk)
                && state(look, index) == State::AtRisk
                && !says(look, index, Code::PairCannotTalk)
        })
    });
    stage.crash(others[1]);
    stage.wait_within(5 * SECOND, "the end of service", |look| {
        says(look, leader, Code::NoLeader) && state(look, leader) == State::Unavailable
    });
    stage.restart(others[0]);
    stage.restart(others[1]);
    stage.wait_whole(3);
    stage.wait_within(20 * SECOND, "all to be well again", |look| {
        all(look, |index| state(look, index) == State::Healthy)
    });
}

/// A node that has just come back has not said yet that the dead one is silent, and does not hear it either.
#[test]
fn a_node_that_comes_back_beside_a_dead_one_is_no_reason_to_look_at_the_network() {
    for seed in 0..4 {
        let mut stage = well(seed);
        let (_, others) = stage.roles();
        stage.crash(others[0]);
        stage.pass(5 * SECOND);
        for _ in 0..3 {
            stage.crash(others[1]);
            stage.pass(2 * SECOND);
            stage.restart(others[1]);
            for round in 0..40 {
                stage.pass(100 * MS);
                let look = stage.look();
                let apart = (0..3).any(|index| says_ever(&look, index, Code::PairCannotTalk));
                assert!(!apart, "seed {seed}, round {round}");
            }
        }
    }
}

/// The leader hears both, so nothing stops; and everybody knows of it.
#[test]
fn a_pair_that_cannot_talk_is_known_to_all_and_no_node_is_called_dead() {
    let mut stage = well(3);
    let (_, others) = stage.roles();
    let lower = id(&stage, others[0]).min(id(&stage, others[1]));
    stage.cut_both(others[0], others[1]);
    stage.wait_within(9 * SECOND, "the warnings", |look| {
        all(look, |index| {
            says_of(look, index, Code::PairCannotTalk, lower)
        })
    });
    let look = stage.look();
    assert!(all(&look, |index| {
        state(&look, index) == State::AtRisk && !says(&look, index, Code::NodeUnreachable)
    }));
    stage.world.heal_all();
    stage.wait_within(30 * SECOND, "all to be well again", |look| {
        all(look, |index| state(look, index) == State::Healthy)
    });
}

/// Clients do not notice: the others are a quorum.
#[test]
fn a_follower_whose_disk_hangs_is_known_to_all() {
    let mut stage = well(4);
    let (_, others) = stage.roles();
    let chain = stage.add_writer(300_000, 1_000, 20 * MS);
    stage.wait("some of it", |_| chain.borrow().acknowledged > 10_000);
    let slow = id(&stage, others[0]);
    stage.world.hang_disk(stage.nodes[others[0]]);
    stage.wait_within(4 * SECOND, "the warnings", |look| {
        all(look, |index| {
            says_of(look, index, Code::DiskStalled, slow)
                && says_of(look, index, Code::ReplicaSlow, slow)
                && says_of(look, index, Code::BytesNotEverywhere, slow)
        })
    });
    assert!(all(&stage.look(), |index| {
        state(&stage.look(), index) == State::AtRisk
    }));
    stage.world.release_disk(stage.nodes[others[0]]);
    stage.wait("all of it", |_| chain.borrow().closed);
    stage.wait_within(40 * SECOND, "all to be well again", |look| {
        all(look, |index| state(look, index) == State::Healthy)
    });
}

/// From the hanging write to another leader: what a writer waits.
#[test]
fn a_leader_whose_disk_hangs_is_succeeded_within_two_seconds() {
    for seed in 0..10 {
        let mut stage = Stage::three(seed);
        let leader = stage.leader();
        let chain = stage.add_writer(100_000, 1_000, 5 * MS);
        stage.wait("some of it", |_| chain.borrow().acknowledged > 10_000);
        stage.world.hang_disk(stage.nodes[leader]);
        stage.wait_within(2 * SECOND, "another leader", |look| {
            look.leader().is_some_and(|now| now != leader)
        });
        // Its heartbeats go on, and it must not come back before its disk does.
        stage.wait("all of it", |_| chain.borrow().closed);
        stage.pass(10 * SECOND);
        assert_ne!(stage.look().leader(), Some(leader));
        stage.world.release_disk(stage.nodes[leader]);
        stage.wait_whole(3);
    }
}

#[test]
fn leaders_that_change_again_and_again_are_told_from_one_election() {
    let mut stage = well(5);
    for _ in 0..3 {
        let leader = stage.leader();
        let look = stage.look();
        assert!(!says(&look, leader, Code::LeaderFlapping));
        stage.isolate(leader);
        stage.wait("another leader", |look| {
            look.leader().is_some_and(|now| now != leader)
        });
        stage.world.heal_all();
        stage.wait_whole(3);
    }
    stage.wait_within(2 * SECOND, "the warning", |look| {
        (0..3).all(|index| says(look, index, Code::LeaderFlapping))
    });
}
