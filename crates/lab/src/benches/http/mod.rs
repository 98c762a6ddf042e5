//! `bench http`: appends to named streams over HTTP, beside raw appends and another server of the protocol; and reads of a
//! whole stream.
//!
//! ```text
//!  three nodes ── streams made ── for each load: we ⇄ raw appends ⇄ --reference ── lengths held to what was answered
//!              ── readers of events at all nodes, one writer ── each message to each of them
//!              ── one stream written ── read whole at its leader, at a follower ── each byte compared
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `target` | a server of the protocol, as a client sees it |
//! | `appends` | the load: callers of which each appends, waits, and appends again |
//! | `fanout` | readers of events, and how long a message takes to each |
//! | `floor` | another server of the protocol, found and started |
//! | `whole` | a stream that is read from its beginning to its tail |
//! | `report` | what was measured, as a table and in JSON |

mod appends;
mod asks;
mod fanout;
mod floor;
mod report;
mod target;
mod whole;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use client::{Client, Timeouts};

use appends::{Load, Turns};
use bench::latency::rounded;
use floor::Floor;
use report::{Peak, Report, Restart};
use target::Target;
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::environment::Machine;
use testbed::level;
use testbed::port;
use testbed::process::peak_rss_bytes;
use testbed::scratch::{Place, Scratch, go_on};
use testbed::watch::Watch;
use wire::quantity;

use super::raw;

const HELP: &str = "\
Each client appends to one stream after the other, waits for the answer, and appends again. Clients
are threads of this process, which shares the processors with the nodes, and ask the node that leads.
In turns with us, on the same disk: raw appends of as many bytes, each waited for (beside one client),
and another server of the Durable Streams Protocol: with --floor the vendor's own, which is started (to get it:
cargo install durable-streams --root DIR), with --reference one that you started before. Then one writer
sends 100 messages a second, for 10 s, to readers of events at all three nodes: one thread
with an epoll, which looks for each message's number and passes over the rest. At the end the streams' lengths are held to what was answered: ends with 1 if an append is lost or there twice.
Last all nodes are killed and started, until each answers for a stream.

Example:
  logberg-lab bench http
  logberg-lab bench http --streams 1,1000,1000000 --readers 1000,10000 --seconds 6 --times 3
  logberg-lab bench http --floor ~/floor
  logberg-lab bench http --reference http://127.0.0.1:4500/v1/stream";

/// Measure named streams over HTTP: appends beside raw appends and another server, and whole reads
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Clients at a time; each count is a load
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,64,256", value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: Vec<u32>,
    /// Streams that are appended to in turn; each count is a load
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    streams: Vec<u32>,
    /// Bytes of an append
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = value_bytes)]
    value_size: u64,
    /// How long each turn is counted
    #[arg(long, value_name = "SECONDS", default_value = "4", value_parser = quantity::seconds)]
    seconds: f64,
    /// How often each takes its turn
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    /// Bytes of the stream that is read whole
    #[arg(long, value_name = "BYTES", default_value = "1GB", value_parser = read_bytes)]
    read_bytes: u64,
    /// Readers of events at a time, over all nodes; 0 is none
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1000", value_parser = clap::value_parser!(u32).range(0..=18_000))]
    readers: Vec<u32>,
    /// Where the vendor's server is installed; it is started, and measured in turns
    #[arg(long, value_name = "DIR", conflicts_with = "reference")]
    floor: Option<PathBuf>,
    /// Another server, measured in turns: its address up to the streams' names
    #[arg(long, value_name = "URL")]
    reference: Option<String>,
    #[command(flatten)]
    place: Place,
}

fn value_bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        bytes if (1..=1 << 20).contains(&bytes) => Ok(bytes),
        _ => Err("appends have 1 byte to 1 MiB here".to_owned()),
    }
}

fn read_bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        bytes if (1 << 20..=4 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("the stream that is read has 1 MiB to 4 GiB".to_owned()),
    }
}

const NODES: u32 = 3;
/// A log beside the streams, for raw appends.
const RAW: &str = "raw";
/// The log of the streams.
const SPACE: &str = "default";
const READY: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Before anything is counted.
const WARM_UP: Duration = Duration::from_millis(500);
/// More appends than that a second are not to be expected, and so many bytes stand around each.
const PER_S_MAX: f64 = 20_000.0;
/// Streams beside those that are appended to.
const OTHER_STREAMS: u64 = 1_000;
/// A stream that was made.
const STREAM_BYTES: f64 = 600.0;
const AROUND: f64 = 300.0;
const OTHER_BYTES: f64 = 1e9;

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let scratch = self.place.make(self.bytes_needed())?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let report = self.measure(&scratch, machine)?;
        match json {
            true => show::print_json(&report)?,
            false => report.print()?,
        }
        match (report.lost_appends, report.doubled_appends) {
            (0, 0) => Ok(()),
            (lost, doubled) => bail!(
                "{lost} appends that were answered are not there, and {doubled} are there that nobody made"
            ),
        }
    }

    fn bytes_needed(&self) -> u64 {
        let loads = (self.clients.len() * self.streams.len()) as f64;
        let turns = loads * f64::from(self.times) * (self.seconds + WARM_UP.as_secs_f64());
        let appended = turns * PER_S_MAX * (self.value_size as f64 + AROUND);
        let made = self.streams.iter().map(|streams| f64::from(*streams));
        let appended = appended.min(turns * 200e6) + made.sum::<f64>() * STREAM_BYTES;
        // To logs, to rows, and to rows that are merged.
        let bytes = (appended + self.read_bytes as f64) * 3.0 + OTHER_BYTES;
        (bytes * f64::from(NODES)) as u64
    }

    fn measure(&self, scratch: &Scratch, machine: Machine) -> Result<Report> {
        let floor = self.floor.as_deref().map(floor::found).transpose()?;
        let watch = Watch::new(0);
        watch.says("starting three nodes");
        let nodes = Nodes::start(&scratch.path().join("nodes"))?;
        let leader = nodes.leader()?;
        let ours = Target::new(&nodes.url(leader))?;
        let floor = floor.map(|program| Floor::start(&program, &scratch.path().join("floor")));
        let floor = floor.transpose()?;
        let reference = floor.as_ref().map(|floor| floor.url.as_str());
        let reference = reference.or(self.reference.as_deref());
        let reference = reference.map(Target::new).transpose()?;
        let length = appends::Length {
            warm_up: WARM_UP,
            counted: Duration::from_secs_f64(self.seconds),
        };
        let mut report = Report {
            bench: "http",
            value_bytes: self.value_size,
            seconds: rounded(self.seconds),
            times: self.times,
            cells: Vec::new(),
            read_bytes: self.read_bytes,
            fanouts: Vec::new(),
            whole_reads: Vec::new(),
            lost_appends: 0,
            doubled_appends: 0,
            peaks_of_appends: Vec::new(),
            peaks: Vec::new(),
            restart: Restart::default(),
            machine,
        };
        let streams: u64 = self.streams.iter().map(|streams| u64::from(*streams)).sum();
        ours.allow(streams + OTHER_STREAMS)?;
        watch.add_steps((self.clients.len() * self.streams.len()) as u64);
        for streams in &self.streams {
            watch.says(format!("making {streams} streams"));
            let prefix = format!("of-{streams}");
            for target in reference.iter().chain([&ours]) {
                target.make(&prefix, *streams, |made| {
                    watch.says(format!("making {streams} streams: {made}"));
                })?;
            }
            let (mut answered, mut unknown) = (0, 0);
            for clients in &self.clients {
                let load = Load {
                    clients: *clients,
                    streams: *streams,
                    bytes: self.value_size as usize,
                };
                watch.says(format!("{clients} clients, {streams} streams"));
                let mut turns = Turns::default();
                for _ in 0..self.times {
                    go_on()?;
                    let before = nodes.cpu()?;
                    let turn = appends::measure(&ours, &prefix, load, length)?;
                    turns.add_ours(turn, nodes.cpu()?.saturating_sub(before));
                    if *clients == 1 {
                        turns.raw_p50_ms.push(nodes.raw_p50_ms(load.bytes, length)?);
                    }
                    if let Some(reference) = &reference {
                        let turn = appends::measure(reference, &prefix, load, length)?;
                        turns.reference.push(turn.figures);
                    }
                }
                answered += turns.answered;
                unknown += turns.unknown;
                report.cells.push(turns.cell(load));
                watch.step(1);
                scratch.check_space()?;
            }
            let there = ours.bytes_of(&prefix)? / self.value_size;
            report.lost_appends += answered.saturating_sub(there);
            report.doubled_appends += there.saturating_sub(answered + unknown);
        }
        report.peaks_of_appends = nodes.peaks(leader)?;
        let urls: Vec<String> = (1..=NODES).map(|node| nodes.url(node)).collect();
        for readers in self.readers.iter().filter(|readers| **readers > 0) {
            watch.says(format!("{readers} readers of events"));
            let places = (&urls[..], leader as usize - 1);
            let fanout = fanout::measure(&ours, places, *readers, || nodes.cost())?;
            report.fanouts.push(fanout);
        }
        self.read_whole(&nodes, leader, &watch, &mut report)?;
        report.peaks = nodes.peaks(leader)?;
        watch.says("killing all nodes, and starting them");
        report.restart = nodes.restart(streams)?;
        drop(nodes);
        Ok(report)
    }

    fn read_whole(
        &self,
        nodes: &Nodes,
        leader: u32,
        watch: &Watch,
        report: &mut Report,
    ) -> Result<()> {
        let at_leader = Target::new(&nodes.url(leader))?;
        watch.says("writing the stream that is read whole");
        let whole = whole::Whole::write(&at_leader, self.read_bytes)?;
        let follower = leader % NODES + 1;
        for (place, node) in [("leader", leader), ("follower", follower)] {
            watch.says(format!("reading it at its {place}"));
            let target = Target::new(&nodes.url(node))?;
            report.whole_reads.push(whole.read(&target, place)?);
        }
        Ok(())
    }
}

/// Three processes that serve named streams.
struct Nodes {
    cluster: LocalCluster,
    ports: Vec<u16>,
}

impl Nodes {
    /// To be called on a thread that lives as long as they.
    fn start(directory: &Path) -> Result<Nodes> {
        let ports = port::free(NODES)?;
        let cluster = LocalCluster::start(LocalOptions {
            http_ports: ports.clone(),
            ..LocalOptions::new(directory, NODES)
        })?;
        cluster.wait_ready(READY)?;
        let nodes = Nodes { cluster, ports };
        nodes.client().create_log(RAW)?;
        level::wait_ready(&nodes.cluster.addresses(), RAW, READY)?;
        // The first stream makes the space.
        let door = Target::new(&nodes.url(1))?;
        let deadline = Instant::now() + READY;
        while let Err(error) = door.make("first", 1, |_| {}) {
            go_on()?;
            if Instant::now() > deadline {
                return Err(error);
            }
            thread::sleep(POLL);
        }
        level::wait_ready(&nodes.cluster.addresses(), SPACE, READY)?;
        Ok(nodes)
    }

    fn client(&self) -> Client {
        Client::new(self.cluster.addresses(), Timeouts::default())
    }

    fn leader(&self) -> Result<u32> {
        match level::leader(&self.cluster.addresses(), SPACE) {
            Some(leader) => Ok(leader),
            None => bail!("no node leads the streams"),
        }
    }

    fn url(&self, node: u32) -> String {
        format!(
            "http://127.0.0.1:{}/v1/stream",
            self.ports[node as usize - 1]
        )
    }

    fn pid(&self, node: u32) -> Result<u32> {
        match self.cluster.pid(node) {
            Some(pid) => Ok(pid),
            None => bail!("node {node} ended"),
        }
    }

    /// The CPU that all nodes have used so far.
    fn cpu(&self) -> Result<Duration> {
        let mut all = Duration::ZERO;
        for node in 1..=NODES {
            let used = testbed::process::used(self.pid(node)?)?;
            all += used.user + used.system;
        }
        Ok(all)
    }

    fn cost(&self) -> Result<fanout::Cost> {
        let mut rss_bytes = 0;
        for node in 1..=NODES {
            rss_bytes += testbed::process::rss_bytes(self.pid(node)?)?;
        }
        let cpu = self.cpu()?;
        Ok(fanout::Cost { cpu, rss_bytes })
    }

    fn peaks(&self, leader: u32) -> Result<Vec<Peak>> {
        let peak = |node| -> Result<Peak> {
            Ok(Peak {
                is_leader: node == leader,
                rss_mb: rounded(peak_rss_bytes(self.pid(node)?)? as f64 / 1e6),
            })
        };
        (1..=NODES).map(peak).collect()
    }

    /// Kills all, and starts them together.
    fn restart(&self, streams: u64) -> Result<Restart> {
        self.cluster.kill_all()?;
        let begun = Instant::now();
        self.cluster.launch()?;
        let mut restart = Restart {
            streams,
            ..Restart::default()
        };
        for node in 1..=NODES {
            let door = Target::new(&self.url(node))?;
            while !door.is_there("first") {
                go_on()?;
                if begun.elapsed() > READY {
                    bail!("node {node} does not answer, {READY:?} after its start");
                }
                thread::sleep(Duration::from_millis(5));
            }
            let ms = begun.elapsed().as_secs_f64() * 1e3;
            restart.answers_after_ms.push(rounded(ms));
        }
        for node in 1..=NODES {
            let rss_bytes = testbed::process::rss_bytes(self.pid(node)?)?;
            restart.rss_mb.push(rounded(rss_bytes as f64 / 1e6));
        }
        Ok(restart)
    }

    fn raw_p50_ms(&self, bytes: usize, length: appends::Length) -> Result<f64> {
        raw::p50_ms(&self.client(), RAW, bytes, length.warm_up, length.counted)
    }
}
