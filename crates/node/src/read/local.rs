//! The reader inside this process: everything chosen, from the beginning, to a state machine.

use paxos::Time;

use super::RETRY;
use super::cursor::{Cursor, Target};
use crate::buffer::Buffer;
use crate::env::{Env, LogEvent};
use crate::log::{Log, Ticket};
use crate::store::{ReadBytes, ReadFailure};

/// The state machine inside this process reads everything from the beginning.
pub(super) struct Local {
    pub(super) cursor: Cursor,
    pub(super) busy: bool,
    pub(super) caught_up: bool,
    pub(super) retry_at: Time,
}

impl Log {
    pub(super) fn pump_local(&mut self, env: &mut Env) {
        loop {
            let state = self.engine.state();
            let Some(local) = &mut self.readers.local else {
                return;
            };
            if local.busy || local.retry_at > env.now {
                return;
            }
            let spot = local.cursor.spot(state);
            if spot.as_ref().is_some_and(|s| s.moved) {
                env.events.push_back(LogEvent::StreamEnded { log: self.id });
            }
            if let Some(from) = spot.as_ref().and_then(|s| s.left_from) {
                // Without its first commands a state machine would be another one.
                tracing::error!(
                    log = self.id.0,
                    from,
                    "what a state machine still has to apply was trimmed; it stops here"
                );
                local.retry_at = Time(u64::MAX);
                return;
            }
            let Some(spot) = spot.filter(|s| s.available > 0) else {
                local.caught_up = true;
                return;
            };
            local.caught_up = false;
            if let Some(slice) = self
                .ring
                .find(spot.stream, paxos::StreamPosition(spot.position))
            {
                let count = (slice.len() as u64).min(spot.available) as usize;
                local.cursor.at += count as u64;
                let bytes = slice[..count].to_vec();
                env.events.push_back(LogEvent::Chunk {
                    log: self.id,
                    bytes,
                });
                continue;
            }
            local.busy = true;
            let buffer = env.batches.take();
            self.read_from_store(Ticket::Local, spot.stream, spot.position, buffer);
            self.drain(env);
            return;
        }
    }

    pub(crate) fn on_local_bytes(
        &mut self,
        env: &mut Env,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) {
        let state = self.engine.state();
        let Some(local) = &mut self.readers.local else {
            return;
        };
        local.busy = false;
        match result {
            Ok(bytes) => {
                let Some(spot) = local.cursor.spot(state) else {
                    return;
                };
                let count = (bytes.payload.len() as u64).min(spot.available) as usize;
                if bytes.position.0 != spot.position || count == 0 {
                    return;
                }
                local.cursor.at += count as u64;
                let bytes = buffer[bytes.payload.start..bytes.payload.start + count].to_vec();
                env.events.push_back(LogEvent::Chunk {
                    log: self.id,
                    bytes,
                });
            }
            Err(_) => local.retry_at = Time(env.now.0 + RETRY),
        }
        self.pump_local(env);
    }

    /// The state machine inside this process follows this log from its beginning.
    pub fn subscribe_local(&mut self) {
        let cursor = Cursor::new(Target::Everything, 0);
        self.readers.local = Some(Local {
            cursor,
            busy: false,
            caught_up: false,
            retry_at: Time(0),
        });
    }
}
