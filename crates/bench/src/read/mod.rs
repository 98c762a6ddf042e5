//! `bench read`: what readers are given, and what they cost the writer.
//!
//! ```text
//!  history written ── for 1, 10, 100 followers, and for a reader of history:
//!                     a paced load that nobody reads ── the same load, read
//! ```
//!
//! Each pair has fresh logs in one cluster, so that only the readers differ.

mod readers;

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::bed::Bed;
use super::figures::Figures;
use super::history;
use super::latency::{rounded, slower_than};
use super::load::{Content, Plan};
use super::measure::{Load, Measured};
use super::report::plot::{Axis, Line, Lines};
use super::report::{self, Page};
use readers::{History, Readers};
use terminal::moving::Moving;
use terminal::show;
use testbed::cluster::log_of;
use testbed::environment::Machine;
use testbed::scratch::{Place, Scratch};
use testbed::watch::Watch;
use wire::quantity;

const HELP: &str = "\
Followers wait at the tail of the stream that is being written, and get its bytes from the leader, or with
--spread from all nodes in turn. A cold reader reads a closed stream from the beginning, whose pages
were dropped from the nodes' memory before. The ratio is that of the p99 with readers to the p99 just
before without any; the readers' own CPU is the client's.

Example: what a hundred followers cost a writer at 20 MB/s
  logberg bench read --rate 20M --followers 1,10,100 --report read.html";

/// Bytes delivered to followers and to readers of history, and their cost to the writer
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Bytes per second appended meanwhile
    #[arg(long, value_name = "RATE", default_value = "20M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    #[arg(long, value_name = "BYTES", default_value = "1KiB", value_parser = quantity::at_least_one)]
    write_size: u64,
    /// Readers at the tail, one measurement for each number
    #[arg(long, value_name = "N,…", default_value = "1,10,100", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1000))]
    followers: Vec<u32>,
    /// Followers ask all nodes in turn, which answer from what they know
    #[arg(long)]
    spread: bool,
    /// Readers of history, at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    cold: u32,
    /// How long that history is
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = quantity::at_least_one)]
    history: u64,
    /// Of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = quantity::seconds)]
    seconds: f64,
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = quantity::seconds)]
    warm_up: f64,
    #[command(flatten)]
    moving: Moving,
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
    spread: bool,
    history_bytes: u64,
    phases: Vec<Phase>,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Phase {
    readers: u32,
    /// `tail` or `history`.
    of: &'static str,
    /// To all readers together.
    delivered_mb_per_s: f64,
    /// The most that a follower lacked at the end: bytes acknowledged and not given to it yet.
    behind_most_bytes: Option<u64>,
    ratio_p50: f64,
    ratio_p99: f64,
    /// The CPU time that all nodes took beyond that without readers, per GB delivered.
    cpu_s_per_delivered_gb: f64,
    without: Figures,
    with: Figures,
    #[serde(skip)]
    micros: [Histogram<u64>; 2],
}

#[derive(Clone, Copy)]
enum Kind {
    Tail(u32),
    History(u32),
}

const NODES: u32 = 3;

impl Kind {
    fn shown(self) -> String {
        match self {
            Kind::Tail(count) => format!("{count} at the tail"),
            Kind::History(count) => format!("{count} of history"),
        }
    }
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let report_to = self.report.open()?;
        let mut kinds: Vec<Kind> = self.followers.iter().map(|n| Kind::Tail(*n)).collect();
        kinds.push(Kind::History(self.cold));
        let each = Duration::from_secs_f64(self.warm_up + self.seconds);
        let whole = each * 2 * kinds.len() as u32;
        // Padding of small batches.
        let rate = self.rate as f64 * 1.1 + 25e6;
        let bytes = self.history as f64 * 1.1 + rate * (whole.as_secs_f64() + 10.0);
        let scratch = self.place.make(bytes as u64 * u64::from(NODES))?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let watch = Watch::of(whole);
        watch.says("starting");
        let bed = Bed::start_with(
            &scratch.path().join("cluster"),
            NODES,
            0,
            self.moving.arguments(),
        )?;
        let history = self.write_history(&bed, &scratch, &watch)?;
        let mut phases = Vec::new();
        for (number, kind) in kinds.into_iter().enumerate() {
            let logs = ["without", "with"].map(|name| format!("{name}-{number}"));
            bed.create(&logs)?;
            watch.says("nobody reads");
            let (without, _) = self.measure(&bed, &logs[0], None)?;
            watch.passed(each);
            watch.says(kind.shown());
            let (with, behind) = self.measure(&bed, &logs[1], Some((kind, &history)))?;
            watch.passed(each);
            phases.push(Phase::new(kind, without, with, behind));
            scratch.check_space()?;
        }
        drop(watch);
        let report = Report {
            bench: "read",
            rate: self.rate,
            write_bytes: self.write_size,
            spread: self.spread,
            history_bytes: self.history,
            phases,
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

    fn write_history(&self, bed: &Bed, scratch: &Scratch, watch: &Watch) -> Result<History> {
        let log = "history".to_owned();
        bed.create(std::slice::from_ref(&log))?;
        let written = history::write(&bed.client, &log, self.history, scratch, watch)?;
        let status = bed.cluster.status(1)?;
        let id = log_of(&status, &log).context("a node lost its log")?.id;
        let directories = (1..=NODES).map(|node| bed.cluster.node_directory(node));
        Ok(History {
            log,
            stream: written.stream,
            directories: directories.map(|d| d.join(format!("log-{id}"))).collect(),
        })
    }

    /// Also says how far the slowest follower was behind.
    fn measure(
        &self,
        bed: &Bed,
        log: &str,
        read: Option<(Kind, &History)>,
    ) -> Result<(Measured, Option<u64>)> {
        let logs = [log.to_owned()];
        let plan = Plan {
            write_bytes: self.write_size as usize,
            rate: Some(self.rate),
            buffer_bytes: 64 << 20,
            content: Content::Repeated,
        };
        let mut watched = bed.watched(&logs)?;
        let load = Load::start(&bed.client, &logs, &plan)?;
        let servers = match self.spread {
            true => bed.cluster.addresses(),
            false => Vec::new(),
        };
        let stream = load.writers()[0].stream();
        let readers = match read {
            None => None,
            Some((Kind::Tail(count), _)) => {
                let client = &bed.client;
                Some(Readers::follow(client, log, stream, count, &servers)?)
            }
            Some((Kind::History(count), history)) => {
                Some(Readers::of_history(&bed.client, history, count)?)
            }
        };
        for given in readers.iter().flat_map(Readers::given) {
            watched.count(given.clone());
        }
        let warm_up = Duration::from_secs_f64(self.warm_up);
        let length = Duration::from_secs_f64(self.seconds);
        let mut behind = None;
        let measured = load.measure_and(warm_up, length, &watched, |acknowledged| {
            let given = readers.iter().flat_map(Readers::given);
            let given = given.map(|given| given.load(Ordering::Relaxed));
            behind = given.map(|given| acknowledged.saturating_sub(given)).max();
        })?;
        if let Some(readers) = readers {
            let given = readers.finish()?;
            let written = measured.end;
            let tail = matches!(read, Some((Kind::Tail(_), _)));
            if tail && given.iter().any(|given| *given != written) {
                bail!("{written} bytes were written, and readers were given {given:?}");
            }
        }
        let tail = matches!(read, Some((Kind::Tail(_), _)));
        Ok((measured, behind.filter(|_| tail)))
    }
}

impl Phase {
    fn new(kind: Kind, without: Measured, with: Measured, behind: Option<u64>) -> Phase {
        let delivered = with.spent.counted as f64;
        let share =
            |measured: &Measured| measured.spent.nodes_cpu().as_secs_f64() / measured.seconds;
        let more = (share(&with) - share(&without)) * with.seconds;
        let (figures, quiet) = (Figures::of(&with), Figures::of(&without));
        let ratio = |name| {
            let value = figures.get(name).zip(quiet.get(name));
            value.map_or(0.0, |(with, without)| rounded(with / without.max(0.001)))
        };
        let (readers, of) = match kind {
            Kind::Tail(count) => (count, "tail"),
            Kind::History(count) => (count, "history"),
        };
        Phase {
            readers,
            of,
            delivered_mb_per_s: rounded(delivered / 1e6 / with.seconds),
            behind_most_bytes: behind,
            ratio_p50: ratio("p50_ms"),
            ratio_p99: ratio("p99_ms"),
            cpu_s_per_delivered_gb: rounded(more / (delivered / 1e9).max(1e-9)),
            without: quiet,
            with: figures,
            micros: [without.micros, with.micros],
        }
    }

    fn shown(&self) -> String {
        match self.of {
            "tail" => Kind::Tail(self.readers).shown(),
            _ => Kind::History(self.readers).shown(),
        }
    }

    fn row(&self) -> Vec<String> {
        let of = |figures: &Figures, name| figures.get(name).unwrap_or(0.0).to_string();
        let behind = self.behind_most_bytes;
        vec![
            self.shown(),
            self.delivered_mb_per_s.to_string(),
            behind.map_or("-".to_owned(), quantity::shown),
            of(&self.with, "mb_per_s"),
            of(&self.without, "p99_ms"),
            of(&self.with, "p99_ms"),
            self.ratio_p99.to_string(),
            self.cpu_s_per_delivered_gb.to_string(),
        ]
    }
}

const HEADINGS: [&str; 8] = [
    "readers",
    "delivered MB/s",
    "behind at most",
    "acked MB/s",
    "p99 ms without",
    "with",
    "ratio",
    "CPU s/delivered GB",
];

impl Report {
    fn print(&self) -> Result<()> {
        let rows = self.phases.iter().map(Phase::row).collect();
        show::print(show::rows(&HEADINGS, rows))?;
        show::print(self.machine.sentence())
    }

    fn page(&self) -> Result<Page> {
        let mut page = Page::new("Reading while writing", &self.machine);
        page.text(&format!(
            "{} MB/s appended in writes of {} bytes; history of {}.",
            self.rate as f64 / 1e6,
            self.write_bytes,
            quantity::shown(self.history_bytes)
        ));
        for phase in &self.phases {
            let names = ["nobody reads".to_owned(), phase.shown()];
            let lines = names.into_iter().zip(&phase.micros);
            page.lines(&Lines {
                title: format!("Appends that take longer: {}", phase.shown()),
                x: Axis::log("ms"),
                y: Axis::log("of all"),
                lines: lines
                    .map(|(name, micros)| Line {
                        name,
                        points: slower_than(micros),
                        ..Line::default()
                    })
                    .collect(),
            })?;
        }
        let rows: Vec<Vec<String>> = self.phases.iter().map(Phase::row).collect();
        page.table(&HEADINGS.map(str::to_owned), &rows);
        Ok(page)
    }
}
