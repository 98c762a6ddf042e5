//! Readers of a log that wait until they may read from disk.

use ops::ConnId;
use paxos::Time;

use super::{READ_AGAIN_AFTER, Readers};
use crate::env::{Env, LogEvent};
use crate::lent::Core;

impl Readers {
    /// Whether it is this reader's turn to read from disk; if not, it waits.
    pub(super) fn begin_read(&mut self, core: &Core, env: &mut Env, conn: ConnId) -> bool {
        let queue = &mut *self;
        let Some(reader) = queue.readers.get_mut(&conn) else {
            return false;
        };
        let place = *reader.place.get_or_insert_with(|| {
            queue.last_place += 1;
            queue.last_place
        });
        let first = queue.waiting.keys().next();
        if first.is_some_and(|first| *first < place) || !env.memory.reads.take(core.id, &env.limits)
        {
            queue.waiting.insert(place, conn);
            reader.retry_at = env.now + READ_AGAIN_AFTER;
            return false;
        }
        reader.place = None;
        reader.busy = true;
        true
    }

    /// Goes on with as many readers as may read from disk by now.
    pub(super) fn pump_waiting(&mut self, core: &mut Core, env: &mut Env) {
        while let Some((place, conn)) = self.waiting.first_key_value() {
            let (place, conn) = (*place, *conn);
            if let Some(reader) = self.readers.get_mut(&conn) {
                reader.retry_at = Time::ZERO;
            }
            self.pump_reader(core, env, conn);
            if self.waiting.contains_key(&place) {
                break;
            }
        }
        if self.waiting.is_empty() {
            env.memory.reads.leave(core.id);
        }
        if let Some(log) = env.memory.reads.next(&env.limits) {
            env.out.events.push_back(LogEvent::MayRead { log });
        }
    }
}
