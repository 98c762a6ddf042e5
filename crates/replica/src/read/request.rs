//! A request to read: whether it makes sense, and a reader for it.

use ops::ConnId;
use paxos::Time;
use wire::{Format, Refusal, Request};

use super::cursor::{Cursor, Target};
use super::{Barrier, Reader, Readers};
use crate::env::Env;
use crate::lent::Core;

impl Readers {
    /// `read LOG …`
    pub fn on_request(&mut self, core: &mut Core, env: &mut Env, conn: ConnId, request: &Request) {
        let mut reader = match parse_read(request) {
            Ok(reader) => reader,
            Err(refusal) => return env.refuse(conn, refusal),
        };
        if let Some(why) = &core.stopped {
            let refusal = Refusal::new("not-here", format!("this node's replica stopped: {why}"));
            return env.refuse(conn, refusal);
        }
        if !reader.stale {
            let asked = match core.engine.is_auxiliary() {
                true => core
                    .check_leading(env)
                    .and_then(|()| self.ask_barrier(core, env)), // it may hold none of the bytes
                false => self.ask_barrier(core, env),
            };
            reader.barrier = match asked {
                Ok(id) => Barrier::Waiting(id),
                Err(refusal) => return env.refuse(conn, refusal),
            };
        }
        self.readers.insert(conn, reader);
    }
}

fn parse_read(request: &Request) -> Result<Reader, Refusal> {
    request.check()?;
    let bad = |what: &str| Refusal::new("bad-request", what.to_string());
    let target = request
        .stream("stream")?
        .map_or(Target::Everything, Target::Chain);
    let from = request.parsed::<u64>("from")?.unwrap_or(0);
    let to = request.parsed::<u64>("to")?;
    if to.is_some_and(|to| to < from) {
        return Err(bad("the range ends before it begins: choose from <= to"));
    }
    let format: Format = request.value("format")?.unwrap_or_default();
    Ok(Reader {
        cursor: Cursor::new(target, from),
        to,
        asked_to: to,
        follow: request.flag("follow")?,
        stale: request.flag("stale")?,
        framed: format == Format::Framed,
        barrier: Barrier::Passed,
        began: false,
        busy: false,
        place: None,
        missing_since: None,
        cut_until: None,
        retry_at: Time::ZERO,
        sent_bytes: false,
        sent_at: Time::ZERO,
        look_at: None,
    })
}
