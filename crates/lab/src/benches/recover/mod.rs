//! `bench recover`: how soon a cluster with a long log serves again, and how soon a lost node is whole.
//!
//! ```text
//!  history ── all nodes killed ── all started ── answers, first ack      (several times)
//!          ── a disk lost ── a new node filled, nobody appends
//!          ── a disk lost ── before ── a new node filled under a paced load
//! ```

mod cluster;
mod refill;
mod restart;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use bench::history;
use bench::latency::{median, rounded, slower_than};
use bench::report::plot::{Axis, Line, Lines};
use bench::report::{self, Page};
use client::{Client, Timeouts};
use cluster::{LOG, NODES};
use refill::{Refill, Refilled};
use restart::Restart;
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::environment::Machine;
use testbed::level;
use testbed::scratch::Place;
use testbed::watch::Watch;
use wire::quantity;

const HELP: &str = "\
Nodes are killed (SIGKILL) and what the page cache has of their segments is dropped before all are started
again. The cluster serves when a byte that is appended then is acknowledged. A lost disk is an empty
directory: its node comes back as a new one, which its peers fill and which takes the old one's vote.
While appends go on nodes fetch at most what --catch-up-rate allows, while none do as fast as they can.

Example: ten gigabytes
  logberg-lab bench recover --bytes 10GiB --report recover.html
  logberg-lab bench recover --bytes 10GiB --catch-up-rate 300M --rate 20M";

/// Restart of a cluster with a long log, and refill of a lost node, with and without appends
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// How long the log is
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = quantity::at_least_one)]
    bytes: u64,
    /// How often all nodes are killed and started
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    /// Bytes per second appended while a node is filled
    #[arg(long, value_name = "RATE", default_value = "20M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    #[arg(long, value_name = "BYTES", default_value = "1KiB", value_parser = quantity::at_least_one)]
    write_size: u64,
    /// How long acks are counted before the node comes back
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = quantity::seconds)]
    seconds: f64,
    /// Given to the nodes [default: theirs]
    #[arg(long, value_name = "RATE", value_parser = quantity::bytes_per_second)]
    catch_up_rate: Option<u64>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    report: report::To,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    bytes: u64,
    rate: u64,
    write_bytes: u64,
    catch_up_rate: Option<u64>,
    /// While the log was written.
    flat_out_mb_per_s: f64,
    serving_median_ms: f64,
    serving_max_ms: f64,
    restarts: Vec<Restart>,
    refill: Refilled,
    refill_under_load: Refilled,
    /// The refill's rate as a part of the flat-out rate.
    refill_ratio: f64,
    refill_under_load_ratio: f64,
    machine: Machine,
}

const READY: Duration = Duration::from_secs(60);
/// The slowest refill that is waited for, in bytes per second, beside a minute.
const REFILL_MIN: u64 = 4_000_000;

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let report_to = self.report.open()?;
        let patience = Duration::from_secs(60 + self.bytes / REFILL_MIN);
        // This counts the bytes appended while a node is filled, somewhat more slowly than the bound allows.
        let usual = replica::Limits::default().catch_up_bytes_per_second;
        let fetched = self.catch_up_rate.unwrap_or(usual) as f64 * 0.6;
        let filling = self.bytes as f64 / fetched + self.seconds + 10.0;
        let bytes = self.bytes as f64 * 1.1 + filling * (self.rate as f64 * 1.1 + 25e6);
        // And a lost disk's files, which are put aside.
        let scratch = self
            .place
            .make(bytes as u64 * u64::from(NODES) + self.bytes)?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let watch = Watch::new(u64::from(self.times) + 3);
        watch.says("starting");
        let mut options = LocalOptions::new(scratch.path().join("cluster"), NODES);
        if let Some(rate) = self.catch_up_rate {
            options.arguments = vec!["--catch-up-rate".to_owned(), rate.to_string()];
        }
        let cluster = LocalCluster::start(options)?;
        cluster.wait_ready(READY)?;
        let client = Client::new(cluster.addresses(), Timeouts::default());
        let written = history::write(&client, LOG, self.bytes, &scratch, &watch)?;
        level::wait_level(&cluster.addresses(), LOG, patience)?;
        watch.step(1);
        let mut restarts = Vec::new();
        for _ in 0..self.times {
            watch.says("starting again");
            restarts.push(restart::measure(&cluster)?);
            cluster.wait_ready(READY)?;
            level::wait_level(&cluster.addresses(), LOG, READY)?;
            watch.step(1);
        }
        let mut refill = Refill {
            cluster: &cluster,
            scratch: &scratch,
            watch: &watch,
            patience,
            ids: (1..=u64::from(NODES)).collect(),
        };
        let quiet = refill.quiet()?;
        watch.step(1);
        let before = Duration::from_secs_f64(self.seconds);
        let busy = refill.under_load(self.rate, self.write_size as usize, before)?;
        drop(watch);
        let served = || restarts.iter().map(|restart| restart.serves_after_ms);
        let of_flat_out = |refilled: &Refilled| rounded(refilled.mb_per_s / written.mb_per_s);
        let report = Report {
            bench: "recover",
            bytes: self.bytes,
            rate: self.rate,
            write_bytes: self.write_size,
            catch_up_rate: self.catch_up_rate,
            flat_out_mb_per_s: rounded(written.mb_per_s),
            serving_median_ms: rounded(median(served())),
            serving_max_ms: served().fold(0.0, f64::max),
            refill_ratio: of_flat_out(&quiet),
            refill_under_load_ratio: of_flat_out(&busy),
            restarts,
            refill: quiet,
            refill_under_load: busy,
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
}

const RESTARTS: [&str; 4] = [
    "restart",
    "last node answers after ms",
    "serves after ms",
    "peak memory MB",
];
const REFILLS: [&str; 8] = [
    "refill",
    "bytes",
    "seconds",
    "MB/s",
    "of flat out",
    "p99 ms before",
    "p99 ms while",
    "ratio",
];

impl Report {
    fn restart_rows(&self) -> Vec<Vec<String>> {
        let rows = self.restarts.iter().zip(1..).map(|(restart, number)| {
            vec![
                number.to_string(),
                restart.answers_after_ms.to_string(),
                restart.serves_after_ms.to_string(),
                restart.peak_rss_mb.to_string(),
            ]
        });
        rows.collect()
    }

    fn refill_rows(&self) -> Vec<Vec<String>> {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
        let row = |name: &str, refilled: &Refilled, ratio: f64| {
            vec![
                name.to_owned(),
                quantity::shown(refilled.bytes),
                refilled.seconds.to_string(),
                refilled.mb_per_s.to_string(),
                ratio.to_string(),
                shown(refilled.before_p99_ms),
                shown(refilled.while_p99_ms),
                shown(refilled.ratio_p99),
            ]
        };
        vec![
            row("nobody appends", &self.refill, self.refill_ratio),
            row(
                &format!("under {} MB/s", self.rate as f64 / 1e6),
                &self.refill_under_load,
                self.refill_under_load_ratio,
            ),
        ]
    }

    fn print(&self) -> Result<()> {
        show::print(show::rows(&RESTARTS, self.restart_rows()))?;
        show::print(format!("\n{}", show::rows(&REFILLS, self.refill_rows())))?;
        show::print(format!(
            "\na log of {}, written at {} MB/s; {}",
            quantity::shown(self.bytes),
            self.flat_out_mb_per_s,
            self.machine.sentence()
        ))
    }

    fn page(&self) -> Result<Page> {
        let mut page = Page::new("Starting again with a long log", &self.machine);
        page.text(&format!(
            "A log of {}, written at {} MB/s; {} MB/s appended while a node is filled.",
            quantity::shown(self.bytes),
            self.flat_out_mb_per_s,
            self.rate as f64 / 1e6
        ));
        let curve = |(name, micros): (&str, _)| Line {
            name: name.to_owned(),
            points: slower_than(micros),
            ..Line::default()
        };
        let [before, during] = &self.refill_under_load.micros;
        page.lines(&Lines {
            title: "Appends that take longer".to_owned(),
            x: Axis::log("ms"),
            y: Axis::log("of all"),
            lines: vec![
                curve(("a node is away", before)),
                curve(("it is filled", during)),
            ],
        })?;
        page.table(&RESTARTS.map(str::to_owned), &self.restart_rows());
        page.table(&REFILLS.map(str::to_owned), &self.refill_rows());
        Ok(page)
    }
}
