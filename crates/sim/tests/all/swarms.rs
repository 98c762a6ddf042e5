//! Small machines under every mixture of faults.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ops::Time;
use sim::{Audited, HostId, Limits, Outcome, Swarm, World};

use crate::support::echo::{Echo, Shouter};
use crate::support::logger::Logger;

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> Limits {
    Limits {
        until: Time::ZERO + 600 * SECOND,
        events_max: 3_000_000,
    }
}

/// A server under attack, a logger under attack, two clients.
fn run(seed: u64) -> World {
    let mut world = World::new(seed);
    let server = world.add_host("server");
    let start =
        |_: &mut dyn ops::Disk, _| Ok(Box::new(Audited::new(Echo::new())) as Box<dyn sim::Process>);
    world.start(server, start).unwrap();
    let durable = Rc::new(Cell::new(0));
    let logger = world.add_host("logger");
    let shared = durable.clone();
    world
        .start(logger, move |disk, _| {
            let logger = Logger::start(disk, shared.clone())?;
            Ok(Box::new(Audited::new(logger)))
        })
        .unwrap();
    let clients: Vec<HostId> = (0..2)
        .map(|number| {
            let host = world.add_host(&format!("client{number}"));
            let start = move |_: &mut dyn ops::Disk, _| {
                let shouter = Shouter::new(seed ^ number, 40_000);
                Ok(Box::new(Audited::new(shouter)) as Box<dyn sim::Process>)
            };
            world.start(host, start).unwrap();
            host
        })
        .collect();
    let swarm = Swarm::draw(seed, 2);
    world.unleash(swarm.clone(), &[server, logger], Time::ZERO + 5 * SECOND);
    let reached = world.run_until(limits(), World::is_peace);
    assert_eq!(reached, Outcome::Reached, "seed {seed}");
    let durable_before = durable.get();
    let outcome = world.run_until(limits(), |world| {
        clients.iter().all(|client| !world.is_running(*client)) && durable.get() > durable_before
    });
    let steps = world.events();
    assert_eq!(
        outcome,
        Outcome::Reached,
        "seed {seed}, {steps} steps: {swarm:?}"
    );
    world
}

#[test]
fn in_peace_everything_ends_well_after_any_swarm() {
    let mut acts = 0;
    for seed in 0..200 {
        acts += run(seed).acts();
    }
    assert!(acts > 1000, "only {acts} acts");
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    for seed in 0..200 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.trace_hash(), second.trace_hash(), "seed {seed}");
        assert_eq!(first.events(), second.events(), "seed {seed}");
        assert_ne!(first.trace_hash(), World::new(seed).trace_hash());
    }
}
