//! Opening a stream: the turn of each append, the stream that it continues, and the outcome of the open-stream.

use std::collections::VecDeque;
use std::time::Duration;

use formats::RECORD_HEADER;
use ops::ConnId;
use paxos::mutation::{self, Mutation};
use paxos::{
    Action, NotOpened, OpenStream, StreamEnd, StreamName, StreamPosition, StreamSequence, Time,
};
use wire::{Answer, ConnectionEnd, LineError, Mode, NoStreamPlace, Refusal, Request};

use super::claim::Claim;
use super::state::{Append, Sink, Writer};
use super::sums::Sums;
use super::superseded;
use crate::conns::Purpose;
use crate::env::Env;
use crate::lent::no_quorum;
use crate::log::Log;

/// The interval at which a writer that waits for its stream is told so.
const WAITING_TOLD_EVERY: Duration = Duration::from_secs(1);

/// A token is kept in the stream's metadata.
const TOKEN_BYTES_MAX: usize = 64;

pub(super) fn parse_append(
    conn: ConnId,
    request: &Request,
    leftover: &[u8],
    ended: bool,
    now: Time,
) -> Result<Append, Refusal> {
    request.check()?;
    let bad = |what: &str| Refusal::new("bad-request", what.to_string());
    let label = request.get("label").unwrap_or_default().to_string();
    if label.len() > paxos::LABEL_BYTES_MAX {
        return Err(bad("a label is at most 256 bytes long"));
    }
    let continues = match request.get("continues") {
        None => None,
        Some(place) => {
            let bad = || LineError::Value(NoStreamPlace.to_string());
            Some(wire::parse_place(place).ok_or_else(bad)?)
        }
    };
    let token = request.get("token").unwrap_or_default().as_bytes().to_vec();
    if token.len() > TOKEN_BYTES_MAX {
        return Err(bad("a token is at most 64 bytes long"));
    }
    let checked = request.flag("checked")?;
    let mode = request.value("mode")?.unwrap_or_default();
    let end = request.value("end")?.unwrap_or_default();
    let told_at = now - WAITING_TOLD_EVERY;
    Ok(Append {
        from: Sink::Client(conn),
        label,
        continues,
        token,
        checked,
        mode,
        end,
        leftover: leftover.to_vec(),
        ended,
        since: now,
        told_at,
        uncopied: 0,
    })
}

impl Log {
    /// `append LOG …`
    pub fn on_append_request(
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
        let checked = self.core.check_bytes();
        if let Err(refusal) = checked.and_then(|()| self.core.check_leading(env)) {
            return env.refuse(conn, refusal);
        }
        self.ingest.queue.push_back(append);
        self.ingest(env);
    }

    pub(super) fn open_next(&mut self, env: &mut Env) {
        let mut kept = VecDeque::new();
        let full = self.core.is_full(env);
        while let Some(mut append) = self.ingest.queue.pop_front() {
            let waited = env.now - append.since;
            if let Sink::Client(conn) = append.from
                && env.conns.purpose(conn) != Some(Purpose::Writer(self.core.id))
            {
                continue;
            }
            if let Sink::Client(conn) = append.from
                && full
            {
                let refusal = self.core.disk_full(env);
                env.refuse(conn, refusal);
                continue;
            }
            let found = self.found_again(&append);
            let asked = append.continues.filter(|_| found.is_none());
            // A stream that cannot be continued any more is refused first, whoever else writes: the answer to
            // an earlier attempt of this very client may have been lost.
            if let (Sink::Client(conn), Some((name, at))) = (append.from, asked)
                && let Some(stream) = self.core.engine.state().stream(name)
                && (stream.continued_by.is_some() && !mutation::is(Mutation::ContinuedTwice)
                    || stream.length.0 != at && mutation::is(Mutation::ResumeByOneNodesView))
            {
                let reason = NotOpened::Continues {
                    length: stream.length,
                    continued_by: stream.continued_by,
                };
                self.refuse_continuing(env, conn, name, reason);
                continue;
            }
            if let (Sink::Client(conn), Some((name, _))) = (append.from, asked)
                && let Some(reason) = self.core.engine.state().continuation_of_forgotten(name)
            {
                self.refuse_continuing(env, conn, name, reason);
                continue;
            }
            let continues = found.or(asked);
            let rival = self.rival();
            if let (Some((stream, continued)), Sink::Client(conn)) = (rival, append.from) {
                let own = continues.is_some_and(|(s, _)| s == stream || continued == Some(s));
                match append.mode {
                    _ if own => {}
                    Mode::TakeOver => {}
                    Mode::Refuse => {
                        let busy = Refusal::new(
                            "busy",
                            format!(
                                "{} has an active writer; wait for it (--wait) or take over (--takeover)",
                                self.core.name
                            ),
                        );
                        env.refuse(conn, busy.key("stream", stream));
                        continue;
                    }
                    Mode::Wait => {
                        tell_waiting(env, conn, &mut append);
                        kept.push_back(append);
                        continue;
                    }
                }
            }
            let streams = self.core.engine.state().streams.len() + self.ingest.opening.len();
            if let Sink::Client(conn) = append.from
                && streams >= env.limits.streams_max
            {
                env.refuse(conn, too_many_streams(&self.core.name, streams));
                continue;
            }
            // ‡ What a client is told of an earlier stream has its copies, too.
            if let Sink::Client(conn) = append.from
                && self.core.can_propose()
                && !self.core.engine.has_copies()
            {
                if waited > env.limits.leader_wait {
                    let refusal = self.core.few_copies();
                    env.refuse(conn, refusal);
                } else {
                    kept.push_back(append);
                }
                continue;
            }
            if !self.core.can_propose() {
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
            if let Sink::Client(conn) = append.from
                && self.is_claimed(env, &append, continues.map(|(name, _)| name))
            {
                match append.mode {
                    Mode::Wait => tell_waiting(env, conn, &mut append),
                    // A claim is settled soon where there is a quorum.
                    _ if matches!(self.ingest.claim, Claim::Settling { .. })
                        && waited > env.limits.leader_wait =>
                    {
                        env.refuse(conn, no_quorum());
                        continue;
                    }
                    _ => {}
                }
                kept.push_back(append);
                continue;
            }
            self.ingest.counter += 1;
            let reused = mutation::is(Mutation::StreamNumberReused);
            let sequence = StreamSequence {
                incarnation: if reused { 1 } else { env.own.incarnation },
                counter: self.ingest.counter,
            };
            let stream = StreamName {
                owner: env.own.identity.node,
                sequence,
            };
            let action = Action::OpenStream(OpenStream {
                stream,
                label: append.label.clone(),
                metadata: append.token.clone(),
                continues: continues.map(|(s, p)| (s, StreamPosition(p))),
            });
            match self.core.engine.propose(env.now, action) {
                Ok(_) => {
                    append.uncopied = self.core.engine.uncopied();
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
        // The writer of the stream before is over, whether the new stream is ours or not.
        let old = self.ingest.writer.as_ref().map(|w| w.stream);
        if old.is_some_and(|old| old != stream) {
            self.core.counts.writers_superseded += 1;
            if mutation::is(Mutation::AckToASupersededWriter) {
                self.acknowledge_proposed(env);
            }
            match self.is_guest_again(stream) {
                true => self.ingest.writer = None,
                false => self.supersede_writer(env, superseded(stream)),
            }
        }
        let Some(append) = self.ingest.opening.remove(&stream) else {
            return;
        };
        if append.from == Sink::Guest {
            self.port.writing.on_opened();
        }
        let Append {
            from,
            checked,
            end,
            leftover,
            ended,
            uncopied,
            ..
        } = append;
        if let Sink::Client(conn) = from {
            if env.conns.purpose(conn) != Some(Purpose::Writer(self.core.id)) {
                return;
            }
            if self.core.lacks_copies_since(uncopied) {
                let refusal = self.core.few_copies().key("stream", stream);
                return env.refuse(conn, refusal);
            }
            let base = self.chain_base(stream);
            let opened = Answer::Stream {
                name: stream.into(),
                at: base,
            };
            env.send_bytes(conn, opened.to_line().as_bytes());
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
            uncopied,
            sums: checked.then(Sums::default),
        };
        if !leftover.is_empty() {
            let mut buffer = env.memory.batches.take();
            buffer[RECORD_HEADER..RECORD_HEADER + leftover.len()].copy_from_slice(&leftover);
            writer.filled = leftover.len();
            writer.fill = Some(buffer);
        }
        self.ingest.writer = Some(writer);
    }

    /// The stream that this very client opened without being answered: it bears the client's token, and nobody
    /// wrote to it. It is continued at its beginning, so that none is left that nobody knows of, and what it continues
    /// is not refused to that client.
    fn found_again(&self, append: &Append) -> Option<(StreamName, u64)> {
        if append.token.is_empty() {
            return None;
        }
        let mut streams = self.core.engine.state().streams.iter().rev();
        let own = streams.find(|stream| stream.metadata == append.token)?;
        let is_unused = own.length == StreamPosition(0) && own.continued_by.is_none();
        (is_unused && own.end != StreamEnd::Closed).then_some((own.name, 0))
    }

    /// Whether the guest goes on from one stream of its own to the next.
    fn is_guest_again(&self, stream: StreamName) -> bool {
        let opening = self.ingest.opening.get(&stream);
        let opens = opening.is_some_and(|append| append.from == Sink::Guest);
        opens && self.ingest.guests_stream().is_some()
    }

    pub(crate) fn on_not_opened(&mut self, env: &mut Env, stream: StreamName, reason: NotOpened) {
        let Some(append) = self.ingest.opening.remove(&stream) else {
            return;
        };
        let Sink::Client(conn) = append.from else {
            self.port.writing.on_opened(); // The next attempt takes the next number.
            return;
        };
        // The stream that was found by its token was continued meanwhile; or it was opened meanwhile, and is found now.
        let is_found = self.found_again(&append).is_some();
        if append.continues.is_none() && !append.token.is_empty() || is_found {
            return self.ingest.queue.push_back(append);
        }
        let continued = append.continues.map_or(stream, |(name, _)| name);
        self.refuse_continuing(env, conn, continued, reason);
    }

    /// The stream that is being written or opened, and the one it continues. A client that has sent its last
    /// byte keeps nobody from writing.
    fn rival(&self) -> Option<(StreamName, Option<StreamName>)> {
        let active = |w: &&Writer| !w.ended || w.end == ConnectionEnd::Fin;
        if let Some(writer) = self.ingest.writer.as_ref().filter(active) {
            let state = self.core.engine.state().stream(writer.stream);
            let continued = state.and_then(|s| s.continues).map(|(name, _)| name);
            return Some((writer.stream, continued));
        }
        let (name, append) = self.ingest.opening.iter().next()?;
        Some((*name, append.continues.map(|(name, _)| name)))
    }

    fn refuse_continuing(
        &self,
        env: &mut Env,
        conn: ConnId,
        continued: StreamName,
        reason: NotOpened,
    ) {
        let refusal = match reason {
            NotOpened::Continues {
                length,
                continued_by,
            } => {
                let refusal = Refusal::new(
                    "continues",
                    "the stream to continue has another length; drop what is safe and continue there",
                )
                .key("length", length)
                .key(
                    "at",
                    match continued_by {
                        Some(by) => self.chain_base(by),
                        None => self.chain_base(continued) + length.0,
                    },
                );
                match continued_by {
                    Some(by) => refusal.key("by", by),
                    None => refusal,
                }
            }
            NotOpened::UnknownStream if self.core.engine.state().is_forgotten(continued) => {
                Refusal::new(
                    "unknown-stream",
                    "the stream to continue was trimmed: begin another",
                )
            }
            NotOpened::UnknownStream => {
                Refusal::new("unknown-stream", "this log has no such stream to continue")
            }
            NotOpened::NotNew => {
                Refusal::new("not-leader", "the stream's name was taken; ask again")
            }
            NotOpened::Sealed => Refusal::new(
                "not-leader",
                "the log that had this name has ended; ask again",
            ),
        };
        env.refuse(conn, refusal);
    }

    /// The position in its chain of continued streams at which this one begins.
    pub(crate) fn chain_base(&self, stream: StreamName) -> u64 {
        let chain = self.core.engine.state().chain_of(stream);
        chain.map_or(0, |(_, begins)| begins.0)
    }
}

/// Tells a client that it waits for its turn, once a second.
fn tell_waiting(env: &mut Env, conn: ConnId, append: &mut Append) {
    if env.now >= append.told_at + WAITING_TOLD_EVERY {
        append.told_at = env.now;
        // A client that does not read is not told once more: that would only grow.
        if !env.conns.is_sending(conn) {
            env.send_bytes(conn, Answer::Waiting.to_line().as_bytes());
        }
    }
}

fn too_many_streams(log: &str, streams: usize) -> Refusal {
    Refusal::new(
        "too-many-streams",
        format!("{log} has {streams} streams, as many as a log may have; append to another log"),
    )
}
