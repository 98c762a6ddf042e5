//! A clean end: closing a stream at a position, as often as it is asked for.

use paxos::{Action, NotOpened, StreamEnd, StreamName, StreamPosition};

use super::{Sink, no_quorum};
use crate::env::Env;
use crate::line::Refusal;
use crate::log::Log;
use crate::op::ConnId;

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
        self.ingest.early_closes.push((conn, stream, at, env.now));
        self.try_early_closes(env);
    }

    pub(super) fn try_early_closes(&mut self, env: &mut Env) {
        for (conn, name, at, since) in std::mem::take(&mut self.ingest.early_closes) {
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
                    self.ingest.early_closes.push((conn, name, at, since));
                }
                continue;
            };
            let length = stream.length.0;
            match stream.end {
                StreamEnd::Closed if length == at => {
                    env.part(conn, format!("closed {at}\n").as_bytes())
                }
                StreamEnd::Closed => self.refuse_closing(env, conn, name),
                StreamEnd::Cut => {
                    let refusal = Refusal::new(
                        "superseded",
                        format!("{name} ended at {length}; another stream followed"),
                    );
                    env.refuse(conn, refusal.key("length", length));
                }
                StreamEnd::Open if length == at && self.can_propose() => {
                    let action = Action::CloseStream {
                        stream: name,
                        at: StreamPosition(at),
                    };
                    if self.engine.propose(env.now, action).is_ok() {
                        self.ingest.closing.entry(name).or_default().push(conn);
                        self.drain(env);
                    } else {
                        self.ingest.early_closes.push((conn, name, at, since));
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
                StreamEnd::Open => self.ingest.early_closes.push((conn, name, at, since)),
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
        let conns = self.ingest.closing.remove(&stream).unwrap_or_default();
        let Some(at) = at else {
            // It grew or ended meanwhile: decide again by its state.
            self.ingest
                .early_closes
                .extend(conns.into_iter().map(|c| (c, stream, u64::MAX, env.now)));
            return;
        };
        let line = format!("closed {at}\n");
        for conn in conns {
            env.part(conn, line.as_bytes());
        }
        if self
            .ingest
            .writer
            .as_ref()
            .is_some_and(|w| w.stream == stream)
            && let Some(writer) = self.ingest.writer.take()
            && let Sink::Client(conn) = writer.sink
        {
            env.part(conn, line.as_bytes());
        }
    }
}
