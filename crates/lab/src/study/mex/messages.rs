//! Requests of each agreement, counted on the engine alone: no disk and no network, and an order that is drawn.
//!
//! ```text
//!   vanilla   for each agreement a phase 1 of its own: the proposer leads anew, and proposes one value
//!   leader    one phase 1, and then one value after the other
//! ```
//!
//! The paper counted prepare, accept and decide, and no answers. Ours has no request of its own to decide: a follower hears it with the
//! next proposal, or with the next sign of life. A node asks whether it could lead before it prepares; these questions are counted apart.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;
use paxos::{
    Action, Configuration, Engine, EngineConfig, Input, LogState, Message, NodeId, OpenStream,
    Output, Recovery, Role, StreamName, StreamSequence, Time, Timing,
};
use testbed::environment::Machine;
use testbed::scratch::go_on;
use testbed::watch::Watch;

use crate::study::common::{Common, finish, new_run};
use crate::study::rounds::{Draw, Samples};
use crate::study::run::{Cell, Checked, Pair, Run, Variant};
use crate::study::statistics;

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

const NODES: u32 = 3;
/// The paper's number of agreements.
const AGREEMENTS: u64 = 5;
/// Rounds of a whole run, and of a quick one; a round is a cluster of its own.
const ROUNDS: (u32, u32) = (2_000, 200);
/// More steps than any agreement takes.
const STEPS_MAX: u32 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Vanilla,
    Leader,
}

/// The messages and records of some agreements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    prepares: u64,
    proposals: u64,
    questions: u64,
    records: u64,
}

impl Counts {
    fn requests(self) -> u64 {
        self.prepares + self.proposals
    }

    fn count(&mut self, message: &Message) {
        match message {
            Message::Prepare { .. } => self.prepares += 1,
            Message::Propose(_) => self.proposals += 1,
            Message::SeekVotes { .. } => self.questions += 1,
            _ => {}
        }
    }
}

/// Engines whose disks and network take no time.
struct Network {
    engines: Vec<Engine>,
    underway: VecDeque<(NodeId, NodeId, Message)>,
    now: Time,
    counts: Counts,
    values: u32,
}

impl Network {
    fn new(seed: u64) -> Result<Network> {
        let members = Configuration::equal((1..=NODES).map(NodeId))
            .ok()
            .context("three nodes are members")?;
        let engine = |node| {
            let config = EngineConfig {
                node: NodeId(node),
                incarnation: 1,
                seed: seed.wrapping_mul(u64::from(NODES)) + u64::from(node),
                unchosen_bytes_max: 64 << 20,
                timing: Timing::default(),
                phase_one: paxos::PhaseOne::PerTerm,
            };
            let checkpoint = Recovery::new(LogState::new(members.clone())).finish();
            Engine::new(config, checkpoint, Time::ZERO)
        };
        let mut network = Network {
            engines: (1..=NODES).map(engine).collect(),
            underway: VecDeque::new(),
            now: Time::ZERO,
            counts: Counts::default(),
            values: 0,
        };
        for at in 0..network.engines.len() {
            for peer in (1..=NODES).filter(|peer| *peer as usize != at + 1) {
                network.tell(at, Input::PeerAlive(NodeId(peer)));
            }
        }
        network.settle(&mut Draw::new(seed));
        network.counts = Counts::default();
        Ok(network)
    }

    fn tell(&mut self, at: usize, input: Input) {
        self.engines[at].handle(self.now, input);
        self.flush(at);
    }

    /// Performs what an engine wants: its records are durable at once.
    fn flush(&mut self, at: usize) {
        let from = NodeId(at as u32 + 1);
        let others = |from: NodeId| (1..=NODES).map(NodeId).filter(move |to| *to != from);
        loop {
            let mut durable = None;
            while let Some(output) = self.engines[at].poll_output() {
                match output {
                    Output::Persist { record, .. } => {
                        self.counts.records += 1;
                        durable = Some(record);
                    }
                    Output::Send { to, message, .. } => {
                        self.underway.push_back((from, to, message))
                    }
                    Output::Replicate(proposal) => self.underway.extend(
                        others(from).map(|to| (from, to, Message::Propose(proposal.clone()))),
                    ),
                    _ => {}
                }
            }
            // A message is sent after the record that it stands on: here at once.
            let Some(up_to) = durable else { break };
            self.engines[at].handle(self.now, Input::Durable { up_to });
        }
    }

    /// Delivers one message, of a sender and a receiver that are drawn; those of one pair keep their order.
    fn deliver(&mut self, draw: &mut Draw) -> bool {
        let mut pairs: Vec<(NodeId, NodeId)> = Vec::new();
        for (from, to, _) in &self.underway {
            if !pairs.contains(&(*from, *to)) {
                pairs.push((*from, *to));
            }
        }
        let Some(pair) = draw.one_of(&pairs).copied() else {
            return false;
        };
        let mut places = self.underway.iter();
        let place = places.position(|(from, to, _)| (*from, *to) == pair);
        let Some((from, to, message)) = place.and_then(|place| self.underway.remove(place)) else {
            return false;
        };
        self.counts.count(&message);
        self.tell(to.0 as usize - 1, Input::Message { from, message });
        true
    }

    fn settle(&mut self, draw: &mut Draw) {
        while self.deliver(draw) {}
    }

    fn leads(&self, at: usize) -> bool {
        let engine = &self.engines[at];
        matches!(engine.role(), Role::Leader { .. }) && engine.permit().is_some()
    }

    fn agreed(&self) -> u64 {
        let each = self.engines.iter().map(|engine| engine.first_unchosen().0);
        each.max().unwrap_or(0)
    }

    /// Fires a node's timer when it is due.
    fn fire(&mut self, at: usize) {
        if let Some(due) = self.engines[at].deadline() {
            self.now = self.now.max(due);
            self.tell(at, Input::Timer);
        }
    }

    fn propose(&mut self, at: usize) -> Result<()> {
        self.values += 1;
        let stream = StreamName {
            owner: NodeId(at as u32 + 1),
            sequence: StreamSequence {
                incarnation: 1,
                counter: self.values,
            },
        };
        let value = Action::OpenStream(OpenStream {
            stream,
            label: String::new(),
            metadata: Vec::new(),
            continues: None,
        });
        if let Err(refused) = self.engines[at].propose(self.now, value) {
            bail!("a leader may not propose: {refused:?}");
        }
        self.flush(at);
        Ok(())
    }

    /// One agreement, for which these nodes want to lead first if nobody does.
    fn agree(&mut self, proposers: usize, draw: &mut Draw) -> Result<()> {
        let before = self.agreed();
        let mut has_proposed = [false; NODES as usize];
        let mut order: Vec<usize> = (0..proposers).collect();
        draw.shuffle(&mut order);
        let leads = |network: &Network| (0..proposers).find(|at| network.leads(*at));
        if leads(self).is_none() {
            for at in &order {
                self.fire(*at);
            }
        }
        for _ in 0..STEPS_MAX {
            if let Some(at) = leads(self)
                && !has_proposed[at]
            {
                self.propose(at)?;
                has_proposed[at] = true;
            }
            if !self.deliver(draw) {
                if self.agreed() > before {
                    return Ok(());
                }
                let at = draw.one_of(&order).copied().unwrap_or(0);
                self.fire(at);
            }
        }
        bail!("no agreement after {STEPS_MAX} steps");
    }

    fn step_down(&mut self, draw: &mut Draw) {
        for at in 0..self.engines.len() {
            if matches!(self.engines[at].role(), Role::Leader { .. }) {
                self.tell(at, Input::StepDown);
            }
        }
        self.settle(draw);
    }
}

/// The counts of five agreements, and how long one of them lasted in ms.
fn measure(kind: Kind, proposers: usize, seed: u64) -> Result<(Counts, f64)> {
    let mut draw = Draw::new(seed);
    let mut network = Network::new(seed)?;
    if kind == Kind::Leader {
        // The one phase 1 is not part of any agreement.
        network.agree(1, &mut draw)?;
    }
    network.counts = Counts::default();
    let mut took = Duration::ZERO;
    for _ in 0..AGREEMENTS {
        let began = Instant::now();
        network.agree(proposers, &mut draw)?;
        took += began.elapsed();
        if kind == Kind::Vanilla {
            let counts = network.counts;
            network.step_down(&mut draw);
            network.counts = counts;
        }
    }
    let each = took.as_secs_f64() * 1e3 / AGREEMENTS as f64;
    Ok((network.counts, each))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_asks_each_follower_once_and_vanilla_twice() {
        for seed in 1..20 {
            let (vanilla, _) = measure(Kind::Vanilla, 1, seed).expect("it agrees");
            assert_eq!(
                (vanilla.prepares, vanilla.proposals),
                (10, 10),
                "seed {seed}"
            );
            let (leader, _) = measure(Kind::Leader, 1, seed).expect("it agrees");
            assert_eq!((leader.prepares, leader.proposals), (0, 10), "seed {seed}");
            assert!(
                leader.records < vanilla.records,
                "a promise is a record, too"
            );
        }
    }

    #[test]
    fn three_proposers_agree_in_any_order_and_ask_no_less() {
        for seed in 1..50 {
            let (three, _) = measure(Kind::Vanilla, 3, seed).expect("they agree");
            assert!(three.requests() >= 20, "seed {seed}: {three:?}");
        }
    }
}
