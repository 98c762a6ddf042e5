//! Options that every experiment has, and how each of them ends.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use bench::report::{Opened, typed};
use clap::Args;
use terminal::exit::{Failure, Kind};
use terminal::show;
use testbed::environment::Machine;
use testbed::scratch::Place;

use super::run::{Checked, Circumstances, FORMAT, Program, Run};

#[derive(Clone, Debug, Args)]
pub struct Common {
    /// At most two minutes: fewer rounds, and fewer places
    #[arg(long)]
    pub quick: bool,
    /// Rounds; each variant has a turn in each [default: 200, or 40 with --quick; with keys 12, or 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(6..=100_000))]
    rounds: Option<u32>,
    /// The orders of turns are drawn from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// End with 1 if an expectation is missed, or the run proves nothing
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub report: bench::report::To,
}

impl Common {
    /// So many rounds unless somebody said how many: of a whole run, and of a quick one.
    pub fn rounds(&self, (whole, quick): (u32, u32)) -> u32 {
        self.rounds
            .unwrap_or(if self.quick { quick } else { whole })
    }
}

/// A run in which nothing was found yet. `x`: what is on the axis.
pub fn new_run(
    (common, rounds): (&Common, u32),
    (name, x): (&str, &str),
    machine: &Machine,
    (began, took): (SystemTime, Duration),
) -> Run {
    Run {
        format: FORMAT.to_owned(),
        run: Circumstances {
            experiment: name.to_owned(),
            command: typed(),
            seed: common.seed,
            rounds,
            began: humantime::format_rfc3339_seconds(began).to_string(),
            machine: machine.sentence(),
            seconds: took.as_secs_f64().round(),
            complete: true,
            x: x.to_owned(),
        },
        program: Program::this(),
        machine: serde_json::to_value(machine).unwrap_or_default(),
        variants: Vec::new(),
        cells: Vec::new(),
        pairs: Vec::new(),
        published: Vec::new(),
        checks: Vec::new(),
        groups: Vec::new(),
        rates: Vec::new(),
        counts: BTreeMap::new(),
    }
}

/// Judges a run, and shows it as somebody asked to see it.
pub fn finish(
    mut run: Run,
    common: &Common,
    (json, report): (bool, Option<Opened>),
    judge: impl Fn(&Run) -> Vec<Checked>,
) -> Result<()> {
    run.checks = judge(&run);
    let twice: Vec<Checked> = run
        .pairs
        .iter()
        .filter(|pair| pair.a == format!("{}-again", pair.b))
        .filter_map(|pair| Checked::of_pair("A/A", pair))
        .collect();
    run.checks.extend(twice);
    if let Some(to) = report {
        to.write(run.page()?)?;
    }
    match json {
        true => show::print_json(&run)?,
        false => run.print()?,
    }
    match common.strict && run.disappoints() {
        true => Err(Failure::new(
            Kind::Failure,
            "an expectation was missed, or the run proves nothing",
        )
        .into()),
        false => Ok(()),
    }
}
