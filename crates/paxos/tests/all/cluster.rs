//! Random clusters: every fault at once, the invariants after every step, life when it is calm.
//!
//! `PAXOS_SEED=n` replays one seed, `PAXOS_SEEDS=n PAXOS_FROM=m` runs more of them, and
//! `PAXOS_LOG=file` keeps the last lines of what happened before a failure.

use paxos::*;

use crate::world::*;

/// In a quarter of the seeds leaders do phase 1 for each batch.
fn phase_one_of(seed: u64) -> PhaseOne {
    match seed % 8 {
        3 => PhaseOne::PerBatch,
        6 => PhaseOne::PerBatchAhead,
        _ => PhaseOne::PerTerm,
    }
}

fn storm(seed: u64) -> World {
    let mut rng = Rng(seed);
    let nodes = 3 + rng.below(3) as u32;
    let alone = seed % 5 == 4; // a cluster that grows from one
    let members: Vec<(u32, u32)> = (1..=nodes)
        .filter(|node| !alone || *node == 1)
        .filter(|node| *node <= 3 || node % 2 == 1)
        .map(|node| (node, 1 + rng.below(3) as u32))
        .collect();
    let mut world = World::preparing(seed, &members, nodes, phase_one_of(seed));
    world.faults = STORM;
    if seed.is_multiple_of(4) {
        world.faults.reconfigure = false;
    }
    if seed.is_multiple_of(3) {
        world.faults.delay_max = 2_000;
    }
    if std::env::var("PAXOS_LOG").is_ok() {
        world.log = Some(String::new());
    }
    world
}

fn run(seed: u64) -> World {
    let mut world = storm(seed);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.run(4_000_000);
        world.check_agreement();
        world.calm();
        world.until("a leader", 10_000_000, |w| w.leader().is_some());
        world.run(1_000_000);
        world.clients = false;
        world.until("all are level", 10_000_000, World::is_level);
        let at = world.leader().unwrap();
        let (before, before_of_followers) = (world.reads_answered, world.reads_of_followers);
        world.clients = true;
        world.until("leaders and followers answer reads", 5_000_000, |w| {
            let of_followers = w.reads_of_followers - before_of_followers;
            of_followers > 0 && w.reads_answered - before > of_followers
        });
        world.clients = false;
        world.until("all are level", 5_000_000, World::is_level);
        let slot = world.propose(at, Action::GenerateNodeId);
        if let Ok(slot) = slot {
            world.until("an action is chosen", 5_000_000, |w| {
                w.nodes
                    .iter()
                    .all(|n| n.engine.as_ref().unwrap().first_unchosen() > slot)
            });
        }
        // Auxiliaries are released once a second.
        world.run(2_500_000);
        world.check_agreement();
        for node in &world.nodes {
            let engine = node.engine.as_ref().unwrap();
            assert_eq!(engine.deadline(), None, "{} is idle", node.id);
        }
    }));
    if let Err(panic) = outcome {
        if let Some(log) = &world.log {
            let tail: Vec<&str> = log.lines().collect();
            let from = tail.len().saturating_sub(4000);
            let path = std::env::var("PAXOS_LOG").unwrap();
            std::fs::write(path, tail[from..].join("\n")).unwrap();
        }
        eprintln!("seed {seed} at {}", world.now);
        for node in &world.nodes {
            if let Some(e) = &node.engine {
                eprintln!(
                    "{}: {:?} promised {} next {} proposed {} permit {:?} deadline {:?} {:?}",
                    node.id,
                    e.role(),
                    e.promised().0,
                    e.first_unchosen(),
                    e.proposed_up_to(),
                    e.permit(),
                    e.deadline(),
                    e.state().configuration,
                );
            }
        }
        std::panic::resume_unwind(panic);
    }
    world
}

#[test]
fn clusters_agree_through_every_storm_and_live_after_it() {
    if let Ok(seed) = std::env::var("PAXOS_SEED") {
        run(seed.parse().unwrap());
        return;
    }
    let count = std::env::var("PAXOS_SEEDS").map_or(60, |n| n.parse().unwrap());
    let from = std::env::var("PAXOS_FROM").map_or(0, |n| n.parse().unwrap());
    let (mut chosen, mut reads, mut of_followers, mut eras, mut releases) = (0, 0, 0, 0, 0);
    for seed in from..from + count {
        let world = run(seed);
        chosen += world.truth.len();
        reads += world.reads_answered;
        of_followers += world.reads_of_followers;
        releases += world.releases;
        eras += world.nodes[0].engine.as_ref().unwrap().state().era.0;
    }
    eprintln!(
        "{chosen} slots, {reads} reads, {of_followers} of followers, {eras} eras, {releases} bytes released"
    );
    assert!(
        chosen > 10_000
            && reads - of_followers > 100
            && of_followers > 100
            && eras > 20
            && releases > 100,
        "{chosen} {reads} {of_followers} {eras} {releases}"
    );
}

#[test]
fn one_seed_twice_gives_the_same_trace() {
    assert_eq!(run(5).trace, run(5).trace);
}

/// The detector of this world needs a tenth of a second; the rest is the engine's.
#[test]
fn a_dead_leader_is_replaced_within_half_a_second() {
    let mut longest = 0;
    for seed in 0..40 {
        let mut world = World::new(seed, &[(1, 1), (2, 1), (3, 1)], 3);
        world.until("a leader", 2_000_000, |w| w.leader().is_some());
        world.run(500_000);
        let at = world.leader().unwrap();
        world.crash(at);
        let begin = world.now;
        world.until("another", 2_000_000, |w| w.leader().is_some());
        longest = longest.max(world.now - begin);
    }
    eprintln!("at most {longest} us");
    assert!(longest < 500_000, "{longest} us");
}
