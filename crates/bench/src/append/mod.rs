//! `bench append`: the cluster, the floor and the machine in turn, slice by slice, under the same load.

mod plots;
mod recycled;
mod secured;
mod slice;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::figures::{Compared, Figures, by_name};
use super::latency::rounded;
use super::limits;
use super::load::{Content, Plan};
use super::report;
use slice::{Setting, Slice};
use terminal::exit::{Failure, Kind};
use terminal::moving::MovingAndInk;
use terminal::show;
use testbed::environment::Machine;
use testbed::scratch::{Place, go_on};
use testbed::watch::Watch;
use wire::quantity;

const HELP: &str = "\
The floor is the same work without agreement, in processes of its own: the same kernel backend,
segments, batches, topology and ack rule, with a counter where the engine is. Cluster, floor and the
machine's own limits take turns, each time on fresh directories, because machines drift. Latency is
from when a write was due, or flat out from when it was handed to the client, to its ack; what a paced
client could not write in time counts too, with all the time it waited. A log that keeps everything
writes new files that grow; one that is trimmed writes into the files of what it forgot (--recycled), and
a durable write takes about half as long there.

With --tls the same cluster in plain text stands in the floor's place: what it costs that every
connection is encrypted.

Example: flat out, paced at 20 MB/s with small writes, and single bytes from a foreign client
  logberg bench append --nodes 3 --seconds 20 --write-size 64KiB
  logberg bench append --nodes 3 --seconds 20 --write-size 1KiB --rate 20M
  logberg bench append --nodes 3 --seconds 20 --write-size 1 --raw-writes
  logberg bench append --auxiliary --seconds 20 --report append.html
  logberg bench append --recycled --seconds 20 --write-size 1KiB --rate 100M
  logberg bench append --mover uring --ink ram
  logberg bench append --recycled --ink ram
  logberg bench append --tls --seconds 20 --alternations 5";

/// Throughput, latency and cost of appending, beside the floor's and the machine's
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: u32,
    /// One leader, f followers and f auxiliaries that get no bytes, of 2f + 1 nodes
    #[arg(long)]
    auxiliary: bool,
    /// Measured time, of cluster and floor together
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = quantity::seconds)]
    seconds: f64,
    /// Bytes handed to the client at a time
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = quantity::at_least_one)]
    write_size: u64,
    /// Make a system call of each write, without the client library that gathers them
    #[arg(long)]
    raw_writes: bool,
    /// By TLS, beside the same in plain text and in place of the floor
    #[arg(long, conflicts_with_all = ["raw_writes", "report"])]
    tls: bool,
    /// Compare no checksums of what was sent and what the leader stored
    #[arg(long, conflicts_with = "raw_writes")]
    no_checksums: bool,
    /// Bytes per second of all clients together [default: as fast as acks come]
    #[arg(long, value_name = "RATE", value_parser = quantity::bytes_per_second)]
    rate: Option<u64>,
    /// Writers, each of a log of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// Logs of the cluster; those beyond the clients' are idle [default: one for each client]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    logs: Option<u32>,
    /// Of logs that keep 256 MiB, and write into the files of what they forgot; in the floor, into
    /// files that were written before
    #[arg(long)]
    recycled: bool,
    /// Unmeasured time at the start of each slice
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = quantity::seconds)]
    warm_up: f64,
    /// How often cluster, floor and machine take turns
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    alternations: u32,
    /// What a client keeps in memory: flat out, this much is under way
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = quantity::at_least_one)]
    window: u64,
    #[command(flatten)]
    moving: MovingAndInk,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    report: report::To,
}

/// For each of the machine's limits, in each turn.
const LIMIT: Duration = Duration::from_millis(150);
const LIMITS: u32 = 7;

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    nodes: u32,
    auxiliaries: u32,
    clients: u32,
    logs: u32,
    write_bytes: u64,
    raw_writes: bool,
    rate: Option<u64>,
    window_bytes: u64,
    slice_ms: f64,
    warm_up_ms: f64,
    acked_mb_per_s: f64,
    floor_mb_per_s: f64,
    ratio: f64,
    #[serde(serialize_with = "by_name")]
    figures: Vec<Compared>,
    limits: Figures,
    /// The cluster's throughput and median latency, of what the machine does alone.
    shares: Figures,
    alternations: Vec<Turn>,
    /// New files that grow, or files that were written before.
    segments: &'static str,
    write_path: String,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Turn {
    cluster: Slice,
    floor: Slice,
    limits: Figures,
}

impl Arguments {
    fn auxiliaries(&self) -> u32 {
        match self.auxiliary {
            true => (self.nodes - 1) / 2,
            false => 0,
        }
    }

    /// Nodes that hold the bytes.
    fn copies(&self) -> u32 {
        self.nodes - self.auxiliaries()
    }

    fn check(&self) -> Result<u32> {
        let logs = self.logs.unwrap_or(self.clients);
        if logs < self.clients {
            let sentence = format!(
                "a log has one writer at a time: {} clients need as many --logs",
                self.clients
            );
            return Err(Failure::new(Kind::Usage, sentence).into());
        }
        if self.auxiliary && (self.nodes < 3 || self.nodes.is_multiple_of(2)) {
            let sentence = format!(
                "of {} nodes none can be an auxiliary for each follower: say --nodes 3, 5, 7 or 9",
                self.nodes
            );
            return Err(Failure::new(Kind::Usage, sentence).into());
        }
        Ok(logs)
    }

    pub fn run(self, json: bool) -> Result<()> {
        let logs = self.check()?;
        let report_to = self.report.open()?;
        let length = Duration::from_secs_f64(self.seconds / f64::from(2 * self.alternations));
        let rate = self.rate.map(|rate| rate / u64::from(self.clients));
        let setting = Setting {
            plan: Plan {
                write_bytes: self.write_size as usize,
                rate: rate.map(|rate| rate.max(1)),
                buffer_bytes: self.window as usize,
                content: Content::Repeated,
            },
            logs: (1..=logs).map(|n| format!("bench-{n}")).collect(),
            warm_up: Duration::from_secs_f64(self.warm_up),
            length,
            arguments: &self,
        };
        if self.tls {
            return secured::run(&setting, json);
        }
        let limits_bytes = (LIMIT.as_secs_f64() * 2e9) as u64;
        let scratch = self.place.make(setting.bytes_needed().max(limits_bytes))?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let slice = setting.warm_up + length + slice::REST;
        let watch = Watch::of((slice * 2 + LIMIT * LIMITS) * self.alternations);
        let mut turns = Vec::new();
        let mut write_path = String::new();
        let run_cluster = || {
            watch.says("cluster");
            let measured = setting.cluster(&scratch, None)?;
            watch.passed(slice);
            anyhow::Ok(measured)
        };
        let run_floor = || {
            watch.says("floor");
            let measured = setting.floor(&scratch)?;
            watch.passed(slice);
            anyhow::Ok(measured)
        };
        for turn in 0..self.alternations {
            // The second of the two finds the disk as the first left it, so each comes first equally often.
            let ((cluster, path), floor) = if turn % 2 == 0 {
                let cluster = run_cluster()?;
                (cluster, run_floor()?)
            } else {
                let floor = run_floor()?;
                (run_cluster()?, floor)
            };
            watch.says("the machine");
            go_on()?;
            let limits = limits::measure(&scratch, LIMIT)?;
            watch.passed(LIMIT * LIMITS);
            turns.push(Turn {
                cluster,
                floor,
                limits,
            });
            write_path = path;
        }
        drop(watch);
        let report = self.summary(logs, length, turns, machine, write_path);
        if let Some(to) = report_to {
            to.write(report.page()?)?;
        }
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    fn summary(
        &self,
        logs: u32,
        length: Duration,
        turns: Vec<Turn>,
        machine: Machine,
        write_path: String,
    ) -> Report {
        let pairs: Vec<(&Figures, &Figures)> = turns
            .iter()
            .map(|turn| (&turn.cluster.figures, &turn.floor.figures))
            .collect();
        let compared = Figures::compare(&pairs);
        let all: Vec<&Figures> = turns.iter().map(|turn| &turn.limits).collect();
        let limits = Figures::median(&all);
        let clusters: Vec<&Figures> = pairs.iter().map(|pair| pair.0).collect();
        let shares = limits::shares(&Figures::median(&clusters), &limits, self.copies());
        let rate = compared.iter().find(|one| one.name == "mb_per_s");
        Report {
            bench: "append",
            nodes: self.nodes,
            auxiliaries: self.auxiliaries(),
            clients: self.clients,
            logs,
            write_bytes: self.write_size,
            raw_writes: self.raw_writes,
            rate: self.rate,
            window_bytes: self.window,
            slice_ms: rounded(length.as_secs_f64() * 1e3),
            warm_up_ms: rounded(self.warm_up * 1e3),
            acked_mb_per_s: rate.map_or(0.0, |rate| rate.cluster),
            floor_mb_per_s: rate.and_then(|rate| rate.floor).unwrap_or(0.0),
            ratio: rate.and_then(|rate| rate.ratio).unwrap_or(0.0),
            figures: compared,
            limits,
            shares,
            alternations: turns,
            segments: match self.recycled {
                true => "recycled",
                false => "fresh",
            },
            write_path,
            machine,
        }
    }
}

impl Report {
    fn print(&self) -> Result<()> {
        let mut table = show::table(&["figure", "cluster", "floor", "ratio"]);
        let cell = |value: Option<f64>| {
            show::number(value.map_or("-".to_owned(), |value| value.to_string()))
        };
        for figure in &self.figures {
            table.add_row([
                comfy_table::Cell::new(&figure.name),
                show::number(figure.cluster),
                cell(figure.floor),
                cell(figure.ratio),
            ]);
        }
        show::print(show::lines(&table))?;
        for (heading, figures) in [
            ("the machine alone", &self.limits),
            ("the cluster's share of it", &self.shares),
        ] {
            let mut table = show::table(&[heading, ""]);
            for name in figures.names() {
                table.add_row([comfy_table::Cell::new(name), cell(figures.get(name))]);
            }
            show::print(format!("\n{}", show::lines(&table)))?;
        }
        let ratios: Vec<String> = self
            .alternations
            .iter()
            .filter_map(|turn| {
                let rate = |slice: &Slice| slice.figures.get("mb_per_s");
                Some(rounded(rate(&turn.cluster)? / rate(&turn.floor)?).to_string())
            })
            .collect();
        show::print(format!(
            "\nthroughput {} of the floor's (turn by turn: {})",
            self.ratio,
            ratios.join(", ")
        ))?;
        show::print(format!("{}, {}", self.machine.sentence(), self.write_path))
    }
}
