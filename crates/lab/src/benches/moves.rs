//! `bench move`: how long a client waits for its next ack when the leader is moved under load.
//!
//! ```text
//!  load ──── calm ────┬─ leader move ── answered ── settled ─┬── calm …       (next move)
//!   longest gap ──────┘       longest gap between acks ──────┘
//! ```
//!
//! One writer goes on through all moves. The longest gap of a calm while of the same length says what
//! the machine itself does. At the end all that was acknowledged is read back and compared.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Client, Timeouts};
use serde::Serialize;

use bench::latency::{median, ms, rounded};
use bench::load::{Content, Plan, Writer};
use bench::promise::{Promise, lost_bytes};
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::environment::Machine;
use testbed::level;
use testbed::scratch::Place;
use testbed::watch::{Watch, sleep_until};
use wire::quantity;

const HELP: &str = "\
Each move names the next node in turn. Ends with 1 if anything that was acknowledged cannot be read back.

Example: twenty moves at 100 MB/s
  logberg-lab bench move --times 20 --rate 100M";

/// Longest pause between acknowledgements when the leader is moved on purpose
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// How many times the leader moves
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=9))]
    nodes: u32,
    /// Bytes per second appended meanwhile
    #[arg(long, value_name = "RATE", default_value = "20M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    rate: u64,
    times: u32,
    /// The longest gap between two acks, of each move.
    median_ms: f64,
    p90_ms: f64,
    max_ms: f64,
    all_ms: Vec<f64>,
    /// The same of as long a while before each move.
    calm_median_ms: f64,
    calm_max_ms: f64,
    /// As the old leaders saw it.
    leader_pause_median_ms: f64,
    leader_pause_max_ms: f64,
    acked_bytes: u64,
    lost_bytes: u64,
    machine: Machine,
}

const WRITE_BYTES: usize = 16 << 10;
/// Before a move, and after it.
const WHILE: Duration = Duration::from_millis(400);
const ROUND_MS_MAX: u64 = 1200;

/// When acks came, newest last.
#[derive(Clone, Default)]
struct Acks(Arc<Mutex<Vec<Instant>>>);

impl Acks {
    fn heard(&self, at: Instant) {
        let mut acks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        acks.push(at);
    }

    /// The longest time without an ack in this window, which is over.
    fn longest_gap(&self, from: Instant, to: Instant) -> Duration {
        let acks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        longest_gap(&acks, from, to)
    }
}

fn longest_gap(acks: &[Instant], from: Instant, to: Instant) -> Duration {
    let within = acks.iter().copied().filter(|at| (from..to).contains(at));
    let mut longest = Duration::ZERO;
    let mut last = from;
    for at in within.chain([to]) {
        longest = longest.max(at - last);
        last = at;
    }
    longest
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let round_bytes = self.rate * ROUND_MS_MAX / 1000;
        let bytes = round_bytes * u64::from(self.times) * u64::from(self.nodes);
        let scratch = self.place.make(bytes * 11 / 10)?;
        let machine = Machine::look(scratch.path())?;
        let watch = Watch::new(u64::from(self.times));
        watch.says("starting");
        let cluster = LocalCluster::start(LocalOptions::new(scratch.path(), self.nodes))?;
        cluster.wait_ready(Duration::from_secs(30))?;
        let report = self.measure(&cluster.addresses(), &watch, machine)?;
        drop(watch);
        match json {
            true => show::print_json(&report)?,
            false => report.print()?,
        }
        match report.lost_bytes {
            0 => Ok(()),
            lost => bail!("{lost} acknowledged bytes cannot be read back"),
        }
    }

    fn measure(&self, addresses: &[String], watch: &Watch, machine: Machine) -> Result<Report> {
        let client = Client::new(addresses.to_vec(), Timeouts::default());
        let plan = Plan {
            write_bytes: WRITE_BYTES,
            rate: Some(self.rate),
            buffer_bytes: (self.rate as usize).clamp(16 << 20, 1 << 30),
            content: Content::Numbered,
        };
        let acks = Acks::default();
        let hears = acks.clone();
        let on_ack = Box::new(move |_, at| hears.heard(at));
        let mut writer = Writer::start_with(&client, "main", &plan, Some(on_ack))?;
        sleep_until(Instant::now() + Duration::from_secs(1))?;
        let (mut gaps, mut calm, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=self.times {
            sleep_until(Instant::now() + WHILE)?;
            writer.check()?;
            let leader = level::leader(addresses, "main").context("there is no leader")?;
            let to = leader % self.nodes + 1;
            watch.says(format!("node {leader} to node {to}"));
            let began = Instant::now();
            let moved = client.move_leader("main", Some(u64::from(to)));
            let moved = moved.with_context(|| format!("move {round} of {}", self.times))?;
            let end = Instant::now() + WHILE;
            let length = end - began;
            sleep_until(end)?;
            gaps.push(rounded(ms(acks.longest_gap(began, end))));
            calm.push(rounded(ms(acks.longest_gap(began - length, began))));
            pauses.extend(moved.pause_ms);
            watch.step(1);
        }
        let stream = writer.stream();
        let acknowledged = writer.finish()?.position;
        watch.says("reading everything back");
        let promise = Promise {
            stream,
            acknowledged,
        };
        let lost_bytes = lost_bytes(&client, &promise)?;
        let max = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
        let mut sorted = gaps.clone();
        sorted.sort_by(f64::total_cmp);
        Ok(Report {
            bench: "move",
            rate: self.rate,
            times: self.times,
            median_ms: rounded(median(gaps.iter().copied())),
            p90_ms: sorted[(sorted.len() * 9).div_ceil(10) - 1],
            max_ms: max(&gaps),
            all_ms: gaps,
            calm_median_ms: rounded(median(calm.iter().copied())),
            calm_max_ms: max(&calm),
            leader_pause_median_ms: rounded(median(pauses.iter().copied())),
            leader_pause_max_ms: rounded(max(&pauses)),
            acked_bytes: acknowledged,
            lost_bytes,
            machine,
        })
    }
}

impl Report {
    fn print(&self) -> Result<()> {
        let mut table = show::table(&[
            "times",
            "median ms",
            "p90 ms",
            "max ms",
            "calm median ms",
            "calm max ms",
            "leader's median ms",
        ]);
        let cells = [
            f64::from(self.times),
            self.median_ms,
            self.p90_ms,
            self.max_ms,
            self.calm_median_ms,
            self.calm_max_ms,
            self.leader_pause_median_ms,
        ];
        table.add_row(cells.map(show::number).to_vec());
        show::print(show::lines(&table))?;
        show::print(format!(
            "{} acknowledged at {}/s, {} bytes of it lost; {}",
            quantity::shown(self.acked_bytes),
            quantity::shown(self.rate),
            self.lost_bytes,
            self.machine.sentence()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_at_either_end_of_the_window_counts() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let acks: Vec<Instant> = [5, 20, 22, 90].map(at).to_vec();
        let gap = |from, to| longest_gap(&acks, at(from), at(to)).as_millis();
        assert_eq!(gap(0, 30), 15);
        assert_eq!(gap(10, 30), 10);
        assert_eq!(gap(21, 80), 58, "none came after 22");
        assert_eq!(gap(30, 60), 30, "none came at all");
    }
}
