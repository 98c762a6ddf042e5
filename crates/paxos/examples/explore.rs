//! Visits every state of a small world, and says how many there are.
//!
//! ```text
//! cargo run --release -p logberg-paxos --example explore -- --members 1,1,1 --elections 1,1,0 --values 1,1,0
//! cargo run --release -p logberg-paxos --example explore -- --help
//! ```
//!
//! `tests/all/small` has the worlds, their steps and what is checked.

/// The worlds are those of the tests, which call it so.
extern crate logberg_paxos as paxos;

#[path = "../tests/all/small/mod.rs"]
mod small;

use std::process::ExitCode;
use std::time::Instant;

use paxos::{Change, NodeId};
use small::{Rule, Small};
use stateright::{Checker, Model};

const HELP: &str = "\
--members W,W,..    weight of each node in the first era; 0: no member          1,1,1
--auxiliary NODE    votes and never leads                                       none
--elections N,N,..  how often each may stand                                    1,1,0
--values N,N,..     how often each one's client gives something                 1,1,0
--bytes N           each time so many bytes; 0: an action                       0
--slots N           nothing new is proposed at or above this slot               2
--change inc:NODE | dec:NODE | mul:N       a reconfiguration, once              none
--changes N         so often                                                    1
--window N          so many bytes may be proposed and not chosen                64
--begun             node 1 is elected, and has proposed the reconfiguration
--impatient         every change names the era in which the first was asked for
--restarts N,N,..   how often each may restart                                  0,0,0
--restarts-max N    and all together                                            sum
--tells N           how often heartbeats tell what is chosen                    0
--break promises | acceptances | waiting   to see that it is found             none
--keep-the-dead     also messages that can change nothing any more
--states-max N      stop there                                                  50000000
--threads N                                                                     2
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    if arguments.iter().any(|argument| argument == "--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let list = |name: &str, default: &str| -> Vec<u32> {
        let text = value(name).unwrap_or_else(|| default.to_string());
        text.split(',').map(|n| number(name, n)).collect()
    };
    let one = |name: &str, default: u32| value(name).map_or(default, |n| number(name, &n));
    let weights = list("--members", "1,1,1");
    let nodes = weights.len();
    let full = |mut list: Vec<u32>| {
        list.resize(nodes, 0);
        list
    };
    let restarts = full(list("--restarts", "0"));
    let world = Small {
        elections: full(list("--elections", "1,1")),
        values: full(list("--values", "1,1")),
        bytes: u64::from(one("--bytes", 0)),
        slots: u64::from(one("--slots", 2)),
        change: value("--change").map(|change| self::change(&change)),
        changes: one("--changes", 1),
        impatient: arguments.iter().any(|a| a == "--impatient"),
        window: u64::from(one("--window", 64)),
        begun: arguments.iter().any(|a| a == "--begun"),
        restarts_max: one("--restarts-max", restarts.iter().sum()),
        restarts,
        tells: one("--tells", 0),
        rule: value("--break").map(|rule| self::rule(&rule)),
        weights,
        auxiliary: value("--auxiliary").map(|n| NodeId(number("--auxiliary", &n))),
        keeps_the_dead: arguments.iter().any(|a| a == "--keep-the-dead"),
        memory: small::memory::Memory::default(),
    };
    println!("{world:?}");
    let states_max = one("--states-max", 50_000_000) as usize;
    let started = Instant::now();
    let checker = world.checker().threads(one("--threads", 2) as usize);
    let checker = checker.target_state_count(states_max).spawn_bfs().join();
    let whole = match checker.state_count() < states_max {
        true => "all of them",
        false => "not all of them",
    };
    println!("{:?}", checker.model().memory);
    println!(
        "{} states, {whole}; at most {} steps deep; {:.1?}",
        checker.unique_state_count(),
        checker.max_depth(),
        started.elapsed()
    );
    let mut broken = false;
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        let always = matches!(property.expectation, stateright::Expectation::Always);
        match (always, &found) {
            (true, None) => println!("holds   {}", property.name),
            (false, Some(path)) => {
                println!(
                    "seen    {} ({} steps)",
                    property.name,
                    path.clone().into_vec().len()
                );
            }
            (false, None) => println!("NEVER   {}", property.name),
            (true, Some(path)) => {
                broken = true;
                println!("BROKEN  {}", property.name);
                for (state, step) in path.clone().into_vec() {
                    match step {
                        Some(step) => println!("        {step:?}"),
                        None => println!("        => {state:?}"),
                    }
                }
            }
        }
    }
    match broken {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn number(name: &str, text: &str) -> u32 {
    text.parse()
        .unwrap_or_else(|_| usage(&format!("{name} wants numbers, not {text}")))
}

fn change(text: &str) -> Change {
    let (what, of) = text.split_once(':').unwrap_or((text, ""));
    let of = number("--change", of);
    match what {
        "inc" => Change::Increment(NodeId(of)),
        "dec" => Change::Decrement(NodeId(of)),
        "mul" => Change::Multiply(of),
        _ => usage("--change wants inc:NODE, dec:NODE or mul:N"),
    }
}

fn rule(text: &str) -> Rule {
    match text {
        "promises" => Rule::PromisesAreForgotten,
        "acceptances" => Rule::AcceptancesAreForgotten,
        "waiting" => Rule::NothingIsAwaited,
        _ => usage("--break wants promises, acceptances or waiting"),
    }
}

fn usage(text: &str) -> ! {
    eprintln!("{text}\n\n{HELP}");
    std::process::exit(2)
}
