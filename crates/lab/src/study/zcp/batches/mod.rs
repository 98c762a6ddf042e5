//! `zcp batches`: the work of a batch by its size, and the sizes that batches come to by themselves.
//!
//! ```text
//!   engine   instructions of a batch, by its slots                      counted by valgrind, one thread, no disk
//!   nodes    instructions of a write that is waited for, by its bytes   counted by valgrind, three simulated nodes
//!   CPU      of such a write, three real nodes, by its bytes            sizes take turns, in drawn order
//!   sizes    of batches on the leader's disk, by the rate of writes     a fresh cluster each
//! ```

mod sizes;
mod work;

use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use clap::Args;
use testbed::environment::Machine;
use testbed::scratch::go_on;
use testbed::watch::Watch;
use wire::quantity;

use crate::benches::instructions::valgrind;
use crate::study::common::{Common, finish, new_run};
use crate::study::run::{Checked, Group, Run};

pub const HELP: &str = "\
Work: instructions of the engine alone, and of three simulated nodes with records, frames and checksums, are counted where valgrind is in PATH and
this is a release build for x86-64; CPU time of three real nodes is measured always. A write is waited for, so that it is a batch of its own; more than
256 KiB are several, and the table says how many. Sizes: a client sends small writes at a rate, and the leader's records say into which batches they
came. A quantile is by bytes: half of all bytes lie in batches that are not larger than p50.

Example:
  logberg-lab zcp batches --quick --report batches.html
  logberg-lab zcp batches --rates 5M,200M --connections 1,8 --write-size 20";

/// Measure the work of a batch by its size, and the sizes that batches come to
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Batches {
    /// Bytes of a write that is waited for [default: 1, 10 … 1M]
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = quantity::at_least_one)]
    sizes: Vec<u64>,
    /// Bytes a second of all connections together [default: 5M, 20M, 50M, 100M and 200M, or 5M and 100M with --quick]
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', value_parser = quantity::bytes_per_second)]
    rates: Vec<u64>,
    /// So many connections, each to a log of its own
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,4", value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: Vec<u32>,
    /// Bytes of a write of those that are sent at a rate
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = quantity::at_least_one)]
    write_size: u64,
    #[command(flatten)]
    common: Common,
}

/// Rounds of a whole run, and of a quick one.
const ROUNDS: (u32, u32) = (20, 6);
const SIZES: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
const RATES: [u64; 5] = [5_000_000, 20_000_000, 50_000_000, 100_000_000, 200_000_000];
const QUICK_RATES: [u64; 2] = [5_000_000, 100_000_000];

impl Batches {
    pub fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let sizes = or(&self.sizes, &SIZES);
        let rates = match self.common.quick {
            true => or(&self.rates, &QUICK_RATES),
            false => or(&self.rates, &RATES),
        };
        let length = sizes::length(self.common.quick);
        let most = rates.iter().copied().max().unwrap_or(0);
        let bytes = sizes::bytes_needed(most, length).max(work::bytes_needed(&sizes));
        let scratch = self.common.place.make(bytes)?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let (began, since) = (SystemTime::now(), Instant::now());
        let rounds = self.common.rounds(ROUNDS);
        let slice = work::slice(self.common.quick);
        let places = (rates.len() * self.connections.len()) as u32;
        let turns = rounds * (sizes.len() as u32 + 1);
        let watch = Watch::of(slice * turns + length * places);
        let mut run = new_run(
            (&self.common, rounds),
            ("zcp batches", "bytes of a write"),
            &machine,
            (began, Duration::ZERO),
        );
        let counted = match valgrind::unusable() {
            Some(why) => {
                eprintln!("instructions are not counted: {why}");
                Vec::new()
            }
            None => work::instructions(&sizes, self.common.quick, &watch)?,
        };
        run.groups.extend(counted);
        let turns = work::Turns {
            rounds,
            slice,
            seed: self.common.seed,
        };
        let mut whole = work::cpu(&mut run, &sizes, turns, (&scratch, &watch))?;
        let mut found = sizes::group();
        for rate in &rates {
            for connections in &self.connections {
                if go_on().is_err() {
                    whole = false;
                    break;
                }
                watch.says(format!(
                    "{} MB/s, {connections} connections",
                    rate / 1_000_000
                ));
                let load = sizes::Load {
                    connections: *connections,
                    rate: *rate,
                    write_bytes: self.write_size,
                };
                sizes::measure(&mut found, load, length, &scratch)?;
                watch.passed(length);
            }
        }
        drop(watch);
        run.groups.push(found);
        run.run.complete = whole;
        run.run.seconds = since.elapsed().as_secs_f64().round();
        finish(run, &self.common, (json, report), checks_of)
    }
}

fn or(given: &[u64], usual: &[u64]) -> Vec<u64> {
    match given {
        [] => usual.to_vec(),
        given => given.to_vec(),
    }
}

fn checks_of(run: &Run) -> Vec<Checked> {
    let group = |title: &str| run.groups.iter().find(|group| group.title == title);
    let ends = |group: &Group, variant: &str, name: &str| -> Option<(f64, f64)> {
        let all = group.measures.iter();
        let all = all.filter(|one| one.variant == variant && one.name == name);
        let least = all.clone().min_by(|a, b| a.x.total_cmp(&b.x))?;
        let most = all.max_by(|a, b| a.x.total_cmp(&b.x))?;
        Some((least.value, most.value))
    };
    let at = |title: &str, name: &str, x: f64| {
        let mut all = group(title)?.measures.iter();
        Some(all.find(|one| one.name == name && one.x == x)?.value)
    };
    let exactly = |name: &str, value: Option<f64>| Checked::of(name, (value?, value?, value?));
    let engine = group(work::ENGINE)
        .and_then(|group| ends(group, work::ALONE, work::COUNTED))
        .map(|(least, most)| most / least);
    let nodes =
        || Some(at(work::NODES, work::COUNTED, 1e5)? / at(work::NODES, work::COUNTED, 1e3)?);
    let p50 = |connections| sizes::at_all_rates(run, connections, "p50");
    let growth = || {
        let all = p50(1);
        (all.len() > 1).then_some(all.last()?.1 / all.first()?.1)
    };
    let shared = || {
        let (one, many) = (p50(1), p50(4));
        let pairs = many.iter().filter_map(|(rate, many)| {
            let one = one.iter().find(|(at, _)| at == rate)?.1;
            Some(many / one)
        });
        crate::study::statistics::median(&pairs.collect::<Vec<_>>())
    };
    let cpu = |name: &str, a: &str, b: &str| {
        let pair = run.pairs.iter().find(|pair| pair.a == a && pair.b == b)?;
        Checked::of_pair(name, pair)
    };
    [
        exactly("engine, most slots/fewest, instructions", engine),
        exactly("nodes, 100 KB/1 KB, instructions", nodes()),
        cpu("nodes, 1 KB/1 B, CPU", "1000 B", "1 B"),
        cpu("nodes, 100 KB/1 KB, CPU", "100000 B", "1000 B"),
        exactly("batch by bytes, fastest/slowest rate", growth()),
        exactly("batch by bytes, four connections/one", shared()),
    ]
    .into_iter()
    .flatten()
    .collect()
}
