//! Rules of the engine broken one at a time: the search of small worlds finds each, with the
//! engine's own asserts and without.
//!
//! `cargo test -p logberg-paxos --features mutations --test exhaustive_mutations`

/// Tests call it as the workspace does, which has some of them elsewhere, too.
extern crate logberg_paxos as paxos;

#[path = "all/hidden_eras.rs"]
mod hidden_eras;
#[path = "all/liars.rs"]
mod liars;
#[path = "all/rounds.rs"]
mod rounds;
#[path = "all/small/mod.rs"]
mod small;
#[path = "all/solo/mod.rs"]
mod solo;
#[path = "all/world/mod.rs"]
mod world;

use std::panic::catch_unwind;

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

/// Smallest first.
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

/// The invariant by which it is seen in this world, and after how many states.
fn found(world: &Small) -> Option<(&'static str, usize)> {
    let checker = world.clone().checker().target_state_count(STATES_MAX);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let mut properties = world.properties().into_iter();
    let broken = properties.find(|property| {
        let always = property.expectation == Expectation::Always;
        always && checker.discovery(property.name).is_some()
    });
    broken.map(|property| (property.name, checker.unique_state_count()))
}

/// Each mutation with a world that shows it, mostly the smallest. A world that does not show it costs all its
/// states.
const RULES: [(Mutation, &str); 19] = [
    (Mutation::BoundSlotPromisedFree, "two leaders"),
    (Mutation::PromiseFromIgnored, "two leaders"),
    (Mutation::HighestTermIgnored, "the first leads again"),
    (Mutation::PromiseGoesBack, "one restart"),
    (Mutation::PromiseBeforeDurable, "two leaders"),
    (Mutation::OwnPromiseNotAwaited, "one restart"),
    (Mutation::AcceptsBelowPromise, "one restart"),
    (Mutation::AckBeforeDurability, "two leaders"),
    (Mutation::OwnWriteNotAwaited, "one restart"),
    (Mutation::HeldTakenForAccepted, "two leaders"),
    (Mutation::ChosenWithoutAQuorum, "two leaders"),
    (Mutation::Q2OfTheWrongEra, "a node leaves"),
    (Mutation::LearnedInAnotherTerm, "three leaders"),
    (Mutation::AuxiliaryCountedWithoutBytes, "an auxiliary"),
    (Mutation::CastingVoteWithoutSplit, "a node leaves"),
    (
        Mutation::CastingPromiseNotAwaited,
        "a casting vote, and its leader restarts",
    ),
    (
        Mutation::FinishesBeyondItsEnd,
        "a casting vote, and the permit ends",
    ),
    (Mutation::EraSkipped, "two eras begin"),
    (Mutation::ReconfigureInAnyEra, "a change is asked for twice"),
];

/// What honest nodes with sound disks never do shows in no small world, and reads are in none: each of these rules has a world of
/// its own, in which somebody lies, lost what he wrote, or reads.
const OF_THEIR_OWN: [(Mutation, fn()); 5] = [
    (
        Mutation::ReadWithoutRound,
        rounds::a_read_waits_for_a_round_begun_after_it_and_for_the_slots_phase_one_reported,
    ),
    (
        Mutation::BarrierOfAnotherQuestion,
        rounds::an_answer_to_another_question_counts_for_none,
    ),
    (
        Mutation::HiddenErasForgotten,
        hidden_eras::a_promise_of_an_era_that_is_forgotten_is_taken_for_what_it_proves,
    ),
    (Mutation::TermsOfStrangers, liars::a_stranger_deposes_nobody),
    (
        Mutation::NumbersBelievedFarAhead,
        liars::a_member_that_says_the_highest_number_wedges_nobody,
    ),
];

/// A broken rule is broken in the whole process, so this is one test.
#[test]
fn every_broken_rule_is_found() {
    every_broken_rule_of_safety_is_found();
    every_rule_with_a_world_of_its_own_is_found();
}

fn every_rule_with_a_world_of_its_own_is_found() {
    for (rule, cluster) in OF_THEIR_OWN {
        mutation::select(None);
        mutation::set_asserts(true);
        cluster();
        for asserts in [true, false] {
            mutation::set_asserts(asserts);
            mutation::select(Some(rule));
            let fails = catch_unwind(cluster).is_err();
            println!("{}, asserts {asserts}: seen {fails}", rule.name());
            assert!(fails, "{} is not found in its world", rule.name());
        }
    }
}

fn every_broken_rule_of_safety_is_found() {
    for (rule, name) in RULES {
        for asserts in [true, false] {
            mutation::set_asserts(asserts);
            mutation::select(Some(rule));
            // The world is made anew each time: it remembers the results of its steps.
            let mut worlds = worlds().into_iter();
            let world = worlds.find(|(known, _)| *known == name);
            let (_, world) = world.expect("it is in the list");
            let found = found(&world);
            println!("{}, asserts {asserts}: {name}, {found:?}", rule.name());
            assert!(found.is_some(), "{} is not found where {name}", rule.name());
        }
    }
}
