//! The paper's workloads: one proposer, two for the same decrees, one that dies, several.
//!
//! ```text
//!   a   M0 ─ M0 ─ M0 …                           by itself
//!   b   M0 ·· M1, for the same decree            M0 a little earlier; beside decrees of M0 alone, in drawn order
//!   c   M0 × 10, killed ─ M1 goes on             the node beside M0 leads, and dies with it
//!   d   M0 · M1 · M2 at once                     three of five
//! ```
//!
//! Each of them by several ways between the nodes, with a cluster for each way: all of them live at once.
//!
//! Every run holds what each proposer learned beside what stands in the end, at each node.

mod cluster;
mod deaths;
mod found;
mod turns;

use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use clap::{Args, ValueEnum};
use terminal::exit::Failure;
use testbed::environment::Machine;
use testbed::scratch::go_on;
use wire::quantity;

use super::measured::ROUNDS;
use super::ways::Ways;
use crate::study::common::{Common, finish, new_run};
use crate::study::run::{Checked, Run};
use cluster::Cluster;
use deaths::FIRST;
use found::ONE;
use turns::Turns;

pub const HELP: &str = "\
A decree is a key that only the first SET takes (SET decree:7 VALUE NX GET): everybody who proposes for it learns the one value. The
clients are beside the nodes, one for each.

a: one proposer. b: two for the same decrees, M0 a little earlier (--later), and decrees of M0 alone between them. c: the node that leads is
killed after ten decrees of M0, and M1 goes on; --deaths times. d: three proposers at once, on five nodes,
or as many as are said.

With --transports the same is done by each way between nodes as `ramp size` has them: every way has nodes of its own, all of them live at once, and turns
and deaths alternate. Memory is none of them, since nodes of one process serve no keys.

Example:
  logberg-lab ramp workload b --quick
  logberg-lab ramp workload c --deaths 10
  logberg-lab ramp workload d --transports tcp,unix,grpc-unary,grpc-stream";

/// Decrees with several proposers, of which one may die
#[derive(Debug, Args)]
pub struct Arguments {
    workload: Workload,
    /// b: M1 proposes so much later than M0
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = quantity::seconds)]
    later: f64,
    /// c: this often [default: 20, or 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    deaths: Option<u32>,
    /// d: so many propose at once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=15))]
    proposers: u32,
    /// d: on so many nodes [default: 5, or twice as many as proposers less one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=31))]
    machines: Option<u32>,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = quantity::at_least_one)]
    size: u64,
    #[command(flatten)]
    ways: Ways,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// One proposer
    A,
    /// Two, for the same decrees
    B,
    /// The first one dies
    C,
    /// Three of five at once, or more
    D,
}

/// The files of one cluster.
const BYTES_NEEDED: u64 = 2 << 30;
/// Deaths of a whole run, and of a quick one.
const DEATHS: (u32, u32) = (20, 3);

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Workload::A => "ramp workload a",
            Workload::B => "ramp workload b",
            Workload::C => "ramp workload c",
            Workload::D => "ramp workload d",
        }
    }
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let machines = self.machines()?;
        let ways = self.ways.all();
        let scratch = self.common.place.make(BYTES_NEEDED * ways.len() as u64)?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let (began, since) = (SystemTime::now(), Instant::now());
        let mut clusters = Vec::new();
        for way in ways {
            go_on()?;
            clusters.push(Cluster::start(scratch.path(), *way, machines)?);
        }
        let mut found = match self.workload {
            Workload::C => {
                let usual = if self.common.quick {
                    DEATHS.1
                } else {
                    DEATHS.0
                };
                let deaths = self.deaths.unwrap_or(usual);
                deaths::through(&mut clusters, deaths, self.size as usize)?
            }
            _ => self.turns().take(&mut clusters)?,
        };
        for cluster in &mut clusters {
            cluster.look()?;
            found.add(&cluster.learned);
        }
        let mut run = new_run(
            (&self.common, self.common.rounds(ROUNDS)),
            (self.workload.name(), "machines"),
            &machine,
            (began, since.elapsed()),
        );
        found.fill(&mut run, f64::from(machines));
        drop(clusters);
        finish(run, &self.common, (json, report), checks_of)
    }

    /// Errors: what cannot be measured, and what to do about it.
    fn machines(&self) -> Result<u32> {
        if let Some(refused) = self.ways.refused_for_keys() {
            return Err(Failure::usage(refused).into());
        }
        let machines = match self.workload {
            Workload::D => self.machines.unwrap_or(5.max(self.proposers * 2 - 1)),
            _ => 3,
        };
        if self.workload == Workload::D && self.proposers > machines {
            let sentence = format!(
                "each proposer is beside a node of its own: have --machines {} or more",
                self.proposers
            );
            return Err(Failure::usage(sentence).into());
        }
        Ok(machines)
    }

    fn turns(&self) -> Turns {
        let (together, later) = match self.workload {
            Workload::B => {
                let names = ["two", "two-second"].map(str::to_owned);
                (names.to_vec(), Duration::from_secs_f64(self.later))
            }
            Workload::D => (at_once(self.proposers), Duration::ZERO),
            Workload::A | Workload::C => (Vec::new(), Duration::ZERO),
        };
        Turns {
            rounds: self.common.rounds(ROUNDS),
            seed: self.common.seed,
            bytes: self.size as usize,
            together,
            later,
        }
    }
}

/// The names of so many.
fn at_once(proposers: u32) -> Vec<String> {
    let first = match proposers {
        3 => "three".to_owned(),
        count => format!("{count} at once"),
    };
    let others = (2..=proposers).map(|place| format!("{first}-{place}"));
    std::iter::once(first.clone()).chain(others).collect()
}

fn checks_of(run: &Run) -> Vec<Checked> {
    let mut checks = Vec::new();
    let pair = |a| run.pairs.iter().find(|pair| pair.a == a && pair.b == ONE);
    checks.extend(pair("two").and_then(|pair| Checked::of_pair("two/one", pair)));
    checks.extend(pair("three").and_then(|pair| Checked::of_pair("three/one", pair)));
    let mut cells = run.cells.iter();
    if let Some(cell) = cells.find(|cell| cell.variant == FIRST) {
        let found = (cell.p50_ms, cell.p50_ms, cell.max_ms);
        checks.extend(Checked::of("the next decree after a death, ms", found));
    }
    let count = |name: &str| run.counts.get(name).copied().unwrap_or(0) as f64;
    let wrong = count("split") + count("lost");
    checks.extend(Checked::of("decrees lost or split", (wrong, wrong, wrong)));
    checks
}
