//! `--beside`: what clients feel of a neighbour that misbehaves, and what the memory of his node does.
//!
//! ```text
//!  paced clients of all nodes:  alone │ beside him │ alone │ beside him …      p99 and longest wait of each; a ratio for each pair
//!  memory of node 1:            ──────┴────────────┴── looked at all the while: the most of it
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use serde::Serialize;

use bench::latency::{median, quantile_ms, rounded};
use testbed::process::rss_bytes;
use testbed::watch::Watch;

use super::generator::Generator;
use super::load::{Load, Op, Tally};
use super::neighbours::{Neighbour, Place};
use super::nodes::Nodes;
use super::slots::{Map, SLOTS, address_of};
use super::values::name_of;

#[derive(Debug, Serialize)]
pub struct Beside {
    pub neighbour: Neighbour,
    pub op: Op,
    pub clients: u32,
    /// Medians of all rounds; the longest waits of all.
    pub alone_p99_ms: f64,
    pub beside_p99_ms: f64,
    pub p99_ratio: f64,
    pub alone_max_ms: f64,
    pub beside_max_ms: f64,
    /// The memory of his node before he came, and the most while he was there.
    pub before_mb: f64,
    pub peak_mb: f64,
    /// His commands, or connections that did what they could.
    pub done: u64,
    pub errors: u64,
}

impl Beside {
    pub fn row(&self) -> Vec<String> {
        vec![
            self.neighbour.name().to_owned(),
            format!("{}, {} clients", self.op.name(), self.clients),
            self.alone_p99_ms.to_string(),
            self.beside_p99_ms.to_string(),
            self.p99_ratio.to_string(),
            self.alone_max_ms.to_string(),
            self.beside_max_ms.to_string(),
            self.before_mb.to_string(),
            self.peak_mb.to_string(),
            self.done.to_string(),
            self.errors.to_string(),
        ]
    }
}

/// Each asks so often: a load that leaves room.
const CLIENTS: u32 = 16;
const PACE: Duration = Duration::from_millis(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Keys beyond those of the clients, for neighbours.
const SPARE_KEYS: u32 = 1000;

pub fn measure(
    nodes: &Nodes,
    generator: &mut Generator,
    (keys, length, times): (u32, Duration, u32),
    watch: &Watch,
) -> Result<Vec<Beside>> {
    let place = place(nodes, keys)?;
    let mut all = Vec::new();
    for neighbour in Neighbour::value_variants() {
        for op in [Op::Set, Op::Get] {
            neighbour.prepare(&place)?;
            let mut measured = Measured::default();
            let pid = nodes.pid(1)?;
            measured.before = rss_bytes(pid)?;
            for _ in 0..times {
                watch.says(format!("{}, {} alone", neighbour.name(), op.name()));
                let alone = heard(generator, op, length, &mut |_| Ok(()))?;
                watch.says(format!("{}, {} beside it", neighbour.name(), op.name()));
                let guest = Guest::start(*neighbour, &place)?;
                let mut looked_at = Instant::now();
                let mut look = |now: Instant| {
                    if now >= looked_at {
                        looked_at = now + LOOK_EVERY;
                        measured.peak = measured.peak.max(rss_bytes(pid)?);
                    }
                    Ok(())
                };
                let beside = heard(generator, op, length, &mut look)?;
                measured.done += guest.end()?;
                measured.add(&alone, &beside);
                watch.step(1);
            }
            all.push(measured.shown(*neighbour, op));
        }
    }
    Ok(all)
}

/// A key of the first node's that no client asks for.
fn place(nodes: &Nodes, keys: u32) -> Result<Place> {
    let map = Map::of_cluster(&nodes.doors, keys + SPARE_KEYS)?;
    let door = address_of(nodes.door(1))?;
    let its = map
        .ranges
        .iter()
        .filter(|range| map.servers[range.server] == door);
    let spare = its.flat_map(|range| &range.keys).find(|key| **key >= keys);
    let spare = spare.context("node 1 answers for none of the spare keys")?;
    Ok(Place {
        door,
        key: name_of(*spare).to_vec(),
    })
}

/// The clients' replies, for so long.
fn heard(
    generator: &mut Generator,
    op: Op,
    length: Duration,
    look: &mut dyn FnMut(Instant) -> Result<()>,
) -> Result<Tally> {
    let load = Load {
        op,
        clients: CLIENTS,
        pipeline: 1,
    };
    let end = Instant::now() + length;
    let (tally, _) = generator.paced(load, PACE, 0..=SLOTS - 1, |_| {
        let now = Instant::now();
        look(now)?;
        Ok(now < end)
    })?;
    Ok(tally)
}

#[derive(Default)]
struct Measured {
    alone: Vec<f64>,
    beside: Vec<f64>,
    ratios: Vec<f64>,
    alone_max: f64,
    beside_max: f64,
    before: u64,
    peak: u64,
    done: u64,
    errors: u64,
}

impl Measured {
    fn add(&mut self, alone: &Tally, beside: &Tally) {
        let p99 = |tally: &Tally| quantile_ms(&tally.micros, 0.99);
        let longest = |tally: &Tally| quantile_ms(&tally.micros, 1.0);
        self.ratios.push(p99(beside) / p99(alone));
        self.alone.push(p99(alone));
        self.beside.push(p99(beside));
        self.alone_max = self.alone_max.max(longest(alone));
        self.beside_max = self.beside_max.max(longest(beside));
        self.errors += alone.failed + alone.wrong + beside.failed + beside.wrong;
    }

    fn shown(self, neighbour: Neighbour, op: Op) -> Beside {
        Beside {
            neighbour,
            op,
            clients: CLIENTS,
            alone_p99_ms: rounded(median(self.alone)),
            beside_p99_ms: rounded(median(self.beside)),
            p99_ratio: rounded(median(self.ratios)),
            alone_max_ms: rounded(self.alone_max),
            beside_max_ms: rounded(self.beside_max),
            before_mb: rounded(self.before as f64 / 1e6),
            peak_mb: rounded(self.peak as f64 / 1e6),
            done: self.done,
            errors: self.errors,
        }
    }
}

/// His threads, which end when they are told so.
struct Guest {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Guest {
    fn start(neighbour: Neighbour, place: &Place) -> Result<Guest> {
        let mut guest = Guest {
            stop: Arc::default(),
            done: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..neighbour.count() {
            let (stop, done, place) = (guest.stop.clone(), guest.done.clone(), place.clone());
            let thread = thread::Builder::new().name("bench-guest".to_owned());
            let act = move || neighbour.act(&place, &stop, &done);
            guest.threads.push(thread.spawn(act)?);
        }
        Ok(guest)
    }

    fn end(mut self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join().map_err(|_| anyhow!("a neighbour panicked"))?;
            ended.context("a neighbour")?;
        }
        Ok(self.done.load(Ordering::Relaxed))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
