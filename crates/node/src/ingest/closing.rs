//! A clean end: closing a stream at a position, as often as it is asked for.

use paxos::{Action, StreamEnd, StreamName, StreamPosition, Time};

use super::{Sink, Writer, cut_off, no_quorum};
use crate::env::Env;
use crate::line::Refusal;
use crate::log::Log;
use crate::op::ConnId;

/// `close LOG stream=NAME at=POSITION`
#[derive(Clone, Copy)]
pub(super) struct Close {
    pub(super) conn: ConnId,
    pub(super) stream: StreamName,
    pub(super) at: u64,
    pub(super) since: Time,
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
            // What the stream is now, once it can grow no more or is too long already.
            let other_length = |sentence: String| {
                let refusal = Refusal::new("continues", sentence).key("length", length);
                match stream.continued_by {
                    Some(by) => refusal.key("by", by),
                    None => refusal,
                }
            };
            match stream.end {
                StreamEnd::Closed if length == at => {
                    env.part(conn, format!("closed {at}\n").as_bytes());
                }
                StreamEnd::Closed => {
                    env.refuse(conn, other_length(format!("{name} was closed at {length}")));
                }
                StreamEnd::Cut if length != at || stream.continued_by.is_some() => {
                    env.refuse(
                        conn,
                        other_length(format!("{name} ended at {length}; another stream followed")),
                    );
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
                StreamEnd::Open if length > at => {
                    let sentence = format!("{name} is {length} bytes long, longer than {at}");
                    env.refuse(conn, other_length(sentence));
                }
                StreamEnd::Open if late && self.can_propose() => {
                    let sentence = format!("{name} is only {length} bytes long");
                    env.refuse(conn, other_length(sentence));
                }
                StreamEnd::Open if late => env.refuse(conn, no_quorum()),
                StreamEnd::Open => self.ingest.early_closes.push(close),
            }
        }
    }

    pub(crate) fn on_closed(
        &mut self,
        env: &mut Env,
        stream: StreamName,
        at: Option<StreamPosition>,
    ) {
        let closes = self.ingest.closing.remove(&stream).unwrap_or_default();
        let of_writer = |w: &Writer| w.stream == stream;
        let Some(at) = at else {
            // It grew or ended meanwhile: decide again by its state.
            self.ingest.early_closes.extend(closes);
            if self
                .ingest
                .writer
                .as_ref()
                .is_some_and(|w| of_writer(w) && w.close_proposed)
            {
                self.drop_writer(env, Some(cut_off()));
            }
            return;
        };
        let line = format!("closed {at}\n");
        for close in closes {
            env.part(close.conn, line.as_bytes());
        }
        if self.ingest.writer.as_ref().is_some_and(of_writer)
            && let Some(writer) = self.ingest.writer.take()
            && let Sink::Client(conn) = writer.sink
        {
            env.part(conn, line.as_bytes());
        }
    }
}
