//! `logberg-lab paper`: fills the blocks of docs/paper.md and docs/lab.md from the runs that are kept beside them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use terminal::exit::{Failure, Kind};
use terminal::show;

use crate::study::paper::Paper;

/// Fill the tables and figures of docs/paper.md, and the verdicts of docs/lab.md, from the runs in docs/runs
#[derive(Debug, Args)]
#[command(after_help = "\
The prose is written by hand. Between <!-- table RUN WHAT --> and <!-- end --> stands a table of the run docs/runs/RUN.json.gz, between
<!-- figure RUN WHAT --> and <!-- end --> its plots, which are drawn into docs/figures. WHAT is a row of the catalogue (Z4, R22), or
checks, times, rates, ratios, counts or groups; a third word is a quantile (times p99), a number or a name of one of several
(figure zcp-grid Z8 100MBs), or all (times all). Of what a bench printed with --json there are values, or those below a key
(table bench-auxiliary values figures). Between <!-- verdicts PREFIX --> and <!-- end --> stand the checks of all runs PREFIX-…. Each block ends with the run's file, its command, its commit and its machine.
A test holds the pages to what their runs give.

Example: after a run was kept
  logberg-lab ramp size --json | gzip -9 > docs/runs/ramp-size.json.gz
  logberg-lab paper")]
pub struct Arguments {
    /// The directory of paper.md, lab.md, runs and figures
    #[arg(long, value_name = "DIR", default_value = "docs")]
    docs: PathBuf,
    /// Write nothing, and end with 1 if a page is not what its runs give
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Serialize)]
struct Told {
    blocks: usize,
    figures: usize,
    /// Files that were not what the runs give.
    changed: Vec<String>,
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let paper = Paper::at(&self.docs);
        let filled = paper.filled()?;
        let mut changed = Vec::new();
        let pages = paper.pages()?;
        let is_new = |(name, text): &(&&'static str, &String)| pages.get(**name) != Some(*text);
        let new: Vec<(&&'static str, &String)> = filled.pages.iter().filter(is_new).collect();
        changed.extend(new.iter().map(|(name, _)| (**name).to_owned()));
        let drawn = paper.drawn()?;
        let is_new = |name: &&String| drawn.get(*name) != filled.figures.get(*name);
        let mut figures: Vec<&String> = drawn.keys().chain(filled.figures.keys()).collect();
        figures.sort();
        figures.dedup();
        figures.retain(is_new);
        changed.extend(figures.iter().map(|name| format!("figures/{name}")));
        if !self.check && !changed.is_empty() {
            let directory = paper.figures();
            let written = || -> std::io::Result<()> {
                fs::create_dir_all(&directory)?;
                for name in &figures {
                    match filled.figures.get(*name) {
                        Some(svg) => fs::write(directory.join(name), svg)?,
                        // No block shows it any more.
                        None => fs::remove_file(directory.join(name))?,
                    }
                }
                for (name, text) in &new {
                    fs::write(self.docs.join(name), text)?;
                }
                Ok(())
            };
            written().with_context(|| format!("cannot write to {}", self.docs.display()))?;
        }
        let told = Told {
            blocks: filled.blocks,
            figures: filled.figures.len(),
            changed,
        };
        match json {
            true => show::print_json(&told)?,
            false => show::print(told.sentence(self.check))?,
        }
        match self.check && !told.changed.is_empty() {
            true => {
                let sentence = "a page is not what its runs give: say logberg-lab paper";
                Err(Failure::new(Kind::Failure, sentence).into())
            }
            false => Ok(()),
        }
    }
}

impl Told {
    fn sentence(&self, is_check: bool) -> String {
        let changed = match (&self.changed[..], is_check) {
            ([], _) => "nothing has changed".to_owned(),
            (changed, true) => format!("not what the runs give: {}", changed.join(", ")),
            (changed, false) => format!("written: {}", changed.join(", ")),
        };
        format!(
            "{} blocks, {} figures; {changed}",
            self.blocks, self.figures
        )
    }
}
