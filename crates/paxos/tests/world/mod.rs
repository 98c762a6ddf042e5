//! A small world around engines: disks that lose what is not synced, a network that loses, repeats
//! and reorders, clients, and an observer that sees everything and knows the invariants.
#![allow(dead_code)] // each test file uses its part

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use paxos::*;

pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() {
            None
        } else {
            Some(&of[self.below(of.len() as u64) as usize])
        }
    }
}

#[derive(Clone, Debug)]
pub enum Record {
    Checkpoint(Checkpoint),
    Promise(PromisedTerm, LogState),
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
    /// The stream this node's client writes, and how far it has.
    pub writer: Option<(StreamName, u64)>,
    opening: Option<StreamName>,
    reads: BTreeMap<u64, Slot>,
    pub applied: Vec<(Slot, Outcome)>,
    pub notes: Vec<Note>,
    bound_since: Option<(Term, Slot, u64)>,
    /// What it must hold may have changed.
    recount: bool,
}

pub struct Flight {
    pub at: u64,
    pub from: NodeId,
    pub to: NodeId,
    pub message: Message,
}

#[derive(Clone, Copy)]
pub struct Faults {
    pub drop_one_in: u64,
    pub twice_one_in: u64,
    pub delay_max: u64,
    pub crash: bool,
    pub cuts: bool,
    pub reconfigure: bool,
    pub hand_over: bool,
    /// Bytes of a bound run cannot be fetched.
    pub no_fetch: bool,
}

pub const CALM: Faults = Faults {
    drop_one_in: 0,
    twice_one_in: 0,
    delay_max: 300,
    crash: false,
    cuts: false,
    reconfigure: false,
    hand_over: false,
    no_fetch: false,
};

pub const STORM: Faults = Faults {
    drop_one_in: 12,
    twice_one_in: 10,
    delay_max: 20_000,
    crash: true,
    cuts: true,
    reconfigure: true,
    hand_over: true,
    no_fetch: true,
};

type Acceptances = BTreeMap<Term, (Value, BTreeSet<NodeId>)>;

pub struct World {
    pub now: u64,
    pub rng: Rng,
    pub nodes: Vec<SimNode>,
    pub net: Vec<Flight>,
    pub cut: BTreeSet<(NodeId, NodeId)>,
    pub faults: Faults,
    pub initial: LogState,
    pub trace: u64,
    pub log: Option<String>,
    next_beat: u64,
    next_client: u64,
    next_fault: u64,
    pub clients: bool,
    /// Everything durably accepted, by slot and term.
    acceptances: BTreeMap<u64, Acceptances>,
    /// One value per term and slot.
    proposed: BTreeMap<(Term, u64), Value>,
    /// What is chosen, by definition, and the state before each slot.
    pub truth: Vec<Value>,
    history: Vec<LogState>,
    pub chosen_told: Slot,
    next_read: u64,
    pub reads_answered: u64,
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
            initial: initial.clone(),
            trace: 0,
            log: None,
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

    pub fn start(&mut self, at: usize) {
        let seed = self.rng.next();
        let node = &mut self.nodes[at];
        let mut recovery = Recovery::new(self.initial.clone());
        for record in node.durable.clone() {
            match record {
                Record::Checkpoint(checkpoint) => recovery.on_checkpoint(checkpoint),
                Record::Promise(term, state) => recovery.on_promise(term, state),
                Record::State(state) => recovery.on_state(state),
                Record::Accept(term, slots, value) => {
                    recovery.on_accept(term, slots, value).expect("I4");
                }
                Record::Chosen(slot) => recovery.on_chosen(slot).expect("chosen is accepted"),
            }
        }
        let checkpoint = recovery.finish();
        for run in &checkpoint.accepted {
            if let Value::Content { stream, offset } = run.value {
                for slot in run.slots.start.0..run.slots.end.0 {
                    assert!(
                        node.bytes_durable.contains(&(stream, slot - offset.0)),
                        "an acceptance without its bytes: {run:?}"
                    );
                }
            }
        }
        node.bytes = node.bytes_durable.clone();
        node.durable.clear();
        node.durable.push(Record::Checkpoint(checkpoint.clone()));
        node.incarnation += 1;
        node.counter = 0;
        node.durable_up_to = RecordNumber(0);
        node.alive.clear();
        node.heard.clear();
        let config = EngineConfig {
            node: node.id,
            seed,
            unchosen_bytes_max: 200,
            timing: Timing::default(),
        };
        let id = node.id;
        node.engine = Some(Engine::new(config, checkpoint, Time(self.now)));
        self.say(format_args!("{id} starts"));
        self.nodes[at].recount = true;
        self.drain(at);
    }

    pub fn crash(&mut self, at: usize) {
        let keep = self.rng.below(self.nodes[at].pending.len() as u64 + 1);
        for _ in 0..keep {
            self.sync_one(at);
        }
        let node = &mut self.nodes[at];
        node.engine = None;
        node.pending.clear();
        node.outbox.clear();
        node.sync_at = None;
        node.writer = None;
        node.opening = None;
        node.reads.clear();
        node.bound_since = None;
        let id = node.id;
        self.say(format_args!("{id} crashes, {keep} records survive"));
    }

    /// One pending record becomes durable.
    fn sync_one(&mut self, at: usize) -> Option<RecordNumber> {
        let (number, record) = self.nodes[at].pending.pop_front()?;
        let id = self.nodes[at].id;
        match &record {
            Record::Accept(term, slots, value) => {
                self.on_durable_acceptance(at, id, *term, *slots, value);
            }
            Record::Checkpoint(_) => self.nodes[at].durable.clear(),
            _ => {}
        }
        self.nodes[at].durable.push(record);
        Some(number)
    }

    fn on_durable_acceptance(
        &mut self,
        at: usize,
        id: NodeId,
        term: Term,
        slots: SlotRange,
        value: &Value,
    ) {
        for slot in slots.start.0..slots.end.0 {
            if let Value::Content { stream, offset } = value {
                let byte = (*stream, slot - offset.0);
                self.nodes[at].bytes_durable.insert(byte);
            }
            let by_term = self.acceptances.entry(slot).or_default();
            let entry = by_term
                .entry(term)
                .or_insert_with(|| (value.clone(), BTreeSet::new()));
            assert_eq!(&entry.0, value, "I3: one term, one slot, one value");
            entry.1.insert(id);
        }
        self.observe_chosen();
    }

    /// What is chosen by the definition, P7; agreement is checked for every slot and term.
    fn observe_chosen(&mut self) {
        loop {
            let slot = self.truth.len() as u64;
            let state = self.history.last().unwrap();
            let Some(by_term) = self.acceptances.get(&slot) else {
                return;
            };
            let chosen = by_term.iter().find(|(term, (_, nodes))| {
                term.era <= state.era
                    && state.era.0 <= term.era.0 + 1
                    && state.configuration.is_quorum(|node| nodes.contains(&node))
            });
            let Some((_, (value, _))) = chosen else {
                return;
            };
            let value = value.clone();
            let mut next = state.clone();
            next.apply(SlotRange::new(Slot(slot), Slot(slot + 1)), &value);
            self.history.push(next);
            self.truth.push(value);
        }
    }

    /// I1 over all terms: nothing else was ever chosen in these slots, under any term.
    pub fn check_agreement(&self) {
        for (slot, value) in self.truth.iter().enumerate() {
            let state = &self.history[slot];
            for (term, (other, nodes)) in &self.acceptances[&(slot as u64)] {
                let chosen = term.era <= state.era
                    && state.era.0 <= term.era.0 + 1
                    && state.configuration.is_quorum(|node| nodes.contains(&node));
                assert!(!chosen || value == other, "I1: slot {slot} in {term}");
            }
        }
    }

    fn proposed(&mut self, term: Term, slots: SlotRange, value: &Value) {
        for slot in slots.start.0..slots.end.0 {
            let before = self
                .proposed
                .entry((term, slot))
                .or_insert_with(|| value.clone());
            assert_eq!(before, value, "I3: {term} slot {slot}");
            // P5 in its consequence: nothing but the chosen value is proposed in a later term.
            if let Some(chosen) = self.truth.get(slot as usize) {
                let in_term = self.acceptances[&slot]
                    .iter()
                    .find(|(_, (v, nodes))| {
                        v == chosen
                            && self.history[slot as usize]
                                .configuration
                                .is_quorum(|node| nodes.contains(&node))
                    })
                    .map(|(term, _)| *term);
                if in_term.is_some_and(|chosen_in| chosen_in < term) {
                    assert_eq!(chosen, value, "P5: {term} slot {slot}");
                }
            }
        }
    }

    pub fn index(&self, node: NodeId) -> usize {
        node.0 as usize - 1
    }

    pub fn engine(&self, node: u32) -> &Engine {
        self.nodes[node as usize - 1].engine.as_ref().unwrap()
    }

    pub fn input(&mut self, at: usize, input: Input) {
        let now = Time(self.now);
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

    pub fn propose(&mut self, at: usize, action: Action) -> Result<Slot, NotLeading> {
        let now = Time(self.now);
        let Some(engine) = &mut self.nodes[at].engine else {
            return Err(NotLeading { leader: None });
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
            let node = &mut self.nodes[at];
            let engine = node.engine.as_mut().unwrap();
            match output {
                Output::Persist { record, what } => {
                    let rec = match what {
                        Persist::Promise { term } => {
                            let checkpoint = engine.checkpoint();
                            assert_eq!(checkpoint.promised, term);
                            assert!(term.0.era <= checkpoint.state.era, "I7");
                            if self.rng.one_in(2) {
                                Record::Checkpoint(checkpoint)
                            } else {
                                Record::Promise(term, checkpoint.state)
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
                    if self.rng.one_in(25) {
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
                    if self.rng.one_in(3) {
                        node.pending
                            .push_back((RecordNumber(0), Record::Chosen(up_to)));
                        if node.sync_at.is_none() {
                            node.sync_at = Some(self.now + 1_000);
                        }
                    }
                    self.check_chosen(at, up_to);
                }
                Output::Release { below } => self.release(at, below),
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
                    let waiting = std::mem::take(&mut node.reads);
                    for (id, chosen_at_arrival) in waiting {
                        if id > read.0 {
                            node.reads.insert(id, chosen_at_arrival);
                            continue;
                        }
                        self.reads_answered += 1;
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

    /// Before anybody hears of its new state, a node counts what it lacks of it.
    fn count_missing(&mut self, at: usize) {
        let missing = self.missing(at).len() as u64;
        if self.nodes[at].engine.is_some() {
            self.input(at, Input::MissingBytes(missing));
        }
    }

    /// Only logs with auxiliaries have bytes that may be dropped, so only there it matters.
    fn missing(&self, at: usize) -> Vec<(StreamName, u64)> {
        let node = &self.nodes[at];
        let Some(engine) = &node.engine else {
            return Vec::new();
        };
        let state = engine.state();
        if !state.configuration.has_auxiliaries() {
            return Vec::new();
        }
        let bytes = state.streams.iter().flat_map(|stream| {
            (stream.trimmed.0..stream.length.0).map(|position| (stream.name, position))
        });
        bytes
            .filter(|byte| !node.bytes_durable.contains(byte))
            .collect()
    }

    /// Missing bytes come from whoever has them.
    fn fetch(&mut self, at: usize) {
        let mut missing = self.missing(at);
        if missing.is_empty()
            || self.nodes[at]
                .engine
                .as_ref()
                .is_some_and(Engine::is_auxiliary)
        {
            return;
        }
        let id = self.nodes[at].id;
        missing.truncate(1 + self.rng.below(400) as usize);
        for byte in missing {
            let has = |other: &SimNode| {
                let up = other.engine.is_some() && self.reachable(other.id, id);
                up && other.bytes_durable.contains(&byte)
            };
            if self.nodes.iter().any(has) {
                self.nodes[at].bytes.insert(byte);
                self.nodes[at].bytes_durable.insert(byte);
            }
        }
        self.count_missing(at);
    }

    /// Who is to drop a byte may not have heard of the trim yet, and who has may be down.
    fn trimmed_below(&self, stream: StreamName) -> u64 {
        let state = self.history.last().unwrap_or(&self.initial);
        match state.stream(stream) {
            Some(stream) => stream.trimmed.0,
            None if state.is_forgotten(stream) => u64::MAX,
            None => 0,
        }
    }

    /// ‡ What an auxiliary drops, every active member of its era durably holds.
    fn release(&mut self, at: usize, below: Slot) {
        let engine = self.nodes[at].engine.as_ref().unwrap();
        let (id, state) = (self.nodes[at].id, engine.state().clone());
        assert!(state.configuration.is_auxiliary(id) && below <= state.next);
        for (stream, end) in engine.bytes_below(below) {
            let of_stream = (stream, 0)..(stream, end.0);
            let held: Vec<_> = self.nodes[at].bytes.range(of_stream).copied().collect();
            let trimmed = self.trimmed_below(stream);
            for byte in held {
                for member in state
                    .configuration
                    .members()
                    .iter()
                    .filter(|m| !m.auxiliary)
                {
                    let other = &self.nodes[self.index(member.node)];
                    let holds = other.bytes_durable.contains(&byte);
                    assert!(
                        holds || byte.1 < trimmed,
                        "I5: {id} drops byte {byte:?}, and {} does not hold it",
                        member.node
                    );
                }
                self.releases += 1;
                self.nodes[at].bytes.remove(&byte);
                self.nodes[at].bytes_durable.remove(&byte);
            }
        }
    }

    fn check_chosen(&mut self, at: usize, up_to: Slot) {
        let id = self.nodes[at].id;
        assert!(
            up_to.0 as usize <= self.truth.len(),
            "I1: {id} takes slots below {up_to} for chosen, and only {} are",
            self.truth.len()
        );
        self.chosen_told = self.chosen_told.max(up_to);
    }

    /// What must hold of a node after every step.
    fn check_node(&self, at: usize) {
        let node = &self.nodes[at];
        let Some(engine) = &node.engine else {
            return;
        };
        let next = engine.first_unchosen();
        assert!(next.0 as usize <= self.truth.len(), "I1");
        assert_eq!(engine.state(), &self.history[next.0 as usize], "I1, I6, I7");
        assert!(engine.proposed_up_to() >= next);
        if let Some(permit) = engine.permit() {
            assert_eq!(engine.role(), Role::Leader { term: permit.term });
            assert_eq!(
                engine.promised().0,
                permit.term,
                "raising the promise closes permits"
            );
            assert_eq!(permit.next, engine.proposed_up_to());
        }
    }

    pub fn reachable(&self, from: NodeId, to: NodeId) -> bool {
        !self.cut.contains(&(from, to))
    }

    pub fn transmit(&mut self, from: NodeId, to: NodeId, message: Message) {
        self.messages += 1;
        if to.0 as usize > self.nodes.len() || !self.reachable(from, to) {
            return;
        }
        if self.rng.one_in(self.faults.drop_one_in) {
            return;
        }
        let copies = if self.rng.one_in(self.faults.twice_one_in) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let at = self.now + 50 + self.rng.below(self.faults.delay_max);
            let message = message.clone();
            self.net.push(Flight {
                at,
                from,
                to,
                message,
            });
        }
    }

    fn replicate(&mut self, from: NodeId, proposal: Proposal) {
        for to in (1..=self.nodes.len() as u32).map(NodeId) {
            let engine = self.nodes[self.index(from)].engine.as_ref();
            if to != from && engine.is_some_and(|engine| engine.wants_proposals(to)) {
                self.transmit(from, to, Message::Propose(proposal.clone()));
            }
        }
    }

    fn deliver(&mut self, flight: Flight) {
        let at = self.index(flight.to);
        if self.nodes[at].engine.is_none() {
            return;
        }
        if let Message::Propose(proposal) = &flight.message
            && let Value::Content { stream, offset } = proposal.value
        {
            for slot in proposal.slots.start.0..proposal.slots.end.0 {
                self.nodes[at].bytes.insert((stream, slot - offset.0));
            }
        }
        self.input(
            at,
            Input::Message {
                from: flight.from,
                message: flight.message,
            },
        );
    }

    fn sync(&mut self, at: usize) {
        let mut last = RecordNumber(0);
        let count = 1 + self.rng.below(self.nodes[at].pending.len() as u64 + 1);
        for _ in 0..count {
            if let Some(number) = self.sync_one(at) {
                last = last.max(number);
            }
        }
        let node = &mut self.nodes[at];
        node.sync_at = if node.pending.is_empty() {
            None
        } else {
            Some(self.now + 200 + self.rng.below(3_000))
        };
        if last <= node.durable_up_to {
            return;
        }
        node.durable_up_to = last;
        let id = node.id;
        let mut ready = Vec::new();
        let mut waiting = VecDeque::new();
        for (after, to, message) in std::mem::take(&mut node.outbox) {
            if after <= last {
                ready.push((to, message));
            } else {
                waiting.push_back((after, to, message));
            }
        }
        node.outbox = waiting;
        for (to, message) in ready {
            self.transmit(id, to, message);
        }
        self.input(at, Input::Durable { up_to: last });
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
            let Some(engine) = &self.nodes[at].engine else {
                continue;
            };
            let id = self.nodes[at].id;
            let mut out = Vec::new();
            if let Some(status) = engine.leader_status() {
                for to in (1..=self.nodes.len() as u32).map(NodeId) {
                    if to == id || engine.is_level(to) {
                        continue;
                    }
                    out.push((to, status.clone()));
                    if !engine.wants_proposals(to) {
                        continue;
                    }
                    let up_to = engine.peer_accepted_up_to(to).unwrap_or(Slot(0));
                    for proposal in engine.proposals(engine.first_unchosen()) {
                        if proposal.slots.end > up_to {
                            out.push((to, Message::Propose(proposal)));
                        }
                    }
                }
            } else {
                let status = engine.follower_status();
                for to in (1..=self.nodes.len() as u32).map(NodeId) {
                    if to != id && engine.leader().is_some_and(|(leader, _)| leader == to) {
                        out.push((to, status.clone()));
                    }
                }
            }
            for (to, message) in out {
                self.transmit(id, to, message);
            }
        }
    }

    /// Clients: open streams, write bytes, read, and administrators who reconfigure.
    fn client(&mut self) {
        self.next_client = self.now + 500 + self.rng.below(4_000);
        let at = self.rng.below(self.nodes.len() as u64) as usize;
        self.write_bound(at);
        if !self.clients {
            return;
        }
        let Some(engine) = &self.nodes[at].engine else {
            return;
        };
        if self.rng.one_in(4) {
            let id = self.next_read;
            self.next_read += 1;
            let told = self.chosen_told;
            self.nodes[at].reads.insert(id, told);
            self.input(at, Input::Read(ReadId(id)));
            return;
        }
        let Some(permit) = engine.permit().cloned() else {
            return;
        };
        if permit.content != PermitContent::Free {
            return;
        }
        let era = engine.state().era;
        let dice = self.rng.below(20);
        if self.nodes[at].writer.is_none() && self.nodes[at].opening.is_none() || dice == 0 {
            self.open(at);
        } else if dice == 1 && self.faults.reconfigure {
            let node = NodeId(1 + self.rng.below(self.nodes.len() as u64) as u32);
            let change = match self.rng.below(8) {
                0..=2 => Change::Increment(node),
                3 | 4 => Change::Decrement(node),
                5 => Change::Multiply(2),
                6 => Change::Divide(2),
                _ if self.rng.one_in(2) => Change::MarkAuxiliary(node),
                _ => Change::UnmarkAuxiliary(node),
            };
            let _ = self.propose(at, Action::Reconfigure { from: era, change });
        } else if dice == 2 {
            let _ = self.propose(at, Action::GenerateNodeId);
        } else if dice == 3 {
            let before = Slot(self.rng.below(permit.next.0 + 10));
            let _ = self.propose(at, Action::Trim { before });
        } else if dice == 4
            && let Some((stream, written)) = self.nodes[at].writer
        {
            let at_position = StreamPosition(written);
            let action = Action::CloseStream {
                stream,
                at: at_position,
            };
            let _ = self.propose(at, action);
            self.nodes[at].writer = None;
        } else {
            self.write(at, 1 + self.rng.0 % 12);
        }
    }

    pub fn open(&mut self, at: usize) {
        let continues = self.nodes[at].engine.as_ref().and_then(|engine| {
            let last = engine.state().streams.last()?;
            Some((last.name, last.length))
        });
        let continues = continues.filter(|_| self.rng.one_in(2));
        let node = &mut self.nodes[at];
        node.counter += 1;
        let stream = StreamName {
            owner: node.id,
            sequence: StreamSequence {
                incarnation: node.incarnation,
                counter: node.counter,
            },
        };
        node.writer = None;
        node.opening = Some(stream);
        let open = OpenStream {
            stream,
            label: String::from("test"),
            metadata: Vec::new(),
            continues,
        };
        let _ = self.propose(at, Action::OpenStream(open));
    }

    /// The node's client gives up to `count` bytes of its stream to disk and network.
    pub fn write(&mut self, at: usize, count: u64) {
        let node = &self.nodes[at];
        let (Some(engine), Some((stream, written))) = (&node.engine, node.writer) else {
            return;
        };
        let Some(permit) = engine.permit().cloned() else {
            return;
        };
        let count = count.min(permit.limit.0 - permit.next.0);
        if permit.content != PermitContent::Free || count == 0 {
            return;
        }
        self.nodes[at].writer = Some((stream, written + count));
        self.give(at, &permit, stream, written, count);
    }

    fn give(&mut self, at: usize, permit: &WritePermit, stream: StreamName, p: u64, count: u64) {
        let id = self.nodes[at].id;
        for position in p..p + count {
            self.nodes[at].bytes.insert((stream, position));
        }
        let slots = SlotRange::new(permit.next, Slot(permit.next.0 + count));
        let value = Value::Content {
            stream,
            offset: Offset(permit.next.0 - p),
        };
        let proposal = Proposal {
            term: permit.term,
            slots,
            value: value.clone(),
            digest: digest(stream, p, count),
            chosen_up_to: self.nodes[at].engine.as_ref().unwrap().first_unchosen(),
        };
        self.proposed(permit.term, slots, &value);
        self.replicate(id, proposal);
        self.input(
            at,
            Input::BytesWritten(BytesWritten {
                term: permit.term,
                first_slot: permit.next,
                count,
                stream,
                position: StreamPosition(p),
                digest: digest(stream, p, count),
            }),
        );
    }

    /// The mover of a leader with a bound permit: reads its own bytes or fetches a holder's.
    fn write_bound(&mut self, at: usize) {
        let Some(permit) = self.nodes[at]
            .engine
            .as_ref()
            .and_then(|engine| engine.permit().cloned())
        else {
            return;
        };
        let PermitContent::Bound {
            stream,
            position,
            holders,
        } = &permit.content
        else {
            return;
        };
        let id = self.nodes[at].id;
        let room = permit.limit.0 - permit.next.0;
        let wanted = (1 + self.rng.below(30)).min(room);
        let has = |node: &SimNode, p: u64| node.bytes.contains(&(*stream, p));
        let mut count = 0;
        while count < wanted {
            let p = position.0 + count;
            let found = has(&self.nodes[at], p)
                || holders.iter().any(|holder| {
                    let from = &self.nodes[self.index(*holder)];
                    from.engine.is_some()
                        && self.reachable(*holder, id)
                        && self.reachable(id, *holder)
                        && has(from, p)
                });
            if !found {
                break;
            }
            count += 1;
        }
        if count > 0 && !(self.faults.no_fetch && self.rng.one_in(8)) {
            self.give(at, &permit.clone(), *stream, position.0, count);
        } else if room > 0 {
            let key = (permit.term, permit.next);
            let since = match self.nodes[at].bound_since {
                Some((term, slot, since)) if (term, slot) == key => since,
                _ => {
                    self.nodes[at].bound_since = Some((key.0, key.1, self.now));
                    self.now
                }
            };
            if self.now > since + 50_000 {
                let holders = holders.clone();
                self.nodes[at].bound_since = None;
                self.input(
                    at,
                    Input::BytesUnavailable {
                        term: permit.term,
                        holders,
                    },
                );
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
                    let missing = self.rng.below(2) * 100;
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
                && let Some(Time(due)) = engine.deadline()
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
                after.is_none_or(|t| t.0 > self.now) || before != after,
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
            self.input(at, Input::MissingBytes(0));
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
