//! Runs that are kept: what an experiment printed with `--json`, perhaps compressed.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use bench::report::Page;
use flate2::read::GzDecoder;
use serde_json::Value;
use terminal::exit::{Failure, Kind};

use super::values;
use crate::study::run::{Checked, Circumstances, FORMAT, Program, Run};
use crate::study::zcp::report::{BENCH, Report};

/// A run, or a grid or a bench, which have objects of their own.
pub enum Kept {
    Run(Box<Run>),
    Grid(Box<Report>),
    Bench(Box<Bench>),
}

/// The object that a bench printed with `--json`.
pub struct Bench {
    pub name: String,
    pub said: Value,
}

impl Bench {
    /// As other runs say it.
    pub fn machine(&self) -> String {
        let machine = &self.said["machine"];
        let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
        format!(
            "{}: {} cores, {} GiB, Linux {}, {}, {}, load before {}",
            text("at"),
            machine["cores"],
            machine["memory_bytes"].as_u64().unwrap_or(0) >> 30,
            text("kernel"),
            text("filesystem"),
            text("congestion"),
            machine["load_before"]
        )
    }
}

/// More than any run is.
const BYTES_MAX: u64 = 256 << 20;

impl Kept {
    /// Errors: a file that is no run, with what to keep instead.
    pub fn read(path: &Path) -> Result<Kept> {
        let shown = path.display();
        let file = File::open(path).with_context(|| {
            format!("there is no run {shown}: keep what an experiment prints with --json there")
        })?;
        let mut text = String::new();
        let read = match path.extension().is_some_and(|extension| extension == "gz") {
            true => GzDecoder::new(file)
                .take(BYTES_MAX)
                .read_to_string(&mut text),
            false => file.take(BYTES_MAX).read_to_string(&mut text),
        };
        read.with_context(|| format!("cannot read {shown}"))?;
        let found: Value = serde_json::from_str(&text).map_err(|error| no_run(path, &error))?;
        if found["bench"] == BENCH {
            let grid = serde_json::from_value(found).map_err(|error| no_run(path, &error))?;
            return Ok(Kept::Grid(grid));
        }
        if let (Some(name), true) = (found["bench"].as_str(), found["machine"].is_object()) {
            let name = name.to_owned();
            return Ok(Kept::Bench(Box::new(Bench { name, said: found })));
        }
        if let Some(format) = found["format"].as_str().filter(|format| *format != FORMAT) {
            let sentence =
                format!("{shown} is of format {format:?}, and this program reads {FORMAT}");
            return Err(Failure::new(Kind::Refused, sentence).into());
        }
        let run = serde_json::from_value(found).map_err(|error| no_run(path, &error))?;
        Ok(Kept::Run(run))
    }

    /// `None`: a bench, which says neither its arguments nor its program.
    pub fn circumstances(&self) -> Option<(&Circumstances, &Program)> {
        match self {
            Kept::Run(run) => Some((&run.run, &run.program)),
            Kept::Grid(grid) => Some((&grid.run, &grid.program)),
            Kept::Bench(_) => None,
        }
    }

    pub fn checks(&self) -> &[Checked] {
        match self {
            Kept::Run(run) => &run.checks,
            Kept::Grid(grid) => &grid.checks,
            Kept::Bench(_) => &[],
        }
    }

    pub fn add_to(&self, page: &mut Page) -> Result<()> {
        match self {
            Kept::Run(run) => run.add_to(page),
            Kept::Grid(grid) => grid.add_to(page),
            Kept::Bench(bench) => {
                page.heading(&format!("bench {}", bench.name));
                page.text(&bench.machine());
                if let Some(table) = values::of(&bench.said, None) {
                    page.table(&table.headings, &table.rows);
                }
                Ok(())
            }
        }
    }
}

fn no_run(path: &Path, error: &serde_json::Error) -> Failure {
    let sentence = format!(
        "{} is no run of the lab ({error}): keep what an experiment prints with --json",
        path.display()
    );
    Failure::new(Kind::Usage, sentence)
}
