//! A writer whose every step comes from a seed, and what must be true of its disk afterwards.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use formats::{BATCH_BUFFER, ClusterId, DiskId, Identity, LogId, RECORD_HEADER, codec, digest};
use ops::{Buffer, Time};
use paxos::{
    AcceptedRun, AcceptedTerm, Action, By, Checkpoint, Configuration, Digest, LogState, NodeId,
    Offset, PromisedTerm, Slot, SlotRange, StreamName, StreamPosition, StreamSequence, Term, Value,
};
use store::{
    NewRecord, Reach, ReadFailure, RecordContext, RecoverError, RecoveredRecord, RecoveryReport,
    Store, StoreConfig, StoreEvent,
};

use super::{Kernel, MemoryDisk, Random};

/// So many bytes are of use.
pub fn reach(bytes: u64) -> Reach {
    let to_send = false;
    Reach { bytes, to_send }
}

pub fn config(salt_seed: u64, writes_in_flight_max: usize) -> StoreConfig {
    StoreConfig {
        directory: PathBuf::from("/data/log-7"),
        identity: Identity {
            cluster: ClusterId([1; 16]),
            node: NodeId(3),
            disk: DiskId([2; 16]),
        },
        log: LogId(7),
        segment_bytes_first: 32 << 10,
        segment_bytes_max: 128 << 10,
        salt_seed,
        write_bytes_max: 64 << 10,
        writes_in_flight_max,
        calendar: store::Calendar::default(),
        version: formats::version::FIRST,
        speaks: formats::Speaks::THIS,
        landing: None,
        blocks: ops::Pool::new(ops::BLOCK, 64),
    }
}

pub fn state() -> LogState {
    LogState {
        next: Slot(0),
        era: paxos::Era(0),
        era_start: Slot(0),
        configuration: Configuration::default(),
        next_node_id: NodeId(4),
        sequences: BTreeMap::new(),
        streams: Vec::new(),
        streams_trimmed: paxos::StreamsTrimmed::default(),
        current: None,
        trimmed: Slot(0),
        wish: None,
    }
}

/// The checkpoint of a log that was just made.
pub fn first_checkpoint() -> Checkpoint {
    Checkpoint {
        promised: PromisedTerm::default(),
        finishing: None,
        state: state(),
        accepted: Vec::new(),
    }
}

pub fn new_disk() -> MemoryDisk {
    let mut disk = MemoryDisk::default();
    disk.directories.insert("/data".into());
    disk
}

pub fn new_store(salt_seed: u64) -> (Store, Kernel) {
    let store = Store::create(config(salt_seed, 1), &first_checkpoint());
    (store, Kernel::new(new_disk()))
}

pub fn stream(counter: u32) -> StreamName {
    StreamName {
        owner: NodeId(3),
        sequence: StreamSequence {
            incarnation: 1,
            counter,
        },
    }
}

/// Byte `position` of a stream, the same whoever writes it.
pub fn byte(stream: StreamName, position: u64) -> u8 {
    let mixed =
        (position ^ ((stream.sequence.counter as u64) << 32)).wrapping_mul(0x9e37_79b9_97f4_a7c1);
    (mixed >> 40) as u8
}

pub fn content(stream: StreamName, bytes: Range<u64>) -> Buffer {
    let mut buffer = Buffer::new(BATCH_BUFFER);
    // This stands for the bytes of the pool's last user.
    buffer.fill(0xee);
    for (at, position) in bytes.enumerate() {
        buffer[RECORD_HEADER + at] = byte(stream, position);
    }
    buffer
}

/// The deeds of the writer, and how far it knows them durable.
#[derive(Clone, Default)]
pub struct Truth {
    pub accepted: Vec<AcceptedRun>,
    pub promised: PromisedTerm,
    /// The lengths of `accepted` and `bytes` and the promise at the time of each tag.
    pub tags: Vec<(usize, PromisedTerm, usize)>,
    /// The bytes, in the order of writing.
    pub bytes: Vec<(StreamName, Range<u64>)>,
    pub durable_tag: u64,
    pub next_slot: u64,
    pub length: u64,
}

impl Truth {
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            promised: self.promised,
            finishing: None,
            state: state(),
            accepted: self.accepted.clone(),
        }
    }

    pub fn context(&self) -> RecordContext {
        RecordContext {
            promised: self.promised,
            first_unchosen: Slot(0),
        }
    }

    pub fn durable(&self) -> (usize, PromisedTerm, usize) {
        match self.durable_tag {
            0 => (0, PromisedTerm::default(), 0),
            tag => self.tags[tag as usize - 1],
        }
    }

    fn tag(&mut self) -> u64 {
        self.tags
            .push((self.accepted.len(), self.promised, self.bytes.len()));
        self.tags.len() as u64
    }

    /// One record, drawn.
    pub fn append(&mut self, store: &mut Store, random: &mut Random) {
        let term = self.promised.0;
        let record = match random.below(10) {
            0 => {
                self.promised.0.number += 1;
                NewRecord::Promise(self.checkpoint())
            }
            1 => {
                let count = 1 + random.below(1000);
                self.accept(term, count, Value::NoOp);
                let slots = self.accepted.last().unwrap().slots;
                NewRecord::Accept {
                    term,
                    slots,
                    value: Value::NoOp,
                    digest: Digest(0),
                    payload: None,
                }
            }
            2 => {
                let action = Arc::new(Action::Trim {
                    before: Slot(random.below(100)),
                    by: By::Unsaid,
                });
                self.accept(term, 1, Value::Action(action.clone()));
                NewRecord::Accept {
                    term,
                    slots: self.accepted.last().unwrap().slots,
                    digest: digest(&codec::encode(formats::version::FIRST, &*action)),
                    value: Value::Action(action),
                    payload: None,
                }
            }
            3 => {
                let stream = stream(2);
                let position = random.below(30_000);
                let length = 1 + random.below(9_000);
                self.bytes.push((stream, position..position + length));
                let buffer = content(stream, position..position + length);
                NewRecord::Bytes {
                    stream,
                    position: StreamPosition(position),
                    length: length as usize,
                    digest: digest(&buffer[RECORD_HEADER..][..length as usize]),
                    buffer,
                }
            }
            kind => {
                let length = match kind {
                    4 => 1 + random.below(30_000),
                    5 => 4096 - RECORD_HEADER as u64,
                    _ => 1 + random.below(3_000),
                };
                let stream = stream(1);
                let start = self.next_slot;
                let from = self.length;
                let value = Value::Content {
                    stream,
                    offset: Offset(start - from),
                };
                self.accept(term, length, value.clone());
                self.bytes.push((stream, from..from + length));
                self.length += length;
                let payload = content(stream, from..from + length);
                NewRecord::Accept {
                    term,
                    slots: SlotRange::new(Slot(start), Slot(start + length)),
                    value,
                    digest: digest(&payload[RECORD_HEADER..][..length as usize]),
                    payload: Some(payload),
                }
            }
        };
        let tag = self.tag();
        store.append(record, self.context(), tag);
    }

    fn accept(&mut self, term: Term, count: u64, value: Value) {
        let slots = SlotRange::new(Slot(self.next_slot), Slot(self.next_slot + count));
        self.next_slot += count;
        self.accepted.push(AcceptedRun {
            slots,
            term: AcceptedTerm(term),
            value,
        });
    }

    pub fn watch(&mut self, store: &mut Store) {
        while let Some(event) = store.poll_event() {
            match event {
                StoreEvent::Durable { tag } => {
                    assert!(tag > self.durable_tag, "tags become durable in order");
                    self.durable_tag = tag;
                }
                StoreEvent::Failed(_) => {}
                other => panic!("nobody asked for {other:?}"),
            }
        }
    }
}

/// The facts that recovery told the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub accepted: Vec<AcceptedRun>,
    pub promised: PromisedTerm,
    pub gap: bool,
}

pub type Recovery = (Store, RecoveryReport, Recovered);

pub fn recover(disk: &mut MemoryDisk, salt_seed: u64) -> Result<Recovery, RecoverError> {
    let mut recovered = Recovered::default();
    let (store, report) = Store::recover(config(salt_seed, 1), disk, &mut |record| match record {
        RecoveredRecord::Checkpoint(checkpoint)
        | RecoveredRecord::Promise(checkpoint)
        | RecoveredRecord::State(checkpoint) => {
            recovered.accepted = checkpoint.accepted;
            recovered.promised = checkpoint.promised;
        }
        RecoveredRecord::Accept { term, slots, value } => {
            recovered.accepted.push(AcceptedRun {
                slots,
                term: AcceptedTerm(term),
                value,
            });
        }
        RecoveredRecord::Chosen(_) => {}
        RecoveredRecord::Gap => recovered.gap = true,
    })?;
    let mut unsettled = disk.unsettled.iter();
    let unsettled = unsettled.find(|path| disk.files.contains_key(*path));
    assert_eq!(unsettled, None, "what is in memory alone was believed");
    Ok((store, report, recovered))
}

/// Runs what the store asks for until it asks for nothing.
pub fn settle(store: &mut Store, kernel: &mut Kernel, now: Time) {
    loop {
        while let Some(op) = store.poll_op() {
            kernel.submit(op);
        }
        let Some(completion) = kernel.complete_one() else {
            return;
        };
        store.on_completion(now, completion);
    }
}

/// Reads `stream` from the position on; checks every byte it gets.
pub fn read(
    store: &mut Store,
    kernel: &mut Kernel,
    stream: StreamName,
    position: u64,
) -> Result<u64, ReadFailure> {
    store.read(
        9,
        stream,
        StreamPosition(position),
        Buffer::new(BATCH_BUFFER),
        reach(u64::MAX),
    );
    settle(store, kernel, Time::ZERO);
    let mut answer = None;
    while let Some(event) = store.poll_event() {
        match event {
            StoreEvent::Read { buffer, result, .. } => answer = Some((buffer, result)),
            StoreEvent::Lost { .. } | StoreEvent::Durable { .. } => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    let (buffer, result) = answer.expect("every read is answered");
    let bytes = result?;
    assert_eq!(bytes.position.0, position);
    let payload = &buffer[bytes.payload];
    assert!(!payload.is_empty());
    for (at, found) in payload.iter().enumerate() {
        assert_eq!(
            *found,
            byte(stream, position + at as u64),
            "byte {at} of {position}"
        );
    }
    Ok(payload.len() as u64)
}
