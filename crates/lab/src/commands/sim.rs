//! `logberg-lab sim`: the nodes of this very build in a simulated world, one world per seed.

mod mutations;
mod report;
mod search;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ::sim::Scenario;
use ::sim::workload::{self, FaultSet, Lines, Options, Violation, script};
use anyhow::{Context, Result};
use clap::Args;

use crate::global::Global;
use report::Summary;
use terminal::exit::{Failure, Kind};
use terminal::show;

/// Search for mistakes: this build's nodes in simulated worlds
#[derive(Debug, Args)]
#[command(after_help = "\
Each seed is a world of its own: nodes over disks, networks and clocks that fail as the seed says,
writers and readers that know what they were promised, and checks after every step. A seed is the
whole story: it gives the same run on every machine. Ends with 1 if anything was wrong, and then
says how to see it again.

Examples:
  logberg-lab sim --seeds 0..1000 --jobs 2
  logberg-lab sim --seeds 0..1000 --faults kill,pause,losses --json
  logberg-lab sim --seed 17 --trace
  logberg-lab sim --seed 17 --save found.toml
  logberg-lab sim --script found.toml --trace")]
pub struct Arguments {
    /// The seeds to run, from A up to but not including B
    #[arg(long, value_name = "A..B", default_value = "0..100", value_parser = seeds)]
    #[arg(conflicts_with_all = ["seed", "script"])]
    seeds: Range<u64>,
    /// One seed only
    #[arg(long, value_name = "N", conflicts_with = "script")]
    seed: Option<u64>,
    /// Replay what a file says, as --save wrote it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["steps", "faults"])]
    script: Option<PathBuf>,
    /// Let each seed do harm for so many steps at most (a step: one message, completion or timer
    /// that a node handles)
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Which faults may happen: all, none, or names separated by commas
    #[arg(long, value_name = "SET", default_value = "all")]
    faults: String,
    /// How many seeds to run at the same time, each on a thread of its own
    #[arg(long, value_name = "J", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Print everything that happens, to standard error (one seed or script)
    #[arg(long)]
    trace: bool,
    /// Write the run as a script: what is left of it after shrinking if it fails (one seed or script)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How many runs to spend on making a failing one smaller
    #[arg(long, value_name = "RUNS", default_value_t = 100)]
    shrink: u32,
    #[command(flatten)]
    mutations: mutations::Arguments,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || "a range of seeds, such as 0..1000".to_owned();
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let range = first.parse().map_err(|_| wrong())?..end.parse().map_err(|_| wrong())?;
    match range.is_empty() {
        true => Err(wrong()),
        false => Ok(range),
    }
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        if self.mutations.are_searched() {
            let seeds = self.seeds.clone();
            return self.mutations.search(seeds, self.jobs, global);
        }
        let _broken = self.mutations.begin()?;
        let faults: FaultSet = match self.faults.parse() {
            Ok(faults) => faults,
            Err(error) => return Err(Failure::usage(format!("{error}")).into()),
        };
        let options = |seed| Options {
            seed,
            steps_max: self.steps,
            faults: faults.clone(),
        };
        let one = match (&self.script, self.seed) {
            (Some(path), _) => Some(read_script(path)?),
            (None, Some(seed)) => Some(options(seed).scenario()),
            (None, None) => None,
        };
        let summary = match one {
            Some(scenario) => self.look_at(&scenario)?,
            None if self.trace || self.save.is_some() => {
                let sentence = "--trace and --save are for one run: say --seed N or --script FILE";
                return Err(Failure::usage(sentence).into());
            }
            None => search::run(self.seeds.clone(), self.jobs, global.json, |seed| {
                workload::run(&options(seed))
            })?,
        };
        match global.json {
            true => show::print_json(&summary.json())?,
            false => show::print(summary.text())?,
        }
        let Some(first) = summary.first_violation() else {
            let all = self.seeds.end - self.seeds.start;
            if self.script.is_none() && self.seed.is_none() && summary.seeds() < all {
                let sentence = format!("interrupted after {} of {all} seeds", summary.seeds());
                return Err(Failure::new(Kind::Failure, sentence).into());
            }
            return Ok(());
        };
        if !global.json {
            eprintln!("replay: {}", self.replay(first));
            if self.script.is_none() && self.seed.is_none() {
                eprintln!(
                    "make it smaller and keep it: {} --save FILE",
                    self.replay_of(first)
                );
            }
        }
        let count = summary.violations();
        let sentence = format!(
            "{count} of {} runs showed a mistake; the first: {first}",
            summary.seeds()
        );
        Err(Failure::new(Kind::Failure, sentence).into())
    }

    /// One run, by its seed or a script.
    fn look_at(&self, scenario: &Scenario) -> Result<Summary> {
        let lines = match self.trace {
            true => Lines::Print,
            false => Lines::Nowhere,
        };
        let mut summary = Summary::begin();
        let (outcome, _) = workload::look_at(scenario, lines);
        let mut left = scenario.clone();
        if let (Err(violation), Some(_)) = (&outcome, &self.save) {
            let shrunk = workload::shrink(scenario, violation, self.shrink);
            left = shrunk.scenario;
            self.write_script(&left, Some(&shrunk.violation))?;
        } else {
            self.write_script(&left, None)?;
        }
        summary.add(outcome);
        Ok(summary.end())
    }

    fn write_script(&self, scenario: &Scenario, shows: Option<&Violation>) -> Result<()> {
        let Some(path) = &self.save else {
            return Ok(());
        };
        let text = script::write(scenario, shows);
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The one line that shows it again.
    fn replay(&self, violation: &Violation) -> String {
        self.replay_of(violation) + " --trace"
    }

    fn replay_of(&self, violation: &Violation) -> String {
        if let Some(path) = &self.script {
            return format!("logberg-lab sim --script {}", path.display());
        }
        let mut line = format!("logberg-lab sim --seed {}", violation.seed);
        if let Some(steps) = self.steps {
            line += &format!(" --steps {steps}");
        }
        if self.faults != "all" {
            line += &format!(" --faults {}", self.faults);
        }
        line
    }
}

fn read_script(path: &Path) -> Result<Scenario> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    script::read(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_seeds_has_two_ends() {
        assert_eq!(seeds("3..10"), Ok(3..10));
        for wrong in ["", "7", "10..3", "4..4", "a..b"] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }
}
