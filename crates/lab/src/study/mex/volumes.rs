//! Many bytes of values of each size, in a cluster of its own; and writing them.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow, bail};
use bench::roles::Watched;
use clap::Args;
use testbed::environment::Machine;
use testbed::process::rss_bytes;
use testbed::scratch::{Scratch, go_on};
use testbed::watch::Watch;
use wire::quantity;

use super::clusters::Setup;
use crate::benches::kv::generator::{Generator, Length};
use crate::benches::kv::load::{Load, Op};
use crate::benches::kv::nodes::Nodes;
use crate::benches::kv::slots::Map;
use crate::benches::kv::values::KEY_BYTES;
use crate::study::common::{Common, finish, new_run};
use crate::study::published;
use crate::study::rounds::Samples;
use crate::study::run::{Cell, Checked, Published, Run, Variant};
use crate::study::statistics;

pub const FILL: &str = "\
The paper wrote 1 GB to its database on one machine, on a hard disk and on an SSD. Here the same bytes are values that clients set:
agreed on by three replicas, durable on each of them, and in the rows of each.

Example:
  logberg-lab mex fill --bytes 100MB --value-sizes 10KB,1MB";

#[derive(Clone, Debug, Args)]
pub struct Volume {
    /// Bytes of a value [default: the paper's, 5 KB to 1.5 MB; or 5KB, 100KB and 1MB with --quick]
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = value_bytes)]
    value_sizes: Vec<u64>,
    #[command(flatten)]
    pub common: Common,
}

/// Write many bytes (1 GB in the paper)
#[derive(Debug, Args)]
pub struct Fill {
    /// Bytes of all values [default: 1GB, or 100MB with --quick]
    #[arg(long, value_name = "BYTES", value_parser = volume_bytes)]
    bytes: Option<u64>,
    #[command(flatten)]
    volume: Volume,
}

const SIZES: [u64; 8] = [
    5_000, 50_000, 100_000, 150_000, 250_000, 500_000, 1_024_000, 1_500_000,
];
const QUICK_SIZES: [u64; 3] = [5_000, 100_000, 1_000_000];
pub const PATIENCE: Duration = Duration::from_secs(300);
pub const POLL: Duration = Duration::from_millis(20);
/// The logs, the rows, and rows that are merged.
const COPIES_PER_NODE: u64 = 4;
pub const NODES: u32 = 3;
pub const READ: Length = Length {
    warm_up: Duration::ZERO,
    counted: Duration::from_secs(1),
};

fn value_bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        bytes if (100..=16 << 20).contains(&bytes) => Ok(bytes),
        _ => Err("values have 100 bytes to 16 MiB here".to_owned()),
    }
}

pub fn volume_bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        bytes if (1 << 20..=4 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("1 MiB to 4 GiB can be written here".to_owned()),
    }
}

/// The findings of a study, beside what it was made with.
pub struct Study<'a> {
    pub common: &'a Common,
    sizes: Vec<u64>,
    pub bytes: u64,
    pub scratch: Scratch,
    machine: Machine,
    pub watch: Watch,
    began: (SystemTime, Instant),
    cells: Vec<(&'static str, f64, Samples)>,
    /// The most memory that a node had more than before, in bytes.
    added: u64,
    complete: bool,
}

impl Volume {
    /// `times`: how often all bytes are on a disk.
    pub fn begin(
        &self,
        bytes: (Option<u64>, u64, u64),
        times: u64,
        steps: u64,
    ) -> Result<Study<'_>> {
        let (given, whole, quick) = bytes;
        let is_quick = self.common.quick;
        let bytes = given.unwrap_or(if is_quick { quick } else { whole });
        let sizes = match (&self.value_sizes[..], is_quick) {
            ([], true) => QUICK_SIZES.to_vec(),
            ([], false) => SIZES.to_vec(),
            (given, _) => given.to_vec(),
        };
        let scratch = self
            .common
            .place
            .make(bytes * times * COPIES_PER_NODE * u64::from(NODES) + (1 << 30))?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let watch = Watch::new(steps * sizes.len() as u64);
        Ok(Study {
            common: &self.common,
            sizes,
            bytes,
            scratch,
            machine,
            watch,
            began: (SystemTime::now(), Instant::now()),
            cells: Vec::new(),
            added: 0,
            complete: true,
        })
    }
}

impl Study<'_> {
    /// Each size has a cluster of its own. A run that somebody asked to end keeps what it measured.
    pub fn each_size(
        &mut self,
        measure: impl Fn(&mut Self, &Nodes, u64) -> Result<()>,
    ) -> Result<()> {
        for size in self.sizes.clone() {
            let measured = self.one_size(size, &measure);
            if let Err(error) = measured {
                if go_on().is_ok() || self.cells.is_empty() {
                    return Err(error);
                }
                self.complete = false;
                break;
            }
        }
        Ok(())
    }

    fn one_size(
        &mut self,
        size: u64,
        measure: impl Fn(&mut Self, &Nodes, u64) -> Result<()>,
    ) -> Result<()> {
        go_on()?;
        self.watch.says("starting three nodes");
        let directory = self.scratch.path().join(format!("of-{size}"));
        let nodes = Setup::of(NODES as u16, NODES).start(directory.clone())?;
        measure(self, &nodes, size)?;
        drop(nodes);
        self.scratch.retire(&directory)
    }

    pub fn note(&mut self, variant: &'static str, size: u64, took: Duration) {
        let x = size as f64 / 1e3;
        let mut all = self.cells.iter_mut();
        let of = all.find(|(name, at, _)| *name == variant && *at == x);
        let ms = took.as_secs_f64() * 1e3;
        match of {
            Some((_, _, samples)) => {
                samples.all.push(ms);
                samples.rounds.push(ms);
            }
            None => {
                let samples = Samples {
                    all: vec![ms],
                    rounds: vec![ms],
                };
                self.cells.push((variant, x, samples));
            }
        }
    }

    /// Many times at once, in milliseconds.
    pub fn note_all(&mut self, variant: &'static str, size: u64, found: Samples) {
        let x = size as f64 / 1e3;
        let mut all = self.cells.iter_mut();
        match all.find(|(name, at, _)| *name == variant && *at == x) {
            Some((_, _, samples)) => {
                samples.all.extend(found.all);
                samples.rounds.extend(found.rounds);
            }
            None => self.cells.push((variant, x, found)),
        }
    }

    /// How a client fared meanwhile: its p99 to that of before, and the longest that it waited.
    pub fn progress(&self, before: &str, meanwhile: &[&str]) -> Vec<Checked> {
        let of = |names: &[&str]| -> Vec<f64> {
            let cells = self.cells.iter().filter(|(id, _, _)| names.contains(id));
            cells
                .flat_map(|(_, _, samples)| samples.all.clone())
                .collect()
        };
        let during = of(meanwhile);
        let p99 = |all: &[f64]| statistics::quantile(all, 0.99);
        let (Some(rest), Some(most)) = (p99(&of(&[before])), p99(&during)) else {
            return Vec::new();
        };
        let ratio = most / rest;
        let longest = during.iter().copied().fold(0.0, f64::max);
        let all = [
            Checked::of("p99 while a replica recovers/before", (ratio, ratio, ratio)),
            Checked::of(
                "longest wait while a replica recovers, ms",
                (longest, longest, longest),
            ),
        ];
        all.into_iter().flatten().collect()
    }

    pub fn keys(&self, size: u64) -> u32 {
        self.bytes.div_ceil(size + KEY_BYTES as u64) as u32
    }

    pub fn run(&self, name: &str, rounds: u32, items: &[&str]) -> Run {
        let (began, since) = self.began;
        let mut run = new_run(
            (self.common, rounds),
            (name, "KB of a value"),
            &self.machine,
            (began, since.elapsed()),
        );
        run.run.complete = self.complete;
        for (variant, x, samples) in &self.cells {
            if !run.variants.iter().any(|known| known.id == *variant) {
                run.variants.push(Variant {
                    id: (*variant).to_owned(),
                    ink: "disk".to_owned(),
                    transport: "tcp".to_owned(),
                    lag: "none".to_owned(),
                });
            }
            run.cells.extend(Cell::of(variant, *x, samples));
        }
        for item in items {
            let numbers = published::of("mex", item);
            let numbers = numbers.iter().filter(|number| number.setup.is_none());
            run.published.extend(numbers.filter_map(Published::of));
        }
        run.counts.insert("bytes of values".to_owned(), self.bytes);
        if self.added > 0 {
            let kib = self.added >> 10;
            run.counts
                .insert("most memory that a node took more, KiB".to_owned(), kib);
        }
        run
    }

    /// The time of the smallest values to that of those nearest to 1 MB.
    pub fn small_to_large(&self, name: &str, variant: &str) -> Option<Checked> {
        let middle = |wanted: f64| -> Option<f64> {
            let of = self.cells.iter().filter(|(id, _, _)| *id == variant);
            let near = |x: f64| (x.ln() - wanted.ln()).abs();
            let found = of.min_by(|a, b| near(a.1).total_cmp(&near(b.1)))?;
            statistics::median(&found.2.all)
        };
        let ratio = middle(5.0)? / middle(1_000.0)?;
        Checked::of(name, (ratio, ratio, ratio))
    }

    pub fn memory(&self) -> Option<Checked> {
        let mib = self.added as f64 / f64::from(1 << 20);
        Checked::of("memory of a transfer, MiB", (mib, mib, mib))
    }

    /// Does something, while the memory of these processes is looked at.
    pub fn watched<T: Send>(
        &mut self,
        pids: &[u32],
        what: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        let resting: Vec<u64> = pids
            .iter()
            .map(|pid| rss_bytes(*pid).unwrap_or(0))
            .collect();
        thread::scope(|scope| {
            let done = scope.spawn(what);
            while !done.is_finished() {
                for (pid, before) in pids.iter().zip(&resting) {
                    // One that was killed meanwhile has none.
                    let now = rss_bytes(*pid).unwrap_or(0);
                    self.added = self.added.max(now.saturating_sub(*before));
                }
                thread::sleep(POLL);
            }
            done.join()
                .map_err(|_| anyhow!("what is measured panicked"))?
        })
    }
}

/// Reads for a second: a value that cannot be ends the run.
pub fn read(generator: &mut Generator) -> Result<()> {
    let load = Load {
        op: Op::Get,
        clients: 4,
        pipeline: 1,
    };
    let turn = generator.turn(load, READ, &Watched::new(Vec::new(), None))?;
    match turn.wrong {
        0 => Ok(()),
        wrong => bail!("{wrong} values are wrong: {}", turn.why.unwrap_or_default()),
    }
}

pub fn pids(nodes: &Nodes) -> Result<Vec<u32>> {
    (1..=NODES).map(|node| nodes.pid(node)).collect()
}

impl Fill {
    pub fn run(self, json: bool) -> Result<()> {
        let report = self.volume.common.report.open()?;
        let mut study = self
            .volume
            .begin((self.bytes, 1_000_000_000, 100_000_000), 1, 1)?;
        study.each_size(|study, nodes, size| {
            study.watch.says(format!("writing values of {size} B"));
            let map = Map::of_cluster(&nodes.doors, study.keys(size))?;
            let mut generator = Generator::new(map, size as usize)?;
            let began = Instant::now();
            generator.fill(|_| ())?;
            study.note("three replicas, set by clients", size, began.elapsed());
            study.watch.step(1);
            read(&mut generator)
        })?;
        let mut run = study.run("mex fill", 1, &[]);
        // The paper's has no size of a value.
        let (small, large) = run
            .cells
            .iter()
            .fold((f64::MAX, 0.0), |(low, high): (f64, f64), cell| {
                (low.min(cell.x), high.max(cell.x))
            });
        for number in published::of("mex", "raw write of 1 GB") {
            for x in [small, large] {
                let ours = Published::of(&number).map(|one| Published {
                    series: number.setup.unwrap_or_default().to_owned(),
                    x,
                    ..one
                });
                run.published.extend(ours);
            }
        }
        finish(run, &self.volume.common, (json, report), |_| Vec::new())
    }
}
