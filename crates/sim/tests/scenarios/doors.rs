//! Nodes with doors for clients of Redis Cluster, and clients who ask there for whatever is drawn, while all happens that `hosts` knows, and
//! clocks are apart.
//!
//! Three judges believe neither the doors nor each other. A witness for each group holds every shelf to what its log says (`rebuilt`). What
//! clients were told is held to the order that the logs chose (`verdict`). And when all is calm every command is answered, and every
//! slot is served.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use door::{Ahead, Door, DoorConfig, Slots, System, UnderWay};
use formats::LogKind;
use formats::slots::{name_of, range_of};
use host::{Bounds, Host, HostConfig, Shelves};
use kv::slot_of;
use letters::DoorFigures;
use node::hosted::Hosts;
use ops::MachineId;
use paxos::{NodeId, Role};
use shelf::{Identity, Media, Shelf, ShelfError};
use sim::{HostId, Process, Random, each_seed};

use crate::patrons::{Account, Fate, Patron, Place};
use crate::rebuilt::Rebuilt;
use crate::stage::{MS, SECOND, Stage, done};
use crate::verdict;

const DOOR: MachineId = MachineId(1);
pub const GROUPS: [&str; 3] = ["kv-1-of-3", "kv-2-of-3", "kv-3-of-3"];
/// The directory and `main` come before.
const FIRST_LOG: u32 = 2;
/// Three of each group.
const TAGS: [&str; 9] = ["b", "f", "j", "c", "g", "k", "a", "d", "e"];

/// The doors of every other street have little room: clients wait for it, and have turns.
fn doors_bounds(seed: u64) -> door::Bounds {
    if seed.is_multiple_of(2) {
        return door::Bounds::default();
    }
    let few = |commands| UnderWay {
        commands,
        bytes: 300,
    };
    door::Bounds {
        alone: few(8),
        beside: few(3),
        ahead_bytes: 10,
        group_commands_max: 4,
        group_bytes_max: 500,
        small_command_bytes: 60,
        claim_bytes_min: 200,
        small_claim_bytes: 500,
        claims_bytes_max: [600, 1_000],
        bytes_per_second_min: 1,
    }
}

/// The shelves of a node, in memory: one for each group, over media that lose what was not flushed.
#[derive(Clone)]
struct Racks {
    node: usize,
    media: Arc<Mutex<BTreeMap<u32, Media>>>,
    witnesses: Vec<Rebuilt>,
}

impl Racks {
    fn of(&self, log: u32) -> Media {
        self.media.lock().unwrap().entry(log).or_default().clone()
    }

    fn each(&self, act: impl Fn(&Media)) {
        self.media.lock().unwrap().values().for_each(act);
    }
}

impl Shelves for Racks {
    fn open(&self, identity: Identity) -> Result<Arc<dyn Shelf>, ShelfError> {
        let witness = &self.witnesses[(identity.log - FIRST_LOG) as usize];
        witness.open(self.node, &self.of(identity.log), identity)
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

pub struct Street {
    pub stage: Stage,
    pub doors: Vec<HostId>,
    /// Those of all doors that a node has had.
    pub figures: [Arc<DoorFigures>; 3],
    racks: Vec<Racks>,
    pub place: Place,
    pub account: Rc<RefCell<Account>>,
    patrons: Vec<HostId>,
    pub random: Random,
    seed: u64,
    lost: u64,
    is_lost: [bool; 3],
}

impl Street {
    /// Three nodes, and three groups.
    pub fn three(seed: u64) -> Street {
        let bounds = Bounds {
            // In one half of the seeds rows are fetched each time, in the other some are kept.
            kept_bytes_max: 3_000 * (seed % 2) as usize,
            flush_bytes: 12_000,
            flush_after: 2 * SECOND,
            piece_bytes: 600,
            copy_bytes_per_second: 80_000,
            compare_every: 500 * MS,
            ..Bounds::default()
        };
        // In every second pair commands wait for room for their answers.
        let bounds = match seed % 4 < 2 {
            true => bounds,
            false => Bounds {
                answers_bytes_max: [1_000, 2_000],
                aside_bytes_max: 5_000,
                counted_answer_bytes: 100,
                large_answer_bytes: 200,
                ..bounds
            },
        };
        let ahead = Ahead {
            from_bytes: 2_000,
            piece_bytes: 4 << 10,
        };
        Street::with(seed, bounds, ahead)
    }

    /// The same, whose groups hold so much, and whose doors send such values ahead.
    pub fn with(seed: u64, bounds: Bounds, ahead: Ahead) -> Street {
        let mut stage = Stage::with_doors(seed, Hosts::of_kind(DOOR, LogKind::Kv));
        let witnesses = GROUPS.map(|name| Rebuilt::watch(&mut stage, name)).to_vec();
        let racks = |node| Racks {
            node,
            media: Arc::default(),
            witnesses: witnesses.clone(),
        };
        let racks: Vec<Racks> = (0..3).map(racks).collect();
        let addresses: Vec<String> = (1..=3).map(Stage::door_of).collect();
        let mut doors = Vec::new();
        let all_figures: [Arc<DoorFigures>; 3] = Default::default();
        for (index, racks) in racks.iter().enumerate() {
            let (node, racks, address) =
                (stage.nodes[index], racks.clone(), addresses[index].clone());
            let figures = all_figures[index].clone();
            let mut starts = 0;
            let door = stage.world.add_companion(node, DOOR, move |_, now| {
                starts += 1;
                let slots = Slots::default();
                let config = HostConfig {
                    others: Some(Arc::new(slots.clone())),
                    machines: BTreeMap::new(),
                    shelves: Arc::new(racks.clone()),
                    bounds,
                    seed: seed << 8 | starts,
                };
                let config = DoorConfig {
                    listen: address.clone(),
                    advertise: address.clone(),
                    version: "simulated",
                    process: 1,
                    seed: seed << 16 | starts << 40,
                    slots,
                    host: Host::new(config, now),
                    figures: figures.clone(),
                    rights: None,
                    system: System::default(),
                    ahead,
                    bounds: doors_bounds(seed),
                };
                Ok(Box::new(Door::new(config, now)) as Box<dyn Process>)
            });
            doors.push(door.expect("it starts"));
        }
        for (group, name) in GROUPS.iter().enumerate() {
            assert_eq!(*name, name_of(group as u16 + 1, 3));
            done(&mut stage, &format!("create-log {name} kind=kv"));
        }
        let join = format!("change-slots join groups={}", GROUPS.join(","));
        assert!(done(&mut stage, &join).starts_with("ok "));
        let groups = GROUPS.iter().zip(&witnesses).map(|(name, witness)| {
            let (first, last) = range_of(name).expect("it is a group's");
            (first, last, witness.clone())
        });
        let place = Place {
            groups: groups.collect(),
            doors: addresses,
            tags: TAGS.to_vec(),
        };
        for (index, tag) in TAGS.iter().enumerate() {
            let slot = slot_of(format!("{{{tag}}}").as_bytes());
            assert_eq!(place.group_of(slot), index / 3, "{tag}");
        }
        let mut street = Street {
            stage,
            doors,
            figures: all_figures,
            racks,
            place,
            account: Rc::default(),
            patrons: Vec::new(),
            random: Random::new(seed),
            seed,
            lost: 0,
            is_lost: [false; 3],
        };
        street.spread();
        street
    }

    /// Has each group led by another node.
    pub fn spread(&mut self) {
        for group in 0..3 {
            self.lead(group, group);
        }
    }

    /// Has that node lead the group.
    pub fn lead(&mut self, group: usize, index: usize) {
        for _ in 0..100 {
            self.pass(100 * MS);
            match self.leader(group) {
                Some(leader) if leader == index => return,
                Some(leader) => {
                    let id = self.stage.look().node(index).map(|node| node.id().0);
                    let id = id.expect("it runs");
                    self.stage
                        .call(leader, &format!("lead {} to={id}", GROUPS[group]));
                }
                None => {}
            }
        }
        panic!(
            "seed {}: node {} does not lead {}",
            self.seed,
            index + 1,
            GROUPS[group]
        );
    }

    /// The leader of a group in the latest term.
    pub fn leader(&self, group: usize) -> Option<usize> {
        let look = self.stage.look();
        let led = |index: &usize| match look.view_of(*index, GROUPS[group])?.role {
            Role::Leader { term } => Some(term),
            _ => None,
        };
        let leaders = (0..3).filter(|index| led(index).is_some());
        leaders.max_by_key(led)
    }

    /// From now on that node's disk holds another row of a group, and nothing tells so.
    pub fn alter(&self, group: usize, index: usize) {
        let media = self.racks[index].of(FIRST_LOG + group as u32);
        media.alter(b"mszz", b"1");
    }

    /// The nodes that differ from the leader of a group, by its word, and how often replicas were compared since their nodes began.
    pub fn comparison(&self, group: usize) -> (Vec<NodeId>, u64) {
        let look = self.stage.look();
        let views = (0..3).filter_map(|index| look.view_of(index, GROUPS[group]));
        let comparisons = views.map(|view| view.comparison());
        comparisons.fold((Vec::new(), 0), |(mut all, count), (differ, compared)| {
            all.extend(differ);
            (all, count + compared)
        })
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    fn add_patron(&mut self, plans: u32) {
        let number = self.patrons.len() as u64 + 1;
        let host = self.stage.world.add_host(&format!("patron{number}"));
        let (place, account) = (self.place.clone(), self.account.clone());
        let seed = self.seed * 100 + number;
        let started = self.stage.world.start(host, move |_, _| {
            let patron = Patron::new(number, seed, plans, place.clone(), &account);
            Ok(Box::new(patron) as Box<dyn Process>)
        });
        started.expect("it needs no disk");
        self.patrons.push(host);
    }

    pub fn pass(&mut self, duration: Duration) {
        let until = self.stage.world.now() + duration;
        while self.stage.world.now() < until {
            let left = until - self.stage.world.now();
            self.stage.pass(left.min(5 * MS));
            let now = self.stage.world.now();
            self.account.borrow_mut().note_parted(now, &self.place);
            for (_, _, witness) in &self.place.groups {
                witness.check(&self.stage, &self.doors);
            }
        }
    }

    /// A node dies, and its states are compared with their logs as they are left.
    pub fn crash(&mut self, index: usize) {
        self.stage.crash(index);
        for (_, _, witness) in &self.place.groups {
            witness.on_crashed(index);
        }
    }

    /// The same without a word to anybody.
    pub fn cut_power(&mut self, index: usize) {
        self.stage.cut_power(index);
        for (_, _, witness) in &self.place.groups {
            witness.on_crashed(index);
        }
    }

    /// Its shelves are lost, too, if the others bear that.
    pub fn lose(&mut self, index: usize) {
        self.crash(index);
        for other in 0..3 {
            let mut stands = true;
            for (group, name) in GROUPS.iter().enumerate() {
                let look = self.stage.look();
                let views = (0..3).filter_map(|index| look.view_of(index, name));
                let trimmed = views.map(|view| replica::forgotten_bytes(view.state)).max();
                let media = self.racks[other].of(FIRST_LOG + group as u32);
                stands &= media.durable().position >= trimmed.unwrap_or(0) && !media.has(b"c");
            }
            self.is_lost[other] &= !stands;
        }
        if (0..3).all(|other| other == index || !self.is_lost[other]) {
            self.lost += 1;
            self.is_lost[index] = true;
            self.racks[index].each(Media::damage);
        }
    }

    pub fn strike(&mut self) {
        let group = self.below(3) as usize;
        let index = self.below(3) as usize;
        let leader = self.leader(group).unwrap_or(index);
        let is_running = self.stage.world.is_running(self.stage.nodes[index]);
        match self.below(12) {
            0 if is_running => self.lose(index),
            1 | 2 => self.stage.isolate(leader),
            3 => {
                for other in (0..3).filter(|other| *other != leader) {
                    self.stage.cut(other, leader);
                }
            }
            4 => {
                let pause = MS * (1 + self.below(3_000) as u32);
                self.stage.world.pause(self.stage.nodes[leader], pause);
            }
            5 => self.racks[index].each(|media| media.fill(true)),
            6 | 7 if self.stage.world.is_running(self.stage.nodes[leader]) => self.crash(leader),
            8 | 9 => {
                let id = self.stage.look().node(index).map(|node| node.id().0);
                if let Some(id) = id
                    && self.stage.world.is_running(self.stage.nodes[leader])
                {
                    self.stage
                        .call(leader, &format!("lead {} to={id}", GROUPS[group]));
                }
            }
            10 => {
                // Clients do not reach it, and nodes do.
                for patron in self.patrons.clone() {
                    self.stage.world.cut(self.doors[leader], patron);
                }
            }
            _ => {}
        }
        let ahead_ms = self.below(6_000) as i64 - 3_000;
        self.stage
            .world
            .set_wall_clock(self.stage.nodes[index], ahead_ms);
    }

    pub fn mend(&mut self) {
        self.stage.world.heal_all();
        for index in 0..3 {
            self.racks[index].each(|media| media.fill(false));
            if !self.stage.world.is_running(self.stage.nodes[index]) {
                self.stage.restart(index);
            }
        }
    }

    /// All is well: every command is answered.
    fn calm(&mut self) {
        self.mend();
        self.account.borrow_mut().is_calm = true;
        for patron in self.patrons.clone() {
            self.stage.world.poke(patron);
        }
        for _ in 0..120 {
            self.pass(500 * MS);
            let waits = |patron: &HostId| self.stage.world.is_running(*patron);
            let all = self.place.groups.iter();
            let mut all = all.map(|(_, _, witness)| witness.has_come_to_all(&[0, 1, 2]));
            if !self.patrons.iter().any(waits) && all.all(|all| all) {
                return;
            }
        }
        let account = self.account.borrow();
        let waits = account.all.iter().filter(|asked| asked.fate == Fate::Waits);
        panic!(
            "seed {}: all is calm, and {} commands are not answered\n{}",
            self.seed,
            waits.count(),
            self.stage.look().picture()
        );
    }

    /// Holds everything to everything.
    ///
    /// Returns the number of slots whose order of commands was not found among all that may be.
    pub fn judge(&self) -> u64 {
        let (seed, mut undecided) = (self.seed, 0);
        for group in 0..3 {
            assert_eq!(self.comparison(group).0, [], "seed {seed}");
        }
        for (_, _, witness) in &self.place.groups {
            witness.judge(&[0, 1, 2]);
        }
        let account = self.account.borrow();
        assert_eq!(
            account.unknown_when_calm, 0,
            "seed {seed}: lines of a calm world end"
        );
        let frames = self
            .place
            .groups
            .iter()
            .map(|(_, _, witness)| witness.all_frames());
        let frames: Vec<_> = frames.collect();
        if let Err(why) = verdict::judge_lines(&frames, &account.all) {
            panic!("seed {seed}: {why}");
        }
        for tag in &self.place.tags {
            let slot = slot_of(format!("{{{tag}}}").as_bytes());
            let (frames, _) = &frames[self.place.group_of(slot)];
            match verdict::judge(slot, frames, &account.all) {
                Ok(is_found) => undecided += u64::from(!is_found),
                Err(why) => panic!("seed {seed}: {why}"),
            }
        }
        undecided
    }

    /// The frames of each group.
    fn frames(&self) -> Vec<u64> {
        let groups = self.place.groups.iter();
        groups.map(|(_, _, witness)| witness.frames()).collect()
    }

    fn told(&self) -> String {
        let account = self.account.borrow();
        let count =
            |is: fn(&Fate) -> bool| account.all.iter().filter(|asked| is(&asked.fate)).count();
        let frames = self.frames();
        format!(
            "seed {}: {frames:?} frames, {} replies, {} never, {} unknown; {} moved, {} down; {} lost",
            self.seed,
            count(|fate| matches!(fate, Fate::Reply(_))),
            count(|fate| *fate == Fate::Never),
            count(|fate| *fate == Fate::Unknown),
            account.moved,
            account.down,
            self.lost
        )
    }
}

/// Every reply is what its command comes to in the order that the logs chose, between its call and its reply; nothing is done twice, nothing
/// is shown that is not chosen; and all is answered once all is calm.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn drawn_commands_are_answered_as_the_logs_say_whatever_fails() {
    let (seeds, undecided, transactions, watched) =
        <(Cell<u64>, Cell<u64>, Cell<u64>, Cell<u64>)>::default();
    each_seed(0..4, "-p sim --test scenarios drawn", |seed| {
        let mut street = Street::three(seed);
        (0..8).for_each(|_| street.add_patron(60));
        for _ in 0..5 {
            let pass = MS * (20 + street.below(150) as u32);
            street.pass(pass);
            street.strike();
            let pass = MS * (50 + street.below(600) as u32);
            street.pass(pass);
            if street.below(2) == 0 {
                street.strike();
                street.pass(300 * MS);
            }
            street.mend();
            street.pass(100 * MS);
        }
        street.calm();
        println!("{}", street.told());
        let frames = street.frames();
        let idle = frames.iter().position(|frames| *frames == 0);
        assert_eq!(
            idle, None,
            "seed {seed}: {frames:?}: its slots were asked for, and it executed nothing"
        );
        undecided.set(undecided.get() + street.judge());
        let account = street.account.borrow();
        seeds.set(seeds.get() + 1);
        let done = |asked: &&crate::patrons::Asked| {
            asked.is_transaction && matches!(&asked.fate, Fate::Reply(resp::Value::Array(_)))
        };
        let done = account.all.iter().filter(done);
        transactions.set(transactions.get() + done.clone().count() as u64);
        watched.set(watched.get() + done.filter(|asked| !asked.watched.is_empty()).count() as u64);
    });
    let (seeds, transactions, watched) = (seeds.get(), transactions.get(), watched.get());
    let undecided = undecided.get();
    println!(
        "{transactions} transactions, {watched} of them after WATCH; {undecided} slots undecided"
    );
    assert!(undecided <= seeds, "{undecided} slots of {seeds} seeds");
    assert!(
        seeds < 4 || transactions > 100 && watched > 20,
        "{transactions}, {watched}"
    );
}
