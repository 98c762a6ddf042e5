//! The clients hold a log to its promises, through any swarm; and see when it breaks one.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::support::oracle::{Lie, Log, Oracle};
use sim::{Act, Audited, Cluster, Scenario, Swarm, each_seed};

const TOTAL: u64 = 150_000;

fn run(seed: u64, lie: Lie, swarm: Swarm, logs: usize) -> Cluster {
    let scenario = Scenario {
        nodes: 1,
        port: 70,
        logs: vec!["1".to_owned(); logs],
        bytes_per_writer: TOTAL,
        stale_ppm: 0,
        swarm,
        harm_us: 3_000_000,
        calm_us: 1_000_000_000,
        ..Scenario::draw(seed)
    };
    let mut cluster = scenario.build(|_, _| {
        let log = Rc::new(RefCell::new(Log::default()));
        Box::new(move |_disk, _now| Ok(Box::new(Audited::new(Oracle::start(log.clone(), lie)))))
    });
    cluster.run().unwrap();
    cluster
}

#[test]
fn an_honest_log_satisfies_its_clients_in_any_swarm() {
    let streams = std::cell::Cell::new(0);
    each_seed(0..100, "-p sim --test all clients::an_honest_log", |seed| {
        let swarm = Swarm::draw(seed, 2);
        for chain in run(seed, Lie::None, swarm, 1).chains {
            let chain = chain.borrow();
            assert!(chain.closed && chain.acknowledged == TOTAL);
            streams.set(streams.get() + chain.streams.len());
        }
    });
    let streams = streams.get();
    assert!(
        streams > 150,
        "only {streams} streams: nothing was continued"
    );
}

#[test]
fn two_writers_who_fight_for_a_log_both_get_through() {
    each_seed(0..40, "-p sim --test all clients::two_writers", |seed| {
        for chain in run(seed, Lie::None, Swarm::draw(seed, 2), 2).chains {
            assert!(chain.borrow().closed);
        }
    });
}

#[test]
fn a_scenario_runs_twice_the_same_way() {
    each_seed(
        0..30,
        "-p sim --test all clients::a_scenario_runs",
        |seed| {
            let run = || run(seed, Lie::None, Swarm::draw(seed, 2), 2).world;
            let (first, second) = (run(), run());
            assert_eq!(first.trace_hash(), second.trace_hash());
            assert_eq!(first.events(), second.events());
        },
    );
}

/// The number of seeds, of some, that see the lie.
fn seen(lie: Lie, kills: bool) -> usize {
    let mut swarm = Swarm::calm();
    if kills {
        swarm.victims_max = 1;
        swarm.rest_us = 50_000..200_000;
        swarm.lasts_us = 1_000..50_000;
        swarm.acts.push((Act::Kill, 1));
    }
    (0..20)
        .filter(|seed| {
            let run = AssertUnwindSafe(|| run(*seed, lie, swarm.clone(), 1));
            catch_unwind(run).is_err()
        })
        .count()
}

#[test]
fn every_lie_is_seen() {
    assert_eq!(seen(Lie::None, true), 0, "nobody lied");
    assert!(seen(Lie::LoseTail, true) >= 10);
    // Bytes that nobody acknowledged may go, unless a reader was told of them just then.
    assert!(seen(Lie::Truncate, true) >= 1);
    for lie in [Lie::Repeat, Lie::Flip, Lie::StaleRead, Lie::AckEarly] {
        assert!(seen(lie, false) >= 10, "{lie:?}");
    }
}
