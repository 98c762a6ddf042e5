//! `bench many-logs`: what logs cost that nobody uses, and with `--active` what many busy ones do.
//!
//! ```text
//!  create N logs ── rest ── CPU, memory, files, disk of each node ── stop all ── start all, N leaders
//!  (how fast)      (--seconds)                                                   (how soon)
//! ```

mod active;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Client, Timeouts};
use serde::Serialize;

use bench::latency::rounded;
use bench::report::{self, Page};
use terminal::moving::Moving;
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::environment::Machine;
use testbed::level;
use testbed::process::{cpu, peak_rss_bytes};
use testbed::scratch::{Place, Scratch};
use testbed::watch::{Watch, sleep_until};
use wire::quantity;

const HELP: &str = "\
CPU is of one core, while nobody asks for anything; memory is VmHWM of each node, the creation included;
disk is what the file system gave to each node's directory. Started again are all nodes at once: each figure
is the time until its node answers, and until the last log has a leader.

With --active logs are not idle but have a writer each, flat out or together at --rate. Each number of logs
has a fresh cluster; its share is that of the fastest of them. What all writers together keep is --window, and
at most 16 MiB each, so a flat-out latency is again the length of a queue.

Example: a thousand idle logs; and busy ones
  logberg-lab bench many-logs --logs 1000
  logberg-lab bench many-logs --active 1,4,16,64,256 --seconds 10 --report logs.html";

/// The cost of many logs, idle or active: CPU, memory, disk, time to start; throughput, fairness
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    logs: u32,
    /// How long the logs are idle, or are measured
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = quantity::seconds)]
    seconds: f64,
    /// Logs created at the same time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    at_once: u32,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: u32,
    /// Logs with a writer each; one measurement for each number, instead of idle ones
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with_all = ["logs", "at_once"], value_parser = clap::value_parser!(u32).range(1..=1024))]
    active: Vec<u32>,
    /// Bytes per second of all writers of active logs together [default: as fast as acks come]
    #[arg(long, value_name = "RATE", requires = "active", value_parser = quantity::bytes_per_second)]
    rate: Option<u64>,
    /// Bytes handed to a client of an active log at a time
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = quantity::at_least_one)]
    write_size: u64,
    /// Unmeasured time before each measurement of active logs
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = quantity::seconds)]
    warm_up: f64,
    /// Bytes that all writers of active logs together keep until they are acknowledged, each from 256 KiB to 16 MiB
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = quantity::at_least_one)]
    window: u64,
    /// Turns that the numbers of active logs take
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
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
    logs: u32,
    mover: Option<String>,
    created_in_s: f64,
    logs_per_s: f64,
    idle_s: f64,
    nodes: Vec<Node>,
    /// Until every log had a leader, after all nodes were started at once.
    led_after_s: f64,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Node {
    id: u32,
    idle_cpu_percent: f64,
    peak_rss_bytes: u64,
    disk_bytes: u64,
    open_files: usize,
    answers_after_s: f64,
}

/// The disk space of one log, with all that its node does meanwhile.
const DISK_BYTES: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);
/// So that elections are over and what was written has its watermarks.
const SETTLE: Duration = Duration::from_secs(3);

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let report_to = self.report.open()?;
        if !self.active.is_empty() {
            return self.run_active(report_to, json);
        }
        let logs = u64::from(self.logs);
        let needed = (logs + 64) * DISK_BYTES * u64::from(self.nodes);
        let scratch = self.place.make(needed)?;
        let machine = Machine::look(scratch.path())?;
        let directory = scratch.path().join("cluster");
        let mut options = LocalOptions::new(directory, self.nodes);
        options.arguments = self.moving.arguments();
        let cluster = LocalCluster::start(options)?;
        cluster.wait_ready(Duration::from_secs(30))?;
        let watch = Watch::new(logs);
        watch.says("creating");
        let created_in = self.create(&cluster, &scratch, &watch)?;
        watch.says("leaders");
        self.wait_led(&cluster)?;
        sleep_until(Instant::now() + SETTLE)?;
        watch.says("idle");
        let mut nodes = self.look(&cluster)?;
        watch.says("starting again");
        let led_after = self.start_again(&cluster, &mut nodes)?;
        drop(watch);
        let report = Report {
            bench: "many-logs",
            logs: self.logs,
            mover: self.moving.mover.map(|mover| mover.to_string()),
            created_in_s: rounded(created_in),
            logs_per_s: rounded(f64::from(self.logs) / created_in),
            idle_s: rounded(self.seconds),
            nodes,
            led_after_s: rounded(led_after),
            machine,
        };
        if let Some(to) = report_to {
            to.write(report.page())?;
        }
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    /// Seconds until the last one was there.
    fn create(&self, cluster: &LocalCluster, scratch: &Scratch, watch: &Watch) -> Result<f64> {
        let client = Client::new(cluster.addresses(), Timeouts::default());
        let next = AtomicU32::new(0);
        let failed = Mutex::new(None);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.at_once {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.logs {
                            return;
                        }
                        let created = client.create_log(&format!("idle-{number}"));
                        let created = created.map_err(anyhow::Error::from);
                        let sound = created.and_then(|_| scratch.check_space());
                        if let Err(error) = sound {
                            next.store(self.logs, Ordering::Relaxed);
                            let mut failed = failed.lock().unwrap_or_else(|e| e.into_inner());
                            failed.get_or_insert(error);
                            return;
                        }
                        watch.step(1);
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(error) => Err(error.context("a log could not be created")),
            None => Ok(began.elapsed().as_secs_f64()),
        }
    }

    /// Until every log has a leader that its node knows to be one.
    fn wait_led(&self, cluster: &LocalCluster) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // The directory and `main` too.
        let wanted = self.logs as usize + 2;
        loop {
            let asked = Instant::now();
            let addresses = cluster.addresses();
            let leads = addresses
                .iter()
                .filter_map(|address| level::status(address));
            let led: usize = leads
                .map(|status| {
                    status
                        .logs
                        .iter()
                        .filter(|log| log.role == "leader")
                        .count()
                })
                .sum();
            if led >= wanted {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "{led} of {wanted} logs have a leader after {} s",
                    PATIENCE.as_secs()
                );
            }
            // Thousands of lines are work for the nodes, too: most of the time is to be theirs.
            sleep_until(Instant::now() + POLL.max(4 * asked.elapsed()))?;
        }
    }

    fn look(&self, cluster: &LocalCluster) -> Result<Vec<Node>> {
        let pid = |id| {
            let pid = cluster.pid(id);
            pid.with_context(|| format!("node {id} ended"))
        };
        let used =
            || -> Result<Vec<Duration>> { (1..=self.nodes).map(|id| Ok(cpu(pid(id)?)?)).collect() };
        let (before, began) = (used()?, Instant::now());
        sleep_until(began + Duration::from_secs_f64(self.seconds))?;
        let (after, elapsed) = (used()?, began.elapsed().as_secs_f64());
        let spent = before
            .iter()
            .zip(&after)
            .map(|(b, a)| (*a - *b).as_secs_f64());
        (1..=self.nodes)
            .zip(spent)
            .map(|(id, spent)| {
                let files = std::fs::read_dir(format!("/proc/{}/fd", pid(id)?))?;
                Ok(Node {
                    id,
                    idle_cpu_percent: rounded(100.0 * spent / elapsed),
                    peak_rss_bytes: peak_rss_bytes(pid(id)?)?,
                    disk_bytes: disk_bytes(&cluster.node_directory(id))?,
                    open_files: files.count(),
                    answers_after_s: 0.0,
                })
            })
            .collect()
    }

    /// Seconds until every log is led again.
    fn start_again(&self, cluster: &LocalCluster, nodes: &mut [Node]) -> Result<f64> {
        for node in &*nodes {
            cluster.terminate(node.id, PATIENCE)?;
        }
        let began = Instant::now();
        for node in &*nodes {
            cluster.restart(node.id)?;
        }
        while nodes.iter().any(|node| node.answers_after_s == 0.0) {
            for node in nodes.iter_mut().filter(|node| node.answers_after_s == 0.0) {
                if level::status(cluster.address(node.id)).is_some() {
                    node.answers_after_s = rounded(began.elapsed().as_secs_f64()).max(0.001);
                }
            }
            if began.elapsed() > PATIENCE {
                bail!("not every node answers after {} s", PATIENCE.as_secs());
            }
            sleep_until(Instant::now() + POLL)?;
        }
        self.wait_led(cluster)?;
        Ok(began.elapsed().as_secs_f64())
    }
}

/// The space that the file system gave to a directory and all below it.
fn disk_bytes(directory: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = std::fs::metadata(directory)?.blocks() * 512;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => entry.metadata()?.blocks() * 512,
        };
    }
    Ok(bytes)
}

const HEADINGS: [&str; 6] = [
    "node",
    "idle CPU %",
    "peak memory",
    "disk",
    "open files",
    "answers after s",
];

impl Report {
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |node: &Node| {
            vec![
                node.id.to_string(),
                node.idle_cpu_percent.to_string(),
                quantity::shown(node.peak_rss_bytes),
                quantity::shown(node.disk_bytes),
                node.open_files.to_string(),
                node.answers_after_s.to_string(),
            ]
        };
        self.nodes.iter().map(row).collect()
    }

    fn sentence(&self) -> String {
        format!(
            "{} logs created in {} s; all led {} s after a start of all nodes",
            self.logs, self.created_in_s, self.led_after_s,
        )
    }

    fn print(&self) -> Result<()> {
        show::print(show::rows(&HEADINGS, self.rows()))?;
        show::print(format!("{}; {}", self.sentence(), self.machine.sentence()))
    }

    fn page(&self) -> Page {
        let mut page = Page::new("Many idle logs", &self.machine);
        page.text(&self.sentence());
        page.table(&HEADINGS.map(str::to_owned), &self.rows());
        page
    }
}
