//! The leader's lane: a client's bytes to its own segment and to every follower, and acks back.
//!
//! Shape:  socket -> batch buffer -> own segment and every follower (the same buffer).
//! Units:  a batch is 1 ..= PAYLOAD_BYTES_MAX bytes, one record and one header with its bytes.
//! Errors: all end the process, but the client's end of stream.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use formats::frame::{ProposeHeader, ProposedValue};
use formats::{BATCH_BUFFER, DataHeader, LogId, PAYLOAD_BYTES_MAX, RECORD_HEADER};
use ops::{BLOCK, Buffer, ConnId, Received, Slice, Token};
use paxos::{Digest, Offset, Slot, SlotRange, StreamName, Term};
use wire::Answer;

use super::segments::Segments;
use super::{Env, LARGE_BATCH, LaneId, SMALL_BATCH, TAIL_BYTES, link_line};

pub struct Lane {
    id: LaneId,
    writer: Writer,
    /// Made when all followers are connected.
    segments: Option<Segments>,
    links: Vec<Link>,
    ring: VecDeque<Entry>,
    /// Entries dropped from the ring's front.
    ring_base: u64,
    ring_bytes: u64,
    proposed: u64,
    chosen: u64,
    closes: Vec<(ConnId, u64)>,
}

struct Writer {
    conn: ConnId,
    fill: Option<Buffer>,
    filled: usize,
    receiving: bool,
    ended: bool,
    acknowledging: bool,
    told: u64,
    last_batch: usize,
}

struct Link {
    conn: Option<ConnId>,
    up: bool,
    sending: bool,
    /// The next entry of the ring to send.
    cursor: u64,
    durable: u64,
    /// Bytes of a position that came in pieces.
    partial: Vec<u8>,
}

/// The floor's counterpart of an engine's proposal.
struct Entry {
    position: u64,
    digest: Digest,
    payload: Slice,
}

/// As a node counts an entry beside its payload.
const ENTRY_BYTES: u64 = 256;

impl Lane {
    pub fn new(env: &Env, id: LaneId, conn: ConnId, leftover: &[u8], followers: usize) -> Lane {
        let mut fill = env.batches.take();
        fill[RECORD_HEADER..RECORD_HEADER + leftover.len()].copy_from_slice(leftover);
        let link = |_| Link {
            conn: None,
            up: false,
            sending: false,
            cursor: 0,
            durable: 0,
            partial: Vec::new(),
        };
        Lane {
            id,
            writer: Writer {
                conn,
                fill: Some(fill),
                filled: leftover.len(),
                receiving: false,
                ended: false,
                acknowledging: false,
                told: 0,
                last_batch: 0,
            },
            segments: None,
            links: (0..followers).map(link).collect(),
            ring: VecDeque::new(),
            ring_base: 0,
            ring_bytes: 0,
            proposed: 0,
            chosen: 0,
            closes: Vec::new(),
        }
    }

    pub fn close_at(&mut self, env: &mut Env, conn: ConnId, at: u64) {
        self.closes.push((conn, at));
        self.answer_closes(env);
    }

    /// In a node's order: propose and receive, replicate, acknowledge.
    pub fn settle(&mut self, env: &mut Env) {
        if self.segments.is_none() && self.links.iter().all(|link| link.up) {
            self.segments = Some(Segments::new(env, self.id));
            let name = "1.1.1".parse().expect("a stream's name");
            let opened = Answer::Stream { name, at: 0 };
            env.send(self.writer.conn, opened.to_line().as_bytes());
        }
        self.propose_received(env);
        self.receive_more(env);
        self.replicate(env);
        self.acknowledge(env);
    }

    pub fn on_done(&mut self, env: &mut Env, token: Token) {
        if let Some(segments) = &mut self.segments {
            segments.on_done(env, token);
        }
        self.count(env.quorum);
    }

    fn propose_received(&mut self, env: &mut Env) {
        let Some(segments) = &mut self.segments else {
            return;
        };
        let writer = &mut self.writer;
        if writer.filled == 0 {
            return;
        }
        let ready =
            writer.filled == PAYLOAD_BYTES_MAX || writer.ended || segments.queued_bytes() == 0;
        let room = env.limits.unchosen_bytes_max - (self.proposed - self.chosen);
        if !ready
            || writer.receiving
            || room < writer.filled as u64
            || self.ring_bytes > env.limits.ring_bytes_max
        {
            return;
        }
        let Some(mut buffer) = writer.fill.take() else {
            return;
        };
        let count = std::mem::take(&mut writer.filled);
        if count <= SMALL_BATCH {
            let mut small = env.batch_for(count);
            let payload = RECORD_HEADER..RECORD_HEADER + count;
            small[payload.clone()].copy_from_slice(&buffer[payload]);
            writer.fill = Some(std::mem::replace(&mut buffer, small));
        }
        writer.last_batch = count;
        let position = self.proposed;
        self.proposed += count as u64;
        let digest = formats::digest(&buffer[RECORD_HEADER..RECORD_HEADER + count]);
        let payload = segments.append(env, buffer, count, position, digest);
        self.ring_bytes += payload.pinned_bytes() as u64 + ENTRY_BYTES;
        self.ring.push_back(Entry {
            position,
            digest,
            payload,
        });
    }

    fn receive_more(&mut self, env: &mut Env) {
        let Some(segments) = &self.segments else {
            return;
        };
        let disk_busy = segments.queued_bytes() > 0;
        let writer = &mut self.writer;
        if writer.receiving || writer.ended || writer.filled == PAYLOAD_BYTES_MAX {
            return;
        }
        if disk_busy
            && (writer.last_batch < LARGE_BATCH || writer.filled > 0)
            && writer.last_batch > 0
        {
            return;
        }
        let buffer = writer.fill.take().unwrap_or_else(|| env.batches.take());
        writer.receiving = true;
        env.receive(
            writer.conn,
            buffer,
            RECORD_HEADER + writer.filled..BATCH_BUFFER,
            false,
        );
    }

    pub fn on_writer_received(
        &mut self,
        env: &mut Env,
        buffer: Buffer,
        result: io::Result<Received>,
    ) {
        let writer = &mut self.writer;
        writer.receiving = false;
        writer.fill = Some(buffer);
        match result {
            Ok(received) => {
                writer.filled += received.count;
                writer.ended |= received.end;
            }
            Err(_) => writer.ended = true,
        }
        self.propose_received(env);
        self.receive_more(env);
    }

    fn replicate(&mut self, env: &mut Env) {
        for link in &mut self.links {
            let Some(conn) = link.conn.filter(|_| link.up && !link.sending) else {
                continue;
            };
            let mut slices = Vec::new();
            let mut bytes = 0;
            link.cursor = link.cursor.max(self.ring_base);
            while bytes < env.limits.send_bytes_max
                && let Some(entry) = self.ring.get((link.cursor - self.ring_base) as usize)
            {
                let header = entry.header(self.id, self.chosen);
                slices.push(Slice::copied_from(&header.encode(formats::version::FIRST)));
                slices.push(entry.payload.clone());
                bytes += super::HEADER + entry.payload.len();
                link.cursor += 1;
            }
            if !slices.is_empty() {
                link.sending = true;
                env.ops.push_back(ops::Op::Send { conn, slices });
            }
        }
        let sent_to_all = self
            .links
            .iter()
            .map(|link| link.cursor)
            .min()
            .unwrap_or(u64::MAX);
        while let Some(first) = self.ring.front() {
            let is_chosen = first.position + first.payload.len() as u64 <= self.chosen;
            let sent = self.ring_base < sent_to_all && self.ring_bytes > TAIL_BYTES;
            if !is_chosen || !(sent || self.ring_bytes > env.limits.ring_bytes_max) {
                break;
            }
            self.ring_bytes -= first.payload.pinned_bytes() as u64 + ENTRY_BYTES;
            self.ring.pop_front();
            self.ring_base += 1;
        }
    }

    pub fn on_link_up(&mut self, env: &mut Env, index: usize, conn: ConnId) {
        self.links[index].conn = Some(conn);
        env.send(conn, &link_line(self.id));
        env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
    }

    pub fn on_link_sent(&mut self, env: &mut Env, index: usize, ok: bool) {
        let link = &mut self.links[index];
        match ok {
            true if link.up => link.sending = false,
            true => {}
            false => env.fail("a follower is gone"),
        }
    }

    /// The answer to our first line, then positions of 8 bytes.
    pub fn on_link_received(
        &mut self,
        env: &mut Env,
        index: usize,
        conn: ConnId,
        buffer: Buffer,
        range: Range<usize>,
        result: io::Result<Received>,
    ) {
        let link = &mut self.links[index];
        let count = match result {
            Ok(Received { count, end: false }) => count,
            _ => return env.fail("a follower is gone"),
        };
        link.partial
            .extend_from_slice(&buffer[range.start..range.start + count]);
        if !link.up && link.partial.starts_with(b"ok\n") {
            link.up = true;
            link.partial.drain(..3);
        }
        if link.up {
            let whole = link.partial.len() / 8 * 8;
            for position in link.partial[..whole].chunks_exact(8) {
                link.durable = u64::from_le_bytes(position.try_into().expect("chunks of 8"));
            }
            link.partial.drain(..whole);
        }
        env.receive(conn, buffer, 0..BLOCK, false);
        self.count(env.quorum);
    }

    /// The counter in the engine's place: what the middle one of all copies holds is chosen.
    fn count(&mut self, quorum: usize) {
        let own = self.segments.as_ref().map_or(0, Segments::durable);
        let mut durable: Vec<u64> = self.links.iter().map(|link| link.durable).collect();
        durable.push(own);
        durable.sort_unstable();
        self.chosen = durable[durable.len() - quorum];
    }

    fn acknowledge(&mut self, env: &mut Env) {
        let writer = &mut self.writer;
        if self.chosen > writer.told
            && !writer.acknowledging
            && env.conns.contains_key(&writer.conn)
        {
            writer.acknowledging = true;
            writer.told = self.chosen;
            env.send(writer.conn, Answer::Ack(self.chosen).to_line().as_bytes());
        }
        self.answer_closes(env);
    }

    pub fn on_writer_sent(&mut self, ok: bool) {
        self.writer.acknowledging = false;
        self.writer.ended |= !ok;
    }

    fn answer_closes(&mut self, env: &mut Env) {
        let chosen = self.chosen;
        let done = self.closes.extract_if(.., |(_, at)| *at <= chosen);
        for (conn, at) in done.collect::<Vec<_>>() {
            env.part(conn, Answer::Closed(at).to_line().as_bytes());
            self.writer.ended = true;
            env.part(self.writer.conn, b"");
        }
    }
}

impl Entry {
    fn header(&self, lane: LaneId, chosen: u64) -> DataHeader {
        let length = self.payload.len();
        let start = Slot(self.position);
        DataHeader::Propose(ProposeHeader {
            log: LogId(lane),
            term: Term {
                number: 1,
                ..Term::default()
            },
            slots: SlotRange::new(start, Slot(start.0 + length as u64)),
            value: ProposedValue::Content {
                stream: StreamName::default(),
                offset: Offset(0),
            },
            digest: self.digest,
            chosen_up_to: Slot(chosen),
            payload_length: length as u32,
        })
    }
}
