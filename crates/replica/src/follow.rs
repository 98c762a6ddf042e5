//! A follower's side of a data connection: headers and bytes as a peer sends them.
//!
//! Shape:  socket -> header -> buffer, checked -> engine and store.
//! Units:  one header of `DATA_HEADER` bytes, then as many bytes as it says.
//! Errors: a malformed header or wrong checksum closes the connection; the peer sends again.

use formats::{DATA_HEADER, DataHeader, FrameError, PAYLOAD_BYTES_MAX, RECORD_HEADER};
use ops::{BLOCK, Buffer, ConnId, Received};
use paxos::mutation::{self, Mutation};
use paxos::{NodeId, Value};

use crate::env::Env;
use crate::log::{Log, batch_for};

pub struct Source {
    peer: NodeId,
    state: State,
    /// Reused for every header.
    header: Option<Buffer>,
}

enum State {
    /// Nothing is being received: the disk is behind.
    Held,
    Header,
    Payload(DataHeader),
}

impl Log {
    pub fn add_source(&mut self, env: &mut Env, conn: ConnId, peer: NodeId, version: u8) {
        env.send_bytes(conn, &wire::welcome::line(version));
        let source = Source {
            peer,
            state: State::Held,
            header: Some(Buffer::new(BLOCK)),
        };
        self.sources.insert(conn, source);
        self.pump_sources(env);
    }

    /// Receives from everybody again once our disk has kept up.
    pub(crate) fn pump_sources(&mut self, env: &mut Env) {
        if self.store.queued_bytes() > env.share.queue_bytes {
            return;
        }
        for (conn, source) in &mut self.sources {
            if matches!(source.state, State::Held)
                && let Some(header) = source.header.take()
            {
                source.state = State::Header;
                env.receive(*conn, header, 0..DATA_HEADER, true);
            }
        }
    }

    pub fn on_source_received(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        buffer: Buffer,
        result: std::io::Result<Received>,
    ) {
        let Some(source) = self.sources.get_mut(&conn) else {
            return;
        };
        let whole = match &source.state {
            State::Payload(header) => header.payload_length(),
            _ => DATA_HEADER,
        };
        if !matches!(result, Ok(received) if received.count == whole) {
            return self.close_source(env, conn, None);
        }
        match std::mem::replace(&mut source.state, State::Held) {
            State::Held => self.close_source(env, conn, Some("bytes nobody asked for")),
            State::Header => {
                let header = match DataHeader::decode(env.speaks, &buffer[..DATA_HEADER]) {
                    Ok(header) if header.log() == self.id => header,
                    Ok(_) => return self.close_source(env, conn, Some("a header of another log")),
                    Err(e) => return self.refuse_frame(env, conn, &e),
                };
                source.header = Some(buffer);
                let length = header.payload_length();
                if length > PAYLOAD_BYTES_MAX {
                    return self.close_source(env, conn, Some("a payload longer than allowed"));
                }
                if length == 0 {
                    self.on_data(env, conn, header, None);
                } else {
                    let landed = match length < env.limits.landing_bytes_min {
                        true => None,
                        false => self.store.land(length),
                    };
                    let batch = landed.unwrap_or_else(|| batch_for(env, length));
                    env.receive(conn, batch, RECORD_HEADER..RECORD_HEADER + length, true);
                    if let Some(source) = self.sources.get_mut(&conn) {
                        source.state = State::Payload(header);
                    }
                    return;
                }
            }
            State::Payload(header) => self.on_data(env, conn, header, Some(buffer)),
        }
        self.pump_sources(env);
    }

    fn on_data(&mut self, env: &mut Env, conn: ConnId, header: DataHeader, bytes: Option<Buffer>) {
        let Some(peer) = self.sources.get(&conn).map(|s| s.peer) else {
            return;
        };
        let length = header.payload_length();
        let payload = bytes
            .as_ref()
            .map_or(&[][..], |b| &b[RECORD_HEADER..RECORD_HEADER + length]);
        let unchecked = mutation::is(Mutation::CrcNotCompared);
        if !header.payload_is_right(payload) && !unchecked {
            return self.close_source(env, conn, Some("bytes that do not match their checksum"));
        }
        match header {
            DataHeader::Propose(header) => {
                let mut proposal = match header.proposal(env.speaks, payload) {
                    Ok(proposal) => proposal,
                    Err(e) => return self.refuse_frame(env, conn, &e),
                };
                let is_content = matches!(proposal.value, Value::Content { .. });
                if is_content && unchecked {
                    proposal.digest = formats::digest(payload);
                }
                if is_content && proposal.slots.len() != length as u64 {
                    return self.close_source(
                        env,
                        conn,
                        Some("a proposal of another length than its bytes"),
                    );
                }
                if is_content {
                    env.appended_at = env.now;
                }
                self.on_proposal(env, peer, proposal, bytes.filter(|_| is_content));
            }
            DataHeader::Bytes(header) => {
                if let Some(buffer) = bytes {
                    self.on_fetched(
                        env,
                        peer,
                        header.request,
                        header.stream,
                        header.position,
                        buffer,
                        length,
                    );
                }
            }
        }
    }

    fn refuse_frame(&mut self, env: &mut Env, conn: ConnId, why: &FrameError) {
        self.counts.frames_unspoken += u64::from(why.is_of_version());
        self.close_source(env, conn, Some(&why.to_string()));
    }

    pub(crate) fn sources_of(&self, peer: NodeId) -> Vec<ConnId> {
        let of_peer = self.sources.iter().filter(|(_, s)| s.peer == peer);
        of_peer.map(|(conn, _)| *conn).collect()
    }

    pub(crate) fn close_source(&mut self, env: &mut Env, conn: ConnId, why: Option<&str>) {
        if let Some(source) = self.sources.remove(&conn)
            && let Some(why) = why
        {
            tracing::warn!(
                log = self.id.0,
                peer = source.peer.0,
                why,
                "a peer's data connection is closed"
            );
        }
        env.close(conn);
    }
}
