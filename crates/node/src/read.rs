//! Readers: chosen bytes to whoever asks, from memory while they are young, from disk afterwards.
//!
//! Shape:  ring or segment -> socket (or the state machine inside this process).
//! Units:  positions count the bytes of a chain of continued streams, or of all outputs in order.
//! Errors: bytes this replica does not hold are waited for a while, then `not-here`; never `end`.
//!
//! A reader has at most one chunk in memory: one that does not read costs its chunk and nothing
//! else. At most `read_buffers_max` chunks are on their way from disk at once, and of one log at most
//! `log_read_buffers_max`.

use std::collections::BTreeMap;

use paxos::mutation::{self, Mutation};
use paxos::{Input, ReadId, StreamEnd, StreamName, StreamPosition, Time};

use crate::buffer::{Buffer, Slice};
use crate::env::{Env, Purpose};
use crate::line::{Refusal, Request};
use crate::log::{Log, Ticket, Wanted};
use crate::op::ConnId;
use crate::store::{ReadBytes, ReadFailure};

mod cursor;
mod local;
mod presence;
pub(crate) mod slots;
mod turns;

use cursor::{Cursor, Target};
use local::Local;
use presence::SIGN_OF_LIFE;

#[derive(Default)]
pub(crate) struct Readers {
    readers: BTreeMap<ConnId, Reader>,
    /// Those that wait to read from disk, by their places. Who is being sent a sign of life keeps its
    /// place, but not the others waiting: it may be slow to take it.
    waiting: BTreeMap<u64, ConnId>,
    last_place: u64,
    last_read: u64,
    local: Option<Local>,
    /// Who asked for the table of streams, and waits for this barrier.
    tables: BTreeMap<ConnId, ReadId>,
    passed: Option<ReadId>,
}

struct Reader {
    cursor: Cursor,
    /// Exclusive; for reads that do not follow at most what was chosen when they began.
    to: Option<u64>,
    asked_to: Option<u64>,
    follow: bool,
    stale: bool,
    framed: bool,
    barrier: Barrier,
    began: bool,
    /// A chunk is being read or sent.
    busy: bool,
    /// Among those that wait to read from disk, from when it first asked until it may.
    place: Option<u64>,
    missing_since: Option<Time>,
    retry_at: Time,
    /// A raw answer that has begun can end only by breaking off.
    sent_bytes: bool,
    /// When something was last sent.
    sent_at: Time,
    /// It has said its last, and hears nothing while there is nothing new: when to look whether it is
    /// still there.
    look_at: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Barrier {
    Waiting(ReadId),
    Passed,
}

const MISSING_WAIT: u64 = 10_000_000;
const RETRY: u64 = 20_000;

impl Readers {
    pub(crate) fn are_retrying(&self) -> bool {
        self.readers
            .values()
            .any(|r| r.missing_since.is_some() || matches!(r.barrier, Barrier::Waiting(_)))
            || !self.tables.is_empty()
            || !self.waiting.is_empty()
            || self.local.as_ref().is_some_and(|l| !l.caught_up)
    }

    /// When a follower that waits for more is next due a sign of life, or to be looked at.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let idle = self
            .readers
            .values()
            .filter(|r| r.follow && r.framed && r.began && !r.busy);
        // Nothing is sent before the next attempt at bytes that are not here.
        let signs = idle.map(|r| Time(r.sent_at.0 + SIGN_OF_LIFE).max(r.retry_at));
        let looks = self.readers.values().filter_map(|r| r.look_at);
        signs.chain(looks).min()
    }

    /// For who must know all that is chosen by now: to be given to the engine.
    pub(crate) fn next_barrier(&mut self) -> ReadId {
        self.last_read += 1;
        ReadId(self.last_read)
    }

    pub(crate) fn on_ready(&mut self, up_to: ReadId) {
        self.passed = Some(up_to);
        for reader in self.readers.values_mut() {
            if matches!(reader.barrier, Barrier::Waiting(id) if id <= up_to) {
                reader.barrier = Barrier::Passed;
            }
        }
    }
}

impl Log {
    /// `read LOG …`
    pub(crate) fn on_read_request(&mut self, env: &mut Env, conn: ConnId, request: &Request) {
        let mut reader = match self.parse_read(request) {
            Ok(reader) => reader,
            Err(refusal) => return env.refuse(conn, refusal),
        };
        if let Some(why) = &self.stopped {
            let refusal = Refusal::new("not-here", format!("this node's replica stopped: {why}"));
            return env.refuse(conn, refusal);
        }
        let mut barrier = None;
        if !reader.stale {
            if let Err(refusal) = self.check_leading(env) {
                return env.refuse(conn, refusal);
            }
            let id = self.readers.next_barrier();
            reader.barrier = Barrier::Waiting(id);
            barrier = Some(id);
        }
        self.readers.readers.insert(conn, reader);
        if let Some(id) = barrier {
            self.input(env, Input::Read(id));
        }
        self.pump_readers(env);
    }

    fn parse_read(&self, request: &Request) -> Result<Reader, Refusal> {
        request.allow(1, &["stream", "from", "to", "follow", "stale", "format"])?;
        let bad = |what: &str| Refusal::new("bad-request", what.to_string());
        let target = match request.get("stream") {
            None => Target::Everything,
            Some(name) => Target::Chain(
                crate::line::parse_stream(name)
                    .ok_or_else(|| bad("a stream's name is owner.incarnation.counter"))?,
            ),
        };
        let from = request.parsed::<u64>("from")?.unwrap_or(0);
        let to = request.parsed::<u64>("to")?;
        if to.is_some_and(|to| to < from) {
            return Err(bad("the range ends before it begins: choose from <= to"));
        }
        let framed = match request.get("format") {
            None | Some("raw") => false,
            Some("framed") => true,
            Some(_) => return Err(bad("format is raw or framed")),
        };
        Ok(Reader {
            cursor: Cursor::new(target, from),
            to,
            asked_to: to,
            follow: request.flag("follow")?,
            stale: request.flag("stale")?,
            framed,
            barrier: Barrier::Passed,
            began: false,
            busy: false,
            place: None,
            missing_since: None,
            retry_at: Time(0),
            sent_bytes: false,
            sent_at: Time(0),
            look_at: None,
        })
    }

    /// `streams LOG`
    pub(crate) fn on_streams_request(&mut self, env: &mut Env, conn: ConnId, stale: bool) {
        if stale {
            return env.part(conn, self.streams_line().as_bytes());
        }
        if let Err(refusal) = self.check_leading(env) {
            return env.refuse(conn, refusal);
        }
        let id = self.readers.next_barrier();
        self.readers.tables.insert(conn, id);
        self.input(env, Input::Read(id));
        self.send_tables(env);
    }

    pub(crate) fn has_passed(&self, barrier: ReadId) -> bool {
        self.readers.passed.is_some_and(|passed| barrier <= passed)
    }

    fn send_tables(&mut self, env: &mut Env) {
        // The table may be long: it is written only for somebody who may have it.
        let Some(passed) = self.readers.passed else {
            return;
        };
        let tables = &mut self.readers.tables;
        let ready: Vec<ConnId> = tables
            .extract_if(.., |_, id| *id <= passed)
            .map(|(conn, _)| conn)
            .collect();
        if ready.is_empty() {
            return;
        }
        let line = self.streams_line();
        for conn in ready {
            env.part(conn, line.as_bytes());
        }
    }

    /// We stopped leading before the barrier was passed.
    pub(crate) fn fail_barriers(&mut self, env: &mut Env) {
        let refusal = self.not_leader(env);
        for (conn, _) in std::mem::take(&mut self.readers.tables) {
            env.refuse(conn, refusal.clone());
        }
        self.refuse_trims(env, &refusal);
        let failed: Vec<ConnId> = self
            .readers
            .readers
            .iter()
            .filter(|(_, r)| !r.stale && (r.follow || matches!(r.barrier, Barrier::Waiting(_))))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in failed {
            self.end_reader(env, conn, Err(refusal.clone()));
        }
    }

    pub(crate) fn stop_readers(&mut self, env: &mut Env, code: &'static str, sentence: &str) {
        for (conn, _) in std::mem::take(&mut self.readers.tables) {
            env.refuse(conn, Refusal::new(code, sentence));
        }
        let conns: Vec<ConnId> = self.readers.readers.keys().copied().collect();
        for conn in conns {
            self.end_reader(env, conn, Err(Refusal::new(code, sentence)));
        }
    }

    pub(crate) fn pump_readers(&mut self, env: &mut Env) {
        self.send_tables(env);
        let conns: Vec<ConnId> = self
            .readers
            .readers
            .iter()
            .filter(|(_, r)| !r.busy)
            .map(|(c, _)| *c)
            .collect();
        for conn in conns {
            self.pump_reader(env, conn);
        }
        self.pump_waiting(env);
        self.look_at_silent(env);
        self.pump_local(env);
    }

    fn pump_reader(&mut self, env: &mut Env, conn: ConnId) {
        let state = self.engine.state();
        let Some(reader) = self.readers.readers.get_mut(&conn) else {
            return;
        };
        if reader.busy || reader.barrier != Barrier::Passed || reader.retry_at > env.now {
            return;
        }
        if let Some(place) = reader.place {
            self.readers.waiting.remove(&place);
        }
        if !reader.began {
            let Some(length) = reader.cursor.length(state) else {
                let refusal = match reader.cursor.target {
                    Target::Chain(first) if state.is_forgotten(first) => forgotten(first),
                    _ => Refusal::new(
                        "unknown-stream",
                        format!("{} has no such stream", self.name),
                    ),
                };
                return self.end_reader(env, conn, Err(refusal));
            };
            if reader.cursor.at > length && !reader.follow {
                let refusal =
                    Refusal::new("past-end", format!("only {length} bytes are chosen so far"));
                return self.end_reader(env, conn, Err(refusal.key("length", length)));
            }
            if let Some(from) = reader.cursor.spot(state).and_then(|spot| spot.left_from) {
                return self.end_reader(env, conn, Err(trimmed_before(from)));
            }
            if !reader.follow {
                reader.to = Some(reader.to.map_or(length, |to| to.min(length)));
                // A follower is told at once that there will be signs of life.
                reader.sent_at = env.now;
            }
            reader.began = true;
            if reader.framed {
                let open = match reader.cursor.is_open(state) {
                    true => " open=1",
                    false => "",
                };
                let line = format!(
                    "reading from={} length={length} stale={}{open}\n",
                    reader.cursor.at,
                    u8::from(reader.stale)
                );
                env.send_bytes(conn, line.as_bytes());
                reader.busy = true;
                return;
            }
        }
        let at = reader.cursor.at;
        let spot = reader.cursor.spot(state);
        let reached = reader.to.is_some_and(|to| at >= to);
        let Some(mut spot) = spot else {
            if let Target::Chain(first) = reader.cursor.target {
                return self.end_reader(env, conn, Err(forgotten(first))); // Since it began.
            }
            // Nothing was ever opened.
            match reached || !reader.follow {
                true => self.end_reader(env, conn, Ok("open")),
                false => self.give_sign_of_life(env, conn),
            }
            return;
        };
        if mutation::is(Mutation::UnchosenBytesShown) {
            let proposed = self.ring.find(spot.stream, StreamPosition(spot.position));
            spot.available = spot.available.max(proposed.map_or(0, |p| p.len() as u64));
        }
        if reached {
            let status = if reader.asked_to.is_some_and(|to| at >= to) {
                "to"
            } else {
                match spot.end {
                    _ if spot.available > 0 => "open",
                    StreamEnd::Closed => "closed",
                    StreamEnd::Cut => "cut",
                    StreamEnd::Open => "open",
                }
            };
            return self.end_reader(env, conn, Ok(status));
        }
        if let Some(from) = spot.left_from {
            return self.end_reader(env, conn, Err(trimmed_before(from)));
        }
        if spot.available == 0 {
            // Following: more may come, unless its writer said that there is no more.
            return match spot.end == StreamEnd::Closed && reader.cursor.target != Target::Everything
            {
                true => self.end_reader(env, conn, Ok("closed")),
                false => self.give_sign_of_life(env, conn),
            };
        }
        let wanted = spot.available.min(reader.to.map_or(u64::MAX, |to| to - at));
        if let Some(slice) = self.ring.find(spot.stream, StreamPosition(spot.position)) {
            let count = (slice.len() as u64).min(wanted) as usize;
            return self.send_chunk(env, conn, slice.within(0..count));
        }
        if !self.begin_read(env, conn) {
            return self.give_sign_of_life(env, conn);
        }
        let buffer = env.batches.take();
        self.read_from_store(Ticket::Reader(conn), spot.stream, spot.position, buffer);
        self.drain(env);
    }

    fn remove_reader(&mut self, env: &mut Env, conn: ConnId) -> Option<Reader> {
        let reader = self.readers.readers.remove(&conn)?;
        if let Some(place) = reader.place {
            self.readers.waiting.remove(&place);
        }
        if self.readers.waiting.is_empty() {
            env.reads.leave(self.id);
        }
        Some(reader)
    }

    pub(crate) fn on_reader_bytes(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        asked: Wanted,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) {
        env.reads.give_back(self.id);
        let state = self.engine.state();
        let Some(reader) = self.readers.readers.get_mut(&conn) else {
            return;
        };
        reader.busy = false;
        match result {
            Ok(bytes) => {
                reader.missing_since = None;
                let Some(spot) = reader.cursor.spot(state) else {
                    return;
                };
                let wanted = spot.available.min(
                    reader
                        .to
                        .map_or(u64::MAX, |to| to.saturating_sub(reader.cursor.at)),
                );
                let count = (bytes.payload.len() as u64).min(wanted) as usize;
                let trimmed = spot.left_from.is_some(); // The next look says so.
                if count == 0 || trimmed || asked != Wanted::new(spot.stream, spot.position) {
                    return;
                }
                let slice = buffer
                    .freeze()
                    .slice(bytes.payload.start..bytes.payload.start + count);
                self.send_chunk(env, conn, slice);
            }
            Err(_) if mutation::is(Mutation::MissingBytesAreAnEnd) => {
                self.end_reader(env, conn, Ok("open"));
            }
            Err(_) => {
                let since = *reader.missing_since.get_or_insert(env.now);
                reader.retry_at = Time(env.now.0 + RETRY);
                // An auxiliary waits for no bytes.
                if env.now.0 > since.0 + MISSING_WAIT || self.engine.is_auxiliary() {
                    let at = reader.cursor.at;
                    let refusal = Refusal::new(
                        "not-here",
                        "this node does not hold these bytes yet; ask another or later",
                    );
                    return self.end_reader(env, conn, Err(refusal.key("position", at)));
                }
                self.give_sign_of_life(env, conn);
            }
        }
    }

    fn send_chunk(&mut self, env: &mut Env, conn: ConnId, slice: Slice) {
        let Some(reader) = self.readers.readers.get_mut(&conn) else {
            return;
        };
        let mut slices = Vec::with_capacity(2);
        if reader.framed {
            let digest = crc32c::crc32c(&slice);
            let line = format!("data {} {} {digest:08x}\n", reader.cursor.at, slice.len());
            slices.push(Slice::copied_from(line.as_bytes()));
        }
        reader.missing_since = None;
        reader.place = None;
        reader.cursor.at += slice.len() as u64;
        reader.sent_at = env.now;
        reader.sent_bytes = true;
        slices.push(slice);
        reader.busy = true;
        env.send(conn, slices);
    }

    pub(crate) fn on_reader_sent(&mut self, env: &mut Env, conn: ConnId, ok: bool) {
        if !ok {
            self.remove_reader(env, conn);
            return env.close(conn);
        }
        if let Some(reader) = self.readers.readers.get_mut(&conn) {
            reader.busy = false;
            if reader.place.is_some() {
                reader.retry_at = Time(0); // Back among those that wait.
            }
            self.pump_reader(env, conn);
        }
    }

    fn end_reader(&mut self, env: &mut Env, conn: ConnId, end: Result<&str, Refusal>) {
        let Some(reader) = self.remove_reader(env, conn) else {
            return;
        };
        if env.conns.get(&conn) != Some(&Purpose::Reader(self.id)) {
            return;
        }
        match end {
            Ok(status) if reader.framed => {
                env.part(
                    conn,
                    format!("end {} {status}\n", reader.cursor.at).as_bytes(),
                );
            }
            Ok(_) => env.part(conn, b""),
            // In a raw answer a line after bytes would be taken for bytes: break the connection.
            Err(refusal) if reader.framed || !reader.sent_bytes => env.refuse(conn, refusal),
            Err(_) => env.close(conn),
        }
    }
}

fn trimmed_before(from: u64) -> Refusal {
    Refusal::new("trimmed", format!("bytes before {from} were trimmed")).key("from", from)
}

/// Nothing of its chain is left in the table, or its place in the chain is not known any more.
fn forgotten(stream: StreamName) -> Refusal {
    let sentence = format!("stream {stream} was trimmed; `logberg streams` lists what is left");
    Refusal::new("trimmed", sentence)
}
