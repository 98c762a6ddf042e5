//! Readers: chosen bytes to anybody who asks, from memory while they are young, from disk afterwards.
//!
//! Shape:  ring or segment -> socket.
//! Units:  positions count the bytes of a chain of continued streams, or of all outputs in order.
//! Errors: bytes this replica does not hold are waited for a while, then `not-here`; never `end`.
//!
//! A reader has at most one chunk in memory: one that does not read costs its chunk and nothing else. At most
//! `read_buffers_max` chunks of all logs are on their way from disk at once, and at most
//! `log_read_buffers_max` of one log.

use std::collections::BTreeMap;
use std::time::Duration;

use ops::ConnId;
use paxos::{ReadId, Time};
use wire::Refusal;

use crate::env::Env;
use crate::lent::Core;
use crate::streams::list::StreamList;

mod barrier;
pub(crate) mod cursor;
mod presence;
mod request;
mod serve;
pub(crate) mod slots;
mod turns;

use cursor::Cursor;
use presence::SIGN_OF_LIFE;

#[derive(Default)]
pub(crate) struct Readers {
    readers: BTreeMap<ConnId, Reader>,
    /// The readers that wait to read from disk, by their places. A reader that is being sent a sign of life
    /// keeps its place, but not the others waiting: it may be slow to take it.
    waiting: BTreeMap<u64, ConnId>,
    last_place: u64,
    /// The last barrier that was asked for.
    last_read: u64,
    /// Clients that asked for the table of streams, and the barriers they wait for.
    tables: BTreeMap<ConnId, (ReadId, StreamList)>,
    passed: Option<ReadId>,
    /// The last barrier that failed: up to there, barriers that have not passed will not.
    failed: Option<ReadId>,
    /// The deadline of followers while this replica knows no leader: then they go on elsewhere.
    leaderless_until: Option<Time>,
}

struct Reader {
    cursor: Cursor,
    /// The end, exclusive. For reads that do not follow it is at most the end of what was chosen when they began.
    to: Option<u64>,
    asked_to: Option<u64>,
    follow: bool,
    stale: bool,
    framed: bool,
    barrier: Barrier,
    began: bool,
    /// A chunk is being read or sent.
    busy: bool,
    /// The place among readers that wait to read from disk, from when this one first asked until it may.
    place: Option<u64>,
    missing_since: Option<Time>,
    /// The time until which somebody may continue the stream at whose end this reader waits, and which was cut.
    cut_until: Option<Time>,
    retry_at: Time,
    /// A raw answer that has begun can end only by breaking off.
    sent_bytes: bool,
    /// The time when something was last sent.
    sent_at: Time,
    /// The time of the next look at a reader that has said its last, and hears nothing while there is nothing new.
    look_at: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Barrier {
    Waiting(ReadId),
    Passed,
}

const MISSING_WAIT: Duration = Duration::from_secs(10);
/// The wait before bytes that this replica does not hold are looked for again.
pub(crate) const READ_AGAIN_AFTER: Duration = Duration::from_millis(20);

impl Readers {
    pub(crate) fn are_retrying(&self) -> bool {
        self.readers
            .values()
            .any(|r| r.missing_since.is_some() || matches!(r.barrier, Barrier::Waiting(_)))
            || !self.tables.is_empty()
            || !self.waiting.is_empty()
    }

    /// The time when a follower that waits for more is next due a sign of life, or to be looked at.
    pub(crate) fn deadline(&self) -> Option<Time> {
        if self.readers.is_empty() {
            return None;
        }
        let idle = self
            .readers
            .values()
            .filter(|r| r.follow && r.framed && r.began && !r.busy);
        // Nothing is sent before the next attempt at bytes that are not here.
        let signs = idle.map(|r| (r.sent_at + SIGN_OF_LIFE).max(r.retry_at));
        let looks = self.readers.values().filter_map(|r| r.look_at);
        let follow = self.readers.values().any(|r| r.follow && !r.stale);
        let cuts = self.readers.values().filter(|reader| !reader.busy);
        let cuts = cuts.filter_map(|reader| reader.cut_until);
        let leaderless = self.leaderless_until.filter(|_| follow);
        signs.chain(looks).chain(cuts).chain(leaderless).min()
    }
}

impl Readers {
    pub fn stop(&mut self, core: &Core, env: &mut Env, code: &'static str, sentence: &str) {
        for (conn, _) in std::mem::take(&mut self.tables) {
            env.refuse(conn, Refusal::new(code, sentence));
        }
        let conns: Vec<ConnId> = self.readers.keys().copied().collect();
        for conn in conns {
            self.end_reader(core, env, conn, Err(Refusal::new(code, sentence)));
        }
    }

    /// As [`Readers::stop`], but clients that were told nothing yet hear something else.
    pub fn end(&mut self, core: &Core, env: &mut Env, begun: &Refusal, others: &Refusal) {
        for (conn, _) in std::mem::take(&mut self.tables) {
            env.refuse(conn, others.clone());
        }
        let readers = self.readers.iter();
        let readers: Vec<(ConnId, bool)> = readers.map(|(conn, r)| (*conn, r.began)).collect();
        for (conn, began) in readers {
            let why = if began { begun } else { others };
            self.end_reader(core, env, conn, Err(why.clone()));
        }
    }

    /// Ends one of them, if it is here.
    pub fn end_one(&mut self, core: &Core, env: &mut Env, conn: ConnId, why: &Refusal) {
        self.tables.retain(|table, _| *table != conn);
        self.end_reader(core, env, conn, Err(why.clone()));
    }

    pub fn pump(&mut self, core: &mut Core, env: &mut Env) {
        self.send_tables(core, env);
        self.part_if_leaderless(core, env);
        let conns: Vec<ConnId> = self
            .readers
            .iter()
            .filter(|(_, r)| !r.busy)
            .map(|(c, _)| *c)
            .collect();
        for conn in conns {
            self.pump_reader(core, env, conn);
        }
        self.pump_waiting(core, env);
        self.look_at_silent(env);
    }

    fn remove_reader(&mut self, core: &Core, env: &mut Env, conn: ConnId) -> Option<Reader> {
        let reader = self.readers.remove(&conn)?;
        if let Some(place) = reader.place {
            self.waiting.remove(&place);
        }
        if self.waiting.is_empty() {
            env.memory.reads.leave(core.id);
        }
        Some(reader)
    }
}
