//! `zcp grid`: Zero-copy Paxos' own experiment, with its published figures beside ours.
//!
//! ```text
//!  for each cell:  fresh cluster (two active nodes, an auxiliary) ── warm-up ── measured ── gone
//!  at the end:     its tables, ours beside what was published
//! ```

mod batches;
mod cells;
mod judged;
mod limits;
mod plots;
mod published;
mod stack;
mod tables;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use hdrhistogram::Histogram;
use serde::Serialize;

use bench::bed::Bed;
use bench::figures::Figures;
use bench::latency::{quantile_ms, rounded};
use bench::load::{Content, Plan};
use bench::measure::{Load, Measured};
use bench::raw::Way;
use bench::report;
use cells::Cell;
use limits::Limit;
use published::Published;
use terminal::exit::{Failure, Kind};
use terminal::moving::MovingAndInk;
use terminal::show;
use testbed::environment::Machine;
use testbed::scratch::{Place, Scratch, go_on};
use testbed::watch::Watch;
use wire::quantity;

use crate::study::run::Checked;

const HELP: &str = "\
Each cell of the grid is a target rate and a size of writes, measured on a fresh cluster as in the paper:
two active nodes and an auxiliary, one client. In full that takes 102 minutes, with --quick 9. A cell in
a table is ours / published. Latency is counted from when a write was due, of all writes of 1 KiB or more and of
one in each 1024 bytes of smaller ones, where the paper's is of selected round trips: ours is the harder figure.

With --latency round-trips it is of round trips that follow each other, and both are in the object that --json prints. With --client raw the
client has one write() for each write, as the paper's had.

Example: the whole grid quickly, and six cells as long as the paper's
  logberg-lab zcp grid --quick --report paper.html
  logberg-lab zcp grid --cells 20M:1,20M:20,100M:100,100M:1000,190M:500,220M:1000";

/// Repeat Zero-copy Paxos' experiments
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    Grid(Box<Grid>),
    Stack(Box<stack::Stack>),
    Batches(Box<batches::Batches>),
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        match self.experiment {
            Experiment::Grid(grid) => grid.run(json),
            Experiment::Stack(stack) => stack.run(json),
            Experiment::Batches(batches) => batches.run(json),
        }
    }
}

/// The earlier words for the grid.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct OfAPaper {
    paper: Paper,
    #[command(flatten)]
    grid: Box<Grid>,
}

impl OfAPaper {
    pub fn run(self, json: bool) -> Result<()> {
        let Paper::ZeroCopyPaxos = self.paper;
        self.grid.run(json)
    }
}

/// Measure throughput, latency, batches and CPU by target rate and size of writes
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Grid {
    /// One second of warm-up and three measured, where the paper has 15 and 45
    #[arg(long)]
    quick: bool,
    /// Only these cells, each RATE:WRITE-SIZE, such as 100M:1000 or flat:64KiB
    #[arg(long, value_name = "CELL,…", value_delimiter = ',', value_parser = cells::cell)]
    cells: Vec<Cell>,
    /// Also what the paper left out: higher rates, 64 KiB writes, flat out
    #[arg(long, conflicts_with = "cells")]
    beyond: bool,
    /// Warm-up of each cell [default: the paper's, or 1]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::seconds)]
    warm_up: Option<f64>,
    /// Measured time of each cell [default: the paper's, or 3]
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
    report: report::To,
}

/// The client of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Who {
    #[default]
    Library,
    Raw,
}

/// The latencies that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum LatencyOf {
    #[default]
    Writes,
    RoundTrips,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Paper {
    /// Throughput, latency and batches by target rate and size of writes
    ZeroCopyPaxos,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    paper: &'static str,
    nodes: u32,
    auxiliaries: u32,
    warm_up_s: f64,
    measured_s: f64,
    client: Who,
    latency_of: LatencyOf,
    cells: Vec<Outcome>,
    /// The machine's own, measured before the first cell and after every third.
    limits: Vec<Figures>,
    /// The paper's claims that these cells can say something of.
    checks: Vec<Checked>,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Outcome {
    #[serde(skip)]
    cell: Cell,
    /// `None`: flat out.
    rate: Option<u64>,
    write_bytes: u64,
    /// `None` if the cell failed.
    ours: Option<Ours>,
    failure: Option<String>,
    published: Option<Published>,
}

/// As in the paper's tables, and all else that is known.
#[derive(Debug, Serialize)]
struct Ours {
    /// The delivered part of the target rate; none flat out.
    delivered: Option<f64>,
    writes_mhz: f64,
    batch_bytes: Option<f64>,
    median_ms: f64,
    p99_ms: f64,
    figures: Figures,
    #[serde(skip)]
    micros: Histogram<u64>,
}

const NODES: u32 = 3;
const AUXILIARIES: u32 = 1;
const COPIES: u32 = NODES - AUXILIARIES;
const WINDOW_BYTES: usize = 16 << 20;
const QUICK_WARM_UP_S: f64 = 1.0;
const QUICK_MEASURED_S: f64 = 3.0;
/// The machine's limits take so long each, and are measured again after so many cells, so that a bad hour of the disk is told from ours.
const LIMIT: Duration = Duration::from_millis(300);
const CELLS_BETWEEN: usize = 3;
/// A cluster's start and end, for the time that is left.
const AROUND: Duration = Duration::from_millis(1500);

impl Grid {
    fn run(self, json: bool) -> Result<()> {
        let report_to = self.report.open()?;
        let usual = match self.quick {
            true => (QUICK_WARM_UP_S, QUICK_MEASURED_S),
            false => (published::WARM_UP_S, published::MEASURED_S),
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
        let watch = Watch::of(each * cells.len() as u32);
        let mut outcomes = Vec::new();
        let mut asked_to_end = None;
        watch.says("the machine's limits");
        let mut limits = vec![bench::limits::measure(&scratch, LIMIT)?];
        for cell in cells {
            watch.says(cell.shown());
            let ours = self.measure_cell(&scratch, cell, warm_up, length);
            // Not a cell that cannot be measured. Those before it, of up to 100 minutes, are shown.
            if let Err(asked) = go_on() {
                asked_to_end = Some(asked);
                break;
            }
            let (ours, failure) = match ours {
                Ok(ours) => (Some(ours), None),
                Err(error) => (None, Some(format!("{error:#}"))),
            };
            let outcome = Outcome {
                cell,
                rate: cell.rate.bytes_per_second(),
                write_bytes: cell.write_bytes,
                ours,
                failure,
                published: cell.published(),
            };
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
        let checks = judged::checks_of(&outcomes, self.client);
        let report = Report {
            bench: "paper",
            paper: "zero-copy-paxos",
            nodes: NODES,
            auxiliaries: AUXILIARIES,
            warm_up_s: rounded(warm_up.as_secs_f64()),
            measured_s: rounded(length.as_secs_f64()),
            client: self.client,
            latency_of: self.latency,
            cells: outcomes,
            limits,
            checks,
            machine,
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

fn bytes_needed(cell: Cell, whole: Duration) -> u64 {
    // Flat out more than disks we know take; padding of small batches.
    const FLAT_OUT: u64 = 1_000_000_000;
    const PADDING: u64 = 25_000_000;
    let rate = cell.rate.bytes_per_second().unwrap_or(FLAT_OUT);
    let rate = (rate + PADDING).min(FLAT_OUT);
    (rate as f64 * (whole.as_secs_f64() + 2.0)) as u64 * u64::from(COPIES)
}

impl Grid {
    fn measure_cell(
        &self,
        scratch: &Scratch,
        cell: Cell,
        warm_up: Duration,
        length: Duration,
    ) -> Result<Ours> {
        let directory = scratch.path().join("cluster");
        let measured = (|| {
            let arguments = self.moving.arguments();
            let bed = Bed::start_with(&directory, NODES, AUXILIARIES, arguments)?;
            let logs = ["paper".to_owned()];
            bed.create(&logs)?;
            let plan = Plan {
                write_bytes: cell.write_bytes as usize,
                rate: cell.rate.bytes_per_second(),
                buffer_bytes: WINDOW_BYTES,
                content: Content::Repeated,
            };
            let way = match self.client {
                Who::Library => Way::Library,
                Who::Raw => Way::Socket,
            };
            let watched = bed.watched(&logs)?;
            let load = Load::start_by(way, &bed.client, &logs, &plan)?;
            load.measure(warm_up, length, &watched)
        })();
        // A cell that failed leaves its files, too.
        scratch.retire(&directory)?;
        Ok(Ours::of(measured?, cell, self.latency))
    }
}

impl Ours {
    fn of(measured: Measured, cell: Cell, latency: LatencyOf) -> Ours {
        let target = cell.rate.bytes_per_second();
        let delivered = target.map(|rate| measured.mb_per_s() * 1e6 / rate as f64);
        let mut figures = Figures::of(&measured);
        let trips = &measured.round_trips;
        figures.add("round_trips", trips.len() as f64);
        for (name, part) in [
            ("round_trip_p50_ms", 0.5),
            ("round_trip_p99_ms", 0.99),
            ("round_trip_max_ms", 1.0),
        ] {
            figures.add(name, quantile_ms(trips, part));
        }
        let micros = match latency {
            LatencyOf::Writes => measured.micros.clone(),
            LatencyOf::RoundTrips => measured.round_trips.clone(),
        };
        Ours {
            delivered: delivered.map(rounded),
            writes_mhz: rounded(measured.writes_per_s() / 1e6),
            batch_bytes: figures.get("mean_ack_bytes"),
            median_ms: rounded(quantile_ms(&micros, 0.5)),
            p99_ms: rounded(quantile_ms(&micros, 0.99)),
            figures,
            micros,
        }
    }
}

impl Ours {
    /// Percent of a core of a role, of user and of system.
    /// The limit that kept it from its target.
    fn limit(&self, limits: &[Figures]) -> Limit {
        let of = |name: &str| {
            let each = limits.iter().filter_map(|figures| figures.get(name));
            crate::study::statistics::median(&each.collect::<Vec<_>>())
        };
        let rate = self.figures.get("mb_per_s").unwrap_or(0.0);
        let takes = |of: Option<f64>, times: f64| {
            of.is_some_and(|limit| times * rate >= limits::TAKEN * limit)
        };
        let client = self.cpu("client");
        Limit::of(
            self.delivered,
            client,
            takes(of("direct_1_mib_mb_per_s"), f64::from(COPIES)),
            // From the client to the leader, and to the other copies.
            takes(of("loopback_mb_per_s"), f64::from(COPIES)),
        )
    }

    fn cpu(&self, role: &str) -> (f64, f64) {
        let percent = |kind: &str| {
            let figure = self.figures.get(&format!("{role}_{kind}_percent"));
            figure.unwrap_or(0.0)
        };
        (percent("user"), percent("system"))
    }
}

impl Outcome {
    fn sentence(&self) -> String {
        let cell = self.cell.shown();
        match (&self.ours, &self.failure) {
            (Some(ours), _) => {
                let delivered = ours
                    .delivered
                    .map_or(String::new(), |part| format!("{part} of it, "));
                format!(
                    "{cell}: {delivered}p50 {} ms, p99 {} ms",
                    ours.median_ms, ours.p99_ms
                )
            }
            (None, failure) => format!("{cell}: {}", failure.as_deref().unwrap_or("not measured")),
        }
    }
}
