//! The floor: what moving the bytes costs without agreeing on anything.
//!
//! ```text
//! client ─ append line ─ ingest ─┬─ own segment ─ durable ─┐
//!                                └─ TCP ─ follower's segment ─ durable ─ 8 bytes ─┴─ 2 of 3 ─ ack
//! ```
//!
//! A machine under the same kernel as a node, in processes of its own, with the engine replaced by
//! a counter. A cluster's figure divided by the floor's says what agreement costs; both are made in
//! one run, because a machine's speed drifts more in an hour than agreement costs.
//!
//! **The same as in a node**, on purpose and down to the constants: the kernel and its settings;
//! batch buffers and their pool; the lockstep rule and the copy of small batches (`ingest`); the
//! crc32c of a payload on the leader and again on the follower; record headers with their chain,
//! padding to blocks, segments that double from 1 to 128 MiB and are made when the one before is
//! half full, one write of up to 4 MiB in flight (`store`); the header before each batch, sends of
//! up to 1 MiB, two receives per batch (`replicate`, `follow`); how much may be unchosen or queued,
//! and the 8 MiB of chosen bytes kept for readers of the tail (`ring`); one ack at a time on its way
//! to the client.
//!
//! **Not here**: terms, slots of several streams, promises and checkpoints (a roll writes one block
//! in a checkpoint's place and one in the index's); an index of what is where; heartbeats and the
//! directory's log; reads; catching up; a watermark after 5 ms of quiet; any answer to a failure but
//! to end. A follower says 8 bytes on the data connection per durable write where a node sends a
//! checked frame on its control connection. So the floor may be cheaper than what a node has to do,
//! and is never dearer.

mod follower;
mod leader;
mod segments;
pub mod spares;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;

use follower::Source;
use formats::{BATCH_BUFFER, DATA_HEADER, RECORD_HEADER};
use leader::Lane;
use ops::{BLOCK, Buffer, Completion, ConnId, Machine, Op, Pool, Received, Slice, Time, Token};
use replica::Limits;
use wire::{Ask, Code, LINE_BYTES_MAX, Refusal};

/// Batches up to here are copied to a small buffer, as in a node.
pub const SMALL_BATCH: usize = 64 << 10;
/// From here on a batch is worth receiving while the disk is busy, as in a node.
pub const LARGE_BATCH: usize = 128 << 10;
/// Chosen bytes kept once all followers were sent them, as in a node.
const TAIL_BYTES: u64 = 8 << 20;

/// A leader says so, and the number of the lane, to a follower.
const LINK: &[u8] = b"floor/1 ";

fn link_line(lane: LaneId) -> Vec<u8> {
    [LINK, format!("{lane}\n").as_bytes()].concat()
}

/// One log's bytes: on the leader a [`Lane`], on a follower a [`Source`].
type LaneId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Greeting,
    Parting,
    Writer(LaneId),
    LinkOut(LaneId, usize),
    LinkIn(LaneId),
}

/// The things that the parts share.
struct Env {
    ops: VecDeque<Op>,
    conns: BTreeMap<ConnId, Purpose>,
    limits: Limits,
    batches: Pool,
    /// On so many processes a byte is durable before its ack.
    quorum: usize,
    directory: PathBuf,
    /// Files of each lane that were written before; segments go through them in turn.
    written: u64,
    next_conn: u64,
    failed: bool,
}

pub struct Floor {
    env: Env,
    followers: Vec<String>,
    lanes: BTreeMap<LaneId, Lane>,
    /// Logs by name.
    names: BTreeMap<String, LaneId>,
    sources: BTreeMap<LaneId, Source>,
    stopping: bool,
}

impl Env {
    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let slices = vec![Slice::copied_from(bytes)];
        self.ops.push_back(Op::Send { conn, slices });
    }

    fn receive(&mut self, conn: ConnId, buffer: Buffer, range: Range<usize>, whole: bool) {
        self.ops.push_back(Op::Receive {
            conn,
            buffer,
            range,
            whole,
        });
    }

    fn connect(&mut self, address: &str, purpose: Purpose) {
        let conn = ConnId(self.next_conn);
        self.next_conn += 2;
        self.conns.insert(conn, purpose);
        self.ops.push_back(Op::Connect {
            conn,
            address: address.to_owned(),
        });
    }

    /// Says a last thing and closes.
    fn part(&mut self, conn: ConnId, last: &[u8]) {
        if self.conns.remove(&conn).is_some() {
            if !last.is_empty() {
                self.send(conn, last);
            }
            self.ops.push_back(Op::Close { conn, flush: true });
        }
    }

    /// The floor answers no failure: a figure of half a machine would be wrong.
    fn fail(&mut self, why: &str) {
        tracing::error!(why, "the floor ends");
        self.failed = true;
    }

    /// A buffer for one record, as a node chooses it.
    fn batch_for(&self, count: usize) -> Buffer {
        match count <= SMALL_BATCH {
            true => Buffer::new((RECORD_HEADER + count).next_multiple_of(BLOCK)),
            false => self.batches.take(),
        }
    }
}

impl Floor {
    /// `followers`: the addresses of the other processes; empty on a follower.
    pub fn new(
        listen: String,
        followers: Vec<String>,
        quorum: usize,
        directory: PathBuf,
        written: u64,
    ) -> Floor {
        let limits = Limits::default();
        let idle = limits.ring_bytes_max as usize / BATCH_BUFFER + 16;
        Floor {
            env: Env {
                ops: VecDeque::from([Op::Listen { address: listen }]),
                conns: BTreeMap::new(),
                limits,
                batches: Pool::new(BATCH_BUFFER, idle),
                quorum,
                directory,
                written,
                next_conn: 2,
                failed: false,
            },
            followers,
            lanes: BTreeMap::new(),
            names: BTreeMap::new(),
            sources: BTreeMap::new(),
            stopping: false,
        }
    }

    pub fn has_failed(&self) -> bool {
        self.env.failed
    }

    fn on_first_line(&mut self, conn: ConnId, buffer: Buffer, result: std::io::Result<Received>) {
        let Ok(Received { count, end }) = result else {
            return self.env.part(conn, b"");
        };
        let bytes = &buffer[..count];
        let Some(length) = bytes.iter().position(|b| *b == b'\n') else {
            // Our own clients send their line in one piece; a client that does not is only looking whether we
            // listen.
            return self.env.part(conn, b"");
        };
        let (line, leftover) = (&bytes[..length], &bytes[length + 1..]);
        if let Some(lane) = line.strip_prefix(LINK) {
            return self.on_link(conn, lane);
        }
        match Ask::parse(line) {
            Ok(Ask::Append { log, .. }) if !end => self.on_append(conn, &log, leftover),
            Ok(Ask::Close { log, at }) => {
                match self.names.get(&log).and_then(|id| self.lanes.get_mut(id)) {
                    Some(lane) => {
                        self.env.conns.insert(conn, Purpose::Parting);
                        lane.close_at(&mut self.env, conn, at.position);
                    }
                    None => self.refuse(conn, Code::BadRequest, "no such stream"),
                }
            }
            _ => self.refuse(conn, Code::BadRequest, "the floor only appends"),
        }
    }

    /// A leader's connection for one lane.
    fn on_link(&mut self, conn: ConnId, lane: &[u8]) {
        let lane = std::str::from_utf8(lane).ok();
        let Some(lane) = lane.and_then(|lane| lane.parse().ok()) else {
            return self.env.part(conn, b"");
        };
        self.env.conns.insert(conn, Purpose::LinkIn(lane));
        let source = Source::new(&mut self.env, conn, lane);
        self.sources.insert(lane, source);
    }

    fn refuse(&mut self, conn: ConnId, code: Code, sentence: &str) {
        let refusal = Refusal::new(code, sentence);
        self.env.part(conn, &refusal.encode());
    }

    fn on_append(&mut self, conn: ConnId, log: &str, leftover: &[u8]) {
        if self.names.contains_key(log) {
            return self.refuse(conn, Code::Busy, "the floor takes one append to each log");
        }
        let id = self.names.len() as LaneId + 1;
        self.names.insert(log.to_owned(), id);
        self.env.conns.insert(conn, Purpose::Writer(id));
        for (index, address) in self.followers.iter().enumerate() {
            self.env.connect(address, Purpose::LinkOut(id, index));
        }
        let lane = Lane::new(&self.env, id, conn, leftover, self.followers.len());
        self.lanes.insert(id, lane);
    }

    fn on_received(
        &mut self,
        conn: ConnId,
        buffer: Buffer,
        range: Range<usize>,
        result: std::io::Result<Received>,
    ) {
        match self.env.conns.get(&conn).copied() {
            Some(Purpose::Greeting) => self.on_first_line(conn, buffer, result),
            Some(Purpose::Writer(id)) => {
                if let Some(lane) = self.lanes.get_mut(&id) {
                    lane.on_writer_received(&mut self.env, buffer, result);
                }
            }
            Some(Purpose::LinkOut(id, index)) => {
                if let Some(lane) = self.lanes.get_mut(&id) {
                    lane.on_link_received(&mut self.env, index, conn, buffer, range, result);
                }
            }
            Some(Purpose::LinkIn(id)) => {
                if let Some(source) = self.sources.get_mut(&id) {
                    source.on_received(&mut self.env, buffer, result);
                }
            }
            Some(Purpose::Parting) | None => {}
        }
    }

    fn on_done(&mut self, token: Token, result: std::io::Result<()>) {
        if let Err(error) = result {
            return self.env.fail(&format!("the disk failed: {error}"));
        }
        let id = (token.0 >> 32) as LaneId;
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.on_done(&mut self.env, token);
        } else if let Some(source) = self.sources.get_mut(&id) {
            source.on_done(&mut self.env, token);
        }
    }
}

impl Machine for Floor {
    fn handle(&mut self, _now: Time, completion: Completion) {
        match completion {
            Completion::Accepted { conn, .. } => {
                self.env.conns.insert(conn, Purpose::Greeting);
                let buffer = Buffer::new(LINE_BYTES_MAX);
                self.env.receive(conn, buffer, 0..LINE_BYTES_MAX, false);
            }
            Completion::ListenFailed { error, .. } => {
                self.env.fail(&format!("cannot listen: {error}"));
            }
            Completion::Connected { conn, result, .. } => {
                let Some(Purpose::LinkOut(id, index)) = self.env.conns.get(&conn).copied() else {
                    return;
                };
                match (result, self.lanes.get_mut(&id)) {
                    (Ok(()), Some(lane)) => lane.on_link_up(&mut self.env, index, conn),
                    (Err(error), _) => self.env.fail(&format!("no follower: {error}")),
                    _ => {}
                }
            }
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } => {
                self.on_received(conn, buffer, range, result);
            }
            Completion::Sent { conn, result } => {
                let lane_of = |lanes: &BTreeMap<LaneId, Lane>, id| lanes.contains_key(&id);
                match self.env.conns.get(&conn).copied() {
                    Some(Purpose::LinkOut(id, index)) if lane_of(&self.lanes, id) => {
                        if let Some(lane) = self.lanes.get_mut(&id) {
                            lane.on_link_sent(&mut self.env, index, result.is_ok());
                        }
                    }
                    Some(Purpose::Writer(id)) => {
                        if let Some(lane) = self.lanes.get_mut(&id) {
                            lane.on_writer_sent(result.is_ok());
                        }
                    }
                    _ => {}
                }
            }
            Completion::Done { token, result } => self.on_done(token, result),
            Completion::Read { .. }
            | Completion::Space { .. }
            | Completion::Delivered { .. }
            | Completion::Ran { .. }
            | Completion::WallClock { .. } => {}
            Completion::StopRequested => self.stopping = true,
        }
    }

    fn on_time(&mut self, _now: Time) {
        for lane in self.lanes.values_mut() {
            lane.settle(&mut self.env);
        }
        for source in self.sources.values_mut() {
            source.settle(&mut self.env);
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.env.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        self.stopping || self.env.failed
    }
}

/// The bytes of the header before each batch; a node's, byte for byte.
const HEADER: usize = DATA_HEADER;
