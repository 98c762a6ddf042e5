//! `bench reconfigure`: what clients feel while the weights of a log's members change.
//!
//! ```text
//!  paced load ── nothing changes ── a weight changes every second ── nothing changes ── …
//!                     acks                     acks                       acks
//! ```
//!
//! One writer goes on throughout, so its stream shows whether it was ever cut. A round of changes moves
//! the votes of one node to another that had none, one vote at a time; the next round moves them back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::members::{Action, Change};
use client::{Client, Timeouts};
use serde::Serialize;

use bench::latency::{median, quantile_ms, rounded};
use bench::load::{Content, Plan, Writer};
use bench::report::plot::{Axis, Line, Lines};
use bench::report::{self, Page};
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions, log_of};
use testbed::environment::Machine;
use testbed::level;
use testbed::scratch::Place;
use testbed::watch::{Watch, sleep_until};
use wire::quantity;

const HELP: &str = "\
Four nodes; three of them have two votes each. A round of changes takes both votes of one node, that does
not lead, and gives them to the one that has none: four reconfigurations. Rounds with and without changes
alternate, under one load. The ratios are those of the medians.

Example: ten alternations
  logberg-lab bench reconfigure --times 10";

/// Ack latency while members' weights change, and without
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Bytes per second appended
    #[arg(long, value_name = "RATE", default_value = "100M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = quantity::at_least_one)]
    write_size: u64,
    /// Between two changes of a weight
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = quantity::seconds)]
    every: f64,
    /// Rounds without changes, and as many with
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    report: report::To,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    rate: u64,
    write_bytes: u64,
    every_s: f64,
    /// Medians over the rounds.
    unchanged: Acks,
    changing: Acks,
    ratio_p50: f64,
    ratio_p99: f64,
    ratio_p999: f64,
    ratio_max: f64,
    /// Reconfigurations that were chosen.
    eras: u64,
    /// The streams of the one writer: more than one if it was cut.
    streams: usize,
    rounds: Vec<Round>,
    machine: Machine,
}

#[derive(Clone, Debug, Serialize)]
struct Acks {
    ack_p50_ms: f64,
    ack_p99_ms: f64,
    ack_p999_ms: f64,
    ack_max_ms: f64,
    acked_mb_per_s: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Round {
    changing: bool,
    eras: u64,
    #[serde(flatten)]
    acks: Acks,
}

const NODES: u32 = 4;
const LOG: &str = "main";
/// Each of the voters has so many, so that the leader alone can join two quorums.
const VOTES: u64 = 2;
/// Older bytes are trimmed, so that the disk need not hold all that is written.
const RETENTION: &str = "4GiB";
const RETAINED: u64 = 4 << 30;
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// The node whose votes go, and the one that has none yet.
struct Sides {
    old: u64,
    new: u64,
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let report_to = self.report.open()?;
        let rounds = f64::from(self.times) * 2.0;
        let written = self.rate as f64 * (rounds * (self.every * 4.0 + 1.0) + 10.0);
        let bytes = written.min(2.0 * RETAINED as f64) * f64::from(NODES);
        let scratch = self.place.make(bytes as u64)?;
        let machine = Machine::look(scratch.path())?;
        let watch = Watch::new(u64::from(self.times) * 2);
        watch.says("starting");
        let cluster = LocalCluster::start(LocalOptions::new(scratch.path(), NODES))?;
        cluster.wait_ready(Duration::from_secs(30))?;
        let client = Client::new(cluster.addresses(), Timeouts::default());
        client.retain(LOG, RETENTION)?;
        let mut sides = prepare(&cluster, &client)?;
        let plan = Plan {
            write_bytes: self.write_size as usize,
            rate: Some(self.rate),
            buffer_bytes: 64 << 20,
            content: Content::Repeated,
        };
        let mut writer = Writer::start(&client, LOG, &plan)?;
        watch.says("warm-up");
        sleep_until(Instant::now() + Duration::from_secs(3))?;
        let first_era = era(&cluster)?;
        let mut rounds = Vec::new();
        for number in 1..=self.times {
            for changing in [false, true] {
                let what = if changing {
                    "weights change"
                } else {
                    "nothing changes"
                };
                watch.says(format!("{what}, round {number}"));
                let round = self.round(&cluster, &client, &mut writer, changing.then_some(&sides));
                rounds.push(round.with_context(|| format!("round {number}, {what}"))?);
                scratch.check_space()?;
                watch.step(1);
            }
            sides = Sides {
                old: sides.new,
                new: sides.old,
            };
        }
        let eras = era(&cluster)? - first_era;
        watch.says("comparing");
        writer.finish()?;
        level::wait_level(&cluster.addresses(), LOG, PATIENCE)?;
        let streams = client.streams(LOG)?.len();
        drop(watch);
        let unchanged = summary(&rounds, false);
        let changing = summary(&rounds, true);
        let ratio = |of: fn(&Acks) -> f64| rounded(of(&changing) / of(&unchanged));
        let report = Report {
            bench: "reconfigure",
            rate: self.rate,
            write_bytes: self.write_size,
            every_s: rounded(self.every),
            ratio_p50: ratio(|acks| acks.ack_p50_ms),
            ratio_p99: ratio(|acks| acks.ack_p99_ms),
            ratio_p999: ratio(|acks| acks.ack_p999_ms),
            ratio_max: ratio(|acks| acks.ack_max_ms),
            unchanged,
            changing,
            eras,
            streams,
            rounds,
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

    fn round(
        &self,
        cluster: &LocalCluster,
        client: &Client,
        writer: &mut Writer,
        sides: Option<&Sides>,
    ) -> Result<Round> {
        let every = Duration::from_secs_f64(self.every);
        let from = Instant::now();
        let acked = writer.acknowledged();
        let before = era(cluster)?;
        let far = from + Duration::from_secs(100_000);
        writer.latencies().set_window(from, far);
        for vote in 1..=VOTES {
            if let Some(sides) = sides {
                set_weight(client, sides.new, vote)?;
            }
            sleep_until(from + every * (2 * vote as u32 - 1))?;
            if let Some(sides) = sides {
                set_weight(client, sides.old, VOTES - vote)?;
            }
            sleep_until(from + every * (2 * vote as u32))?;
        }
        if sides.is_some() {
            wait_settled(cluster, before + 2 * VOTES)?;
        }
        let micros = writer.latencies().micros();
        let seconds = from.elapsed().as_secs_f64();
        writer.check()?;
        Ok(Round {
            changing: sides.is_some(),
            eras: era(cluster)? - before,
            acks: Acks {
                ack_p50_ms: rounded(quantile_ms(&micros, 0.5)),
                ack_p99_ms: rounded(quantile_ms(&micros, 0.99)),
                ack_p999_ms: rounded(quantile_ms(&micros, 0.999)),
                ack_max_ms: rounded(quantile_ms(&micros, 1.0)),
                acked_mb_per_s: rounded((writer.acknowledged() - acked) as f64 / 1e6 / seconds),
            },
        })
    }
}

/// Two votes for each of three nodes, and none for the fourth.
fn prepare(cluster: &LocalCluster, client: &Client) -> Result<Sides> {
    let leader = u64::from(cluster.leader(LOG).context("there is no leader")?);
    let followers: Vec<u64> = (1..=u64::from(NODES)).filter(|n| *n != leader).collect();
    let [old, other, new] = followers[..] else {
        bail!("{NODES} nodes were to be started");
    };
    for node in [leader, old, other] {
        set_weight(client, node, VOTES)?;
    }
    set_weight(client, new, 0)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut weights = level::status(cluster.address(leader as u32))
            .as_ref()
            .and_then(|status| log_of(status, LOG))
            .map(|log| log.weights.clone())
            .unwrap_or_default();
        weights.retain(|weight| weight.weight == VOTES && weight.node != new);
        if weights.len() == 3 {
            break;
        }
        if Instant::now() >= deadline {
            bail!(
                "the votes are not as they should be after {} s",
                PATIENCE.as_secs()
            );
        }
        sleep_until(Instant::now() + POLL)?;
    }
    Ok(Sides { old, new })
}

fn set_weight(client: &Client, node: u64, weight: u64) -> Result<()> {
    let mut change = Change::new(Action::Weight { node, weight });
    change.logs = vec![LOG.to_owned()];
    change.force = true;
    client
        .change_members(&change)
        .with_context(|| format!("node {node} is to have weight {weight}"))?;
    Ok(())
}

/// As its leader says.
fn era(cluster: &LocalCluster) -> Result<u64> {
    let statuses = cluster.addresses();
    let statuses = statuses.iter().filter_map(|address| level::status(address));
    let eras = statuses.filter_map(|status| Some(log_of(&status, LOG)?.era));
    eras.max().context("no node answers")
}

fn wait_settled(cluster: &LocalCluster, wanted: u64) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while era(cluster)? < wanted {
        if Instant::now() >= deadline {
            bail!(
                "the weights are still changing after {} s",
                PATIENCE.as_secs()
            );
        }
        sleep_until(Instant::now() + POLL)?;
    }
    Ok(())
}

fn summary(rounds: &[Round], changing: bool) -> Acks {
    let of = |value: fn(&Acks) -> f64| {
        let rounds = rounds.iter().filter(|round| round.changing == changing);
        rounded(median(rounds.map(|round| value(&round.acks))))
    };
    Acks {
        ack_p50_ms: of(|acks| acks.ack_p50_ms),
        ack_p99_ms: of(|acks| acks.ack_p99_ms),
        ack_p999_ms: of(|acks| acks.ack_p999_ms),
        ack_max_ms: of(|acks| acks.ack_max_ms),
        acked_mb_per_s: of(|acks| acks.acked_mb_per_s),
    }
}

const HEADINGS: [&str; 6] = ["", "ack p50 ms", "p99 ms", "p99.9 ms", "max ms", "MB/s"];

impl Acks {
    fn row(&self, name: &str) -> Vec<String> {
        let figures = [
            self.ack_p50_ms,
            self.ack_p99_ms,
            self.ack_p999_ms,
            self.ack_max_ms,
            self.acked_mb_per_s,
        ];
        let figures = figures.iter().map(f64::to_string);
        std::iter::once(name.to_owned()).chain(figures).collect()
    }
}

impl Report {
    fn rows(&self) -> Vec<Vec<String>> {
        let ratios = [
            self.ratio_p50,
            self.ratio_p99,
            self.ratio_p999,
            self.ratio_max,
        ];
        let mut ratio = vec!["ratio".to_owned()];
        ratio.extend(ratios.iter().map(f64::to_string));
        ratio.push(String::new());
        vec![
            self.unchanged.row("nothing changes"),
            self.changing.row("weights change"),
            ratio,
        ]
    }

    fn sentence(&self) -> String {
        let stream = match self.streams {
            1 => "the stream was not cut".to_owned(),
            streams => format!("the stream was cut: there are {streams}"),
        };
        format!("{} reconfigurations; {stream}", self.eras)
    }

    fn print(&self) -> Result<()> {
        show::print(show::rows(&HEADINGS, self.rows()))?;
        show::print(format!("{}; {}", self.sentence(), self.machine.sentence()))
    }

    fn page(&self) -> Result<Page> {
        let mut page = Page::new("Reconfiguring under load", &self.machine);
        page.text(&self.sentence());
        let line = |name: &str, changing: bool| {
            let rounds = self
                .rounds
                .iter()
                .filter(|round| round.changing == changing);
            let p99 = rounds.map(|round| round.acks.ack_p99_ms);
            Line {
                name: name.to_owned(),
                points: (1..).map(f64::from).zip(p99).collect(),
                ..Line::default()
            }
        };
        page.lines(&Lines {
            title: "99th percentile of latency".to_owned(),
            x: Axis::linear("round"),
            y: Axis::linear("ms"),
            lines: vec![line("nothing changes", false), line("weights change", true)],
        })?;
        page.table(&HEADINGS.map(str::to_owned), &self.rows());
        Ok(page)
    }
}
