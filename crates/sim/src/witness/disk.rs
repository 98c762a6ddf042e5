//! Records on their way to a disk: what they say once they stand there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use formats::record::{RecordHeader, RecordKind, ValueKind};
use formats::{LogId, RECORD_HEADER, Speaks, codec};
use ops::{FileId, Op, Slice};
use paxos::{Action, Checkpoint, NodeId, Offset, Slot, Value};

use super::Witness;
use super::history::PromiseSeen;
use super::replica::Whose;
use crate::client;
use crate::disk::SimDisk;
use crate::host::HostId;

/// The ops on their way to one host's disk.
#[derive(Default)]
pub(super) struct Watching {
    files: BTreeMap<FileId, PathBuf>,
    /// By the op's number.
    in_flight: BTreeMap<u64, Write>,
    /// Answered with an error: they may be there all the same.
    doubtful: BTreeMap<u64, Write>,
}

struct Write {
    file: FileId,
    offset: u64,
    slices: Vec<Slice>,
}

/// A record with what its payload says.
struct Record<'a> {
    header: RecordHeader,
    payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Returns `None` if the slice is something else: the first block of a segment.
    fn parse(slice: &'a [u8]) -> Option<Record<'a>> {
        let (header, _, _) = RecordHeader::decode(slice, None).ok()?;
        let end = RECORD_HEADER + header.payload_length as usize;
        let payload = &slice[RECORD_HEADER..end];
        Some(Record { header, payload })
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        match self.header.kind {
            RecordKind::Checkpoint | RecordKind::Promise | RecordKind::State => {
                let checkpoint = codec::decode(Speaks::ALL, self.payload);
                Some(checkpoint.expect("a record holds what its kind says"))
            }
            _ => None,
        }
    }

    fn value(&self) -> Option<Value> {
        let header = &self.header;
        if header.kind != RecordKind::Accept {
            return None;
        }
        Some(match header.value {
            ValueKind::NoOp => Value::NoOp,
            ValueKind::Content => Value::Content {
                stream: header.stream,
                offset: Offset(header.slots.start.0 - header.position.0),
            },
            ValueKind::Action => {
                let action = codec::decode::<Action>(Speaks::ALL, self.payload);
                Value::Action(Arc::new(action.expect("an action's record holds it")))
            }
        })
    }
}

impl Witness {
    pub(super) fn on_disk_op(&mut self, host: HostId, op: &Op, number: u64) {
        let Some(seen) = self.hosts.get_mut(&host) else {
            return;
        };
        match op {
            Op::Open { file, path, .. } => {
                seen.disk.files.insert(*file, path.clone());
            }
            Op::Write {
                file,
                offset,
                slices,
                ..
            } => {
                let write = Write {
                    file: *file,
                    offset: *offset,
                    slices: slices.clone(),
                };
                seen.disk.in_flight.insert(number, write);
                let node = seen.node;
                for slice in slices {
                    match Record::parse(slice) {
                        Some(record) => self.on_issued(node, &record),
                        None => self.written.on_block(slice),
                    }
                }
            }
            _ => {}
        }
    }

    /// A record was given to the disk: from here on it may stand there.
    fn on_issued(&mut self, node: NodeId, record: &Record) {
        let header = &record.header;
        let is_action = header.value == ValueKind::Action;
        self.written
            .on_record(header.kind, is_action, record.payload);
        let is_accept = header.kind == RecordKind::Accept;
        let accept = is_accept.then_some((header.term, header.slots));
        let whose = Whose {
            node,
            log: header.log,
        };
        if let Some(value) = record.value()
            && header.term.owner == node
        {
            self.check_may_propose(whose, header.term, header.slots.start);
            let history = self.logs.entry(header.log).or_default();
            history.on_proposed(node, header.term, header.slots, &value);
            let replica = self.replicas.get(&(header.log, node));
            if let Some(later) = replica.and_then(|replica| replica.finishes(header.term)) {
                let range = header.slots.start.0..header.slots.end.0;
                history.check_finishing(whose, header.term, later, range);
            }
        }
        let replica = self.replicas.entry((header.log, node)).or_default();
        let within = record.checkpoint();
        let closed = replica.on_issued(whose, header.promised, within.as_ref(), accept);
        if let Some(checkpoint) = within.filter(|_| closed) {
            let seen = PromiseSeen {
                from: checkpoint.state.next,
                runs: checkpoint.accepted,
            };
            let history = self.logs.entry(header.log).or_default();
            history.on_promise(node, checkpoint.promised.0, seen);
        }
    }

    pub fn on_disk_done(&mut self, host: HostId, number: u64, done: bool) {
        let Some(seen) = self.hosts.get_mut(&host) else {
            return;
        };
        let Some(write) = seen.disk.in_flight.remove(&number) else {
            return;
        };
        if !done {
            seen.disk.doubtful.insert(number, write);
            return;
        }
        let (node, damaged) = (seen.node, seen.damaged);
        let path = seen.disk.files.get(&write.file).cloned();
        let path = path.unwrap_or_default();
        for slice in &write.slices {
            if let Some(record) = Record::parse(slice) {
                self.on_durable(node, damaged, &path, &record);
            }
        }
    }

    /// Takes the disk of a process that is gone as the next start finds it. The records on their way count if
    /// they are there whole, up to the first of their log that is not.
    pub(super) fn on_disk_end(&mut self, host: HostId, disk: &SimDisk) {
        let Some(seen) = self.hosts.get_mut(&host) else {
            return;
        };
        let (node, damaged) = (seen.node, seen.damaged);
        let mut watching = std::mem::take(&mut seen.disk);
        let mut left = std::mem::take(&mut watching.doubtful);
        left.append(&mut watching.in_flight);
        let mut cut = BTreeSet::new();
        for write in left.values() {
            let Some(path) = watching.files.get(&write.file) else {
                continue;
            };
            let contents = disk.contents(path).unwrap_or_default();
            let mut at = write.offset as usize;
            for slice in &write.slices {
                let record = Record::parse(slice);
                // Behind the payload anything may stand: what was there before, in a file that is
                // written again or in a place that was received into.
                let payload = record.as_ref().map(|record| record.payload.len());
                let length = payload.map_or(slice.len(), |length| RECORD_HEADER + length);
                let whole = contents.get(at..at + length) == Some(&slice[..length]);
                at += slice.len();
                let directory = path.parent().map(PathBuf::from);
                if !whole {
                    cut.insert(directory);
                } else if !cut.contains(&directory)
                    && let Some(record) = record
                {
                    self.on_durable(node, damaged, path, &record);
                }
            }
        }
    }

    fn on_durable(&mut self, node: NodeId, damaged: bool, path: &Path, record: &Record) {
        let header = &record.header;
        let log = header.log;
        let whose = Whose { node, log };
        if let Some(checkpoint) = record.checkpoint() {
            self.on_durable_checkpoint(whose, damaged, header, &checkpoint);
        }
        if let Some(bytes) = header.bytes() {
            match header.kind {
                RecordKind::Lost => {
                    let replica = self.replicas.entry((log, node)).or_default();
                    replica.lose(header.stream, bytes);
                }
                _ => self.on_durable_bytes(whose, header, record.payload, path),
            }
        }
        let replica = self.replicas.entry((log, node)).or_default();
        replica.promised = replica.promised.max(header.promised);
        replica.known_chosen = replica.known_chosen.max(header.first_unchosen);
        if let Some(value) = record.value() {
            if header.value == ValueKind::Content && header.payload_length == 0 && !damaged {
                let end = header.position.0 + header.slots.len();
                assert!(
                    replica.holds(header.stream, header.position.0..end),
                    "I5: {whose} accepts bytes {}..{end} of {} that it does not hold",
                    header.position.0,
                    header.stream
                );
            }
            replica.on_accepted(header.term, header.slots, &value);
            let history = self.logs.entry(log).or_default();
            history.on_accepted(node, header.term, header.slots, &value);
            self.on_chosen(log);
        }
    }

    fn on_durable_checkpoint(
        &mut self,
        whose: Whose,
        damaged: bool,
        header: &RecordHeader,
        checkpoint: &Checkpoint,
    ) {
        let (node, from) = (whose.node, checkpoint.state.next);
        let history = self.logs.entry(header.log).or_default();
        history.on_first_state(&checkpoint.state);
        history.check_state(whose, &checkpoint.state);
        let replica = self.replicas.entry((header.log, node)).or_default();
        replica.promised = replica.promised.max(checkpoint.promised);
        replica.known_chosen = replica.known_chosen.max(from);
        if damaged && header.kind == RecordKind::Checkpoint {
            replica.forgive(from, &checkpoint.accepted);
        }
        replica.check_told(whose, "a record", from, None, &checkpoint.accepted);
        let term = checkpoint.promised.0;
        if header.kind == RecordKind::Promise && term.owner == node {
            replica.check_promise(whose, from, Some(term), &checkpoint.accepted);
            let left_open = checkpoint.finishing.map(|open| open.below);
            let seen = PromiseSeen {
                from: left_open.unwrap_or_default().max(from),
                runs: checkpoint.accepted.clone(),
            };
            history.on_promise(node, term, seen);
        }
    }

    /// I6: byte p of a stream is the same wherever it stands: the one that its client sent.
    fn on_durable_bytes(
        &mut self,
        whose: Whose,
        header: &RecordHeader,
        payload: &[u8],
        path: &Path,
    ) {
        let (stream, position) = (header.stream, header.position.0);
        let history = self.logs.entry(header.log).or_default();
        let info = history.streams.get(&stream).copied();
        if let Some(client) = info.and_then(|info| info.client) {
            let begins = info.map_or(0, |info| info.begins);
            self.scratch.resize(payload.len(), 0);
            client::fill(client, begins + position, &mut self.scratch);
            let wrong = payload.iter().zip(&self.scratch).position(|(a, b)| a != b);
            if let Some(wrong) = wrong {
                let at = position + wrong as u64;
                panic!("I6: {whose} stores another byte {at} of {stream} than was sent");
            }
        } else {
            let first = self.bytes.entry(stream).or_default();
            for (at, byte) in (position..).zip(payload) {
                let before = *first.entry(at).or_insert(*byte);
                assert!(
                    before == *byte,
                    "I6: {whose} stores another byte {at} of {stream} than others"
                );
            }
        }
        let replica = self.replicas.entry((whose.log, whose.node)).or_default();
        replica.hold(stream, position..position + payload.len() as u64, path);
    }

    pub(super) fn history_next(&self, log: LogId) -> Slot {
        self.logs.get(&log).map_or(Slot(0), super::History::next)
    }
}
