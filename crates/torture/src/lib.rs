//! `logberg-lab torture`: real nodes, everything that can happen to them, and a judge at the end.
//!
//! ```text
//!   schedule ─► strikes ─► rack: nodes, proxies, disks that fail        (conduct)
//!                            ▲
//!   load: writers, readers ──┘──► ledger: history and bytes, per log
//!                                    │
//!   heal ─► whole? ─► every node's bytes ─► linearizable? ─► report     (verdict)
//! ```
//!
//! Every load is bounded, every wait has an end, nothing outlives the command, and the directory
//! stays only if something was wrong in it.

mod answered;
mod conduct;
mod content;
mod corrupt;
mod http;
mod kv;
mod leaders;
mod ledger;
mod load;
mod output;
mod rack;
mod report;
mod rests;
mod sabotage;
mod schedule;
mod secured;
mod verdict;
mod worlds;

pub use kv::link;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use conduct::Conductor;
use leaders::Leaders;
use ledger::Ledger;
use load::{Appending, Load, LoadPlan};
use rack::Rack;
use report::{NotDone, Report, VIOLATIONS_MAX};
use sabotage::Sabotage;
use schedule::{Kind, Schedule};
use secured::{Prepared, Secured, SecuredReport};
use terminal::moving::Moving;
use terminal::show;
use testbed::cluster::LocalOptions;
use testbed::environment::Machine;
use testbed::scratch::{Place, go_on};
use testbed::watch::Watch;
use verdict::{Judged, NodeBytes};
use wire::quantity;

pub const HELP: &str = "\
Starts nodes as processes of this machine and does to them what --faults names, again and again, while
clients append to several logs, take over from each other, read and follow. Then heals everything, waits
until the cluster is whole, reads every node's bytes, and checks that each acknowledged byte is on every
node and that every read can be explained (linearizability; crates/history). Ends with 0 only if so; if
not, the directory stays, and it says where and how to look.

Which fault comes when, on whom and for how long is drawn from the seed; what the operating system makes
of it is not. Never more than a minority of the nodes is struck at once, except where all are and heal by
themselves (restart-all, and some stops).

How the faults are done: kill, stop and restart-all by signals; partition and one-way by TCP proxies
between all nodes and clients; slow-disk, full-disk and io-error are injected into the node's own writes
(it reads the file that its --faults names); corrupt flips bytes in segment
files. None of it needs root. The report says it again, and what could not be done.

Example: one minute of everything; an hour, of five nodes
  logberg-lab torture --minutes 1
  logberg-lab torture --minutes 60 --nodes 5 --seed 7 --json
  logberg-lab torture --faults kill,partition --seed 3

With --rests it does something else: rounds of what operators do, each followed by a rest, kill -9 of all
nodes at once and a start of all. A log is kept short, then for ever; a name is deleted, or deleted and made
anew; a weight is changed; a log is made; and bytes are appended. What was acknowledged must be there, and the
directory must say what was answered last.

Example: what a power cut of all machines may not take back
  logberg-lab torture --rests 20

With --kv the nodes serve keys, and clients that speak to them as clients of Redis Cluster do use strings, counters,
hashes and lists, with pipelines and transactions, while leaders move and the same faults come. They follow redirects
and do nothing twice. At the end everything is read from every node, and of every object it is said whether some order
explains all that its clients were answered; if none does, which answers contradict each other.

Example: one minute of it, which CI runs; half an hour
  logberg-lab torture --kv --minutes 1
  logberg-lab torture --kv --minutes 30 --seed 5 --json

With --http the nodes serve named streams, and clients append to them over HTTP, as producers and without numbers, and
read them, while the leader moves and the same faults come. At the end each stream is read whole at every node, and of
each it is said whether an order explains all that its clients were answered: no append is lost or there twice, none is
there that a node said was not done, and no read misses what was answered before it.

Example: one minute of it, which CI runs; half an hour
  logberg-lab torture --http --minutes 1
  logberg-lab torture --http --minutes 30 --seed 5 --clients 24 --json

With --tls the nodes take connections by TLS alone and ask for tokens. Their certificates, and that of half of the clients, are renewed each
minute, and hold four; the token of the other half is rotated each minute, and the secret before is good for 15 s.
The same faults come, the same is judged, and at the end all lines of the nodes' logs are searched for every secret
that was made.

Example: ten minutes of it
  logberg-lab torture --tls --minutes 10 --json

With --namespaces, as root, it does a third thing: worlds at random, each a cluster of 3 to 5 nodes in network
namespaces of their own, which nobody outside sees and which end with the command. Cables are pulled, pairs of nodes
and single directions are cut, a disk of 1 GiB is filled, nodes are killed and stopped, lose their disks and are
replaced, while clients append and operators give commands. While something is wrong, and again when all is healed,
what status and members say is compared with what is so; a log whose quorum is well must take bytes all the time.

Example: ten hours of it; one minute, wherever that is allowed
  logberg-lab torture --namespaces --minutes 600 --seed 9
  logberg-lab torture --namespaces --minutes 1 --where-allowed";

#[derive(Debug, Args)]
pub struct Arguments {
    #[arg(long, value_name = "M", default_value = "1", value_parser = minutes)]
    minutes: f64,
    /// What to do to the nodes [default: everything that can be done there]
    #[arg(long, value_name = "KIND,…", value_enum, value_delimiter = ',')]
    faults: Vec<Kind>,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=9))]
    nodes: u32,
    /// The same seed draws the same faults and the same bytes
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// How many logs are written
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16))]
    logs: u32,
    /// Bytes per second appended to all logs together
    #[arg(long, value_name = "RATE", default_value = "2M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    /// Keep all nodes' data below this: over long times the rate is lowered to it
    #[arg(long, value_name = "BYTES", default_value = "40GiB", value_parser = quantity::at_least_one)]
    disk: u64,
    #[command(flatten)]
    moving: Moving,
    #[command(flatten)]
    place: Place,
    /// In place of faults at random: so many rounds of operators' commands, a rest, kill -9 of all, a start
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000),
          conflicts_with_all = ["minutes", "faults", "logs", "rate", "sabotage"])]
    rests: Option<u32>,
    /// How long each of these rounds rests before the kill
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = rest, requires = "rests")]
    rest: Duration,
    /// Which command is the last before each kill, in turn [default: retention, and in every other round
    /// one of the others]
    #[arg(
        long,
        value_name = "COMMAND,…",
        value_enum,
        value_delimiter = ',',
        requires = "rests"
    )]
    last: Vec<rests::Last>,
    /// What each of these rounds appends
    #[arg(long, value_name = "BYTES", default_value = "20MB", value_parser = quantity::at_least_one, requires = "rests")]
    append: u64,
    /// The program that these nodes run, such as an earlier release [default: this one]
    #[arg(long, value_name = "PATH", requires = "rests")]
    program: Option<PathBuf>,
    /// Worlds at random, one after the other, in network namespaces: cables pulled, directions cut, disks filled,
    /// nodes replaced, operators' commands; and what `status` and `members` say, against what is so
    #[arg(long, conflicts_with_all = ["faults", "nodes", "logs", "disk", "sabotage", "rests"])]
    namespaces: bool,
    /// Where namespaces are not allowed: say so, and end with 0
    #[arg(long, requires = "namespaces")]
    where_allowed: bool,
    /// The nodes serve keys, and clients of Redis Cluster use them: every answer is judged
    #[arg(long, group = "doors", conflicts_with_all = ["logs", "rate", "rests", "namespaces"])]
    kv: bool,
    /// The nodes serve named streams over HTTP, and clients use them: every answer is judged
    #[arg(long, group = "doors", conflicts_with_all = ["logs", "rate", "rests", "namespaces"])]
    http: bool,
    /// Connections by TLS alone, with certificates that are renewed each minute, and tokens asked for, which are rotated each minute; and
    /// no secret in any log line
    #[arg(long, conflicts_with_all = ["kv", "http", "rests", "namespaces", "sabotage"])]
    tls: bool,
    /// Groups that serve keys [default: one for each node]
    #[arg(long, value_name = "N", requires = "kv", value_parser = clap::value_parser!(u16).range(1..=64))]
    groups: Option<u16>,
    /// Clients of keys, or of streams
    #[arg(long, value_name = "N", default_value_t = 8, requires = "doors", value_parser = clap::value_parser!(u32).range(1..=100))]
    clients: u32,
    /// Have the nodes break this rule, to see that it is seen: of a program that was built with the feature `mutations`
    #[arg(long, value_name = "RULE", requires = "kv", hide = true)]
    mutate: Option<String>,
    /// Break something, to see that it is seen
    #[arg(long, value_name = "WHAT", value_enum, hide = true)]
    sabotage: Option<Sabotage>,
}

fn minutes(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number of minutes".to_owned())?;
    match (0.05..=10_080.0).contains(&number) {
        true => Ok(number),
        false => Err("from 0.05 to 10080 minutes, which is a week".to_owned()),
    }
}

fn rest(text: &str) -> Result<Duration, String> {
    let wrong = || "a number of seconds from 0 to 3600, such as 2.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    match (0.0..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(wrong()),
    }
}

/// The bytes written for a byte that is appended: its padding, and what is sent and fetched again.
const DISK_PER_BYTE: f64 = 1.5;
const LOAD_END_MAX: Duration = Duration::from_secs(90);

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        if self.namespaces {
            return worlds::run(&self, json);
        }
        if self.kv {
            return kv::run(&self, json);
        }
        if self.http {
            return http::run(&self, json);
        }
        if let Some(rounds) = self.rests {
            return rests::run(&self, rounds, json);
        }
        let length = Duration::from_secs_f64(self.minutes * 60.0);
        let bytes = self.rate() as f64 * length.as_secs_f64() * f64::from(self.nodes);
        let mut scratch = self
            .place
            .make((bytes * DISK_PER_BYTE) as u64 + (256 << 20))?;
        let machine = Machine::look(scratch.path())?;
        match self.torture(scratch.path(), length, machine) {
            Ok(mut report) => {
                let verdict = report.verdict();
                if verdict.is_err() {
                    scratch.keep()?;
                    tell_where(scratch.path(), self.seed);
                    report.kept = Some(scratch.path().to_owned());
                }
                match json {
                    true => show::print_json(&report)?,
                    false => report.print()?,
                }
                verdict
            }
            Err(error) => {
                // Somebody who ended it does not want to look at it.
                if go_on().is_ok() {
                    scratch.keep()?;
                    tell_where(scratch.path(), self.seed);
                }
                Err(error)
            }
        }
    }

    /// What is to be done to the nodes, each kind once.
    fn faults(&self) -> Vec<Kind> {
        let mut kinds = match (self.faults.is_empty(), self.kv || self.http) {
            (true, true) => Kind::all_of_keys(),
            (true, false) => Kind::all(),
            (false, _) => self.faults.clone(),
        };
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// The bytes per second of all logs together.
    fn rate(&self) -> u64 {
        let seconds = self.minutes * 60.0 * f64::from(self.nodes);
        let most = self.disk as f64 / DISK_PER_BYTE / seconds;
        self.rate.min(most as u64).max(1)
    }

    fn torture(&self, directory: &Path, length: Duration, machine: Machine) -> Result<Report> {
        let watch = Watch::new(length.as_secs());
        watch.says("starting");
        let (rack, mut secured) = match self.tls {
            false => {
                let rack = Rack::start(&directory.join("cluster"), self.nodes, &self.moving)?;
                (rack, None)
            }
            true => {
                let (rack, secured) = self.secured(directory, length)?;
                (rack, Some(secured))
            }
        };
        let began = Instant::now();
        let mut ledgers = Vec::new();
        for index in 0..self.logs as usize {
            let name = match index {
                0 => "main".to_owned(),
                _ => format!("torture-{index}"),
            };
            if index > 0 {
                rack.direct_client().create_log(&name)?;
            }
            ledgers.push(Arc::new(Ledger::new(&name, index, self.seed, began)));
        }
        rack.cluster.wait_ready(Duration::from_secs(30))?;
        let plan = LoadPlan {
            seed: self.seed,
            rate: (self.rate() / u64::from(self.logs)).max(1),
            servers: rack.addresses(),
            reads_are_stale: self.sabotage == Some(Sabotage::StaleReads),
            keys: secured.as_ref().map(|secured| secured.keys.clone()),
        };
        let leaders = Leaders::watch(rack.cluster.asked_at());
        let appending = Appending {
            load: Load::start(&plan, &ledgers)?,
            ledgers: ledgers.clone(),
        };
        let mut conductor = Conductor::new(&rack, &watch, appending, began, length, self.disk);
        let mut troubles = Troubles::default();
        let logs: Vec<String> = ledgers.iter().map(|ledger| ledger.log.clone()).collect();
        let mut schedule = Schedule::new(self.seed, &self.faults(), self.nodes);
        let mut snapshot = None;
        if self.sabotage == Some(Sabotage::Rewind) {
            troubles.take(conductor.conduct(&mut schedule, length / 2))?;
            snapshot = Some(sabotage::Snapshot::take(&rack, directory)?);
        }
        troubles.take(conductor.conduct(&mut schedule, length))?;
        troubles.take(conductor.heal_all())?;

        let healed = Instant::now();
        watch.says("ending the load");
        let (appending, conducted) = conductor.end();
        troubles.take(appending.load.finish(LOAD_END_MAX))?;
        watch.says("waiting until all nodes are whole");
        troubles.take(verdict::wait_whole(&rack, &logs))?;
        let whole_after = healed.elapsed();
        if let Some(secured) = &mut secured {
            troubles.take(secured.end())?;
            for address in rack.cluster.addresses() {
                troubles.take(secured.check_closed(&address))?;
            }
        }
        let failovers = leaders.end();
        if let Some(snapshot) = snapshot {
            snapshot.put_back(&rack)?;
            troubles.take(verdict::wait_whole(&rack, &logs))?;
        }

        let client = rack.direct_client();
        for ledger in &ledgers {
            troubles.take(verdict::last_read(&client, ledger))?;
            troubles.take(verdict::check_ends(&client, ledger))?;
        }
        let says = |what| watch.says(what);
        let holders = |_: &str| rack.ids().collect();
        let found = verdict::read_nodes(&rack.cluster, &client, &holders, &ledgers, &says);
        let found = troubles.take(found)?;
        watch.says("checking the histories");
        let judged = troubles.take(verdict::judge(&ledgers))?;
        // Nothing writes below the directory from here on.
        rack.cluster.end();
        let searched = secured.map(|secured| secured.search(&rack.cluster));
        let searched = match searched {
            None => None,
            Some(searched) => troubles.take(searched)?,
        };
        let tls = searched.map(|(tls, wrong)| {
            troubles.0.extend(wrong);
            tls
        });
        fs::write(directory.join("strikes.txt"), conducted.strikes_text())?;
        write_histories(directory, &ledgers)?;
        drop(watch);
        Ok(self.report(
            &ledgers,
            &conducted,
            found.unwrap_or_default(),
            judged.unwrap_or_default(),
            troubles,
            failovers,
            whole_after,
            (machine, tls),
        ))
    }

    /// Nodes that take connections by TLS alone and ask for tokens, and what changes both.
    fn secured(&self, directory: &Path, length: Duration) -> Result<(Rack, Secured)> {
        let prepared = Prepared::make(&directory.join("certs"), self.nodes, length)?;
        let options = LocalOptions {
            arguments: self.moving.arguments(),
            own_arguments: prepared.arguments(),
            is_asked_at_sockets: true,
            ..LocalOptions::new(directory.join("cluster"), self.nodes)
        };
        let rack = Rack::start_with(options)?;
        let secured = prepared.begin(rack.cluster.asked_at())?;
        Ok((rack, secured))
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one report")]
    fn report(
        &self,
        ledgers: &[Arc<Ledger>],
        conducted: &conduct::Conducted,
        found: Vec<NodeBytes>,
        judged: Judged,
        troubles: Troubles,
        failovers: u64,
        whole_after: Duration,
        (machine, tls): (Machine, Option<SecuredReport>),
    ) -> Report {
        let mut violations = troubles.0;
        violations.extend(conducted.violations.iter().cloned());
        violations.extend(judged.violations);
        let violations_count = violations.len();
        violations.truncate(VIOLATIONS_MAX);
        let (mut appends, mut reads, mut stale_reads) = (0, 0, 0);
        for ledger in ledgers {
            let (a, r, s) = ledger.counts();
            (appends, reads, stale_reads) = (appends + a, reads + r, stale_reads + s);
        }
        let stall = ledgers.iter().filter_map(|l| l.longest_stall()).max();
        let (stall, stalled_at) = stall.unwrap_or((Duration::ZERO, Instant::now()));
        let lost_of = |node: u32| {
            let of_node = found.iter().filter(|found| found.node == node);
            of_node.map(|found| found.lost_bytes).sum::<u64>()
        };
        let lost_bytes = match found.is_empty() {
            true => ledgers.iter().map(|l| l.acked_not_below(0)).sum(),
            false => (1..=self.nodes).map(lost_of).max().unwrap_or(0),
        };
        let mut faults: BTreeMap<String, u64> = BTreeMap::new();
        let mut not_done = Vec::new();
        let kinds = self.faults();
        for kind in &kinds {
            match conducted.counts.get(kind) {
                Some(count) => drop(faults.insert(kind.name(), *count)),
                None => not_done.push(NotDone {
                    fault: *kind,
                    why: conducted.why_not(*kind),
                }),
            }
        }
        Report {
            minutes: self.minutes,
            seed: self.seed,
            nodes: self.nodes,
            logs: ledgers.len(),
            acked_bytes: ledgers.iter().map(|ledger| ledger.acked_bytes()).sum(),
            lost_bytes,
            unjustified_reads: judged.unjustified_reads,
            identical: !found.is_empty() && verdict::are_identical(&found),
            faults,
            not_done,
            how: kinds
                .iter()
                .map(|kind| (kind.name(), kind.mechanism().to_owned()))
                .collect(),
            longest_stall_ms: stall.as_millis() as u64,
            longest_stall_during: conducted.during(stalled_at, stalled_at + stall),
            appends,
            reads,
            stale_reads,
            streams: ledgers.iter().map(|ledger| ledger.openings()).sum(),
            failovers,
            operations: judged.operations,
            whole_after_ms: whole_after.as_millis() as u64,
            violations,
            violations_count,
            found,
            kept: None,
            tls,
            machine,
        }
    }
}

/// Troubles on the way, in sentences. The judging goes on as far as it can.
#[derive(Default)]
struct Troubles(Vec<String>);

impl Troubles {
    /// Errors: only that somebody asked us to end.
    fn take<T>(&mut self, outcome: Result<T>) -> Result<Option<T>> {
        go_on()?;
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.0.push(format!("{error:#}"));
                Ok(None)
            }
        }
    }
}

pub(crate) fn write_histories(directory: &Path, ledgers: &[Arc<Ledger>]) -> Result<()> {
    let place = directory.join("history");
    fs::create_dir_all(&place)?;
    for ledger in ledgers {
        let path = place.join(format!("{}.jsonl", ledger.log));
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(File::create(&path)?);
            for operation in ledger.history() {
                writeln!(file, "{}", history::to_line(&operation))?;
            }
            file.flush()
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn tell_where(directory: &Path, seed: u64) {
    let at = directory.display();
    eprintln!(
        "Seed {seed}. To look at what happened:\n\
         \x20 {at}/strikes.txt              what was done, by the clock of the histories (µs)\n\
         \x20 {at}/history/…jsonl           who asked for what, when, and what came of it; operation N\n\
        \x20                               stands in line N + 1\n\
         \x20 {at}/cluster/node-N.log       what each node said\n\
         \x20 logberg verify {at}/cluster/node-N"
    );
}
