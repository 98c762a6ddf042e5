//! The map of slots: groups that join and leave, how long it takes until all is served, and whether more moved than must.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use clap::Args;
use client::admin::{ChangeSlots, SlotsVerb};
use testbed::environment::Machine;
use testbed::scratch::go_on;
use testbed::watch::Watch;

use super::clusters::Setup;
use crate::benches::kv::nodes::Nodes;
use crate::benches::kv::slots::SLOTS;
use crate::study::common::{Common, finish, new_run};
use crate::study::rounds::Samples;
use crate::study::run::{Cell, Checked, Variant};

pub const HELP: &str = "\
Six groups without keys, on three nodes. In each round one of them leaves and joins again (Leave, then Join), and then it leaves and joins
without a wait in between (JoinLeave). The time ends when every slot is served where it is to be. Counted are the slots that moved
beyond the fewest that make groups equal within one.

Example:
  logberg-lab mex controller --quick";

/// Measure changes of the map of slots: a group leaves, joins, both
#[derive(Debug, Args)]
pub struct Controller {
    #[command(flatten)]
    common: Common,
}

const GROUPS: u16 = 6;
const NODES: u32 = 3;
const ROUNDS: (u32, u32) = (50, 10);
const BYTES_NEEDED: u64 = 2 << 30;
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Found {
    leave: Samples,
    join: Samples,
    both: Samples,
    moved: u64,
    /// Beyond the fewest.
    more: u64,
    /// Changes after which one group had two slots more than another.
    uneven: u64,
}

fn note(samples: &mut Samples, took: Duration) {
    samples.all.push(took.as_secs_f64() * 1e3);
    samples.rounds.push(took.as_secs_f64() * 1e3);
}

impl Controller {
    pub fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let scratch = self.common.place.make(BYTES_NEEDED)?;
        let machine = Machine::look(scratch.path())?;
        let rounds = self.common.rounds(ROUNDS);
        let watch = Watch::new(u64::from(rounds));
        let (began, since) = (SystemTime::now(), Instant::now());
        watch.says("starting three nodes and six groups");
        let nodes = Setup::of(GROUPS, NODES).start(scratch.path().join("nodes"))?;
        let mut found = Found::default();
        let mut complete = true;
        for round in 0..rounds {
            if go_on().is_err() {
                complete = false;
                break;
            }
            let group = &nodes.groups[round as usize % nodes.groups.len()];
            let (leave, join) = (SlotsVerb::Leave, SlotsVerb::Join);
            let took = change(&nodes, &mut found, &[(leave, group)])?;
            note(&mut found.leave, took);
            let took = change(&nodes, &mut found, &[(join, group)])?;
            note(&mut found.join, took);
            let took = change(&nodes, &mut found, &[(leave, group), (join, group)])?;
            note(&mut found.both, took);
            watch.step(1);
        }
        drop((watch, nodes));
        let named = ("mex controller", "groups");
        let mut run = new_run(
            (&self.common, rounds),
            named,
            &machine,
            (began, since.elapsed()),
        );
        run.run.complete = complete;
        for (name, samples) in [
            ("Leave", &found.leave),
            ("Join", &found.join),
            ("JoinLeave", &found.both),
        ] {
            run.cells.extend(Cell::of(name, f64::from(GROUPS), samples));
            run.variants.push(Variant {
                id: name.to_owned(),
                ink: "disk".to_owned(),
                transport: "tcp".to_owned(),
                lag: "none".to_owned(),
            });
        }
        for (name, count) in [
            ("slots moved", found.moved),
            ("slots moved beyond the fewest", found.more),
        ] {
            run.counts.insert(name.to_owned(), count);
        }
        run.counts
            .insert("changes that left groups unequal".to_owned(), found.uneven);
        finish(run, &self.common, (json, report), |_| {
            let wrong = (found.more + found.uneven) as f64;
            Checked::of("moves beyond the fewest", (wrong, wrong, wrong))
                .into_iter()
                .collect()
        })
    }
}

/// Changes the map, step by step without a wait, and waits until all slots are served.
fn change(nodes: &Nodes, found: &mut Found, steps: &[(SlotsVerb, &String)]) -> Result<Duration> {
    let client = nodes.client();
    let began = Instant::now();
    for (verb, group) in steps {
        let changed = client.change_slots(&ChangeSlots {
            verb: *verb,
            groups: vec![(*group).clone()],
            slots: None,
            plan: false,
            version: None,
        })?;
        // One of so many has as many slots at most, which all go, or as few, which all come.
        let fewest = match verb {
            SlotsVerb::Leave => u32::from(SLOTS).div_ceil(u32::from(GROUPS)),
            _ => u32::from(SLOTS / GROUPS),
        };
        found.moved += u64::from(changed.slots);
        found.more += u64::from(changed.slots.saturating_sub(fewest));
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = client.slots(None)?;
        if told.moving.is_empty() {
            let took = began.elapsed();
            let count = |group: &str| {
                let parts = told.wanted.iter().filter(|part| part.group == group);
                parts
                    .map(|part| u64::from(part.last - part.first) + 1)
                    .sum::<u64>()
            };
            let counts = nodes.groups.iter().map(|group| count(group));
            let counts: Vec<u64> = counts.filter(|count| *count > 0).collect();
            let (most, least) = (counts.iter().max(), counts.iter().min());
            found.uneven += u64::from(most.zip(least).is_none_or(|(most, least)| most - least > 1));
            return Ok(took);
        }
        go_on()?;
        if Instant::now() > deadline {
            bail!("slots are on their way for {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(POLL);
    }
}
