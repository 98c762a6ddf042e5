//! `bench guest`: a machine of one's own on three nodes, and what its log's neighbours feel of it.
//!
//! ```text
//!  bench ── orders, answers ──▶ node 1 ┐
//!    │                          node 2 ├ processes of their own: node, host, machine; callers in the leader's
//!    │                          node 3 ┘
//!    └── raw appends to a log beside the machine's, led by the same node
//!
//!  submits ⇄ appends ── the state written ── appends beside nothing ⇄ a busy log ⇄ the busy machine
//!          ── all killed, started (several times) ── a state lost, under submits
//! ```

pub mod callers;
mod cluster;
mod losses;
pub mod node;
mod orders;
mod rows;
mod shown;
mod turns;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use bench::latency::{median, rounded};
use cluster::{Cluster, NODES};
use losses::{Loss, Refill, Restart};
use orders::Order;
use rows::{KEY_BYTES, Rows};
use terminal::show;
use testbed::environment::Machine;
use testbed::process::{peak_rss_bytes, rss_bytes};
use testbed::scratch::{Place, Scratch};
use testbed::watch::Watch;
use turns::{Beside, Neighbour, Turn, What};
use wire::quantity;

const HELP: &str = "\
A command writes one row; it is submitted by threads of the leader's process. A log takes one writer
at a time: beside them stands one appender, which as many threads of this process share, each of
which appends as many bytes as a value has and waits for their acknowledgement. The two take turns.

The state is then written. Raw appends of 1 KiB at a fixed rate to another log of the same nodes
take turns beside nothing that is busy, beside a busy machine, and beside a third log that is as busy
and has no machine: what any neighbour costs. All three processes are killed (SIGKILL), what the
page cache has of their files is dropped, and they are started. Last, one follower loses its state.

Example: ten gigabytes of state, and turns of ten seconds
  logberg-lab bench guest --state 10GB --seconds 10 --times 3
  logberg-lab bench guest --state 8MB --flush 2MB --seconds 1 --times 1";

/// Measure a machine on three nodes: submits, restarts, a lost state, memory, appends beside it
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Keys and values of the machine's state
    #[arg(long, value_name = "BYTES", default_value = "256MB", value_parser = quantity::at_least_one)]
    state: u64,
    /// Bytes of a value, and of an append; keys have 16
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    value_size: u32,
    /// Callers at full load; a single one is measured too
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    callers: u32,
    /// Callers while a lost state comes back
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    loss_callers: u32,
    /// Bytes per second appended beside the machine
    #[arg(long, value_name = "RATE", default_value = "20M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    /// How long each turn is counted, and submits before a state is lost
    #[arg(long, value_name = "SECONDS", default_value = "4", value_parser = quantity::seconds)]
    seconds: f64,
    /// How often each takes its turn, and how often all processes are killed
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=20))]
    times: u32,
    /// Bytes of the log that nodes apply before they flush
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = quantity::at_least_one)]
    flush: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    state_bytes: u64,
    rows: u64,
    key_bytes: u64,
    value_bytes: u32,
    flush_bytes: u64,
    /// The writer of the raw appends: one appender, which all callers share.
    appends: &'static str,
    turns: Vec<Turn>,
    /// Medians of submits, as parts of those of appends.
    submit_ratios: Vec<Ratio>,
    /// While the state was written.
    fill_mb_per_s: f64,
    rate: u64,
    beside: Vec<Beside>,
    /// The median p99 beside a busy machine, as a part of that beside nothing, and beside a busy log without a machine.
    ratio_p99_to_idle: f64,
    ratio_p99_to_log: f64,
    restarts: Vec<Restart>,
    answers_after_median_ms: f64,
    refill: Refill,
    memory: Vec<Memory>,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Ratio {
    callers: u32,
    per_s: f64,
    p50: f64,
    p99: f64,
}

/// One process's resident memory.
#[derive(Debug, Serialize)]
struct Memory {
    when: &'static str,
    node: u32,
    role: &'static str,
    rss_mb: f64,
    peak_rss_mb: f64,
}

const NEIGHBOURS: [Neighbour; 3] = [Neighbour::Idle, Neighbour::Log, Neighbour::Machine];
/// Rows that are ordered at a time while the state is written.
const FILL_ROWS: u64 = 50_000;
const FILL_ATTEMPTS: u32 = 20;
/// The slowest state that is waited for, in bytes per second, beside two minutes.
const STATE_MIN: u64 = 2_000_000;
/// Submits and appends write far less than this in a second.
const WRITTEN_PER_S: f64 = 30e6;

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let rows = Rows::of_bytes(self.state, self.value_size);
        let scratch = self.place.make(self.bytes_needed())?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let watch = Watch::new(u64::from(self.times) * 8 + 2);
        watch.says("starting");
        let mut cluster = Cluster::start(scratch.path().join("cluster"), rows, self.flush)?;
        let report = self.measure(&mut cluster, rows, &scratch, &watch, machine)?;
        drop(watch);
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    fn bytes_needed(&self) -> u64 {
        let turns = f64::from(self.times) * (self.seconds + 1.0);
        let log = (self.state as f64).min(5e9) + 3.0 * turns * self.rate as f64 * 1.1;
        let written = (7.0 * turns + 60.0) * WRITTEN_PER_S;
        let node = 1.5 * self.state as f64 + log + written;
        // And a lost state, which is put aside.
        node as u64 * u64::from(NODES) + self.state
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(120 + self.state / STATE_MIN)
    }

    fn measure(
        &self,
        cluster: &mut Cluster,
        rows: Rows,
        scratch: &Scratch,
        watch: &Watch,
        machine: Machine,
    ) -> Result<Report> {
        let turns = self.turns(cluster, watch)?;
        scratch.check_space()?;
        let fill_mb_per_s = self.fill(cluster, rows, scratch, watch)?;
        watch.step(1);
        let mut memory = memory(cluster, "written")?;
        let beside = self.beside(cluster, watch)?;
        memory.extend(self::memory(cluster, "after full load")?);
        let mut restarts = Vec::new();
        for _ in 0..self.times {
            watch.says("all are killed, and started");
            restarts.push(losses::restart(cluster, self.patience())?);
            scratch.check_space()?;
            watch.step(1);
        }
        let loss = Loss {
            rows,
            callers: self.loss_callers,
            before: Duration::from_secs_f64(self.seconds),
            patience: self.patience(),
            scratch,
            watch,
        };
        let refill = loss.measure(cluster)?;
        memory.extend(self::memory(cluster, "a lost state is back")?);
        let p99 = |neighbour| shown::of_neighbour(&beside, neighbour, |turn| turn.p99_ms);
        let beside_machine = p99(Neighbour::Machine);
        Ok(Report {
            bench: "guest",
            state_bytes: rows.bytes(),
            rows: rows.count,
            key_bytes: KEY_BYTES,
            value_bytes: rows.value_bytes,
            flush_bytes: self.flush,
            appends: "one appender, shared by as many threads as there are callers",
            submit_ratios: self.ratios(&turns),
            turns,
            fill_mb_per_s,
            rate: self.rate,
            ratio_p99_to_idle: rounded(beside_machine / p99(Neighbour::Idle).max(0.001)),
            ratio_p99_to_log: rounded(beside_machine / p99(Neighbour::Log).max(0.001)),
            beside,
            answers_after_median_ms: rounded(median(
                restarts.iter().map(|restart| restart.answers_after_ms),
            )),
            restarts,
            refill,
            memory,
            machine,
        })
    }

    fn counts(&self) -> Vec<u32> {
        match self.callers {
            1 => vec![1],
            callers => vec![1, callers],
        }
    }

    /// Submits and appends in turn. Each is the first as often as the other.
    fn turns(&self, cluster: &mut Cluster, watch: &Watch) -> Result<Vec<Turn>> {
        let length = Duration::from_secs_f64(self.seconds);
        let mut turns = Vec::new();
        for time in 0..self.times {
            for callers in self.counts() {
                let mut order = [What::Submits, What::Appends];
                order.rotate_left(time as usize % 2);
                for what in order {
                    watch.says(format!("{}, {callers} callers", what.name()));
                    turns.push(match what {
                        What::Submits => turns::submits(cluster, callers, length)?,
                        What::Appends => {
                            turns::appends(cluster, callers, self.value_size as usize, length)?
                        }
                    });
                    watch.step(1);
                }
            }
        }
        Ok(turns)
    }

    fn ratios(&self, turns: &[Turn]) -> Vec<Ratio> {
        let ratio = |callers| {
            let middle = |what, of| shown::middle(turns, what, callers, of);
            let of_appends =
                |of| rounded(middle(What::Submits, of) / middle(What::Appends, of).max(0.001));
            Ratio {
                callers,
                per_s: of_appends(|figures| figures.per_s),
                p50: of_appends(|figures| figures.p50_ms),
                p99: of_appends(|figures| figures.p99_ms),
            }
        };
        self.counts().into_iter().map(ratio).collect()
    }

    /// Appends beside each neighbour in turn.
    fn beside(&self, cluster: &mut Cluster, watch: &Watch) -> Result<Vec<Beside>> {
        let length = Duration::from_secs_f64(self.seconds);
        let bytes = self.value_size as usize;
        let mut turns = Vec::new();
        for time in 0..self.times {
            let mut order = NEIGHBOURS;
            order.rotate_left(time as usize % NEIGHBOURS.len());
            for neighbour in order {
                watch.says(format!("appends beside {}", neighbour.name()));
                turns.push(turns::beside(
                    cluster,
                    neighbour,
                    self.callers,
                    bytes,
                    self.rate,
                    length,
                )?);
                watch.step(1);
            }
        }
        Ok(turns)
    }

    /// Writes all rows. Returns MB/s, until all nodes can read them.
    fn fill(
        &self,
        cluster: &mut Cluster,
        rows: Rows,
        scratch: &Scratch,
        watch: &Watch,
    ) -> Result<f64> {
        let began = Instant::now();
        let (mut from, mut attempts) = (0, 0);
        let mut leader = cluster.gather()?;
        while from < rows.count {
            let to = rows.count.min(from + FILL_ROWS);
            watch.says(format!("writing the state: {} %", 100 * from / rows.count));
            match cluster.ask(leader, &Order::Fill { from, to }) {
                Ok(()) => from = to,
                // Written anew, where the machine is led now.
                Err(error) if attempts < FILL_ATTEMPTS => {
                    attempts += 1;
                    watch.note(format!("some rows are written again: {error:#}"));
                    leader = cluster.gather()?;
                }
                Err(error) => bail!("the state cannot be written: {error:#}"),
            }
            scratch.check_space()?;
        }
        cluster.wait_reads(self.patience())?;
        let seconds = began.elapsed().as_secs_f64();
        Ok(rounded(rows.bytes() as f64 / 1e6 / seconds))
    }
}

fn memory(cluster: &mut Cluster, when: &'static str) -> Result<Vec<Memory>> {
    let leader = cluster.gather()?;
    let of_node = |node| {
        let pid = cluster.pid(node)?;
        Ok(Memory {
            when,
            node,
            role: if node == leader { "leader" } else { "follower" },
            rss_mb: rounded(rss_bytes(pid)? as f64 / 1e6),
            peak_rss_mb: rounded(peak_rss_bytes(pid)? as f64 / 1e6),
        })
    };
    (1..=NODES).map(of_node).collect()
}
