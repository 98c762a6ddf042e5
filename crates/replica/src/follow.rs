//! A follower's side of a data connection: headers and bytes as a peer sends them.
//!
//! Shape:  socket -> header -> buffer, checked -> engine and store.
//! Units:  one header of `DATA_HEADER` bytes, then as many bytes as it says.
//! Errors: a malformed header or wrong checksum closes the connection; the peer sends again.

use std::collections::BTreeMap;

use formats::frame::BytesHeader;
use formats::{DATA_HEADER, DataHeader, FrameError, PAYLOAD_BYTES_MAX, RECORD_HEADER};
use ops::{BLOCK, Buffer, ConnId, Received};
use paxos::mutation::{self, Mutation};
use paxos::{NodeId, Proposal, Value};

use crate::env::Env;
use crate::lent::Core;

struct Source {
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

/// A message that came over a data connection, whole and as its checksum says.
pub(crate) enum Arrived {
    Proposal(NodeId, Proposal, Option<Buffer>),
    Bytes(NodeId, BytesHeader, Buffer),
}

/// The connections that peers send proposals and bytes by.
#[derive(Default)]
pub(crate) struct Sources {
    by_conn: BTreeMap<ConnId, Source>,
}

impl Sources {
    pub fn add(&mut self, core: &Core, env: &mut Env, conn: ConnId, peer: NodeId, version: u8) {
        env.send_bytes(conn, &wire::welcome::line(version));
        let source = Source {
            peer,
            state: State::Held,
            header: Some(Buffer::new(BLOCK)),
        };
        self.by_conn.insert(conn, source);
        self.pump(core, env);
    }

    /// Receives from everybody again once our disk has kept up.
    pub fn pump(&mut self, core: &Core, env: &mut Env) {
        if core.store.queued_bytes() > env.room.share.queue_bytes {
            return;
        }
        for (conn, source) in &mut self.by_conn {
            if matches!(source.state, State::Held)
                && let Some(header) = source.header.take()
            {
                source.state = State::Header;
                env.receive(*conn, header, 0..DATA_HEADER, true);
            }
        }
    }

    /// Takes a header or its bytes. The log gets what is whole; then it pumps again.
    pub fn on_received(
        &mut self,
        core: &mut Core,
        env: &mut Env,
        conn: ConnId,
        buffer: Buffer,
        result: std::io::Result<Received>,
    ) -> Option<Arrived> {
        let source = self.by_conn.get_mut(&conn)?;
        let whole = match &source.state {
            State::Payload(header) => header.payload_length(),
            _ => DATA_HEADER,
        };
        if !matches!(result, Ok(received) if received.count == whole) {
            self.close(core, env, conn, None);
            return None;
        }
        let arrived = match std::mem::replace(&mut source.state, State::Held) {
            State::Held => Err("bytes nobody asked for".to_owned()),
            State::Header => match DataHeader::decode(env.own.speaks, &buffer[..DATA_HEADER]) {
                Ok(header) if header.log() == core.id => {
                    source.header = Some(buffer);
                    let length = header.payload_length();
                    if length > PAYLOAD_BYTES_MAX {
                        Err("a payload longer than allowed".to_owned())
                    } else if length == 0 {
                        arrive(core, env, source.peer, header, None)
                    } else {
                        let landed = match length < env.limits.landing_bytes_min {
                            true => None,
                            false => core.store.land(length),
                        };
                        let batch = landed.unwrap_or_else(|| env.batch_for(length));
                        env.receive(conn, batch, RECORD_HEADER..RECORD_HEADER + length, true);
                        source.state = State::Payload(header);
                        return None;
                    }
                }
                Ok(_) => Err("a header of another log".to_owned()),
                Err(e) => Err(refused(core, &e)),
            },
            State::Payload(header) => arrive(core, env, source.peer, header, Some(buffer)),
        };
        match arrived {
            Ok(arrived) => arrived,
            Err(why) => {
                self.close(core, env, conn, Some(&why));
                self.pump(core, env);
                None
            }
        }
    }

    pub fn of_peer(&self, peer: NodeId) -> Vec<ConnId> {
        let of_peer = self.by_conn.iter().filter(|(_, s)| s.peer == peer);
        of_peer.map(|(conn, _)| *conn).collect()
    }

    pub fn close(&mut self, core: &Core, env: &mut Env, conn: ConnId, why: Option<&str>) {
        if let Some(source) = self.by_conn.remove(&conn)
            && let Some(why) = why
        {
            tracing::warn!(
                log = core.id.0,
                peer = source.peer.0,
                why,
                "a peer's data connection is closed"
            );
        }
        env.close(conn);
    }
}

/// The meaning of a header and its bytes, or the reason why the connection is closed.
fn arrive(
    core: &mut Core,
    env: &mut Env,
    peer: NodeId,
    header: DataHeader,
    bytes: Option<Buffer>,
) -> Result<Option<Arrived>, String> {
    let length = header.payload_length();
    let payload = bytes
        .as_ref()
        .map_or(&[][..], |b| &b[RECORD_HEADER..RECORD_HEADER + length]);
    let unchecked = mutation::is(Mutation::CrcNotCompared);
    if !header.payload_is_right(payload) && !unchecked {
        return Err("bytes that do not match their checksum".to_owned());
    }
    match header {
        DataHeader::Propose(header) => {
            let proposal = header.proposal(env.own.speaks, payload);
            let mut proposal = proposal.map_err(|e| refused(core, &e))?;
            let is_content = matches!(proposal.value, Value::Content { .. });
            if is_content && unchecked {
                proposal.digest = formats::digest(payload);
            }
            if is_content && proposal.slots.len() != length as u64 {
                return Err("a proposal of another length than its bytes".to_owned());
            }
            if is_content {
                env.moments.appended_at = env.now;
            }
            let bytes = bytes.filter(|_| is_content);
            Ok(Some(Arrived::Proposal(peer, proposal, bytes)))
        }
        DataHeader::Bytes(header) => Ok(bytes.map(|buffer| Arrived::Bytes(peer, header, buffer))),
    }
}

fn refused(core: &mut Core, why: &FrameError) -> String {
    core.counts.frames_unspoken += u64::from(why.is_of_version());
    why.to_string()
}
