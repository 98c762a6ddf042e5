//! A short life of the real store, seen at every moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use formats::{BATCH_BUFFER, RECORD_HEADER, codec, digest, segment};
use ops::{BLOCK, Buffer, Time};
use paxos::{
    AcceptedRun, AcceptedTerm, Action, Checkpoint, Digest, LogState, NodeId, Offset, PromisedTerm,
    Recovery, Slot, SlotRange, Term, Value,
};
use store::{NewRecord, RecordContext, Store, StoreConfig, StoreEvent};

use super::kernel::script::{config, first_checkpoint, new_disk, state, stream};
use super::kernel::{Kernel, MemoryDisk};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A higher promise.
    Promise,
    /// An acceptance in this slot: of nothing, or of something that shows in the state.
    NoOp(u64),
    Number(u64),
    /// An acceptance from this slot on, in two blocks.
    Wide(u64),
    /// All below is known chosen from now on.
    Chosen(u64),
    /// The state of a peer that says so much more than this replica.
    Jump(u64),
    Roll,
    /// Nothing is written for a while.
    Rest,
    /// The next act is begun before this one is durable.
    Then,
    /// The process is killed and starts again. Writes in flight are gone, or are there.
    Kill {
        wrote: bool,
    },
    /// As `Kill`, but the writes in flight land at any time from now on, or never.
    KillLate,
    /// The process is stopped; the oldest segment is trimmed, and its file waits for another use.
    TrimFirst,
}

#[derive(Clone)]
pub struct Script {
    pub name: &'static str,
    pub acts: Vec<Act>,
}

/// A replica's statement after its record was durable.
#[derive(Clone, Debug)]
pub struct Told {
    pub record: u64,
    pub fact: Fact,
}

#[derive(Clone, Debug)]
pub enum Fact {
    Promised(PromisedTerm),
    Accepted(AcceptedRun),
}

pub type Blocks = Vec<[u8; BLOCK]>;

/// The disk as it would be if the power went now, but for what is in flight.
#[derive(Clone)]
pub struct Moment {
    pub files: BTreeMap<u64, Blocks>,
    /// The contents of each file before it was this segment's.
    pub before: BTreeMap<u64, Blocks>,
    pub in_flight: Vec<(u64, usize, [u8; BLOCK])>,
    /// Whether some of those writes are an earlier process's.
    pub has_late_writes: bool,
    pub told: Vec<Told>,
    pub after: usize,
}

/// The facts that are true of all moments.
#[derive(Default)]
pub struct Truth {
    pub written: Vec<AcceptedRun>,
    pub promised: PromisedTerm,
    /// The states by the first unchosen slot.
    pub states: BTreeMap<Slot, LogState>,
    /// Starts that went on in the last segment.
    pub continued: usize,
}

struct Life {
    store: Store,
    kernel: Kernel,
    replica: Recovery,
    term: Term,
    last_record: u64,
    pending: Vec<(u64, Told)>,
    told: Vec<Told>,
    tag: u64,
    now: u64,
    truth: Truth,
    before: BTreeMap<u64, Blocks>,
    moments: Vec<Moment>,
    step: usize,
}

fn small(salt_seed: u64) -> StoreConfig {
    StoreConfig {
        segment_bytes_first: 1 << 20,
        segment_bytes_max: 1 << 20,
        writes_in_flight_max: 2,
        ..config(salt_seed, 2)
    }
}

pub fn live(script: &Script) -> (Vec<Moment>, Truth) {
    let mut life = Life {
        store: Store::create(small(1), &first_checkpoint()),
        kernel: Kernel::new(new_disk()),
        replica: Recovery::new(state()),
        term: Term {
            era: paxos::Era(0),
            number: 1,
            owner: NodeId(3),
        },
        last_record: 1,
        pending: Vec::new(),
        told: Vec::new(),
        tag: 0,
        now: 0,
        truth: Truth::default(),
        before: BTreeMap::new(),
        moments: Vec::new(),
        step: 0,
    };
    life.truth.states.insert(Slot(0), state());
    life.settle();
    for (step, act) in script.acts.iter().enumerate() {
        life.step = step + 1;
        let held = script.acts.get(step + 1) == Some(&Act::Then);
        life.act(*act, held);
    }
    (life.moments, life.truth)
}

impl Life {
    fn checkpoint(&self) -> Checkpoint {
        self.replica.clone().finish()
    }

    fn context(&self) -> RecordContext {
        let checkpoint = self.checkpoint();
        RecordContext {
            promised: checkpoint.promised,
            first_unchosen: checkpoint.state.next,
        }
    }

    fn act(&mut self, act: Act, held: bool) {
        match act {
            Act::Promise => {
                self.term.number += 1;
                let promised = PromisedTerm(self.term);
                let state = self.checkpoint().state;
                self.replica.on_promise(promised, None, state);
                self.truth.promised = promised;
                let record = NewRecord::Promise(self.checkpoint());
                self.append(record, Fact::Promised(promised));
            }
            Act::NoOp(slot) => self.accept(slot, 1, Value::NoOp),
            Act::Number(slot) => {
                let action = Action::GenerateNodeId;
                self.accept(slot, 1, Value::Action(Arc::new(action)));
            }
            Act::Wide(slot) => {
                let value = Value::Content {
                    stream: stream(1),
                    offset: Offset(slot),
                };
                self.accept(slot, 5_000, value);
            }
            Act::Chosen(below) => {
                self.replica.on_chosen(Slot(below)).unwrap();
                self.note_state();
            }
            Act::Jump(below) => {
                let mut state = self.checkpoint().state;
                let from = state.next;
                state.apply(SlotRange::new(from, Slot(below)), &Value::NoOp);
                self.replica.on_state(state);
                self.note_state();
                let record = NewRecord::State(self.checkpoint());
                let promised = self.checkpoint().promised;
                self.append(record, Fact::Promised(promised));
            }
            Act::Roll => self.roll(),
            Act::Rest => {
                self.now += 1_000_000;
                self.store.on_time(Time::from_micros(self.now));
                self.store.on_time(Time::from_micros(self.now));
            }
            Act::Then => return,
            Act::Kill { wrote } => return self.kill(wrote),
            Act::KillLate => return self.kill_late(),
            Act::TrimFirst => return self.trim_first(),
        }
        match held {
            true => self.submit(),
            false => self.settle(),
        }
    }

    fn note_state(&mut self) {
        let state = self.checkpoint().state;
        self.truth.states.insert(state.next, state);
    }

    fn accept(&mut self, slot: u64, count: u64, value: Value) {
        let slots = SlotRange::new(Slot(slot), Slot(slot + count));
        self.replica
            .on_accept(self.term, slots, value.clone())
            .unwrap();
        self.truth.promised = self.truth.promised.max(PromisedTerm(self.term));
        let run = AcceptedRun {
            slots,
            term: AcceptedTerm(self.term),
            value: value.clone(),
        };
        self.truth.written.push(run.clone());
        let (payload, digest) = match &value {
            Value::NoOp => (None, Digest(0)),
            Value::Action(action) => (
                None,
                digest(&codec::encode(formats::version::FIRST, &**action)),
            ),
            Value::Content { .. } => {
                let buffer = Buffer::new(BATCH_BUFFER);
                let digest = digest(&buffer[RECORD_HEADER..][..count as usize]);
                (Some(buffer), digest)
            }
        };
        let record = NewRecord::Accept {
            term: self.term,
            slots,
            value,
            digest,
            payload,
        };
        self.append(record, Fact::Accepted(run));
    }

    fn append(&mut self, record: NewRecord, fact: Fact) {
        self.tag += 1;
        self.last_record += 1;
        let told = Told {
            record: self.last_record,
            fact,
        };
        self.pending.push((self.tag, told));
        self.store.append(record, self.context(), self.tag);
    }

    fn roll(&mut self) {
        self.store.roll(&self.checkpoint(), self.context());
        self.last_record = self.store.last_number();
    }

    fn submit(&mut self) {
        while let Some(op) = self.store.poll_op() {
            self.kernel.submit(op);
        }
        self.look();
    }

    fn settle(&mut self) {
        loop {
            self.submit();
            let Some(completion) = self.kernel.complete_one() else {
                break;
            };
            self.store
                .on_completion(Time::from_micros(self.now), completion);
            self.listen();
        }
        // An idle record is one that nobody numbered here.
        self.last_record = self.store.last_number();
    }

    fn listen(&mut self) {
        while let Some(event) = self.store.poll_event() {
            let StoreEvent::Durable { tag } = event else {
                panic!("nobody asked for {event:?}");
            };
            let durable = self.pending.iter().position(|(of, _)| *of > tag);
            let durable = durable.unwrap_or(self.pending.len());
            self.told
                .extend(self.pending.drain(..durable).map(|(_, told)| told));
        }
    }

    /// Looks at the present disk.
    fn look(&mut self) {
        let mut files = BTreeMap::new();
        for (path, bytes) in &self.kernel.disk.files {
            let name = path.file_name().unwrap().to_str().unwrap();
            if let Some(number) = segment::number_of(name) {
                files.insert(number, cut(bytes));
            }
        }
        for (number, blocks) in &files {
            self.before.entry(*number).or_insert(blocks.clone());
        }
        let mut writes = self.kernel.writes_in_flight();
        let late = self.kernel.disk.late.iter();
        writes.extend(late.map(|late| (late.path.clone(), late.offset, late.bytes.clone())));
        let in_flight = writes.into_iter().flat_map(|(path, offset, bytes)| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let number = segment::number_of(&name).unwrap();
            let blocks = cut_all(&bytes).into_iter().enumerate();
            let first = offset as usize / BLOCK;
            blocks
                .map(move |(at, block)| (number, first + at, block))
                .collect::<Vec<_>>()
        });
        self.moments.push(Moment {
            files,
            before: self.before.clone(),
            in_flight: in_flight.collect(),
            has_late_writes: !self.kernel.disk.late.is_empty(),
            told: self.told.clone(),
            after: self.step,
        });
    }

    fn kill(&mut self, wrote: bool) {
        while wrote && self.kernel.complete_one().is_some() {}
        let disk = std::mem::take(&mut self.kernel.disk);
        self.start(disk);
    }

    fn kill_late(&mut self) {
        let disk = std::mem::take(&mut self.kernel).kill();
        self.start(disk);
    }

    fn trim_first(&mut self) {
        self.settle();
        let mut disk = std::mem::take(&mut self.kernel.disk);
        let first = disk
            .files
            .keys()
            .find(|path| path.extension().is_some_and(|e| e == "seg"));
        let first = first.unwrap().clone();
        let spare = first.with_extension("free");
        let mut bytes = disk.files.remove(&first).unwrap();
        // The file is as it was when it was trimmed, and no more.
        let written = cut(&bytes).len();
        bytes.truncate(written * BLOCK);
        disk.files.insert(spare, bytes);
        self.start(disk);
    }

    fn start(&mut self, mut disk: MemoryDisk) {
        self.now += 1;
        let config = small(1_000 + self.now * 10 + self.step as u64);
        let (store, _, checkpoint) = Store::replay(config, &mut disk).unwrap();
        self.store = store;
        self.kernel = Kernel::new(disk);
        self.pending.clear();
        // The findings are told: they are as good as written again.
        let mut replica = Recovery::new(checkpoint.state.clone());
        replica.on_checkpoint(checkpoint.clone());
        self.replica = replica;
        self.term = self.term.max(checkpoint.promised.0);
        self.last_record = self.store.last_number();
        let found = checkpoint
            .accepted
            .iter()
            .map(|run| Fact::Accepted(run.clone()));
        let promised = Fact::Promised(checkpoint.promised);
        let before = self.last_record;
        self.store.go_on(&self.checkpoint(), self.context());
        // The checkpoint of a new segment says it, or the replica that went on rested behind the records that do.
        let record = self.store.last_number().min(before + 1);
        self.truth.continued += usize::from(record == before);
        self.last_record = self.store.last_number();
        self.pending.extend(
            found
                .chain([promised])
                .map(|fact| (0, Told { record, fact })),
        );
        self.settle();
        // Its checkpoint is durable, and so may be what the replica found.
        let found = std::mem::take(&mut self.pending);
        self.told.extend(found.into_iter().map(|(_, told)| told));
        self.look();
    }
}

/// The blocks without the zeros behind the end, but for one of them.
fn cut(bytes: &[u8]) -> Blocks {
    let mut blocks = cut_all(bytes);
    let written = blocks
        .iter()
        .rposition(|block| block.iter().any(|b| *b != 0));
    blocks.truncate(written.map_or(1, |last| last + 2));
    blocks
}

fn cut_all(bytes: &[u8]) -> Blocks {
    let blocks = bytes.chunks(BLOCK).map(|chunk| {
        let mut block = [0; BLOCK];
        block[..chunk.len()].copy_from_slice(chunk);
        block
    });
    blocks.collect()
}
