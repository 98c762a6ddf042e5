//! `bench catch-up`: what clients feel while a node fetches what it missed.
//!
//! ```text
//!  paced load ── before ── a follower stands still ── it is back and lacks bytes ── whole ── after
//!                 acks            acks                      acks                    acks
//! ```
//!
//! The load goes on throughout; acks are counted apart in each of the four phases.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Client, Timeouts};
use serde::Serialize;

use bench::latency::{median, quantile_ms, rounded};
use bench::load::{Content, Plan, Writer};
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions, log_of};
use testbed::environment::Machine;
use testbed::level;
use testbed::scratch::{Place, Scratch};
use testbed::watch::{Watch, sleep_until};
use wire::quantity;

const HELP: &str = "\
The ratio is that of the median p99 while a node catches up to the median p99 before it stood still.

Example: a follower is away for ten seconds, three times
  logberg-lab bench catch-up --rate 70M --write-size 64KiB --times 3";

/// Ack latency before, while and after a follower that stood still catches up
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Bytes per second appended
    #[arg(long, value_name = "RATE", default_value = "70M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = quantity::at_least_one)]
    write_size: u64,
    /// How long the follower stands still
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = quantity::seconds)]
    pause: f64,
    /// How long acks are counted before and after
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = quantity::seconds)]
    seconds: f64,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=9))]
    nodes: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    rate: u64,
    write_bytes: u64,
    pause_s: f64,
    /// Medians over the rounds.
    phases: Vec<Phase>,
    ratio_p99: f64,
    missed_bytes: u64,
    /// From its going on until it lacked nothing.
    whole_after_s: f64,
    rounds: Vec<Round>,
    machine: Machine,
}

#[derive(Clone, Debug, Serialize)]
struct Phase {
    phase: &'static str,
    ack_p50_ms: f64,
    ack_p99_ms: f64,
    ack_max_ms: f64,
    acks: u64,
}

#[derive(Debug, Serialize)]
struct Round {
    phases: Vec<Phase>,
    missed_bytes: u64,
    whole_after_s: f64,
}

const PHASES: [&str; 4] = ["before", "one stands still", "it catches up", "after"];
/// To connect again and find what is missing, before its figures are asked for.
const SETTLE: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(300);

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let seconds = (self.pause * 3.0 + self.seconds * 2.0 + 5.0) * f64::from(self.times);
        let bytes = self.rate as f64 * 1.1 * seconds * f64::from(self.nodes);
        let scratch = self.place.make(bytes as u64)?;
        let machine = Machine::look(scratch.path())?;
        let directory = scratch.path().join("cluster");
        let cluster = LocalCluster::start(LocalOptions::new(directory, self.nodes))?;
        cluster.wait_ready(Duration::from_secs(30))?;
        let watch = Watch::new(u64::from(self.times));
        let mut rounds = Vec::new();
        for number in 1..=self.times {
            let round = self
                .round(&cluster, &scratch, &watch)
                .with_context(|| format!("round {number} of {}", self.times))?;
            rounds.push(round);
            watch.step(1);
        }
        drop(watch);
        let phases = summary(&rounds);
        let report = Report {
            bench: "catch-up",
            rate: self.rate,
            write_bytes: self.write_size,
            pause_s: rounded(self.pause),
            ratio_p99: rounded(phases[2].ack_p99_ms / phases[0].ack_p99_ms),
            phases,
            missed_bytes: median(rounds.iter().map(|r| r.missed_bytes as f64)) as u64,
            whole_after_s: rounded(median(rounds.iter().map(|r| r.whole_after_s))),
            rounds,
            machine,
        };
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    fn round(&self, cluster: &LocalCluster, scratch: &Scratch, watch: &Watch) -> Result<Round> {
        let leader = cluster.leader("main").context("there is no leader")?;
        let away = (1..=self.nodes)
            .find(|id| *id != leader)
            .context("there is a follower")?;
        let client = Client::new(cluster.addresses(), Timeouts::default());
        let plan = Plan {
            write_bytes: self.write_size as usize,
            rate: Some(self.rate),
            buffer_bytes: 64 << 20,
            content: Content::Repeated,
        };
        let mut writer = Writer::start(&client, "main", &plan)?;
        let long = Duration::from_secs_f64(self.seconds);
        let mut phases = Vec::new();
        watch.says("warm-up");
        sleep_until(Instant::now() + Duration::from_secs(1))?;

        let mut count = |name, writer: &mut Writer, run: &mut dyn FnMut() -> Result<()>| {
            watch.says(name);
            let far = Duration::from_secs(100_000);
            writer
                .latencies()
                .set_window(Instant::now(), Instant::now() + far);
            run()?;
            let micros = writer.latencies().micros();
            writer.check()?;
            scratch.check_space()?;
            phases.push(Phase {
                phase: name,
                ack_p50_ms: rounded(quantile_ms(&micros, 0.5)),
                ack_p99_ms: rounded(quantile_ms(&micros, 0.99)),
                ack_max_ms: rounded(quantile_ms(&micros, 1.0)),
                acks: micros.len(),
            });
            Ok::<(), anyhow::Error>(())
        };
        count(PHASES[0], &mut writer, &mut || {
            sleep_until(Instant::now() + long)
        })?;
        cluster.pause(away)?;
        let pause = Duration::from_secs_f64(self.pause);
        count(PHASES[1], &mut writer, &mut || {
            sleep_until(Instant::now() + pause)
        })?;
        cluster.go_on(away)?;
        let began = Instant::now();
        let mut missed = 0;
        count(PHASES[2], &mut writer, &mut || {
            sleep_until(Instant::now() + SETTLE)?;
            loop {
                match missing(cluster.address(away)) {
                    Some(0) => return Ok(()),
                    Some(bytes) => missed = missed.max(bytes),
                    None => {}
                }
                if began.elapsed() > PATIENCE {
                    bail!("the follower is not whole after {} s", PATIENCE.as_secs());
                }
                sleep_until(Instant::now() + POLL)?;
            }
        })?;
        let whole_after_s = rounded(began.elapsed().as_secs_f64());
        count(PHASES[3], &mut writer, &mut || {
            sleep_until(Instant::now() + long)
        })?;
        watch.says("comparing");
        writer.finish()?;
        level::wait_level(&cluster.addresses(), "main", PATIENCE)?;
        Ok(Round {
            phases,
            missed_bytes: missed,
            whole_after_s,
        })
    }
}

/// The known chosen bytes that a node lacks; none if it does not answer.
fn missing(address: &str) -> Option<u64> {
    let status = level::status(address)?;
    Some(log_of(&status, "main")?.missing_bytes)
}

fn summary(rounds: &[Round]) -> Vec<Phase> {
    let of = |index: usize, value: fn(&Phase) -> f64| {
        rounded(median(
            rounds.iter().map(|round| value(&round.phases[index])),
        ))
    };
    let phases = PHASES.iter().enumerate();
    phases
        .map(|(index, phase)| Phase {
            phase,
            ack_p50_ms: of(index, |p| p.ack_p50_ms),
            ack_p99_ms: of(index, |p| p.ack_p99_ms),
            ack_max_ms: of(index, |p| p.ack_max_ms),
            acks: of(index, |p| p.acks as f64) as u64,
        })
        .collect()
}

impl Report {
    fn print(&self) -> Result<()> {
        let mut table = show::table(&["phase", "ack p50 ms", "p99 ms", "max ms"]);
        for phase in &self.phases {
            let mut cells = vec![comfy_table::Cell::new(phase.phase)];
            let figures = [phase.ack_p50_ms, phase.ack_p99_ms, phase.ack_max_ms];
            cells.extend(figures.map(show::number));
            table.add_row(cells);
        }
        show::print(show::lines(&table))?;
        show::print(format!(
            "{} missed, whole {} s after it went on; p99 {} times that of before; {}",
            quantity::shown(self.missed_bytes),
            self.whole_after_s,
            self.ratio_p99,
            self.machine.sentence()
        ))
    }
}
