//! Requests of each agreement, counted on the engine alone: no disk and no network, and an order that is drawn.
//!
//! ```text
//!   vanilla   for each agreement a phase 1 of its own: the proposer leads anew, and proposes one value
//!   leader    one phase 1, and then one value after the other
//! ```
//!
//! The paper counted prepare, accept and decide, and no answers. Ours has no request of its own to decide: a follower hears it with the
//! next proposal, or with the next sign of life. A node asks whether it could lead before it prepares; these questions are counted apart.

mod agreements;
mod network;

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use anyhow::Result;
use clap::Args;
use testbed::environment::Machine;
use testbed::scratch::go_on;
use testbed::watch::Watch;

use crate::study::common::{Common, finish, new_run};
use crate::study::rounds::{Draw, Samples};
use crate::study::run::{Cell, Checked, Pair, Run, Variant};
use crate::study::statistics;
use agreements::{AGREEMENTS, Kind, measure};
use network::{Counts, NODES};

pub const HELP: &str = "\
Three engines in one thread agree five times, over and over: table 3 of the paper, and its four benchmarks of agreement. vanilla:
each agreement has a phase 1 of its own. leader: one phase 1 serves all. Counted are requests as the paper counted them, without those
that decide (ours has none); questions before a phase 1; and records that had to be durable. With three proposers all three want
to lead for each agreement, and messages arrive in an order that is drawn.

Example:
  logberg-lab mex messages --rounds 1000";

/// Count requests and durable records of an agreement, with a phase 1 for each and without (table 3)
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
}

/// Rounds of a whole run, and of a quick one; a round is a cluster of its own.
const ROUNDS: (u32, u32) = (2_000, 200);
const VARIANTS: [(&str, Kind, usize); 4] = [
    ("vanilla", Kind::Vanilla, 1),
    ("leader", Kind::Leader, 1),
    ("vanilla, three", Kind::Vanilla, 3),
    ("leader-again", Kind::Leader, 1),
];

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let machine = Machine::look(&std::env::temp_dir())?;
        let rounds = self.common.rounds(ROUNDS);
        let (began, since) = (SystemTime::now(), Instant::now());
        let watch = Watch::new(u64::from(rounds));
        let mut draw = Draw::new(self.common.seed);
        let mut counts: BTreeMap<&str, Vec<Counts>> = BTreeMap::new();
        let mut times: BTreeMap<&str, Samples> = BTreeMap::new();
        let mut order: Vec<usize> = (0..VARIANTS.len()).collect();
        let mut complete = true;
        for round in 0..rounds {
            if go_on().is_err() {
                complete = false;
                break;
            }
            draw.shuffle(&mut order);
            for at in &order {
                let (name, kind, proposers) = VARIANTS[*at];
                let (one, took) = measure(kind, proposers, self.common.seed + u64::from(round))?;
                counts.entry(name).or_default().push(one);
                let times = times.entry(name).or_default();
                times.all.push(took);
                times.rounds.push(took);
            }
            watch.step(1);
        }
        drop(watch);
        let named = ("mex messages", "machines");
        let mut run = new_run(
            (&self.common, rounds),
            named,
            &machine,
            (began, since.elapsed()),
        );
        run.run.complete = complete;
        fill(&mut run, &counts, &times);
        finish(run, &self.common, (json, report), |_| checks_of(&counts))
    }
}

fn fill(run: &mut Run, counts: &BTreeMap<&str, Vec<Counts>>, times: &BTreeMap<&str, Samples>) {
    let machines = f64::from(NODES);
    for (name, _, _) in VARIANTS {
        let Some(samples) = times.get(name) else {
            continue;
        };
        run.variants.push(Variant {
            id: name.to_owned(),
            ink: "none".to_owned(),
            transport: "none".to_owned(),
            lag: "none".to_owned(),
        });
        run.cells.extend(Cell::of(name, machines, samples));
        let base = times.get("leader").filter(|_| name != "leader");
        run.pairs.extend(
            base.and_then(|base| Pair::of((name, samples), ("leader", base), machines, true)),
        );
        if name.ends_with("-again") {
            continue;
        }
        for (what, of) in [
            ("requests", Counts::requests as fn(Counts) -> u64),
            ("questions", |counts| counts.questions),
            ("durable records", |counts| counts.records),
        ] {
            if let Some(median) = median_of(&counts[name], of) {
                let named = format!("{what} for {AGREEMENTS} agreements, {name}");
                run.counts.insert(named, median as u64);
            }
        }
    }
}

fn median_of(counts: &[Counts], of: fn(Counts) -> u64) -> Option<f64> {
    let each: Vec<f64> = counts.iter().map(|counts| of(*counts) as f64).collect();
    statistics::median(&each)
}

fn checks_of(counts: &BTreeMap<&str, Vec<Counts>>) -> Vec<Checked> {
    let each = |name: &str| -> Option<(f64, f64, f64)> {
        let all = counts.get(name)?.iter();
        let requests: Vec<f64> = all
            .map(|counts| counts.requests() as f64 / AGREEMENTS as f64)
            .collect();
        let quantile = |part| statistics::quantile(&requests, part);
        Some((quantile(0.5)?, quantile(0.025)?, quantile(0.975)?))
    };
    let over = |a: (f64, f64, f64), b: (f64, f64, f64)| (a.0 / b.0, a.1 / b.2, a.2 / b.1);
    let (vanilla, leader, three) = (each("vanilla"), each("leader"), each("vanilla, three"));
    let pair = |a: Option<_>, b: Option<_>| Some(over(a?, b?));
    [
        ("requests of an agreement, vanilla", vanilla),
        ("requests of an agreement, leader", leader),
        ("requests, vanilla/leader", pair(vanilla, leader)),
        ("requests, three proposers/one", pair(three, vanilla)),
    ]
    .into_iter()
    .filter_map(|(name, found)| Checked::of(name, found?))
    .collect()
}
