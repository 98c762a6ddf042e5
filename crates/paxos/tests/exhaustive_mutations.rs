//! Rules of the engine broken one at a time: the search of small worlds finds each, with the
//! engine's own asserts and without.
//!
//! `cargo test -p paxos --features mutations --test exhaustive_mutations`

mod small;

use paxos::mutation::{self, Mutation};
use paxos::{Change, NodeId};
use small::Small;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

const STATES_MAX: usize = 1_500_000;

/// As in `exhaustive`: all weights double, and each of the others makes a quorum with the leader.
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

/// Smallest first: a mutation is looked for in each until it is seen.
fn worlds() -> Vec<(&'static str, Small)> {
    let two = || Small {
        elections: vec![1, 1, 0],
        values: vec![1, 1, 0],
        ..Small::of(3)
    };
    vec![
        ("two leaders", two()),
        (
            "the first leads again",
            Small {
                elections: vec![2, 1, 0],
                ..two()
            },
        ),
        (
            "an auxiliary",
            Small {
                auxiliary: Some(NodeId(3)),
                ..two()
            },
        ),
        (
            "a node leaves",
            Small {
                elections: vec![1, 0, 0],
                values: vec![1, 0, 0],
                slots: 2,
                change: Some(Change::Decrement(NodeId(3))),
                ..Small::of(3)
            },
        ),
        (
            "one restart",
            Small {
                restarts: vec![1, 1, 1],
                restarts_max: 1,
                ..two()
            },
        ),
        (
            "three leaders",
            Small {
                elections: vec![1, 1, 1],
                values: vec![1, 1, 1],
                ..Small::of(3)
            },
        ),
        ("a casting vote", casting()),
        (
            "a casting vote, and the permit ends",
            Small {
                window: 1,
                values: vec![2, 0, 0],
                slots: 3,
                ..casting()
            },
        ),
        (
            "two eras begin",
            Small {
                changes: 2,
                slots: 3,
                ..casting()
            },
        ),
        (
            "a change is asked for twice",
            Small {
                changes: 2,
                impatient: true,
                slots: 2,
                begun: false,
                ..casting()
            },
        ),
        (
            "a casting vote, and its leader restarts",
            Small {
                restarts: vec![1, 0, 0],
                restarts_max: 1,
                ..casting()
            },
        ),
    ]
}

/// The world and the invariant in which it is seen, and after how many states.
fn found() -> Option<(&'static str, &'static str, usize)> {
    worlds().into_iter().find_map(|(name, world)| {
        let checker = world.clone().checker().target_state_count(STATES_MAX);
        let checker = checker.finish_when(HasDiscoveries::AnyFailures);
        let checker = checker.spawn_bfs().join();
        let mut properties = world.properties().into_iter();
        let broken = properties.find(|property| {
            let always = property.expectation == Expectation::Always;
            always && checker.discovery(property.name).is_some()
        });
        broken.map(|property| (name, property.name, checker.unique_state_count()))
    })
}

/// What is broken is broken in the whole process, so this is one test.
#[test]
fn every_broken_rule_of_safety_is_found() {
    for rule in [
        Mutation::BoundSlotPromisedFree,
        Mutation::PromiseFromIgnored,
        Mutation::HighestTermIgnored,
        Mutation::PromiseGoesBack,
        Mutation::PromiseBeforeDurable,
        Mutation::OwnPromiseNotAwaited,
        Mutation::AcceptsBelowPromise,
        Mutation::AckBeforeDurability,
        Mutation::OwnWriteNotAwaited,
        Mutation::HeldTakenForAccepted,
        Mutation::ChosenWithoutAQuorum,
        Mutation::Q2OfTheWrongEra,
        Mutation::LearnedInAnotherTerm,
        Mutation::AuxiliaryCountedWithoutBytes,
        Mutation::CastingVoteWithoutSplit,
        Mutation::CastingPromiseNotAwaited,
        Mutation::FinishesBeyondItsEnd,
        Mutation::EraSkipped,
        Mutation::ReconfigureInAnyEra,
    ] {
        for asserts in [true, false] {
            mutation::set_asserts(asserts);
            mutation::select(Some(rule));
            let found = found();
            println!("{}, asserts {asserts}: {found:?}", rule.name());
            assert!(found.is_some(), "{} is not found", rule.name());
        }
    }
}
