//! `logberg-lab list`, `show`, `report`: the catalogue of the papers, and pages of runs that were kept.

use std::path::PathBuf;

use anyhow::Result;
use bench::report::{self, Page, typed};
use clap::Args;
use serde::Serialize;
use terminal::exit::{Failure, Kind};
use terminal::show;

use crate::study::catalogue::{self, Check, Paper, Row};
use crate::study::paper::kept::Kept;

/// List every table, figure and claim of three papers, and the command that looks at it
#[derive(Debug, Args)]
#[command(after_help = "\
have: the command measures it. part: it measures some of it. What is not to be built says why.

Example:
  logberg-lab list ramp
  logberg-lab list --json | python3 -m json.tool")]
pub struct List {
    /// Only the rows of this paper
    paper: Option<Paper>,
    /// As docs/lab.md has it
    #[arg(long, conflicts_with = "paper")]
    markdown: bool,
}

/// Show one table, figure or claim: what was published, our command, and what was expected
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  logberg-lab show R22")]
pub struct Show {
    /// Z1 to Z28, R1 to R28, M1 to M31
    #[arg(value_name = "ROW")]
    row: String,
}

/// Make a page of runs that were kept as JSON
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  logberg-lab ramp size --quick --json > size.json
  logberg-lab report size.json --report size.html")]
pub struct Report {
    /// The output of an experiment with --json, or that compressed (.json.gz)
    #[arg(value_name = "RUN.json", required = true)]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    to: report::To,
}

#[derive(Serialize)]
struct Shown {
    paper: Paper,
    #[serde(flatten)]
    row: &'static Row,
    checks: Vec<&'static Check>,
}

impl Shown {
    fn of(paper: Paper, row: &'static Row) -> Shown {
        let checks = catalogue::checks().filter(|check| check.row == row.id);
        Shown {
            paper,
            row,
            checks: checks.collect(),
        }
    }
}

impl List {
    pub fn run(self, json: bool) -> Result<()> {
        if self.markdown {
            return show::print(catalogue::markdown().trim_end());
        }
        let papers = Paper::ALL
            .into_iter()
            .filter(|paper| self.paper.is_none_or(|only| only == *paper));
        if json {
            let rows =
                papers.flat_map(|paper| paper.rows().iter().map(move |row| Shown::of(paper, row)));
            return show::print_json(&rows.collect::<Vec<_>>());
        }
        for paper in papers {
            let mut table = show::table(&["ROW", "HERE", "WHAT", "COMMAND"]);
            for row in paper.rows() {
                let command = row.here.command().unwrap_or_default();
                table.add_row([row.id, row.here.word(), row.what, command]);
            }
            show::print(format_args!("{}\n{}\n", paper.title(), show::lines(&table)))?;
        }
        Ok(())
    }
}

impl Show {
    pub fn run(self, json: bool) -> Result<()> {
        let Some((paper, row)) = catalogue::row(&self.row) else {
            let sentence = format!(
                "there is no row {:?}: logberg-lab list shows them",
                self.row
            );
            return Err(Failure::new(Kind::NotFound, sentence).into());
        };
        let shown = Shown::of(paper, row);
        if json {
            return show::print_json(&shown);
        }
        let mut lines = vec![
            format!("{}, of {}", row.id, paper.title()),
            format!("  {}", row.what),
            format!("  setting: {}", paper.setting()),
            format!("  here: {}", row.here.word()),
        ];
        lines.extend(
            row.here
                .command()
                .map(|command| format!("  command: {command}")),
        );
        lines.extend(row.here.remark().map(|remark| format!("  why: {remark}")));
        for check in shown.checks {
            lines.push(format!("  check: {}", check.claim));
            lines.push(format!(
                "    published: {}; {}",
                check.published,
                check.must.sentence()
            ));
            lines.push(format!("    expected here: {}", check.expected()));
        }
        show::print(lines.join("\n"))
    }
}

impl Report {
    pub fn run(self) -> Result<()> {
        let Some(to) = self.to.open()? else {
            return Err(Failure::usage("say where the page goes: --report FILE.html").into());
        };
        let mut page = Page::of("Lab", &typed(), "runs that were kept");
        for path in &self.runs {
            Kept::read(path)?.add_to(&mut page)?;
        }
        to.write(page)
    }
}
