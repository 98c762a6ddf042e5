//! `logberg-lab all`: every experiment of the three papers, one after the other, and a page of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use bench::report::{Opened, Page, typed};
use clap::Args;
use serde::Serialize;
use terminal::exit::{Failure, Kind};
use terminal::show;
use testbed::scratch::go_on;

use crate::study::paper::kept::Kept;

/// Run every experiment of the three papers, and make one page of them
#[derive(Debug, Args)]
#[command(after_help = "\
Each experiment is a process of its own, keeps its run as JSON in DIR, and ends by itself; one that fails is told in the end, and the others
go on. DIR/index.html is the page of all runs; grids of Zero-copy Paxos have one of their own, too. With --quick all of them take about
half an hour, and without some eleven hours. A machine that does something else meanwhile measures that.

Example:
  logberg-lab all --quick --to runs")]
pub struct Arguments {
    /// Where runs and pages are kept; made if it is not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// At most two minutes each
    #[arg(long)]
    quick: bool,
    /// The orders of turns are drawn from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep files of experiments under this directory, on the disk to be measured [default: the temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Only experiments whose command contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Those whose runs are one format. Grids have their own.
const EXPERIMENTS: [&str; 31] = [
    "ramp size",
    "ramp size --transports tcp,unix,memory,grpc-unary,grpc-stream",
    "ramp size --proposers 2",
    "ramp machines",
    "ramp machines --proposers 2",
    "ramp latency",
    "ramp workload a",
    "ramp workload b",
    "ramp workload c",
    "ramp workload d",
    "ramp workload a --transports tcp,unix,grpc-unary,grpc-stream",
    "ramp workload b --transports tcp,unix,grpc-unary,grpc-stream",
    "ramp workload c --transports tcp,unix,grpc-unary,grpc-stream",
    "ramp workload d --transports tcp,unix,grpc-unary,grpc-stream",
    "zcp stack",
    "zcp batches",
    "mex messages",
    "mex kv",
    "mex kv --phase-one per-batch --transports unix",
    "mex kv --phase-one per-batch --lag 5ms..38ms",
    "mex replicas",
    "mex groups",
    "mex groups --apart",
    "mex clients",
    "mex logging",
    "mex controller",
    "mex fill",
    "mex move",
    "mex move --kill",
    "mex recovery",
    "mex recovery --beside --disk lost,kept",
];
const GRIDS: [&str; 2] = ["zcp grid", "zcp grid --client raw"];
/// A tenth of the grid's cells, which is two minutes; all of them take nine.
const QUICK_CELLS: &str = "5M:1000,20M:20,20M:1000,50M:14,50M:1000,100M:100,100M:1000,150M:200,180M:500,200M:1000,220M:1000";

#[derive(Debug, Serialize)]
struct Told {
    experiment: &'static str,
    /// The run. `None`: it failed.
    kept: Option<PathBuf>,
    checks: usize,
    missed: usize,
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        fs::create_dir_all(&self.to)
            .with_context(|| format!("cannot make {}", self.to.display()))?;
        let program = std::env::current_exe().context("this program's own path is not known")?;
        let all = EXPERIMENTS.into_iter().chain(GRIDS);
        let wanted = |name: &&str| self.only.as_ref().is_none_or(|only| name.contains(&**only));
        let all: Vec<&'static str> = all.filter(wanted).collect();
        if all.is_empty() {
            let sentence =
                "no experiment's command contains that; they are those of `logberg-lab list`";
            return Err(Failure::usage(sentence).into());
        }
        let index = self.to.join("index.html");
        let opened = Opened::at(&index)?;
        let mut told = Vec::new();
        let mut page = Page::of("Lab", &typed(), "every experiment of three papers");
        for (at, experiment) in all.iter().enumerate() {
            go_on()?;
            eprintln!("{} of {}: logberg-lab {experiment}", at + 1, all.len());
            let kept = self.one(&program, experiment)?;
            let run = kept.as_deref().map(Kept::read).transpose()?;
            if let Some(run) = &run {
                run.add_to(&mut page)?;
            }
            let checks = run.as_ref().map_or(&[][..], Kept::checks);
            told.push(Told {
                experiment,
                missed: checks
                    .iter()
                    .filter(|check| check.expectation == "missed")
                    .count(),
                checks: checks.len(),
                kept,
            });
        }
        opened.write(page)?;
        match json {
            true => show::print_json(&told)?,
            false => print(&told, &index)?,
        }
        match told.iter().filter(|one| one.kept.is_none()).count() {
            0 => Ok(()),
            failed => {
                Err(Failure::new(Kind::Failure, format!("{failed} experiments failed")).into())
            }
        }
    }

    /// Returns what it left, if it came to its end.
    fn one(&self, program: &Path, experiment: &'static str) -> Result<Option<PathBuf>> {
        let name = experiment.replace(" --", "-").replace([' ', ','], "-");
        let json = self.to.join(format!("{name}.json"));
        let file =
            File::create(&json).with_context(|| format!("cannot write {}", json.display()))?;
        let mut command = Command::new(program);
        command
            .args(experiment.split(' '))
            .arg("--json")
            .stdout(Stdio::from(file));
        if self.quick {
            command.arg("--quick");
        }
        if let Some(directory) = &self.directory {
            command.arg("--directory").arg(directory);
        }
        let is_grid = GRIDS.contains(&experiment);
        match is_grid {
            true => {
                command
                    .arg("--report")
                    .arg(self.to.join(format!("{name}.html")));
                if self.quick {
                    command.args(["--cells", QUICK_CELLS]);
                }
            }
            false => {
                command.arg("--seed").arg(self.seed.to_string());
            }
        }
        let status = command
            .status()
            .with_context(|| format!("cannot run {}", program.display()))?;
        Ok(status.success().then_some(json))
    }
}

fn print(told: &[Told], index: &Path) -> Result<()> {
    let mut table = show::table(&["EXPERIMENT", "KEPT", "CHECKS", "MISSED"]);
    for one in told {
        let kept = one.kept.as_ref();
        table.add_row([
            one.experiment.into(),
            kept.map_or("failed".into(), |path| path.display().to_string().into()),
            show::number(one.checks),
            show::number(one.missed),
        ]);
    }
    show::print(show::lines(&table))?;
    show::print(format_args!("\nThe page of all runs: {}", index.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Lab;
    use clap::CommandFactory;

    #[test]
    fn every_experiment_is_a_command() {
        for experiment in EXPERIMENTS.into_iter().chain(GRIDS) {
            let words = format!("logberg-lab {experiment} --json --quick");
            let parsed = Lab::command().try_get_matches_from(words.split(' '));
            assert!(parsed.is_ok(), "{experiment}: {}", parsed.unwrap_err());
        }
    }
}
