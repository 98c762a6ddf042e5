//! Every state of small worlds: see `small` for what a world is and what bounds it.
//!
//! Each test visits all states there are within its bounds and says how many. Larger worlds, for a
//! coffee or a night: `cargo run --release -p logberg-paxos --example explore -- --help`.

use paxos::{Change, NodeId};
use stateright::{Checker, Expectation, HasDiscoveries, Model, Path, Property};

use crate::small::memory::Memory;
use crate::small::{self, Rule, Small};

/// The limit of a search: more states than any world here has. A search that reaches it was not bounded enough.
const STATES_MAX: usize = 10_000_000;

/// Visits every state: each invariant always holds, and each sight that is wanted is seen sometimes.
fn search(name: &str, world: Small) -> Small {
    let checker = world.clone().checker().threads(2);
    let checker = checker.target_state_count(STATES_MAX).spawn_bfs().join();
    println!(
        "{name}: {} states, at most {} steps deep, {:?}",
        checker.unique_state_count(),
        checker.max_depth(),
        world.memory
    );
    for property in world.properties() {
        let found = checker.discovery(property.name);
        match (property.expectation, found) {
            (Expectation::Always, Some(path)) => {
                panic!("{name}: {} does not hold:\n{}", property.name, story(path));
            }
            (Expectation::Sometimes, None) => panic!("{name}: never: {}", property.name),
            _ => {}
        }
    }
    assert!(
        checker.state_count() < STATES_MAX,
        "{name}: not all was visited"
    );
    world
}

fn story(path: Path<small::State, small::Step>) -> String {
    let steps = path.into_vec().into_iter();
    let lines = steps.map(|(state, step)| match step {
        Some(step) => format!("  {step:?}"),
        None => format!("  => {state:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The invariant that is seen broken.
fn broken(world: Small) -> Option<&'static str> {
    let checker = world.clone().checker();
    let checker = checker.target_state_count(STATES_MAX);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let always = |property: &Property<Small>| property.expectation == Expectation::Always;
    let mut properties = world.properties().into_iter().filter(always);
    let found = properties.find(|property| checker.discovery(property.name).is_some());
    println!(
        "{:?} after {} states",
        world.rule,
        checker.unique_state_count()
    );
    found.map(|property| property.name)
}

/// Two leaders, each with something to propose, and a third acceptor.
fn two_leaders() -> Small {
    Small {
        elections: vec![1, 1, 0],
        values: vec![1, 1, 0],
        ..Small::of(3)
    }
}

#[test]
fn two_leaders_agree() {
    search("one slot", two_leaders());
    search(
        "two slots",
        Small {
            slots: 2,
            ..two_leaders()
        },
    );
    let bytes = 3;
    search(
        "runs of bytes",
        Small {
            bytes,
            ..two_leaders()
        },
    );
}

/// The later of two terms counts, also when the earlier acceptance is one's own.
#[test]
fn a_leader_that_comes_again_proposes_the_latest_value() {
    let elections = vec![2, 1, 0];
    search(
        "the first leads again",
        Small {
            elections,
            ..two_leaders()
        },
    );
}

/// An auxiliary votes, and never leads.
#[test]
fn two_leaders_and_an_auxiliary_agree() {
    search(
        "an auxiliary",
        Small {
            auxiliary: Some(NodeId(3)),
            ..two_leaders()
        },
    );
}

#[test]
fn three_leaders_agree() {
    let elections = vec![1, 1, 1];
    let values = vec![1, 1, 1];
    search(
        "three leaders",
        Small {
            elections,
            values,
            ..Small::of(3)
        },
    );
}

#[test]
fn two_leaders_agree_though_a_node_restarts() {
    search(
        "one restart of any node",
        Small {
            restarts: vec![1, 1, 1],
            restarts_max: 1,
            ..two_leaders()
        },
    );
}

#[test]
fn a_new_era_begins_after_all_of_the_one_before() {
    let one_leader = |change, members: Vec<u32>| Small {
        weights: members,
        elections: vec![1, 0, 0],
        values: vec![1, 0, 0],
        slots: 2,
        change: Some(change),
        ..Small::of(3)
    };
    let joins = Change::Increment(NodeId(3));
    search("a node joins", one_leader(joins, vec![1, 1, 0]));
    let leaves = Change::Decrement(NodeId(3));
    search("a node leaves", one_leader(leaves, vec![1, 1, 1]));
    let rests = Change::MarkAuxiliary(NodeId(3));
    search("a node becomes auxiliary", one_leader(rests, vec![1, 1, 1]));
    search(
        "a heavy node becomes light, and two lead",
        Small {
            weights: vec![2, 1],
            elections: vec![1, 1],
            values: vec![1, 1],
            slots: 2,
            change: Some(Change::Decrement(NodeId(1))),
            ..Small::of(2)
        },
    );
}

#[test]
fn a_new_era_survives_a_restart_and_another_leader() {
    search(
        "all weights double, two lead, one restarts",
        Small {
            elections: vec![1, 1],
            values: vec![1, 0],
            slots: 2,
            change: Some(Change::Multiply(2)),
            restarts: vec![1, 1],
            restarts_max: 1,
            ..Small::of(2)
        },
    );
}

/// A leader that reconfigures its log: all weights double, so that each of the other nodes
/// makes a quorum with it, and the leader casts its vote.
fn casting() -> Small {
    Small {
        elections: vec![1, 0, 0],
        values: vec![1, 0, 0],
        slots: 2,
        change: Some(Change::Multiply(2)),
        begun: true,
        ..Small::of(3)
    }
}

#[test]
fn a_new_era_begins_while_the_term_before_goes_on() {
    search("casting", casting());
}

/// The others' restarts, a second value and a second leader make larger worlds, for `explore`:
/// `--begun --change mul:2 --elections 1 --values 1`, and `--restarts 0,1,0`, `--values 2 --slots 3`
/// or `--elections 1,1,0`.
#[test]
fn a_casting_vote_survives_a_restart_of_its_leader() {
    let world = Small {
        restarts: vec![1, 0, 0],
        restarts_max: 1,
        ..casting()
    };
    search("casting, its leader restarts", world);
}

/// The same durable histories are reached with the messages that are removed and without.
#[test]
fn nothing_is_missed_without_the_messages_that_can_change_nothing() {
    let two = Small {
        elections: vec![1, 1],
        values: vec![1, 1],
        slots: 2,
        ..Small::of(2)
    };
    for (name, world) in [("two nodes", two), ("three nodes", two_leaders())] {
        let histories = |keeps_the_dead| {
            let memory = Memory::default();
            let world = Small {
                keeps_the_dead,
                memory,
                ..world.clone()
            };
            search(name, world).memory.histories()
        };
        assert_eq!(histories(false), histories(true));
    }
}

#[test]
fn a_broken_rule_is_found() {
    for (rule, invariant) in [
        (Rule::PromisesAreForgotten, "I4"),
        (Rule::AcceptancesAreForgotten, "I2"),
        (Rule::NothingIsAwaited, "I4"),
    ] {
        let world = Small {
            restarts: vec![0, 0, 1],
            restarts_max: 1,
            rule: Some(rule),
            ..two_leaders()
        };
        assert_eq!(broken(world), Some(invariant), "{rule:?}");
    }
}
