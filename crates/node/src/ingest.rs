//! The writer's side: opening streams, receiving a client's bytes, proposing them, acknowledging.
//!
//! Shape:  socket -> batch buffer -> engine, own segment and every follower (the same buffer).
//! Units:  a batch is 1 ..= BATCH_BUFFER - RECORD_HEADER bytes, one proposal and one record.
//! Errors: a vanished writer leaves its stream open for its continuation; nothing is retried here.
//!
//! Lockstep: while a durable write is in flight nothing is received, unless batches are large
//! already. Batches then grow by themselves to what the disk takes, at the same latency.

use std::collections::{BTreeMap, VecDeque};

use paxos::{
    Action, NotOpened, OpenStream, StreamEnd, StreamName, StreamPosition, StreamSequence, Time,
};

use crate::buffer::Buffer;
use crate::env::{Env, Place};
use crate::format::{PAYLOAD_BYTES_MAX as PAYLOAD_MAX, RECORD_HEADER};
use crate::line::{Refusal, Request};
use crate::log::{Log, SMALL_BATCH, batch_of};
use crate::op::{ConnId, Received};

/// From here on a batch is worth receiving while the disk is busy with the last one.
const LARGE_BATCH: usize = 128 << 10;

#[derive(Default)]
pub(crate) struct Ingest {
    writer: Option<Writer>,
    /// Open-stream actions of ours that are proposed and not chosen.
    opening: BTreeMap<StreamName, Append>,
    /// Appends that wait for their turn, or for phase 1 to finish.
    queue: VecDeque<Append>,
    /// Who waits for close-stream actions that are proposed and not chosen.
    closing: BTreeMap<StreamName, Vec<Close>>,
    /// Closes that came before their last bytes were chosen.
    early_closes: Vec<Close>,
    /// Numbers the streams we open in this incarnation.
    counter: u32,
    /// Commands of the state machine inside this process, until they are in a stream.
    local: Local,
}

#[derive(Default)]
struct Local {
    pending: VecDeque<u8>,
    wanted: bool,
}

/// An append request before its stream is open.
struct Append {
    from: Sink,
    label: String,
    continues: Option<(StreamName, u64)>,
    mode: Mode,
    end: EndOfBytes,
    /// What came after the request line.
    leftover: Vec<u8>,
    /// The client's end of bytes came with it.
    ended: bool,
    since: Time,
    told_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    Client(ConnId),
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Refuse,
    Wait,
    TakeOver,
}

/// What a client's half-close means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndOfBytes {
    Cut,
    Fin,
}

/// `close LOG stream=NAME at=POSITION`
#[derive(Clone, Copy)]
struct Close {
    conn: ConnId,
    stream: StreamName,
    at: u64,
    since: Time,
}

struct Writer {
    sink: Sink,
    stream: StreamName,
    end: EndOfBytes,
    fill: Option<Buffer>,
    filled: usize,
    receiving: bool,
    /// The client has sent its last byte.
    ended: bool,
    close_proposed: bool,
    /// Bytes proposed.
    proposed: u64,
    acknowledged: u64,
    acknowledging: bool,
    /// The last position sent to the client.
    told: u64,
    last_batch: usize,
}

impl Ingest {
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty() || !self.early_closes.is_empty() || self.local.wanted
    }

    pub(crate) fn check_invariants(&self) {
        if let Some(writer) = &self.writer {
            assert!(
                writer.told <= writer.acknowledged && writer.acknowledged <= writer.proposed,
                "I5: {} told, {} acknowledged, {} proposed",
                writer.told,
                writer.acknowledged,
                writer.proposed
            );
        }
    }

    pub(crate) fn writer_stream(&self) -> Option<StreamName> {
        self.writer.as_ref().map(|w| w.stream)
    }
}

impl Log {
    /// `append LOG …`
    pub(crate) fn on_append_request(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        request: &Request,
        leftover: &[u8],
        ended: bool,
    ) {
        let append = match parse_append(conn, request, leftover, ended, env.now) {
            Ok(append) => append,
            Err(refusal) => return env.refuse(conn, refusal),
        };
        if let Err(refusal) = self.check_leading(env) {
            return env.refuse(conn, refusal);
        }
        self.ingest.queue.push_back(append);
        self.ingest(env);
    }

    /// Whether clients are in the right place.
    pub(crate) fn check_leading(&self, env: &Env) -> Result<(), Refusal> {
        if let Some(why) = &self.stopped {
            return Err(Refusal::new(
                "shutting-down",
                format!("this node's replica of {} stopped: {why}", self.name),
            ));
        }
        if env.stopping {
            return Err(Refusal::new(
                "shutting-down",
                "this node is stopping; ask another",
            ));
        }
        if self.is_leading() {
            return Ok(());
        }
        Err(self.not_leader(env))
    }

    pub(crate) fn not_leader(&self, env: &Env) -> Refusal {
        let leader = self
            .engine
            .leader()
            .map(|(node, _)| node)
            .filter(|n| *n != env.identity.node);
        match leader.and_then(|n| env.addresses.get(&n)) {
            Some(address) => Refusal::new(
                "not-leader",
                format!("the leader of {} is at {address}; ask there", self.name),
            )
            .key("leader", address),
            None => Refusal::new(
                "not-leader",
                format!(
                    "{} has no leader that this node knows of; ask again in a moment",
                    self.name
                ),
            ),
        }
    }

    /// Opens what can be opened, proposes what was received, receives what there is room for.
    pub(crate) fn ingest(&mut self, env: &mut Env) {
        if !self.is_leading() {
            return;
        }
        self.settle_outcomes(env);
        self.open_next(env);
        self.try_early_closes(env);
        self.write_local(env);
        if env.disk_is_full
            && let Some(writer) = &self.ingest.writer
            && writer.sink != Sink::Local
        {
            let refusal = disk_full();
            self.drop_writer(env, Some(refusal));
        }
        self.propose_received(env);
        self.receive_more(env);
    }

    fn open_next(&mut self, env: &mut Env) {
        let mut kept = VecDeque::new();
        while let Some(mut append) = self.ingest.queue.pop_front() {
            let waited = env.now.0.saturating_sub(append.since.0);
            if let Sink::Client(conn) = append.from
                && env.conns.get(&conn) != Some(&Place::Writer(self.id))
            {
                continue;
            }
            if let Sink::Client(conn) = append.from
                && env.disk_is_full
            {
                env.refuse(conn, disk_full());
                continue;
            }
            let rival = self
                .ingest
                .writer
                .as_ref()
                .map(|w| (w.stream, w.sink))
                .or_else(|| {
                    self.ingest
                        .opening
                        .iter()
                        .next()
                        .map(|(name, a)| (*name, a.from))
                });
            if let (Some((stream, _)), Sink::Client(conn)) = (rival, append.from) {
                let own = append.continues.is_some_and(|(s, _)| s == stream);
                match append.mode {
                    _ if own => {}
                    Mode::TakeOver => {}
                    Mode::Refuse => {
                        let busy = Refusal::new(
                            "busy",
                            format!(
                                "{} has an active writer; wait for it (--wait) or take over (--takeover)",
                                self.name
                            ),
                        );
                        env.refuse(conn, busy.key("stream", stream));
                        continue;
                    }
                    Mode::Wait => {
                        if env.now.0 >= append.told_at.0 + 1_000_000 {
                            append.told_at = env.now;
                            env.send_bytes(conn, b"waiting\n");
                        }
                        kept.push_back(append);
                        continue;
                    }
                }
            }
            if !self.can_propose() {
                if let Sink::Client(conn) = append.from
                    && waited > env.limits.leader_wait
                    && append.mode != Mode::Wait
                {
                    env.refuse(conn, no_quorum());
                    continue;
                }
                kept.push_back(append);
                continue;
            }
            self.ingest.counter += 1;
            let sequence = StreamSequence {
                incarnation: env.incarnation,
                counter: self.ingest.counter,
            };
            let stream = StreamName {
                owner: env.identity.node,
                sequence,
            };
            let action = Action::OpenStream(OpenStream {
                stream,
                label: append.label.clone(),
                metadata: Vec::new(),
                continues: append.continues.map(|(s, p)| (s, StreamPosition(p))),
            });
            match self.engine.propose(env.now, action) {
                Ok(_) => {
                    self.ingest.opening.insert(stream, append);
                }
                Err(_) => kept.push_back(append),
            }
            self.drain(env);
        }
        kept.append(&mut self.ingest.queue);
        self.ingest.queue = kept;
    }

    pub(crate) fn on_opened(&mut self, env: &mut Env, stream: StreamName) {
        // Whoever wrote before is over, whether the new stream is ours or not.
        let old = self.ingest.writer.as_ref().map(|w| w.stream);
        if old.is_some_and(|old| old != stream) {
            self.drop_writer(env, Some(superseded(stream)));
        }
        let Some(append) = self.ingest.opening.remove(&stream) else {
            return;
        };
        if append.from == Sink::Local {
            self.ingest.local.wanted = false;
        }
        let Append {
            from,
            end,
            leftover,
            ended,
            ..
        } = append;
        if let Sink::Client(conn) = from {
            if env.conns.get(&conn) != Some(&Place::Writer(self.id)) {
                return;
            }
            let base = self.chain_base(stream);
            env.send_bytes(conn, format!("stream {stream} at={base}\n").as_bytes());
        }
        let mut writer = Writer {
            sink: from,
            stream,
            end,
            fill: None,
            filled: 0,
            receiving: false,
            ended,
            close_proposed: false,
            proposed: 0,
            acknowledged: 0,
            acknowledging: false,
            told: 0,
            last_batch: 0,
        };
        if !leftover.is_empty() {
            let mut buffer = env.batches.take();
            buffer[RECORD_HEADER..RECORD_HEADER + leftover.len()].copy_from_slice(&leftover);
            writer.filled = leftover.len();
            writer.fill = Some(buffer);
        }
        self.ingest.writer = Some(writer);
    }

    pub(crate) fn on_not_opened(&mut self, env: &mut Env, stream: StreamName, reason: NotOpened) {
        let Some(append) = self.ingest.opening.remove(&stream) else {
            return;
        };
        let Sink::Client(conn) = append.from else {
            self.ingest.local.wanted = false; // The next attempt takes the next number.
            return;
        };
        let refusal = match reason {
            NotOpened::Continues {
                length,
                continued_by,
            } => {
                let base = append.continues.map_or(0, |(s, _)| self.chain_base(s));
                let refusal = Refusal::new(
                    "continues",
                    "the stream to continue has another length; drop what is safe and continue there",
                )
                .key("length", length)
                .key("at", base + length.0);
                match continued_by {
                    Some(by) => refusal.key("by", by),
                    None => refusal,
                }
            }
            NotOpened::UnknownStream => {
                Refusal::new("unknown-stream", "this log has no such stream to continue")
            }
            NotOpened::NotNew => {
                Refusal::new("not-leader", "the stream's name was taken; ask again")
            }
        };
        env.refuse(conn, refusal);
    }

    /// Where in its chain of continued streams this one begins.
    pub(crate) fn chain_base(&self, stream: StreamName) -> u64 {
        let state = self.engine.state();
        let mut base = 0;
        let mut name = stream;
        while let Some((before, at)) = state.stream(name).and_then(|s| s.continues) {
            base += at.0;
            name = before;
        }
        base
    }

    fn propose_received(&mut self, env: &mut Env) {
        loop {
            let Some(writer) = &self.ingest.writer else {
                return;
            };
            if writer.sink == Sink::Local {
                return;
            }
            if writer.filled == 0 {
                break;
            }
            let ready = writer.filled >= batch_bytes_max(env)
                || writer.ended
                || self.store.queued_bytes() == 0;
            let Some(permit) = self.engine.permit() else {
                return;
            };
            let room = permit.limit.0 - permit.next.0;
            if !ready
                || writer.receiving
                || !self.can_propose()
                || room < writer.filled as u64
                || self.ring.bytes() > env.limits.ring_bytes_max
            {
                return;
            }
            let writer = self.ingest.writer.as_mut().expect("it is there");
            let count = std::mem::take(&mut writer.filled);
            let (stream, position) = (writer.stream, writer.proposed);
            let Some(mut buffer) = writer.fill.take() else {
                return;
            };
            if count <= SMALL_BATCH {
                let small = batch_of(env, &buffer[RECORD_HEADER..RECORD_HEADER + count]);
                writer.fill = Some(std::mem::replace(&mut buffer, small));
            }
            writer.proposed += count as u64;
            writer.last_batch = count;
            self.propose_bytes(env, stream, position, buffer, count);
        }
        let Some(writer) = &self.ingest.writer else {
            return;
        };
        if writer.ended && writer.filled == 0 && !writer.close_proposed {
            match writer.end {
                EndOfBytes::Fin => {
                    let action = Action::CloseStream {
                        stream: writer.stream,
                        at: StreamPosition(writer.proposed),
                    };
                    if self.can_propose() && self.engine.propose(env.now, action).is_ok() {
                        let writer = self.ingest.writer.as_mut().expect("it is there");
                        writer.close_proposed = true;
                        let stream = writer.stream;
                        self.ingest.closing.entry(stream).or_default();
                        self.drain(env);
                    }
                }
                EndOfBytes::Cut => self.part_with_cut_writer(env),
            }
        }
    }

    /// Its client has sent its last byte, and all are chosen. The stream stays open for a
    /// continuation or a close; nobody writes to it now.
    fn part_with_cut_writer(&mut self, env: &mut Env) {
        let over = |w: &Writer| {
            let all = w.filled == 0 && w.acknowledged >= w.proposed;
            w.ended && w.end == EndOfBytes::Cut && all
        };
        if self.ingest.writer.as_ref().is_some_and(over)
            && let Some(writer) = self.ingest.writer.take()
            && let Sink::Client(conn) = writer.sink
        {
            let last = match writer.told < writer.acknowledged {
                true => format!("ack {}\n", writer.acknowledged),
                false => String::new(),
            };
            env.part(conn, last.as_bytes());
        }
    }

    fn receive_more(&mut self, env: &mut Env) {
        let disk_busy = self.store.queued_bytes() > 0;
        let Some(writer) = &mut self.ingest.writer else {
            return;
        };
        let Sink::Client(conn) = writer.sink else {
            return;
        };
        // A batch must fit into the window of what may be unchosen.
        let batch_max = batch_bytes_max(env);
        if writer.receiving || writer.ended || writer.filled >= batch_max {
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
            conn,
            buffer,
            RECORD_HEADER + writer.filled..RECORD_HEADER + batch_max,
            false,
        );
    }

    pub(crate) fn on_writer_received(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        buffer: Buffer,
        result: std::io::Result<Received>,
    ) {
        let Some(writer) = self
            .ingest
            .writer
            .as_mut()
            .filter(|w| w.sink == Sink::Client(conn))
        else {
            return;
        };
        writer.receiving = false;
        writer.fill = Some(buffer);
        match result {
            Ok(received) => {
                writer.filled += received.count;
                writer.ended |= received.end;
            }
            Err(_) => {
                // A reset: what was received before it is still the client's word.
                writer.ended = true;
                writer.end = EndOfBytes::Cut;
            }
        }
        self.propose_received(env);
        self.receive_more(env);
    }

    /// Tells the writer how far everything is chosen.
    pub(crate) fn acknowledge(&mut self, env: &mut Env) {
        let Some(writer) = &mut self.ingest.writer else {
            return;
        };
        let state = self.engine.state();
        let Some(stream) = state.stream(writer.stream) else {
            return;
        };
        let length = stream.length.0;
        if stream.end == StreamEnd::Cut {
            return self.drop_writer(env, Some(cut_off()));
        }
        if length > writer.acknowledged {
            writer.acknowledged = length;
            self.send_acknowledgement(env);
            self.part_with_cut_writer(env);
        }
    }

    fn send_acknowledgement(&mut self, env: &mut Env) {
        if let Some(writer) = &mut self.ingest.writer
            && let Sink::Client(conn) = writer.sink
            && !writer.acknowledging
        {
            writer.acknowledging = true;
            writer.told = writer.acknowledged;
            env.send_bytes(conn, format!("ack {}\n", writer.told).as_bytes());
        }
    }

    pub(crate) fn on_writer_sent(&mut self, env: &mut Env, conn: ConnId, ok: bool) {
        let Some(writer) = self
            .ingest
            .writer
            .as_mut()
            .filter(|w| w.sink == Sink::Client(conn))
        else {
            return;
        };
        if !ok {
            return self.drop_writer(env, None);
        }
        writer.acknowledging = false;
        if writer.acknowledged > writer.told {
            self.send_acknowledgement(env);
        }
    }

    /// `close LOG stream=NAME at=POSITION`
    pub(crate) fn on_close_request(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        stream: StreamName,
        at: u64,
    ) {
        if let Err(refusal) = self.check_leading(env) {
            return env.refuse(conn, refusal);
        }
        let since = env.now;
        self.ingest.early_closes.push(Close {
            conn,
            stream,
            at,
            since,
        });
        self.try_early_closes(env);
    }

    fn try_early_closes(&mut self, env: &mut Env) {
        for close in std::mem::take(&mut self.ingest.early_closes) {
            let Close {
                conn,
                stream: name,
                at,
                since,
            } = close;
            if !env.conns.contains_key(&conn) {
                continue;
            }
            let late = env.now.0 > since.0 + env.limits.leader_wait;
            let Some(stream) = self.engine.state().stream(name) else {
                if late || self.can_propose() {
                    env.refuse(
                        conn,
                        Refusal::new(
                            "unknown-stream",
                            format!("{} has no stream {name}", self.name),
                        ),
                    );
                } else {
                    self.ingest.early_closes.push(close);
                }
                continue;
            };
            let length = stream.length.0;
            // What the stream is now, once it can grow no more or is too long already.
            let other_length = |sentence: String| {
                let refusal = Refusal::new("continues", sentence).key("length", length);
                match stream.continued_by {
                    Some(by) => refusal.key("by", by),
                    None => refusal,
                }
            };
            match stream.end {
                StreamEnd::Closed if length == at => {
                    env.part(conn, format!("closed {at}\n").as_bytes());
                }
                StreamEnd::Closed => {
                    env.refuse(conn, other_length(format!("{name} was closed at {length}")));
                }
                StreamEnd::Cut if length != at || stream.continued_by.is_some() => {
                    env.refuse(
                        conn,
                        other_length(format!("{name} ended at {length}; another stream followed")),
                    );
                }
                StreamEnd::Cut => {
                    let refusal = Refusal::new(
                        "superseded",
                        format!("{name} was cut off at {length}; continue it and close that"),
                    );
                    env.refuse(conn, refusal);
                }
                StreamEnd::Open if length == at && self.can_propose() => {
                    let action = Action::CloseStream {
                        stream: name,
                        at: StreamPosition(at),
                    };
                    if self.engine.propose(env.now, action).is_ok() {
                        self.ingest.closing.entry(name).or_default().push(close);
                        self.drain(env);
                    } else {
                        self.ingest.early_closes.push(close);
                    }
                }
                StreamEnd::Open if length > at => {
                    let sentence = format!("{name} is {length} bytes long, longer than {at}");
                    env.refuse(conn, other_length(sentence));
                }
                StreamEnd::Open if late && self.can_propose() => {
                    let sentence = format!("{name} is only {length} bytes long");
                    env.refuse(conn, other_length(sentence));
                }
                StreamEnd::Open if late => env.refuse(conn, no_quorum()),
                StreamEnd::Open => self.ingest.early_closes.push(close),
            }
        }
    }

    pub(crate) fn on_closed(
        &mut self,
        env: &mut Env,
        stream: StreamName,
        at: Option<StreamPosition>,
    ) {
        let closes = self.ingest.closing.remove(&stream).unwrap_or_default();
        let of_writer = |w: &Writer| w.stream == stream;
        let Some(at) = at else {
            // It grew or ended meanwhile: decide again by its state.
            self.ingest.early_closes.extend(closes);
            if self
                .ingest
                .writer
                .as_ref()
                .is_some_and(|w| of_writer(w) && w.close_proposed)
            {
                self.drop_writer(env, Some(cut_off()));
            }
            return;
        };
        let line = format!("closed {at}\n");
        for close in closes {
            env.part(close.conn, line.as_bytes());
        }
        if self.ingest.writer.as_ref().is_some_and(of_writer)
            && let Some(writer) = self.ingest.writer.take()
            && let Sink::Client(conn) = writer.sink
        {
            env.part(conn, line.as_bytes());
        }
    }

    /// The writer is no longer this log's writer; `why` is its last line.
    fn drop_writer(&mut self, env: &mut Env, why: Option<Refusal>) {
        let Some(writer) = self.ingest.writer.take() else {
            return;
        };
        match (writer.sink, why) {
            (Sink::Client(conn), Some(refusal)) => env.refuse(conn, refusal),
            (Sink::Client(conn), None) => env.close(conn),
            // The rest of a command that began in this stream is none in the next.
            (Sink::Local, _) => self.ingest.local.pending.clear(),
        }
    }

    /// All that this leader proposed is chosen or came to nothing: whatever still waits for an
    /// outcome will never have one. (Phase 1 without the holders of bytes that cannot be had frees
    /// slots, and a state of a peer's tells no outcomes.)
    fn settle_outcomes(&mut self, env: &mut Env) {
        if !self.can_propose() || self.engine.first_unchosen() < self.engine.proposed_up_to() {
            return;
        }
        for (_, append) in std::mem::take(&mut self.ingest.opening) {
            self.ingest.queue.push_back(append);
        }
        for (_, closes) in std::mem::take(&mut self.ingest.closing) {
            self.ingest.early_closes.extend(closes);
        }
        let state = self.engine.state();
        let lost = self.ingest.writer.as_ref().is_some_and(|writer| {
            let length = state.stream(writer.stream).map_or(0, |s| s.length.0);
            length < writer.proposed || writer.close_proposed
        });
        if lost {
            self.drop_writer(env, Some(cut_off()));
        }
    }

    pub(crate) fn refuse_writers_not_leading(&mut self, env: &mut Env) {
        let refusal = if env.stopping {
            Refusal::new("shutting-down", "this node is stopping; ask another")
        } else {
            self.not_leader(env)
        };
        self.refuse_writers(env, &refusal);
    }

    fn refuse_writers(&mut self, env: &mut Env, refusal: &Refusal) {
        self.drop_writer(env, Some(refusal.clone()));
        let queue = std::mem::take(&mut self.ingest.queue);
        let opening = std::mem::take(&mut self.ingest.opening).into_values();
        for append in queue.into_iter().chain(opening) {
            if let Sink::Client(conn) = append.from {
                env.refuse(conn, refusal.clone());
            }
        }
        let closing = std::mem::take(&mut self.ingest.closing)
            .into_values()
            .flatten();
        let early = std::mem::take(&mut self.ingest.early_closes);
        for close in closing.chain(early) {
            env.refuse(close.conn, refusal.clone());
        }
        self.ingest.local = Local::default();
    }

    pub(crate) fn stop_clients(&mut self, env: &mut Env, code: &'static str, sentence: &str) {
        self.refuse_writers(env, &Refusal::new(code, sentence));
        self.stop_readers(env, code, sentence);
    }

    /// Appends bytes of the state machine inside this process, to a stream of its own. They are lost
    /// if leadership is: who waits for them hears of the change of role.
    pub fn append_local(&mut self, env: &mut Env, bytes: &[u8]) -> bool {
        if !self.is_leading() {
            return false;
        }
        self.ingest.local.pending.extend(bytes);
        self.write_local(env);
        true
    }

    /// Nothing of the state machine inside this process is on its way.
    pub(crate) fn local_is_idle(&self) -> bool {
        self.ingest.local.pending.is_empty()
            && !self.ingest.local.wanted
            && self
                .ingest
                .writer
                .as_ref()
                .is_none_or(|w| w.acknowledged == w.proposed)
    }

    fn write_local(&mut self, env: &mut Env) {
        if self.ingest.local.pending.is_empty() {
            return;
        }
        match &self.ingest.writer {
            Some(writer) if writer.sink == Sink::Local => {
                self.ingest.local.wanted = false;
                let (stream, position) = (writer.stream, writer.proposed);
                let room = self.engine.permit().map_or(0, |p| p.limit.0 - p.next.0) as usize;
                if !self.can_propose() || room == 0 {
                    return;
                }
                let count = self.ingest.local.pending.len().min(PAYLOAD_MAX).min(room);
                let bytes: Vec<u8> = self.ingest.local.pending.drain(..count).collect();
                if let Some(writer) = &mut self.ingest.writer {
                    writer.proposed += count as u64;
                }
                let batch = batch_of(env, &bytes);
                self.propose_bytes(env, stream, position, batch, count);
            }
            _ if self.ingest.local.wanted => {}
            _ => {
                self.ingest.local.wanted = true;
                self.ingest.queue.push_back(Append {
                    from: Sink::Local,
                    label: "commands".to_string(),
                    continues: None,
                    mode: Mode::TakeOver,
                    end: EndOfBytes::Cut,
                    leftover: Vec::new(),
                    ended: false,
                    since: env.now,
                    told_at: env.now,
                });
            }
        }
    }
}

fn parse_append(
    conn: ConnId,
    request: &Request,
    leftover: &[u8],
    ended: bool,
    now: Time,
) -> Result<Append, Refusal> {
    request.allow(1, &["label", "continues", "mode", "end"])?;
    let bad = |what: &str| Refusal::new("bad-request", what.to_string());
    let label = request.get("label").unwrap_or_default().to_string();
    if label.len() > paxos::LABEL_BYTES_MAX {
        return Err(bad("a label is at most 256 bytes long"));
    }
    let continues = match request.get("continues") {
        None => None,
        Some(text) => {
            let (name, at) = text
                .split_once('@')
                .ok_or_else(|| bad("continues is written NAME@POSITION"))?;
            let name = crate::line::parse_stream(name)
                .ok_or_else(|| bad("a stream's name is owner.incarnation.counter"))?;
            let at = at
                .parse()
                .map_err(|_| bad("continues is written NAME@POSITION"))?;
            Some((name, at))
        }
    };
    let mode = match request.get("mode") {
        None | Some("refuse") => Mode::Refuse,
        Some("wait") => Mode::Wait,
        Some("takeover") => Mode::TakeOver,
        Some(_) => return Err(bad("mode is refuse, wait or takeover")),
    };
    let end = match request.get("end") {
        None | Some("cut") => EndOfBytes::Cut,
        Some("fin") => EndOfBytes::Fin,
        Some(_) => return Err(bad("end is cut or fin")),
    };
    let told_at = Time(now.0.saturating_sub(1_000_000));
    Ok(Append {
        from: Sink::Client(conn),
        label,
        continues,
        mode,
        end,
        leftover: leftover.to_vec(),
        ended,
        since: now,
        told_at,
    })
}

fn batch_bytes_max(env: &Env) -> usize {
    PAYLOAD_MAX.min(env.limits.unchosen_bytes_max as usize)
}

fn superseded(by: StreamName) -> Refusal {
    Refusal::new(
        "superseded",
        format!("another writer took over with stream {by}; what was acknowledged stays"),
    )
    .key("stream", by)
}

fn cut_off() -> Refusal {
    Refusal::new(
        "superseded",
        "the stream was cut off by a change of leader; continue it",
    )
}

fn disk_full() -> Refusal {
    Refusal::new(
        "full",
        "a disk of the cluster has reached its reserve; free space there and append again",
    )
}

pub(crate) fn no_quorum() -> Refusal {
    Refusal::new(
        "no-quorum",
        "too few nodes answer to agree on anything; start or reconnect the others",
    )
}
