//! A small world around engines: disks that lose what is not synced, a network that loses, repeats
//! and reorders, clients, and an observer that sees everything and knows the invariants.
#![allow(dead_code)] // each test file uses its part

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use paxos::*;

mod by_hand;
mod bytes;
mod clients;
mod disk;
mod faults;
mod network;
mod observer;
mod rng;

pub use by_hand::Seen;
pub use faults::*;
pub use rng::*;

#[derive(Clone, Debug)]
pub enum Record {
    Checkpoint(Checkpoint),
    Promise(PromisedTerm, Option<Finishing>, LogState),
    State(LogState),
    Accept(Term, SlotRange, Value),
    Chosen(Slot),
}

pub struct SimNode {
    pub id: NodeId,
    pub engine: Option<Engine>,
    pub durable: Vec<Record>,
    pub pending: VecDeque<(RecordNumber, Record)>,
    pub sync_at: Option<u64>,
    outbox: VecDeque<(RecordNumber, NodeId, Message)>,
    durable_up_to: RecordNumber,
    pub incarnation: u32,
    counter: u32,
    /// Bytes of streams held, by position; those of durable records survive a crash.
    pub bytes: BTreeSet<(StreamName, u64)>,
    bytes_durable: BTreeSet<(StreamName, u64)>,
    pub heard: BTreeMap<NodeId, u64>,
    alive: BTreeSet<NodeId>,
    /// The stream this node's client writes, and how far it has got.
    pub writer: Option<(StreamName, u64)>,
    opening: Option<StreamName>,
    reads: BTreeMap<u64, Slot>,
    pub applied: Vec<(Slot, Outcome)>,
    pub notes: Vec<Note>,
    bound_since: Option<(Term, Slot, u64)>,
    /// The bytes that it must hold may have changed.
    recount: bool,
}

pub struct Flight {
    pub at: u64,
    pub from: NodeId,
    pub to: NodeId,
    pub message: Message,
}

type Acceptances = BTreeMap<Term, (Value, BTreeSet<NodeId>)>;

pub struct World {
    pub now: u64,
    pub rng: Rng,
    pub nodes: Vec<SimNode>,
    pub net: Vec<Flight>,
    pub cut: BTreeSet<(NodeId, NodeId)>,
    pub faults: Faults,
    pub phase_one: PhaseOne,
    pub initial: LogState,
    pub trace: u64,
    pub log: Option<String>,
    /// The events, where somebody moves this world by hand. Nothing is drawn by chance then but the engines' seeds.
    pub seen: Option<Vec<Seen>>,
    next_beat: u64,
    next_client: u64,
    next_fault: u64,
    pub clients: bool,
    /// Everything durably accepted, by slot and term.
    acceptances: BTreeMap<u64, Acceptances>,
    /// One value per term and slot.
    proposed: BTreeMap<(Term, u64), Value>,
    /// The chosen values, by definition, and the state before each slot.
    pub truth: Vec<Value>,
    history: Vec<LogState>,
    pub chosen_told: Slot,
    next_read: u64,
    pub reads_answered: u64,
    /// Those of them by replicas that do not lead.
    pub reads_of_followers: u64,
    pub messages: u64,
    /// Times at which an auxiliary dropped bytes.
    pub releases: u64,
}

pub const BEAT: u64 = 20_000;

pub fn digest(stream: StreamName, position: u64, count: u64) -> Digest {
    let mut h =
        Rng(u64::from(stream.owner.0) << 40 ^ u64::from(stream.sequence.counter) << 20 ^ position);
    Digest((h.next() ^ count) as u32)
}

impl World {
    pub fn new(seed: u64, members: &[(u32, u32)], nodes: u32) -> World {
        World::preparing(seed, members, nodes, PhaseOne::PerTerm)
    }

    /// As `new`, and leaders do phase 1 so often.
    pub fn preparing(seed: u64, members: &[(u32, u32)], nodes: u32, phase_one: PhaseOne) -> World {
        let members = members.iter().map(|(node, weight)| Member {
            node: NodeId(*node),
            weight: *weight,
            auxiliary: false,
        });
        let initial = LogState::new(Configuration::new(members).unwrap());
        let mut world = World {
            now: 1_000_000,
            rng: Rng(seed),
            nodes: Vec::new(),
            net: Vec::new(),
            cut: BTreeSet::new(),
            faults: CALM,
            phase_one,
            initial: initial.clone(),
            trace: 0,
            log: None,
            seen: None,
            next_beat: 1_000_000,
            next_client: 1_000_000,
            next_fault: 1_000_000,
            clients: true,
            acceptances: BTreeMap::new(),
            proposed: BTreeMap::new(),
            truth: Vec::new(),
            history: vec![initial],
            chosen_told: Slot(0),
            next_read: 0,
            reads_answered: 0,
            reads_of_followers: 0,
            messages: 0,
            releases: 0,
        };
        for id in 1..=nodes {
            world.nodes.push(SimNode {
                id: NodeId(id),
                engine: None,
                durable: Vec::new(),
                pending: VecDeque::new(),
                sync_at: None,
                outbox: VecDeque::new(),
                durable_up_to: RecordNumber(0),
                incarnation: 0,
                counter: 0,
                bytes: BTreeSet::new(),
                bytes_durable: BTreeSet::new(),
                heard: BTreeMap::new(),
                alive: BTreeSet::new(),
                writer: None,
                opening: None,
                reads: BTreeMap::new(),
                applied: Vec::new(),
                notes: Vec::new(),
                bound_since: None,
                recount: false,
            });
            world.start(id as usize - 1);
        }
        world
    }

    pub fn say(&mut self, line: std::fmt::Arguments) {
        for byte in line.to_string().bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        if let Some(log) = &mut self.log {
            let _ = writeln!(log, "{:>9} {line}", self.now);
        }
    }

    pub fn index(&self, node: NodeId) -> usize {
        node.0 as usize - 1
    }

    pub fn engine(&self, node: u32) -> &Engine {
        self.nodes[node as usize - 1].engine.as_ref().unwrap()
    }

    pub fn input(&mut self, at: usize, input: Input) {
        let now = Time::from_micros(self.now);
        if self.nodes[at].engine.is_none() {
            return;
        }
        let id = self.nodes[at].id;
        self.say(format_args!("{id} <- {input:?}"));
        if let Some(engine) = &mut self.nodes[at].engine {
            engine.handle(now, input);
        }
        self.drain(at);
    }

    pub fn propose(&mut self, at: usize, action: Action) -> Result<Slot, NotProposed> {
        let now = Time::from_micros(self.now);
        let Some(engine) = &mut self.nodes[at].engine else {
            return Err(NotProposed::NotLeading { leader: None });
        };
        let result = engine.propose(now, action);
        self.drain(at);
        result
    }

    pub fn drain(&mut self, at: usize) {
        loop {
            let node = &mut self.nodes[at];
            let id = node.id;
            let Some(engine) = &mut node.engine else {
                return;
            };
            let Some(output) = engine.poll_output() else {
                break;
            };
            self.say(format_args!("{id} -> {output:?}"));
            self.see_output(at, &output);
            let by_hand = self.seen.is_some();
            let node = &mut self.nodes[at];
            let engine = node.engine.as_mut().unwrap();
            match output {
                Output::Persist { record, what } => {
                    let rec = match what {
                        Persist::Promise { term } => {
                            let checkpoint = engine.checkpoint();
                            assert_eq!(checkpoint.promised, term);
                            assert!(term.0.era <= checkpoint.state.era, "I7");
                            if !by_hand && self.rng.one_in(2) {
                                Record::Checkpoint(checkpoint)
                            } else {
                                Record::Promise(term, checkpoint.finishing, checkpoint.state)
                            }
                        }
                        Persist::State => Record::State(engine.checkpoint().state),
                        Persist::Accept {
                            term, slots, value, ..
                        } => {
                            if let Value::Content { stream, offset } = &value {
                                for slot in slots.start.0..slots.end.0 {
                                    let byte = (*stream, slot - offset.0);
                                    assert!(
                                        node.bytes.contains(&byte),
                                        "I6: {id} accepts bytes it does not hold"
                                    );
                                }
                            }
                            Record::Accept(term, slots, value)
                        }
                    };
                    node.pending.push_back((record, rec));
                    if !by_hand && self.rng.one_in(25) {
                        // A new segment begins with a checkpoint.
                        let checkpoint = engine.checkpoint();
                        node.pending
                            .push_back((record, Record::Checkpoint(checkpoint)));
                    }
                    if node.sync_at.is_none() {
                        node.sync_at = Some(self.now + 200 + self.rng.below(3_000));
                    }
                }
                Output::Send { to, message, after } => {
                    assert_ne!(to, id);
                    if after <= node.durable_up_to {
                        self.transmit(id, to, message);
                    } else {
                        node.outbox.push_back((after, to, message));
                    }
                }
                Output::Replicate(proposal) => {
                    self.proposed(proposal.term, proposal.slots, &proposal.value);
                    self.replicate(id, proposal);
                }
                Output::Permit(permit) => {
                    if let Some(permit) = permit {
                        assert!(permit.next <= permit.limit);
                    }
                    node.bound_since = None;
                }
                Output::Applied { slot, outcome } => {
                    if let Outcome::Opened(name) = outcome
                        && node.opening == Some(name)
                    {
                        node.writer = Some((name, 0));
                        node.opening = None;
                    }
                    if let Outcome::NotOpened { stream, .. } = outcome
                        && node.opening == Some(stream)
                    {
                        node.opening = None;
                    }
                    node.recount |= matches!(outcome, Outcome::Reconfigured { .. });
                    node.applied.push((slot, outcome));
                }
                Output::Chosen { up_to } => {
                    if !by_hand && self.rng.one_in(3) {
                        node.pending
                            .push_back((RecordNumber(0), Record::Chosen(up_to)));
                        if node.sync_at.is_none() {
                            node.sync_at = Some(self.now + 1_000);
                        }
                    }
                    self.check_chosen(at, up_to);
                }
                Output::Release { below } => self.release(at, below),
                Output::Contradicted { by, what } => {
                    panic!("I1: node {by} contradicts node {id}: {what}")
                }
                Output::StateInstalled => {
                    node.recount = true;
                    let up_to = engine.first_unchosen();
                    self.check_chosen(at, up_to);
                }
                Output::Role(role) => {
                    if !matches!(role, Role::Leader { .. }) {
                        node.writer = None;
                        node.opening = None;
                    }
                }
                Output::ReadReady(read) => {
                    let next = engine.first_unchosen();
                    let follows = matches!(engine.role(), Role::Follower { .. });
                    let waiting = std::mem::take(&mut node.reads);
                    for (id, chosen_at_arrival) in waiting {
                        if id > read.0 {
                            node.reads.insert(id, chosen_at_arrival);
                            continue;
                        }
                        self.reads_answered += 1;
                        self.reads_of_followers += u64::from(follows);
                        assert!(
                            next >= chosen_at_arrival,
                            "a read does not see what was chosen before it: {next} < {chosen_at_arrival}"
                        );
                    }
                }
                Output::ReadsFailed => node.reads.clear(),
                Output::Note(note) => node.notes.push(note),
            }
        }
        self.check_node(at);
        if std::mem::take(&mut self.nodes[at].recount) {
            self.count_missing(at);
        }
    }

    /// Heartbeats: who is alive, the status of leaders and followers, and what was lost again.
    fn beat(&mut self) {
        self.next_beat = self.now + BEAT;
        for at in 0..self.nodes.len() {
            for from in 0..self.nodes.len() {
                if at == from {
                    continue;
                }
                let id = self.nodes[from].id;
                let up = self.nodes[from].engine.is_some();
                if up && self.reachable(id, self.nodes[at].id) && self.nodes[at].engine.is_some() {
                    self.nodes[at].heard.insert(id, self.now);
                    if self.nodes[at].alive.insert(id) {
                        self.input(at, Input::PeerAlive(id));
                    }
                }
                let last = self.nodes[at].heard.get(&id).copied().unwrap_or(0);
                if last + 5 * BEAT < self.now && self.nodes[at].alive.remove(&id) {
                    self.input(at, Input::PeerSilent(id));
                }
            }
        }
        for at in 0..self.nodes.len() {
            if !self.missing(at).is_empty() && self.rng.one_in(4) {
                self.fetch(at);
            }
            let id = self.nodes[at].id;
            let out = self.heartbeat(at);
            for (to, message) in out {
                self.transmit(id, to, message);
            }
        }
    }

    fn fault(&mut self) {
        self.next_fault = self.now + self.rng.below(120_000);
        let at = self.rng.below(self.nodes.len() as u64) as usize;
        match self.rng.below(10) {
            0..=2 if self.faults.crash => {
                if self.nodes[at].engine.is_some() {
                    self.crash(at);
                } else {
                    self.start(at);
                }
            }
            3..=4 if self.faults.crash && self.nodes[at].engine.is_none() => self.start(at),
            5 | 6 if self.faults.cuts => {
                let a = NodeId(1 + self.rng.below(self.nodes.len() as u64) as u32);
                let b = NodeId(1 + self.rng.below(self.nodes.len() as u64) as u32);
                self.cut.insert((a, b));
            }
            7 => self.cut.clear(),
            8 if self.faults.hand_over => {
                let to = NodeId(1 + self.rng.below(self.nodes.len() as u64) as u32);
                let to = Some(to).filter(|_| self.rng.one_in(2));
                for at in 0..self.nodes.len() {
                    self.input(at, Input::Abdicate { to });
                }
            }
            9 if self.faults.hand_over => {
                if self.rng.one_in(3) {
                    self.input(at, Input::StepDown);
                } else {
                    let more = self.rng.below(2) * 100;
                    let missing = self.missing(at).len() as u64 + more;
                    self.input(at, Input::MissingBytes(missing));
                }
            }
            _ => {}
        }
    }

    /// The next thing that happens.
    pub fn step(&mut self) {
        let mut next = self.next_beat.min(self.next_client).min(self.next_fault);
        let flight = (0..self.net.len()).min_by_key(|at| self.net[*at].at);
        let flight_at = flight.map_or(u64::MAX, |at| self.net[at].at);
        next = next.min(flight_at);
        let mut timer = None;
        let mut sync = None;
        for at in 0..self.nodes.len() {
            if let Some(due) = self.nodes[at].sync_at
                && due <= next
            {
                next = due;
                sync = Some(at);
            }
        }
        for at in 0..self.nodes.len() {
            if let Some(engine) = &self.nodes[at].engine
                && let Some(due) = engine.deadline().map(Time::as_micros)
                && due <= next
            {
                next = due;
                timer = Some(at);
            }
        }
        self.now = self.now.max(next);
        if let Some(at) = timer {
            let before = self.nodes[at].engine.as_ref().unwrap().deadline();
            self.input(at, Input::Timer);
            let after = self.nodes[at].engine.as_ref().unwrap().deadline();
            assert!(
                after.is_none_or(|t| t.as_micros() > self.now) || before != after,
                "a timer that does nothing"
            );
        } else if let Some(at) = sync {
            self.sync(at);
        } else if next == flight_at {
            let flight = self.net.swap_remove(flight.unwrap());
            self.deliver(flight);
        } else if next == self.next_beat {
            self.beat();
        } else if next == self.next_client {
            self.client();
        } else {
            self.fault();
        }
    }

    pub fn run(&mut self, micros: u64) {
        let end = self.now + micros;
        while self.now < end {
            self.step();
        }
    }

    /// No more faults, everybody up.
    pub fn calm(&mut self) {
        self.faults = CALM;
        self.cut.clear();
        for at in 0..self.nodes.len() {
            if self.nodes[at].engine.is_none() {
                self.start(at);
            }
            self.count_missing(at);
        }
    }

    pub fn leader(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|at| {
            self.nodes[*at].engine.as_ref().is_some_and(|engine| {
                engine
                    .permit()
                    .is_some_and(|permit| permit.content == PermitContent::Free)
            })
        })
    }

    /// Steps until it holds, at most so long.
    pub fn until(&mut self, what: &str, micros: u64, mut holds: impl FnMut(&World) -> bool) {
        let end = self.now + micros;
        while !holds(self) {
            assert!(self.now < end, "not within {micros} us: {what}");
            self.step();
        }
    }

    pub fn is_level(&self) -> bool {
        self.leader().is_some_and(|at| {
            let leader = self.nodes[at].engine.as_ref().unwrap();
            let next = leader.proposed_up_to();
            self.nodes.iter().all(|node| {
                node.engine
                    .as_ref()
                    .is_some_and(|engine| engine.first_unchosen() == next)
            })
        })
    }
}
