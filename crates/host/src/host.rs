//! The host: a machine beside a node, in the same process, with all groups of that node.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use formats::LogId;
use letters::{Elsewhere, News, SlotsCurrent, SlotsMapped, ToHost, ToNode, Wish};
use paxos::NodeId;
use slots::Map;

use ops::{Completion, Letter, MachineId, Op, Time, Token};

use crate::bounds::Bounds;
use crate::group::{Call, Glance, Group, Job, Out, Replier, Share};
use crate::jobs::{Came, Look, Shelves};
use crate::machine::{Command, Machine, Outcome};
use crate::room::{Room, SIZES, Size};

/// The wall clock is asked so often.
const CLOCK_EVERY: Duration = Duration::from_secs(1);
/// States are looked after as often, as the clock comes.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// A caller waits so long for his log to appear here.
const APPEAR: Duration = Duration::from_millis(1_800);

/// The token of the ops that are no job.
const CLOCK: Token = Token(0);

/// The parts that a host is made with.
pub struct HostConfig {
    /// By the names of logs.
    pub machines: BTreeMap<String, Arc<dyn Machine>>,
    /// That of all other logs that are hosted here.
    pub others: Option<Arc<dyn Machine>>,
    pub shelves: Arc<dyn Shelves>,
    pub bounds: Bounds,
    /// 8 bytes that nobody can predict, or a simulation's.
    pub seed: u64,
}

/// A question from outside: a letter to the host, from any thread.
pub struct Ask {
    /// The name of the log.
    pub machine: String,
    pub what: What,
}

pub enum What {
    Call {
        command: Command,
        replier: Replier,
        /// ‡ Calls of one order are executed in the order in which they came. They are dropped when [it is forgotten](Host::forget_order).
        order: Option<u64>,
    },
    /// Looks at the state: with all that was chosen before this came, or (`stale`) as it is here now.
    Look { look: Look, stale: bool },
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.what {
            What::Call { command, .. } => format!("call of {} bytes", command.bytes()),
            What::Look { stale: false, .. } => "look".to_owned(),
            What::Look { stale: true, .. } => "stale look".to_owned(),
        };
        write!(f, "{what} on {}", self.machine)
    }
}

/// A word between groups: what somebody asks the leader of one of them, or the answer to a question of this host.
#[derive(Debug)]
pub enum Word {
    Asked {
        /// The log of the group that is asked.
        log: LogId,
        by: NodeId,
        request: u64,
        bytes: Vec<u8>,
    },
    Told {
        request: u64,
        bytes: Vec<u8>,
    },
}

/// Words that nobody took yet.
const WORDS_MAX: usize = 1_024;

pub struct Host {
    words: VecDeque<Word>,
    map: Arc<Map>,
    elsewhere: Arc<Elsewhere>,
    /// The questions for a map that is current: those that were asked, and those that are answered.
    map_asked: u64,
    map_current: u64,
    config: HostConfig,
    groups: BTreeMap<LogId, Group>,
    room: Room,
    by_name: BTreeMap<String, LogId>,
    /// They came before their log.
    early: Vec<(Time, Ask)>,
    /// The log that each job is of, and the generation of its state.
    jobs: BTreeMap<Token, (LogId, u64)>,
    tokens: u64,
    /// Grows with all that changes which groups are here, and who leads them.
    changes: u64,
    out: Out,
    ops: VecDeque<Op>,
    now: Time,
    /// The wall clock's last word, and when it came.
    wall: Option<(Duration, Time)>,
    clock_at: Time,
    look_at: Time,
    stopping: bool,
}

impl Host {
    pub fn new(config: HostConfig, now: Time) -> Host {
        Host {
            words: VecDeque::new(),
            map: Arc::default(),
            elsewhere: Arc::default(),
            map_asked: 0,
            map_current: 0,
            room: Room::new(&config.bounds),
            config,
            groups: BTreeMap::new(),
            by_name: BTreeMap::new(),
            early: Vec::new(),
            jobs: BTreeMap::new(),
            tokens: 0,
            changes: 0,
            out: Out::default(),
            ops: VecDeque::new(),
            now,
            wall: None,
            clock_at: now,
            look_at: now + LOOK_EVERY,
            stopping: false,
        }
    }

    fn on_letter(&mut self, letter: Letter) {
        let letter = match letter.open::<ToHost>() {
            Ok(ToHost {
                log,
                attached,
                what,
            }) => return self.on_news(log, attached, what),
            Err(letter) => letter,
        };
        let letter = match letter.open::<SlotsMapped>() {
            Ok(SlotsMapped { map, elsewhere }) => {
                self.map = map;
                self.elsewhere = elsewhere;
                self.changes += 1;
                return;
            }
            Err(letter) => letter,
        };
        let letter = match letter.open::<SlotsCurrent>() {
            Ok(SlotsCurrent { number }) => {
                self.map_current = self.map_current.max(number);
                return;
            }
            Err(letter) => letter,
        };
        match letter.open::<Ask>() {
            Ok(ask) => self.on_ask(self.now, ask),
            Err(letter) => tracing::debug!(?letter, "a letter that nobody here reads"),
        }
    }

    fn on_news(&mut self, log: LogId, attached: u64, news: News) {
        let news = match news {
            News::GroupAsked { by, request, bytes } => {
                let word = Word::Asked {
                    log,
                    by,
                    request,
                    bytes,
                };
                return self.hear(word);
            }
            News::GroupTold { request, bytes } => return self.hear(Word::Told { request, bytes }),
            news => news,
        };
        if matches!(news, News::AreYouThere) {
            self.wish(log, Wish::Here);
        }
        self.changes += u64::from(matches!(
            news,
            News::Appeared { .. } | News::Gone | News::Leader { .. }
        ));
        if let News::Appeared {
            name,
            cluster,
            own,
            is_auxiliary,
        } = news
        {
            let machine = self.config.machines.get(&name);
            let Some(machine) = machine.or(self.config.others.as_ref()) else {
                return;
            };
            let group = Group::new(
                (log, name.clone()),
                (cluster, own, is_auxiliary),
                machine.clone(),
                self.config.shelves.clone(),
                (self.config.bounds, self.room.clone()),
                self.config.seed ^ u64::from(log.0) << 32,
                &mut self.out,
            );
            self.by_name.insert(name, log);
            self.groups.insert(log, group);
            for (since, ask) in std::mem::take(&mut self.early) {
                self.on_ask(since, ask);
            }
            return;
        }
        let is_gone = matches!(news, News::Gone);
        if let Some(group) = self.groups.get_mut(&log) {
            group.on_news(self.now, attached, news, &mut self.out);
            if is_gone {
                self.by_name.remove(group.name());
                self.groups.remove(&log);
            }
        }
    }

    /// Asks something, as a letter would.
    pub fn ask(&mut self, now: Time, ask: Ask) {
        self.on_ask(now, ask);
    }

    /// Drops the calls of this order that are not executed: whoever asked is gone, and what he asks again would be done twice.
    pub fn forget_order(&mut self, order: u64) {
        for group in self.groups.values_mut() {
            group.forget_order(order);
        }
        let is_other =
            |ask: &Ask| !matches!(&ask.what, What::Call { order: own, .. } if *own == Some(order));
        self.early.retain(|(_, ask)| is_other(ask));
    }

    /// The door holds so many bytes that clients have not taken: of middling answers, and of [large ones](crate::LARGE_ANSWER_BYTES). It says so
    /// before each round: further answers have room beside these.
    pub fn hold_unread(&mut self, of_middling: usize, of_large: usize) {
        self.room.set_unread(Size::Middling, of_middling);
        self.room.set_unread(Size::Large, of_large);
    }

    /// The bytes of answers of middling size that a node has room for, and those of large ones.
    pub fn answers_bytes_max(&self) -> [usize; 2] {
        self.config.bounds.answers_bytes_max
    }

    /// Whether a command waits until its answer has room.
    pub fn waits_for_room(&self) -> bool {
        SIZES
            .into_iter()
            .any(|size| self.first_without_room(size).is_some())
    }

    /// Whether one does that is of another order: what that order holds keeps others from theirs.
    pub fn others_wait_for_room(&self, order: u64) -> bool {
        let mut groups = self.groups.values();
        groups.any(|group| group.others_wait_for_room(order))
    }

    /// The first command of all groups that waits for room for an answer of this size: its log, and how much it needs.
    fn first_without_room(&self, size: Size) -> Option<(LogId, usize)> {
        if !self.room.is_awaited(size) {
            return None;
        }
        let first = |(log, group): (&LogId, &Group)| {
            let (since, bytes) = group.waits_for_room(size)?;
            Some((since, *log, bytes))
        };
        let (_, log, bytes) = self.groups.iter().filter_map(first).min()?;
        Some((log, bytes))
    }

    /// Lets commands go on that waited for room, in the order in which they came, as far as there is.
    fn let_in(&mut self, size: Size) {
        while self.room.is_awaited(size) {
            let Some((log, bytes)) = self.first_without_room(size) else {
                return self.room.set_awaited(size, false);
            };
            if !self.room.has(bytes) {
                return;
            }
            if let Some(group) = self.groups.get_mut(&log) {
                group.let_in(size);
            }
        }
    }

    fn on_ask(&mut self, since: Time, ask: Ask) {
        let group = self.by_name.get(&ask.machine);
        let Some(group) = group.and_then(|log| self.groups.get_mut(log)) else {
            if !self.config.machines.contains_key(&ask.machine) && self.config.others.is_none() {
                return refuse(ask, "no machine of this name was given to this node");
            }
            return self.early.push((since, ask));
        };
        match ask.what {
            What::Call {
                command,
                replier,
                order,
            } => group.call(Call {
                command,
                replier,
                since,
                order,
                aside: None,
            }),
            What::Look { look, stale } => group.glance(Glance { look, since, stale }),
        }
    }

    fn give_up_early(&mut self) {
        let now = self.now;
        for (_, ask) in self
            .early
            .extract_if(.., |(since, _)| now >= *since + APPEAR)
        {
            let why = "its log is not here: this node has not joined yet, or the log was deleted, or is of another kind; `logberg log show` tells, and `logberg log create NAME --kind state` makes an empty one";
            refuse(ask, why);
        }
    }

    /// Hands out what groups want.
    fn hand_out(&mut self) {
        for wish in self.out.wishes.drain(..) {
            self.ops.push_back(Op::Post {
                to: MachineId::NODE,
                letter: Letter::new(wish),
            });
        }
        for Job {
            log,
            generation,
            lane,
            work,
        } in self.out.jobs.drain(..)
        {
            self.tokens += 1;
            let token = Token(self.tokens);
            self.jobs.insert(token, (log, generation));
            self.ops.push_back(Op::Run { token, lane, work });
        }
    }

    /// The wall clock, in milliseconds since the beginning of 1970, once it was told.
    pub fn wall_ms(&self) -> Option<u64> {
        let (said, at) = self.wall?;
        Some((said + (self.now - at)).as_millis() as u64)
    }

    fn hear(&mut self, word: Word) {
        // Whoever asked asks again.
        if self.words.len() < WORDS_MAX {
            self.words.push_back(word);
        }
    }

    /// The next word between groups that came.
    pub fn take_word(&mut self) -> Option<Word> {
        self.words.pop_front()
    }

    /// Asks the leader of this log's group, wherever it is. There may be no answer.
    pub fn ask_group(&mut self, log: LogId, request: u64, bytes: Vec<u8>) {
        self.wish(log, Wish::AskGroup { request, bytes });
    }

    /// Answers whoever asked this log's group.
    pub fn tell_group(&mut self, log: LogId, to: NodeId, request: u64, bytes: Vec<u8>) {
        let tell = Wish::TellGroup { to, request, bytes };
        self.wish(log, tell);
    }

    /// Wishes something for a log.
    pub fn wish(&mut self, log: LogId, what: Wish) {
        self.out.wishes.push_back(ToNode { log, what });
        self.hand_out();
    }

    /// Which group is to serve which slots, and which one does, as far as this node has read it.
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// Asks for a map that has all that log 0 has chosen by now. It is so once `map_is_current` says so of this number.
    pub fn ask_map(&mut self) -> u64 {
        self.map_asked += 1;
        let number = self.map_asked;
        self.wish(LogId(0), Wish::AskMap { number });
        number
    }

    /// Whether the map has all that log 0 had chosen when `ask_map` gave this number.
    pub fn map_is_current(&self, number: u64) -> bool {
        number <= self.map_current
    }

    /// The groups of which this node has no replica, and where clients find them.
    pub fn elsewhere(&self) -> &Elsewhere {
        &self.elsewhere
    }

    /// A number that grows whenever a group comes or goes, the map of slots changes, or another node is heard to lead one.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The group of the log of this name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(self.by_name.get(name)?)
    }

    /// The groups of this host, by the numbers of their logs.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }
}

fn refuse(ask: Ask, why: &str) {
    match ask.what {
        What::Call { replier, .. } => replier.reply(Outcome::NotNow(why.to_owned())),
        What::Look { look, .. } => _ = look.not(why),
    }
}

impl ops::Machine for Host {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.now = now;
        match completion {
            Completion::Delivered { letter, .. } => self.on_letter(letter),
            Completion::Ran { token, result } => {
                let Some((log, generation)) = self.jobs.remove(&token) else {
                    return;
                };
                let group = self.groups.get_mut(&log);
                // An outcome of a state that was given up since is nobody's.
                let Some(group) = group.filter(|group| group.generation() == generation) else {
                    return;
                };
                match result.map(Letter::open::<Came>) {
                    Ok(Ok(came)) => group.on_came(now, came, &mut self.out),
                    Ok(Err(letter)) => tracing::error!(?letter, "work came to something else"),
                    Err(why) => group.on_panic(&why, &mut self.out),
                }
            }
            Completion::WallClock { since_1970, .. } => {
                self.wall = since_1970.map(|said| (said, now));
            }
            Completion::StopRequested => self.stopping = true,
            _ => {}
        }
    }

    fn on_time(&mut self, now: Time) {
        self.now = now;
        if now >= self.clock_at {
            self.clock_at = now + CLOCK_EVERY;
            self.ops.push_back(Op::WallClock { token: CLOCK });
        }
        let looks = now >= self.look_at;
        if looks {
            self.look_at = now + LOOK_EVERY;
        }
        self.give_up_early();
        let wall_ms = self.wall_ms();
        let leading = self.groups().filter(|group| group.is_leading()).count();
        let bounds = self.config.bounds;
        let share = Share {
            kept_bytes: bounds.kept_bytes_max / leading.max(1),
            flush_bytes: bounds.flush_share(self.groups.len()),
        };
        SIZES.into_iter().for_each(|size| self.let_in(size));
        for group in self.groups.values_mut() {
            group.settle(now, wall_ms, share, &mut self.out);
            if looks {
                group.look_after(&mut self.out);
            }
            if self.stopping {
                group.wind_up(&mut self.out);
            }
        }
        self.hand_out();
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let groups = self.groups.values().filter_map(Group::deadline);
        let early = self.early.iter().map(|(since, _)| *since + APPEAR);
        // It was read by clients since, or given.
        let first = SIZES
            .into_iter()
            .filter_map(|size| self.first_without_room(size));
        let soon = first.filter(|(_, bytes)| self.room.has(*bytes));
        let all = groups.chain(early).chain(soon.map(|_| self.now));
        all.chain([self.clock_at]).min()
    }

    fn is_finished(&self) -> bool {
        self.stopping && self.jobs.is_empty() && self.ops.is_empty()
    }
}
