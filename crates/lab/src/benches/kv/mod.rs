//! `bench kv`: SET and GET of clients of Redis Cluster at three nodes, beside raw appends, etcd and Redis.
//!
//! ```text
//!  three groups, one led by each node ── idle connections (--idle)
//!                                     ── keys written ── for each load: we ⇄ raw appends ⇄ etcd ⇄ Redis
//!                                     ── leaders killed (--failover)
//!  three groups                       ── keys written ── slots move, under load and at rest (--move)
//!  one group, led by one node         ── keys written ── each load: what leader, followers and load take
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `generator`, `client`, `connection`, `reply` | the load: one thread with all clients, and the parts of one |
//! | `draw`, `slots` | which keys are asked for, and which server answers for them |
//! | `values`, `book` | which values a read may show |
//! | `load` | what clients are to do, and what came of it |
//! | `nodes`, `etcd`, `redis`, `turns` | we, and what we are compared with, in turns |
//! | `roles`, `failover`, `idle` | CPU of each role, leaders that are killed, memory of connections |
//! | `beside`, `neighbours` | the latency of clients beside noisy neighbours |
//! | `moved`, `apart` | slots that move, and replies about them |
//! | `report`, `goals`, `shown` | what is reported, what is to be reached, as a table |

mod apart;
mod beside;
mod book;
mod client;
mod connection;
mod draw;
mod etcd;
mod failover;
#[cfg(test)]
mod fake;
pub(crate) mod generator;
mod goals;
mod idle;
pub(crate) mod load;
pub(crate) mod moved;
mod neighbours;
pub(crate) mod nodes;
mod redis;
mod reply;
mod report;
mod roles;
mod shown;
pub(crate) mod slots;
mod turns;
pub(crate) mod values;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use bench::latency::rounded;
use generator::{Generator, Length};
use load::{Load, Op};
use moved::Moves;
use neighbours::Neighbour;
use nodes::{NODES, Nodes};
use report::{Cell, Report};
use slots::Map;
use terminal::show;
use testbed::environment::Machine;
use testbed::scratch::{Place, Scratch};
use testbed::watch::Watch;
use turns::Contenders;
use values::{HEAD_BYTES, KEY_BYTES};
use wire::quantity;

const HELP: &str = "\
Each client knows which node answers for which slots, sends a pipeline to one node, and the next one
when all of it is answered. All clients are one thread of this process, which shares the processors
with the nodes: what it takes for a command is shown too. Every value that is read is held to those
that may be there; ends with 1 if one is wrong, or if what was answered is lost.

In turns with us, on the same disk: raw appends of as many bytes as a value has, each waited for
(beside SET with 1 client); etcd with its own load tool; Redis with appendfsync always, one copy, with
our load. Rivals that are not installed are skipped, with a sentence on how to get them. A second
cluster has one group, so that one node leads and two follow: CPU for each command by role.

Example: all loads, twice in turn, then five leaders killed
  logberg-lab bench kv --rivals /opt/rivals --failover 5
  logberg-lab bench kv --skip roles,rivals --seconds 2 --times 1
  logberg-lab bench kv --skip cells,roles --idle 10000
Example: the latency of clients beside one noisy neighbour of each kind, and beside 64
  logberg-lab bench kv --skip cells,roles --beside --times 5
  logberg-lab bench kv --skip cells,roles --beside --neighbours 64
Example: a quarter of all slots moves, at half of full load and at rest
  logberg-lab bench kv --skip cells,roles --move";

/// Measure keys: SET and GET of clients of Redis Cluster, beside raw appends, etcd and Redis
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Clients at full load; a single one is measured too
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=2000))]
    clients: u32,
    /// Commands that each of so many clients sends at once; single ones are measured too
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pipeline: u32,
    /// Bytes of a value, and of a raw append; keys have 16
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = value_bytes)]
    value_size: u64,
    /// Keys, all of which are written before anything is measured
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    keys: u32,
    /// How long each turn is counted
    #[arg(long, value_name = "SECONDS", default_value = "4", value_parser = quantity::seconds)]
    seconds: f64,
    /// How often each takes its turn
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    /// Kill the leader of a group so often, and measure the time to the next answer
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    failover: Option<u32>,
    /// Open so many connections that say nothing, and measure the memory of their node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    idle: Option<u32>,
    /// Measure clients beside ones that read nothing, write large values, never end, or send a million commands
    #[arg(long)]
    beside: bool,
    /// Connections of each of those
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    neighbours: u32,
    /// Move a quarter of all slots to another group, at half of full load and at rest
    #[arg(long = "move")]
    moves: bool,
    /// Bytes of keys and values that move at rest, and bytes of such a value
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = moved_bytes)]
    move_bytes: u64,
    #[arg(long, value_name = "BYTES", default_value = "4KiB", value_parser = value_bytes)]
    move_value_size: u64,
    /// The loads under which slots move
    #[arg(
        long,
        value_name = "OP,…",
        value_delimiter = ',',
        default_value = "set,get"
    )]
    move_under: Vec<Op>,
    /// Leave this out
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    skip: Vec<Part>,
    /// Where rivals are, beside PATH: DIR/bin/etcd, etcd-benchmark, redis-server
    #[arg(long, value_name = "DIR")]
    rivals: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The loads at three groups, and rivals
    Cells,
    /// The loads at one group
    Roles,
    Rivals,
}

fn value_bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        bytes if (HEAD_BYTES as u64..=1 << 20).contains(&bytes) => Ok(bytes),
        _ => Err(format!("values have {HEAD_BYTES} bytes to 1 MiB here")),
    }
}

fn moved_bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        bytes if (1 << 20..=4 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("1 MiB to 4 GiB can move here".to_owned()),
    }
}

/// Before anything is counted.
const WARM_UP: Duration = Duration::from_millis(500);
/// More commands than that a second are not to be expected of anybody: of one that waits, and of all.
const PER_CLIENT_MAX: f64 = 8_000.0;
const PER_S_MAX: f64 = 400_000.0;
/// Beside a value, in a log and on its way to the rows.
const AROUND_VALUE: f64 = 150.0;
/// Bytes that a disk takes in a second, and more.
const DISK_PER_S: f64 = 500e6;
/// The bytes of a turn with a killed leader, and of what is always there.
const OTHER_BYTES: f64 = 1e9;

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        if let Some(connections) = self.idle {
            // Nodes have our limits.
            idle::allow(connections)?;
        }
        let scratch = self.place.make(self.bytes_needed())?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let report = self.measure(&scratch, machine)?;
        match json {
            true => show::print_json(&report)?,
            false => report.print()?,
        }
        match report.wrong() {
            0 => Ok(()),
            wrong => bail!("{wrong} values are wrong or lost"),
        }
    }

    fn does(&self, part: Part) -> bool {
        !self.skip.contains(&part)
    }

    fn loads(&self) -> Vec<Load> {
        let mut counts = vec![(1, 1), (self.clients, 1), (self.clients, self.pipeline)];
        counts.dedup();
        let of = |op| {
            counts.iter().map(move |(clients, pipeline)| Load {
                op,
                clients: *clients,
                pipeline: *pipeline,
            })
        };
        of(Op::Set).chain(of(Op::Get)).collect()
    }

    fn length(&self) -> Length {
        Length {
            warm_up: WARM_UP,
            counted: Duration::from_secs_f64(self.seconds),
        }
    }

    fn bytes_needed(&self) -> u64 {
        let value = self.value_size as f64 + AROUND_VALUE;
        let sets = self.loads().into_iter().filter(|load| load.op == Op::Set);
        let per_s = sets.map(|load| {
            let under_way = f64::from(load.clients) * f64::from(load.pipeline);
            let per_s = (under_way * PER_CLIENT_MAX).min(PER_S_MAX);
            (per_s * value).min(DISK_PER_S)
        });
        let turns = f64::from(self.times) * (self.seconds + WARM_UP.as_secs_f64());
        let one = f64::from(self.keys) * value + per_s.sum::<f64>() * turns + OTHER_BYTES;
        // Etcd's three members write less than one of the others.
        let copies = match self.does(Part::Rivals) {
            true => NODES + 2,
            false => NODES,
        };
        let at_rest = match self.moves {
            // Four times what moves is written, and moves are written again: to logs, and to rows that are merged.
            true => self.move_bytes as f64 * (4.0 + f64::from(self.times)) * 3.0,
            false => 0.0,
        };
        ((one + at_rest) * f64::from(copies)) as u64
    }

    fn measure(&self, scratch: &Scratch, machine: Machine) -> Result<Report> {
        let mut report = Report {
            bench: "kv",
            keys: self.keys,
            key_bytes: KEY_BYTES,
            value_bytes: self.value_size as usize,
            seconds: rounded(self.seconds),
            times: self.times,
            cells: Vec::new(),
            roles: None,
            failover: None,
            idle: None,
            beside: Vec::new(),
            moves: None,
            goals: Vec::new(),
            skipped: Vec::new(),
            machine,
        };
        let asked = self.failover.is_some() || self.idle.is_some() || self.beside;
        if self.does(Part::Cells) || asked {
            self.three_groups(scratch, &mut report)?;
        }
        if self.does(Part::Roles) {
            self.one_group(scratch, &mut report)?;
        }
        if self.moves {
            report.moves = Some(self.moved(scratch)?);
        }
        report.goals = report.goals();
        Ok(report)
    }

    fn three_groups(&self, scratch: &Scratch, report: &mut Report) -> Result<()> {
        let watch = Watch::new(0);
        watch.says("starting three nodes");
        let directory = scratch.path().join("three-groups");
        let nodes = Nodes::start(&directory, NODES as u16)?;
        // Before anything else: memory that a node had and gave back would hide what connections take.
        if let Some(connections) = self.idle {
            report.idle = Some(idle::measure(&nodes, connections, &watch)?);
        }
        if self.does(Part::Cells) {
            let mut contenders = self.contenders(&nodes, scratch, report, &watch)?;
            let loads = self.loads();
            let taking_part = loads.iter().map(|load| contenders.taking_part(*load).len());
            let turns: usize = taking_part.sum();
            watch.add_steps(turns as u64 * u64::from(self.times));
            for load in loads {
                let turns = contenders.measure(load, self.times, self.length(), &watch)?;
                report.cells.push(Cell::new(turns));
                scratch.check_space()?;
            }
        }
        if let Some(times) = self.failover {
            watch.add_steps(u64::from(times));
            report.failover = Some(failover::measure(&nodes, self.keys, times, &watch)?);
        }
        if self.beside {
            let turns = 2 * Neighbour::value_variants().len() as u64;
            watch.add_steps(turns * u64::from(self.times));
            let mut generator = self.filled(&nodes, &watch)?;
            let plan = beside::Plan {
                keys: self.keys,
                length: Duration::from_secs_f64(self.seconds),
                times: self.times,
                connections: self.neighbours,
            };
            report.beside = beside::measure(&nodes, &mut generator, &plan, &watch)?;
        }
        drop(nodes);
        scratch.retire(&directory)
    }

    /// All that are there, with all keys written.
    fn contenders<'a>(
        &self,
        nodes: &'a Nodes,
        scratch: &Scratch,
        report: &mut Report,
        watch: &Watch,
    ) -> Result<Contenders<'a>> {
        let value_bytes = self.value_size as usize;
        let generator = self.filled(nodes, watch)?;
        let (mut etcd, mut redis) = (None, None);
        if self.does(Part::Rivals) {
            let directory = self.rivals.as_deref();
            watch.says("starting rivals, and writing their keys");
            let installed = etcd::installed(directory).context(etcd::HOW_TO_GET);
            let home = scratch.path().join("etcd");
            let started = installed.and_then(|etcd| etcd.start(&home, self.keys, value_bytes));
            etcd = report.started(started)?;
            let installed = redis::installed(directory).context(redis::HOW_TO_GET);
            let home = scratch.path().join("redis");
            let started = installed.and_then(|redis| redis.start(&home, self.keys, value_bytes));
            redis = report.started(started)?;
        }
        Ok(Contenders {
            nodes,
            generator,
            etcd,
            redis,
            value_bytes,
        })
    }

    fn filled(&self, nodes: &Nodes, watch: &Watch) -> Result<Generator> {
        let map = Map::of_cluster(&nodes.doors, self.keys)?;
        let mut generator = Generator::new(map, self.value_size as usize)?;
        generator.fill(|percent| watch.says(format!("writing keys: {percent} %")))?;
        Ok(generator)
    }

    fn moved(&self, scratch: &Scratch) -> Result<Moves> {
        let loads = self.move_under.len() as u64;
        let watch = Watch::new(u64::from(self.times) * (loads + 1));
        watch.says("starting three nodes");
        let directory = scratch.path().join("slots-move");
        let nodes = Nodes::start(&directory, NODES as u16)?;
        let value_bytes = self.value_size as usize;
        let mut generator = moved::generator(&nodes, self.keys, value_bytes, &watch)?;
        let mut under_load = Vec::new();
        for &op in &self.move_under {
            let how = moved::How {
                op,
                clients: self.clients,
                times: self.times,
                length: self.length(),
            };
            under_load.push(moved::under_load(&nodes, &mut generator, how, &watch)?);
        }
        drop((generator, nodes));
        scratch.retire(&directory)?;
        let directory = scratch.path().join("slots-move-at-rest");
        let nodes = Nodes::start(&directory, NODES as u16)?;
        let value_bytes = self.move_value_size as usize;
        let keys = moved::keys_at_rest(self.move_bytes, value_bytes);
        drop(moved::generator(&nodes, keys, value_bytes, &watch)?);
        let at_rest = moved::at_rest(&nodes, keys, value_bytes, self.times, &watch)?;
        drop(nodes);
        scratch.retire(&directory)?;
        Ok(Moves {
            under_load,
            at_rest,
        })
    }

    fn one_group(&self, scratch: &Scratch, report: &mut Report) -> Result<()> {
        let loads = self.loads();
        let watch = Watch::new(loads.len() as u64 * u64::from(self.times));
        watch.says("starting three nodes with one group");
        let directory = scratch.path().join("one-group");
        let nodes = Nodes::start(&directory, 1)?;
        let mut generator = self.filled(&nodes, &watch)?;
        let (times, length) = (self.times, self.length());
        let roles = roles::measure(&nodes, &mut generator, &loads, times, length, &watch)?;
        report.roles = Some(roles);
        drop(nodes);
        scratch.retire(&directory)
    }
}
