//! Machines whose state lies on shelves, on nodes that crash, are cut off, stand still and lose what was not flushed.
//!
//! The machine keeps lists that only grow, each entry given once. So what clients saw is judged exactly: every list that was
//! ever answered is the beginning of the list that stands there in the end, and is as long at least as any that was answered
//! before it was asked for; what was said not to be done is in none. And a witness that believes no host (`rebuilt`) compares
//! every state with the log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::{
    Ask, Bounds, Command, Host, HostConfig, Look, Machine, Outcome, Replier, Shelves, State, Stop,
    View, What,
};
use node::hosted::Hosts;
use ops::{Letter, MachineId, Time};
use paxos::{NodeId, Role};
use shelf::{Identity, Media, Shelf, ShelfError};
use sim::workload::small_limits;
use sim::{HostId, Process};

use crate::rebuilt::Rebuilt;
use crate::stage::{MS, SECOND, Stage, done};

const LOG: &str = "lists";
const HOST: MachineId = MachineId(1);
const KEYS: [&str; 3] = ["a", "b", "c"];

/// `add KEY ENTRY` answers the list with it, `get KEY` the list, `all` all lists.
struct Lists;

impl Machine for Lists {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let command = std::str::from_utf8(command).map_err(|_| Stop::refused("no text"))?;
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["add", key, entry] => {
                let mut list = state.get(key.as_bytes())?.unwrap_or_default();
                list.extend_from_slice(entry.as_bytes());
                list.push(b',');
                state.put(key.as_bytes(), &list)?;
                // Rows that come, go and never come again: one that a copy brings back is seen in the end.
                let count = list.iter().filter(|byte| **byte == b',').count();
                state.put(format!("{key}-{count}").as_bytes(), entry.as_bytes())?;
                if let Some(gone) = count.checked_sub(3) {
                    state.delete(format!("{key}-{gone}").as_bytes())?;
                }
                Ok(list)
            }
            ["get", key] => Ok(state.get(key.as_bytes())?.unwrap_or_default()),
            ["all"] => {
                let rows = state.prefix(b"", 100)?.rows.into_iter();
                let rows = rows.filter(|(key, _)| !key.contains(&b'-'));
                let line =
                    |(key, list): (Vec<u8>, Vec<u8>)| [&key[..], b" ", &list, b"\n"].concat();
                Ok(rows.flat_map(line).collect())
            }
            ["panic"] => panic!("it was asked to"),
            _ => Err(Stop::refused("no such command")),
        }
    }
}

/// A machine, the name of its log, and how much of everything its groups hold.
#[derive(Clone)]
pub struct Guest {
    pub log: &'static str,
    pub machine: Arc<dyn Machine>,
    pub bounds: Bounds,
}

/// The shelves of a node, in memory: one for each log, over media that lose what was not flushed.
#[derive(Clone)]
pub struct Models {
    node: usize,
    media: Arc<Mutex<BTreeMap<u32, Media>>>,
    witness: Rebuilt,
}

impl Models {
    pub fn of(&self, log: u32) -> Media {
        self.media.lock().unwrap().entry(log).or_default().clone()
    }

    pub fn each(&self, act: impl Fn(&Media)) {
        self.media.lock().unwrap().values().for_each(act);
    }
}

impl Shelves for Models {
    fn open(&self, identity: Identity) -> Result<Arc<dyn Shelf>, ShelfError> {
        self.witness
            .open(self.node, &self.of(identity.log), identity)
    }

    fn put_aside(&self, identity: Identity) -> Result<PathBuf, ShelfError> {
        self.of(identity.log).clear();
        Ok(PathBuf::from("aside"))
    }

    fn remove(&self, identity: Identity) -> Result<(), ShelfError> {
        self.of(identity.log).clear();
        Ok(())
    }
}

/// An answer, and when it was asked for and given.
struct Answer {
    asked: Time,
    answered: Time,
    lists: BTreeMap<String, String>,
}

/// All that clients were told.
#[derive(Default)]
pub struct Told {
    pub asked: u64,
    pub outstanding: u64,
    answers: Vec<Answer>,
    /// The commands that were answered, and those that were said never to be done.
    pub added: BTreeSet<String>,
    pub never: BTreeSet<String>,
    pub unknown: u64,
    pub looks: u64,
    /// Views that are of no one moment.
    torn: u64,
    now: Time,
}

pub struct Theatre {
    pub stage: Stage,
    pub log: &'static str,
    pub hosts: Vec<HostId>,
    pub models: Vec<Models>,
    pub witness: Rebuilt,
    pub told: Arc<Mutex<Told>>,
    draws: u64,
    /// Where the log began when that was last looked at.
    pub trimmed: u64,
    /// Shelves that were lost, and those of them that are not made good.
    pub lost: u64,
    is_lost: [bool; 3],
    compared: u64,
}

fn lists(text: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(key, list)| (key.to_owned(), list.to_owned()))
        .collect()
}

impl Theatre {
    pub fn three(seed: u64) -> Theatre {
        Theatre::of(seed, 3)
    }

    /// So many nodes, of which the first three vote.
    fn of(seed: u64, count: usize) -> Theatre {
        let lists = Guest {
            log: LOG,
            machine: Arc::new(Lists),
            bounds: Bounds {
                kept_bytes_max: 0,
                flush_bytes: 3_000,
                flush_after: 2 * SECOND,
                piece_bytes: 60,
                copy_bytes_per_second: 20_000,
                compare_every: 500 * MS,
                compare_bytes_per_second: 20_000,
                ..Bounds::default()
            },
        };
        Theatre::with(seed, count, &lists)
    }

    /// The same, with this machine.
    pub fn with(seed: u64, count: usize, guest: &Guest) -> Theatre {
        Theatre::made(seed, count, guest, "", small_limits())
    }

    /// The same, with a log that is made so.
    pub fn made(
        seed: u64,
        count: usize,
        guest: &Guest,
        how: &str,
        limits: replica::Limits,
    ) -> Theatre {
        let log = guest.log;
        let hosts = Hosts::in_machine(HOST, move |name| name == log);
        let mut stage = Stage::hosting_within(seed, 3, hosts, limits);
        (3..count).for_each(|_| _ = stage.add_node());
        let witness = Rebuilt::watch(&mut stage, log);
        let models = |node| Models {
            node,
            media: Arc::default(),
            witness: witness.clone(),
        };
        let models: Vec<Models> = (0..count).map(models).collect();
        let mut companions = Vec::new();
        for (index, models) in models.iter().enumerate() {
            let (node, models) = (stage.nodes[index], models.clone());
            let guest = guest.clone();
            let mut starts = 0;
            let companion = stage.world.add_companion(node, HOST, move |_, now| {
                starts += 1;
                let config = HostConfig {
                    others: None,
                    machines: BTreeMap::from([(log.to_owned(), guest.machine.clone())]),
                    shelves: Arc::new(models.clone()),
                    bounds: guest.bounds,
                    seed: seed << 8 | starts,
                };
                Ok(Box::new(Host::new(config, now)) as Box<dyn Process>)
            });
            companions.push(companion.expect("it starts"));
        }
        done(&mut stage, &format!("create-log {log} kind=state{how}"));
        stage.pass(SECOND);
        Theatre {
            stage,
            log,
            hosts: companions,
            models,
            witness,
            told: Arc::default(),
            trimmed: 0,
            lost: 0,
            is_lost: [false; 3],
            compared: 0,
            draws: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.draws ^= self.draws << 13;
        self.draws ^= self.draws >> 7;
        self.draws ^= self.draws << 17;
        self.draws % end
    }

    /// A client at that node asks something drawn.
    pub fn ask(&mut self, index: usize) {
        let key = KEYS[self.below(3) as usize];
        let now = self.stage.world.now();
        let kind = self.below(10);
        let chosen = self.witness.frames();
        let (told, witness) = (self.told.clone(), self.witness.clone());
        let entry = {
            let mut told = told.lock().unwrap();
            told.asked += 1;
            told.outstanding += 1;
            format!("e{}", told.asked)
        };
        let what = match kind {
            0..=5 => {
                let command = match kind {
                    0..=2 => format!("add {key} {entry}"),
                    3 | 4 => format!("get {key}"),
                    _ => "all".to_owned(),
                };
                let adds = kind <= 2;
                let replier = Replier::new(move |outcome| {
                    let mut told = told.lock().unwrap();
                    told.outstanding -= 1;
                    match outcome {
                        Outcome::Chosen(answer) => {
                            let lists = match kind {
                                5 => lists(&answer),
                                _ => BTreeMap::from([(
                                    key.to_owned(),
                                    String::from_utf8(answer).unwrap(),
                                )]),
                            };
                            let answered = told.now;
                            told.answers.push(Answer {
                                asked: now,
                                answered,
                                lists,
                            });
                            if adds {
                                witness.on_answered(key, &entry);
                                told.added.insert(entry);
                            }
                        }
                        Outcome::NotLeader { .. } | Outcome::NotNow(_) => {
                            told.never.insert(entry);
                        }
                        Outcome::Unknown => told.unknown += 1,
                        other => panic!("{other:?}"),
                    }
                });
                What::Call {
                    order: None,
                    command: Command::Plain(command.into_bytes()),
                    replier,
                }
            }
            _ => What::Look {
                look: Look::new(move |view| {
                    let mut told = told.lock().unwrap();
                    told.outstanding -= 1;
                    if let Ok(view) = view {
                        witness.on_shown(index, chosen, view);
                        let mut lists = all(view);
                        told.torn += u64::from(is_torn(&lists));
                        lists.retain(|key, _| !key.contains('-'));
                        let answered = told.now;
                        told.looks += 1;
                        told.answers.push(Answer {
                            asked: now,
                            answered,
                            lists,
                        });
                    }
                }),
                stale: false,
            },
        };
        self.write(index, what);
    }

    /// A client at that node asks this.
    pub fn write(&mut self, index: usize, what: What) {
        let machine = self.log.to_owned();
        let letter = Letter::new(Ask { machine, what });
        self.stage.world.write_to(self.hosts[index], letter);
    }

    /// Lets time pass in small steps, so that answers have the time at which they were given, not earlier.
    pub fn pass(&mut self, duration: Duration) {
        let until = self.stage.world.now() + duration;
        while self.stage.world.now() < until {
            self.stage.pass(Duration::from_micros(200));
            self.told.lock().unwrap().now = self.stage.world.now();
            self.witness.check(&self.stage, &self.hosts);
        }
    }

    /// A node dies, and its state is compared with the log as it is left.
    pub fn crash(&mut self, index: usize) {
        self.stage.crash(index);
        self.witness.on_crashed(index);
    }

    /// Its shelf is lost, too, if the others bear that.
    pub fn lose(&mut self, index: usize) {
        self.crash(index);
        if self.may_lose_its_shelf(index) {
            self.lost += 1;
            self.is_lost[index] = true;
            self.models[index].each(Media::damage);
        }
    }

    pub fn strike(&mut self) {
        let index = self.below(3) as usize;
        let node = self.stage.nodes[index];
        match self.below(9) {
            0 | 8 if self.stage.world.is_running(node) => self.lose(index),
            1 | 2 => {
                let leader = self.leader().unwrap_or(index);
                self.stage.isolate(leader);
            }
            3 => {
                let leader = self.leader().unwrap_or(index);
                for other in (0..3).filter(|other| *other != leader) {
                    self.stage.cut(other, leader);
                }
            }
            4 => {
                let pause = MS * (1 + self.below(3_000) as u32);
                self.stage.world.pause(node, pause);
            }
            5 => self.models[index].each(|media| media.fill(true)),
            6 => {
                let leader = self.leader().unwrap_or(index);
                if self.stage.world.is_running(self.stage.nodes[leader]) {
                    self.crash(leader);
                }
            }
            _ => {}
        }
    }

    /// Whether the others bear it: a second loss before the first is made good is more than three replicas do.
    fn may_lose_its_shelf(&mut self, index: usize) -> bool {
        let look = self.stage.look();
        let views = (0..3).filter_map(|index| look.view_of(index, self.log));
        let trimmed = views.map(|view| replica::forgotten_bytes(view.state)).max();
        self.trimmed = trimmed.unwrap_or(0).max(self.trimmed);
        for other in 0..3 {
            let models = self.models[other].media.lock().unwrap();
            let stands =
                |media: &Media| media.durable().position >= self.trimmed && !media.has(b"c");
            self.is_lost[other] &= !models.values().all(stands);
        }
        (0..3).all(|other| other == index || !self.is_lost[other])
    }

    pub fn mend(&mut self) {
        self.stage.world.heal_all();
        for index in 0..3 {
            self.models[index].each(|media| media.fill(false));
            if !self.stage.world.is_running(self.stage.nodes[index]) {
                self.stage.restart(index);
            }
        }
    }

    /// Writes at that node for so long that marks are taken and compared.
    pub fn ask_for_days(&mut self, index: usize) {
        for _ in 0..300 {
            self.ask(index);
            self.pass(5 * MS);
        }
        self.pass(3 * SECOND);
    }

    /// The nodes that differ from a leader, by its word, and how often replicas were compared since their nodes began.
    fn comparison(&self) -> (Vec<NodeId>, u64) {
        let look = self.stage.look();
        let views = (0..3).filter_map(|index| look.view_of(index, LOG));
        let comparisons = views.map(|view| view.comparison());
        comparisons.fold((Vec::new(), 0), |(mut all, count), (differ, compared)| {
            all.extend(differ);
            (all, count + compared)
        })
    }

    /// All states are the same in the end, and what clients were told is so.
    pub fn judge(&mut self, seed: u64) {
        let (differ, compared) = self.comparison();
        assert_eq!(differ, [], "seed {seed}");
        self.compared += compared;
        let shelves = self.shelves();
        assert_eq!(shelves[0], shelves[1], "seed {seed}");
        assert_eq!(shelves[1], shelves[2], "seed {seed}");
        self.told.lock().unwrap().judge(&shelves[0], seed);
        self.witness.judge(&[0, 1, 2]);
    }

    pub fn leader(&self) -> Option<usize> {
        (0..3).find(|index| leads(&self.stage, *index, self.log))
    }

    /// The lists of each node, as its shelf has them.
    fn shelves(&mut self) -> Vec<BTreeMap<String, String>> {
        let shelves = (0..3).map(|index| self.shelf(index).expect("it is open"));
        shelves.collect()
    }

    pub fn shelf(&mut self, index: usize) -> Result<BTreeMap<String, String>, String> {
        let found: Arc<Mutex<Option<_>>> = Arc::default();
        let kept = found.clone();
        let look = Look::new(move |view| {
            *kept.lock().unwrap() = Some(view.map(all));
        });
        self.write(index, What::Look { look, stale: true });
        self.pass(SECOND);
        let found = found.lock().unwrap().take();
        found.expect("it answers")
    }
}

fn all(view: &View<'_>) -> BTreeMap<String, String> {
    let rows = view.prefix(b"", 100).expect("memory does not fail").rows;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    rows.into_iter()
        .map(|(key, list)| (text(key), text(list)))
        .collect()
}

/// Whether a list and the rows that come and go with it are not of one moment.
fn is_torn(rows: &BTreeMap<String, String>) -> bool {
    KEYS.iter().any(|key| {
        let count = rows.get(*key).map_or(0, |list| list.matches(',').count());
        let number = |row: &String| row.strip_prefix(key)?.strip_prefix('-')?.parse().ok();
        let numbers: Vec<usize> = rows.keys().filter_map(number).collect();
        let is_of_it = |number: &usize| *number <= count && number + 3 > count;
        numbers.len() != count.min(3) || !numbers.iter().all(is_of_it)
    })
}

fn id_of(stage: &Stage, index: usize) -> NodeId {
    stage.look().node(index).expect("it runs").id()
}

pub fn leads(stage: &Stage, index: usize, log: &str) -> bool {
    let look = stage.look();
    let view = look.view_of(index, log);
    view.is_some_and(|view| matches!(view.role, Role::Leader { .. }))
}

impl Told {
    fn judge(&self, last: &BTreeMap<String, String>, seed: u64) {
        assert_eq!(
            self.torn, 0,
            "seed {seed}: readers were shown no one moment"
        );
        let whole = |key: &str| last.get(key).map_or("", String::as_str);
        let entries: Vec<&str> = KEYS
            .iter()
            .flat_map(|key| whole(key).split_terminator(','))
            .collect();
        let there: BTreeSet<&str> = entries.iter().copied().collect();
        assert_eq!(there.len(), entries.len(), "seed {seed}: done twice");
        for added in &self.added {
            assert!(
                there.contains(added.as_str()),
                "seed {seed}: {added} is lost"
            );
        }
        for never in &self.never {
            assert!(
                !there.contains(never.as_str()),
                "seed {seed}: {never} was done, and it was said that it never would be"
            );
        }
        for answer in &self.answers {
            for (key, list) in &answer.lists {
                assert!(
                    whole(key).starts_with(list.as_str()),
                    "seed {seed}: {key} was shown as {list}, and is {}",
                    whole(key)
                );
            }
        }
        // A reader of all lists is shown one moment: of two such answers one is later in every list.
        let whole_answers = self
            .answers
            .iter()
            .filter(|answer| answer.lists.len() == KEYS.len());
        let mut lengths: Vec<[usize; 3]> = whole_answers
            .map(|answer| KEYS.map(|key| answer.lists[key].len()))
            .collect();
        lengths.sort_by_key(|lengths| lengths.iter().sum::<usize>());
        for pair in lengths.windows(2) {
            assert!(
                (0..3).all(|key| pair[0][key] <= pair[1][key]),
                "seed {seed}: {pair:?} are of no one moment each"
            );
        }
        for key in KEYS {
            let of_key = |answer: &Answer| answer.lists.get(key).map(String::len);
            let mut by_answer: Vec<&Answer> = self.answers.iter().collect();
            by_answer.sort_by_key(|answer| answer.answered);
            let mut by_question: Vec<&Answer> = self.answers.iter().collect();
            by_question.sort_by_key(|answer| answer.asked);
            let (mut longest, mut before) = (0, by_answer.into_iter().peekable());
            for answer in by_question {
                while let Some(earlier) = before.next_if(|earlier| earlier.answered < answer.asked)
                {
                    longest = longest.max(of_key(earlier).unwrap_or(0));
                }
                // Whoever names no key may have been shown all of them.
                if answer.lists.len() != 1 || answer.lists.contains_key(key) {
                    let shown = of_key(answer).unwrap_or(0);
                    assert!(
                        shown >= longest,
                        "seed {seed}: {key} is {shown} long, and was {longest} before that was asked"
                    );
                }
            }
        }
    }
}

/// Whatever is answered is there, what was said not to be done is not, and no answer is older than its question.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn lists_on_shelves_are_as_was_said_whatever_fails() {
    let (mut added, mut looks, mut unknown, mut never) = (0, 0, 0, 0);
    let (mut lost, mut trimmed) = (0, 0);
    for seed in 0..12 {
        let mut theatre = Theatre::three(seed);
        for _ in 0..12 {
            for _ in 0..40 {
                let index = match theatre.below(3) {
                    0 => theatre.below(3) as usize,
                    _ => theatre.leader().unwrap_or(0),
                };
                if theatre.stage.world.is_running(theatre.hosts[index]) {
                    theatre.ask(index);
                }
                let us = 200 * (1 + theatre.below(8));
                theatre.pass(Duration::from_micros(us));
            }
            theatre.strike();
            for _ in 0..40 {
                let index = theatre.below(3) as usize;
                if theatre.stage.world.is_running(theatre.hosts[index]) {
                    theatre.ask(index);
                }
                let us = 200 * (1 + theatre.below(200));
                theatre.pass(Duration::from_micros(us));
            }
            if theatre.below(2) == 0 {
                theatre.strike();
                theatre.pass(300 * MS);
            }
            theatre.mend();
            // States are copied while others go on.
            for _ in 0..160 {
                let index = theatre.leader().unwrap_or(0);
                theatre.ask(index);
                let us = 200 * (1 + theatre.below(40));
                theatre.pass(Duration::from_micros(us));
            }
            theatre.pass(400 * MS);
        }
        theatre.pass(12 * SECOND);
        theatre.judge(seed);
        (lost, trimmed) = (lost + theatre.lost, trimmed + theatre.trimmed);
        let told = theatre.told.lock().unwrap();
        added += told.added.len();
        never += told.never.len();
        (looks, unknown) = (looks + told.looks, unknown + told.unknown);
    }
    println!("{added} added, {never} never, {unknown} unknown, {looks} looks");
    println!("{lost} shelves lost, {trimmed} bytes trimmed");
    assert!(
        lost > 5 && trimmed > 10_000,
        "{lost} lost, {trimmed} trimmed"
    );
    assert!(added > 500 && looks > 500, "{added} added, {looks} looks");
}

/// A replica whose shelf was lost copies the state of another, which may lag, while everybody writes and reads.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn states_are_copied_while_their_log_goes_on() {
    let (mut copied, mut compared) = (0, 0);
    for seed in 100..106 {
        let mut theatre = Theatre::three(seed);
        for round in 0..6 {
            let leader = theatre.leader().expect("somebody leads");
            let victim = (leader + 1 + round % 2) % 3;
            let other = 3 - leader - victim;
            theatre.crash(victim);
            theatre.models[victim].each(Media::damage);
            for _ in 0..60 {
                theatre.ask(leader);
                theatre.pass(MS);
            }
            theatre.stage.restart(victim);
            for step in 0..1_500 {
                match step % 100 {
                    30 => theatre.stage.cut(other, leader),
                    70 => theatre.stage.world.heal_all(),
                    _ => {}
                }
                let index = [leader, leader, victim, other][theatre.below(4) as usize];
                theatre.ask(index);
                let us = 200 * (1 + theatre.below(20));
                theatre.pass(Duration::from_micros(us));
            }
            let host = theatre.stage.world.machine::<Host>(theatre.hosts[victim]);
            let mut groups = host.expect("it runs").groups();
            copied += groups.next().is_some_and(|group| group.generation() > 0) as u32;
            drop(groups);
            theatre.pass(3 * SECOND);
        }
        theatre.pass(5 * SECOND);
        theatre.judge(seed);
        compared += theatre.compared;
    }
    println!("{copied} copies, {compared} states compared");
    assert!(copied > 20 && compared > 50, "{copied} copies, {compared}");
}

/// A row of one state is another on its disk, and no checksum says so. The replicas' marks do.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_state_that_differs_is_told_of_until_it_is_made_anew() {
    let mut theatre = Theatre::three(5);
    let leader = theatre.leader().expect("somebody leads");
    let victim = (leader + 1) % 3;
    let go_on = |theatre: &mut Theatre| theatre.ask_for_days(leader);
    go_on(&mut theatre);
    let (differ, compared) = theatre.comparison();
    assert!(differ.is_empty() && compared > 2, "{differ:?}, {compared}");
    theatre.crash(victim);
    theatre.models[victim].each(|media| media.alter(b"zz", b"1"));
    theatre.witness.expect_findings();
    theatre.stage.restart(victim);
    go_on(&mut theatre);
    let victims = id_of(&theatre.stage, victim);
    assert_eq!(theatre.comparison().0, [victims]);
    let found = theatre.witness.take_findings();
    assert!(
        found.contains("zz is \"1\""),
        "the witness sees it, too: {found}"
    );
    theatre.witness.expect_findings();
    theatre.crash(victim);
    theatre.models[victim].each(Media::clear);
    theatre.witness.take_findings();
    theatre.stage.restart(victim);
    // It is whole by the end of the first, and marks of it are compared in the second.
    go_on(&mut theatre);
    go_on(&mut theatre);
    assert_eq!(theatre.comparison().0, []);
    theatre.judge(5);
}

/// ‡ A follower's state differs, and the other follower loses its own: it copies the leader's. Then the wrong one is to lead, and
/// hands over, since a quorum contradicts it.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_state_that_differs_is_given_to_nobody() {
    let mut theatre = Theatre::three(5);
    let leader = theatre.leader().expect("somebody leads");
    let (wrong, lost) = ((leader + 1) % 3, (leader + 2) % 3);
    theatre.ask_for_days(leader);
    theatre.crash(wrong);
    theatre.models[wrong].each(|media| media.alter(b"zz", b"1"));
    theatre.witness.expect_findings();
    theatre.stage.restart(wrong);
    theatre.ask_for_days(leader);
    assert_eq!(theatre.comparison().0, [id_of(&theatre.stage, wrong)]);
    // All start again, one after the other: who is in doubt stays so.
    for index in [leader, wrong, lost] {
        theatre.crash(index);
        theatre.stage.restart(index);
        theatre.pass(2 * SECOND);
    }
    theatre.crash(lost);
    theatre.models[lost].each(Media::clear);
    theatre.stage.restart(lost);
    theatre.pass(10 * SECOND);
    let copied = theatre.shelf(lost).expect("it is whole again");
    assert_eq!(copied.get("zz"), None, "the wrong row was copied");
    theatre.ask_for_days(leader);
    assert_eq!(theatre.comparison().0, [id_of(&theatre.stage, wrong)]);
    let wrong_id = id_of(&theatre.stage, wrong);
    let leads = (0..3).find(|index| leads(&theatre.stage, *index, LOG));
    let caller = leads.map(|leads| {
        let moves = format!("lead {LOG} to={}", wrong_id.0);
        theatre.stage.call(leads, &moves)
    });
    theatre.pass(10 * SECOND);
    let answer = caller.map(|caller| caller.text()).unwrap_or_default();
    assert!(answer.starts_with("ok"), "{answer}");
    let leads = theatre.leader().expect("somebody leads");
    assert_ne!(leads, wrong, "a quorum contradicts it");
    theatre.witness.take_findings();
}

/// ‡ What was answered and trimmed is durable in a quorum of states. Here one alone can flush, and loses its shelf; then all crash.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_log_is_not_trimmed_behind_one_state() {
    let mut theatre = Theatre::three(7);
    let leader = theatre.leader().expect("somebody leads");
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    for other in others {
        theatre.models[other].each(|media| media.fill(true));
    }
    for _ in 0..400 {
        theatre.ask(leader);
        theatre.pass(MS);
    }
    theatre.pass(3 * SECOND);
    (0..3).for_each(|index| theatre.crash(index));
    theatre.models[leader].each(Media::damage);
    for other in others {
        theatre.models[other].each(|media| media.fill(false));
    }
    (0..3).for_each(|index| theatre.stage.restart(index));
    theatre.pass(10 * SECOND);
    assert!(theatre.told.lock().unwrap().added.len() > 50);
    theatre.judge(7);
}

/// ‡ A log was trimmed behind three states. Then one of them can flush no more, and the two others durably stand where the log is not
/// trimmed yet. One of these is switched off, and its state is lost meanwhile. The log grows; then the leader loses its state, too. Nobody
/// trimmed on the word of the one who was off: the third goes on from where it stood.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_word_on_a_state_ends_with_its_process() {
    let mut theatre = Theatre::three(17);
    let leader = theatre.leader().expect("somebody leads");
    let (away, full) = ((leader + 1) % 3, (leader + 2) % 3);
    let grow = |theatre: &mut Theatre, to: u64| {
        while output(theatre, leader) < to {
            theatre.ask(leader);
            theatre.pass(MS);
        }
        theatre.pass(3 * SECOND);
    };
    grow(&mut theatre, 1_800);
    let before = trimmed(&theatre, leader);
    assert!(before >= 1_000, "{before}");
    theatre.models[full].each(|media| media.fill(true));
    // Not so much that the log is trimmed beyond the third.
    grow(&mut theatre, before + 1_700);
    assert_eq!(trimmed(&theatre, leader), before);
    for index in [leader, away] {
        theatre.models[index].each(|media| {
            let durable = media.durable();
            assert!(durable.position - u64::from(durable.frame_bytes) > before + 1_000);
        });
    }
    theatre.crash(away);
    theatre.models[away].each(Media::clear);
    // Its silence is noticed.
    theatre.pass(3 * SECOND);
    grow(&mut theatre, before + 6_000);
    (0..3).for_each(|index| theatre.crash(index));
    theatre.models[leader].each(Media::damage);
    theatre.models[full].each(|media| media.fill(false));
    (0..3).for_each(|index| theatre.stage.restart(index));
    theatre.pass(10 * SECOND);
    assert!(theatre.told.lock().unwrap().added.len() > 20);
    theatre.judge(17);
}

/// The place up to which its replica forgot the log's output.
fn trimmed(theatre: &Theatre, index: usize) -> u64 {
    let look = theatre.stage.look();
    let view = look.view_of(index, LOG);
    view.map_or(0, |view| replica::forgotten_bytes(view.state))
}

/// The bytes that its replica of the log put out.
fn output(theatre: &Theatre, index: usize) -> u64 {
    let look = theatre.stage.look();
    let view = look.view_of(index, LOG);
    view.map_or(0, |view| {
        replica::forgotten_bytes(view.state) + replica::output_bytes(view.state)
    })
}

/// ‡ A trim passed what is durable on two nodes, A and C. C is to be replaced by D, which cannot flush; A loses its shelf, and
/// all crash. As long as D does not durably have what was trimmed, C stays.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_member_stays_until_the_states_of_others_do_without_it() {
    let mut theatre = Theatre::of(11, 4);
    let a = theatre.leader().expect("somebody leads");
    let (b, c, d) = ((a + 1) % 3, (a + 2) % 3, 3);
    for index in [b, d] {
        theatre.models[index].each(|media| media.fill(true));
    }
    for _ in 0..400 {
        theatre.ask(a);
        theatre.pass(MS);
    }
    theatre.pass(3 * SECOND);
    let trimmed = |theatre: &Theatre| {
        let look = theatre.stage.look();
        look.view_of(a, LOG)
            .map(|view| replica::forgotten_bytes(view.state))
    };
    assert!(trimmed(&theatre) > Some(1_000), "{:?}", trimmed(&theatre));
    let [member, new] = [c, d].map(|index| id_of(&theatre.stage, index));
    let replaces = format!("change-members replace {} {}", member.0, new.0);
    let directs = (0..3).find(|index| leads(&theatre.stage, *index, "directory"));
    let caller = theatre
        .stage
        .call(directs.expect("somebody does"), &replaces);
    theatre.pass(10 * SECOND);
    assert!(caller.text().starts_with("ok"), "{}", caller.text());
    let look = theatre.stage.look();
    let view = look.view_of(a, LOG);
    let is_member = view.is_some_and(|view| view.state.configuration.contains(member));
    (0..4).for_each(|index| theatre.crash(index));
    theatre.models[a].each(Media::damage);
    for index in [b, d] {
        theatre.models[index].each(|media| media.fill(false));
    }
    // A node that is no member any more is switched off for good.
    for index in (0..4).filter(|index| *index != c || is_member) {
        theatre.stage.restart(index);
    }
    theatre.pass(15 * SECOND);
    let lists = theatre.shelf(b).expect("its state is whole");
    {
        let told = theatre.told.lock().unwrap();
        assert!(told.added.len() > 50);
        told.judge(&lists, 11);
    }
    theatre.witness.judge(&[a, b, d]);
}

/// All start again with states that stand at the end of their log: nothing is handed to them. A command that only reads is answered.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_command_that_reads_is_answered_though_nothing_was_written_since_all_started() {
    let mut theatre = Theatre::three(18);
    let read = |theatre: &mut Theatre, command: &str| {
        let leader = theatre.leader().expect("somebody leads");
        let outcome: Arc<Mutex<Option<Outcome>>> = Arc::default();
        let kept = outcome.clone();
        let what = What::Call {
            order: None,
            command: Command::Plain(command.as_bytes().to_vec()),
            replier: Replier::new(move |outcome| *kept.lock().unwrap() = Some(outcome)),
        };
        theatre.write(leader, what);
        theatre.pass(5 * SECOND);
        outcome.lock().unwrap().take()
    };
    let chosen = Some(Outcome::Chosen(b"e1,".to_vec()));
    assert_eq!(read(&mut theatre, "add a e1"), chosen);
    for index in 0..3 {
        theatre.models[index].each(|media| assert!(media.durable().position > 0));
        theatre.crash(index);
    }
    (0..3).for_each(|index| theatre.stage.restart(index));
    theatre.pass(5 * SECOND);
    assert_eq!(read(&mut theatre, "get a"), chosen);
    theatre.judge(18);
}

/// A command that makes the machine panic is refused, and the machine goes on.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_machine_that_panics_refuses_one_command() {
    let mut theatre = Theatre::three(3);
    let leader = theatre.leader().expect("somebody leads");
    let outcomes: Arc<Mutex<Vec<Outcome>>> = Arc::default();
    for command in ["add a e1", "panic", "get a"] {
        let kept = outcomes.clone();
        let what = What::Call {
            order: None,
            command: Command::Plain(command.as_bytes().to_vec()),
            replier: Replier::new(move |outcome| kept.lock().unwrap().push(outcome)),
        };
        theatre.write(leader, what);
        theatre.pass(SECOND);
    }
    let outcomes = outcomes.lock().unwrap();
    let why = "the command made the machine panic: it was asked to";
    let expected = [
        Outcome::Chosen(b"e1,".to_vec()),
        Outcome::Refused(why.to_owned()),
        Outcome::Chosen(b"e1,".to_vec()),
    ];
    assert_eq!(*outcomes, expected);
}
