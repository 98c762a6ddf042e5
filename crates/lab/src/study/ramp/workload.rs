//! The paper's workloads: one proposer, two for the same decrees, one that dies, several.
//!
//! ```text
//!   a   M0 ─ M0 ─ M0 …                           by itself
//!   b   M0 ·· M1, for the same decree            M0 a little earlier; beside decrees of M0 alone, in drawn order
//!   c   M0 × 10, killed ─ M1 goes on             the node beside M0 leads, and dies with it
//!   d   M0 · M1 · M2 at once                     three of five
//! ```
//!
//! Every run holds what each proposer learned beside what stands in the end, at each node.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use terminal::exit::Failure;
use testbed::environment::Machine;
use testbed::scratch::go_on;
use testbed::watch::Watch;
use wire::quantity;

use super::decrees::Proposer;
use super::measured::ROUNDS;
use crate::benches::kv::nodes::Nodes;
use crate::study::common::{Common, finish, new_run};
use crate::study::rounds::{Draw, Samples};
use crate::study::run::{Cell, Checked, Pair, Run, Variant};

pub const HELP: &str = "\
A decree is a key that only the first SET takes (SET decree:7 VALUE NX GET): everybody who proposes for it learns the one value. The
clients are beside the nodes, one for each.

a: one proposer. b: two for the same decrees, M0 a little earlier (--later), and decrees of M0 alone between them. c: the node that leads is
killed after ten decrees of M0, and M1 goes on; --deaths times. d: three proposers at once, on five nodes,
or as many as are said.

Example:
  logberg-lab ramp workload b --quick
  logberg-lab ramp workload c --deaths 10";

/// Decrees with several proposers, of which one may die
#[derive(Debug, Args)]
pub struct Arguments {
    workload: Workload,
    /// b: M1 proposes so much later than M0
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = quantity::seconds)]
    later: f64,
    /// c: this often [default: 20, or 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    deaths: Option<u32>,
    /// d: so many propose at once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=15))]
    proposers: u32,
    /// d: on so many nodes [default: 5, or twice as many as proposers less one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=31))]
    machines: Option<u32>,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = quantity::at_least_one)]
    size: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// One proposer
    A,
    /// Two, for the same decrees
    B,
    /// The first one dies
    C,
    /// Three of five at once, or more
    D,
}

const READY: Duration = Duration::from_secs(60);
/// Decrees of each proposer around a death.
const AROUND_A_DEATH: u64 = 10;
const BYTES_NEEDED: u64 = 2 << 30;

/// The values that the proposers learned.
#[derive(Default)]
struct Learned {
    decrees: BTreeMap<u64, String>,
    /// Two proposers learned two values of one decree.
    split: u64,
    /// Values that were learned and do not stand in the end.
    lost: u64,
}

impl Learned {
    fn note(&mut self, decree: u64, value: String) {
        let first = self.decrees.entry(decree).or_insert_with(|| value.clone());
        self.split += u64::from(*first != value);
    }

    fn look_at(&mut self, nodes: &Nodes) -> Result<()> {
        for at in 0..nodes.doors.len() {
            let mut reader = Proposer::beside(at, &nodes.doors, 0);
            for (decree, value) in &self.decrees {
                self.lost += u64::from(reader.read(*decree)?.as_ref() != Some(value));
            }
        }
        Ok(())
    }
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let scratch = self.common.place.make(BYTES_NEEDED)?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let (began, since) = (SystemTime::now(), Instant::now());
        let machines = match self.workload {
            Workload::D => self.machines.unwrap_or(5.max(self.proposers * 2 - 1)),
            _ => 3,
        };
        if self.workload == Workload::D && self.proposers > machines {
            return Err(Failure::usage(format!(
                "each proposer is beside a node of its own: have --machines {} or more",
                self.proposers
            ))
            .into());
        }
        let nodes = Nodes::start_so_many(&scratch.path().join("nodes"), 1, machines)?;
        let mut learned = Learned::default();
        let mut found = match self.workload {
            Workload::A => self.by_turns(&nodes, &mut learned, &[&["one", "one-again"]], &[0])?,
            Workload::B => {
                let variants: &[&[&str]] = &[&["one", "one-again"], &["two", "two-second"]];
                self.by_turns(&nodes, &mut learned, variants, &[0, 1])?
            }
            Workload::D => {
                let names: Vec<String> = (1..=self.proposers)
                    .map(|place| match place {
                        1 => at_once(self.proposers),
                        _ => format!("{}-{place}", at_once(self.proposers)),
                    })
                    .collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let beside: Vec<usize> = (0..self.proposers as usize).collect();
                let variants = [&["one", "one-again"][..], &names];
                self.by_turns(&nodes, &mut learned, &variants, &beside)?
            }
            Workload::C => self.through_deaths(&nodes, &mut learned)?,
        };
        learned.look_at(&nodes)?;
        found
            .counts
            .insert("decrees".to_owned(), learned.decrees.len() as u64);
        found.counts.insert("split".to_owned(), learned.split);
        found.counts.insert("lost".to_owned(), learned.lost);
        let name = match self.workload {
            Workload::A => "ramp workload a",
            Workload::B => "ramp workload b",
            Workload::C => "ramp workload c",
            Workload::D => "ramp workload d",
        };
        let mut run = new_run(
            (&self.common, self.common.rounds(ROUNDS)),
            (name, "machines"),
            &machine,
            (began, since.elapsed()),
        );
        found.fill(&mut run, f64::from(machines));
        finish(run, &self.common, (json, report), checks_of)
    }

    /// Decrees of M0 alone, twice, and with others, in an order that is drawn anew in each round.
    fn by_turns(
        &self,
        nodes: &Nodes,
        learned: &mut Learned,
        variants: &[&[&str]],
        proposers: &[usize],
    ) -> Result<Found> {
        let mut all: Vec<Proposer> = proposers
            .iter()
            .map(|at| Proposer::beside(*at, &nodes.doors, self.size as usize))
            .collect();
        let mut found = Found::default();
        let mut draw = Draw::new(self.common.seed);
        let watch = Watch::new(u64::from(self.common.rounds(ROUNDS)));
        // The first ones open connections.
        let mut decree = 0;
        for proposer in &mut all {
            decree += 1;
            let (value, _) = proposer.propose(decree)?;
            learned.note(decree, value);
        }
        let kinds: Vec<&str> = variants[0]
            .iter()
            .copied()
            .chain(variants.get(1).map(|many| many[0]))
            .collect();
        for _ in 0..self.common.rounds(ROUNDS) {
            if go_on().is_err() {
                found.ended = true;
                break;
            }
            let mut order: Vec<usize> = (0..kinds.len()).collect();
            draw.shuffle(&mut order);
            for at in order {
                decree += 1;
                let many = variants.get(1).filter(|many| many[0] == kinds[at]);
                match many {
                    None => {
                        let (value, took) = all[0].propose(decree)?;
                        learned.note(decree, value);
                        found.note(kinds[at], took);
                    }
                    Some(names) => {
                        let mut last = Duration::ZERO;
                        let together = self.together(&mut all, decree)?;
                        for ((name, one), place) in names.iter().zip(together).zip(0u32..) {
                            learned.note(decree, one.0);
                            found.note(name, one.1);
                            last = last.max(self.later() * place + one.1);
                        }
                        found.note(&format!("{}, all", names[0]), last);
                    }
                }
            }
            watch.step(1);
        }
        Ok(found)
    }

    /// All for the same decree; each later than the one before it.
    fn together(&self, all: &mut [Proposer], decree: u64) -> Result<Vec<(String, Duration)>> {
        let begin = Barrier::new(all.len());
        let later = self.later();
        std::thread::scope(|scope| {
            let threads: Vec<_> = all
                .iter_mut()
                .zip(0u32..)
                .map(|(proposer, place)| {
                    let begin = &begin;
                    scope.spawn(move || {
                        begin.wait();
                        std::thread::sleep(later * place);
                        proposer.propose(decree)
                    })
                })
                .collect();
            let joined = threads.into_iter().map(|thread| match thread.join() {
                Ok(learned) => learned,
                Err(_) => Err(anyhow!("a proposer panicked")),
            });
            joined.collect()
        })
    }

    /// Each begins so much later than the one before it.
    fn later(&self) -> Duration {
        match self.workload {
            Workload::B => Duration::from_secs_f64(self.later),
            _ => Duration::ZERO,
        }
    }

    fn through_deaths(&self, nodes: &Nodes, learned: &mut Learned) -> Result<Found> {
        let deaths = self
            .deaths
            .unwrap_or(if self.common.quick { 3 } else { 20 });
        let group = nodes.groups.first().context("there is no group")?;
        let mut found = Found::default();
        let watch = Watch::new(u64::from(deaths));
        let mut decree = 0;
        for death in 1..=deaths {
            if go_on().is_err() {
                found.ended = true;
                break;
            }
            watch.says(format!("death {death} of {deaths}"));
            let leader = nodes.leader(group).context("the group has no leader")?;
            let at = leader as usize - 1;
            let bytes = self.size as usize;
            let mut dies = Proposer::beside(at, &nodes.doors, bytes);
            let mut goes_on = Proposer::beside(at + 1, &nodes.doors, bytes);
            // It has a connection, to the node that will die.
            for proposer in [&mut goes_on, &mut dies] {
                for _ in 0..AROUND_A_DEATH {
                    decree += 1;
                    let (value, took) = proposer.propose(decree)?;
                    learned.note(decree, value);
                    found.note("before", took);
                }
            }
            nodes.cluster.kill(leader)?;
            drop(dies);
            for after in 0..AROUND_A_DEATH {
                decree += 1;
                let (value, took) = goes_on.propose(decree)?;
                learned.note(decree, value);
                found.note(
                    if after == 0 {
                        "first after a death"
                    } else {
                        "after"
                    },
                    took,
                );
            }
            nodes.cluster.restart(leader)?;
            nodes.wait_whole(READY)?;
            nodes.spread()?;
            watch.step(1);
        }
        found.counts.insert("deaths".to_owned(), u64::from(deaths));
        Ok(found)
    }
}

#[derive(Default)]
struct Found {
    samples: BTreeMap<String, Samples>,
    counts: BTreeMap<String, u64>,
    ended: bool,
}

impl Found {
    fn note(&mut self, variant: &str, took: Duration) {
        let samples = self.samples.entry(variant.to_owned()).or_default();
        let took = took.as_secs_f64() * 1e3;
        samples.all.push(took);
        samples.rounds.push(took);
    }

    fn fill(self, run: &mut Run, machines: f64) {
        for (id, samples) in &self.samples {
            run.cells.extend(Cell::of(id, machines, samples));
            run.variants.push(Variant {
                id: id.clone(),
                ink: "disk".to_owned(),
                transport: "tcp".to_owned(),
                lag: "none".to_owned(),
            });
        }
        let Some(alone) = self.samples.get("one") else {
            run.run.complete &= !self.ended;
            run.counts = self.counts;
            return;
        };
        for (a, of_a) in self.samples.iter().filter(|(a, _)| *a != "one") {
            run.pairs
                .extend(Pair::of((a, of_a), ("one", alone), machines, true));
        }
        run.run.complete &= !self.ended;
        run.counts = self.counts;
    }
}

/// The name of the first of so many.
fn at_once(proposers: u32) -> String {
    match proposers {
        3 => "three".to_owned(),
        count => format!("{count} at once"),
    }
}

fn checks_of(run: &Run) -> Vec<Checked> {
    let mut checks = Vec::new();
    let pair = |a| run.pairs.iter().find(|pair| pair.a == a && pair.b == "one");
    checks.extend(pair("two").and_then(|pair| Checked::of_pair("two/one", pair)));
    checks.extend(pair("three").and_then(|pair| Checked::of_pair("three/one", pair)));
    let mut cells = run.cells.iter();
    if let Some(cell) = cells.find(|cell| cell.variant == "first after a death") {
        let found = (cell.p50_ms, cell.p50_ms, cell.max_ms);
        checks.extend(Checked::of("the next decree after a death, ms", found));
    }
    let count = |name: &str| run.counts.get(name).copied().unwrap_or(0) as f64;
    let wrong = count("split") + count("lost");
    checks.extend(Checked::of("decrees lost or split", (wrong, wrong, wrong)));
    checks
}
