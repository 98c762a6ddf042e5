//! Connections: the first line says who comes, and from then on whose business it is.

use std::ops::Range;

use formats::{LogId, parse_hex16};
use held::Look;
use ops::{BLOCK, Buffer, ConnId, Received};
use paxos::{NodeId, Time};
use replica::{Env, Log, Purpose, StreamList};
use wire::{LINE_BYTES_MAX, LineError, Refusal, Request};

use crate::directory::DIRECTORY;
use crate::node::{Asked, Node, Request as Pending, Wants, still_joining};
use crate::status::LogList;

pub(crate) use held::Held;

mod guest;
mod held;
mod logs;
mod nodes;
pub(crate) mod peer;

pub(crate) struct Greeting {
    since: Time,
    filled: usize,
    from: String,
}

const GREETING_BUFFER: usize = LINE_BYTES_MAX.next_multiple_of(BLOCK);

impl Node {
    pub(crate) fn on_accepted(&mut self, conn: ConnId, from: String) {
        let is_full = self.env.conns.len() >= self.env.limits.connections_max;
        self.env.conns.insert(conn, Purpose::Greeting);
        if is_full {
            // Who has said nothing for longest makes room: a peer speaks at once.
            let silent = self.greetings.iter().min_by_key(|(_, g)| g.since);
            let refused = silent.map_or(conn, |(silent, _)| *silent);
            self.greetings.remove(&refused);
            self.env.refuse(refused, too_many_connections());
            if refused == conn {
                return;
            }
        }
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
            .filter(|(_, g)| self.env.now > g.since + timeout)
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
            Some(Purpose::ControlOut(peer)) => {
                self.peers.on_connected(&mut self.env, peer, conn, ok);
            }
            Some(Purpose::DataOut(log, peer)) => {
                self.dirty.insert(log);
                if let Some(log) = self.logs.get_mut(&log) {
                    log.on_data_out_connected(&mut self.env, peer, conn, ok);
                }
            }
            Some(Purpose::FeedOut(log, peer)) => {
                self.dirty.insert(log);
                if let Some(log) = self.logs.get_mut(&log) {
                    log.on_feed_connected(&mut self.env, peer, conn, ok);
                }
            }
            Some(Purpose::GuestOut(guest)) => self.on_guest_connected(guest, conn, ok),
            Some(Purpose::JoinOut) => self.on_join_connected(conn, result),
            _ => {}
        }
    }

    pub(crate) fn on_sent(&mut self, conn: ConnId, ok: bool) {
        let Some(purpose) = self.env.on_sent(conn) else {
            return;
        };
        if purpose == Purpose::Answer {
            return self.on_answer_sent(conn, ok);
        }
        let log_of = |purpose| match purpose {
            Purpose::DataOut(log, _)
            | Purpose::FeedOut(log, _)
            | Purpose::Writer(log)
            | Purpose::Reader(log) => Some(log),
            _ => None,
        };
        if let Purpose::ControlOut(peer) = purpose {
            return self.peers.on_sent(&mut self.env, peer, conn, ok);
        }
        let Some(id) = log_of(purpose) else { return };
        self.dirty.insert(id);
        let Some(log) = self.logs.get_mut(&id) else {
            return;
        };
        let env = &mut self.env;
        match purpose {
            Purpose::DataOut(_, peer) => log.on_data_out_sent(env, peer, conn, ok),
            Purpose::FeedOut(_, peer) => log.on_feed_sent(env, peer, conn, ok),
            Purpose::Writer(_) => log.on_writer_sent(env, conn, ok),
            Purpose::Reader(_) => log.on_reader_sent(env, conn, ok),
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
        let Some(purpose) = self.env.conns.get(&conn).copied() else {
            return;
        };
        let count = result.as_ref().map_or(0, |r| r.count);
        let got = range.start..range.start + count;
        match purpose {
            Purpose::Greeting => self.on_greeting_bytes(conn, buffer, result),
            Purpose::Parting | Purpose::Answer | Purpose::Request(_) => {}
            Purpose::ControlIn(peer) => self.on_control_bytes(conn, peer, buffer, got, result),
            Purpose::ControlOut(peer) => {
                if self
                    .peers
                    .on_received(&mut self.env, peer, conn, buffer, got)
                {
                    self.tell_past(peer);
                    self.peer_is_back(peer);
                }
                if let Some(called) = self.peers.call_us_old.take() {
                    self.on_called_old(&called);
                }
                if std::mem::take(&mut self.peers.found) {
                    self.save_peers();
                }
            }
            Purpose::GuestIn(guest) => self.on_guest_bytes(conn, guest, buffer, got, result),
            Purpose::GuestOut(guest) => self.on_guest_answered(guest, conn, buffer, got),
            Purpose::JoinOut => {
                let bytes = buffer[got].to_vec();
                self.on_join_received(conn, &bytes);
            }
            Purpose::DataIn(id, _)
            | Purpose::DataOut(id, _)
            | Purpose::FeedOut(id, _)
            | Purpose::Writer(id)
            | Purpose::Reader(id) => {
                self.dirty.insert(id);
                let Some(log) = self.logs.get_mut(&id) else {
                    return self.env.close(conn);
                };
                let env = &mut self.env;
                match purpose {
                    Purpose::DataIn(..) => log.on_source_received(env, conn, buffer, result),
                    Purpose::DataOut(_, peer) => {
                        log.on_data_out_received(env, peer, conn, buffer, got);
                    }
                    Purpose::FeedOut(_, peer) => {
                        log.on_feed_received(env, peer, conn, buffer, got);
                    }
                    Purpose::Writer(_) => log.on_writer_received(env, conn, buffer, result),
                    Purpose::Reader(_) => log.on_reader_received(env, conn, buffer, result),
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
            .and_then(|request| self.check_cluster(request))
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

    /// A client may say which cluster it means. After a rescue the majority that was lost may come back:
    /// then two clusters have nodes, logs and streams of the same names, at the same addresses.
    fn check_cluster(&self, mut request: Request) -> Result<Request, Refusal> {
        if matches!(request.verb.as_str(), "peer" | "join") {
            return Ok(request); // They have a key of that name themselves.
        }
        let Some(named) = request.take("cluster") else {
            return Ok(request);
        };
        if parse_hex16(&named).is_none() {
            return Err(Refusal::new(
                "bad-request",
                "cluster is the id that `status` tells: 32 hex digits and four hyphens",
            ));
        }
        if self.env.own.identity.node == NodeId(0) {
            return Err(Refusal::new(
                "not-leader",
                "this node is still joining; ask again in a moment",
            ));
        }
        let own = self.env.own.identity.cluster.to_string();
        if named != own {
            let sentence = format!(
                "this node is of cluster {own}, not of {named}: ask a node of that one, or begin anew with this one if that is lost"
            );
            return Err(Refusal::new("wrong-cluster", sentence).key("cluster", own));
        }
        Ok(request)
    }

    fn dispatch(
        &mut self,
        conn: ConnId,
        request: &Request,
        rest: &[u8],
        ended: bool,
    ) -> Result<(), Refusal> {
        // The last ones are for peers, who would take this node for dead, and for who asks what is
        // the matter.
        let limit = self.env.limits.connections_max;
        let is_crowded = self.env.conns.len() > limit - limit / 8;
        if is_crowded
            && !matches!(
                request.verb.as_str(),
                "peer" | "join" | "status" | "metrics"
            )
        {
            return Err(too_many_connections());
        }
        if self.is_gone() && !matches!(request.verb.as_str(), "peer" | "status" | "metrics") {
            let refusal = Refusal::new("shutting-down", crate::node::REMOVED);
            return Err(match request.verb.as_str() {
                "join" => self.naming_others(refusal),
                _ => refusal,
            });
        }
        self.serve(conn, request, rest, ended, Look::First)
    }

    fn serve(
        &mut self,
        conn: ConnId,
        request: &Request,
        rest: &[u8],
        ended: bool,
        look: Look,
    ) -> Result<(), Refusal> {
        if look == Look::First && self.hold(conn, request, rest, ended)? {
            return Ok(());
        }
        match request.verb.as_str() {
            "append" => {
                if self.log_named(request)? == DIRECTORY {
                    return Err(Refusal::new(
                        "bad-request",
                        "log 0 is the cluster's directory and takes no appends",
                    ));
                }
                let (log, env) = self.turn_to_log(conn, request, Purpose::Writer)?;
                log.on_append_request(env, conn, request, rest, ended);
            }
            "close" => self.on_close(conn, request)?,
            "read" => {
                let (log, env) = self.turn_to_log(conn, request, Purpose::Reader)?;
                if !ended {
                    // To hear of a reset while there is nothing to send.
                    env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
                }
                log.on_read_request(env, conn, request);
                if ended {
                    log.on_reader_silent(env, conn);
                }
            }
            "trim" => {
                if self.log_named(request)? == DIRECTORY {
                    return Err(Refusal::new(
                        "bad-request",
                        "log 0 is the cluster's directory: it is trimmed by itself",
                    ));
                }
                let (log, env) = self.turn_to_log(conn, request, Purpose::Request)?;
                log.on_trim_request(env, conn, request);
            }
            "lead" => {
                let (log, env) = self.turn_to_log(conn, request, Purpose::Request)?;
                log.on_lead_request(env, conn, request);
            }
            "scrub" => {
                let id = self.log_named(request)?;
                self.on_scrub_request(conn, request, id)?;
            }
            "status" => {
                request.check()?;
                if request.flag("fresh")? {
                    return self.tell_fresh(conn, Wants::FreshStatus);
                }
                let line = self.status_line();
                self.env.answer(conn, line);
            }
            "metrics" => {
                request.check()?;
                let line = self.metrics_line();
                self.env.answer(conn, line);
            }
            "streams" => {
                request.check()?;
                let stale = request.flag("stale")?;
                let list = StreamList::asked(request)?;
                let (log, env) = self.turn_to_log(conn, request, Purpose::Reader)?;
                log.on_streams_request(env, conn, stale, list);
            }
            "logs" => {
                request.check()?;
                let list = LogList::asked(request)?;
                match request.flag("stale")? {
                    true => {
                        let line = self.logs_line(list);
                        self.env.answer(conn, line);
                    }
                    false => self.tell_fresh(conn, Wants::Logs(list))?,
                }
            }
            "create-log" => self.on_create_log(conn, request)?,
            "delete-log" => self.on_delete_log(conn, request)?,
            "show-log" => self.on_show_log(conn, request)?,
            "retain" => self.on_retain(conn, request)?,
            "members" => self.on_members(conn, request)?,
            "change-members" => self.on_change_members(conn, request)?,
            "join" => self.on_join(conn, request)?,
            "peer" => self.on_peer_greeting(conn, request, rest)?,
            other => {
                return Err(LineError::UnknownVerb(other.to_owned()).into());
            }
        }
        Ok(())
    }

    /// The log that is named. The connection is its business from now on.
    fn turn_to_log(
        &mut self,
        conn: ConnId,
        request: &Request,
        purpose: fn(LogId) -> Purpose,
    ) -> Result<(&mut Log, &mut Env), Refusal> {
        let id = self.log_named(request)?;
        self.env.conns.insert(conn, purpose(id));
        self.dirty.insert(id);
        let log = self.logs.get_mut(&id).expect("it was found by its name");
        Ok((log, &mut self.env))
    }

    fn log_named(&self, request: &Request) -> Result<LogId, Refusal> {
        let name = request
            .words
            .first()
            .ok_or(LineError::Missing("the log's name"))?;
        self.log_here(name).ok_or_else(|| self.not_hosted(name))
    }

    /// Only who leads the directory knows all that is in it.
    fn directing(&self) -> Result<(), Refusal> {
        let log = self.logs.get(&DIRECTORY).ok_or_else(still_joining)?;
        log.check_leading(&self.env)
    }

    fn await_directory(&mut self, conn: ConnId, wants: Wants) -> Result<(), Refusal> {
        self.directing()?;
        self.tell_fresh(conn, wants)
    }

    /// Answered once this node, whether it leads log 0 or follows, knows all that is chosen there by now.
    fn tell_fresh(&mut self, conn: ConnId, wants: Wants) -> Result<(), Refusal> {
        self.check_directory()?;
        self.env.conns.insert(conn, Purpose::Request(DIRECTORY));
        self.requests.push(Pending {
            conn,
            since: self.env.now,
            asked: Asked::default(),
            wants,
        });
        self.answer_requests();
        Ok(())
    }
}

fn too_many_connections() -> Refusal {
    Refusal::new(
        "overloaded",
        "this node has too many connections; close some, or ask another node",
    )
}
