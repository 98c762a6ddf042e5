//! Three real nodes, writers and readers, and every fault there is.

mod checks;
mod cluster;

use sim::{Act, Scenario, Swarm, each_seed};

#[test]
fn in_a_calm_world_everything_works() {
    each_seed(0..10, "-p sim --test three_nodes in_a_calm_world", |seed| {
        cluster::run(&Scenario {
            swarm: Swarm::calm(),
            ..cluster::scenario(seed)
        });
    });
}

/// A network and disks as one finds them in a rack, and processes that die.
fn with_acts(acts: &[Act]) -> Swarm {
    Swarm {
        rest_us: 100_000..1_500_000,
        lasts_us: 50_000..2_000_000,
        victims_max: 1,
        acts: acts.iter().map(|act| (*act, 1)).collect(),
        ..Swarm::calm()
    }
}

#[test]
fn one_node_at_a_time_may_die_or_stand_still() {
    let acts = [
        Act::Kill,
        Act::KillBetweenOps,
        Act::Vanish,
        Act::Pause,
        Act::Stop,
    ];
    each_seed(0..20, "-p sim --test three_nodes one_node", |seed| {
        cluster::run(&Scenario {
            swarm: with_acts(&acts),
            ..cluster::scenario(seed)
        });
    });
}

#[test]
fn connections_may_break_and_nodes_may_be_cut_off() {
    let acts = [Act::CutOneWay, Act::CutPair, Act::Isolate, Act::Reset];
    each_seed(0..20, "-p sim --test three_nodes connections", |seed| {
        cluster::run(&Scenario {
            swarm: with_acts(&acts),
            ..cluster::scenario(seed)
        });
    });
}

#[test]
fn disks_may_be_slow_and_hang() {
    let acts = [Act::SlowDisk, Act::HangDisk, Act::Kill];
    each_seed(0..20, "-p sim --test three_nodes disks_may", |seed| {
        cluster::run(&Scenario {
            swarm: with_acts(&acts),
            ..cluster::scenario(seed)
        });
    });
}

#[test]
fn disks_may_fail_and_fill() {
    let acts = [Act::BreakDisk, Act::FillDisk, Act::Kill];
    each_seed(0..20, "-p sim --test three_nodes disks_may_fail", |seed| {
        cluster::run(&Scenario {
            swarm: with_acts(&acts),
            ..cluster::scenario(seed)
        });
    });
}

#[test]
fn one_node_may_lose_bits_of_what_it_wrote() {
    let acts = [Act::FlipBit, Act::FlipBit, Act::Kill];
    each_seed(
        0..20,
        "-p sim --test three_nodes one_node_may_lose",
        |seed| {
            cluster::run_with_damage(&Scenario {
                swarm: with_acts(&acts),
                ..cluster::scenario(seed)
            });
        },
    );
}

#[test]
fn writers_may_fight_for_a_log() {
    each_seed(0..20, "-p sim --test three_nodes writers_may", |seed| {
        cluster::run(&Scenario {
            logs: vec!["main".to_owned(); 3],
            swarm: with_acts(&[Act::Kill, Act::Pause, Act::Reset]),
            bytes_per_writer: 60_000,
            ..cluster::scenario(seed)
        });
    });
}

#[test]
fn a_node_that_is_alone_stops_soon_when_asked() {
    each_seed(
        0..10,
        "-p sim --test three_nodes a_node_that_is_alone",
        |seed| {
            let scenario = Scenario {
                swarm: Swarm::calm(),
                ..cluster::scenario(seed)
            };
            let mut cluster = cluster::build(&scenario);
            cluster.suffer().unwrap();
            cluster.serve().unwrap();
            cluster::wait_until_whole(&mut cluster);
            for node in &cluster.nodes[1..] {
                cluster.world.crash_silently(*node);
            }
            let alone = cluster.nodes[0];
            cluster.world.run_for(100_000 * (seed + 1), 1_000_000);
            cluster.world.stop(alone);
            cluster.world.run_for(2_000_000, 1_000_000);
            assert_eq!(cluster.world.status(alone), sim::Status::Finished);
        },
    );
}

#[test]
fn after_any_swarm_everything_ends_well() {
    each_seed(0..50, "-p sim --test three_nodes after_any", |seed| {
        cluster::run(&cluster::scenario(seed));
    });
}
