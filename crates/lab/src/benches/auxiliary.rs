//! `bench auxiliary`: what a log with an auxiliary costs, and the pause when its active follower dies.
//!
//! ```text
//!  cost    three copies (main) ── two copies (cheap) ── in turn: leader's outgoing bytes, disks
//!  pause   load ── the active follower is killed ── longest time between acks ── back, at rest
//!                                                                            (next round)
//!  stalls  load ── all disks, or the active follower's, stand still and go on ── latencies, leader's outgoing bytes
//!  return  load ── the active follower is killed ── back ── bytes on the auxiliary, for a minute, under load
//! ```

mod returned;
mod stalls;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use client::admin::LogStatus;
use client::{Client, Timeouts};
use serde::Serialize;

use bench::latency::{median, ms, rounded};
use bench::load::{Content, Plan, Writer};
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions, log_of};
use testbed::environment::Machine;
use testbed::level;
use testbed::scratch::Place;
use testbed::watch::{Watch, sleep_until};
use wire::quantity;

use returned::Returned;
use stalls::Stalls;

const HELP: &str = "\
Three nodes, two logs: one that all three hold, and one with an auxiliary that holds nothing while the
others are well. A pause is the longest time between two acknowledgements in the three seconds after
the active follower was killed. Then all disks stand still now and then for 250 ms, as those of a common device do, and then the
active follower's alone: an auxiliary helps where one disk stalls, and must not make it worse where all do. At last the follower is killed once more and comes back while the load goes on: how
long the auxiliary takes bytes, and how many are left on its disk.

Example: ten followers killed
  logberg-lab bench auxiliary --times 10";

/// The savings of an auxiliary, and the pause until it stands in
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// How many followers are killed, and how often both logs are compared
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    /// Bytes per second appended
    #[arg(long, value_name = "RATE", default_value = "20M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    /// How long each log is written to in a comparison
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = quantity::seconds)]
    seconds: f64,
    /// How long the auxiliary's disk is watched after the return of the active follower
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = quantity::seconds)]
    watched: f64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    times: u32,
    rate: u64,
    three_copies: Cost,
    with_an_auxiliary: Cost,
    pause_median_ms: f64,
    pause_max_ms: f64,
    pauses_ms: Vec<f64>,
    stalls: Stalls,
    returned: Returned,
    machine: Machine,
}

/// Per byte that was acknowledged; medians of all comparisons.
#[derive(Debug, Serialize)]
struct Cost {
    acked_bytes: u64,
    leader_sends: f64,
    /// Each node's disk, the cheapest last.
    disks: Vec<f64>,
    disks_total: f64,
}

struct Sample {
    acked: u64,
    sent: u64,
    disks: Vec<u64>,
}

const NODES: u32 = 3;
const CHEAP: &str = "cheap";
const WRITE_BYTES: usize = 4096;
const PAUSE_WITHIN: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let seconds = 2.0 * self.seconds + 15.0;
        let seconds = f64::from(self.times) * seconds + self.watched + 10.0;
        let bytes = self.rate as f64 * seconds * f64::from(NODES);
        let scratch = self.place.make(bytes as u64)?;
        let machine = Machine::look(scratch.path())?;
        let watch = Watch::new(2 * u64::from(self.times));
        watch.says("starting");
        let cluster = LocalCluster::start(LocalOptions {
            fault_files: true,
            ..LocalOptions::new(scratch.path(), NODES)
        })?;
        cluster.wait_ready(Duration::from_secs(30))?;
        let timeouts = Timeouts {
            total: PATIENCE,
            ..Timeouts::default()
        };
        let client = Client::new(cluster.addresses(), timeouts);
        client.create_log_with(CHEAP, &[u64::from(NODES)])?;
        level::wait_ready(&cluster.addresses(), CHEAP, PATIENCE)?;
        let mut samples = [Vec::new(), Vec::new()];
        for round in 0..self.times {
            for (at, log) in ["main", CHEAP].into_iter().enumerate() {
                watch.says(format!("{log}, round {}", round + 1));
                samples[at].push(self.compare(&cluster, &client, log)?);
            }
            watch.step(1);
        }
        let mut pauses = Vec::new();
        for round in 0..self.times {
            watch.says(format!("the active follower dies, round {}", round + 1));
            let pause = self.pause(&cluster, &client);
            pauses.push(rounded(ms(
                pause.with_context(|| format!("round {}", round + 1))?
            )));
            watch.step(1);
        }
        watch.says("disks stall");
        let stalls = stalls::measure(&cluster, &client, &self.plan(), self.times)?;
        watch.says("the active follower comes back under load");
        let returned = returned::watch(&cluster, &client, &self.plan(), self.watched)?;
        drop(watch);
        let [three, cheap] = &samples;
        let report = Report {
            bench: "auxiliary",
            times: self.times,
            rate: self.rate,
            three_copies: cost(three),
            with_an_auxiliary: cost(cheap),
            pause_median_ms: rounded(median(pauses.iter().copied())),
            pause_max_ms: pauses.iter().copied().fold(0.0, f64::max),
            pauses_ms: pauses,
            stalls,
            returned,
            machine,
        };
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            write_bytes: WRITE_BYTES,
            rate: Some(self.rate),
            // Room for what is written in a pause: the load must not wait.
            buffer_bytes: (self.rate as usize)
                .saturating_mul(10)
                .clamp(1 << 20, 1 << 30),
            content: Content::Repeated,
        }
    }

    fn compare(&self, cluster: &LocalCluster, client: &Client, log: &str) -> Result<Sample> {
        let before = look(cluster, log)?;
        let writer = Writer::start(client, log, &self.plan())?;
        sleep_until(Instant::now() + Duration::from_secs_f64(self.seconds))?;
        let acked = writer.finish()?.position;
        level::wait_level(&cluster.addresses(), log, PATIENCE)?;
        let after = look(cluster, log)?;
        let disks = before.disks.iter().zip(&after.disks);
        Ok(Sample {
            acked,
            sent: after.sent - before.sent,
            disks: disks
                .map(|(before, after)| after.saturating_sub(*before))
                .collect(),
        })
    }

    /// The longest time between two acks after the active follower is killed.
    fn pause(&self, cluster: &LocalCluster, client: &Client) -> Result<Duration> {
        let acks: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let hears = acks.clone();
        let on_ack = move |_, at| {
            let mut acks = hears.lock().unwrap_or_else(PoisonError::into_inner);
            acks.push(at);
        };
        let mut writer = Writer::start_with(client, CHEAP, &self.plan(), Some(Box::new(on_ack)))?;
        sleep_until(Instant::now() + Duration::from_secs(1))?;
        writer.check()?;
        let leader = level::leader(&cluster.addresses(), CHEAP).context("there is no leader")?;
        let active = (1..NODES)
            .find(|node| *node != leader)
            .context("no other active node")?;
        let began = Instant::now();
        cluster.kill(active)?;
        sleep_until(began + PAUSE_WITHIN)?;
        writer.check()?;
        let end = Instant::now();
        cluster.restart(active)?;
        writer.finish()?;
        level::wait_level(&cluster.addresses(), CHEAP, PATIENCE)?;
        level::wait_at_rest(&cluster.addresses(), CHEAP, PATIENCE)?;
        let acks = acks.lock().unwrap_or_else(PoisonError::into_inner);
        let within = acks.iter().filter(|at| (began..end).contains(*at));
        let moments: Vec<Instant> = std::iter::once(began)
            .chain(within.copied())
            .chain([end])
            .collect();
        let longest = moments.windows(2).map(|pair| pair[1] - pair[0]).max();
        longest.context("nothing was acknowledged")
    }
}

fn look(cluster: &LocalCluster, log: &str) -> Result<Sample> {
    let mut sample = Sample {
        acked: 0,
        sent: 0,
        disks: Vec::new(),
    };
    for address in cluster.addresses() {
        let status = level::status(&address).with_context(|| format!("{address} is mute"))?;
        let log: &LogStatus = log_of(&status, log).context("a node lacks the log")?;
        sample.sent += log.proposal_bytes_sent;
        sample.disks.push(log.disk_bytes);
    }
    Ok(sample)
}

fn cost(samples: &[Sample]) -> Cost {
    let per_byte = |bytes: &dyn Fn(&Sample) -> u64| {
        let each = samples
            .iter()
            .map(|s| bytes(s) as f64 / s.acked.max(1) as f64);
        rounded(median(each))
    };
    let mut disks: Vec<f64> = (0..NODES as usize)
        .map(|node| per_byte(&|sample| sample.disks[node]))
        .collect();
    disks.sort_by(|a, b| b.total_cmp(a));
    Cost {
        acked_bytes: samples.iter().map(|sample| sample.acked).sum(),
        leader_sends: per_byte(&|sample| sample.sent),
        disks,
        disks_total: per_byte(&|sample| sample.disks.iter().sum()),
    }
}

impl Report {
    fn print(&self) -> Result<()> {
        let headings = [
            "per acknowledged byte",
            "leader sends",
            "disks",
            "all disks",
        ];
        let mut table = show::table(&headings);
        for (name, cost) in [
            ("three copies", &self.three_copies),
            ("with an auxiliary", &self.with_an_auxiliary),
        ] {
            let disks: Vec<String> = cost.disks.iter().map(f64::to_string).collect();
            table.add_row([
                comfy_table::Cell::new(name),
                show::number(cost.leader_sends),
                comfy_table::Cell::new(disks.join("  ")),
                show::number(cost.disks_total),
            ]);
        }
        show::print(show::lines(&table))?;
        show::print(format_args!(
            "the active follower killed {} times: no acknowledgement for {} ms (median), {} ms (at most)",
            self.times, self.pause_median_ms, self.pause_max_ms
        ))?;
        self.stalls.print()?;
        let Returned {
            away_seconds,
            watched_seconds,
            bytes_when_back,
            bytes_max,
            bytes_at_end,
            at_rest_after_seconds,
        } = &self.returned;
        let rests = at_rest_after_seconds.map_or_else(
            || "never at rest".to_owned(),
            |seconds| format!("at rest after {seconds} s"),
        );
        show::print(format_args!(
            "the active follower away for {away_seconds} s under load, and back: the auxiliary {rests}; {} on its disk then, at most {}, {} after {watched_seconds} s",
            quantity::shown(*bytes_when_back),
            quantity::shown(*bytes_max),
            quantity::shown(*bytes_at_end)
        ))?;
        show::print(self.machine.sentence())
    }
}
