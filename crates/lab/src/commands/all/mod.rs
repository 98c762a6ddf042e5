//! `logberg-lab all`: every experiment of the three papers, one after the other, and a page of them.

mod child;
mod experiments;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bench::report::{Opened, Page, typed};
use clap::Args;
use terminal::exit::{Failure, Kind};
use terminal::show;
use testbed::scratch::{go_on, watch_signals};

use child::{End, Setting, Told};
use experiments::{ALL, Experiment};

/// Run every experiment of the three papers, and make one page of them
#[derive(Debug, Args)]
#[command(after_help = "\
Each experiment is a process of its own, in order of value, keeps its run in DIR as docs/runs has them (NAME.json.gz), and ends by itself; one
that fails is told in the end, and the others go on. Ctrl-C ends the one that runs, which keeps what it had and says so, and the page is made of
those before. DIR/index.html is the page of all runs; grids of Zero-copy Paxos have one of their own, too. All of them take some 100 minutes,
and with --quick some half an hour. A machine that does something else meanwhile measures that.

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
    /// Only experiments whose command or file contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        watch_signals()?;
        fs::create_dir_all(&self.to)
            .with_context(|| format!("cannot make {}", self.to.display()))?;
        let program = std::env::current_exe().context("this program's own path is not known")?;
        let wanted = self.wanted()?;
        let index = self.to.join("index.html");
        let opened = Opened::at(&index)?;
        let mut page = Page::of("Lab", &typed(), "every experiment of three papers");
        let setting = Setting {
            program: &program,
            to: &self.to,
            quick: self.quick,
            seed: self.seed,
            directory: self.directory.as_deref(),
        };
        let mut told: Vec<Told> = Vec::new();
        for (at, experiment) in wanted.iter().enumerate() {
            if go_on().is_err() {
                break;
            }
            let of = wanted.len();
            eprintln!("{} of {of}: logberg-lab {}", at + 1, experiment.command);
            let (one, kept) = setting.run(experiment)?;
            eprintln!(
                "{} of {of}: {} after {} s",
                at + 1,
                word(one.end),
                one.seconds
            );
            if let Some(kept) = kept {
                kept.add_to(&mut page)?;
            }
            told.push(one);
        }
        opened.write(page)?;
        match json {
            true => show::print_json(&told)?,
            false => print(&told, &index)?,
        }
        match ended(&told, wanted.len()) {
            None => Ok(()),
            Some(sentence) => Err(Failure::new(Kind::Failure, sentence).into()),
        }
    }

    fn wanted(&self) -> Result<Vec<&'static Experiment>> {
        let is_wanted = |one: &&Experiment| match &self.only {
            None => true,
            Some(only) => one.command.contains(&**only) || one.name.contains(&**only),
        };
        let wanted: Vec<&Experiment> = ALL.iter().filter(is_wanted).collect();
        match wanted.is_empty() {
            true => {
                let sentence =
                    "no experiment's command contains that; they are those of `logberg-lab list`";
                Err(Failure::usage(sentence).into())
            }
            false => Ok(wanted),
        }
    }
}

/// A sentence on the experiments that are not whole. `None`: all are.
fn ended(told: &[Told], wanted: usize) -> Option<String> {
    let failed = told.iter().filter(|one| one.end == End::Failed);
    let failed: Vec<&str> = failed.map(|one| &*one.experiment).collect();
    let whole = told.iter().filter(|one| one.end == End::Whole).count();
    match (whole == wanted, failed.is_empty()) {
        (true, _) => None,
        (false, true) => Some(format!("{whole} of {wanted} experiments came to their end")),
        (false, false) => Some(format!(
            "{whole} of {wanted} experiments came to their end; these failed: {}",
            failed.join("; ")
        )),
    }
}

fn word(end: End) -> &'static str {
    match end {
        End::Whole => "whole",
        End::Interrupted => "ended before its end",
        End::Failed => "failed",
    }
}

fn print(told: &[Told], index: &Path) -> Result<()> {
    let mut table = show::table(&["EXPERIMENT", "TOOK", "END", "KEPT", "CHECKS", "MISSED"]);
    for one in told {
        let kept = one.kept.as_ref().map(|path| path.display().to_string());
        table.add_row([
            one.experiment.clone().into(),
            show::number(format!("{} s", one.seconds)),
            word(one.end).into(),
            kept.unwrap_or_default().into(),
            show::number(one.checks),
            show::number(one.missed),
        ]);
    }
    show::print(show::lines(&table))?;
    let seconds: f64 = told.iter().map(|one| one.seconds).sum();
    let minutes = (seconds / 60.0).round();
    show::print(format_args!(
        "\nThe page of all runs: {}; they took {minutes} min",
        index.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(end: End) -> Told {
        Told {
            experiment: "ramp size".to_owned(),
            end,
            seconds: 1.0,
            kept: None,
            checks: 0,
            missed: 0,
        }
    }

    #[test]
    fn what_failed_and_what_was_ended_is_told_in_the_end() {
        assert_eq!(ended(&[told(End::Whole)], 1), None);
        let some = ended(&[told(End::Whole), told(End::Failed)], 3).expect("a sentence");
        assert!(some.contains("1 of 3") && some.ends_with("failed: ramp size"));
        let some = ended(&[told(End::Interrupted)], 2).expect("a sentence");
        assert_eq!(some, "0 of 2 experiments came to their end");
    }
}
