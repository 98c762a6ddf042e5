//! `logberg-lab torture --http`: clients of named streams, and whether an order explains every answer.
//!
//! ```text
//!   schedule ─► strikes ─► rack: nodes, proxies ◄─ mover: other leaders
//!                            ▲
//!   writers, readers ── door ┘──► book: each stream's history
//!                                   │
//!   heal ─► whole? ─► last reads, from every node ─► judge: each stream ─► report
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `door` | requests at one node after the other, and what came of them |
//! | `content` | records that say whose they are |
//! | `book` | what clients asked and saw of each stream |
//! | `load` | the clients' threads: writers with and without a producer's numbers, readers |
//! | `mover` | an operator who moves the leader |
//! | `report` | what came of it all |

mod book;
mod content;
mod door;
mod load;
mod mover;
mod report;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::conduct::Conductor;
use super::leaders::Leaders;
use super::rack::Rack;
use super::sabotage::{Sabotage, Snapshot};
use super::schedule::{Chance, Schedule};
use super::{Arguments, Troubles, tell_where, verdict};
use book::Book;
use door::Doors;
use load::{Load, Plan};
use mover::Mover;
use report::Report;
use terminal::show;
use testbed::cluster::LocalOptions;
use testbed::environment::Machine;
use testbed::port;
use testbed::scratch::go_on;
use testbed::watch::Watch;

/// What such clients write in a minute, on each node, and more.
const DISK_PER_MINUTE: f64 = 40e6;
const LOAD_END_MAX: Duration = Duration::from_secs(60);
const MADE_MAX: Duration = Duration::from_secs(60);
const SPACE: &str = "default";
const STREAMS: u32 = 6;

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<()> {
    let bytes = arguments.minutes * DISK_PER_MINUTE * f64::from(arguments.nodes);
    let mut scratch = arguments.place.make(bytes as u64 + (512 << 20))?;
    let machine = Machine::look(scratch.path())?;
    match torture(arguments, scratch.path(), machine) {
        Ok(mut report) => {
            let verdict = report.verdict();
            if verdict.is_err() {
                scratch.keep()?;
                tell_where(scratch.path(), arguments.seed);
                report.kept = Some(scratch.path().to_owned());
            }
            match json {
                true => show::print_json(&report)?,
                false => report.print()?,
            }
            verdict
        }
        Err(error) => {
            if go_on().is_ok() {
                scratch.keep()?;
                tell_where(scratch.path(), arguments.seed);
            }
            Err(error)
        }
    }
}

fn torture(arguments: &Arguments, directory: &Path, machine: Machine) -> Result<Report> {
    let length = Duration::from_secs_f64(arguments.minutes * 60.0);
    let watch = Watch::new(length.as_secs());
    watch.says("starting");
    let mut of_nodes = arguments.moving.arguments();
    of_nodes.extend(["--http-long-poll".to_owned(), "1".to_owned()]);
    let ports = port::free(arguments.nodes)?;
    let rack = Rack::start_with(LocalOptions {
        arguments: of_nodes,
        http_ports: ports.clone(),
        ..LocalOptions::new(directory.join("cluster"), arguments.nodes)
    })?;
    let book = Arc::new(Book::new(STREAMS));
    make_all(&book, &rack)?;
    rack.wait_recovered(&rack.ids().collect::<Vec<_>>())?;

    let plan = Plan {
        seed: arguments.seed,
        clients: arguments.clients,
        doors: rack.doors(),
        reads_are_stale: arguments.sabotage == Some(Sabotage::StaleReads),
    };
    let leaders = Leaders::watch(rack.cluster.addresses());
    let mover = Mover::start(arguments.seed, rack.addresses(), arguments.nodes)?;
    let load = Load::start(&plan, &book)?;
    let mut conductor = Conductor::new(&rack, &watch, load, book.began, length, arguments.disk);
    let mut troubles = Troubles::default();
    let mut schedule = Schedule::new(arguments.seed, &arguments.faults(), arguments.nodes);
    let mut snapshot = None;
    if arguments.sabotage == Some(Sabotage::Rewind) {
        troubles.take(conductor.conduct(&mut schedule, length / 2))?;
        snapshot = Some(Snapshot::take(&rack, directory)?);
    }
    troubles.take(conductor.conduct(&mut schedule, length))?;
    troubles.take(conductor.heal_all())?;

    let healed = Instant::now();
    watch.says("ending the load");
    let moves = mover.end();
    let (load, conducted) = conductor.end();
    troubles.take(load.finish(LOAD_END_MAX))?;
    watch.says("waiting until all nodes are whole");
    let logs = [SPACE.to_owned()];
    troubles.take(verdict::wait_whole(&rack, &logs))?;
    let whole_after = healed.elapsed();
    let failovers = leaders.end();
    if let Some(snapshot) = snapshot {
        snapshot.put_back(&rack)?;
        troubles.take(verdict::wait_whole(&rack, &logs))?;
    }
    watch.says("reading every stream from every node");
    for port in &ports {
        let doors = Doors::new(vec![format!("127.0.0.1:{port}")]);
        troubles.take(load::read_all(&doors, &book))?;
    }
    watch.says("checking the histories");
    let judged = book.judge()?;
    // Nothing writes below the directory from here on.
    rack.cluster.end();
    fs::write(directory.join("strikes.txt"), conducted.strikes_text())?;
    book.write(directory)?;
    drop(watch);
    Ok(report::of(
        arguments,
        report::Parts {
            counts: book.counts(),
            conducted: &conducted,
            judged,
            troubles: troubles.0,
            failovers,
            moves,
            whole_after,
            machine,
        },
    ))
}

/// The first stream makes the space.
fn make_all(book: &Book, rack: &Rack) -> Result<()> {
    let doors = Doors::new(rack.doors());
    let mut chance = Chance::new(0, 7);
    let deadline = Instant::now() + MADE_MAX;
    for stream in book.streams() {
        while let Err(why) = doors.make(&mut chance, &stream.name) {
            go_on()?;
            if Instant::now() > deadline {
                bail!("the stream {} cannot be made: {why}", stream.name);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}
