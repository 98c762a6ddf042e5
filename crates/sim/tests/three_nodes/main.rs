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
fn after_any_swarm_everything_ends_well() {
    each_seed(0..50, "-p sim --test three_nodes after_any", |seed| {
        cluster::run(&cluster::scenario(seed));
    });
}
