//! What the parts of a node share: the clock of this round, the ops they ask for, the peers'
//! addresses, and where each connection belongs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use formats::frame::FetchBytes;
use formats::past::Start;
use formats::proof::{DiskKey, Evidence, PublicKey, Signature};
use formats::version::{self, Speaks};
use formats::{BATCH_BUFFER, Frame, Identity, LogId, RECORD_HEADER};
use ops::{Buffer, ConnId, Landing, Op, Pool, Slice};
use paxos::{Message, NodeId, Outcome, Slot, Time};
use store::Calendar;
use wire::{Refusal, Request, Standing};

use crate::answers::Answers;
use crate::limits::Limits;
use crate::read::slots::ReadSlots;
use crate::share::Share;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It has not said its first line.
    Greeting,
    /// It is being sent the last, and then it is closed. Until then it counts as any other: a client
    /// may be slow to take a long answer.
    Parting,
    ControlIn(NodeId),
    ControlOut(NodeId),
    /// A connection of a node that this one does not know, and ours to it.
    GuestIn(NodeId),
    GuestOut(NodeId),
    DataIn(LogId, NodeId),
    /// Proposals of a leader.
    DataOut(LogId, NodeId),
    /// Bytes for a peer that catches up.
    FeedOut(LogId, NodeId),
    Writer(LogId),
    Reader(LogId),
    /// A client that waits for the outcome of an action.
    Request(LogId),
    /// It is being sent an answer in pieces.
    Answer,
    /// Our own request for an id.
    JoinOut,
}

/// What a log tells the node around it.
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

/// Who this node is, in this start of its process.
pub struct Own {
    pub identity: Identity,
    pub incarnation: u32,
    /// Drawn at this start of the process.
    pub nonce: u64,
    /// What proves this node's disk, once a node runs on it.
    pub key: Option<DiskKey>,
    /// What each peer is shown when it is greeted: what is remembered of its own disk.
    pub evidence: BTreeMap<NodeId, Evidence>,
    /// It has come back, and its peers have not said yet what they remember: no engine acts.
    pub settling: bool,
    pub advertise: String,
    pub standing: Standing,
    pub speaks: Speaks,
}

/// The other nodes, as far as a log must know them.
#[derive(Default)]
pub struct Neighbours {
    /// Every node of the cluster that is not this one.
    pub addresses: BTreeMap<NodeId, String>,
    /// The peers that frames can be sent to now, and the version they are sent in.
    pub links: BTreeMap<NodeId, u8>,
    /// Those that answer questions about digests.
    pub compares: BTreeSet<NodeId>,
}

/// What there is room for, in memory and on disks.
pub struct Room {
    /// Memory that each log may hold.
    pub share: Share,
    /// Some disk is almost full, our own or a live peer's: for status.
    pub disk_is_full: bool,
    /// Our own is.
    pub own_is_full: bool,
    /// The live peers whose disks are.
    pub full_peers: BTreeSet<NodeId>,
    /// Of our own disk: what was free when last asked, less what was written since.
    pub free_bytes: u64,
}

/// What a round asks for and says, in order.
#[derive(Default)]
pub struct Out {
    pub ops: VecDeque<Op>,
    /// Control frames for peers.
    pub outbox: VecDeque<(NodeId, Frame)>,
    pub events: VecDeque<LogEvent>,
}

pub struct Env {
    pub now: Time,
    pub out: Out,
    pub conns: BTreeMap<ConnId, Purpose>,
    /// Sends that are not over, of each connection that ever sent. (Kept at none: to enter a connection for
    /// each send costs more than the rest of a send.)
    unsent: BTreeMap<ConnId, u32>,
    pub limits: Limits,
    pub own: Own,
    pub peers: Neighbours,
    pub room: Room,
    /// Batches on their way to disk and followers.
    pub batches: Pool,
    pub stopping: bool,
    /// When new bytes of any log last came in, from a client or a leader.
    pub appended_at: Time,
    /// When this process last went on after it was kept from running.
    pub resumed_at: Time,
    /// Chunks on their way from disk to readers.
    pub reads: ReadSlots,
    /// Answers in pieces.
    pub answers: Answers,
    pub calendar: Calendar,
    /// Bytes may be received into files.
    pub landing: Option<Arc<dyn Landing>>,
    /// What this node's disk is written in: its manifest says so, durably.
    pub disk_version: u8,
    /// What logs are written in: the cluster agreed on it, as far as this node knows.
    pub version: u8,
    next_conn: u64,
}

impl Own {
    pub fn start(&self) -> Start {
        Start {
            incarnation: self.incarnation,
            nonce: self.nonce,
        }
    }

    /// That this disk starts as this.
    fn proof(&self) -> Option<(PublicKey, Signature)> {
        let disk = self.identity.disk;
        let key = self.key.as_ref().filter(|_| disk.is_keyed())?;
        Some((key.public(), key.sign_start(disk, self.start())))
    }
}

impl Env {
    pub fn new(
        limits: Limits,
        identity: Identity,
        incarnation: u32,
        nonce: u64,
        advertise: String,
    ) -> Env {
        let share = Share::of(&limits, 1);
        let idle = (limits.ring_bytes_max as usize / BATCH_BUFFER) + 16;
        Env {
            now: Time::ZERO,
            out: Out::default(),
            conns: BTreeMap::new(),
            unsent: BTreeMap::new(),
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
            },
            peers: Neighbours::default(),
            room: Room {
                share,
                disk_is_full: false,
                own_is_full: false,
                full_peers: BTreeSet::new(),
                free_bytes: u64::MAX,
            },
            batches: Pool::new(BATCH_BUFFER, idle),
            stopping: false,
            appended_at: Time::ZERO,
            resumed_at: Time::ZERO,
            reads: ReadSlots::default(),
            answers: Answers::default(),
            calendar: Calendar::default(),
            landing: None,
            disk_version: version::FIRST,
            version: version::FIRST,
            next_conn: 2,
        }
    }

    /// A disk may fill in less time than passes between two looks at its free space.
    pub fn wrote(&mut self, bytes: usize) {
        if self.room.free_bytes != u64::MAX {
            self.room.free_bytes = self.room.free_bytes.saturating_sub(bytes as u64);
        }
    }

    /// This node's own disk.
    pub fn is_full(&self) -> bool {
        self.room.own_is_full || self.room.free_bytes < self.limits.disk_reserve_bytes
    }

    pub fn connect(&mut self, address: String, purpose: Purpose) -> ConnId {
        let conn = ConnId(self.next_conn);
        self.next_conn += 2;
        self.conns.insert(conn, purpose);
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
        *self.unsent.entry(conn).or_default() += 1;
        self.out.ops.push_back(Op::Send { conn, slices });
    }

    /// Each send is over once, also those of a connection that failed or was closed. What the connection is
    /// for, if somebody may still be told something there.
    pub fn on_sent(&mut self, conn: ConnId) -> Option<Purpose> {
        let purpose = self.conns.get(&conn).copied();
        let purpose = purpose.filter(|purpose| *purpose != Purpose::Parting);
        if let Some(unsent) = self.unsent.get_mut(&conn) {
            *unsent -= 1;
            if *unsent == 0 && purpose.is_none() {
                self.forget(conn);
            }
        }
        purpose
    }

    fn forget(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
        self.unsent.remove(&conn);
    }

    /// Something that was sent there is not with the kernel yet.
    pub fn is_sending(&self, conn: ConnId) -> bool {
        self.unsent.get(&conn).is_some_and(|unsent| *unsent > 0)
    }

    /// Somebody may still be told something there.
    pub fn is_open(&self, conn: ConnId) -> bool {
        let purpose = self.conns.get(&conn);
        purpose.is_some_and(|purpose| *purpose != Purpose::Parting)
    }

    pub fn send_bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        self.send(conn, vec![Slice::copied_from(bytes)]);
    }

    /// At once, whatever is still to be sent.
    pub fn close(&mut self, conn: ConnId) {
        self.leave(conn, Op::Close { conn, flush: false });
    }

    /// As `close`, where what was sent would look whole.
    pub fn reset(&mut self, conn: ConnId) {
        self.leave(conn, Op::Reset { conn });
    }

    fn leave(&mut self, conn: ConnId, by: Op) {
        if self.is_open(conn) {
            match self.is_sending(conn) {
                // The last of what was sent is the last to be heard of it.
                true => _ = self.conns.remove(&conn),
                false => self.forget(conn),
            }
            self.out.ops.push_back(by);
        }
    }

    /// At once, all that are this log's business.
    pub fn close_all_of(&mut self, id: LogId) {
        let of_it = self.conns.iter().filter(|(_, purpose)| match purpose {
            Purpose::DataIn(log, _) | Purpose::DataOut(log, _) | Purpose::FeedOut(log, _) => {
                *log == id
            }
            Purpose::Writer(log) | Purpose::Reader(log) | Purpose::Request(log) => *log == id,
            _ => false,
        });
        let of_it: Vec<ConnId> = of_it.map(|(conn, _)| *conn).collect();
        for conn in of_it {
            self.close(conn);
        }
    }

    /// Says a last thing and closes.
    pub fn part(&mut self, conn: ConnId, last: &[u8]) {
        if !self.is_open(conn) {
            return;
        }
        if !last.is_empty() {
            self.send_bytes(conn, last);
        }
        self.out.ops.push_back(Op::Close { conn, flush: true });
        match self.is_sending(conn) {
            true => _ = self.conns.insert(conn, Purpose::Parting),
            false => self.forget(conn),
        }
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
            .key("parts", 1);
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

    /// What this node remembers of the disk of whom it greets. An old copy of it knows what it has forgotten by that.
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
            self.batches.take()
        }
    }
}

/// Fewer bytes get a buffer of their own length.
pub(crate) const SMALL_BATCH: usize = 64 << 10;
