//! A clean end: closing a stream at a position, as often as it is asked for.

use paxos::{Action, NotOpened, StreamEnd, StreamName, StreamPosition, Time};

use super::{Sink, cut_off, no_quorum};
use crate::env::Env;
use crate::line::Refusal;
use crate::log::Log;
use crate::op::ConnId;

/// `close LOG stream=NAME at=POSITION`
#[derive(Clone, Copy)]
pub(super) struct Close {
    pub(super) conn: ConnId,
    stream: StreamName,
    at: u64,
    since: Time,
}

impl Log {
    /// `close LOG stream=NAME at=POSITION`
    pub(crate) fn on_close_request(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        stream: StreamName,
        at: u64,
    ) {
        if let Err(refusal) = self.check_leading(env) {
            return env.refuse(conn, refusal);
        }
        let since = env.now;
        self.ingest.early_closes.push(Close {
            conn,
            stream,
            at,
            since,
        });
        self.try_early_closes(env);
    }

    pub(super) fn try_early_closes(&mut self, env: &mut Env) {
        for close in std::mem::take(&mut self.ingest.early_closes) {
            let Close {
                conn,
                stream: name,
                at,
                since,
            } = close;
            if !env.conns.contains_key(&conn) {
                continue;
            }
            let late = env.now.0 > since.0 + env.limits.leader_wait;
            let Some(stream) = self.engine.state().stream(name) else {
                if late || self.can_propose() {
                    env.refuse(
                        conn,
                        Refusal::new(
                            "unknown-stream",
                            format!("{} has no stream {name}", self.name),
                        ),
                    );
                } else {
                    self.ingest.early_closes.push(close);
                }
                continue;
            };
            let length = stream.length.0;
            match stream.end {
                StreamEnd::Closed if length == at => {
                    env.part(conn, format!("closed {at}\n").as_bytes())
                }
                StreamEnd::Closed => self.refuse_closing(env, conn, name),
                StreamEnd::Cut if length != at || stream.continued_by.is_some() => {
                    self.refuse_closing(env, conn, name);
                }
                StreamEnd::Cut => {
                    let refusal = Refusal::new(
                        "superseded",
                        format!("{name} was cut off at {length}; continue it and close that"),
                    );
                    env.refuse(conn, refusal);
                }
                StreamEnd::Open if length == at && self.can_propose() => {
                    let action = Action::CloseStream {
                        stream: name,
                        at: StreamPosition(at),
                    };
                    if self.engine.propose(env.now, action).is_ok() {
                        self.ingest.closing.entry(name).or_default().push(close);
                        self.drain(env);
                    } else {
                        self.ingest.early_closes.push(close);
                    }
                }
                StreamEnd::Open if length > at => self.refuse_closing(env, conn, name),
                StreamEnd::Open if late => {
                    if self.can_propose() {
                        self.refuse_closing(env, conn, name);
                    } else {
                        env.refuse(conn, no_quorum());
                    }
                }
                StreamEnd::Open => self.ingest.early_closes.push(close),
            }
        }
    }

    /// The stream has another length than its closer says.
    pub(super) fn refuse_closing(&self, env: &mut Env, conn: ConnId, name: StreamName) {
        if let Some(stream) = self.engine.state().stream(name) {
            let reason = NotOpened::Continues {
                length: stream.length,
                continued_by: stream.continued_by,
            };
            self.refuse_continuing(env, conn, name, reason);
        }
    }

    pub(crate) fn on_closed(
        &mut self,
        env: &mut Env,
        stream: StreamName,
        at: Option<StreamPosition>,
    ) {
        let closes = self.ingest.closing.remove(&stream).unwrap_or_default();
        let writer = self.ingest.writer.as_ref();
        let of_writer = writer.filter(|w| w.stream == stream);
        let Some(at) = at else {
            // It grew or ended meanwhile: decide again by its state.
            self.ingest.early_closes.extend(closes);
            if of_writer.is_some_and(|w| w.close_proposed) {
                self.drop_writer(env, Some(cut_off()));
            }
            return;
        };
        let line = format!("closed {at}\n");
        for close in closes {
            env.part(close.conn, line.as_bytes());
        }
        if of_writer.is_some()
            && let Some(writer) = self.ingest.writer.take()
            && let Sink::Client(conn) = writer.sink
        {
            env.part(conn, line.as_bytes());
        }
    }
}
