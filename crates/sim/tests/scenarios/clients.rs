//! Writers and readers, over changes of leader and bad networks.

use node::op::Time;
use sim::{Act, PerMillion, Swarm};

use crate::stage::{MS, SECOND, Stage};

#[test]
fn a_reader_across_changes_of_leader_sees_no_gap_and_no_repeat() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let chain = stage.add_writer(200_000, 1_000, 20 * MS);
        stage.add_reader(&chain, true);
        stage.add_reader(&chain, false);
        for kill in [true, false, true] {
            stage.pass(700 * MS);
            let leader = stage.leader();
            match kill {
                true => stage.crash(leader),
                false => stage.world.pause(stage.nodes[leader], 2 * SECOND),
            }
            stage.wait("another leader", |look| {
                look.leader().is_some_and(|now| now != leader)
            });
            if kill {
                stage.restart(leader);
            }
        }
        stage.wait("all of it", |_| chain.borrow().closed);
        assert!(chain.borrow().streams.len() > 1, "nothing was cut");
        stage.wait_for_readers();
    }
}

/// The write arrives, its acknowledgement does not.
#[test]
fn an_append_whose_acknowledgements_are_lost_is_continued_without_hole_or_repeat() {
    for seed in 0..5 {
        let mut stage = Stage::three(seed);
        let chain = stage.add_writer(60_000, 1_000, 200 * MS);
        let writer = stage.writers[0];
        for _ in 0..4 {
            stage.pass(300 * MS);
            for index in 0..3 {
                stage.world.cut(stage.nodes[index], writer);
            }
            // Until it gives up.
            stage.pass(2 * SECOND + 500 * MS);
            stage.world.heal_all();
        }
        stage.wait("all of it", |_| chain.borrow().closed);
        assert!(chain.borrow().streams.len() > 1, "nothing was cut");
        let mut expected = vec![0; 60_000];
        sim::client::fill(chain.borrow().client, 0, &mut expected);
        assert!(stage.read_all() == expected);
    }
}

/// mexos' Lots, harder: random partitions, restarts and losses for twenty seconds.
#[test]
fn all_agree_after_twenty_seconds_of_partitions_restarts_and_losses() {
    let acts = [
        (Act::CutPair, 3),
        (Act::Isolate, 2),
        (Act::CutOneWay, 1),
        (Act::Kill, 1),
        (Act::Vanish, 1),
        (Act::KillAll, 1),
    ];
    let mut swarm = Swarm {
        rest_us: 50_000..200_000,
        lasts_us: 50_000..1_000_000,
        victims_max: 2,
        acts: acts.to_vec(),
        ..Swarm::calm()
    };
    // A tenth of what is sent is lost, in both directions.
    swarm.network.losses = PerMillion(100_000);
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let until = Time(stage.world.now().0 + 20 * SECOND);
        let nodes = stage.nodes.clone();
        stage.world.unleash(swarm.clone(), &nodes, until);
        // One of them takes the log over from the other, again and again.
        let chains = [0, 1].map(|_| stage.add_writer(150_000, 1_000, 50 * MS));
        for chain in &chains {
            stage.add_reader(chain, false);
        }
        stage.pass(20 * SECOND + MS);
        assert!(stage.world.is_peace() && stage.world.acts() > 20);
        stage.wait("all of it", |_| {
            chains.iter().all(|chain| chain.borrow().closed)
        });
        stage.wait_for_readers();
        stage.wait_whole(3);
    }
}
