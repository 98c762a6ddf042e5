//! Peers: who may speak to us, and the control frames they send.

use std::ops::Range;

use paxos::mutation::{self, Mutation};
use paxos::{Message, NodeId, Role};

use crate::buffer::Buffer;
use crate::config::Standing;
use crate::env::Purpose;
use crate::format::Frame;
use crate::line::{LineError, Refusal, Request};
use crate::node::Node;
use crate::op::{ConnId, Received};
use crate::peers::{Inbound, Seen};
use crate::version::Speaks;
use crate::welcome;
use crate::{DiskId, LogId};

const CONTROL_BUFFER: usize = 64 << 10;

impl Node {
    /// `peer kind=control|data …`: checks that it is who we think, and of our cluster. Keys that we
    /// do not know are a newer node's, and are passed over.
    pub(super) fn on_peer_greeting(
        &mut self,
        conn: ConnId,
        request: &Request,
        rest: &[u8],
    ) -> Result<(), Refusal> {
        let bad = |what: &str| Refusal::new("bad-request", what.to_string());
        let cluster = request.require("cluster")?;
        let own = self.env.identity.cluster.to_string();
        if self.env.identity.node == NodeId(0) {
            return Err(Refusal::new(
                "not-here",
                "this node has not joined a cluster yet",
            ));
        }
        if cluster != own {
            return Err(bad(&format!(
                "this node is of cluster {own}, not of {cluster}; check --join and the data directory"
            )));
        }
        let number = |key: &'static str| -> Result<u32, Refusal> {
            Ok(request.parsed::<u32>(key)?.ok_or(LineError::Missing(key))?)
        };
        let (from, to) = (NodeId(number("from")?), NodeId(number("to")?));
        if to != self.env.identity.node {
            return Err(bad(&format!(
                "this is node {}, not node {to}; check the addresses",
                self.env.identity.node
            )));
        }
        if from == to || from == NodeId(0) {
            return Err(bad(
                "a peer has another node's id; its directory was copied",
            ));
        }
        if self.is_removed(from) {
            self.counts.peers_refused += 1;
            return Err(Refusal::new(
                "removed",
                format!(
                    "node {from} was removed from this cluster and its id is never used again; stop it, and to come back join anew, with --join and an empty directory"
                ),
            ));
        }
        let disk = crate::line::parse_hex16(request.require("disk")?)
            .ok_or_else(|| bad("disk is 32 hex digits"))?;
        if let Some(entry) = self.directory.nodes.get(&from)
            && entry.disk != crate::line::hex(&disk)
            && !mutation::is(Mutation::EmptyDiskKeepsItsId)
        {
            return Err(bad(&format!(
                "node {from} had another disk; a node that lost its disk joins anew, with --join and an empty directory"
            )));
        }
        let standing = Standing::parse(request)?;
        let speaks = request.parsed("speaks")?.unwrap_or(Speaks::THIS);
        let needed = self.directory.versions.agreed;
        let version = self.check_speaks(&format!("node {from}"), speaks, needed);
        let version = version.inspect_err(|refusal| {
            tracing::warn!(peer = from.0, why = refusal.sentence, "a peer is refused");
        })?;
        let seen = Seen {
            disk: DiskId(disk),
            incarnation: number("incarnation")?,
            nonce: request
                .parsed::<u64>("nonce")?
                .ok_or(LineError::Missing("nonce"))?,
        };
        let admitted = self.peers.get_or_add(from).admit(seen);
        self.counts.peers_refused += u64::from(admitted.is_err());
        admitted.map_err(|why| {
            tracing::error!(peer = from.0, why, "a peer is refused");
            bad(&format!("node {from} is refused: {why}"))
        })?;
        self.peers.get_or_add(from).standing = Some(standing);
        let address = request.get("address").unwrap_or_default().to_string();
        self.learn_address(from, &address);
        match request.require("kind")? {
            "control" => {
                let peer = self.peers.get_or_add(from);
                peer.speaks = Some(speaks);
                peer.takes_parts = request.get("parts") == Some("1");
                match request.get("digests") {
                    Some("1") => self.env.compares.insert(from),
                    _ => self.env.compares.remove(&from),
                };
                if let Some(old) = self.peers.get_or_add(from).on_greeted(conn) {
                    self.controls.remove(&old);
                    self.env.close(old);
                }
                self.env.conns.insert(conn, Purpose::ControlIn(from));
                let mut control = Inbound::default();
                control.push(rest);
                self.controls.insert(conn, control);
                self.env.send_bytes(conn, &welcome::line(version));
                self.env
                    .receive(conn, Buffer::new(CONTROL_BUFFER), 0..CONTROL_BUFFER, false);
            }
            "data" => {
                let id = LogId(number("log")?);
                let log = self.logs.get_mut(&id).filter(|l| l.stopped.is_none());
                let log = log.ok_or_else(|| {
                    Refusal::new(
                        "unknown-log",
                        format!("this node has no running replica of log {id}"),
                    )
                })?;
                if !rest.is_empty() {
                    return Err(bad("a peer waits for the answer to its first line"));
                }
                self.env.conns.insert(conn, Purpose::DataIn(id, from));
                log.add_source(&mut self.env, conn, from, version);
            }
            other => return Err(bad(&format!("unknown kind {other:?}"))),
        }
        Ok(())
    }

    pub(super) fn on_control_bytes(
        &mut self,
        conn: ConnId,
        peer: NodeId,
        buffer: Buffer,
        got: Range<usize>,
        result: std::io::Result<Received>,
    ) {
        let ended = !matches!(result, Ok(r) if !r.end);
        let Some(control) = self.controls.get_mut(&conn) else {
            return;
        };
        control.push(&buffer[got]);
        match self.take_frames(conn, peer) {
            Ok(()) if !ended => self.env.receive(conn, buffer, 0..CONTROL_BUFFER, false),
            outcome => {
                if let Err(why) = outcome {
                    tracing::warn!(peer = peer.0, why, "a peer's control connection is closed");
                }
                self.controls.remove(&conn);
                self.env.close(conn);
                let state = self.peers.get_or_add(peer);
                if state.incoming == Some(conn) {
                    state.incoming = None;
                    self.peers.shorten(&self.env, peer);
                }
            }
        }
    }

    fn take_frames(&mut self, conn: ConnId, peer: NodeId) -> Result<(), String> {
        while let Some(control) = self.controls.get_mut(&conn) {
            let frame = control.next(self.env.speaks);
            match frame.map_err(|e| self.counts.refuse_frame(&e))? {
                Some(frame) => self.on_frame(peer, frame),
                None => break,
            }
        }
        Ok(())
    }

    fn on_frame(&mut self, peer: NodeId, frame: Frame) {
        match frame {
            Frame::Part(_) => {} // The connection's `Inbound` put it together with the others.
            Frame::Engine { log, message } => {
                let asks = matches!(message, Message::LeaderStatus { .. });
                self.on_engine_message(peer, log, message);
                if asks {
                    self.answer_status(peer, log);
                }
            }
            Frame::Heartbeat(heartbeat) => {
                self.on_parted(heartbeat.members_version, &heartbeat.parted);
                let now = self.env.now;
                let own = self.env.identity.node;
                if let Some(warnings) = &heartbeat.warnings {
                    let known = &self.env.addresses;
                    let knows = |node| known.contains_key(&node);
                    self.board.on_told(now, own, peer, warnings, knows);
                }
                self.peers.beat.on_heard(now, own, peer);
                let state = self.peers.get_or_add(peer);
                state.disk_version = state.disk_version.max(heartbeat.disk_version);
                state.on_heartbeat(
                    now,
                    heartbeat.round,
                    heartbeat.answers,
                    heartbeat.free_bytes,
                );
                state.lacks.clear();
                for (log, message) in &heartbeat.entries {
                    match message {
                        Message::LeaderStatus { .. } => {
                            state.status_wanted.insert(*log);
                        }
                        Message::FollowerStatus { missing_bytes, .. } if *missing_bytes > 0 => {
                            state.lacks.insert(*log);
                        }
                        _ => {}
                    }
                }
                for (log, message) in heartbeat.entries {
                    self.on_engine_message(peer, log, message);
                }
            }
            Frame::FetchBytes(fetch) => {
                self.dirty.insert(fetch.log);
                if let Some(log) = self.logs.get_mut(&fetch.log) {
                    log.on_fetch_request(&mut self.env, peer, fetch);
                }
            }
            Frame::AskDigest(ask) => {
                self.dirty.insert(ask.log);
                if let Some(log) = self.logs.get_mut(&ask.log) {
                    log.on_ask_digest(&mut self.env, peer, &ask);
                }
            }
            Frame::TellDigest(told) => {
                self.dirty.insert(told.log);
                if let Some(log) = self.logs.get_mut(&told.log) {
                    log.on_tell_digest(&mut self.env, peer, &told);
                }
            }
            Frame::BytesNotHere(answer) => {
                self.dirty.insert(answer.log);
                if let Some(log) = self.logs.get_mut(&answer.log) {
                    log.on_bytes_not_here(&mut self.env, peer, answer.request);
                }
            }
        }
    }

    /// Outside of a heartbeat a leader's status is a question: it has just been elected, or wants to
    /// hand over, and waits.
    fn answer_status(&mut self, peer: NodeId, id: LogId) {
        let Some(log) = self.logs.get(&id).filter(|log| log.stopped.is_none()) else {
            return;
        };
        if matches!(log.role(), Role::Follower { leader, .. } if leader == peer) {
            let status = log.engine.follower_status();
            self.env.send_message(peer, id, status);
        }
    }

    pub(super) fn on_engine_message(&mut self, peer: NodeId, id: LogId, message: Message) {
        if let Some(log) = self.logs.get_mut(&id) {
            self.dirty.insert(id);
            log.on_message(&mut self.env, peer, message);
        }
    }
}
