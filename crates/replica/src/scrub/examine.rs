//! Reading a piece of a stream from this node's own disk, record by record, for its digest.

use std::ops::Range;

use formats::Frame;
use formats::frame::{Examined, TellDigest};
use formats::record::total_length;
use paxos::{Digest, StreamName, StreamPosition};
use store::ReadFailure;

use super::{DAMAGED_MAX, Scrub};
use crate::catch_up::CatchUp;
use crate::env::Env;
use crate::lent::{Asker, Core, ONE_RECORD, Ticket, Wanted};

/// The most records of an own piece, so that small records are read at the rate of large ones.
const RECORDS_MAX: u32 = 256;

pub(crate) struct Examination {
    pub request: u64,
    pub stream: StreamName,
    pub next: u64,
    to: u64,
    digest: u32,
    records: u32,
    /// The bytes read from the disk, with headers and padding.
    pub read_bytes: u64,
    not_here: bool,
    damaged: bool,
    /// The store was asked, perhaps for an earlier piece of the same asker.
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

impl Scrub {
    /// Examines a piece, in place of the same asker's last one, which it has given up on. A read that is
    /// under way for the last one comes back first: however fast a node asks, it holds one buffer here.
    pub(super) fn examine(
        &mut self,
        core: &mut Core,
        catch_up: &CatchUp,
        env: &mut Env,
        asker: Asker,
        mut examination: Examination,
    ) {
        core.store.check_head(env.now);
        let before = self.examined.get(&asker);
        examination.reads = before.is_some_and(|before| before.reads);
        let waits = examination.reads;
        self.examined.insert(asker, examination);
        if !waits {
            self.examine_on(core, catch_up, env, asker);
        }
    }

    /// Reads the next record, or answers.
    fn examine_on(&mut self, core: &mut Core, catch_up: &CatchUp, env: &mut Env, asker: Asker) {
        if core.stopped.is_some() {
            self.examined.remove(&asker);
            return;
        }
        let Some(examination) = self.examined.get_mut(&asker) else {
            return;
        };
        let enough = asker == Asker::Own && examination.records >= RECORDS_MAX;
        let rest = StreamPosition(examination.next)..StreamPosition(examination.to);
        let hole = core
            .store
            .holdings()
            .missing(examination.stream, rest.clone())
            .next();
        if let Some(hole) = hole.filter(|hole| hole.start == rest.start && !rest.is_empty()) {
            examination.not_here = true;
            examination.next = hole.end.0;
            return self.examine_on(core, catch_up, env, asker);
        }
        if rest.is_empty() || enough {
            let Some(examination) = self.examined.remove(&asker) else {
                return;
            };
            match asker {
                Asker::Own => self.on_own_examined(core, catch_up, env, &examination),
                Asker::Peer(peer) => {
                    let told = Frame::TellDigest(TellDigest {
                        log: core.id,
                        request: examination.request,
                        found: examination.outcome(),
                    });
                    env.out.outbox.push_back((peer, told));
                }
            }
            return;
        }
        examination.reads = true;
        let (stream, position) = (examination.stream, examination.next);
        let wanted = Wanted::new(stream, position);
        let buffer = env.memory.batches.take();
        core.read_from_store(Ticket::Examine(asker), wanted, ONE_RECORD, buffer);
    }

    pub fn on_examined(
        &mut self,
        core: &mut Core,
        catch_up: &CatchUp,
        env: &mut Env,
        asker: Asker,
        wanted: Wanted,
        content: Result<&[u8], ReadFailure>,
    ) {
        let Some(examination) = self.examined.get_mut(&asker) else {
            return;
        };
        examination.reads = false;
        if wanted != Wanted::new(examination.stream, examination.next) {
            return self.examine_on(core, catch_up, env, asker); // The answer to an earlier question.
        }
        examination.records += 1;
        match content {
            Ok(content) => {
                let left = (examination.to - examination.next) as usize;
                let asked = &content[..content.len().min(left)];
                examination.digest = crc32c::crc32c_append(examination.digest, asked);
                examination.next += asked.len() as u64;
                examination.read_bytes += total_length(content.len()) as u64;
            }
            Err(failure) => {
                // The store gives up damaged bytes. Bytes that it still counts on are not read for ever.
                let (stream, at) = (examination.stream, examination.next);
                let byte = StreamPosition(at)..StreamPosition(at + 1);
                if core.store.holdings().holds(stream, byte) {
                    examination.next = examination.to;
                }
                match failure {
                    ReadFailure::NotHeld => examination.not_here = true,
                    ReadFailure::Corrupt { .. } | ReadFailure::Io(_) => {
                        examination.damaged = true;
                        core.counts.scrub_damaged += 1;
                        if self.damaged.len() < DAMAGED_MAX {
                            self.damaged.push((stream, at));
                        }
                    }
                }
            }
        }
        self.examine_on(core, catch_up, env, asker);
    }
}
