//! Reading a piece of a stream from this node's own disk, record by record, for its digest.

use std::ops::Range;

use formats::Frame;
use formats::frame::{Examined, TellDigest};
use formats::record::total_length;
use ops::Buffer;
use paxos::{Digest, NodeId, StreamName, StreamPosition};
use store::{ReadBytes, ReadFailure};

use super::{DAMAGED_MAX, Log};
use crate::env::Env;
use crate::log::{Ticket, Wanted};

/// Whose question it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asker {
    Own,
    Peer(NodeId),
}

/// After so many records an own piece ends, so that small records are read at the rate of large ones.
const RECORDS_MAX: u32 = 256;

pub(crate) struct Examination {
    pub request: u64,
    pub stream: StreamName,
    pub next: u64,
    to: u64,
    digest: u32,
    records: u32,
    /// From the disk, with headers and padding.
    pub read_bytes: u64,
    not_here: bool,
    damaged: bool,
    /// The store was asked, perhaps for what the same asker wanted before.
    reads: bool,
}

impl Examination {
    pub fn new(request: u64, stream: StreamName, bytes: Range<u64>) -> Examination {
        Examination {
            request,
            stream,
            next: bytes.start,
            to: bytes.end,
            digest: 0,
            records: 0,
            read_bytes: 0,
            not_here: false,
            damaged: false,
            reads: false,
        }
    }

    pub fn outcome(&self) -> Examined {
        match (self.damaged, self.not_here) {
            (true, _) => Examined::Damaged,
            (_, true) => Examined::NotHere,
            _ => Examined::Digest(Digest(self.digest)),
        }
    }
}

impl Log {
    /// Replaces what the same asker wanted before: it has given up on that. A read that is under way for it
    /// comes back first: however fast somebody asks, he holds one buffer here.
    pub(super) fn examine(&mut self, env: &mut Env, asker: Asker, mut examination: Examination) {
        let before = self.scrub.examined.get(&asker);
        examination.reads = before.is_some_and(|before| before.reads);
        let waits = examination.reads;
        self.scrub.examined.insert(asker, examination);
        if !waits {
            self.examine_on(env, asker);
        }
    }

    /// The next record, or the answer.
    fn examine_on(&mut self, env: &mut Env, asker: Asker) {
        if self.stopped.is_some() {
            self.scrub.examined.remove(&asker);
            return;
        }
        let Some(examination) = self.scrub.examined.get_mut(&asker) else {
            return;
        };
        let enough = asker == Asker::Own && examination.records >= RECORDS_MAX;
        let rest = StreamPosition(examination.next)..StreamPosition(examination.to);
        let hole = self
            .store
            .holdings()
            .missing(examination.stream, rest.clone())
            .next();
        if let Some(hole) = hole.filter(|hole| hole.start == rest.start && !rest.is_empty()) {
            examination.not_here = true;
            examination.next = hole.end.0;
            return self.examine_on(env, asker);
        }
        if rest.is_empty() || enough {
            let Some(examination) = self.scrub.examined.remove(&asker) else {
                return;
            };
            match asker {
                Asker::Own => self.on_own_examined(env, &examination),
                Asker::Peer(peer) => {
                    let told = Frame::TellDigest(TellDigest {
                        log: self.id,
                        request: examination.request,
                        found: examination.outcome(),
                    });
                    env.outbox.push_back((peer, told));
                }
            }
            return;
        }
        examination.reads = true;
        let (stream, position) = (examination.stream, examination.next);
        self.read_from_store(Ticket::Examine(asker), stream, position, env.batches.take());
    }

    pub(crate) fn on_examined(
        &mut self,
        env: &mut Env,
        asker: Asker,
        wanted: Wanted,
        buffer: &Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) {
        let Some(examination) = self.scrub.examined.get_mut(&asker) else {
            return;
        };
        examination.reads = false;
        if wanted != Wanted::new(examination.stream, examination.next) {
            return self.examine_on(env, asker); // The answer to an earlier question.
        }
        examination.records += 1;
        match result {
            Ok(bytes) => {
                let left = (examination.to - examination.next) as usize;
                let count = bytes.payload.len().min(left);
                let content = &buffer[bytes.payload.start..bytes.payload.start + count];
                examination.digest = crc32c::crc32c_append(examination.digest, content);
                examination.next += count as u64;
                examination.read_bytes += total_length(bytes.payload.len()) as u64;
            }
            Err(failure) => {
                // The store gives up what is damaged. What it still counts on is not read for ever.
                let (stream, at) = (examination.stream, examination.next);
                let byte = StreamPosition(at)..StreamPosition(at + 1);
                if self.store.holdings().holds(stream, byte) {
                    examination.next = examination.to;
                }
                match failure {
                    ReadFailure::NotHeld => examination.not_here = true,
                    ReadFailure::Corrupt { .. } | ReadFailure::Io(_) => {
                        examination.damaged = true;
                        self.counts.scrub_damaged += 1;
                        if self.scrub.damaged.len() < DAMAGED_MAX {
                            self.scrub.damaged.push((stream, at));
                        }
                    }
                }
            }
        }
        self.examine_on(env, asker);
    }
}
