//! `logberg-lab torture --namespaces`: worlds at random, and whether what is said there is so.
//!
//! ```text
//!   plan ─► strikes, commands ─► places: nodes in namespaces, cables, a disk that fills
//!                                  ▲                     │
//!   load, operator ────────────────┘      claims ◄───────┘  what status and members say, against what is so
//!                                  (while something is wrong, and again when all is healed)
//! ```

mod claims;
mod operator;
mod place;
mod plan;
mod world;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::Arguments;
use super::content::mix;
use super::report::{VIOLATIONS_MAX, print_violations};
use terminal::exit::{Failure, Kind as Exit};
use terminal::show;
use testbed::environment::Machine;
use testbed::namespaces;
use testbed::watch::Watch;
use wire::quantity;
use world::{Outcomes, Settings};

/// A world is not begun for less time than this, unless it is the only one.
const WORLD_MIN: Duration = Duration::from_secs(30);

/// The result of it.
#[derive(Debug, Serialize)]
struct Report {
    minutes: f64,
    seed: u64,
    worlds: u32,
    rounds: u32,
    strikes: BTreeMap<&'static str, u64>,
    /// By the command and what came of it.
    commands: BTreeMap<String, u64>,
    /// How often what nodes said was compared with what was so.
    compared: u64,
    acked_bytes: u64,
    lost_bytes: u64,
    unjustified_reads: u64,
    /// In the histories that were checked.
    operations: u64,
    failovers: u64,
    /// The longest time in which a log's bytes waited and none was acknowledged.
    longest_stall_ms: u64,
    /// The log, and the round in which it ended.
    longest_stall_during: String,
    /// The seeds of the worlds in which something was wrong.
    wrong_worlds: Vec<u64>,
    violations: Vec<String>,
    violations_count: usize,
    /// Data, node logs and histories of the first world in which something was wrong.
    kept: Option<PathBuf>,
    machine: Machine,
}

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<()> {
    if let Some(why) = namespaces::missing() {
        let sentence = format!("torture --namespaces is not possible here: {why}");
        if arguments.where_allowed {
            eprintln!("{sentence}");
            return Ok(());
        }
        return Err(Failure::usage(sentence).into());
    }
    namespaces::enter()?;
    // Three nodes and a fill, of which one disk is sparse; a world's data goes with it.
    let longest = Duration::from_secs(180).as_secs_f64();
    let mut scratch = arguments
        .place
        .make((arguments.rate as f64 * longest * 5.0 * 1.5) as u64 + (2 << 30))?;
    let machine = Machine::look(scratch.path())?;
    let length = Duration::from_secs_f64(arguments.minutes * 60.0);
    let watch = Watch::new(length.as_secs());
    let began = Instant::now();
    let mut report = Report::new(arguments, machine);
    while report.worlds == 0 || began.elapsed() + WORLD_MIN < length {
        let seed = match report.worlds {
            0 => arguments.seed,
            number => mix(arguments.seed ^ mix(u64::from(number))) >> 16,
        };
        let directory = scratch.path().join(format!("world-{seed}"));
        fs::create_dir_all(&directory)?;
        let settings = Settings {
            seed,
            rate: arguments.rate,
            length: length.saturating_sub(began.elapsed()),
            moving: &arguments.moving,
        };
        let before = began.elapsed();
        let outcomes = world::live(&directory, &settings, &watch)?;
        watch.step((began.elapsed() - before).as_secs());
        let wrong = outcomes.is_wrong();
        report.add(seed, outcomes);
        if wrong && report.kept.is_none() {
            report.kept = Some(directory);
        } else {
            scratch.retire(&directory)?;
        }
    }
    drop(watch);
    if let Some(kept) = &mut report.kept {
        let name = kept.file_name().unwrap_or_default().to_owned();
        scratch.keep()?;
        *kept = scratch.path().join(name);
        let at = kept.display();
        eprintln!(
            "To look at what happened: {at}/story.txt (by the clock of the histories), {at}/history/LOG.jsonl,\n\
             {at}/cluster/node-N.log. The same world again: torture --namespaces --seed {}",
            report.wrong_worlds.first().copied().unwrap_or_default()
        );
    }
    match json {
        true => show::print_json(&report)?,
        false => report.print()?,
    }
    report.verdict()
}

impl Outcomes {
    fn is_wrong(&self) -> bool {
        self.lost_bytes > 0 || self.unjustified_reads > 0 || !self.violations.is_empty()
    }
}

impl Report {
    fn new(arguments: &Arguments, machine: Machine) -> Report {
        Report {
            minutes: arguments.minutes,
            seed: arguments.seed,
            worlds: 0,
            rounds: 0,
            strikes: BTreeMap::new(),
            commands: BTreeMap::new(),
            compared: 0,
            acked_bytes: 0,
            lost_bytes: 0,
            unjustified_reads: 0,
            operations: 0,
            failovers: 0,
            longest_stall_ms: 0,
            longest_stall_during: String::new(),
            wrong_worlds: Vec::new(),
            violations: Vec::new(),
            violations_count: 0,
            kept: None,
            machine,
        }
    }

    fn add(&mut self, seed: u64, outcomes: Outcomes) {
        self.worlds += 1;
        if outcomes.is_wrong() {
            self.wrong_worlds.push(seed);
        }
        self.rounds += outcomes.rounds;
        for (name, count) in outcomes.strikes {
            *self.strikes.entry(name).or_default() += count;
        }
        for (name, count) in outcomes.commands {
            *self.commands.entry(name).or_default() += count;
        }
        self.compared += outcomes.compared;
        self.acked_bytes += outcomes.acked_bytes;
        self.lost_bytes += outcomes.lost_bytes;
        self.unjustified_reads += outcomes.unjustified_reads;
        self.operations += outcomes.operations;
        self.failovers += outcomes.failovers;
        let (stall, during) = outcomes.longest_stall;
        if stall.as_millis() as u64 > self.longest_stall_ms {
            self.longest_stall_ms = stall.as_millis() as u64;
            self.longest_stall_during = during;
        }
        self.violations_count += outcomes.violations.len();
        let tell = |sentence| format!("world {seed}: {sentence}");
        self.violations
            .extend(outcomes.violations.into_iter().map(tell));
        self.violations.truncate(VIOLATIONS_MAX);
    }

    fn print(&self) -> Result<()> {
        let mut table = show::table(&["", ""]);
        let mut row = |name: &str, value: String| {
            table.add_row(vec![name.to_owned(), value]);
        };
        row("worlds", format!("{}, {} rounds", self.worlds, self.rounds));
        row(
            "strikes",
            counts(self.strikes.iter().map(|(n, c)| (*n, *c))),
        );
        row(
            "commands",
            counts(self.commands.iter().map(|(n, c)| (n.as_str(), *c))),
        );
        row("acknowledged", quantity::shown(self.acked_bytes));
        row("lost bytes", self.lost_bytes.to_string());
        row("unjustified reads", self.unjustified_reads.to_string());
        row("words compared", self.compared.to_string());
        row("changes of leader", self.failovers.to_string());
        row(
            "longest stall",
            format!(
                "{} ms, {}",
                self.longest_stall_ms, self.longest_stall_during
            ),
        );
        row(
            "worlds with something wrong",
            self.wrong_worlds.len().to_string(),
        );
        row("seed", self.seed.to_string());
        let lines = show::lines(&table);
        show::print(lines.trim_start_matches('\n'))?;
        print_violations(&self.violations, self.violations_count)?;
        show::print(self.machine.sentence())
    }

    fn verdict(&self) -> Result<()> {
        if self.wrong_worlds.is_empty() {
            return Ok(());
        }
        let mut sentence = format!(
            "something is wrong in {}",
            quantity::counted(self.wrong_worlds.len() as u64, "world")
        );
        if self.lost_bytes > 0 {
            sentence = format!(
                "{} acknowledged bytes are lost; {sentence}",
                self.lost_bytes
            );
        }
        Err(Failure::new(Exit::Failure, sentence).into())
    }
}

fn counts<'a>(all: impl Iterator<Item = (&'a str, u64)>) -> String {
    let all: Vec<String> = all.map(|(name, count)| format!("{count} {name}")).collect();
    all.join(", ")
}
