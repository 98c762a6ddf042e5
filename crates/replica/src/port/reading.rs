//! The guest's reading: everything chosen, from a position on, in order.

use ops::{Buffer, Slice};
use paxos::{StreamName, Time};
use store::{ReadBytes, ReadFailure};

use super::events::Event;
use crate::env::Env;
use crate::lent::{Core, Ticket, Wanted};
use crate::read::READ_AGAIN_AFTER;
use crate::read::cursor::{Cursor, Target};

pub(super) struct Reading {
    cursor: Cursor,
    /// A chunk from disk: asked for, or here.
    fetching: bool,
    fetched: Option<(Wanted, Slice)>,
    /// The time of the next attempt, after the disk did not give the bytes.
    retry_at: Option<Time>,
}

impl Reading {
    pub(super) fn from(position: u64) -> Reading {
        Reading {
            cursor: Cursor::new(Target::Everything, position),
            fetching: false,
            fetched: None,
            retry_at: None,
        }
    }

    pub(super) fn next(&mut self, core: &mut Core, env: &mut Env) -> Option<Event> {
        let state = core.engine.state();
        let before = self.cursor.stream;
        let spot = self.cursor.spot(state)?;
        if spot.moved
            && let Some(stream) = before
        {
            let length = state.stream(stream).map(|stream| stream.length.0);
            return Some(Event::Ended { stream, length });
        }
        if let Some(from) = spot.left_from {
            self.cursor.at = from;
            return Some(Event::Skipped { to: from });
        }
        if spot.available == 0 {
            return None;
        }
        let wanted = Wanted::new(spot.stream, spot.position);
        let position = paxos::StreamPosition(spot.position);
        let fetched = self.fetched.take().filter(|(of, _)| *of == wanted);
        let found = core.ring.find(spot.stream, position);
        let found = found.or_else(|| core.young.find(spot.stream, position));
        let Some(slice) = found.or(fetched.map(|(_, slice)| slice)) else {
            if !self.fetching && self.retry_at.is_none_or(|at| at <= env.now) {
                self.fetching = true;
                self.retry_at = None;
                let buffer = env.memory.batches.take();
                core.read_from_store(Ticket::Port, wanted, spot.available, buffer);
            }
            return None;
        };
        let count = (slice.len() as u64).min(spot.available) as usize;
        let at = self.cursor.at;
        self.cursor.at += count as u64;
        Some(Event::Bytes {
            stream: spot.stream,
            position: spot.position,
            at,
            bytes: slice.within(0..count),
        })
    }

    pub(super) fn on_read(
        &mut self,
        now: Time,
        wanted: Wanted,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) {
        self.fetching = false;
        match result {
            Ok(bytes) => self.fetched = Some((wanted, buffer.freeze().slice(bytes.payload))),
            Err(_) => self.retry_at = Some(now + READ_AGAIN_AFTER),
        }
    }

    pub(super) fn has_reached(&self, stream: StreamName) -> bool {
        self.cursor.stream == Some(stream) && self.cursor.at == self.cursor.base
    }

    pub(super) fn is_current(&self, core: &Core) -> bool {
        self.cursor.length(core.engine.state()) == Some(self.cursor.at)
    }

    /// Whether the guest stands behind all that this replica knows to be chosen, and where that ends.
    pub(super) fn is_beyond(&self, core: &Core) -> Option<u64> {
        let end = self.end(core)?;
        (self.cursor.at > end).then_some(end)
    }

    /// The length of the output, as far as this replica knows.
    pub(super) fn end(&self, core: &Core) -> Option<u64> {
        self.cursor.length(core.engine.state())
    }

    pub(super) fn is_retrying(&self) -> bool {
        self.retry_at.is_some()
    }
}
