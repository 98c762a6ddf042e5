//! The same contract: scripts of ops on the real kernel, with and without io_uring, and on the simulated one.
//!
//! What is found in the simulator is only as true as the simulated kernel. Every script in
//! `testdata/contract` is performed by one machine on both, the simulated one under many seeds, and
//!
//! 1. every outcome, on either, is one that the script names;
//! 2. what the real kernel showed is among what the seeds showed: the simulation leaves it no way
//!    to surprise us;
//! 3. every outcome that a script names was seen by some seed: the script promises no freedom that
//!    nobody takes.
//!
//! `performer` says what is made equal before it is compared.

mod kernels;
mod outcome;
mod performer;
mod random;
mod script;
mod startup;

use std::collections::BTreeSet;

use kernels::{on_linux, on_sim};
use linux::{Ink, Mover};
use script::Script;

const SEEDS: u64 = 16;

/// Auto is the ring where there is one.
pub const KERNELS: [(Mover, Ink); 5] = [
    (Mover::Direct, Ink::Disk),
    (Mover::Splice, Ink::Disk),
    (Mover::Auto, Ink::Disk),
    (Mover::Direct, Ink::Ram),
    (Mover::Auto, Ink::Pmem),
];

/// What is wrong with a script's outcomes, if anything.
fn compare(script: &Script) -> Vec<String> {
    let mut wrong = Vec::new();
    let simulated: Vec<Vec<String>> = (0..SEEDS).map(|seed| on_sim(script, seed)).collect();
    let real = KERNELS.map(|(mover, ink)| ((mover, ink), on_linux(script, mover, ink)));
    if real.iter().any(|(_, outcomes)| outcomes.is_none()) {
        eprintln!(
            "{}: not on every real kernel: memory cannot be filled, and a small disk needs more rights",
            script.title
        );
    }
    for (at, line) in script.lines.iter().enumerate() {
        if line.expected.is_empty() {
            continue;
        }
        let mut seen = BTreeSet::new();
        for (seed, outcomes) in simulated.iter().enumerate() {
            let outcome = &outcomes[at];
            if seen.insert(outcome) && !line.expected.contains(outcome) {
                wrong.push(format!(
                    "`{line}` is {outcome:?} in the simulation (seed {seed})"
                ));
            }
        }
        for ((mover, ink), outcomes) in &real {
            let Some(outcome) = outcomes.as_ref().map(|outcomes| &outcomes[at]) else {
                continue;
            };
            if !line.expected.contains(outcome) {
                wrong.push(format!(
                    "`{line}` is {outcome:?} on the real kernel ({mover}, {ink})"
                ));
            } else if !seen.contains(outcome) {
                wrong.push(format!(
                    "`{line}`: no seed shows the real kernel's {outcome:?} ({mover}, {ink})"
                ));
            }
        }
        for expected in &line.expected {
            if !seen.contains(expected) {
                wrong.push(format!("`{line}` is never {expected:?} in the simulation"));
            }
        }
    }
    wrong
}

fn hold(text: &str, scripts_min: usize) {
    let scripts = Script::read_all(text);
    assert!(scripts.len() >= scripts_min, "only {}", scripts.len());
    let mut wrong = Vec::new();
    for script in &scripts {
        for what in compare(script) {
            wrong.push(format!("{}: {what}", script.title));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn files_and_names() {
    hold(include_str!("../../testdata/contract/files.script"), 17);
}

#[test]
fn connections() {
    hold(include_str!("../../testdata/contract/sockets.script"), 40);
}

#[test]
fn letters_work_and_the_clock() {
    hold(include_str!("../../testdata/contract/letters.script"), 10);
}
