//! The things that the parts of a node share: the clock of this round, the ops they ask for, the peers'
//! addresses, and the purpose of each connection.

mod answering;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use formats::frame::{FetchBytes, Piece};
use formats::past::Start;
use formats::proof::{DiskKey, Evidence, PublicKey, Signature};
use formats::version::{self, Speaks};
use formats::{BATCH_BUFFER, Frame, Identity, LogId, RECORD_HEADER};
use ops::{BLOCK, Buffer, ConnId, Landing, Op, Pool, Slice};
use paxos::{Message, NodeId, Outcome, Slot, Time};
use store::Calendar;
use wire::{Refusal, Request, Standing};

use crate::answers::Answers;
use crate::conns::{Conns, Purpose};
use crate::limits::Limits;
use crate::read::slots::ReadSlots;
use crate::share::Share;
use crate::turns::Turns;

/// The events that a log tells the node around it.
#[derive(Debug)]
pub enum LogEvent {
    /// An action that was not a client's was applied.
    Applied {
        log: LogId,
        slot: Slot,
        outcome: Outcome,
    },
    Role {
        log: LogId,
    },
    /// Another log's read has ended, and the next one is this log's.
    MayRead {
        log: LogId,
    },
}

/// The blocks that are kept for the next short records.
const BLOCKS_KEPT: usize = 1024;

/// This node's identity, in this start of its process.
pub struct Own {
    pub identity: Identity,
    pub incarnation: u32,
    /// Drawn at this start of the process.
    pub nonce: u64,
    /// The key that proves this node's disk, once a node runs on it.
    pub key: Option<DiskKey>,
    /// The evidence that each peer is shown when it is greeted: what is remembered of its own disk.
    pub evidence: BTreeMap<NodeId, Evidence>,
    /// This node has come back, and its peers have not said yet what they remember: no engine acts.
    pub settling: bool,
    pub advertise: String,
    pub standing: Standing,
    pub speaks: Speaks,
    /// The name in the certificate that this node shows.
    pub certificate: Option<String>,
}

/// The other nodes, as far as a log must know them.
#[derive(Default)]
pub struct Neighbours {
    /// Every node of the cluster that is not this one.
    pub addresses: BTreeMap<NodeId, String>,
    /// Where they answer clients of keys: those that do, and said so.
    pub doors: BTreeMap<NodeId, String>,
    /// The peers that frames can be sent to now, and the version they are sent in.
    pub links: BTreeMap<NodeId, u8>,
    /// The peers that answer questions about digests.
    pub compares: BTreeSet<NodeId>,
}

/// The room in memory and on disks.
pub struct Room {
    /// Memory that each log may hold.
    pub share: Share,
    /// Some disk is almost full, our own or a live peer's: for status.
    pub disk_is_full: bool,
    /// Our own disk is almost full.
    pub own_is_full: bool,
    /// The live peers whose disks are almost full.
    pub full_peers: BTreeSet<NodeId>,
    /// Those of them that have used half of their reserve: they take no more than what is under way.
    pub spent_peers: BTreeSet<NodeId>,
    /// The nodes, this one and live peers, whose disks will be almost full before long: no log is kept there for whoever lags.
    pub scarce: BTreeSet<NodeId>,
    /// The bytes of our own disk that were free when last asked, less those written since.
    pub free_bytes: u64,
}

/// The requests and statements of a round, in order.
#[derive(Default)]
pub struct Out {
    pub ops: VecDeque<Op>,
    /// Control frames for peers.
    pub outbox: VecDeque<(NodeId, Frame)>,
    pub events: VecDeque<LogEvent>,
}

/// Memory that is lent for a while.
pub struct Memory {
    /// Batches on their way to disk and followers.
    pub batches: Pool,
    /// Short records of all logs on their way to disk.
    pub blocks: Pool,
    /// Chunks on their way from disk to readers.
    pub reads: ReadSlots,
    /// Answers in pieces.
    pub answers: Answers,
    /// Bytes may be received into files.
    pub landing: Option<Arc<dyn Landing>>,
}

/// The versions that disks and logs are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenIn {
    /// The version in which this node's disk is written: its manifest says so, durably.
    pub disk: u8,
    /// The version in which logs are written: the cluster agreed on it, as far as this node knows.
    pub logs: u8,
}

/// Moments of the last event of a kind.
pub struct Moments {
    /// The moment when new bytes of any log last came in, from a client or a leader.
    pub appended_at: Time,
    /// The moment when this process last went on after it was kept from running.
    pub resumed_at: Time,
    /// The moment when the disk last finished a write, of any log.
    pub written_at: Time,
    pub calendar: Calendar,
}

pub struct Env {
    pub now: Time,
    pub out: Out,
    pub conns: Conns,
    pub limits: Limits,
    pub own: Own,
    pub peers: Neighbours,
    pub room: Room,
    pub memory: Memory,
    pub version: WrittenIn,
    pub moments: Moments,
    pub turns: Turns,
    pub stopping: bool,
}

impl Own {
    pub fn start(&self) -> Start {
        Start {
            incarnation: self.incarnation,
            nonce: self.nonce,
        }
    }

    /// The proof that this disk starts as this start.
    fn proof(&self) -> Option<(PublicKey, Signature)> {
        let disk = self.identity.disk;
        let key = self.key.as_ref().filter(|_| disk.is_keyed())?;
        Some((key.public(), key.sign_start(disk, self.start())))
    }
}

/// A handshake goes two ways more, over threads that other work may keep waiting.
const HANDSHAKES: u32 = 3;

impl Env {
    /// A connection to another node is made, and answered, within so long. ‡ A node that shows a certificate shakes hands first: one
    /// that gave up as early as in plain text began anew, again and again, while the machine was busy.
    pub fn answered_within(&self) -> Duration {
        let plain = self.limits.connect_timeout;
        match self.own.certificate {
            None => plain,
            Some(_) => HANDSHAKES * plain,
        }
    }

    pub fn new(
        limits: Limits,
        identity: Identity,
        incarnation: u32,
        nonce: u64,
        advertise: String,
    ) -> Env {
        let share = Share::of(&limits, 1);
        let turns = Turns::of(limits.standing_logs_max);
        let idle = (limits.ring_bytes_max as usize / BATCH_BUFFER) + 16;
        Env {
            now: Time::ZERO,
            out: Out::default(),
            conns: Conns::default(),
            limits,
            own: Own {
                identity,
                incarnation,
                nonce,
                key: None,
                evidence: BTreeMap::new(),
                settling: false,
                advertise,
                standing: Standing::default(),
                speaks: Speaks::THIS,
                certificate: None,
            },
            peers: Neighbours::default(),
            room: Room {
                share,
                disk_is_full: false,
                own_is_full: false,
                full_peers: BTreeSet::new(),
                spent_peers: BTreeSet::new(),
                scarce: BTreeSet::new(),
                free_bytes: u64::MAX,
            },
            memory: Memory {
                batches: Pool::new(BATCH_BUFFER, idle),
                blocks: Pool::new(BLOCK, BLOCKS_KEPT),
                reads: ReadSlots::default(),
                answers: Answers::default(),
                landing: None,
            },
            version: WrittenIn {
                disk: version::FIRST,
                logs: version::FIRST,
            },
            moments: Moments {
                appended_at: Time::ZERO,
                resumed_at: Time::ZERO,
                written_at: Time::ZERO,
                calendar: Calendar::default(),
            },
            turns,
            stopping: false,
        }
    }

    /// Counts written bytes: a disk may fill in less time than passes between two looks at its free space.
    pub fn wrote(&mut self, bytes: usize) {
        if self.room.free_bytes != u64::MAX {
            self.room.free_bytes = self.room.free_bytes.saturating_sub(bytes as u64);
        }
    }

    /// Whether this node's own disk is almost full.
    pub fn is_full(&self) -> bool {
        self.room.own_is_full || self.room.free_bytes < self.limits.disk_reserve_bytes
    }

    /// Whether this node's own disk will be almost full before long, or is.
    pub fn is_scarce(&self) -> bool {
        self.is_full() || self.room.scarce.contains(&self.own.identity.node)
    }

    pub fn connect(&mut self, address: String, purpose: Purpose) -> ConnId {
        let conn = self.conns.open(purpose);
        self.out.ops.push_back(Op::Connect { conn, address });
        conn
    }

    pub fn receive(
        &mut self,
        conn: ConnId,
        buffer: Buffer,
        range: std::ops::Range<usize>,
        whole: bool,
    ) {
        self.out.ops.push_back(Op::Receive {
            conn,
            buffer,
            range,
            whole,
        });
    }

    pub fn send(&mut self, conn: ConnId, slices: Vec<Slice>) {
        self.conns.on_send(conn);
        self.out.ops.push_back(Op::Send { conn, slices });
    }

    pub fn send_bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        self.send(conn, vec![Slice::copied_from(bytes)]);
    }

    /// Closes at once, whatever is still to be sent.
    pub fn close(&mut self, conn: ConnId) {
        self.leave(conn, Op::Close { conn, flush: false });
    }

    /// Closes as `close` does, where what was sent would look whole.
    pub fn reset(&mut self, conn: ConnId) {
        self.leave(conn, Op::Reset { conn });
    }

    fn leave(&mut self, conn: ConnId, by: Op) {
        if self.conns.is_open(conn) && !self.tell_passer(conn, b"") {
            self.conns.close(conn);
            self.out.ops.push_back(by);
        }
    }

    /// Closes at once all connections that are this log's business.
    pub fn close_all_of(&mut self, id: LogId) {
        for conn in self.conns.of(id) {
            self.close(conn);
        }
    }

    /// Says a last thing and closes.
    pub fn part(&mut self, conn: ConnId, last: &[u8]) {
        if !self.conns.is_open(conn) || self.tell_passer(conn, last) {
            return;
        }
        if !last.is_empty() {
            self.send_bytes(conn, last);
        }
        self.out.ops.push_back(Op::Close { conn, flush: true });
        self.conns.part(conn);
    }

    /// Answers the peer that passed on a request. False: it came on a connection of its own.
    fn tell_passer(&mut self, conn: ConnId, line: &[u8]) -> bool {
        let Some((peer, request)) = self.conns.end_passed(conn) else {
            return false;
        };
        let (log, bytes) = (LogId(0), line.to_vec());
        let told = Frame::TellDirector(Piece {
            log,
            request,
            bytes,
        });
        self.out.outbox.push_back((peer, told));
        true
    }

    pub fn refuse(&mut self, conn: ConnId, refusal: Refusal) {
        self.part(conn, &refusal.encode());
    }

    pub fn send_message(&mut self, to: NodeId, log: LogId, message: Message) {
        self.out
            .outbox
            .push_back((to, Frame::Engine { log, message }));
    }

    pub fn send_fetch(&mut self, to: NodeId, fetch: FetchBytes) {
        self.out.outbox.push_back((to, Frame::FetchBytes(fetch)));
    }

    /// The first line of a connection to a peer.
    pub fn hello(&self, to: NodeId, kind: &str, log: LogId) -> Vec<u8> {
        let hello = Request::new("peer")
            .key("kind", kind)
            .key("log", log)
            .key("cluster", self.own.identity.cluster.to_string())
            .key("from", self.own.identity.node)
            .key("to", to)
            .key("disk", formats::hex(&self.own.identity.disk.0))
            .key("incarnation", self.own.incarnation)
            .key("nonce", self.own.nonce)
            .key("address", &self.own.advertise)
            .key("speaks", self.own.speaks)
            .key("digests", 1)
            .key("parts", 1)
            .key("reserve", self.limits.disk_reserve_bytes);
        let hello = match self.own.proof() {
            Some((key, signature)) => hello
                .key("key", formats::hex(&key.0))
                .key("signature", formats::hex(&signature.0)),
            None => hello,
        };
        self.own
            .standing
            .write(self.with_evidence(hello, to))
            .encode()
    }

    /// Adds what this node remembers of the greeted node's disk. An old copy of that disk learns from it what
    /// it has forgotten.
    pub fn with_evidence(&self, hello: Request, to: NodeId) -> Request {
        match self.own.evidence.get(&to) {
            Some(evidence) => hello.key("met", evidence),
            None => hello,
        }
    }

    /// A batch buffer with these bytes where a record's payload stands; a small one for few bytes, so
    /// that waiting small batches do not pin large buffers.
    pub(crate) fn batch_of(&self, bytes: &[u8]) -> Buffer {
        let mut batch = self.batch_for(bytes.len());
        batch[RECORD_HEADER..RECORD_HEADER + bytes.len()].copy_from_slice(bytes);
        batch
    }

    pub(crate) fn batch_for(&self, count: usize) -> Buffer {
        if count <= SMALL_BATCH {
            Buffer::new((RECORD_HEADER + count).next_multiple_of(ops::BLOCK))
        } else {
            self.memory.batches.take()
        }
    }
}

/// The length below which bytes get a buffer of their own length.
pub(crate) const SMALL_BATCH: usize = 64 << 10;
