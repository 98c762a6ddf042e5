//! Clients of Redis Cluster, who speak RESP to the doors of nodes and keep account of what they were told.
//!
//! ```text
//!  plans ─▶ pipelines, transactions, WATCH ─▶ a line to the node that leads, as far as this client knows ─▶ replies in order
//!             ▲                                   │ MOVED, CLUSTERDOWN: not done ─▶ asked anew, or not
//!             └───── retries on a new line ◀──────┘ the line ends without a reply: unknown
//! ```
//!
//! They know the cluster by an old map, follow `MOVED` mostly, close lines in the middle, and lose their patience. What each command came
//! to stands in the account, with the frames that were chosen when it was asked and when its reply came.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use kv::slot_of;
use ops::{Buffer, Completion, ConnId, Machine, Op, Slice, Time};
use resp::{Decoder, Protocol, Value, encode};
use sim::Random;

use crate::rebuilt::Rebuilt;

const RECEIVE_BYTES: usize = 16 << 10;
/// More is not asked on one line before some of it is answered.
const WAITS_MAX: usize = 24;

/// By then it mostly shows what became of a command whose line has ended.
const GONE_AFTER: Duration = Duration::from_millis(300);

const PATIENCE_WHEN_CALM: Duration = Duration::from_secs(8);

pub type Words = Vec<Vec<u8>>;

/// What became of a command, for its client.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    Waits,
    Reply(Value),
    /// The reply says that it was not done.
    Never,
    /// The line ended before a reply.
    Unknown,
}

/// A command, or a transaction.
#[derive(Clone, Debug)]
pub struct Asked {
    pub commands: Vec<Words>,
    pub is_transaction: bool,
    /// The replies that the client had on keys that it watches.
    pub watched: Vec<(Vec<u8>, Value)>,
    pub protocol: Protocol,
    pub slot: u16,
    /// The line, of all lines in this world.
    pub line: u64,
    /// The frames of its group that were chosen when it was asked, and when its reply came.
    pub asked_at: u64,
    pub answered_at: u64,
    /// So many were chosen when the line had ended a while ago: whoever is gone asks no more.
    pub parted_at: Option<u64>,
    pub fate: Fate,
}

#[derive(Default)]
pub struct Account {
    pub all: Vec<Asked>,
    lines: u64,
    /// Their line ended before they were answered.
    parted: Vec<usize>,
    /// By when that was seen.
    gone: VecDeque<(Time, usize)>,
    /// Nobody closes lines, or loses his patience soon: a line to a node that died unheard is silent for ever.
    pub is_calm: bool,
    pub moved: u64,
    pub down: u64,
    pub unknown_when_calm: u64,
}

/// The groups, by their slots, and the doors of nodes.
#[derive(Clone)]
pub struct Place {
    pub groups: Vec<(u16, u16, Rebuilt)>,
    pub doors: Vec<String>,
    pub tags: Vec<&'static str>,
}

impl Account {
    /// Notes for the lines that ended a while ago what is chosen by now.
    pub fn note_parted(&mut self, now: Time, place: &Place) {
        self.gone
            .extend(self.parted.drain(..).map(|number| (now, number)));
        while let Some((_, number)) = self.gone.pop_front_if(|(at, _)| *at + GONE_AFTER < now) {
            let asked = &mut self.all[number];
            asked.parted_at = Some(place.frames(asked.slot));
        }
    }
}

impl Place {
    pub fn group_of(&self, slot: u16) -> usize {
        let holds = |(first, last, _): &(u16, u16, Rebuilt)| (*first..=*last).contains(&slot);
        self.groups
            .iter()
            .position(holds)
            .expect("all slots are served")
    }

    fn frames(&self, slot: u16) -> u64 {
        self.groups[self.group_of(slot)].2.frames()
    }
}

/// What the next reply of a line is for.
enum Wait {
    /// MULTI, QUEUED, HELLO.
    Aside,
    Command(usize),
    /// WATCH, and the look at the key that follows it.
    Watch,
    Look(usize),
}

struct Line {
    conn: ConnId,
    number: u64,
    heard: Vec<u8>,
    decoder: Decoder,
    waits: VecDeque<Wait>,
    /// The line is given up then, if nothing came before.
    until: Time,
    close_at: Option<Time>,
    /// A transaction follows once this key is looked at.
    watches: Option<Vec<u8>>,
    looked: Option<Value>,
    /// It was opened when all was calm.
    is_of_calm: bool,
}

pub struct Patron {
    random: Random,
    place: Place,
    account: Rc<RefCell<Account>>,
    protocol: Protocol,
    /// By group: the node that leads it, as this client knows.
    map: Vec<usize>,
    lines: BTreeMap<usize, Line>,
    conns: u64,
    plans: u32,
    pace_us: u64,
    next_at: Time,
    again: VecDeque<(Time, Asked)>,
    ops: VecDeque<Op>,
    tokens: u64,
    name: u64,
}

fn words(text: &str) -> Words {
    text.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

pub fn request(words: &Words) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&Value::bulks(words.clone()), Protocol::Resp2, &mut bytes);
    bytes
}

impl Patron {
    pub fn new(
        name: u64,
        seed: u64,
        plans: u32,
        place: Place,
        account: &Rc<RefCell<Account>>,
    ) -> Patron {
        let mut random = Random::new(seed);
        let map = place
            .groups
            .iter()
            .map(|_| random.below(3) as usize)
            .collect();
        Patron {
            protocol: match name % 3 {
                0 => Protocol::Resp3,
                _ => Protocol::Resp2,
            },
            random,
            place,
            account: account.clone(),
            map,
            lines: BTreeMap::new(),
            conns: 0,
            plans,
            pace_us: 1_000 << (2 * (name % 4)),
            next_at: Time::ZERO,
            again: VecDeque::new(),
            ops: VecDeque::new(),
            tokens: 0,
            name,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    fn calm(&self) -> bool {
        self.account.borrow().is_calm
    }

    /// Nobody else writes it.
    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("<{}.{}>", self.name, self.tokens)
    }

    fn value(&mut self) -> String {
        let pad = match self.below(8) {
            0 => 300 + self.below(900),
            _ => self.below(6),
        };
        self.token() + &"v".repeat(pad as usize)
    }

    /// A command on keys of this tag, whatever stands there.
    fn command(&mut self, tag: &str) -> String {
        let value = self.value();
        let (m, n) = (self.below(6), self.below(5) as i64 - 2);
        let ms = 20 + self.below(3_000);
        let string = ["s", "t"][self.below(2) as usize];
        let any = ["s", "t", "c", "h", "l", "m", "e", "f", "z"][self.below(9) as usize];
        let other = ["s", "t", "c", "h", "l", "m", "e", "f", "z"][self.below(9) as usize];
        let key = |name: &str| format!("{{{tag}}}{name}");
        let (s, any, other) = (key(string), key(any), key(other));
        let (c, h, l, l2, e, f, z) = (
            key("c"),
            key("h"),
            key("l"),
            key("m"),
            key("e"),
            key("f"),
            key("z"),
        );
        match self.below(60) {
            0 | 1 => format!("SET {s} {value}"),
            2 => format!("SET {s} {value} NX"),
            3 => format!("SET {s} {value} GET"),
            4 | 5 => format!("SET {s} {value} PX {ms}"),
            6 => format!("GETSET {s} {value}"),
            7..=9 => format!("GET {s}"),
            10 => format!("APPEND {s} {value}"),
            11 => format!("GETEX {s} PX {ms}"),
            12 => format!("GETDEL {s}"),
            13 => format!("SETRANGE {s} {m} {value}"),
            14 => format!("MSET {s} {value} {} {value}", key("t")),
            15 | 16 => format!("MGET {} {} {c}", key("s"), key("t")),
            17..=20 => format!("INCR {c}"),
            21 => format!("INCRBY {c} {n}"),
            22 => format!("GET {c}"),
            23..=25 => format!("HSET {h} f{m} {value}"),
            26 => format!("HGET {h} f{m}"),
            27 | 28 => format!("HGETALL {h}"),
            29 => format!("HDEL {h} f{m}"),
            30 => format!("HINCRBY {h} n {n}"),
            31..=33 => format!("RPUSH {l} {value}"),
            34 => format!("LPUSH {l} {value}"),
            35 => format!("LPOP {l}"),
            36 | 37 => format!("LRANGE {l} 0 -1"),
            38 => format!("LMOVE {l} {l2} LEFT RIGHT"),
            39 => format!("RPOP {l2}"),
            40 => format!("LTRIM {l} 0 9"),
            41 | 42 => format!("SADD {e} m{m} {value}"),
            43 => format!("SREM {e} m{m}"),
            44 | 45 => format!("SMEMBERS {e}"),
            46 => format!("SMOVE {e} {f} m{m}"),
            47 => format!("SUNIONSTORE {f} {e} {f}"),
            48 => format!("ZADD {z} {n} m{m}"),
            49 => format!("ZINCRBY {z} {n} m{m}"),
            50 | 51 => format!("ZRANGE {z} 0 -1 WITHSCORES"),
            52 => format!("ZPOPMIN {z}"),
            53 => format!("DEL {any}"),
            54 => format!("EXISTS {any} {other}"),
            55 => format!("RENAME {any} {other}"),
            56 => format!("PEXPIRE {any} {ms}"),
            57 => format!("PEXPIRETIME {any}"),
            58 => format!("PERSIST {any}"),
            _ => format!("TYPE {any}"),
        }
    }

    fn tag(&mut self) -> &'static str {
        let count = self.place.tags.len() as u64;
        self.place.tags[self.random.below(count) as usize]
    }

    fn slot(tag: &str) -> u16 {
        slot_of(format!("{{{tag}}}").as_bytes())
    }

    fn node_for(&mut self, slot: u16) -> usize {
        let group = self.place.group_of(slot);
        match self.random.below(20) {
            0 => self.random.below(3) as usize,
            _ => self.map[group],
        }
    }

    fn plan(&mut self, now: Time) {
        let tag = self.tag();
        let slot = Self::slot(tag);
        let node = self.node_for(slot);
        let (busy, watches) = match self.lines.get(&node) {
            Some(line) => (line.waits.len(), line.watches.is_some()),
            None => (0, false),
        };
        if busy >= WAITS_MAX || watches {
            return;
        }
        self.plans -= 1;
        match self.below(10) {
            0 | 1 => {
                let commands = (0..1 + self.below(4))
                    .map(|_| words(&self.command(tag)))
                    .collect();
                self.ask(now, node, self.asked(slot, commands, true));
            }
            2 => {
                let key = format!("{{{tag}}}s").into_bytes();
                let look = self.asked(slot, vec![vec![b"GET".to_vec(), key.clone()]], false);
                self.say(
                    now,
                    node,
                    &vec![b"WATCH".to_vec(), key.clone()],
                    Wait::Watch,
                );
                self.ask(now, node, look);
                if let Some(line) = self.lines.get_mut(&node) {
                    line.watches = Some(key);
                    if let Some(last @ Wait::Command(_)) = line.waits.back_mut()
                        && let Wait::Command(number) = *last
                    {
                        *last = Wait::Look(number);
                    }
                }
            }
            _ => {
                for _ in 0..1 + self.below(6) {
                    // Now and then of another slot, as long as it may be there, too.
                    let tag = match self.below(4) {
                        0 => self.tag(),
                        _ => tag,
                    };
                    let text = self.command(tag);
                    let asked = self.asked(Self::slot(tag), vec![words(&text)], false);
                    self.ask(now, node, asked);
                }
            }
        }
        if !self.calm() && self.below(40) == 0 {
            let close_at = now + Duration::from_micros(self.random.below(4_000));
            if let Some(line) = self.lines.get_mut(&node) {
                line.close_at = Some(close_at);
            }
        }
    }

    fn asked(&self, slot: u16, commands: Vec<Words>, is_transaction: bool) -> Asked {
        Asked {
            commands,
            is_transaction,
            watched: Vec::new(),
            protocol: self.protocol,
            slot,
            line: 0,
            asked_at: 0,
            answered_at: 0,
            parted_at: None,
            fate: Fate::Waits,
        }
    }

    fn line(&mut self, now: Time, node: usize) -> &mut Line {
        if !self.lines.contains_key(&node) {
            self.conns += 1;
            let conn = ConnId(2 * self.conns);
            let address = self.place.doors[node].clone();
            self.ops.push_back(Op::Connect { conn, address });
            self.receive(conn);
            let number = {
                let mut account = self.account.borrow_mut();
                account.lines += 1;
                account.lines
            };
            let patience_us = 600_000 << self.below(5);
            let is_of_calm = self.calm();
            let line = Line {
                conn,
                number,
                heard: Vec::new(),
                decoder: Decoder::new(64 << 20),
                waits: VecDeque::new(),
                until: now + Duration::from_micros(patience_us),
                close_at: None,
                watches: None,
                looked: None,
                is_of_calm,
            };
            self.lines.insert(node, line);
            if self.protocol == Protocol::Resp3 {
                self.say(now, node, &words("HELLO 3"), Wait::Aside);
            }
        }
        self.lines.get_mut(&node).expect("just made")
    }

    fn receive(&mut self, conn: ConnId) {
        self.ops.push_back(Op::Receive {
            conn,
            buffer: Buffer::new(RECEIVE_BYTES),
            range: 0..RECEIVE_BYTES,
            whole: false,
        });
    }

    fn say(&mut self, now: Time, node: usize, words: &Words, wait: Wait) {
        let line = self.line(now, node);
        line.waits.push_back(wait);
        let conn = line.conn;
        let slices = vec![Slice::copied_from(&request(words))];
        self.ops.push_back(Op::Send { conn, slices });
    }

    fn ask(&mut self, now: Time, node: usize, mut asked: Asked) {
        asked.line = self.line(now, node).number;
        asked.asked_at = self.place.frames(asked.slot);
        asked.fate = Fate::Waits;
        let (commands, is_transaction) = (asked.commands.clone(), asked.is_transaction);
        let number = {
            let all = &mut self.account.borrow_mut().all;
            all.push(asked);
            all.len() - 1
        };
        if !is_transaction {
            return self.say(now, node, &commands[0], Wait::Command(number));
        }
        self.say(now, node, &words("MULTI"), Wait::Aside);
        for command in &commands {
            self.say(now, node, command, Wait::Aside);
        }
        self.say(now, node, &words("EXEC"), Wait::Command(number));
    }

    /// The line has ended: nobody says what became of the rest.
    fn part(&mut self, now: Time, node: usize) {
        let Some(line) = self.lines.remove(&node) else {
            return;
        };
        let conn = line.conn;
        self.ops.push_back(Op::Close { conn, flush: false });
        for wait in line.waits {
            let (Wait::Command(number) | Wait::Look(number)) = wait else {
                continue;
            };
            let asked = {
                let mut account = self.account.borrow_mut();
                account.unknown_when_calm += u64::from(line.is_of_calm);
                account.all[number].fate = Fate::Unknown;
                account.parted.push(number);
                account.all[number].clone()
            };
            if asked.watched.is_empty() && self.below(4) == 0 {
                let at = now + Duration::from_micros(self.below(30_000));
                self.again.push_back((at, asked));
            }
            let group = self.place.group_of(self.place_slot(number));
            if self.below(2) == 0 {
                self.map[group] = self.random.below(3) as usize;
            }
        }
    }

    fn place_slot(&self, number: usize) -> u16 {
        self.account.borrow().all[number].slot
    }

    fn on_reply(&mut self, now: Time, node: usize, value: Value) {
        let patience_us = 600_000 << self.below(5);
        let Some(line) = self.lines.get_mut(&node) else {
            return;
        };
        line.until = now + Duration::from_micros(patience_us);
        let wait = line.waits.pop_front();
        let wait = wait.expect("nothing is answered that was not asked");
        match wait {
            Wait::Aside => {
                // A client that was slow to send hears so wherever it stands, and its line ends.
                let is_error = matches!(&value, Value::Error(why) if !is_refusal(why));
                assert!(!is_error, "nobody refuses this: {value:?}");
            }
            Wait::Watch => {
                if let Value::Error(why) = &value {
                    let why = why.clone();
                    line.watches = None;
                    self.learn(&why);
                }
            }
            Wait::Command(number) => self.on_command(now, number, value),
            Wait::Look(number) => {
                line.looked = Some(value.clone());
                self.on_command(now, number, value);
                self.transact(now, node);
            }
        }
    }

    /// The key that is watched is looked at: what follows holds if it is as it was.
    fn transact(&mut self, now: Time, node: usize) {
        let Some(line) = self.lines.get_mut(&node) else {
            return;
        };
        let (key, looked) = (line.watches.take(), line.looked.take());
        let (Some(key), Some(looked)) = (key, looked) else {
            return;
        };
        if matches!(&looked, Value::Error(why) if is_refusal(why)) {
            return self.say(now, node, &words("UNWATCH"), Wait::Aside);
        }
        let tag = String::from_utf8(key[1..key.len() - 2].to_vec()).expect("it is one of ours");
        let mut commands = vec![words(&format!("SET {{{tag}}}s {}", self.value()))];
        for _ in 0..self.below(3) {
            commands.push(words(&self.command(&tag)));
        }
        let mut asked = self.asked(slot_of(&key), commands, true);
        asked.watched.push((key, looked));
        self.ask(now, node, asked);
        // It goes on at once: a later answer may be there before that of the transaction.
        for _ in 0..self.below(3) {
            let text = self.command(&tag);
            let asked = self.asked(Self::slot(&tag), vec![words(&text)], false);
            self.ask(now, node, asked);
        }
    }

    fn on_command(&mut self, now: Time, number: usize, value: Value) {
        let slot = self.place_slot(number);
        let answered_at = self.place.frames(slot);
        let refusal = match &value {
            Value::Error(why) if is_refusal(why) => Some(why.clone()),
            _ => None,
        };
        let asked = {
            let asked = &mut self.account.borrow_mut().all[number];
            asked.answered_at = answered_at;
            asked.fate = match refusal {
                Some(_) => Fate::Never,
                None => Fate::Reply(value),
            };
            asked.clone()
        };
        let Some(why) = refusal else {
            return;
        };
        self.learn(&why);
        // A transaction after WATCH is not asked again: its keys are watched no more.
        if asked.watched.is_empty() && (self.calm() || self.below(4) > 0) {
            let us = match why.starts_with("MOVED") {
                true => self.below(3_000),
                false => 10_000 + self.below(200_000),
            };
            self.again
                .push_back((now + Duration::from_micros(us), asked));
        }
    }

    /// Follows a redirect, mostly.
    fn learn(&mut self, why: &str) {
        let mut parts = why.split(' ');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("MOVED"), Some(slot), Some(address)) => {
                self.account.borrow_mut().moved += 1;
                let slot = slot.parse().expect("a slot");
                let node = self.place.doors.iter().position(|door| door == address);
                let node = node.expect("MOVED names a door");
                if self.below(8) > 0 {
                    let group = self.place.group_of(slot);
                    self.map[group] = node;
                }
            }
            _ => {
                self.account.borrow_mut().down += 1;
                let group = self.below(self.place.groups.len() as u64) as usize;
                self.map[group] = self.below(3) as usize;
            }
        }
    }

    fn node_of(&self, conn: ConnId) -> Option<usize> {
        let mut lines = self.lines.iter();
        lines
            .find(|(_, line)| line.conn == conn)
            .map(|(node, _)| *node)
    }

    fn on_heard(&mut self, now: Time, node: usize, bytes: &[u8]) {
        let Some(line) = self.lines.get_mut(&node) else {
            return;
        };
        line.heard.extend_from_slice(bytes);
        loop {
            let Some(line) = self.lines.get_mut(&node) else {
                return;
            };
            let heard = std::mem::take(&mut line.heard);
            let found = line.decoder.next(&heard).expect("a reply");
            let Some((value, length)) = found else {
                line.heard = heard;
                return;
            };
            line.heard = heard[length..].to_vec();
            self.on_reply(now, node, value);
        }
    }
}

/// Whether a reply says that the command was not done.
pub fn is_refusal(why: &str) -> bool {
    let was_slow = why == "ERR too many bytes of unfinished requests at this node";
    was_slow || why.starts_with("MOVED ") || why.starts_with("CLUSTERDOWN ")
}

impl Machine for Patron {
    fn handle(&mut self, now: Time, completion: Completion) {
        match completion {
            Completion::Received {
                conn,
                buffer,
                result,
                ..
            } => {
                let Some(node) = self.node_of(conn) else {
                    return;
                };
                match result {
                    Ok(received) => {
                        self.on_heard(now, node, &buffer[..received.count]);
                        match received.end {
                            true => self.part(now, node),
                            false => self.receive(conn),
                        }
                    }
                    Err(_) => self.part(now, node),
                }
            }
            Completion::Connected { conn, result, .. } | Completion::Sent { conn, result } => {
                if result.is_err()
                    && let Some(node) = self.node_of(conn)
                {
                    self.part(now, node);
                }
            }
            _ => {}
        }
    }

    fn on_time(&mut self, now: Time) {
        let calm = self.calm();
        let is_over = |line: &Line| {
            let gives_up = now >= line.until && !line.waits.is_empty();
            let patience = if calm {
                PATIENCE_WHEN_CALM
            } else {
                Duration::ZERO
            };
            let gives_up = gives_up && now >= line.until + patience;
            line.close_at.is_some_and(|at| now >= at) || gives_up
        };
        let lines = self.lines.iter();
        let over: Vec<usize> = lines
            .filter(|(_, line)| is_over(line))
            .map(|(node, _)| *node)
            .collect();
        for node in over {
            self.part(now, node);
        }
        for _ in 0..self.again.len() {
            let Some((at, asked)) = self.again.pop_front() else {
                break;
            };
            if now < at {
                self.again.push_back((at, asked));
                continue;
            }
            let node = self.node_for(asked.slot);
            let line = self.lines.get(&node);
            if line.is_some_and(|line| line.watches.is_some() || line.waits.len() >= WAITS_MAX) {
                self.again
                    .push_back((now + Duration::from_millis(5), asked));
                continue;
            }
            self.ask(now, node, asked);
        }
        if now >= self.next_at && self.plans > 0 {
            self.plan(now);
            let pace_us = self.pace_us;
            self.next_at = now + Duration::from_micros(1 + self.below(pace_us));
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let plan = (self.plans > 0).then_some(self.next_at);
        let again = self.again.iter().map(|(at, _)| *at);
        let calm = self.calm();
        let lines = self.lines.values().flat_map(|line| {
            let patience = if calm {
                PATIENCE_WHEN_CALM
            } else {
                Duration::ZERO
            };
            let until = (!line.waits.is_empty()).then_some(line.until + patience);
            [until, line.close_at].into_iter().flatten()
        });
        plan.into_iter().chain(again).chain(lines).min()
    }

    fn is_finished(&self) -> bool {
        let waits = self.lines.values().any(|line| !line.waits.is_empty());
        self.plans == 0 && self.again.is_empty() && !waits && self.ops.is_empty()
    }
}
