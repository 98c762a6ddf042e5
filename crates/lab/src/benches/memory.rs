//! `bench memory`: what nodes keep in memory when others do not keep up.
//!
//! A writer appends flat out; one follower stands still half of the time, so that a leader could
//! be tempted to keep for it what it misses; one reader asks a leader for everything and takes
//! nothing, another does the same to a follower.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Client, Timeouts};
use serde::Serialize;

use bench::latency::rounded;
use bench::load::{Content, Plan, Writer};
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::environment::Machine;
use testbed::process::peak_rss_bytes;
use testbed::scratch::{Place, Scratch};
use testbed::watch::{Watch, sleep_until};
use wire::quantity;

const HELP: &str = "\
Peaks are VmHWM of each node's process, from its start to the last byte.

Example: does memory stay bounded
  logberg-lab bench memory --bytes 8GiB";

/// Peak memory of nodes, with a follower that stands still and readers that do not read
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Bytes to append
    #[arg(long, value_name = "BYTES", default_value = "8GiB", value_parser = quantity::at_least_one)]
    bytes: u64,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=9))]
    nodes: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    nodes: Vec<Node>,
    acked_bytes: u64,
    mb_per_s: f64,
    pauses: u32,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Node {
    id: u32,
    role: &'static str,
    peak_rss_bytes: u64,
}

/// The follower stands still for one of these, and runs for the next.
const PERIOD: Duration = Duration::from_secs(3);
/// Without a new ack for so long something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        // A paused follower fetches the bytes that it misses while it goes on.
        let scratch = self
            .place
            .make(self.bytes / 10 * 11 * u64::from(self.nodes))?;
        let machine = Machine::look(scratch.path())?;
        let directory = scratch.path().join("cluster");
        let cluster = LocalCluster::start(LocalOptions::new(directory, self.nodes))?;
        cluster.wait_ready(Duration::from_secs(30))?;
        let leader = cluster.leader("main").context("there is no leader")?;
        let followers: Vec<u32> = (1..=self.nodes).filter(|id| *id != leader).collect();
        let (paused, follower) = (followers[0], followers[1]);
        let began = Instant::now();
        let (acked_bytes, pauses) = self.load(&cluster, &scratch, [leader, follower], paused)?;
        let seconds = began.elapsed().as_secs_f64();
        let node = |id| -> Result<Node> {
            let pid = cluster
                .pid(id)
                .with_context(|| format!("node {id} ended"))?;
            Ok(Node {
                id,
                role: match id {
                    _ if id == leader => "leader",
                    _ if id == paused => "paused half of the time",
                    _ => "follower",
                },
                peak_rss_bytes: peak_rss_bytes(pid)?,
            })
        };
        let report = Report {
            bench: "memory",
            nodes: (1..=self.nodes).map(node).collect::<Result<_>>()?,
            acked_bytes,
            mb_per_s: rounded(acked_bytes as f64 / 1e6 / seconds),
            pauses,
            machine,
        };
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    /// Until everything is acknowledged. Returns how much that was, and how often the follower
    /// stood still.
    fn load(
        &self,
        cluster: &LocalCluster,
        scratch: &Scratch,
        read_from: [u32; 2],
        paused: u32,
    ) -> Result<(u64, u32)> {
        let client = Client::new(cluster.addresses(), Timeouts::default());
        let plan = Plan {
            write_bytes: 64 << 10,
            rate: None,
            buffer_bytes: 16 << 20,
            content: Content::Repeated,
        };
        const MB: u64 = 1_000_000;
        let watch = Watch::new(self.bytes / MB);
        let mut writer = Writer::start(&client, "main", &plan)?;
        let _readers = read_from
            .iter()
            .map(|id| idle_reader(cluster.address(*id), &writer))
            .collect::<Result<Vec<_>>>()?;
        let mut pauses = 0;
        let mut is_paused = false;
        let mut turn = Instant::now() + PERIOD;
        let mut progress = (0, Instant::now());
        while writer.acknowledged() < self.bytes {
            sleep_until(Instant::now() + Duration::from_millis(50))?;
            writer.check()?;
            scratch.check_space()?;
            let acknowledged = writer.acknowledged();
            watch.step((acknowledged - progress.0) / MB);
            if acknowledged / MB > progress.0 / MB {
                progress = (acknowledged / MB * MB, Instant::now());
            } else if progress.1.elapsed() > PATIENCE {
                bail!("nothing was acknowledged for {} s", PATIENCE.as_secs());
            }
            if Instant::now() >= turn {
                turn = Instant::now() + PERIOD;
                match is_paused {
                    true => cluster.go_on(paused)?,
                    false => cluster.pause(paused)?,
                }
                is_paused = !is_paused;
                pauses += u32::from(is_paused);
                watch.says(if is_paused {
                    "a follower stands still"
                } else {
                    "all run"
                });
            }
        }
        if is_paused {
            cluster.go_on(paused)?;
        }
        Ok((writer.finish()?.position, pauses))
    }
}

/// Asks for everything, hears that it will come, and never takes any of it.
fn idle_reader(address: &str, writer: &Writer) -> Result<TcpStream> {
    let stream = writer.stream();
    let line = format!("logberg/1 read main stream={stream} follow=1 stale=1 format=framed\n");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(line.as_bytes())?;
        let mut answer = [0; 8];
        socket.read_exact(&mut answer)?;
        if answer == *b"reading " {
            return Ok(socket);
        }
        // A node that does not lead hears of a new stream a moment later than its writer does.
        if Instant::now() > deadline {
            bail!("{address} refuses to be read from");
        }
        sleep_until(Instant::now() + Duration::from_millis(10))?;
    }
}

impl Report {
    fn print(&self) -> Result<()> {
        let mut table = show::table(&["node", "peak memory", ""]);
        for node in &self.nodes {
            let peak = quantity::shown(node.peak_rss_bytes);
            table.add_row(vec![
                comfy_table::Cell::new(node.id),
                show::number(peak),
                comfy_table::Cell::new(node.role),
            ]);
        }
        show::print(show::lines(&table))?;
        show::print(format!(
            "{} acknowledged at {} MB/s; {}",
            quantity::shown(self.acked_bytes),
            self.mb_per_s,
            self.machine.sentence()
        ))
    }
}
