//! `--beside`: the latency of clients beside noisy neighbours, and the memory of the neighbours' node.
//!
//! ```text
//!  paced clients of all nodes:  alone │ beside them │ alone │ beside them …      p99 and longest wait of each; a ratio for each pair
//!  memory of node 1:            ──────┴─────────────┴── looked at all the while: the most of it
//! ```
//!
//! The neighbours' threads yield to all others (nice 19). They stand for clients on machines of their own, so the time that they take
//! for themselves is not to be the nodes'.

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
    /// Connections of the neighbour.
    pub connections: u32,
    pub op: Op,
    pub clients: u32,
    /// Medians of all rounds; the longest waits of all.
    pub alone_p99_ms: f64,
    pub beside_p99_ms: f64,
    pub p99_ratio: f64,
    pub alone_max_ms: f64,
    pub beside_max_ms: f64,
    /// The memory of the neighbour's node before it came, and the most while it was there.
    pub before_mb: f64,
    pub peak_mb: f64,
    /// The neighbour's commands, or connections that did what they could.
    pub done: u64,
    pub errors: u64,
}

impl Beside {
    pub fn row(&self) -> Vec<String> {
        vec![
            format!("{} × {}", self.connections, self.neighbour.name()),
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

/// The measurement that is wanted.
pub struct Plan {
    pub keys: u32,
    pub length: Duration,
    pub times: u32,
    /// Connections of each neighbour.
    pub connections: u32,
}

pub fn measure(
    nodes: &Nodes,
    generator: &mut Generator,
    plan: &Plan,
    watch: &Watch,
) -> Result<Vec<Beside>> {
    let place = place(nodes, plan.keys)?;
    let mut all = Vec::new();
    for neighbour in Neighbour::value_variants() {
        for op in [Op::Set, Op::Get] {
            neighbour.prepare(&place)?;
            let mut measured = Measured::default();
            let pid = nodes.pid(1)?;
            measured.before = rss_bytes(pid)?;
            for _ in 0..plan.times {
                watch.says(format!("{}, {} alone", neighbour.name(), op.name()));
                let alone = heard(generator, op, plan.length, &mut |_| Ok(()))?;
                watch.says(format!("{}, {} beside it", neighbour.name(), op.name()));
                let running = Running::start(*neighbour, plan.connections, &place)?;
                let mut looked_at = Instant::now();
                let mut look = |now: Instant| {
                    if now >= looked_at {
                        looked_at = now + LOOK_EVERY;
                        measured.peak = measured.peak.max(rss_bytes(pid)?);
                    }
                    Ok(())
                };
                let beside = heard(generator, op, plan.length, &mut look)?;
                measured.done += running.end()?;
                measured.add(&alone, &beside);
                watch.step(1);
            }
            all.push(measured.shown(*neighbour, plan.connections, op));
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

    fn shown(self, neighbour: Neighbour, connections: u32, op: Op) -> Beside {
        Beside {
            neighbour,
            connections,
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

/// The threads of a neighbour, which end when they are told so.
struct Running {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Running {
    fn start(neighbour: Neighbour, connections: u32, place: &Place) -> Result<Running> {
        let mut running = Running {
            stop: Arc::default(),
            done: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..connections {
            let (stop, done, place) = (running.stop.clone(), running.done.clone(), place.clone());
            let thread = thread::Builder::new().name("bench-neighbour".to_owned());
            let act = move || {
                rustix::process::nice(19)?;
                neighbour.act(&place, &stop, &done)
            };
            running.threads.push(thread.spawn(act)?);
        }
        Ok(running)
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

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
