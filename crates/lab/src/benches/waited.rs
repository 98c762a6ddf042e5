//! `bench waited`: one durable append at a time, each waited for, and what a network adds to it.
//!
//! ```text
//!  direct     client ──► leader ──► followers               the number of a machine without a network
//!  proxied    client ─▷─ leader ─▷─ followers               what the proxies themselves take
//!  late       client ─▷… leader ─▷… followers               so much more on every way, there and back
//! ```
//!
//! An append takes four ways: to the leader, to a follower, back, and back. Each kind has a cluster of its own; they take turns.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use client::{Client, Timeouts};
use serde::Serialize;

use bench::latency::{median, rounded};
use bench::proxied::ProxiedCluster;
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::environment::Machine;
use testbed::scratch::Place;
use testbed::watch::Watch;
use wire::quantity;

use super::guest::callers::Figures;
use super::raw;

const HELP: &str = "\
Three nodes on this machine. One writer appends, waits until a majority has it on disk, and appends again: over loopback (direct),
through proxies that only pass on (proxied), and through proxies that add a delay to every way, between client and leader and
between nodes (late). A sleep is never exact: the proxied row says what the proxies take, and a late append takes four ways.
A figure is the median of the turns' figures.

Example: the number that people look for first, in a minute and a half
  logberg-lab bench waited --write-size 1KiB --delay 0.5ms --seconds 5 --times 5";

/// Latency of one durable append that is waited for, with and without a network's delay
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Bytes of one append
    #[arg(long, value_name = "BYTES", default_value = "1KiB", value_parser = quantity::at_least_one)]
    write_size: u64,
    /// Added to each way
    #[arg(long, value_name = "TIME", default_value = "0.5ms", value_parser = quantity::seconds)]
    delay: f64,
    /// Each turn of each kind
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    write_bytes: u64,
    delay_ms: f64,
    seconds: u64,
    times: u32,
    kinds: Vec<Kind>,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Kind {
    kind: &'static str,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    appends: u64,
    turns: Vec<Figures>,
}

const NODES: u32 = 3;
const WARM_UP: Duration = Duration::from_secs(1);
/// More appends than any disk makes durable in a second.
const APPENDS_PER_S_MAX: u64 = 20_000;

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let turns = u64::from(self.times) * 3;
        let appends = APPENDS_PER_S_MAX * (self.seconds + WARM_UP.as_secs()) * turns;
        let needed = appends * self.write_size * u64::from(NODES);
        let scratch = self.place.make(needed.min(8 << 30))?;
        let machine = Machine::look(scratch.path())?;
        let watch = Watch::new(turns);
        watch.says("starting");
        let direct = LocalCluster::start(LocalOptions::new(scratch.path().join("direct"), NODES))?;
        direct.wait_ready(Duration::from_secs(30))?;
        let late = |name: &str, delay| {
            ProxiedCluster::start_late(&scratch.path().join(name), NODES, delay)
        };
        let proxied = late("proxied", Duration::ZERO)?;
        let delayed = late("late", Duration::from_secs_f64(self.delay))?;
        let clusters = [
            ("direct", direct.addresses()),
            ("proxied", proxied.addresses()),
            ("late", delayed.addresses()),
        ];
        let mut turns = clusters.each_ref().map(|_| Vec::new());
        for turn in 1..=self.times {
            for (kind, addresses) in turns.iter_mut().zip(&clusters).map(|(to, (name, at))| {
                watch.says(format!("turn {turn} of {}: {name}", self.times));
                (to, at)
            }) {
                kind.push(self.measure(addresses)?);
                watch.step(1);
            }
        }
        drop(watch);
        let kinds = clusters.iter().zip(turns);
        let report = Report {
            bench: "waited",
            write_bytes: self.write_size,
            delay_ms: self.delay * 1e3,
            seconds: self.seconds,
            times: self.times,
            kinds: kinds
                .map(|((kind, _), turns)| Kind::of(kind, turns))
                .collect(),
            machine,
        };
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    fn measure(&self, addresses: &[String]) -> Result<Figures> {
        let client = Client::new(addresses.to_vec(), Timeouts::default());
        let counted = Duration::from_secs(self.seconds);
        raw::figures(&client, "main", self.write_size as usize, WARM_UP, counted)
    }
}

impl Kind {
    fn of(kind: &'static str, turns: Vec<Figures>) -> Kind {
        let middle = |of: fn(&Figures) -> f64| rounded(median(turns.iter().map(of)));
        Kind {
            kind,
            p50_ms: middle(|turn| turn.p50_ms),
            p99_ms: middle(|turn| turn.p99_ms),
            max_ms: turns.iter().map(|turn| turn.max_ms).fold(0.0, f64::max),
            appends: turns.iter().map(|turn| turn.answered).sum(),
            turns,
        }
    }
}

impl Report {
    fn print(&self) -> Result<()> {
        let mut table = show::table(&["kind", "p50 ms", "p99 ms", "max ms", "appends"]);
        for kind in &self.kinds {
            table.add_row([
                kind.kind.into(),
                show::number(kind.p50_ms),
                show::number(kind.p99_ms),
                show::number(kind.max_ms),
                show::number(kind.appends),
            ]);
        }
        show::print(show::lines(&table))?;
        show::print(format!(
            "appends of {}, each waited for; late: {} ms added to each of four ways; {}",
            quantity::shown(self.write_bytes),
            self.delay_ms,
            self.machine.sentence()
        ))
    }
}
