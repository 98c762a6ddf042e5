//! Signs that a reader is still there, and signs for it that we are.

use std::io;
use std::time::Duration;

use ops::{BLOCK, Buffer, ConnId, Received};
use wire::Answer;

use super::Readers;
use crate::env::Env;
use crate::lent::Core;

pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// The interval at which a reader that said its last, and hears nothing, is looked at.
const PRESENCE_EVERY: Duration = Duration::from_secs(10);

impl Readers {
    /// Gives a sign of life, so that a reader for which there is nothing yet can tell this node from a
    /// vanished one.
    pub(super) fn give_sign_of_life(&mut self, env: &mut Env, conn: ConnId) {
        if let Some(reader) = self.readers.get_mut(&conn)
            && reader.framed
            && env.now >= reader.sent_at + SIGN_OF_LIFE
        {
            reader.sent_at = env.now;
            reader.busy = true;
            if let Some(place) = reader.place {
                self.waiting.remove(&place);
            }
            let life = Answer::Data {
                position: reader.cursor.at,
                count: 0,
                crc32c: 0,
            };
            env.send_bytes(conn, life.to_line().as_bytes());
        }
    }

    /// Throws away what a reader says: it matters only that it is there.
    pub fn on_received(
        &mut self,
        core: &Core,
        env: &mut Env,
        conn: ConnId,
        buffer: Buffer,
        result: io::Result<Received>,
    ) {
        match result {
            Ok(received) if received.end => self.on_silent(env, conn),
            Ok(_) => env.receive(conn, buffer, 0..BLOCK, false),
            Err(_) => self.on_broken(core, env, conn),
        }
    }

    /// Notes a reader that says no more, and still reads. A reset that ended this too is told by the next
    /// send, or look.
    pub fn on_silent(&mut self, env: &mut Env, conn: ConnId) {
        if let Some(reader) = self.readers.get_mut(&conn)
            && reader.follow
            && !reader.framed
        {
            reader.look_at = Some(env.now + PRESENCE_EVERY);
        }
    }

    pub(super) fn look_at_silent(&mut self, env: &mut Env) {
        for (conn, reader) in &mut self.readers {
            if reader.look_at.is_some_and(|at| at <= env.now) {
                reader.look_at = None;
                env.receive(*conn, Buffer::new(BLOCK), 0..BLOCK, false);
            }
        }
    }

    pub fn on_broken(&mut self, core: &Core, env: &mut Env, conn: ConnId) {
        self.remove_reader(core, env, conn);
        self.tables.remove(&conn);
        env.close(conn);
    }
}
