//! A reader's next chunk, from memory or disk, and the end of its answer.

use ops::{Buffer, ConnId, Slice};
use paxos::mutation::{self, Mutation};
use paxos::{StreamEnd, StreamName, StreamPosition, Time};
use store::{ReadBytes, ReadFailure};
use wire::{Answer, ReadEnd, Refusal};

use super::cursor::Target;
use super::{Barrier, MISSING_WAIT, READ_AGAIN_AFTER, Readers};
use crate::conns::Purpose;
use crate::env::Env;
use crate::lent::{Core, Ticket, Wanted, ended};

impl Readers {
    pub(super) fn pump_reader(&mut self, core: &mut Core, env: &mut Env, conn: ConnId) {
        let state = core.engine.state();
        let Some(reader) = self.readers.get_mut(&conn) else {
            return;
        };
        if reader.busy || reader.barrier != Barrier::Passed || reader.retry_at > env.now {
            return;
        }
        if let Some(place) = reader.place {
            self.waiting.remove(&place);
        }
        if !reader.began {
            // ‡ The end was chosen behind the barrier, and this client was told nothing yet: the name may be
            // another log's.
            if state.is_sealed() && !reader.stale {
                return self.end_reader(core, env, conn, Err(ended()));
            }
            let Some(length) = reader.cursor.length(state) else {
                let refusal = match reader.cursor.target {
                    Target::Chain(first) if state.is_forgotten(first) => forgotten(first),
                    _ => Refusal::new(
                        "unknown-stream",
                        format!("{} has no such stream", core.name),
                    ),
                };
                return self.end_reader(core, env, conn, Err(refusal));
            };
            if reader.cursor.at > length && !reader.follow {
                let refusal =
                    Refusal::new("past-end", format!("only {length} bytes are chosen so far"));
                return self.end_reader(core, env, conn, Err(refusal.key("length", length)));
            }
            if let Some(from) = reader.cursor.spot(state).and_then(|spot| spot.left_from) {
                return self.end_reader(core, env, conn, Err(trimmed_before(from)));
            }
            if !reader.follow {
                reader.to = Some(reader.to.map_or(length, |to| to.min(length)));
                reader.sent_at = env.now;
            }
            // A reader that follows has got nothing yet: it is told at once that there will be signs of life.
            reader.began = true;
            if reader.framed {
                let begins = Answer::Reading {
                    from: reader.cursor.at,
                    length,
                    stale: reader.stale,
                    open: reader.cursor.is_open(state),
                };
                env.send_bytes(conn, begins.to_line().as_bytes());
                reader.busy = true;
                return;
            }
        }
        let at = reader.cursor.at;
        let spot = reader.cursor.spot(state);
        let reached = reader.to.is_some_and(|to| at >= to);
        let Some(mut spot) = spot else {
            if let Target::Chain(first) = reader.cursor.target {
                return self.end_reader(core, env, conn, Err(forgotten(first))); // Since it began.
            }
            // No stream was ever opened.
            match reached || !reader.follow {
                true => self.end_reader(core, env, conn, Ok(ReadEnd::Open)),
                false => self.give_sign_of_life(env, conn),
            }
            return;
        };
        if mutation::is(Mutation::UnchosenBytesShown) {
            let proposed = core.ring.find(spot.stream, StreamPosition(spot.position));
            spot.available = spot.available.max(proposed.map_or(0, |p| p.len() as u64));
        }
        if reached {
            let status = if reader.asked_to.is_some_and(|to| at >= to) {
                ReadEnd::To
            } else {
                match spot.end {
                    _ if spot.available > 0 => ReadEnd::Open,
                    StreamEnd::Closed => ReadEnd::Closed,
                    StreamEnd::Cut => ReadEnd::Cut,
                    StreamEnd::Open => ReadEnd::Open,
                }
            };
            return self.end_reader(core, env, conn, Ok(status));
        }
        if let Some(from) = spot.left_from {
            return self.end_reader(core, env, conn, Err(trimmed_before(from)));
        }
        if spot.available == 0 {
            // The reader follows: more may come, unless the writer said that there is no more, or is gone.
            let end = match (reader.cursor.target, spot.end) {
                (Target::Everything, _) | (_, StreamEnd::Open) => None,
                (_, StreamEnd::Closed) => Some(ReadEnd::Closed),
                (_, StreamEnd::Cut) => {
                    let patience = env.limits.writer_gone_after;
                    let until = *reader.cut_until.get_or_insert(env.now + patience);
                    (is_writer_gone(core, spot.stream) || until <= env.now).then_some(ReadEnd::Cut)
                }
            };
            return match end {
                Some(end) => self.end_reader(core, env, conn, Ok(end)),
                None => self.give_sign_of_life(env, conn),
            };
        }
        reader.cut_until = None;
        let wanted = spot.available.min(reader.to.map_or(u64::MAX, |to| to - at));
        if let Some(slice) = core.ring.find(spot.stream, StreamPosition(spot.position)) {
            let count = (slice.len() as u64).min(wanted) as usize;
            return self.send_chunk(env, conn, slice.within(0..count));
        }
        if !self.begin_read(core, env, conn) {
            return self.give_sign_of_life(env, conn);
        }
        let buffer = env.memory.batches.take();
        let at = Wanted::new(spot.stream, spot.position);
        core.read_from_store(Ticket::Reader(conn), at, wanted, buffer);
    }

    pub fn on_bytes(
        &mut self,
        core: &Core,
        env: &mut Env,
        conn: ConnId,
        asked: Wanted,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) {
        env.memory.reads.give_back(core.id);
        let state = core.engine.state();
        let Some(reader) = self.readers.get_mut(&conn) else {
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
                self.end_reader(core, env, conn, Ok(ReadEnd::Open));
            }
            Err(_) => {
                let since = *reader.missing_since.get_or_insert(env.now);
                reader.retry_at = env.now + READ_AGAIN_AFTER;
                // An auxiliary waits for no bytes.
                if env.now > since + MISSING_WAIT || core.engine.is_auxiliary() {
                    let at = reader.cursor.at;
                    let refusal = Refusal::new(
                        "not-here",
                        "this node does not hold these bytes yet; ask another or later",
                    );
                    return self.end_reader(core, env, conn, Err(refusal.key("position", at)));
                }
                self.give_sign_of_life(env, conn);
            }
        }
    }

    fn send_chunk(&mut self, env: &mut Env, conn: ConnId, slice: Slice) {
        let Some(reader) = self.readers.get_mut(&conn) else {
            return;
        };
        let mut slices = Vec::with_capacity(2);
        if reader.framed {
            let header = Answer::Data {
                position: reader.cursor.at,
                count: slice.len() as u64,
                crc32c: crc32c::crc32c(&slice),
            };
            slices.push(Slice::copied_from(header.to_line().as_bytes()));
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

    pub fn on_sent(&mut self, core: &mut Core, env: &mut Env, conn: ConnId, ok: bool) {
        if !ok {
            self.remove_reader(core, env, conn);
            return env.close(conn);
        }
        if let Some(reader) = self.readers.get_mut(&conn) {
            reader.busy = false;
            if reader.place.is_some() {
                reader.retry_at = Time::ZERO; // Back among those that wait.
            }
            self.pump_reader(core, env, conn);
        }
    }

    pub(super) fn end_reader(
        &mut self,
        core: &Core,
        env: &mut Env,
        conn: ConnId,
        end: Result<ReadEnd, Refusal>,
    ) {
        let Some(reader) = self.remove_reader(core, env, conn) else {
            return;
        };
        if env.conns.purpose(conn) != Some(Purpose::Reader(core.id)) {
            return;
        }
        match end {
            Ok(end) if reader.framed => {
                let position = reader.cursor.at;
                let last = Answer::End { position, end };
                env.part(conn, last.to_line().as_bytes());
            }
            Ok(_) => env.part(conn, b""),
            // In a raw answer a line after bytes would be taken for bytes, and an end for theirs.
            Err(refusal) if reader.framed || !reader.sent_bytes => env.refuse(conn, refusal),
            Err(_) => env.reset(conn),
        }
    }
}

/// Whether nobody continues this stream, which was cut and which nobody continued so far: the leader cut it because its
/// writer was gone, or another writer's stream followed. One that a change of leader cut has a writer that is on its way.
fn is_writer_gone(core: &Core, stream: StreamName) -> bool {
    let last = core.engine.state().streams.last();
    core.cut_as_gone == Some(stream) || last.is_some_and(|last| last.name != stream)
}

fn trimmed_before(from: u64) -> Refusal {
    Refusal::new("trimmed", format!("bytes before {from} were trimmed")).key("from", from)
}

/// The refusal where nothing of its chain is left in the table, or its place in the chain is not known any more.
fn forgotten(stream: StreamName) -> Refusal {
    let sentence = format!("stream {stream} was trimmed; `logberg streams` lists what is left");
    Refusal::new("trimmed", sentence)
}
