//! Rules of recovery broken one at a time: the search of small disks finds each.
//!
//! `cargo test -p store --features mutations --test small_disks_mutations -- --nocapture` prints the rows of
//! docs/mutations.md.

#[path = "store/kernel/mod.rs"]
mod kernel;

#[path = "small_disks/blocks.rs"]
mod blocks;
#[path = "small_disks/judge.rs"]
mod judge;
#[path = "small_disks/scripts.rs"]
mod scripts;
#[path = "small_disks/search.rs"]
mod search;
#[path = "small_disks/writer.rs"]
mod writer;

use paxos::mutation::{self, Mutation};
use search::{Budget, search, search_life};

const BROKEN: [Mutation; 12] = [
    Mutation::CorruptReadAsAbsent,
    Mutation::StaleRecordParsed,
    Mutation::UnreadableReadAsAbsent,
    Mutation::TestimonyOfTheUnbornIgnored,
    Mutation::OlderFirstBlockBelieved,
    Mutation::AnySaltBelieved,
    Mutation::DoubtWithoutBound,
    Mutation::GapForgotten,
    Mutation::ChosenOverAGap,
    Mutation::LostPromiseForgotten,
    Mutation::LostActionTakenForLostBytes,
    Mutation::ContinuedWithoutRest,
];

/// The writer's mutations, which make another life with the rule broken.
const BROKEN_IN_LIFE: [Mutation; 1] = [Mutation::LateWriteNotAwaited];

#[test]
fn each_broken_rule_of_recovery_is_found_on_a_small_disk() {
    // The lives come first, so that the disks are what they are with no rule broken.
    let scripts = scripts::all();
    let lives: Vec<_> = scripts.iter().map(writer::live).collect();
    let mut missed = Vec::new();
    for broken in BROKEN.into_iter().chain(BROKEN_IN_LIFE) {
        mutation::select(Some(broken));
        let in_life = BROKEN_IN_LIFE.contains(&broken);
        let broken_lives: Vec<_> = scripts
            .iter()
            .filter(|_| in_life)
            .map(writer::live)
            .collect();
        let lives = match in_life {
            true => &broken_lives,
            false => &lives,
        };
        let mut counts = search::Counts::default();
        let mut found = None;
        for (script, life) in scripts.iter().zip(lives) {
            match search_life(script, life, Budget::SMALL) {
                Ok(of_script) => counts.add(&of_script),
                Err((states, counterexample)) => {
                    counts.states += states;
                    found = Some((script.name, counterexample));
                    break;
                }
            }
        }
        mutation::select(None);
        match found {
            Some((name, counterexample)) => {
                println!("| `{}` | {name} | {} |", broken.name(), counts.states);
                println!("{counterexample}");
            }
            None => missed.push(broken.name()),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
    assert!(search(&scripts[0], Budget::SMALL).is_ok());
}
