//! The RAM-ified Part-Time Parliament's experiments: one proposal at a time, agreed on by nodes that write with different inks.
//!
//! ```text
//!   size       3 nodes; 10 B to 1 MB         disk · page cache · RAM · persistent memory, emulated · RAM again
//!   machines   3, 10, 20 … nodes; 1 KB       disk · RAM · RAM again
//!   latency    3, 10 … nodes; 1 KB           disk · RAM, each with and without a lag on what nodes send each other
//!   workload   3 or 5 nodes; decrees         one proposer · two for the same · one that dies · three at once
//!   simulated  3 to 100 nodes; 1 KB          disk · RAM, on machines that share nothing, in the simulator
//! ```
//!
//! Each of the first three is also had by other ways between nodes, by several proposers, and with timers that are slower (`setting`).
//!
//! But for workloads and several proposers a proposal is an append of one stream: its time is from the call to the acknowledgement, at a client beside the leader.

pub(super) mod clusters;
mod contended;
mod decrees;
pub(super) mod kinds;
mod measured;
mod setting;
mod simulated;
mod together;
pub(super) mod ways;
mod workload;

use anyhow::Result;
use carrier::Lag;
use clap::{Args, Subcommand};
use wire::quantity;

use kinds::{Ink, Kind};
use measured::Experiment;
use setting::Setting;

use super::common::{Common, finish};
use super::run::Checked;
use super::statistics;
use crate::carriers::Transport;

const SIZE: &str = "\
Four clusters of three nodes live at once; in each round each of them agrees on five proposals of one size, the first of which does
not count, in an order that is drawn. disk: every byte is durable on a majority before it is acknowledged. page-cache: the same
program on a file system in memory, which is what the paper called disk. ram: nothing is written anywhere. emulated-pmem: mapped files whose
cache lines are flushed, in memory that is none of the persistent kind: real modules are slower. ram-again is ram once more: a run that tells the two apart proves nothing.

With --transports RAM and disk are measured by each way between nodes: tcp; unix, sockets of this machine; memory, queues between nodes of one
process, which no transport can beat; grpc-unary, a call for each send, as the paper had it; grpc-stream, a stream for each connection. count is tcp
whose frames are counted, which is to cost nothing.

With --proposers as many propose for the same decrees, which are keys that only the first SET takes, and one alone does for others. +all ends when the
last of them has learned what was agreed on. The paper's RAM is page-cache then: keys have a state on disk, and that disk is in memory.

Example: two minutes, and a page with the published numbers beside ours
  logberg-lab ramp size --quick --report size.html
  logberg-lab ramp size --quick --transports tcp,unix,memory,grpc-unary,grpc-stream --report transports.html";

const MACHINES: &str = "\
As `ramp size` does, with 1 KB and more and more nodes, which all vote. All of them share this machine, as they did in the paper.
Where the nodes of all variants together are more than 60, one cluster lives after the other, and a pair is measured apart. More than
31 machines need --time-scale: all timers of the nodes take as many times as long, so that heartbeats leave room for proposals; messages and
quorums are the same, and the variants' names say so. Beside them stands the simulator's series, of as many machines that share nothing (`ramp simulated`).

Example:
  logberg-lab ramp machines --machines 3,9,15 --report machines.html
  logberg-lab ramp machines --machines 10,40,100 --time-scale 10";

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
    /// Time and messages of a proposal by the number of machines that share nothing, in the simulator
    #[command(after_help = simulated::HELP)]
    Simulated(simulated::Arguments),
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
    setting: Setting,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub struct Machines {
    /// Nodes of a cluster [default: 3, 10, 20 and 30, or 3 and 9 with --quick]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=clusters::MACHINES_MAX))]
    machines: Vec<u32>,
    /// Bytes of a proposal
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = quantity::at_least_one)]
    size: u64,
    #[command(flatten)]
    setting: Setting,
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
    setting: Setting,
    #[command(flatten)]
    common: Common,
}

impl Setting {
    /// An experiment with these inks, by all that is varied.
    fn experiment<'a>(
        &self,
        name: &str,
        x: &'static str,
        common: &'a Common,
        inks: &[Ink],
    ) -> Experiment<'a> {
        let base = self.base().id();
        let mut experiment = Experiment::new(name, x, common, &self.kinds(inks), &base);
        for (a, b) in self.pairs(inks) {
            experiment.also_pair(&a, &b);
        }
        experiment
    }
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        match self.experiment {
            Which::Size(size) => size.run(json),
            Which::Machines(machines) => machines.run(json),
            Which::Latency(latency) => latency.run(json),
            Which::Workload(workload) => workload.run(json),
            Which::Simulated(simulated) => simulated.run(json),
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
            ([], true) if self.setting.proposers().is_some() => vec![10, 1_000, 100_000],
            ([], false) if self.setting.proposers().is_some() => {
                vec![10, 100, 1_000, 10_000, 100_000]
            }
            ([], true) => vec![10, 1_000, 100_000, 1_000_000],
            ([], false) => vec![10, 100, 1_000, 10_000, 100_000, 1_000_000],
            (given, _) => given.to_vec(),
        };
        let setting = &self.setting;
        setting.check(&[self.machines])?;
        let inks = setting.inks(match setting.has_ways() {
            true => &[Ink::Disk, Ink::Ram],
            false => &[Ink::Disk, Ink::PageCache, Ink::Ram, Ink::EmulatedPmem],
        });
        let name = match setting.proposers() {
            Some(count) => format!("ramp size, {count} proposers"),
            None => "ramp size".to_owned(),
        };
        let mut experiment = setting.experiment(&name, "bytes", &self.common, &inks);
        let (by_text, by_calls) = match setting.proposers() {
            None => ("4.1.1", "4.1.2"),
            Some(_) => ("4.2.1", "4.2.2"),
        };
        experiment.published(by_text, &["disk", "ram"]);
        if setting.has(Transport::GrpcUnary) {
            experiment.published(by_calls, &["disk", "ram"]);
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
                ("emulated-pmem/ram at 1 KB", at("emulated-pmem", 1e3)),
                (
                    "two/one by size, 1 KB",
                    run.pair("page-cache+2p", "page-cache+1p", 1e3),
                ),
                (
                    "all/one by size, 1 KB",
                    run.pair("page-cache+2p+all", "page-cache+1p", 1e3),
                ),
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
        let machines = or(&self.machines, self.common.quick, &[3, 9], &[3, 10, 20, 30]);
        let setting = &self.setting;
        setting.check(&machines)?;
        let inks = setting.inks(&[Ink::Disk, Ink::Ram]);
        let mut experiment = setting.experiment("ramp machines", "machines", &self.common, &inks);
        match setting.proposers() {
            None => {
                experiment.published("4.1.3 disk", &["1 proposer"]);
                experiment.published("4.1.3 ram", &["1 proposer"]);
            }
            Some(_) => experiment.published("repository, 2 proposers", &["ram"]),
        }
        let base = setting.base().id();
        let mut run = experiment.by_machines(&machines, self.size)?;
        if setting.is_plain() && run.run.complete {
            simulated::beside(&mut run, &self.common, &machines, self.size)?;
        }
        finish(run, &self.common, (json, report), |run| {
            // The exponent of the means beside that of the medians says how sure it is.
            let of = |figure: fn(&super::run::Cell) -> f64| {
                let cells = run.cells.iter().filter(|cell| cell.variant == base);
                let points: Vec<(f64, f64)> = cells.map(|cell| (cell.x, figure(cell))).collect();
                statistics::exponent(&points)
            };
            let mut checks = run.checks.clone();
            if let (Some(middle), Some(mean)) = (of(|cell| cell.p50_ms), of(|cell| cell.mean_ms)) {
                let found = (middle, middle.min(mean), middle.max(mean));
                let names = ["exponent of machines", "more machines take longer"];
                checks.extend(names.iter().filter_map(|name| Checked::of(name, found)));
            }
            checks
        })
    }
}

impl Latency {
    fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let machines = or(&self.machines, self.common.quick, &[3], &[3, 10]);
        let setting = &self.setting;
        setting.check(&machines)?;
        let inks = setting.inks(&[Ink::Disk, Ink::Ram]);
        let plain = setting.kinds(&inks);
        let late = plain.iter().map(|kind| kind.later(self.lag)).collect();
        let variants = [plain, late].concat();
        let base = setting.base();
        let (late, base) = (base.later(self.lag).id(), base.id());
        let late_disk = Kind::plain(Ink::Disk)
            .paced(setting.pace())
            .later(self.lag)
            .id();
        let mut experiment =
            Experiment::new("ramp latency", "machines", &self.common, &variants, &late);
        match setting.proposers() {
            None => experiment.published("4.1.4", &["1 proposer, lag"]),
            Some(_) => experiment.published("repository, 2 proposers, lag", &["ram"]),
        }
        for (a, b) in setting.pairs(&inks) {
            experiment.also_pair(&a, &b);
        }
        experiment.also_pair("disk", "ram");
        experiment.also_pair(&late, &base);
        let run = experiment.by_machines(&machines, self.size)?;
        finish(run, &self.common, (json, report), |run| {
            let last = machines.iter().copied().max().map_or(0.0, f64::from);
            let checks = [
                ("lag/none", run.pair(&late, &base, last)),
                ("disk/ram under lag", run.pair(&late_disk, &late, last)),
            ];
            let checks = checks
                .into_iter()
                .filter_map(|(name, pair)| Checked::of_pair(name, pair?));
            checks.collect()
        })
    }
}
