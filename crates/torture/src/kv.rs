//! `logberg-lab torture --kv`: clients of Redis Cluster, and whether an order explains every answer.
//!
//! ```text
//!   schedule ─► strikes ─► rack: nodes, proxies ◄─ mover: other leaders
//!                            ▲
//!   load: callers ─ objects ─┘──► book: who asked for what, and when he was told
//!                                   │
//!   heal ─► whole? ─► last reads, from every node ─► judge: each object ─► report
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `link`, `caller` | a connection; a client, which follows redirects and does nothing twice |
//! | `objects`, `token` | what clients share: calls as commands, replies as answers |
//! | `load`, `mover` | the clients' threads; an operator who moves leaders |
//! | `sessions` | clients that send everything again, in sessions; their sums are exact |
//! | `probe` | how long groups are not available |
//! | `book` | the histories, while they grow |
//! | `last` | everything is read once more, of each node's own rows |
//! | `judge`, `growing` | the verdict on each object |
//! | `groups`, `report` | the groups of the cluster; what came of it all |

mod book;
mod caller;
mod groups;
mod growing;
mod judge;
mod last;
pub mod link;
mod load;
mod mover;
mod objects;
mod probe;
mod report;
mod sessions;
mod token;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::conduct::Conductor;
use super::leaders::Leaders;
use super::rack::Rack;
use super::sabotage::{Sabotage, Snapshot};
use super::schedule::{Chance, Schedule};
use super::{Arguments, Troubles, tell_where, verdict};
use book::Book;
use caller::Caller;
use load::{Load, Plan};
use mover::Mover;
use probe::Probes;
use report::Report;
use sessions::Sessions;
use terminal::show;
use testbed::cluster::LocalOptions;
use testbed::environment::Machine;
use testbed::port;
use testbed::scratch::go_on;
use testbed::watch::Watch;

/// What such clients write in a minute, on each node, and more.
const DISK_PER_MINUTE: f64 = 40e6;
const LOAD_END_MAX: Duration = Duration::from_secs(60);

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

/// The slot of keys with this tag.
fn slot_of(tag: &str) -> u16 {
    ::kv::slot_of(format!("{{{tag}}}").as_bytes())
}

fn torture(arguments: &Arguments, directory: &Path, machine: Machine) -> Result<Report> {
    let length = Duration::from_secs_f64(arguments.minutes * 60.0);
    let watch = Watch::new(length.as_secs());
    watch.says("starting");
    let mut of_nodes = arguments.moving.arguments();
    if let Some(rule) = &arguments.mutate {
        of_nodes.extend(["--mutate".to_owned(), rule.clone()]);
    }
    let rack = Rack::start_with(LocalOptions {
        arguments: of_nodes,
        kv_ports: port::free(arguments.nodes)?,
        ..LocalOptions::new(directory.join("cluster"), arguments.nodes)
    })?;
    let count = arguments.groups.unwrap_or(arguments.nodes as u16);
    let names = groups::make(&rack.direct_client(), count)?;
    rack.wait_recovered(&rack.ids().collect::<Vec<_>>())?;

    let book = Arc::new(Book::new());
    let mut caller = Caller::new(rack.doors(), Chance::new(arguments.seed, 6), book.began);
    let plan = Plan {
        seed: arguments.seed,
        clients: arguments.clients,
        doors: rack.doors(),
        tags: groups::tags(&mut caller, &names)?,
        reads_are_stale: arguments.sabotage == Some(Sabotage::StaleReads),
    };
    let leaders = Leaders::watch(rack.cluster.addresses());
    let mover = Mover::start(
        arguments.seed,
        rack.addresses(),
        names.clone(),
        plan.tags.iter().map(|(tag, _)| slot_of(tag)).collect(),
        arguments.nodes,
    )?;
    let probes = Probes::start(&plan)?;
    let load = Load::start(&plan, &book)?;
    let sessions = Sessions::start(&plan)?;
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
    let stalls = probes.end();
    let mut sums = sessions.end(LOAD_END_MAX)?;
    watch.says("waiting until all slots are where they began");
    troubles.take(mover::send_home(&rack.direct_client(), &names))?;
    let (load, conducted) = conductor.end();
    troubles.take(load.finish(LOAD_END_MAX))?;
    watch.says("waiting until all nodes are whole");
    troubles.take(verdict::wait_whole(&rack, &names))?;
    let whole_after = healed.elapsed();
    let failovers = leaders.end();
    if let Some(snapshot) = snapshot {
        snapshot.put_back(&rack)?;
        troubles.take(verdict::wait_whole(&rack, &names))?;
    }
    watch.says("reading everything from every node");
    troubles.take(last::read_all(&rack, &book, &mut sums, &plan, &names))?;
    watch.says("checking the histories");
    let judged = judge::judge(&book);
    // Nothing writes below the directory from here on.
    rack.cluster.end();
    fs::write(directory.join("strikes.txt"), conducted.strikes_text())?;
    judged.write(directory)?;
    drop(watch);
    Ok(report::of(
        arguments,
        report::Parts {
            book: &book,
            conducted: &conducted,
            judged,
            troubles: troubles.0,
            failovers,
            moves,
            groups: names.len(),
            stalls,
            sums,
            whole_after,
            machine,
        },
    ))
}
