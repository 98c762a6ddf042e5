//! A follower's lane: headers and bytes come in, positions go back when they are durable.
//!
//! Shape:  socket -> header -> buffer, checked -> segment.
//! Units:  one header of `DATA_HEADER` bytes, then as many bytes as it says; 8 bytes back.
//! Errors: all end the process.

use formats::{DataHeader, PAYLOAD_BYTES_MAX, RECORD_HEADER};
use ops::{BLOCK, Buffer, ConnId, Received, Token};

use super::segments::Segments;
use super::{Env, HEADER, LaneId};

pub struct Source {
    conn: ConnId,
    state: State,
    /// Reused for every header.
    header: Option<Buffer>,
    segments: Segments,
    position: u64,
    told: u64,
}

enum State {
    /// Nothing is being received: the disk is behind.
    Held,
    Header,
    Payload(DataHeader),
}

impl Source {
    pub fn new(env: &mut Env, conn: ConnId, lane: LaneId) -> Source {
        env.send(conn, b"ok\n");
        Source {
            conn,
            state: State::Held,
            header: Some(Buffer::new(BLOCK)),
            segments: Segments::new(env, lane),
            position: 0,
            told: 0,
        }
    }

    pub fn settle(&mut self, env: &mut Env) {
        if self.segments.queued_bytes() <= env.limits.store_queue_bytes_max
            && matches!(self.state, State::Held)
            && let Some(header) = self.header.take()
        {
            self.state = State::Header;
            env.receive(self.conn, header, 0..HEADER, true);
        }
    }

    pub fn on_done(&mut self, env: &mut Env, token: Token) {
        self.segments.on_done(env, token);
        let durable = self.segments.durable();
        if durable > self.told {
            self.told = durable;
            env.send(self.conn, &durable.to_le_bytes());
        }
    }

    pub fn on_received(
        &mut self,
        env: &mut Env,
        buffer: Buffer,
        result: std::io::Result<Received>,
    ) {
        let wanted = match &self.state {
            State::Payload(header) => header.payload_length(),
            _ => HEADER,
        };
        let count = match result {
            Ok(received) => received.count,
            Err(_) => 0,
        };
        if count != wanted {
            env.conns.remove(&self.conn);
            return;
        }
        match std::mem::replace(&mut self.state, State::Held) {
            State::Held => env.fail("bytes nobody asked for"),
            State::Header => match DataHeader::decode(formats::Speaks::THIS, &buffer[..HEADER]) {
                Ok(header) if (1..=PAYLOAD_BYTES_MAX).contains(&header.payload_length()) => {
                    self.header = Some(buffer);
                    let length = header.payload_length();
                    self.state = State::Payload(header);
                    let batch = env.batch_for(length);
                    env.receive(
                        self.conn,
                        batch,
                        RECORD_HEADER..RECORD_HEADER + length,
                        true,
                    );
                }
                _ => env.fail("a header that cannot be"),
            },
            State::Payload(header) => {
                let payload = &buffer[RECORD_HEADER..RECORD_HEADER + count];
                if !header.payload_is_right(payload) {
                    return env.fail("bytes that do not match their checksum");
                }
                let position = self.position;
                self.position += count as u64;
                self.segments
                    .append(env, buffer, count, position, header.digest());
                self.settle(env);
            }
        }
    }
}
