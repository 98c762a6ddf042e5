//! The reader inside this process: everything chosen, from the beginning, to a state machine.

use ops::Buffer;
use paxos::{StreamName, Time};
use store::{ReadBytes, ReadFailure};

use super::cursor::{Cursor, Target};
use super::{RETRY, Readers};
use crate::env::{Env, LogEvent};
use crate::lent::{Core, Ticket, Wanted};

/// The state machine inside this process reads everything from the beginning.
pub(super) struct Local {
    pub(super) cursor: Cursor,
    pub(super) busy: bool,
    pub(super) caught_up: bool,
    /// Events on their way to the state machine: what they carry is given, and not applied.
    pub(super) given: u32,
    pub(super) retry_at: Time,
}

impl Readers {
    pub(super) fn pump_local(&mut self, core: &mut Core, env: &mut Env) {
        loop {
            let state = core.engine.state();
            let Some(local) = &mut self.local else {
                return;
            };
            if local.busy || local.retry_at > env.now {
                return;
            }
            let spot = local.cursor.spot(state);
            if spot.as_ref().is_some_and(|s| s.moved) {
                local.given += 1;
                env.out
                    .events
                    .push_back(LogEvent::StreamEnded { log: core.id });
            }
            if let Some(from) = spot.as_ref().and_then(|s| s.left_from) {
                // What is left begins with a snapshot.
                local.cursor.at = from;
                local.given += 1;
                env.out.events.push_back(LogEvent::Skipped { log: core.id });
                continue;
            }
            let Some(spot) = spot.filter(|s| s.available > 0) else {
                local.caught_up = true;
                return;
            };
            local.caught_up = false;
            if let Some(slice) = core
                .ring
                .find(spot.stream, paxos::StreamPosition(spot.position))
            {
                let count = (slice.len() as u64).min(spot.available) as usize;
                local.cursor.at += count as u64;
                local.given += 1;
                let bytes = slice[..count].to_vec();
                env.out.events.push_back(LogEvent::Chunk {
                    log: core.id,
                    stream: spot.stream,
                    bytes,
                });
                continue;
            }
            local.busy = true;
            let buffer = env.batches.take();
            core.read_from_store(Ticket::Local, spot.stream, spot.position, buffer);
            return;
        }
    }

    pub fn on_local_bytes(
        &mut self,
        core: &mut Core,
        env: &mut Env,
        asked: Wanted,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) {
        let state = core.engine.state();
        let Some(local) = &mut self.local else {
            return;
        };
        local.busy = false;
        match result {
            Ok(bytes) => {
                // A trim may have moved it on; another cursor sees that itself.
                let spot = local.cursor.clone().spot(state);
                let spot = spot.filter(|spot| {
                    let here = Wanted::new(spot.stream, spot.position);
                    asked == here && spot.left_from.is_none()
                });
                let Some(spot) = spot else {
                    return self.pump_local(core, env);
                };
                let count = (bytes.payload.len() as u64).min(spot.available) as usize;
                local.cursor.at += count as u64;
                local.given += 1;
                let bytes = buffer[bytes.payload.start..bytes.payload.start + count].to_vec();
                env.out.events.push_back(LogEvent::Chunk {
                    log: core.id,
                    stream: spot.stream,
                    bytes,
                });
            }
            Err(_) => local.retry_at = Time(env.now.0 + RETRY),
        }
        self.pump_local(core, env);
    }

    /// The state machine inside this process has taken one more of the events for it.
    pub fn local_took(&mut self) {
        if let Some(local) = &mut self.local {
            local.given = local.given.saturating_sub(1);
        }
    }

    /// The state machine inside this process has taken all that is chosen before this stream, and
    /// none of it.
    pub fn local_has_reached(&self, stream: StreamName) -> bool {
        let local = self.local.as_ref();
        local.is_some_and(|local| {
            let cursor = &local.cursor;
            let has_taken = local.caught_up && local.given == 0;
            has_taken && cursor.stream == Some(stream) && cursor.at == cursor.base
        })
    }

    /// ‡ The state machine inside this process has taken all that is chosen. What stands in the queue of events
    /// is not taken: an answer in between would be of a moment ago.
    pub fn local_is_current(&self, core: &Core) -> bool {
        let state = core.engine.state();
        let local = self.local.as_ref();
        local.is_some_and(|local| {
            let has_taken = local.caught_up && local.given == 0;
            has_taken && local.cursor.length(state) == Some(local.cursor.at)
        })
    }

    /// The state machine inside this process follows this log from its beginning.
    pub fn subscribe_local(&mut self) {
        let cursor = Cursor::new(Target::Everything, 0);
        self.local = Some(Local {
            cursor,
            busy: false,
            caught_up: false,
            given: 0,
            retry_at: Time(0),
        });
    }
}
