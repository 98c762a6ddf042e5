//! Slots move between groups while clients write and all happens that nodes know.
//!
//! Three judges: clients, who know what their keys may hold (`porters`); the logs of all groups, whose frames are taken apart here without a word of the
//! program that wrote them (K1 to K3); and when all is calm every wish is done, and every command answered.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kv::slot_of;
use shelf::Write;
use sim::{HostId, Process, each_seed};

use crate::doors::{GROUPS, Street};
use crate::porters::{Book, Porter};
use crate::stage::{MS, SECOND, done};

/// The numbers of the groups' logs.
const LOGS: [u32; 3] = [2, 3, 4];

pub struct Removal {
    pub street: Street,
    pub book: Rc<RefCell<Book>>,
    porters: Vec<HostId>,
    seed: u64,
}

pub fn slot_of_tag(tag: &str) -> u16 {
    slot_of(format!("{{{tag}}}").as_bytes())
}

impl Removal {
    pub fn new(seed: u64, porters: u64, commands: u32) -> Removal {
        let street = Street::three(seed);
        let book = Rc::<RefCell<Book>>::default();
        let mut removal = Removal {
            street,
            book,
            porters: Vec::new(),
            seed,
        };
        for number in 1..=porters {
            let world = &mut removal.street.stage.world;
            let host = world.add_host(&format!("porter{number}"));
            let (doors, tags) = (
                removal.street.place.doors.clone(),
                removal.street.place.tags.clone(),
            );
            let (book, seed) = (removal.book.clone(), seed * 100 + number);
            let started = world.start(host, move |_, _| {
                let porter = Porter::new(number, seed, commands, doors.clone(), &tags, &book);
                Ok(Box::new(porter) as Box<dyn Process>)
            });
            started.expect("it needs no disk");
            removal.porters.push(host);
        }
        removal
    }

    /// The slots of this tag are to be that group's.
    pub fn send(&mut self, tag: &str, group: usize) {
        let slot = slot_of_tag(tag);
        let (first, last) = (slot.saturating_sub(3), (slot + 3).min(kv::SLOTS - 1));
        self.want(&format!(
            "move groups={} slots={first}-{last}",
            GROUPS[group]
        ));
    }

    pub fn want(&mut self, change: &str) {
        let told = done(&mut self.street.stage, &format!("change-slots {change}"));
        let is_told = told.starts_with("ok ") || told.starts_with("error refused");
        assert!(is_told, "seed {}: {change}: {told}", self.seed);
    }

    /// One wish, drawn; whoever is asked may not answer.
    fn want_something(&mut self) {
        let (kind, tag) = (self.street.below(10), self.street.below(9) as usize);
        let group = self.street.below(3) as usize;
        let tag = self.street.place.tags[tag];
        let slot = slot_of_tag(tag);
        let last = (slot + 40).min(kv::SLOTS - 1);
        let name = GROUPS[group];
        let change = match kind {
            0..=5 => format!("move groups={name} slots={slot}-{last}"),
            6 => format!("move groups={name} slots=0-16383"),
            7 => format!("leave groups={name}"),
            8 => format!("join groups={name}"),
            _ => "balance".to_owned(),
        };
        for index in 0..3 {
            self.street
                .stage
                .call(index, &format!("change-slots {change}"));
        }
    }

    /// All wishes are done, and all commands answered.
    pub fn calm(&mut self) {
        self.street.mend();
        self.book.borrow_mut().ends = true;
        for porter in self.porters.clone() {
            self.street.stage.world.poke(porter);
        }
        for _ in 0..240 {
            self.street.pass(250 * MS);
            let waits = |porter: &HostId| self.street.stage.world.is_running(*porter);
            if self.porters.iter().any(waits) {
                continue;
            }
            let told = done(&mut self.street.stage, "slots");
            if told.contains(r#""moving":[]"#) {
                return;
            }
        }
        let told = done(&mut self.street.stage, "slots");
        let waits = self.porters.iter();
        let waits = waits.filter(|porter| self.street.stage.world.is_running(**porter));
        let moving = told
            .split_once(r#""moving":[{"first":"#)
            .map_or("", |(_, rest)| rest);
        let slot = moving
            .split(',')
            .next()
            .and_then(|first| first.parse().ok());
        let rows = (0..3).map(|group| {
            let log = self.told_by(group);
            let copies = log.rows.iter().filter(|(key, _)| key.starts_with(b"mp"));
            let copies: Vec<_> = copies.collect();
            format!("{:?} {copies:?}", slot.map(|slot| log.token(slot)))
        });
        panic!(
            "seed {}: all is calm, {} clients wait, and slots are on their way: {moving}\n{}\n{}",
            self.seed,
            waits.count(),
            rows.collect::<Vec<_>>().join("\n"),
            self.street.stage.look().picture()
        );
    }

    /// Reads everything once more, and holds the logs to each other.
    pub fn judge(&mut self) {
        let doors = self.street.place.doors.clone();
        let tags = self.street.place.tags.clone();
        self.book.borrow_mut().ends = false;
        let host = self.street.stage.world.add_host("auditor");
        let (book, seed) = (self.book.clone(), self.seed * 100 + 99);
        let started = self.street.stage.world.start(host, move |_, _| {
            let porter = Porter::new(99, seed, 150, doors.clone(), &tags, &book);
            Ok(Box::new(porter) as Box<dyn Process>)
        });
        started.expect("it needs no disk");
        for _ in 0..100 {
            self.street.pass(200 * MS);
            if !self.street.stage.world.is_running(host) {
                break;
            }
        }
        let logs: Vec<Told> = (0..3).map(|group| self.told_by(group)).collect();
        if let Err(why) = judge(&logs) {
            panic!("seed {}: {why}", self.seed);
        }
    }

    /// Rows of strings that no key has, in all groups.
    fn orphans(&self) -> Vec<Vec<u8>> {
        let logs = (0..3).map(|group| self.told_by(group));
        logs.flat_map(|log| log.orphans()).collect()
    }

    pub fn told_by(&self, group: usize) -> Told {
        let (frames, _) = self.street.place.groups[group].2.all_frames();
        let mut log = Told::of(LOGS[group]);
        for frame in &frames {
            log.take(&frame.writes);
        }
        log
    }

    fn told(&self) -> String {
        let book = self.book.borrow();
        format!(
            "seed {}: {} answered, {} unknown, {} moved, {} down, the longest wait {:?}",
            self.seed, book.answered, book.unknown, book.moved, book.down, book.longest
        )
    }
}

/// Of a slot, as its row says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub epoch: u32,
    pub kind: u8,
    group: u32,
    wish: u32,
}

/// The slots of a block.
const BLOCK_SLOTS: u16 = 128;
pub const OWNED: u8 = 1;
pub const LEAVING: u8 = 2;
pub const FROZEN: u8 = 3;
pub const GONE: u8 = 4;

impl Row {
    /// The slots of a block, as the bytes of its row have them.
    fn of_block(block: u16, row: &[u8]) -> Vec<(u16, Row)> {
        let mut slots = Vec::new();
        let mut next = block * BLOCK_SLOTS;
        for run in row.chunks_exact(39) {
            let number = |at: usize| u32::from_le_bytes(run[at..at + 4].try_into().unwrap());
            let last = u16::from_le_bytes(run[..2].try_into().unwrap());
            let row = Row {
                epoch: number(2),
                kind: run[22],
                group: number(23),
                wish: number(27),
            };
            slots.extend((next..=last).map(|slot| (slot, row)));
            next = last + 1;
        }
        slots
    }

    pub fn is_served(self) -> bool {
        matches!(self.kind, OWNED | LEAVING)
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the log of a group says of slots.
pub struct Told {
    log: u32,
    pub rows: Rows,
    /// By slot and epoch: its rows when it began to be owned, and which of them were written in that frame.
    owned: BTreeMap<(u16, u32), (Rows, Rows)>,
    /// By slot, wish and group: its rows when it was frozen.
    frozen: BTreeMap<(u16, u32, u32), Rows>,
    gone: Vec<(u16, u32, u32)>,
    wrong: Option<String>,
}

impl Told {
    fn of(log: u32) -> Told {
        Told {
            log,
            rows: Rows::new(),
            owned: BTreeMap::new(),
            frozen: BTreeMap::new(),
            gone: Vec::new(),
            wrong: None,
        }
    }

    pub fn token(&self, slot: u16) -> Row {
        let block = slot / BLOCK_SLOTS;
        let [high, low] = block.to_be_bytes();
        let row = self.rows.get(&[b'm', b'o', high, low][..]);
        let slots = row.map(|row| Row::of_block(block, row)).unwrap_or_default();
        let found = slots.into_iter().find(|(of, _)| *of == slot);
        found.map_or(Row::default(), |(_, row)| row)
    }

    /// The rows of values that went ahead, and of strings that no key has.
    fn orphans(&self) -> Vec<Vec<u8>> {
        let of_tag = |wanted: u8| {
            self.rows
                .iter()
                .filter(move |(key, _)| tag_of(key) == Some(wanted))
        };
        // A key's row: its form, type, deadline and place, then its id.
        let ids = of_tag(b'M').filter(|(_, row)| row[1] == b's' && row[10] == 1);
        let named: BTreeSet<Vec<u8>> = ids
            .map(|(key, row)| [&key[..16], &b"S"[..], &row[11..19]].concat())
            .collect();
        let chunks = of_tag(b'S').filter(|(key, _)| !named.contains(&key[..25]));
        let all = of_tag(b'W').chain(chunks);
        all.map(|(key, _)| key.clone()).collect()
    }

    /// The rows of a slot, without its life.
    fn of_slot(&self, slot: u16) -> Rows {
        let [high, low] = slot.to_be_bytes();
        let prefix = [b'm', b's', high, low];
        let rows = self.rows.range(prefix.to_vec()..);
        let rows = rows.take_while(|(key, _)| key.starts_with(&prefix));
        rows.map(|(key, value)| (key[16..].to_vec(), value.clone()))
            .collect()
    }

    fn take(&mut self, writes: &[Write]) {
        let mut changed = Vec::new();
        let mut touched: BTreeMap<u16, Rows> = BTreeMap::new();
        let slot_in = |key: &[u8]| {
            let slot = key.get(2..4).and_then(|slot| slot.try_into().ok());
            slot.map(u16::from_be_bytes)
        };
        for write in writes {
            match write {
                Write::Put { key, value } => {
                    if key.starts_with(b"mo")
                        && let Some(block) = slot_in(key)
                    {
                        let before = self.rows.get(key).map(|row| Row::of_block(block, row));
                        let before = before.unwrap_or_default();
                        let at = |slot: u16| {
                            let found = before.iter().find(|(of, _)| *of == slot);
                            found.map_or(Row::default(), |(_, row)| *row)
                        };
                        let after = Row::of_block(block, value).into_iter();
                        let news = after.filter(|(slot, row)| at(*slot) != *row);
                        changed.extend(news.map(|(slot, _)| (slot, at(slot))));
                    }
                    if key.starts_with(b"ms")
                        && let Some(slot) = slot_in(key)
                    {
                        let rest = key[16..].to_vec();
                        touched.entry(slot).or_default().insert(rest, value.clone());
                    }
                    self.rows.insert(key.clone(), value.clone());
                }
                Write::Delete { key } => {
                    if key.starts_with(b"ms")
                        && let Some(slot) = slot_in(key)
                    {
                        touched
                            .entry(slot)
                            .or_default()
                            .insert(key[16..].to_vec(), Vec::new());
                    }
                    self.rows.remove(key);
                }
                Write::Forget { prefix } => {
                    self.rows.retain(|key, _| !key.starts_with(prefix));
                }
            }
        }
        let before: BTreeMap<u16, Row> = changed.iter().copied().rev().collect();
        for slot in touched.keys() {
            let (was, is) = (before.get(slot).copied(), self.token(*slot));
            let was = was.unwrap_or(is);
            if matches!((was.kind, is.kind), (FROZEN | GONE, FROZEN | GONE)) {
                let why = format!(
                    "log {} writes rows of slot {slot}, which it lets go",
                    self.log
                );
                self.wrong.get_or_insert(why);
            }
        }
        for (slot, was) in before {
            let is = self.token(slot);
            if is.is_served() && !(was.is_served() && was.epoch == is.epoch) {
                let rows = (
                    self.of_slot(slot),
                    touched.remove(&slot).unwrap_or_default(),
                );
                if self.owned.insert((slot, is.epoch), rows).is_some() {
                    let why = format!("log {} owns slot {slot} twice by {}", self.log, is.epoch);
                    self.wrong.get_or_insert(why);
                }
            }
            if is.kind == FROZEN && was.kind != FROZEN {
                let rows = self.of_slot(slot);
                self.frozen.insert((slot, is.wish, is.group), rows);
            }
            if is.kind == GONE && was.kind == FROZEN {
                self.gone.push((slot, was.wish, was.group));
            }
        }
    }
}

/// K1 to K3, from nothing but the frames of all logs.
fn judge(logs: &[Told]) -> Result<(), String> {
    if let Some(why) = logs.iter().find_map(|log| log.wrong.clone()) {
        return Err(why);
    }
    let mut owners: BTreeMap<(u16, u32), u32> = BTreeMap::new();
    for log in logs {
        for ((slot, epoch), (rows, written)) in &log.owned {
            if let Some(other) = owners.insert((*slot, *epoch), log.log) {
                return Err(format!(
                    "K1: slot {slot} is owned by {epoch} in logs {other} and {}",
                    log.log
                ));
            }
            if *epoch == 1 {
                continue;
            }
            let key = (*slot, *epoch, log.log);
            let Some(frozen) = logs.iter().find_map(|source| source.frozen.get(&key)) else {
                return Err(format!(
                    "K1: log {} owns slot {slot} by {epoch}, and no log let it go",
                    log.log
                ));
            };
            let all = rows.keys().chain(frozen.keys());
            for rest in all {
                // A command behind it may stand in the same frame.
                if rows.get(rest) != frozen.get(rest) && !written.contains_key(rest) {
                    return Err(format!(
                        "K2: slot {slot} by {epoch} in log {}: the row {rest:?} is another than it was",
                        log.log
                    ));
                }
            }
        }
    }
    for log in logs {
        for (slot, wish, to) in &log.gone {
            if owners.get(&(*slot, *wish)) != Some(to) {
                return Err(format!(
                    "K3: log {} forgot slot {slot} for {to} by {wish}, which does not own it",
                    log.log
                ));
            }
        }
    }
    Ok(())
}

/// Slots go to another group and back while clients write: no client hears an error but where to go on, each wish is done, and nothing is lost or done twice.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn slots_move_while_clients_write() {
    for seed in 0..3 {
        let mut removal = Removal::new(seed, 6, 400);
        removal.street.pass(SECOND);
        for round in 0..3 {
            for (tag, group) in [("b", 1), ("c", 2), ("a", 0), ("f", 2)] {
                removal.send(tag, (group + round) % 3);
            }
            removal.street.pass(700 * MS);
        }
        assert_eq!(removal.book.borrow().down, 0, "seed {seed}: CLUSTERDOWN");
        assert_eq!(removal.book.borrow().unknown, 0, "seed {seed}: lines end");
        removal.calm();
        removal.judge();
        println!("{}", removal.told());
        let longest = removal.book.borrow().longest;
        assert!(
            longest < SECOND,
            "seed {seed}: a command waited for {longest:?}"
        );
    }
}

/// Whatever is wanted, and whatever fails meanwhile: a slot has one owner at a time, which has all rows that the last one had.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn drawn_moves_lose_nothing_whatever_fails() {
    each_seed(0..18, "-p sim --test scenarios moves::drawn", |seed| {
        let mut removal = Removal::new(seed, 6, 500);
        removal.street.pass(400 * MS);
        for _ in 0..7 {
            for _ in 0..=removal.street.below(2) {
                removal.want_something();
                let pass = MS * (5 + removal.street.below(120) as u32);
                removal.street.pass(pass);
            }
            removal.street.strike();
            let pass = MS * (30 + removal.street.below(500) as u32);
            removal.street.pass(pass);
            if removal.street.below(2) == 0 {
                removal.want_something();
            }
            removal.street.mend();
            let pass = MS * (50 + removal.street.below(400) as u32);
            removal.street.pass(pass);
        }
        removal.calm();
        removal.judge();
        println!("{}", removal.told());
    });
}

/// Clients vanish, leaders die and slots move while values go ahead of their commands: a minute later no row is left that belongs to nothing.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_went_ahead_and_was_not_named_is_forgotten() {
    let mut left = 0;
    for seed in 0..4 {
        let mut removal = Removal::new(seed, 6, 300);
        for round in 0..6 {
            removal.send(["b", "c", "a"][round % 3], round % 2);
            let pass = MS * (100 + removal.street.below(300) as u32);
            removal.street.pass(pass);
            let leader = removal.street.leader(round % 3).unwrap_or(0);
            removal.street.crash(leader);
            removal.street.pass(300 * MS);
            removal.street.mend();
        }
        removal.calm();
        left += removal.orphans().len();
        removal.street.pass(65 * SECOND);
        let orphans = removal.orphans();
        assert!(orphans.is_empty(), "seed {seed}: {orphans:?}");
        removal.judge();
    }
    assert!(left > 0, "none was left behind");
}

/// The tag of a row of a slot.
fn tag_of(key: &[u8]) -> Option<u8> {
    key.starts_with(b"ms").then(|| key.get(16).copied())?
}
