//! `bench append`: the cluster and the floor in turn, slice by slice, under the same load.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use client::{AdminError, Client, Timeouts};
use serde::Serialize;

use super::environment::Machine;
use super::floor_cluster::FloorCluster;
use super::latency::{median, quantile_ms, rounded};
use super::load::{Content, Measured, Plan, measure};
use super::scratch::{Place, Scratch, go_on};
use super::watch::Watch;
use super::{batches, level};
use crate::local::{LocalCluster, LocalOptions, log_of};
use crate::{quantity, show};

const HELP: &str = "\
The floor is the same work without agreement, in processes of its own: the same kernel backend,
segments, batches, topology and ack rule, with a counter where the engine is. Cluster and floor take
turns, each time on fresh directories, because machines drift.

Example: flat out, and paced at 20 MB/s with small writes
  logberg bench append --nodes 3 --seconds 20 --write-size 64KiB
  logberg bench append --nodes 3 --seconds 20 --write-size 1KiB --rate 20M";

/// Throughput, latency and CPU of appending, beside the floor's
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Nodes of the cluster, and processes of the floor
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: u32,
    /// Measured time, of cluster and floor together
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = seconds)]
    seconds: f64,
    /// Bytes handed to the client at a time
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = quantity::at_least_one)]
    write_size: u64,
    /// Bytes per second of all clients together [default: as fast as acks come]
    #[arg(long, value_name = "RATE", value_parser = quantity::bytes_per_second)]
    rate: Option<u64>,
    /// Writers, each of a log of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// Unmeasured time at the start of each slice
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    warm_up: f64,
    /// How often cluster and floor take turns
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    alternations: u32,
    /// What a client keeps in memory: flat out, this much is under way
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = quantity::at_least_one)]
    window: u64,
    #[command(flatten)]
    place: Place,
}

pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("a time in seconds, more than 0 and at most a day".to_owned()),
    }
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    nodes: u32,
    clients: u32,
    write_bytes: u64,
    rate: Option<u64>,
    window_bytes: u64,
    slice_seconds: f64,
    acked_mb_per_s: f64,
    floor_mb_per_s: f64,
    /// The median of the pairs' ratios.
    ratio: f64,
    ack_p50_ms: f64,
    ack_p90_ms: f64,
    ack_p99_ms: f64,
    ack_max_ms: f64,
    floor_p50_ms: f64,
    floor_p90_ms: f64,
    floor_p99_ms: f64,
    floor_max_ms: f64,
    cpu_s_per_gb: f64,
    floor_cpu_s_per_gb: f64,
    client_cpu_s_per_gb: f64,
    mean_batch_bytes: Option<f64>,
    floor_mean_batch_bytes: Option<f64>,
    acks_per_s: f64,
    floor_acks_per_s: f64,
    alternations: Vec<Pair>,
    /// New files that grow, as a young node writes them.
    segments: &'static str,
    write_path: String,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Pair {
    cluster: Slice,
    floor: Slice,
    ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Slice {
    mb_per_s: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    cpu_s_per_gb: f64,
    client_cpu_s_per_gb: f64,
    acks_per_s: f64,
    mean_batch_bytes: Option<f64>,
}

impl Slice {
    fn new(measured: &Measured, mean_batch_bytes: Option<f64>) -> Slice {
        let quantile = |quantile| rounded(quantile_ms(&measured.micros, quantile));
        Slice {
            mb_per_s: rounded(measured.mb_per_s()),
            p50_ms: quantile(0.5),
            p90_ms: quantile(0.9),
            p99_ms: quantile(0.99),
            max_ms: quantile(1.0),
            cpu_s_per_gb: rounded(measured.per_gb(measured.nodes_cpu)),
            client_cpu_s_per_gb: rounded(measured.per_gb(measured.client_cpu)),
            acks_per_s: rounded(measured.acks as f64 / measured.seconds),
            mean_batch_bytes: mean_batch_bytes.map(f64::round),
        }
    }
}

/// What all slices of a run have in common.
struct Setting<'a> {
    arguments: &'a Arguments,
    plan: Plan,
    logs: Vec<String>,
    warm_up: Duration,
    length: Duration,
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let length = Duration::from_secs_f64(self.seconds / f64::from(2 * self.alternations));
        let setting = Setting {
            plan: Plan {
                write_bytes: self.write_size as usize,
                rate: self
                    .rate
                    .map(|rate| (rate / u64::from(self.clients)).max(1)),
                buffer_bytes: self.window as usize,
                content: Content::Repeated,
            },
            logs: (1..=self.clients)
                .map(|n| {
                    if n == 1 {
                        "main".to_owned()
                    } else {
                        format!("bench-{n}")
                    }
                })
                .collect(),
            warm_up: Duration::from_secs_f64(self.warm_up),
            length,
            arguments: &self,
        };
        let scratch = self.place.make(setting.bytes_needed())?;
        let machine = Machine::look(scratch.path())?;
        if matches!(machine.filesystem.as_str(), "tmpfs" | "overlay") {
            tracing::warn!(
                machine.filesystem,
                "this is no disk; name one with --directory"
            );
        }
        let watch = Watch::new(u64::from(2 * self.alternations));
        let mut pairs = Vec::new();
        let mut write_path = String::new();
        for _ in 0..self.alternations {
            watch.says("cluster");
            let cluster = setting.cluster_slice(&scratch, &mut write_path)?;
            watch.step(1);
            watch.says("floor");
            let floor = setting.floor_slice(&scratch)?;
            watch.step(1);
            let ratio = rounded(cluster.mb_per_s / floor.mb_per_s.max(f64::MIN_POSITIVE));
            pairs.push(Pair {
                cluster,
                floor,
                ratio,
            });
        }
        drop(watch);
        let report = setting.report(pairs, machine, write_path);
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }
}

impl Setting<'_> {
    /// Of one slice: its files are gone before the next.
    fn bytes_needed(&self) -> u64 {
        // More than the disks we know take through one file system; and padding of small batches.
        const FLAT_OUT: f64 = 1e9;
        const PADDING: f64 = 25e6;
        let clients = f64::from(self.arguments.clients);
        let rate = self
            .arguments
            .rate
            .map_or(FLAT_OUT, |rate| rate as f64 * 1.1);
        let seconds = (self.warm_up + self.length).as_secs_f64() + 1.0;
        let per_node = (rate + PADDING * clients).min(FLAT_OUT) * seconds;
        (per_node * f64::from(self.arguments.nodes)) as u64
    }

    fn cluster_slice(&self, scratch: &Scratch, write_path: &mut String) -> Result<Slice> {
        go_on()?;
        let directory = scratch.path().join("cluster");
        let nodes = self.arguments.nodes;
        let cluster = LocalCluster::start(LocalOptions::new(&directory, nodes))?;
        cluster.wait_ready(Duration::from_secs(30))?;
        let client = Client::new(cluster.addresses(), Timeouts::default());
        for log in &self.logs[1..] {
            match client.create_log(log) {
                // Made, but not yet where we asked for it afterwards.
                Ok(_) | Err(AdminError::UnknownLog { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            // Nodes learn of a new log one after the other, and each must vote in it.
            level::wait_ready(&cluster.addresses(), log, Duration::from_secs(30))?;
        }
        let cpu = || {
            let mut sum = Duration::ZERO;
            for node in 1..=nodes {
                sum += cluster.usage(node)?.cpu();
            }
            Ok(sum)
        };
        let measured = measure(
            &client,
            &self.logs,
            &self.plan,
            self.warm_up,
            self.length,
            cpu,
        )?;
        let leader = cluster
            .leader("main")
            .context("the cluster has no leader")?;
        let status = cluster.status(leader)?;
        write_path.clone_from(&status.write_path);
        let log = log_of(&status, "main").map_or(1, |log| log.id);
        let log_directory = cluster.node_directory(leader).join(format!("log-{log}"));
        let batch = batches::mean_bytes(&log_directory)?;
        drop(cluster);
        scratch.retire(&directory)?;
        Ok(Slice::new(&measured, batch))
    }

    fn floor_slice(&self, scratch: &Scratch) -> Result<Slice> {
        go_on()?;
        let directory = scratch.path().join("floor");
        let floor = FloorCluster::start(&directory, self.arguments.nodes)?;
        let client = Client::new(vec![floor.address().to_owned()], Timeouts::default());
        let cpu = || floor.cpu();
        let measured = measure(
            &client,
            &self.logs,
            &self.plan,
            self.warm_up,
            self.length,
            cpu,
        )?;
        let batch = batches::mean_bytes(&floor.log_directory())?;
        drop(floor);
        scratch.retire(&directory)?;
        Ok(Slice::new(&measured, batch))
    }

    fn report(&self, pairs: Vec<Pair>, machine: Machine, write_path: String) -> Report {
        let cluster = |field: fn(&Slice) -> f64| median_of(pairs.iter().map(|p| &p.cluster), field);
        let floor = |field: fn(&Slice) -> f64| median_of(pairs.iter().map(|p| &p.floor), field);
        let largest = |slices: &mut dyn Iterator<Item = &Slice>| {
            slices.map(|slice| slice.max_ms).fold(0.0, f64::max)
        };
        let batch = |slices: &mut dyn Iterator<Item = &Slice>| {
            let means: Vec<f64> = slices.filter_map(|slice| slice.mean_batch_bytes).collect();
            (!means.is_empty()).then(|| median(means))
        };
        Report {
            bench: "append",
            nodes: self.arguments.nodes,
            clients: self.arguments.clients,
            write_bytes: self.arguments.write_size,
            rate: self.arguments.rate,
            window_bytes: self.arguments.window,
            slice_seconds: rounded(self.length.as_secs_f64()),
            acked_mb_per_s: cluster(|s| s.mb_per_s),
            floor_mb_per_s: floor(|s| s.mb_per_s),
            ratio: rounded(median(pairs.iter().map(|pair| pair.ratio))),
            ack_p50_ms: cluster(|s| s.p50_ms),
            ack_p90_ms: cluster(|s| s.p90_ms),
            ack_p99_ms: cluster(|s| s.p99_ms),
            ack_max_ms: largest(&mut pairs.iter().map(|pair| &pair.cluster)),
            floor_p50_ms: floor(|s| s.p50_ms),
            floor_p90_ms: floor(|s| s.p90_ms),
            floor_p99_ms: floor(|s| s.p99_ms),
            floor_max_ms: largest(&mut pairs.iter().map(|pair| &pair.floor)),
            cpu_s_per_gb: cluster(|s| s.cpu_s_per_gb),
            floor_cpu_s_per_gb: floor(|s| s.cpu_s_per_gb),
            client_cpu_s_per_gb: cluster(|s| s.client_cpu_s_per_gb),
            mean_batch_bytes: batch(&mut pairs.iter().map(|pair| &pair.cluster)),
            floor_mean_batch_bytes: batch(&mut pairs.iter().map(|pair| &pair.floor)),
            acks_per_s: cluster(|s| s.acks_per_s),
            floor_acks_per_s: floor(|s| s.acks_per_s),
            alternations: pairs,
            segments: "fresh",
            write_path,
            machine,
        }
    }
}

fn median_of<'a>(slices: impl Iterator<Item = &'a Slice>, field: fn(&Slice) -> f64) -> f64 {
    rounded(median(slices.map(field)))
}

impl Report {
    fn print(&self) -> Result<()> {
        let headings = [
            "",
            "MB/s",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "max ms",
            "CPU s/GB",
            "batch KiB",
        ];
        let mut table = show::table(&headings);
        let kib =
            |bytes: Option<f64>| bytes.map_or("-".to_owned(), |b| format!("{:.1}", b / 1024.0));
        let mut row = |name: &str, values: [f64; 6], batch: Option<f64>| {
            let mut cells = vec![comfy_table::Cell::new(name)];
            cells.extend(values.map(show::number));
            cells.push(show::number(kib(batch)));
            table.add_row(cells);
        };
        let cluster = [
            self.acked_mb_per_s,
            self.ack_p50_ms,
            self.ack_p90_ms,
            self.ack_p99_ms,
            self.ack_max_ms,
            self.cpu_s_per_gb,
        ];
        let floor = [
            self.floor_mb_per_s,
            self.floor_p50_ms,
            self.floor_p90_ms,
            self.floor_p99_ms,
            self.floor_max_ms,
            self.floor_cpu_s_per_gb,
        ];
        row("cluster", cluster, self.mean_batch_bytes);
        row("floor", floor, self.floor_mean_batch_bytes);
        show::print(show::lines(&table))?;
        let slices: Vec<String> = self
            .alternations
            .iter()
            .map(|pair| pair.ratio.to_string())
            .collect();
        show::print(format!(
            "ratio {} (of the pairs: {}); the client took {} CPU s/GB",
            self.ratio,
            slices.join(", "),
            self.client_cpu_s_per_gb
        ))?;
        show::print(format!("{}, {}", self.machine.sentence(), self.write_path))
    }
}
