//! `zcp grid`: Zero-copy Paxos' own experiment, with its published figures beside ours.
//!
//! ```text
//!  for each cell:  fresh cluster (two active nodes, an auxiliary) ── warm-up ── measured ── gone
//!                  every third, and each that misses: its floor, the same bytes without agreement
//!                  a raw client that misses: the library's client in its place
//!  every third:    the machine's limits
//!  at the end:     its tables, ours beside what was published
//! ```

use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use bench::latency::rounded;
use bench::report::{self as pages, typed};
use clap::Args;
use terminal::exit::{Failure, Kind};
use terminal::moving::MovingAndInk;
use terminal::show;
use testbed::environment::Machine;
use testbed::scratch::{Place, go_on};
use testbed::watch::Watch;
use wire::quantity;

use super::cells::{self, Cell};
use super::judged;
use super::measured::{AUXILIARIES, COPIES, NODES, Setting, To};
use super::report::{BENCH, LatencyOf, Ours, Outcome, Report, Who};
use crate::study::run::{Circumstances, Program};

pub const HELP: &str = "\
Each cell of the grid is a target rate and a size of writes, measured on a fresh cluster as in the paper:
two active nodes and an auxiliary, one client. In full that takes some 25 minutes, with --quick 11; as long as the paper's cells
(--warm-up 15 --seconds 45) two hours. A cell in a table is ours / published. Latency is counted from when a write was due, of all writes of 1 KiB or more and of
one in each 1024 bytes of smaller ones, where the paper's is of selected round trips: ours is the harder figure.

Every third cell is measured on the floor, too, right after it: the same bytes without agreement, in processes of their own (see logberg bench append); and
so is each cell that misses its target, so that a bad hour of the disk is told from ours.

With --latency round-trips it is of round trips that follow each other, and both are in the object that --json prints. With --client raw the
client has one write() for each write, as the paper's had; where it misses a target, our library's client is measured beside it.

Example: the whole grid quickly, and six cells as long as the paper's
  logberg-lab zcp grid --quick --report paper.html
  logberg-lab zcp grid --warm-up 15 --seconds 45 --cells 20M:1,20M:20,100M:100,100M:1000,190M:500,220M:1000";

/// Measure throughput, latency, batches and CPU by target rate and size of writes
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Grid {
    /// One second of warm-up and three measured
    #[arg(long)]
    quick: bool,
    /// Only these cells, each RATE:WRITE-SIZE, such as 100M:1000 or flat:64KiB
    #[arg(long, value_name = "CELL,…", value_delimiter = ',', value_parser = cells::cell)]
    cells: Vec<Cell>,
    /// Also what the paper left out: higher rates, 64 KiB writes, flat out
    #[arg(long, conflicts_with = "cells")]
    beyond: bool,
    /// Warm-up of each cell [default: 2, or 1 with --quick; the paper's was 15]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::seconds)]
    warm_up: Option<f64>,
    /// Measured time of each cell [default: 8, or 3 with --quick; the paper's was 45]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::seconds)]
    seconds: Option<f64>,
    /// The client: our library, which gathers writes, or one write() for each, as the paper's was
    #[arg(long, value_name = "WHO", value_enum, default_value_t)]
    client: Who,
    /// The latencies in tables and curves: of all writes, or of round trips that follow each other, as the paper's were
    #[arg(long, value_name = "OF", value_enum, default_value_t)]
    latency: LatencyOf,
    #[command(flatten)]
    moving: MovingAndInk,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    report: pages::To,
}

/// All cells and their floors in less than half an hour (docs/decisions/0073-lengths-of-runs.md).
const WARM_UP_S: f64 = 2.0;
const MEASURED_S: f64 = 8.0;
const QUICK_WARM_UP_S: f64 = 1.0;
const QUICK_MEASURED_S: f64 = 3.0;
/// The machine's limits take so long each, and are measured again after so many cells, so that a bad hour of the disk is told from ours.
const LIMIT: Duration = Duration::from_millis(300);
const CELLS_BETWEEN: usize = 3;
/// A cluster's start and end, for the time that is left.
const AROUND: Duration = Duration::from_millis(1500);

impl Grid {
    pub fn run(self, json: bool) -> Result<()> {
        let report_to = self.report.open()?;
        let usual = match self.quick {
            true => (QUICK_WARM_UP_S, QUICK_MEASURED_S),
            false => (WARM_UP_S, MEASURED_S),
        };
        let warm_up = Duration::from_secs_f64(self.warm_up.unwrap_or(usual.0));
        let length = Duration::from_secs_f64(self.seconds.unwrap_or(usual.1));
        let mut cells = self.cells.clone();
        if cells.is_empty() {
            cells = cells::of_the_paper();
            if self.beyond {
                cells.extend(cells::beyond());
            }
        }
        cells.sort();
        cells.dedup();
        let whole = warm_up + length;
        let needed = cells.iter().map(|cell| bytes_needed(*cell, whole)).max();
        let scratch = self.place.make(needed.unwrap_or(0))?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let each = whole + AROUND;
        let floors = cells.len().div_ceil(CELLS_BETWEEN);
        let watch = Watch::of(each * (cells.len() + floors) as u32);
        let setting = Setting {
            scratch: &scratch,
            moving: &self.moving,
            warm_up,
            length,
            latency: self.latency,
        };
        let (began, since) = (SystemTime::now(), Instant::now());
        let mut outcomes = Vec::new();
        let mut asked_to_end = None;
        watch.says("the machine's limits");
        let mut limits = vec![bench::limits::measure(&scratch, LIMIT)?];
        for (at, cell) in cells.into_iter().enumerate() {
            let outcome = self.outcome(&setting, cell, at % CELLS_BETWEEN == 0, &watch);
            // Not a cell that cannot be measured. Those before it are shown.
            if let Err(asked) = go_on() {
                asked_to_end = Some(asked);
                break;
            }
            watch.note(outcome.sentence());
            outcomes.push(outcome);
            if outcomes.len() % CELLS_BETWEEN == 0 && go_on().is_ok() {
                watch.says("the machine's limits");
                limits.push(bench::limits::measure(&scratch, LIMIT)?);
            }
            watch.passed(each);
        }
        drop(watch);
        if let Some(asked) = asked_to_end.take_if(|_| outcomes.is_empty()) {
            return Err(asked);
        }
        let checks = judged::checks_of(&outcomes, self.client, limits.first());
        let report = Report {
            bench: BENCH.to_owned(),
            paper: "zero-copy-paxos".to_owned(),
            run: Circumstances {
                experiment: "zcp grid".to_owned(),
                command: typed(),
                seed: 0,
                rounds: 1,
                began: humantime::format_rfc3339_seconds(began).to_string(),
                machine: machine.sentence(),
                seconds: since.elapsed().as_secs_f64().round(),
                complete: asked_to_end.is_none(),
                x: "target MB/s".to_owned(),
            },
            program: Program::this(),
            nodes: NODES,
            auxiliaries: AUXILIARIES,
            warm_up_s: rounded(warm_up.as_secs_f64()),
            measured_s: rounded(length.as_secs_f64()),
            client: self.client,
            latency_of: self.latency,
            cells: outcomes,
            limits,
            checks,
            machine: serde_json::to_value(&machine)?,
        };
        if let Some(to) = report_to {
            to.write(report.page()?)?;
        }
        match json {
            true => show::print_json(&report)?,
            false => report.print()?,
        }
        if let Some(asked) = asked_to_end {
            return Err(asked);
        }
        match report.cells.iter().all(|cell| cell.ours.is_none()) {
            true => Err(Failure::new(Kind::Failure, "no cell could be measured").into()),
            false => Ok(()),
        }
    }
}

impl Grid {
    /// A cell, and what stands beside it. `has_floor`: whatever it comes to.
    fn outcome(&self, setting: &Setting, cell: Cell, has_floor: bool, watch: &Watch) -> Outcome {
        watch.says(cell.shown());
        let ours = setting.measure(cell, self.client, To::Cluster);
        let (ours, failure) = match ours {
            Ok(ours) => (Some(ours), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let misses = ours.as_ref().is_none_or(Ours::misses);
        // A machine that cannot even do that says nothing of the cell.
        let beside = |who, to, what: &str| -> Option<Ours> {
            go_on().ok()?;
            watch.says(format!("{}: {what}", cell.shown()));
            let found = setting.measure(cell, who, to);
            let noted = |error: &anyhow::Error| watch.note(format!("{what} failed: {error:#}"));
            found.inspect_err(noted).ok()
        };
        let floor = || beside(self.client, To::Floor, "the floor");
        let library = || beside(Who::Library, To::Cluster, "the library's client");
        let is_flat_out = cell.rate.bytes_per_second().is_none();
        Outcome {
            rate: cell.rate.bytes_per_second(),
            write_bytes: cell.write_bytes,
            floor: (has_floor || misses).then(floor).flatten(),
            library: (self.client == Who::Raw && (misses || is_flat_out))
                .then(library)
                .flatten(),
            ours,
            failure,
            published: cell.published(),
        }
    }
}

fn bytes_needed(cell: Cell, whole: Duration) -> u64 {
    // Flat out more than disks we know take; padding of small batches.
    const FLAT_OUT: u64 = 1_000_000_000;
    const PADDING: u64 = 25_000_000;
    let rate = cell.rate.bytes_per_second().unwrap_or(FLAT_OUT);
    let rate = (rate + PADDING).min(FLAT_OUT);
    (rate as f64 * (whole.as_secs_f64() + 2.0)) as u64 * u64::from(COPIES)
}
