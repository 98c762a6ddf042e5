//! `logberg-lab torture --rests N`: what operators were answered outlives every node.
//!
//! ```text
//!   narrow, widen ─► the last command of log 0 ─► append ─► rest ─► kill -9 of all ─► start
//!         ▲                                                                             │
//!         └──────────── every byte is there, the directory says the same ◄──────────────┘
//! ```
//!
//! The rest matters: the last command of a quiet log is durable everywhere, and no record says that it is
//! chosen. A node that starts on such a disk reads a directory that ends before it.

mod round;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::Arguments;
pub use round::Last;
use round::Rounds;
use terminal::exit::{Failure, Kind as Exit};
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::environment::Machine;
use testbed::scratch::go_on;
use testbed::watch::Watch;
use wire::quantity;

const READY_MAX: Duration = Duration::from_secs(60);

/// The result of it.
#[derive(Debug, Serialize)]
struct Report {
    rounds: u32,
    rest_ms: u64,
    nodes: u32,
    seed: u64,
    acked_bytes: u64,
    /// Acknowledged and not there after a start, or other bytes there.
    lost_bytes: u64,
    /// After whose start bytes were lost, or the directory said something else than was answered.
    wrong_rounds: u32,
    /// The number of rounds by the last command of log 0.
    last_commands: BTreeMap<&'static str, u32>,
    /// From the start of all processes until all took part in all logs again: the longest.
    longest_start_ms: u64,
    violations: Vec<String>,
    /// Data and node logs, if something was wrong or they were to be kept.
    kept: Option<PathBuf>,
    machine: Machine,
}

pub(super) fn run(arguments: &Arguments, rounds: u32, json: bool) -> Result<()> {
    // Narrow retention forgets most of each round's bytes in the next one; what new logs hold stays.
    let bytes = arguments.append * u64::from(rounds) * u64::from(arguments.nodes) * 2;
    let mut scratch = arguments.place.make(bytes + (256 << 20))?;
    let machine = Machine::look(scratch.path())?;
    let outcome = torture(arguments, rounds, scratch.path(), machine);
    let keep = match &outcome {
        Ok(report) => report.wrong_rounds > 0,
        // Somebody who ended it does not want to look at it.
        Err(_) => go_on().is_ok(),
    };
    if keep {
        scratch.keep()?;
        let at = scratch.path().display();
        eprintln!(
            "To look at what happened: {at}/cluster/node-N.log, logberg verify {at}/cluster/node-N"
        );
    }
    let mut report = outcome?;
    report.kept = keep.then(|| scratch.path().to_owned());
    match json {
        true => show::print_json(&report)?,
        false => report.print()?,
    }
    report.verdict()
}

fn torture(
    arguments: &Arguments,
    rounds: u32,
    directory: &Path,
    machine: Machine,
) -> Result<Report> {
    let watch = Watch::new(u64::from(rounds));
    watch.says("starting");
    let cluster = LocalCluster::start(LocalOptions {
        arguments: arguments.moving.arguments(),
        program: arguments.program.clone(),
        ..LocalOptions::new(directory.join("cluster"), arguments.nodes)
    })?;
    cluster.wait_ready(READY_MAX)?;
    let mut all = Rounds::new(&cluster, arguments.seed, arguments.append, arguments.rest);
    let in_turn = match arguments.last.is_empty() {
        true => Last::in_turn(),
        false => arguments.last.clone(),
    };
    let mut last_commands = BTreeMap::new();
    let mut wrong_rounds = 0;
    for (number, last) in (1..=rounds).zip(in_turn.into_iter().cycle()) {
        watch.says(format!("round {number}: {}", last.name()));
        let before = all.violations.len();
        all.round(number, last, &watch)?;
        *last_commands.entry(last.name()).or_default() += 1;
        if all.violations.len() > before {
            wrong_rounds += 1;
            for violation in &all.violations[before..] {
                watch.note(format!("round {number}: {violation}"));
            }
        }
        watch.step(1);
    }
    cluster.end();
    Ok(Report {
        rounds,
        rest_ms: arguments.rest.as_millis() as u64,
        nodes: arguments.nodes,
        seed: arguments.seed,
        acked_bytes: all.acked_bytes,
        lost_bytes: all.lost_bytes,
        wrong_rounds,
        last_commands,
        longest_start_ms: all.longest_start.as_millis() as u64,
        violations: all.violations,
        kept: None,
        machine,
    })
}

impl Report {
    fn print(&self) -> Result<()> {
        let mut table = show::table(&["", ""]);
        let mut row = |name: &str, value: String| {
            table.add_row(vec![name.to_owned(), value]);
        };
        let commands = self.last_commands.iter();
        let commands: Vec<String> = commands
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        row(
            "rounds",
            format!("{}: {}", self.rounds, commands.join(", ")),
        );
        row("rounds with something wrong", self.wrong_rounds.to_string());
        row("acknowledged", quantity::shown(self.acked_bytes));
        row("lost bytes", self.lost_bytes.to_string());
        row("longest start", format!("{} ms", self.longest_start_ms));
        let lines = show::lines(&table);
        show::print(lines.trim_start_matches('\n'))?;
        for violation in self.violations.iter().take(10) {
            show::print(violation)?;
        }
        if self.violations.len() > 10 {
            show::print(format!("and {} more", self.violations.len() - 10))?;
        }
        show::print(self.machine.sentence())
    }

    /// An error unless all was as it must be.
    fn verdict(&self) -> Result<()> {
        let sentence = match (self.lost_bytes, self.wrong_rounds) {
            (0, 0) => return Ok(()),
            (0, rounds) => format!("after {rounds} starts the cluster said what cannot be"),
            (bytes, rounds) => {
                format!("{bytes} acknowledged bytes are lost, in {rounds} rounds")
            }
        };
        Err(Failure::new(Exit::Failure, sentence).into())
    }
}
