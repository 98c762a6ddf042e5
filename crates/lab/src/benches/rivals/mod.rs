//! `bench rivals`: other replicated logs on the same machine, in turn with us.
//!
//! ```text
//!  we ── rival, received ── rival, durable ── next rival … ── we ── … (--times)
//! ```
//!
//! Each starts on an empty directory: three nodes, one producer, flat out. For Kafka its own load tool
//! produces, for NATS ours; how much is found out in a short run before.

mod kafka;
mod nats;
mod producer;
pub mod service;
mod shown;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use bench::bed::Bed;
use bench::disk::Disk;
use bench::figures::Figures;
use bench::latency::rounded;
use bench::load::{Content, Plan};
use bench::measure::measure;
use bench::report;
use bench::roles::{Role, Watched};
use terminal::show;
use testbed::environment::Machine;
use testbed::scratch::{Place, Scratch, go_on};
use testbed::watch::Watch;
use wire::quantity;

const HELP: &str = "\
Rivals that are not installed are skipped, with a sentence on how to get them. What an ack means differs:
`received` is in the memory of the kernels of a majority (NATS) or of all that are in step (Kafka), `durable` is on
their disks, as ours always is. CPU is that of all nodes, without the producer. Latency is that of a
producer's full queue. Servers in Java need their warm-up.

Example: all that is installed, three times in turn
  logberg-lab bench rivals --rivals /opt/rivals --times 3 --report rivals.html";

/// Other replicated logs on this machine, in turn with us
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Where rivals are, beside PATH: DIR/bin/nats-server, DIR/kafka/libs/*.jar
    #[arg(long, value_name = "DIR")]
    rivals: Option<PathBuf>,
    /// Bytes of each message
    #[arg(long, value_name = "BYTES,…", default_value = "1KiB,64KiB", value_delimiter = ',', value_parser = message_bytes)]
    write_size: Vec<u64>,
    /// Length of each measurement, about
    #[arg(long, value_name = "SECONDS", default_value = "7", value_parser = quantity::seconds)]
    seconds: f64,
    /// Rivals are written to for so long before, at full speed
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = quantity::seconds)]
    warm_up: f64,
    /// How often all take turns
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    report: report::To,
}

fn message_bytes(text: &str) -> Result<u64, String> {
    match quantity::at_least_one(text)? {
        bytes if bytes <= 1 << 20 => Ok(bytes),
        _ => Err("rivals take messages of at most 1 MiB".to_owned()),
    }
}

/// The promise of an ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// In the memory of a majority's kernels (Kafka: of all that are in step).
    Received,
    /// On the disks of a majority.
    Durable,
}

/// The task of a producer.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub message_bytes: u64,
    pub messages: u64,
    pub patience: Duration,
}

/// A producer's word of its work.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    pub messages_per_s: f64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

/// A cluster of somebody else's.
trait Running {
    fn pids(&self) -> Vec<u32>;
    /// Makes something empty to be written; what that is, [`Running::produce`] knows.
    fn prepare(&mut self) -> Result<usize>;
    fn produce(&mut self, target: usize, load: Load) -> Result<Made>;
}

enum Contender {
    We,
    Nats(nats::Installed),
    Kafka(kafka::Installed),
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    seconds: f64,
    rivals_warm_up_s: f64,
    times: u32,
    /// Medians of all turns.
    results: Vec<Outcome>,
    /// The ways to get the rivals that are not installed.
    skipped: Vec<&'static str>,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Outcome {
    name: &'static str,
    durability: Durability,
    write_bytes: u64,
    #[serde(flatten)]
    figures: Figures,
    /// Our throughput and CPU to this one's.
    we_mb_per_s_ratio: Option<f64>,
    we_mb_per_cpu_s_ratio: Option<f64>,
    /// The errors of turns that failed.
    failures: Vec<String>,
}

const NODES: u32 = 3;
const WINDOW_BYTES: usize = 16 << 20;
/// The multiple of the measured time that a producer may take for its work.
const PATIENCE_FACTOR: f64 = 6.0;
/// A first, short run: a rate to calculate from.
const TRIAL_BYTES: u64 = 20_000_000;
const TRIAL_MESSAGES_MAX: u64 = 20_000;
/// The length of a warm-up, one producer after the other: each tells how fast it was.
const WARMING: Duration = Duration::from_secs(4);
/// A cluster's start and trial, for the time that is left.
const AROUND: Duration = Duration::from_secs(15);

impl Contender {
    fn name(&self) -> &'static str {
        match self {
            Contender::We => "logberg",
            Contender::Nats(_) => "NATS JetStream",
            Contender::Kafka(_) => "Kafka",
        }
    }

    fn durabilities(&self) -> &'static [Durability] {
        match self {
            Contender::We => &[Durability::Durable],
            _ => &[Durability::Received, Durability::Durable],
        }
    }
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let report_to = self.report.open()?;
        let (contenders, skipped) = self.contenders();
        let rivals = contenders.len() > 1;
        let scratch = self.place.make(self.bytes_needed(rivals))?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let mut results: Vec<(&Contender, Outcome, Vec<Figures>)> = Vec::new();
        for write_bytes in &self.write_size {
            for contender in &contenders {
                for durability in contender.durabilities() {
                    let outcome = Outcome {
                        name: contender.name(),
                        durability: *durability,
                        write_bytes: *write_bytes,
                        figures: Figures::default(),
                        we_mb_per_s_ratio: None,
                        we_mb_per_cpu_s_ratio: None,
                        failures: Vec::new(),
                    };
                    results.push((contender, outcome, Vec::new()));
                }
            }
        }
        let each = Duration::from_secs_f64(self.seconds + self.warm_up) + AROUND;
        let watch = Watch::of(each * results.len() as u32 * self.times);
        for _ in 0..self.times {
            for (contender, outcome, turns) in &mut results {
                watch.says(outcome.sentence());
                let directory = scratch.path().join("contender");
                let figures = self.measure(contender, outcome, &directory, &scratch);
                if directory.exists() {
                    scratch.retire(&directory)?;
                }
                // Asked to end, and not a rival that cannot be measured.
                go_on()?;
                match figures {
                    Ok(figures) => turns.push(figures),
                    Err(error) => outcome.failures.push(format!("{error:#}")),
                }
                watch.passed(each);
            }
        }
        drop(watch);
        let report = Report {
            bench: "rivals",
            seconds: rounded(self.seconds),
            rivals_warm_up_s: rounded(self.warm_up),
            times: self.times,
            results: compared(results),
            skipped,
            machine,
        };
        if let Some(to) = report_to {
            to.write(report.page()?)?;
        }
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    /// More than the disks we know take from us, and than rivals write where there are any.
    fn bytes_needed(&self, rivals: bool) -> u64 {
        let ours = 1e9 * (self.seconds + 1.0);
        let theirs = match rivals {
            true => 0.4e9 * (self.warm_up + self.seconds + 2.0),
            false => 0.0,
        };
        (ours.max(theirs) * f64::from(NODES)) as u64
    }

    fn contenders(&self) -> (Vec<Contender>, Vec<&'static str>) {
        let directory = self.rivals.as_deref();
        let (mut contenders, mut skipped) = (vec![Contender::We], Vec::new());
        match nats::installed(directory) {
            Some(nats) => contenders.push(Contender::Nats(nats)),
            None => skipped.push(nats::HOW_TO_GET),
        }
        match kafka::installed(directory) {
            Some(kafka) => contenders.push(Contender::Kafka(kafka)),
            None => skipped.push(kafka::HOW_TO_GET),
        }
        (contenders, skipped)
    }

    fn measure(
        &self,
        contender: &Contender,
        outcome: &Outcome,
        directory: &Path,
        scratch: &Scratch,
    ) -> Result<Figures> {
        let (durability, bytes) = (outcome.durability, outcome.write_bytes);
        match contender {
            Contender::We => self.measure_us(directory, bytes),
            Contender::Nats(nats) => {
                self.measure_rival(&mut nats.start(directory, durability)?, bytes, scratch)
            }
            Contender::Kafka(kafka) => {
                self.measure_rival(&mut kafka.start(directory, durability)?, bytes, scratch)
            }
        }
    }

    fn measure_us(&self, directory: &Path, write_bytes: u64) -> Result<Figures> {
        let bed = Bed::start(directory, NODES, 0)?;
        let logs = ["main".to_owned()];
        let plan = Plan {
            write_bytes: write_bytes as usize,
            rate: None,
            buffer_bytes: WINDOW_BYTES,
            content: Content::Repeated,
        };
        let length = Duration::from_secs_f64(self.seconds);
        let watched = bed.watched(&logs)?;
        let measured = measure(
            &bed.client,
            &logs,
            &plan,
            Duration::from_secs(1),
            length,
            &watched,
        )?;
        let all = Figures::of(&measured);
        let mut figures = Figures::default();
        for name in [
            "mb_per_s",
            "writes_per_s",
            "p50_ms",
            "p99_ms",
            "cpu_s_per_gb",
        ] {
            figures.add(name, all.get(name).context("a figure of ours is missing")?);
        }
        Ok(figures)
    }

    fn measure_rival(
        &self,
        rival: &mut dyn Running,
        message_bytes: u64,
        scratch: &Scratch,
    ) -> Result<Figures> {
        let longest = self.seconds.max(WARMING.as_secs_f64());
        let patience = Duration::from_secs_f64(longest * PATIENCE_FACTOR + 60.0);
        let trial = Load {
            message_bytes,
            messages: (TRIAL_BYTES / message_bytes).clamp(100, TRIAL_MESSAGES_MAX),
            patience,
        };
        let target = rival.prepare()?;
        let warm = Instant::now() + Duration::from_secs_f64(self.warm_up);
        let mut tried = rival.produce(target, trial)?;
        while Instant::now() < warm {
            go_on()?;
            scratch.check_space()?;
            let messages = (tried.messages_per_s * WARMING.as_secs_f64()) as u64;
            let load = Load {
                messages: messages.max(trial.messages),
                ..trial
            };
            let target = rival.prepare()?;
            tried = rival.produce(target, load)?;
        }
        let messages = (tried.messages_per_s * self.seconds) as u64;
        let load = Load {
            messages: messages.max(trial.messages),
            ..trial
        };
        scratch.check_space()?;
        let target = rival.prepare()?;
        let processes = rival.pids().into_iter().map(|pid| (Role::Follower, pid));
        let watched = Watched::new(processes.collect(), Disk::below(scratch.path()));
        let before = watched.look()?;
        let made = rival.produce(target, load)?;
        let spent = watched.spent(&before, &watched.look()?)?;
        let bytes = (load.messages * message_bytes) as f64;
        let mut figures = Figures::default();
        figures.add("mb_per_s", made.messages_per_s * message_bytes as f64 / 1e6);
        figures.add("writes_per_s", made.messages_per_s);
        for (name, value) in [("p50_ms", made.p50_ms), ("p99_ms", made.p99_ms)] {
            figures.add(name, value.unwrap_or(f64::NAN));
        }
        let cpu = spent.nodes_cpu().as_secs_f64();
        figures.add("cpu_s_per_gb", cpu / (bytes / 1e9));
        Ok(figures)
    }
}

/// With our ratios to each, of the medians.
fn compared(results: Vec<(&Contender, Outcome, Vec<Figures>)>) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (_, mut outcome, turns) in results {
        outcome.figures = Figures::median(&turns.iter().collect::<Vec<_>>());
        outcomes.push(outcome);
    }
    let ours: Vec<(u64, Figures)> = outcomes
        .iter()
        .filter(|outcome| outcome.name == Contender::We.name())
        .map(|outcome| (outcome.write_bytes, outcome.figures.clone()))
        .collect();
    for outcome in &mut outcomes {
        let us = ours.iter().find(|(bytes, _)| *bytes == outcome.write_bytes);
        let Some((_, us)) = us else { continue };
        let ratio = |name| Some(us.get(name)? / outcome.figures.get(name)?);
        outcome.we_mb_per_s_ratio = ratio("mb_per_s").map(rounded);
        // Fewer seconds for a GB are more MB for a second.
        outcome.we_mb_per_cpu_s_ratio = ratio("cpu_s_per_gb").map(|ratio| rounded(1.0 / ratio));
    }
    outcomes
}

impl Outcome {
    fn sentence(&self) -> String {
        let durability = match self.durability {
            Durability::Received => "received",
            Durability::Durable => "durable",
        };
        format!("{}, {durability}, {} B", self.name, self.write_bytes)
    }
}
