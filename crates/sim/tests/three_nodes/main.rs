//! The one workload under chosen kinds of harm, and a few plots of their own. `LOG=debug` shows
//! what the nodes say of themselves; with `TRACE=1` between the trace's lines.

use std::time::Duration;

use sim::workload::{self, Report};
use sim::{Act, Scenario, Swarm, each_seed};

/// Three nodes, one writer for each of two logs.
fn scenario(seed: u64) -> Scenario {
    tell_if_asked();
    Scenario {
        logs: vec!["main".to_owned()],
        // Some networks carry a few KiB a second, and everybody reads everything.
        calm_us: 1_200_000_000,
        ..Scenario::draw(seed)
    }
}

fn run(scenario: &Scenario) -> Report {
    workload::run_scenario(scenario).unwrap_or_else(|violation| panic!("{violation}"))
}

fn tell_if_asked() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if let Ok(filter) = std::env::var("LOG") {
            tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_writer(std::io::stderr)
                .without_time()
                .with_ansi(false)
                .init();
        }
    });
}

/// A network and disks as one finds them in a rack, and what happens to one node at a time.
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
fn in_a_calm_world_everything_works() {
    each_seed(0..10, "-p sim --test three_nodes in_a_calm_world", |seed| {
        run(&Scenario {
            swarm: Swarm::calm(),
            ..scenario(seed)
        });
    });
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
        run(&Scenario {
            swarm: with_acts(&acts),
            ..scenario(seed)
        });
    });
}

#[test]
fn connections_may_break_and_nodes_may_be_cut_off() {
    let acts = [Act::CutOneWay, Act::CutPair, Act::Isolate, Act::Reset];
    each_seed(0..20, "-p sim --test three_nodes connections", |seed| {
        run(&Scenario {
            swarm: with_acts(&acts),
            ..scenario(seed)
        });
    });
}

#[test]
fn disks_may_be_slow_and_hang() {
    let acts = [Act::SlowDisk, Act::HangDisk, Act::Kill];
    each_seed(0..20, "-p sim --test three_nodes disks_may", |seed| {
        run(&Scenario {
            swarm: with_acts(&acts),
            ..scenario(seed)
        });
    });
}

#[test]
fn disks_may_fail_and_fill() {
    let acts = [Act::BreakDisk, Act::FillDisk, Act::Kill];
    each_seed(0..20, "-p sim --test three_nodes disks_may_fail", |seed| {
        run(&Scenario {
            swarm: with_acts(&acts),
            ..scenario(seed)
        });
    });
}

#[test]
fn reads_may_fail_while_a_node_starts() {
    let acts = [Act::FailReadsAtStart];
    each_seed(0..10, "-p sim --test three_nodes reads_may_fail", |seed| {
        run(&Scenario {
            swarm: with_acts(&acts),
            ..scenario(seed)
        });
    });
}

#[test]
fn one_node_may_lose_bits_of_what_it_wrote() {
    let acts = [Act::FlipBit, Act::FlipBitAtStart, Act::Kill];
    each_seed(
        0..20,
        "-p sim --test three_nodes one_node_may_lose",
        |seed| {
            run(&Scenario {
                swarm: with_acts(&acts),
                begin_well: true,
                ..scenario(seed)
            });
        },
    );
}

#[test]
fn writers_may_fight_for_a_log() {
    each_seed(0..20, "-p sim --test three_nodes writers_may", |seed| {
        run(&Scenario {
            logs: vec!["main".to_owned(); 3],
            swarm: with_acts(&[Act::Kill, Act::Pause, Act::Reset]),
            bytes_per_writer: 60_000,
            ..scenario(seed)
        });
    });
}

#[test]
fn a_node_that_is_alone_stops_soon_when_asked() {
    each_seed(0..10, "-p sim --test three_nodes a_node_that", |seed| {
        let mut cluster = workload::build(&Scenario {
            swarm: Swarm::calm(),
            ..scenario(seed)
        });
        cluster.suffer().unwrap();
        cluster.serve().unwrap();
        workload::wait_until_whole(&mut cluster).unwrap();
        for node in &cluster.nodes[1..] {
            cluster.world.crash_silently(*node);
        }
        let alone = cluster.nodes[0];
        cluster
            .world
            .run_for(Duration::from_millis(100 * (seed + 1)), 1_000_000);
        cluster.world.stop(alone);
        cluster.world.run_for(Duration::from_secs(2), 1_000_000);
        assert_eq!(cluster.world.status(alone), sim::Status::Finished);
    });
}

#[test]
fn after_any_swarm_everything_ends_well() {
    each_seed(0..50, "-p sim --test three_nodes after_any", |seed| {
        let report = run(&workload::draw(seed));
        assert!(report.acknowledged_bytes > 0);
    });
}

#[test]
fn a_seed_gives_every_line_twice() {
    for seed in [3, 4] {
        let lines = workload::Lines::Keep(usize::MAX);
        let (first, first_lines) = workload::look_at(&workload::draw(seed), lines);
        let (second, second_lines) = workload::look_at(&workload::draw(seed), lines);
        assert!(first_lines.len() > 10_000, "{} lines", first_lines.len());
        for (number, pair) in first_lines.iter().zip(&second_lines).enumerate() {
            assert_eq!(pair.0, pair.1, "line {number} of seed {seed}");
        }
        assert_eq!(first_lines.len(), second_lines.len());
        assert_eq!(first.unwrap(), second.unwrap());
    }
}
