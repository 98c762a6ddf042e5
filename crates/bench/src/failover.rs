//! `bench failover`: how long a client waits for its next ack when the leader is lost.
//!
//! ```text
//!  load ── fault on the leader ─────── another leader ── first ack under it ── heal ── all level
//!            └──────────────────── measured ────────────────────┘              (next round)
//! ```
//!
//! At the end all that was ever acknowledged is read back and compared, byte by byte.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use client::{Client, Timeouts};
use serde::Serialize;

use super::latency::{median, ms, rounded};
use super::load::{Content, Plan, Writer};
use super::promise::{Promise, lost_bytes};
use super::proxied::ProxiedCluster;
use super::report::plot::{Axis, Line, Lines};
use super::report::{self, Page};
use terminal::exit::Failure;
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::environment::Machine;
use testbed::level;
use testbed::scratch::Place;
use testbed::watch::{Watch, sleep_until};
use wire::quantity;

const HELP: &str = "\
kill: SIGKILL; the peers' connections break. stop: SIGSTOP; the process is there and says nothing.
silent: its traffic ends without a word, as when a cable is pulled; nodes talk through proxies for
that. A disk that stalls is for `logberg-lab bench failover`. Ends with 1 if anything that was
acknowledged cannot be read back.

Example: twenty leaders killed
  logberg bench failover --times 20 --mode kill";

/// Time from the loss of a leader to the next acknowledged byte
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// How many leaders are lost
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    /// How they are lost
    #[arg(long, value_name = "MODE", default_value = "kill")]
    mode: Mode,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=9))]
    nodes: u32,
    /// Bytes per second appended meanwhile
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    /// How long the client waits for a silent node before it asks others [default: the client's]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::seconds)]
    client_silence: Option<f64>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    report: report::To,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Kill,
    Stop,
    Silent,
    /// Its disk takes no write for 30 s, while its heartbeats go on.
    #[value(hide = true)]
    DiskStall,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Kill => "kill",
            Mode::Stop => "stop",
            Mode::Silent => "silent",
            Mode::DiskStall => "disk-stall",
        }
    }
}

/// Whether the nodes that this program starts have disks that fail when they are told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disks {
    AsTheyAre,
    Obedient,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    mode: Mode,
    times: u32,
    median_ms: f64,
    p90_ms: f64,
    max_ms: f64,
    all_ms: Vec<f64>,
    /// A client leaves a node that owes it an answer and is silent for so long.
    client_silence_ms: f64,
    acked_bytes: u64,
    lost_bytes: u64,
    machine: Machine,
}

const WRITE_BYTES: usize = 4096;
const ROUND_SECONDS: u64 = 15;
const PATIENCE: Duration = Duration::from_secs(60);

/// The cluster to which faults are done.
enum Cluster {
    Killed(LocalCluster),
    Paused(LocalCluster),
    Silenced(ProxiedCluster),
    Stalled(LocalCluster),
}

impl Arguments {
    pub fn run(self, json: bool, disks: Disks) -> Result<()> {
        if self.mode == Mode::DiskStall && disks == Disks::AsTheyAre {
            let sentence = "no disk can be made to stall by this program: say `logberg-lab bench failover --mode disk-stall`";
            return Err(Failure::usage(sentence).into());
        }
        let report_to = self.report.open()?;
        let bytes = self.rate * u64::from(self.times) * ROUND_SECONDS * u64::from(self.nodes);
        let scratch = self.place.make(bytes * 11 / 10)?;
        let machine = Machine::look(scratch.path())?;
        let watch = Watch::new(u64::from(self.times));
        watch.says("starting");
        let cluster = Cluster::start(self.mode, scratch.path(), self.nodes)?;
        let mut timeouts = Timeouts {
            total: PATIENCE,
            ..Timeouts::default()
        };
        if let Some(seconds) = self.client_silence {
            timeouts.silence = Duration::from_secs_f64(seconds);
        }
        let client = Client::new(cluster.addresses(), timeouts);
        let mut all = Vec::new();
        let mut promises = Vec::new();
        for round in 1..=self.times {
            let (took, promise) = self
                .round(&cluster, &client, &watch)
                .with_context(|| format!("round {round} of {}", self.times))?;
            all.push(rounded(ms(took)));
            promises.push(promise);
            watch.step(1);
        }
        watch.says("reading everything back");
        let mut lost = 0;
        for promise in &promises {
            lost += lost_bytes(&client, promise)?;
        }
        drop(watch);
        let mut sorted = all.clone();
        sorted.sort_by(f64::total_cmp);
        let report = Report {
            bench: "failover",
            mode: self.mode,
            times: self.times,
            median_ms: rounded(median(all.iter().copied())),
            p90_ms: sorted[(sorted.len() * 9).div_ceil(10) - 1],
            max_ms: sorted[sorted.len() - 1],
            all_ms: all,
            client_silence_ms: ms(timeouts.silence),
            acked_bytes: promises.iter().map(|promise| promise.acknowledged).sum(),
            lost_bytes: lost,
            machine,
        };
        if let Some(to) = report_to {
            to.write(report.page()?)?;
        }
        match json {
            true => show::print_json(&report)?,
            false => report.print()?,
        }
        match lost {
            0 => Ok(()),
            lost => bail!("{lost} acknowledged bytes cannot be read back"),
        }
    }

    fn round(
        &self,
        cluster: &Cluster,
        client: &Client,
        watch: &Watch,
    ) -> Result<(Duration, Promise)> {
        let plan = Plan {
            write_bytes: WRITE_BYTES,
            rate: Some(self.rate),
            // Room for what is written while there is no leader: the load must not pause.
            buffer_bytes: (self.rate as usize)
                .saturating_mul(10)
                .clamp(1 << 20, 1 << 30),
            content: Content::Numbered,
        };
        let acks: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let hears = acks.clone();
        let on_ack = move |_, at| {
            hears
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(at)
        };
        watch.says("load");
        let mut writer = Writer::start_with(client, "main", &plan, Some(Box::new(on_ack)))?;
        sleep_until(Instant::now() + Duration::from_millis(1000))?;
        writer.check()?;
        let addresses = cluster.addresses();
        let leader = level::leader(&addresses, "main").context("there is no leader")?;
        let reconnects = writer.reconnects();
        watch.says(format!("node {leader} is lost"));
        let began = Instant::now();
        cluster.strike(leader)?;
        let deadline = began + PATIENCE;
        // Acks of the old leader are all heard before the client looks for another one.
        let mut looking_since = None;
        let first = loop {
            if looking_since.is_none() && writer.reconnects() > reconnects {
                looking_since = Some(Instant::now());
            }
            let last = acks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .last()
                .copied();
            if let (Some(since), Some(last)) = (looking_since, last)
                && last >= since
            {
                let acks = acks.lock().unwrap_or_else(PoisonError::into_inner);
                let after = acks.partition_point(|at| *at < since);
                break acks[after];
            }
            writer.check()?;
            if Instant::now() >= deadline {
                bail!("nothing was acknowledged for {} s", PATIENCE.as_secs());
            }
            sleep_until(Instant::now() + Duration::from_micros(200))?;
        };
        sleep_until(Instant::now() + Duration::from_millis(300))?;
        watch.says(format!("node {leader} is back"));
        cluster.heal(leader)?;
        let stream = writer.stream();
        let closed = writer.finish()?;
        level::wait_level(&addresses, "main", PATIENCE)?;
        let promise = Promise {
            stream,
            acknowledged: closed.position,
        };
        Ok((first - began, promise))
    }
}

impl Cluster {
    fn start(mode: Mode, directory: &Path, nodes: u32) -> Result<Cluster> {
        if mode == Mode::Silent {
            return Ok(Cluster::Silenced(ProxiedCluster::start(directory, nodes)?));
        }
        let options = LocalOptions {
            fault_files: mode == Mode::DiskStall,
            ..LocalOptions::new(directory, nodes)
        };
        let cluster = LocalCluster::start(options)?;
        cluster.wait_ready(Duration::from_secs(30))?;
        Ok(match mode {
            Mode::Kill => Cluster::Killed(cluster),
            Mode::DiskStall => Cluster::Stalled(cluster),
            _ => Cluster::Paused(cluster),
        })
    }

    fn addresses(&self) -> Vec<String> {
        match self {
            Cluster::Killed(cluster) | Cluster::Paused(cluster) | Cluster::Stalled(cluster) => {
                cluster.addresses()
            }
            Cluster::Silenced(cluster) => cluster.addresses(),
        }
    }

    fn strike(&self, node: u32) -> Result<()> {
        match self {
            Cluster::Killed(cluster) => cluster.kill(node),
            Cluster::Paused(cluster) => cluster.pause(node),
            Cluster::Silenced(cluster) => {
                cluster.silence(node);
                Ok(())
            }
            Cluster::Stalled(cluster) => inject(cluster, node, "write-delay-ms=30000\n"),
        }
    }

    fn heal(&self, node: u32) -> Result<()> {
        match self {
            Cluster::Killed(cluster) => cluster.restart(node),
            Cluster::Paused(cluster) => cluster.go_on(node),
            Cluster::Silenced(cluster) => {
                cluster.heal(node);
                Ok(())
            }
            Cluster::Stalled(cluster) => inject(cluster, node, ""),
        }
    }
}

fn inject(cluster: &LocalCluster, node: u32, faults: &str) -> Result<()> {
    let path = cluster.fault_file(node);
    // Never half a line: the node reads it at any time.
    let aside = path.with_extension("new");
    fs::write(&aside, faults)
        .and_then(|()| fs::rename(&aside, &path))
        .with_context(|| format!("cannot write {}", path.display()))
}

const HEADINGS: [&str; 6] = [
    "mode",
    "times",
    "median ms",
    "p90 ms",
    "max ms",
    "lost bytes",
];

impl Report {
    fn row(&self) -> Vec<String> {
        vec![
            self.mode.name().to_owned(),
            self.times.to_string(),
            self.median_ms.to_string(),
            self.p90_ms.to_string(),
            self.max_ms.to_string(),
            self.lost_bytes.to_string(),
        ]
    }

    fn print(&self) -> Result<()> {
        show::print(show::rows(&HEADINGS, vec![self.row()]))?;
        show::print(self.machine.sentence())
    }

    fn page(&self) -> Result<Page> {
        let mut page = Page::new("Losing a leader", &self.machine);
        let rounds = (1..).map(f64::from).zip(self.all_ms.iter().copied());
        page.lines(&Lines {
            title: "From the fault to the next ack".to_owned(),
            x: Axis::linear("round"),
            y: Axis::linear("ms"),
            lines: vec![Line {
                name: self.mode.name().to_owned(),
                points: rounds.collect(),
                ..Line::default()
            }],
        })?;
        page.table(&HEADINGS.map(str::to_owned), &[self.row()]);
        Ok(page)
    }
}
