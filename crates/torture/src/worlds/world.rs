//! One world, from its start to its judgement.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::NewLog;
use client::admin::LogStatus;

use super::claims::{self, Said};
use super::operator::{Operator, Outcome};
use super::place::Places;
use super::plan::{Command, Plan, Round, Strike};
use crate::answered::Found;
use crate::leaders::Leaders;
use crate::ledger::Ledger;
use crate::load::{Load, LoadPlan};
use crate::schedule::Chance;
use crate::verdict::{self, Judged};
use crate::{LOAD_END_MAX, write_histories};
use terminal::moving::Moving;
use testbed::scratch::go_on;
use testbed::watch::Watch;

/// The nodes are level, or healed, within this.
const WHOLE_MAX: Duration = Duration::from_secs(60);
/// Faults are told within this …
const TOLD_MAX: Duration = Duration::from_secs(8);
/// … and a log whose quorum is well takes bytes within this.
const TAKEN_MAX: Duration = Duration::from_secs(15);
/// Strikes that last so long are to be told.
const TOLD_MIN: Duration = Duration::from_millis(2500);
const POLL: Duration = Duration::from_millis(100);

/// The outcome of a world.
#[derive(Debug, Default)]
pub struct Outcomes {
    pub rounds: u32,
    pub strikes: BTreeMap<&'static str, u64>,
    /// By the command and what was answered: `weight done`.
    pub commands: BTreeMap<String, u64>,
    /// How often what nodes say was compared with what is so.
    pub compared: u64,
    pub acked_bytes: u64,
    pub lost_bytes: u64,
    pub unjustified_reads: u64,
    pub operations: u64,
    pub failovers: u64,
    /// The longest time in which a log's bytes waited and none was acknowledged, and the round in which it ended.
    pub longest_stall: (Duration, String),
    pub violations: Vec<String>,
}

pub struct Settings<'a> {
    pub seed: u64,
    pub rate: u64,
    pub length: Duration,
    pub moving: &'a Moving,
}

pub struct World<'a> {
    plan: Plan,
    places: Places,
    ledgers: Vec<Arc<Ledger>>,
    operator: Operator,
    chance: Chance,
    watch: &'a Watch,
    began: Instant,
    outcomes: Outcomes,
    rounds: Vec<(Instant, String)>,
    story: Vec<String>,
}

/// Lives a world in the directory. Errors: only that somebody asked us to end, or that it could not be begun.
pub fn live(directory: &Path, settings: &Settings<'_>, watch: &Watch) -> Result<Outcomes> {
    let mut chance = Chance::new(settings.seed, 7);
    let plan = Plan::draw(&mut chance);
    let mut places = Places::start(&directory.join("cluster"), &plan, settings.moving)?;
    let began = Instant::now();
    let client = places.client(WHOLE_MAX);
    let mut names = vec!["main".to_owned()];
    for log in &plan.logs {
        client.create_new_log(&NewLog {
            name: log.name.clone(),
            members: log.members.clone(),
            auxiliary: log.auxiliary.clone(),
            retention: None,
            ..NewLog::default()
        })?;
        names.push(log.name.clone());
    }
    let ledgers: Vec<Arc<Ledger>> = names
        .iter()
        .enumerate()
        .map(|(index, name)| Arc::new(Ledger::new(name, index, settings.seed, began)))
        .collect();
    let load = Load::start(
        &LoadPlan {
            seed: settings.seed,
            rate: (settings.rate / ledgers.len() as u64).max(1),
            servers: places.cluster.addresses(),
            reads_are_stale: false,
            keys: None,
        },
        &ledgers,
    )?;
    places.ids = places.all().map(u64::from).collect();
    let leaders = Leaders::watch(places.cluster.addresses());
    let mut world = World {
        operator: Operator::new(names, settings.seed),
        story: vec![format!("{plan:?}")],
        plan,
        places,
        ledgers,
        chance,
        watch,
        began,
        outcomes: Outcomes::default(),
        rounds: Vec::new(),
    };
    let ended = world.pass(load, settings.length);
    world.outcomes.failovers = leaders.end();
    world.judge(directory)?;
    go_on()?;
    if let Err(error) = ended {
        world.violation(format!("{error:#}"));
    }
    world.places.cluster.end();
    fs::write(directory.join("story.txt"), world.story.join("\n") + "\n")?;
    Ok(world.outcomes)
}

impl World<'_> {
    fn violation(&mut self, sentence: String) {
        self.tell(format!("WRONG: {sentence}"));
        self.watch.note(&sentence);
        self.outcomes.violations.push(sentence);
    }

    fn tell(&mut self, what: String) {
        let at = self.began.elapsed().as_micros();
        self.story.push(format!("{at} µs  {what}"));
    }

    fn pass(&mut self, mut load: Load, length: Duration) -> Result<()> {
        self.wait_healed()?;
        let until = self.began + length.min(self.plan.length);
        while Instant::now() < until {
            load.check()?;
            let round = self.plan.draw_round(&mut self.chance);
            self.watch.says(round.to_string());
            self.round(&round)?;
            self.outcomes.rounds += 1;
        }
        load.finish(LOAD_END_MAX)
    }

    fn round(&mut self, round: &Round) -> Result<()> {
        self.sleep(round.quiet)?;
        self.tell(round.to_string());
        self.rounds.push((Instant::now(), round.to_string()));
        if let Some(Command::Replace { place }) = round.command {
            if let Some(log) = self.needs(place) {
                self.tell(format!("not done: {log} has no quorum without it"));
                return Ok(());
            }
            let outcome = self.operator.replace(&mut self.places, place);
            self.count(Command::Replace { place }, &done_or(&outcome));
            if let Err(error) = outcome {
                go_on()?;
                self.violation(format!("{error:#}"));
            }
            return self.wait_healed();
        }
        let began = Instant::now();
        for strike in &round.strikes {
            self.places.begin(*strike)?;
            *self.outcomes.strikes.entry(strike.name()).or_default() += 1;
        }
        let all_struck = round
            .strikes
            .iter()
            .any(|strike| matches!(strike, Strike::KillAll | Strike::StopAll));
        let told = self.command_and_look(round, began, all_struck);
        for strike in &round.strikes {
            self.places.heal(*strike)?;
        }
        told?;
        self.tell("healed".to_owned());
        self.wait_healed()
    }

    fn command_and_look(&mut self, round: &Round, began: Instant, all_struck: bool) -> Result<()> {
        if let Some(command) = round.command.filter(|_| !all_struck) {
            let well = self.well(&round.strikes);
            match self.operator.give(command, &self.places, &well) {
                Ok(outcome) => self.count(command, &outcome),
                Err(error) => {
                    go_on()?;
                    self.violation(format!("after {} was answered: {error:#}", command.name()));
                }
            }
        }
        if round.length >= TOLD_MIN && !all_struck {
            self.wait_told(&round.strikes, began)?;
            self.wait_taken(&round.strikes, began)?;
        }
        let left = (began + round.length).saturating_duration_since(Instant::now());
        self.sleep(left)
    }

    fn count(&mut self, command: Command, outcome: &Outcome) {
        let (word, why) = match outcome {
            Outcome::Done => ("done", ""),
            Outcome::Refused(why) => ("refused", why.as_str()),
            Outcome::Unanswered(why) => ("unanswered", why.as_str()),
        };
        self.tell(format!("{command:?}: {word} {why}"));
        let key = format!("{} {word}", command.name());
        *self.outcomes.commands.entry(key).or_default() += 1;
    }

    fn sleep(&self, length: Duration) -> Result<()> {
        testbed::watch::sleep_until(Instant::now() + length)
    }

    fn acked(&self) -> Vec<u64> {
        self.ledgers
            .iter()
            .map(|ledger| ledger.acked_bytes())
            .collect()
    }

    /// The places of which nothing is to be expected but that they are well.
    fn well(&self, strikes: &[Strike]) -> Vec<u32> {
        let touched = |place: u32| {
            strikes.iter().any(|strike| {
                let apart = strike
                    .apart()
                    .is_some_and(|(one, two)| one == place || two == place);
                strike.out() == Some(place) || apart
            })
        };
        self.places.all().filter(|place| !touched(*place)).collect()
    }

    /// Waits until those who are well say what is wrong.
    fn wait_told(&mut self, strikes: &[Strike], began: Instant) -> Result<()> {
        let well = self.well(strikes);
        loop {
            go_on()?;
            let wrong = self.untold(strikes, &well);
            self.outcomes.compared += 1;
            if wrong.is_empty() {
                return Ok(());
            }
            if began.elapsed() > TOLD_MAX {
                for sentence in wrong {
                    self.violation(format!("{strikes:?} for {TOLD_MAX:?}: {sentence}"));
                }
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
    }

    fn untold(&self, strikes: &[Strike], well: &[u32]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut all = Vec::new();
        for place in well {
            match self.said(*place) {
                Some(said) => all.push(said),
                None => wrong.push(format!("the node at place {place} does not answer")),
            }
        }
        let id = |place| self.places.id(place);
        for strike in strikes {
            for said in &all {
                match *strike {
                    Strike::Full(place) | Strike::Brim(place) => {
                        claims::of_full(said, id(place), &mut wrong)
                    }
                    Strike::Pair(one, two) | Strike::OneWay(one, two) => {
                        claims::of_pair(said, id(one), id(two), &mut wrong);
                    }
                    _ => {}
                }
                if let Some(out) = strike.out() {
                    claims::of_silence(said, id(out), &mut wrong);
                }
            }
            if let Some(out) = strike.out() {
                match self.places.client(Duration::from_secs(3)).members() {
                    Ok(members) => claims::of_silent_member(&members, id(out), &mut wrong),
                    Err(error) => wrong.push(format!("`members` is not answered: {error}")),
                }
            }
        }
        wrong
    }

    fn said(&self, place: u32) -> Option<Said> {
        let status = self.places.status(place)?;
        Some(Said {
            node: self.places.id(place),
            status,
        })
    }

    /// Waits until each log whose quorum is well takes bytes. Those of the strike's first second may have been on
    /// their way before it.
    fn wait_taken(&mut self, strikes: &[Strike], began: Instant) -> Result<()> {
        self.sleep((began + Duration::from_secs(1)).saturating_duration_since(Instant::now()))?;
        let before = self.acked();
        let deadline = Instant::now() + TAKEN_MAX;
        for (at, acked) in before.into_iter().enumerate() {
            let log = self.ledgers[at].log.clone();
            if !self.is_quorum_well(&log, strikes) {
                continue;
            }
            while self.ledgers[at].acked_bytes() == acked {
                go_on()?;
                if Instant::now() > deadline {
                    // A step under way may have changed who is needed.
                    if self.is_quorum_well(&log, strikes) {
                        self.violation(format!(
                            "{strikes:?}: {log} took nothing for {TAKEN_MAX:?}, and its quorum is well"
                        ));
                    }
                    break;
                }
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// A log that cannot go on without the node at this place: its disk may not be lost.
    fn needs(&self, place: u32) -> Option<String> {
        let lost = [Strike::Kill(place)];
        let mut others = self.well(&lost).into_iter();
        let logs = others
            .find_map(|other| self.places.status(other))
            .map(|status| status.logs);
        let names = self.ledgers.iter().map(|ledger| ledger.log.clone());
        let names = names.chain(logs.unwrap_or_default().into_iter().map(|log| log.name));
        let mut names = names.filter(|log| !self.is_quorum_well(log, &lost));
        names.next()
    }

    /// Whether those that are in nobody's way are a quorum of the log, and one of them may lead.
    fn is_quorum_well(&self, log: &str, strikes: &[Strike]) -> bool {
        let mut newest: Option<LogStatus> = None;
        for place in self.well(strikes) {
            let status = self.places.status(place);
            let found = status.and_then(|status| status.logs.into_iter().find(|l| l.name == log));
            if let Some(found) = found
                && newest.as_ref().is_none_or(|known| known.era < found.era)
            {
                newest = Some(found);
            }
        }
        let Some(newest) = newest else { return false };
        // Either node of a pair that is cut may have to be done without.
        let mut outs = vec![Vec::new()];
        for strike in strikes {
            let of_strike: Vec<u32> = match (strike.out(), strike.apart(), strike) {
                (Some(out), ..) => vec![out],
                (_, Some((one, two)), _) => vec![one, two],
                (.., Strike::Full(full) | Strike::Brim(full)) => vec![*full],
                _ => Vec::new(),
            };
            let with = |out: &Vec<u32>| {
                let out = out.clone();
                of_strike
                    .iter()
                    .map(move |one| [out.clone(), vec![*one]].concat())
            };
            outs = outs.iter().flat_map(with).collect();
        }
        let total: u64 = newest.weights.iter().map(|weight| weight.weight).sum();
        outs.iter().any(|out| {
            let is_in = |node: u64| {
                self.places
                    .place_of(node)
                    .is_some_and(|p| !out.contains(&p))
            };
            let left = newest.weights.iter().filter(|weight| is_in(weight.node));
            let may_lead = left
                .clone()
                .any(|weight| weight.weight > 0 && !weight.auxiliary);
            may_lead && 2 * left.map(|weight| weight.weight).sum::<u64>() > total
        })
    }

    /// Waits until all say that all is well, and until what operators were answered is so.
    fn wait_healed(&mut self) -> Result<()> {
        let deadline = Instant::now() + WHOLE_MAX;
        loop {
            go_on()?;
            if let Some(ended) = self.places.cluster.take_ended()?.into_iter().next() {
                anyhow::bail!("{}", ended.sentence());
            }
            let wrong = self.unwell();
            self.outcomes.compared += 1;
            if wrong.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                for sentence in wrong {
                    self.violation(format!("{WHOLE_MAX:?} after all was healed: {sentence}"));
                }
                anyhow::bail!("the world does not heal");
            }
            std::thread::sleep(POLL);
        }
        let mut found = Found::default();
        self.operator.check_all(&self.places, &mut found)?;
        self.outcomes.lost_bytes += found.lost_bytes;
        for sentence in found.violations {
            self.violation(sentence);
        }
        Ok(())
    }

    fn unwell(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for place in self.places.all() {
            match self.said(place) {
                None => wrong.push(format!("the node at place {place} does not answer")),
                Some(said) => {
                    let id = said.status.node;
                    if id != said.node {
                        wrong.push(format!("at place {place} answers node {id}"));
                    }
                    claims::of_health(&said, &self.places.ids, &mut wrong);
                }
            }
        }
        match self.places.client(Duration::from_secs(3)).members() {
            Ok(members) => claims::of_members(&members, &self.places.ids, &mut wrong),
            Err(error) => wrong.push(format!("`members` is not answered: {error}")),
        }
        wrong
    }

    /// Nobody appends any more: everything is everywhere where it belongs, and every read has a reason.
    fn judge(&mut self, directory: &Path) -> Result<()> {
        let judged = self.look_at_bytes();
        go_on()?;
        match judged {
            Ok(judged) => {
                self.outcomes.operations = judged.operations;
                self.outcomes.unjustified_reads = judged.unjustified_reads;
                for sentence in judged.violations {
                    self.violation(sentence);
                }
            }
            Err(error) => self.violation(format!("{error:#}")),
        }
        for ledger in &self.ledgers {
            self.outcomes.acked_bytes += ledger.acked_bytes();
            if let Some((stall, since)) = ledger.longest_stall()
                && stall > self.outcomes.longest_stall.0
            {
                let mut rounds = self.rounds.iter().rev();
                let round = rounds.find(|(began, _)| *began <= since + stall);
                let what = round.map_or("before the first", |(_, what)| what);
                self.outcomes.longest_stall = (stall, format!("{}: {what}", ledger.log));
            }
        }
        self.outcomes.acked_bytes += self.operator.acked_bytes;
        write_histories(directory, &self.ledgers)
    }

    fn look_at_bytes(&mut self) -> Result<Judged> {
        self.watch.says("reading every node");
        let client = self.places.client(WHOLE_MAX);
        let deadline = Instant::now() + WHOLE_MAX;
        let members = loop {
            go_on()?;
            let members = client.members()?;
            let mut wrong = Vec::new();
            claims::of_members(&members, &self.places.ids, &mut wrong);
            let level = members.logs.iter().flat_map(|log| {
                let all = log.output_bytes;
                let active = log
                    .members
                    .iter()
                    .filter(|member| member.role != "auxiliary");
                active.map(move |member| member.held_bytes == Some(all))
            });
            if wrong.is_empty() && level.into_iter().all(|level| level) {
                break members;
            }
            if Instant::now() > deadline {
                anyhow::bail!(
                    "the nodes are not level {WHOLE_MAX:?} after the last append: {wrong:?}"
                );
            }
            std::thread::sleep(POLL);
        };
        for ledger in &self.ledgers {
            verdict::last_read(&client, ledger)?;
            verdict::check_ends(&client, ledger)?;
        }
        let holders = |name: &str| {
            let log = members.logs.iter().find(|log| log.name == name);
            let members = log.iter().flat_map(|log| &log.members);
            let active = members.filter(|member| member.role != "auxiliary");
            active
                .filter_map(|member| self.places.place_of(member.node))
                .collect()
        };
        let found = verdict::read_nodes(
            &self.places.cluster,
            &client,
            &holders,
            &self.ledgers,
            &|_| {},
        )?;
        let lost_of = |place: u32| {
            let of_node = found.iter().filter(|found| found.node == place);
            of_node.map(|found| found.lost_bytes).sum::<u64>()
        };
        self.outcomes.lost_bytes += self.places.all().map(lost_of).max().unwrap_or(0);
        if !verdict::are_identical(&found) {
            self.violation(format!("the nodes do not hold the same: {found:?}"));
        }
        verdict::judge(&self.ledgers)
    }
}

fn done_or(outcome: &Result<()>) -> Outcome {
    match outcome {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Unanswered(format!("{error:#}")),
    }
}
