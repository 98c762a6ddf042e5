//! Connections: the first line says who comes, and from then on whose business it is.

use std::ops::Range;

use paxos::{Message, NodeId, Time};

use crate::buffer::Buffer;
use crate::directory::{DIRECTORY, DIRECTORY_NAME, check_log_name};
use crate::env::Place;
use crate::format::Frame;
use crate::format::frame::{CONTROL_PREFIX, decode_control_body, decode_control_prefix};
use crate::line::{LINE_BYTES_MAX, LineError, Refusal, Request};
use crate::node::{Control, Node, Request as Pending, Wants};
use crate::op::{BLOCK, ConnId, Received};
use crate::peers::Seen;
use crate::{DiskId, LogId};

pub(crate) struct Greeting {
    since: Time,
    filled: usize,
    from: String,
}

const GREETING_BUFFER: usize = LINE_BYTES_MAX.next_multiple_of(BLOCK);
const CONTROL_BUFFER: usize = 64 << 10;
/// The largest control frame that is taken, so that a peer cannot make us hold more.
const CONTROL_BYTES_MAX: usize = 64 << 20;

impl Node {
    pub(crate) fn on_accepted(&mut self, conn: ConnId, from: String) {
        if self.env.conns.len() >= self.env.limits.connections_max {
            self.env.conns.insert(conn, Place::Parting);
            let refusal = Refusal::new(
                "busy",
                "this node has too many connections; close some and try again",
            );
            return self.env.refuse(conn, refusal);
        }
        self.env.conns.insert(conn, Place::Greeting);
        self.greetings.insert(
            conn,
            Greeting {
                since: self.env.now,
                filled: 0,
                from,
            },
        );
        self.env
            .receive(conn, Buffer::new(GREETING_BUFFER), 0..LINE_BYTES_MAX, false);
    }

    pub(crate) fn expire_greetings(&mut self) {
        let timeout = self.env.limits.greeting_timeout;
        let late: Vec<ConnId> = self
            .greetings
            .iter()
            .filter(|(_, g)| self.env.now.0 > g.since.0 + timeout)
            .map(|(conn, _)| *conn)
            .collect();
        for conn in late {
            self.greetings.remove(&conn);
            let refusal = Refusal::new(
                "bad-request",
                "no request line came in time; begin with a line as in docs/wire.md",
            );
            self.env.refuse(conn, refusal);
        }
    }

    pub(crate) fn on_connected(&mut self, conn: ConnId, result: std::io::Result<()>) {
        let ok = result.is_ok();
        match self.env.conns.get(&conn).copied() {
            Some(Place::ControlOut(peer)) => self.peers.on_connected(&mut self.env, peer, conn, ok),
            Some(Place::DataOut(log, peer)) => {
                self.dirty.insert(log);
                if let Some(log) = self.logs.get_mut(&log) {
                    log.on_data_out_connected(&mut self.env, peer, conn, ok);
                }
            }
            Some(Place::FeedOut(log, peer)) => {
                self.dirty.insert(log);
                if let Some(log) = self.logs.get_mut(&log) {
                    log.on_feed_connected(&mut self.env, peer, conn, ok);
                }
            }
            Some(Place::JoinOut) => self.on_join_connected(conn, result),
            _ => {}
        }
    }

    pub(crate) fn on_sent(&mut self, conn: ConnId, ok: bool) {
        let Some(place) = self.env.conns.get(&conn).copied() else {
            return;
        };
        let log_of = |place| match place {
            Place::DataOut(log, _)
            | Place::FeedOut(log, _)
            | Place::Writer(log)
            | Place::Reader(log) => Some(log),
            _ => None,
        };
        if let Place::ControlOut(peer) = place {
            return self.peers.on_sent(&mut self.env, peer, conn, ok);
        }
        let Some(id) = log_of(place) else { return };
        self.dirty.insert(id);
        let Some(log) = self.logs.get_mut(&id) else {
            return;
        };
        let env = &mut self.env;
        match place {
            Place::DataOut(_, peer) => log.on_data_out_sent(env, peer, conn, ok),
            Place::FeedOut(_, peer) => log.on_feed_sent(env, peer, conn, ok),
            Place::Writer(_) => log.on_writer_sent(env, conn, ok),
            Place::Reader(_) => log.on_reader_sent(env, conn, ok),
            _ => {}
        }
    }

    pub(crate) fn on_received(
        &mut self,
        conn: ConnId,
        buffer: Buffer,
        range: Range<usize>,
        result: std::io::Result<Received>,
    ) {
        let Some(place) = self.env.conns.get(&conn).copied() else {
            return;
        };
        let count = result.as_ref().map_or(0, |r| r.count);
        let got = range.start..range.start + count;
        match place {
            Place::Greeting => self.on_greeting_bytes(conn, buffer, result),
            Place::Parting | Place::Request(_) => {}
            Place::ControlIn(peer) => self.on_control_bytes(conn, peer, buffer, got, result),
            Place::ControlOut(peer) => {
                let bytes = buffer[got].to_vec();
                if self
                    .peers
                    .on_received(&mut self.env, peer, conn, buffer, &bytes)
                {
                    self.peer_is_back(peer);
                }
            }
            Place::JoinOut => {
                let bytes = buffer[got].to_vec();
                self.on_join_received(conn, &bytes);
            }
            Place::DataIn(id, _)
            | Place::DataOut(id, _)
            | Place::FeedOut(id, _)
            | Place::Writer(id)
            | Place::Reader(id) => {
                self.dirty.insert(id);
                let Some(log) = self.logs.get_mut(&id) else {
                    return self.env.close(conn);
                };
                let env = &mut self.env;
                match place {
                    Place::DataIn(..) => log.on_source_received(env, conn, buffer, result),
                    Place::DataOut(_, peer) => {
                        let bytes = buffer[got].to_vec();
                        log.on_data_out_received(env, peer, conn, buffer, &bytes);
                    }
                    Place::FeedOut(_, peer) => {
                        let bytes = buffer[got].to_vec();
                        log.on_feed_received(env, peer, conn, buffer, &bytes);
                    }
                    Place::Writer(_) => log.on_writer_received(env, conn, buffer, result),
                    // A half-closed reader still reads; a reset one does not.
                    Place::Reader(_) if result.is_err() => log.on_reader_broken(env, conn),
                    _ => {}
                }
            }
        }
    }

    fn on_greeting_bytes(
        &mut self,
        conn: ConnId,
        buffer: Buffer,
        result: std::io::Result<Received>,
    ) {
        let Some(greeting) = self.greetings.get_mut(&conn) else {
            return;
        };
        let Ok(received) = result else {
            self.greetings.remove(&conn);
            return self.env.close(conn);
        };
        greeting.filled += received.count;
        let filled = greeting.filled;
        let Some(end) = buffer[..filled].iter().position(|b| *b == b'\n') else {
            if filled == LINE_BYTES_MAX || received.end {
                self.greetings.remove(&conn);
                if filled == 0 {
                    return self.env.close(conn);
                }
                let why = if filled == LINE_BYTES_MAX {
                    Refusal::new(
                        "bad-request",
                        format!("the request line is longer than {LINE_BYTES_MAX} bytes"),
                    )
                } else {
                    Refusal::new(
                        "bad-request",
                        "the connection ended before its request line did",
                    )
                };
                return self.env.refuse(conn, why);
            }
            return self
                .env
                .receive(conn, buffer, filled..LINE_BYTES_MAX, false);
        };
        let Some(greeting) = self.greetings.remove(&conn) else {
            return;
        };
        let line = buffer[..end].to_vec();
        let rest = buffer[end + 1..filled].to_vec();
        let outcome = Request::parse(&line)
            .map_err(Refusal::from)
            .and_then(|request| self.dispatch(conn, &request, &rest, received.end));
        if let Err(refusal) = outcome {
            if refusal.code == "bad-request" {
                tracing::debug!(
                    from = greeting.from,
                    said = refusal.sentence,
                    "a connection is refused"
                );
            }
            self.env.refuse(conn, refusal);
        }
    }

    fn dispatch(
        &mut self,
        conn: ConnId,
        request: &Request,
        rest: &[u8],
        ended: bool,
    ) -> Result<(), Refusal> {
        match request.verb.as_str() {
            "append" => {
                let id = self.log_named(request)?;
                if id == DIRECTORY {
                    return Err(Refusal::new(
                        "bad-request",
                        "log 0 is the cluster's directory and takes no appends",
                    ));
                }
                self.env.conns.insert(conn, Place::Writer(id));
                self.dirty.insert(id);
                if let Some(log) = self.logs.get_mut(&id) {
                    log.on_append_request(&mut self.env, conn, request, rest, ended);
                }
            }
            "close" => {
                request.allow(1, &["stream", "at"])?;
                let id = self.log_named(request)?;
                let stream =
                    crate::line::parse_stream(request.require("stream")?).ok_or_else(|| {
                        Refusal::new(
                            "bad-request",
                            "a stream's name is owner.incarnation.counter",
                        )
                    })?;
                let at = request
                    .parsed::<u64>("at")?
                    .ok_or(LineError::Missing("at"))?;
                self.env.conns.insert(conn, Place::Request(id));
                self.dirty.insert(id);
                if let Some(log) = self.logs.get_mut(&id) {
                    log.on_close_request(&mut self.env, conn, stream, at);
                }
            }
            "read" => {
                let id = self.log_named(request)?;
                self.env.conns.insert(conn, Place::Reader(id));
                self.dirty.insert(id);
                if !ended {
                    // To hear of a reset while there is nothing to send.
                    self.env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
                }
                if let Some(log) = self.logs.get_mut(&id) {
                    log.on_read_request(&mut self.env, conn, request);
                }
            }
            "status" => {
                request.allow(0, &[])?;
                let line = self.status_line();
                self.env.part(conn, line.as_bytes());
            }
            "streams" => {
                request.allow(1, &["stale"])?;
                let id = self.log_named(request)?;
                let log = &self.logs[&id];
                if !request.flag("stale")? {
                    log.check_leading(&self.env)?;
                }
                let line = log.streams_line();
                self.env.part(conn, line.as_bytes());
            }
            "logs" => {
                request.allow(0, &[])?;
                let line = self.logs_line();
                self.env.part(conn, line.as_bytes());
            }
            "create-log" => {
                request.allow(1, &[])?;
                let name = request
                    .words
                    .first()
                    .ok_or(LineError::Missing("the log's name"))?
                    .clone();
                check_log_name(&name).map_err(|e| Refusal::new("bad-request", e))?;
                if name == DIRECTORY_NAME || self.directory.log_by_name(&name).is_some() {
                    return Err(Refusal::new(
                        "exists",
                        format!("a log named {name} exists already"),
                    ));
                }
                self.await_directory(
                    conn,
                    Wants::CreateLog {
                        name,
                        proposed: false,
                    },
                )?;
            }
            "join" => {
                request.allow(0, &["address", "disk"])?;
                let address = request.require("address")?.to_string();
                let disk = request.require("disk")?;
                if crate::line::parse_hex16(disk).is_none() || !address.contains(':') {
                    return Err(Refusal::new(
                        "bad-request",
                        "join needs address=HOST:PORT and disk=32 hex digits",
                    ));
                }
                let disk = disk.to_string();
                self.await_directory(
                    conn,
                    Wants::Join {
                        address,
                        disk,
                        slot: None,
                        proposed: false,
                    },
                )?;
            }
            "peer" => self.on_peer_greeting(conn, request, rest)?,
            other => {
                return Err(Refusal::new(
                    "bad-request",
                    format!(
                        "unknown verb {other:?}; known are append, close, read, streams, status, logs, create-log, join"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn log_named(&self, request: &Request) -> Result<LogId, Refusal> {
        let name = request
            .words
            .first()
            .ok_or(LineError::Missing("the log's name"))?;
        if let Some(log) = self.logs.values().find(|l| l.name == *name) {
            return Ok(log.id);
        }
        if self.directory.log_by_name(name).is_some() {
            return Err(Refusal::new(
                "not-leader",
                format!("{name} is being set up here; ask again in a moment"),
            ));
        }
        // Only who leads the directory knows that there is no such log: others may not have heard.
        match self.logs.get(&DIRECTORY) {
            Some(directory) if directory.is_leading() => Err(Refusal::new(
                "unknown-log",
                format!("there is no log named {name}; `logberg log list` lists them"),
            )),
            Some(directory) => Err(directory.not_leader(&self.env)),
            None => Err(Refusal::new(
                "not-leader",
                "this node is still joining; ask again in a moment",
            )),
        }
    }

    fn await_directory(&mut self, conn: ConnId, wants: Wants) -> Result<(), Refusal> {
        let Some(log) = self.logs.get(&DIRECTORY) else {
            return Err(Refusal::new(
                "not-leader",
                "this node is still joining; ask again in a moment",
            ));
        };
        log.check_leading(&self.env)?;
        self.env.conns.insert(conn, Place::Request(DIRECTORY));
        self.requests.push(Pending {
            conn,
            since: self.env.now,
            wants,
        });
        self.answer_requests();
        Ok(())
    }

    /// `peer kind=control|data …`: checks that it is who we think, and of our cluster.
    fn on_peer_greeting(
        &mut self,
        conn: ConnId,
        request: &Request,
        rest: &[u8],
    ) -> Result<(), Refusal> {
        let keys = [
            "kind",
            "log",
            "cluster",
            "from",
            "to",
            "disk",
            "incarnation",
            "nonce",
            "address",
        ];
        request.allow(0, &keys)?;
        let bad = |what: &str| Refusal::new("bad-request", what.to_string());
        let cluster = request.require("cluster")?;
        let own = crate::line::uuid(&self.env.identity.cluster.0);
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
        let disk = crate::line::parse_hex16(request.require("disk")?)
            .ok_or_else(|| bad("disk is 32 hex digits"))?;
        if let Some(entry) = self.directory.nodes.get(&from)
            && entry.disk != crate::line::hex(&disk)
        {
            return Err(bad(&format!(
                "node {from} had another disk; a node that lost its disk joins anew, with --join and an empty directory"
            )));
        }
        let seen = Seen {
            disk: DiskId(disk),
            incarnation: number("incarnation")?,
            nonce: request
                .parsed::<u64>("nonce")?
                .ok_or(LineError::Missing("nonce"))?,
        };
        self.peers.get_or_add(from).admit(seen).map_err(|why| {
            tracing::error!(peer = from.0, why, "a peer is refused");
            bad(&format!("node {from} is refused: {why}"))
        })?;
        let address = request.get("address").unwrap_or_default().to_string();
        self.learn_address(from, &address);
        match request.require("kind")? {
            "control" => {
                if let Some(old) = self.peers.get_or_add(from).on_greeted(conn) {
                    self.controls.remove(&old);
                    self.env.close(old);
                }
                self.env.conns.insert(conn, Place::ControlIn(from));
                self.controls.insert(
                    conn,
                    Control {
                        peer: from,
                        bytes: rest.to_vec(),
                    },
                );
                self.env.send_bytes(conn, b"ok\n");
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
                self.env.conns.insert(conn, Place::DataIn(id, from));
                log.add_source(&mut self.env, conn, from);
            }
            other => return Err(bad(&format!("unknown kind {other:?}"))),
        }
        Ok(())
    }

    fn on_control_bytes(
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
        control.bytes.extend_from_slice(&buffer[got]);
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
        let mut at = 0;
        loop {
            let Some(control) = self.controls.get_mut(&conn) else {
                return Ok(());
            };
            let rest = &control.bytes[at..];
            let Some(prefix) = rest.first_chunk::<CONTROL_PREFIX>() else {
                break;
            };
            let prefix = decode_control_prefix(prefix).map_err(|e| e.to_string())?;
            let length = CONTROL_PREFIX + prefix.body_length();
            if length > CONTROL_BYTES_MAX {
                return Err("a frame longer than allowed".into());
            }
            if rest.len() < length {
                break;
            }
            let frame = decode_control_body(&prefix, &rest[CONTROL_PREFIX..length])
                .map_err(|e| e.to_string())?;
            at += length;
            self.on_frame(peer, frame);
        }
        if let Some(control) = self.controls.get_mut(&conn) {
            control.bytes.drain(..at);
        }
        Ok(())
    }

    fn on_frame(&mut self, peer: NodeId, frame: Frame) {
        match frame {
            Frame::Engine { log, message } => self.on_engine_message(peer, log, message),
            Frame::Heartbeat(heartbeat) => {
                let now = self.env.now;
                let state = self.peers.get_or_add(peer);
                state.on_heartbeat(
                    now,
                    heartbeat.round,
                    heartbeat.answers,
                    heartbeat.free_bytes,
                );
                for (log, message) in &heartbeat.entries {
                    if matches!(message, Message::LeaderStatus { .. }) {
                        state.status_wanted.insert(*log);
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
            Frame::BytesNotHere(answer) => {
                self.dirty.insert(answer.log);
                if let Some(log) = self.logs.get_mut(&answer.log) {
                    log.on_bytes_not_here(&mut self.env, peer, answer.request);
                }
            }
        }
    }

    fn on_engine_message(&mut self, peer: NodeId, id: LogId, message: Message) {
        if let Some(log) = self.logs.get_mut(&id) {
            self.dirty.insert(id);
            log.on_message(&mut self.env, peer, message);
        }
    }
}
