//! A clean end: closing a stream at a position, as often as it is asked for.

use ops::ConnId;
use paxos::{Action, StreamEnd, StreamName, StreamPosition};
use wire::{Answer, Refusal};

use super::cut_off;
use super::state::{Close, Sink, Writer};
use crate::env::Env;
use crate::lent::no_quorum;
use crate::log::Log;

impl Log {
    /// `close LOG stream=NAME at=POSITION`
    pub fn on_close_request(&mut self, env: &mut Env, conn: ConnId, stream: StreamName, at: u64) {
        let checked = self.core.check_bytes();
        if let Err(refusal) = checked.and_then(|()| self.core.check_leading(env)) {
            return env.refuse(conn, refusal);
        }
        let since = env.now;
        self.ingest.early_closes.push(Close {
            conn,
            stream,
            at,
            since,
            agreed: false,
            uncopied: 0,
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
                agreed,
                ..
            } = close;
            if !env.conns.is_open(conn) {
                continue;
            }
            let late = env.now > since + env.limits.leader_wait;
            let Some(stream) = self.core.engine.state().stream(name) else {
                if agreed {
                    let sentence = format!("{} has no stream {name}", self.core.name);
                    env.refuse(conn, Refusal::new("unknown-stream", sentence));
                } else if late && !self.core.can_propose() {
                    env.refuse(conn, no_quorum());
                } else {
                    self.propose_close(env, close);
                }
                continue;
            };
            let length = stream.length.0;
            // The stream's state is told once it can grow no more or is too long already.
            let other_length = |sentence: String| {
                let refusal = Refusal::new("continues", sentence).key("length", length);
                match stream.continued_by {
                    Some(by) => refusal.key("by", by),
                    None => refusal,
                }
            };
            match stream.end {
                // ‡ It may have been closed while copies were lacking.
                StreamEnd::Closed if length == at && !self.core.engine.has_copies() => match late {
                    true => env.refuse(conn, self.core.few_copies()),
                    false => self.ingest.early_closes.push(close),
                },
                StreamEnd::Closed if length == at => {
                    env.part(conn, Answer::Closed(at).to_line().as_bytes());
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
                StreamEnd::Open if length == at && self.core.can_propose() => {
                    self.propose_close(env, close);
                }
                StreamEnd::Open if length > at => {
                    let sentence = format!("{name} is {length} bytes long, longer than {at}");
                    env.refuse(conn, other_length(sentence));
                }
                StreamEnd::Open if late && agreed && length < at => {
                    let sentence = format!("{name} is only {length} bytes long");
                    env.refuse(conn, other_length(sentence));
                }
                StreamEnd::Open if late && self.core.can_propose() => {
                    self.propose_close(env, close)
                }
                StreamEnd::Open if late => env.refuse(conn, no_quorum()),
                StreamEnd::Open => self.ingest.early_closes.push(close),
            }
        }
    }

    /// Proposes the close, or leaves it for later, while nothing can be proposed.
    fn propose_close(&mut self, env: &mut Env, close: Close) {
        let action = Action::CloseStream {
            stream: close.stream,
            at: StreamPosition(close.at),
        };
        if self.core.can_propose() && self.core.engine.propose(env.now, action).is_ok() {
            let closing = self.ingest.closing.entry(close.stream);
            let uncopied = self.core.engine.uncopied();
            closing.or_default().push(Close { uncopied, ..close });
            self.drain(env);
        } else {
            self.ingest.early_closes.push(close);
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
            // The stream grew or ended meanwhile: its state decides again.
            let agreed = closes.into_iter().map(|close| Close {
                agreed: true,
                ..close
            });
            self.ingest.early_closes.extend(agreed);
            let state = self.core.engine.state().stream(stream);
            // If the stream is still open it was somebody else's close, and the writer's own is still to come.
            let is_over = state.is_none_or(|s| s.end != StreamEnd::Open);
            let writer = self.ingest.writer.as_ref();
            if is_over && writer.is_some_and(|w| of_writer(w) && w.close_proposed) {
                self.supersede_writer(env, cut_off());
            }
            return;
        };
        let line = Answer::Closed(at.0).to_line();
        for close in closes {
            match self.core.lacks_copies_since(close.uncopied) {
                true => env.refuse(close.conn, self.core.few_copies()),
                false => env.part(close.conn, line.as_bytes()),
            }
        }
        let of_writer = self.ingest.writer.as_ref().filter(|w| of_writer(w));
        if of_writer.is_some_and(|writer| writer.lacks_copies(&self.core)) {
            let refusal = self.core.few_copies();
            return self.drop_writer(env, Some(refusal));
        }
        if of_writer.is_some()
            && let Some(writer) = self.ingest.writer.take()
            && let Sink::Client(conn) = writer.sink
        {
            env.part(conn, line.as_bytes());
        }
    }
}
