//! The writer's side: opening streams, receiving a client's bytes, proposing them, acknowledging.
//!
//! Shape:  socket -> batch buffer -> engine, own segment and every follower (the same buffer).
//! Units:  a batch is 1 ..= BATCH_BUFFER - RECORD_HEADER bytes, one proposal and one record.
//! Errors: a vanished writer leaves its stream open for its continuation, until it is cut (`gone`); nothing is
//!         retried here.
//!
//! Lockstep: while a durable write is in flight nothing is received, unless batches are large
//! already. Batches then grow by themselves to what the disk takes, at the same latency.

use formats::{PAYLOAD_BYTES_MAX as PAYLOAD_MAX, RECORD_HEADER};
use ops::{Buffer, ConnId, Received};
use paxos::mutation::{self, Mutation};
use paxos::{Action, StreamEnd, StreamName, StreamPosition};
use wire::{ConnectionEnd, Refusal};

use crate::env::{Env, SMALL_BATCH};
use crate::log::Log;

/// The length from which on a batch is worth receiving while the disk is busy with the last one.
const LARGE_BATCH: usize = 128 << 10;

pub(crate) mod claim;
mod closing;
pub(crate) mod gone;
mod opening;
pub(crate) mod state;
mod sums;

use state::{Sink, Writer};

impl Log {
    /// Opens and proposes whatever is ready, and receives as much as there is room for.
    pub(crate) fn ingest(&mut self, env: &mut Env) {
        if !self.core.is_leading() {
            return;
        }
        self.settle_outcomes(env);
        self.cut_if_writer_is_gone(env);
        self.open_next(env);
        self.try_early_closes(env);
        self.propose_submitted(env);
        if self.core.is_full(env)
            && let Some(writer) = &self.ingest.writer
            && writer.sink != Sink::Guest
        {
            let refusal = self.core.disk_full(env);
            self.drop_writer(env, Some(refusal));
        }
        self.propose_received(env);
        self.receive_more(env);
    }

    fn propose_received(&mut self, env: &mut Env) {
        loop {
            let Some(writer) = &self.ingest.writer else {
                return;
            };
            if writer.sink == Sink::Guest {
                return;
            }
            if writer.filled == 0 {
                break;
            }
            let ready = writer.filled >= batch_bytes_max(env)
                || writer.ended
                || self.core.store.queued_bytes() == 0;
            let Some(permit) = self.core.engine.permit() else {
                return;
            };
            let room = permit.limit.0 - permit.next.0;
            if !ready
                || writer.receiving
                || !self.core.can_propose()
                || room < writer.filled as u64
                || self.core.ring.bytes() > env.room.share.ring_bytes
                // Followers alone may choose, so the queue of our own disk needs a bound of its own.
                || self.core.store.queued_bytes() > env.room.share.queue_bytes
            {
                let (filled, receiving) = (writer.filled, writer.receiving);
                if ready && !receiving {
                    self.count_held(env, room < filled as u64);
                }
                return;
            }
            if !self.may_begin_batch(env) {
                return;
            }
            let writer = self.ingest.writer.as_mut().expect("it is there");
            let count = std::mem::take(&mut writer.filled);
            let (stream, position) = (writer.stream, writer.proposed);
            let Some(mut buffer) = writer.fill.take() else {
                return;
            };
            if count <= SMALL_BATCH && !buffer.is_landed() {
                let small = env.batch_of(&buffer[RECORD_HEADER..RECORD_HEADER + count]);
                writer.fill = Some(std::mem::replace(&mut buffer, small));
            }
            writer.proposed += count as u64;
            writer.last_batch = count;
            let digest = formats::digest(&buffer[RECORD_HEADER..RECORD_HEADER + count]);
            if let Some(sums) = &mut writer.sums {
                sums.proposed(position + count as u64, digest);
            }
            self.propose_bytes(env, stream, position, buffer, (count, digest));
        }
        let Some(writer) = &self.ingest.writer else {
            return;
        };
        if writer.ended && writer.filled == 0 && !writer.close_proposed {
            match writer.end {
                ConnectionEnd::Fin => {
                    let action = Action::CloseStream {
                        stream: writer.stream,
                        at: StreamPosition(writer.proposed),
                    };
                    if self.core.can_propose() && self.core.engine.propose(env.now, action).is_ok()
                    {
                        let writer = self.ingest.writer.as_mut().expect("it is there");
                        writer.close_proposed = true;
                        let stream = writer.stream;
                        self.ingest.closing.entry(stream).or_default();
                        self.drain(env);
                    }
                }
                ConnectionEnd::Cut => self.part_with_cut_writer(env),
            }
        }
    }

    /// Counts the rounds in which received bytes wait, by what they wait for.
    fn count_held(&mut self, env: &Env, by_quorum: bool) {
        let queued = self.core.store.queued_bytes();
        let counts = &mut self.core.counts;
        counts.held_by_quorum += u64::from(by_quorum);
        counts.held_by_followers += u64::from(self.core.ring.bytes() > env.room.share.ring_bytes);
        counts.held_by_disk += u64::from(queued > env.room.share.queue_bytes);
    }

    /// Parts with a writer whose client has sent its last byte, once all bytes are chosen. The stream stays
    /// open for a continuation or a close; nobody writes to it now.
    fn part_with_cut_writer(&mut self, env: &mut Env) {
        let over = |w: &Writer| {
            let all = w.filled == 0 && w.acknowledged >= w.proposed;
            w.ended && w.end == ConnectionEnd::Cut && all
        };
        if self.ingest.writer.as_ref().is_some_and(over)
            && let Some(mut writer) = self.ingest.writer.take()
            && let Sink::Client(conn) = writer.sink
        {
            let last = match writer.told < writer.acknowledged {
                true => writer.acknowledgement(writer.acknowledged).to_line(),
                false => String::new(),
            };
            env.part(conn, last.as_bytes());
        }
    }

    fn receive_more(&mut self, env: &mut Env) {
        let disk_busy = self.core.store.queued_bytes() > 0;
        let Some(writer) = &mut self.ingest.writer else {
            return;
        };
        let Sink::Client(conn) = writer.sink else {
            return;
        };
        // Received bytes wait to be proposed, and a buffer that is being received into cannot be: the client
        // may be waiting for these very bytes' acknowledgement.
        if writer.receiving || writer.ended || writer.filled > 0 {
            return;
        }
        if disk_busy && (1..LARGE_BATCH).contains(&writer.last_batch) {
            return;
        }
        // The buffer is empty. A part of a file that was given up is of no use.
        let kept = writer
            .fill
            .take()
            .filter(|buffer| match buffer.is_landed() {
                true => buffer.place().is_some(),
                false => true,
            });
        let landed = match &kept {
            Some(kept) if kept.is_landed() => None,
            _ if writer.last_batch < env.limits.landing_bytes_min => None,
            _ => self.core.store.land(batch_bytes_max(env)),
        };
        let buffer = landed.or(kept).unwrap_or_else(|| env.memory.batches.take());
        writer.receiving = true;
        // A batch must fit into the window of unchosen bytes.
        let range = RECORD_HEADER..RECORD_HEADER + batch_bytes_max(env);
        env.receive(conn, buffer, range, false);
    }

    pub fn on_writer_received(
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
                // The connection was reset: bytes received before are still the client's word.
                writer.ended = true;
                writer.end = ConnectionEnd::Cut;
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
        let state = self.core.engine.state();
        let Some(stream) = state.stream(writer.stream) else {
            return;
        };
        let length = stream.length.0;
        if mutation::is(Mutation::AcknowledgedWhenProposed) {
            return self.acknowledge_proposed(env);
        }
        if writer.lacks_copies(&self.core) {
            let refusal = self.core.few_copies();
            return self.drop_writer(env, Some(refusal));
        }
        if stream.end == StreamEnd::Cut {
            return self.supersede_writer(env, cut_off());
        }
        if length > writer.acknowledged {
            writer.acknowledged = length;
            self.send_acknowledgement(env);
            self.part_with_cut_writer(env);
        }
    }

    /// Ends a writer whose stream was cut. All of the stream that is chosen stands before the cut. The writer
    /// hears how much that is before it hears why; it has lost nothing if that is all it sent.
    fn supersede_writer(&mut self, env: &mut Env, why: Refusal) {
        let Some(writer) = &mut self.ingest.writer else {
            return;
        };
        if writer.lacks_copies(&self.core) {
            let refusal = self.core.few_copies();
            return self.drop_writer(env, Some(refusal));
        }
        let stream = self.core.engine.state().stream(writer.stream);
        writer.acknowledged = stream.map_or(0, |s| s.length.0).max(writer.acknowledged);
        self.part_with_cut_writer(env);
        if let Some(writer) = &mut self.ingest.writer
            && writer.told < writer.acknowledged
        {
            writer.acknowledging = false;
            self.send_acknowledgement(env);
        }
        self.drop_writer(env, Some(why));
    }

    /// Acknowledges bytes, chosen or not: only a mutation does so.
    fn acknowledge_proposed(&mut self, env: &mut Env) {
        if let Some(writer) = &mut self.ingest.writer
            && writer.acknowledged < writer.proposed
        {
            writer.acknowledged = writer.proposed;
            self.send_acknowledgement(env);
        }
    }

    fn send_acknowledgement(&mut self, env: &mut Env) {
        if let Some(writer) = &mut self.ingest.writer
            && let Sink::Client(conn) = writer.sink
            && !writer.acknowledging
        {
            writer.acknowledging = true;
            writer.told = writer.acknowledged;
            let line = writer.acknowledgement(writer.told).to_line();
            env.send_bytes(conn, line.as_bytes());
        }
    }

    pub fn on_writer_sent(&mut self, env: &mut Env, conn: ConnId, ok: bool) {
        let Some(writer) = self
            .ingest
            .writer
            .as_mut()
            .filter(|w| w.sink == Sink::Client(conn))
        else {
            // A client that waits for its turn is told so, and may be gone.
            if !ok {
                let gone = Sink::Client(conn);
                self.ingest.queue.retain(|append| append.from != gone);
                env.close(conn);
            }
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

    /// Drops the writer, which is no longer this log's; `why` is its last line.
    fn drop_writer(&mut self, env: &mut Env, why: Option<Refusal>) {
        let Some(writer) = self.ingest.writer.take() else {
            return;
        };
        match (writer.sink, why) {
            (Sink::Client(conn), Some(refusal)) => env.refuse(conn, refusal),
            // The last words to the writer may still be on their way.
            (Sink::Client(conn), None) => env.part(conn, b""),
            // The rest of a frame that began in this stream is nothing in the next.
            (Sink::Guest, _) => self.port.writing.stop(),
        }
    }

    /// Settles requests that will never have an outcome: all proposals of this leader are chosen or came to
    /// nothing. (Phase 1 without the holders of bytes that cannot be had frees slots, and a peer's state
    /// tells no outcomes.)
    fn settle_outcomes(&mut self, env: &mut Env) {
        if !self.core.can_propose()
            || self.core.engine.first_unchosen() < self.core.engine.proposed_up_to()
        {
            return;
        }
        for (_, append) in std::mem::take(&mut self.ingest.opening) {
            self.ingest.queue.push_back(append);
        }
        for (_, closes) in std::mem::take(&mut self.ingest.closing) {
            self.ingest.early_closes.extend(closes);
        }
        self.trims.propose_again();
        let state = self.core.engine.state();
        let lost = self.ingest.writer.as_ref().is_some_and(|writer| {
            let length = state.stream(writer.stream).map_or(0, |s| s.length.0);
            length < writer.proposed || writer.close_proposed
        });
        if lost {
            self.supersede_writer(env, cut_off());
        }
    }

    pub(crate) fn refuse_writers_not_leading(&mut self, env: &mut Env) {
        let refusal = match env.stopping && self.core.engine.leader().is_none() {
            true => Refusal::new("shutting-down", "this node is stopping; ask another"),
            false => self.core.not_leader(env),
        };
        self.refuse_writers(env, &refusal);
    }

    fn refuse_writers(&mut self, env: &mut Env, refusal: &Refusal) {
        self.drop_writer(env, Some(refusal.clone()));
        for append in std::mem::take(&mut self.ingest.queue) {
            if let Sink::Client(conn) = append.from {
                env.refuse(conn, refusal.clone());
            }
        }
        // The next leader may find these proposals accepted, and open the streams.
        for (stream, append) in std::mem::take(&mut self.ingest.opening) {
            if let Sink::Client(conn) = append.from {
                env.refuse(conn, refusal.clone().key("stream", stream));
            }
        }
        let closing = std::mem::take(&mut self.ingest.closing)
            .into_values()
            .flatten();
        let early = std::mem::take(&mut self.ingest.early_closes);
        for close in closing.chain(early) {
            env.refuse(close.conn, refusal.clone());
        }
        self.port.writing.stop();
    }

    /// ‡ Ends the clients of a log that has ended. A client that has begun to write or to read here hears
    /// that this log was deleted. One that was about to begin asks for its name again, which may be another
    /// log's by now.
    pub fn end_clients(&mut self, env: &mut Env) {
        let sentence = format!("the log {} was deleted", self.core.name);
        let ended = Refusal::new("unknown-log", &sentence);
        let again = crate::lent::ended();
        self.drop_writer(env, Some(ended.clone()));
        self.readers.end(&self.core, env, &ended, &again);
        self.fail_barriers(env);
        self.refuse_writers(env, &again);
        self.trims.refuse(env, &again);
        self.moves.refuse(env, &again);
    }

    /// Ends one client. What it wrote and was told of stays; its stream is cut as that of any writer that is gone.
    pub fn end_client(&mut self, env: &mut Env, conn: ConnId, why: &Refusal) {
        let sink = Sink::Client(conn);
        if self.ingest.writer.as_ref().is_some_and(|w| w.sink == sink) {
            return self.drop_writer(env, Some(why.clone()));
        }
        self.readers.end_one(&self.core, env, conn, why);
        // A writer whose stream is being opened, and whoever waits for an outcome, is looked for by its connection.
        env.refuse(conn, why.clone());
    }

    pub fn stop_clients(&mut self, env: &mut Env, code: &'static str, sentence: &str) {
        let refusal = Refusal::new(code, sentence);
        self.refuse_writers(env, &refusal);
        self.trims.refuse(env, &refusal);
        self.moves.refuse(env, &refusal);
        self.readers.stop(&self.core, env, code, sentence);
    }
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

fn batch_bytes_max(env: &Env) -> usize {
    PAYLOAD_MAX.min(env.limits.unchosen_bytes_max as usize)
}
