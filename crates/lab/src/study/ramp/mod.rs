//! The RAM-ified Part-Time Parliament's experiments: one proposal at a time, agreed on by nodes that write with different inks.
//!
//! ```text
//!   size       3 nodes; 10 B to 1 MB         disk · page cache · RAM · RAM again
//!   machines   3, 10, 20 … nodes; 1 KB       disk · RAM · RAM again
//!   latency    3, 10 … nodes; 1 KB           disk · RAM, each with and without a lag on what nodes send each other
//!   workload   3 or 5 nodes; decrees         one proposer · two for the same · one that dies · three at once
//! ```
//!
//! But for workloads a proposal is an append of one stream: its time is from the call to the acknowledgement, at a client beside the leader.

mod clusters;
mod decrees;
mod measured;
mod together;
mod transports;
mod workload;

use anyhow::Result;
use carrier::Lag;
use clap::{Args, Subcommand};
use wire::quantity;

use clusters::{Ink, Kind as Variant};
use measured::Experiment;
use transports::Transports;

use super::common::{Common, finish};
use super::run::Checked;
use super::statistics;
use crate::carriers::Transport;

const SIZE: &str = "\
Four clusters of three nodes live at once; in each round each of them agrees on five proposals of one size, the first of which does
not count, in an order that is drawn. disk: every byte is durable on a majority before it is acknowledged. page-cache: the same
program on a file system in memory, which is what the paper called disk. ram: nothing is written anywhere. ram-again is ram once
more: a run that tells the two apart proves nothing.

With --transports RAM and disk are measured by each way between nodes: tcp; unix, sockets of this machine; memory, queues between nodes of one
process, which no transport can beat; grpc-unary, a call for each send, as the paper had it; grpc-stream, a stream for each connection. count is tcp
whose frames are counted, which is to cost nothing.

Example: two minutes, and a page with the published numbers beside ours
  logberg-lab ramp size --quick --report size.html
  logberg-lab ramp size --quick --transports tcp,unix,memory,grpc-unary,grpc-stream --report transports.html";

const MACHINES: &str = "\
As `ramp size` does, with 1 KB and more and more nodes, which all vote. All of them share this machine, as they did in the paper.
Where the nodes of all variants together are more than 60, one cluster lives after the other, and a pair is measured apart.

Example:
  logberg-lab ramp machines --machines 3,9,15 --report machines.html";

const LATENCY: &str = "\
As `ramp machines` does. With a lag what a node sends to another arrives later, by a time that is drawn anew each time; the order of
what is sent stays. The paper let each acceptor sleep before it answered.

Example:
  logberg-lab ramp latency --lag 5ms..38ms --machines 3,9 --report latency.html";

/// Repeat The RAM-ified Part-Time Parliament's experiments
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    experiment: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// Time of a proposal by its size, for each ink
    #[command(after_help = SIZE)]
    Size(Size),
    /// Time of a proposal by the number of machines, for each ink
    #[command(after_help = MACHINES)]
    Machines(Machines),
    /// Time of a proposal where the machines are far from each other
    #[command(after_help = LATENCY)]
    Latency(Latency),
    #[command(after_help = workload::HELP)]
    Workload(workload::Arguments),
}

#[derive(Debug, Args)]
pub struct Size {
    /// Bytes of a proposal [default: 10, 100, 1k, 10k, 100k and 1M]
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = quantity::at_least_one)]
    sizes: Vec<u64>,
    /// Nodes of each cluster
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=clusters::MACHINES_MAX))]
    machines: u32,
    #[command(flatten)]
    transports: Transports,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub struct Machines {
    /// Nodes of a cluster [default: 3, 10 and 20, or 3 and 9 with --quick]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=clusters::MACHINES_MAX))]
    machines: Vec<u32>,
    /// Bytes of a proposal
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = quantity::at_least_one)]
    size: u64,
    #[command(flatten)]
    transports: Transports,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub struct Latency {
    /// Nodes of a cluster [default: 3 and 10, or 3 with --quick]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=clusters::MACHINES_MAX))]
    machines: Vec<u32>,
    /// Later by so much, drawn evenly
    #[arg(long, value_name = "LAG", default_value = "5ms..38ms")]
    lag: Lag,
    /// Bytes of a proposal
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = quantity::at_least_one)]
    size: u64,
    #[command(flatten)]
    transports: Transports,
    #[command(flatten)]
    common: Common,
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        match self.experiment {
            Which::Size(size) => size.run(json),
            Which::Machines(machines) => machines.run(json),
            Which::Latency(latency) => latency.run(json),
            Which::Workload(workload) => workload.run(json),
        }
    }
}

fn or(given: &[u32], quick: bool, few: &[u32], all: &[u32]) -> Vec<u32> {
    match (given, quick) {
        ([], true) => few.to_vec(),
        ([], false) => all.to_vec(),
        (given, _) => given.to_vec(),
    }
}

impl Size {
    fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let sizes = match (&self.sizes[..], self.common.quick) {
            ([], true) => vec![10, 1_000, 100_000, 1_000_000],
            ([], false) => vec![10, 100, 1_000, 10_000, 100_000, 1_000_000],
            (given, _) => given.to_vec(),
        };
        self.transports.check()?;
        let inks: &[Ink] = match self.transports.are_said() {
            true => &[Ink::Disk, Ink::Ram],
            false => &[Ink::Disk, Ink::PageCache, Ink::Ram],
        };
        let variants = self.transports.of(inks);
        let mut experiment = Experiment::new("ramp size", "bytes", &self.common, &variants, "ram");
        experiment.published("4.1.1", &["disk", "ram"]);
        if self.transports.has(Transport::GrpcUnary) {
            experiment.published("4.1.2", &["disk", "ram"]);
        }
        for (a, b) in self.transports.pairs(inks) {
            experiment.also_pair(&a, &b);
        }
        let run = experiment.by_size(self.machines, &sizes)?;
        finish(run, &self.common, (json, report), |run| {
            let at = |a: &str, x| run.pair(a, "ram", x);
            let streams = |x| run.pair("ram+grpc-stream", "ram+grpc-unary", x);
            let checks = [
                ("disk/ram at 10 B", at("disk", 10.0)),
                ("disk/ram at 1 KB", at("disk", 1e3)),
                ("disk/ram at 1 MB", at("disk", 1e6)),
                ("page-cache/ram at 1 KB", at("page-cache", 1e3)),
                ("grpc-unary/tcp at 1 KB", at("ram+grpc-unary", 1e3)),
                (
                    "grpc-unary/tcp at 1 KB, as there",
                    at("ram+grpc-unary", 1e3),
                ),
                ("grpc-unary/tcp at 1 MB", at("ram+grpc-unary", 1e6)),
                ("grpc-stream/grpc-unary at 1 KB", streams(1e3)),
                ("memory/tcp at 1 KB", at("ram+memory", 1e3)),
                ("unix/tcp at 1 KB", at("ram+unix", 1e3)),
                ("count/tcp at 1 KB", at("ram+count", 1e3)),
            ];
            let checks = checks
                .into_iter()
                .filter_map(|(name, pair)| Checked::of_pair(name, pair?));
            checks.collect()
        })
    }
}

impl Machines {
    fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let machines = or(&self.machines, self.common.quick, &[3, 9], &[3, 10, 20]);
        self.transports.check()?;
        let inks = [Ink::Disk, Ink::Ram];
        let variants = self.transports.of(&inks);
        let mut experiment =
            Experiment::new("ramp machines", "machines", &self.common, &variants, "ram");
        for (a, b) in self.transports.pairs(&inks) {
            experiment.also_pair(&a, &b);
        }
        experiment.published("4.1.3 disk", &["1 proposer"]);
        experiment.published("4.1.3 ram", &["1 proposer"]);
        let run = experiment.by_machines(&machines, self.size)?;
        finish(run, &self.common, (json, report), |run| {
            // The exponent of the means beside that of the medians says how sure it is.
            let of = |figure: fn(&super::run::Cell) -> f64| {
                let cells = run.cells.iter().filter(|cell| cell.variant == "ram");
                let points: Vec<(f64, f64)> = cells.map(|cell| (cell.x, figure(cell))).collect();
                statistics::exponent(&points)
            };
            let (Some(middle), Some(mean)) = (of(|cell| cell.p50_ms), of(|cell| cell.mean_ms))
            else {
                return Vec::new();
            };
            let found = (middle, middle.min(mean), middle.max(mean));
            let names = ["exponent of machines", "more machines take longer"];
            names
                .iter()
                .filter_map(|name| Checked::of(name, found))
                .collect()
        })
    }
}

impl Latency {
    fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let machines = or(&self.machines, self.common.quick, &[3], &[3, 10]);
        self.transports.check()?;
        let plain = self.transports.of(&[Ink::Disk, Ink::Ram]);
        let late = plain.iter().map(|kind| kind.later(self.lag)).collect();
        let variants = [plain, late].concat();
        let mut experiment = Experiment::new(
            "ramp latency",
            "machines",
            &self.common,
            &variants,
            "ram+lag",
        );
        experiment.published("4.1.4", &["1 proposer, lag"]);
        experiment.also_pair("disk", "ram");
        experiment.also_pair("ram+lag", "ram");
        let run = experiment.by_machines(&machines, self.size)?;
        finish(run, &self.common, (json, report), |run| {
            let last = machines.iter().copied().max().map_or(0.0, f64::from);
            let checks = [
                ("lag/none", run.pair("ram+lag", "ram", last)),
                ("disk/ram under lag", run.pair("disk+lag", "ram+lag", last)),
            ];
            let checks = checks
                .into_iter()
                .filter_map(|(name, pair)| Checked::of_pair(name, pair?));
            checks.collect()
        })
    }
}
