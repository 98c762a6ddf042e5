//! The streams of a log, a list that may be long. A client that wants a part says after which stream, and how
//! many (docs/wire.md).

pub mod list;

use ops::ConnId;
use paxos::{StreamEnd, StreamState};
use serde::Serialize;
use wire::Refusal;

use crate::answers::Rest;
use crate::env::Env;
use crate::lent::Core;
use list::StreamList;

#[derive(Serialize)]
struct StreamStatus<'a> {
    name: String,
    label: &'a str,
    length: u64,
    trimmed: u64,
    end: &'static str,
    continues: Option<Continues>,
    continued_by: Option<String>,
}

#[derive(Serialize)]
struct Continues {
    stream: String,
    at: u64,
}

impl StreamList {
    /// Begins the answer, once the list's barrier has passed.
    pub(crate) fn begin(mut self, core: &Core, env: &mut Env, conn: ConnId) {
        let state = core.engine.state();
        if let Some(after) = self.after {
            let Some(at) = state.streams.iter().position(|s| s.name == after) else {
                let sentence = format!(
                    "{} has no stream {after}, or it was trimmed; begin without after",
                    core.name
                );
                return env.refuse(conn, Refusal::new("unknown-stream", sentence));
            };
            self.next = state.streams_trimmed.count + at as u64 + 1;
        }
        let mut piece = b"ok [".to_vec();
        match self.name(core, env, &mut piece) {
            // Most lists are short.
            true => env.part(conn, &piece),
            false => env.send_piece(conn, &piece, Rest::Streams(core.id, self)),
        }
    }

    /// Sends the next piece.
    pub(crate) fn send(mut self, core: &Core, env: &mut Env, conn: ConnId) {
        let mut piece = Vec::new();
        let rest = match self.name(core, env, &mut piece) {
            true => Rest::Nothing,
            false => Rest::Streams(core.id, self),
        };
        env.send_piece(conn, &piece, rest);
    }

    /// Adds as many entries as make a piece. True if it was the last, and the line is at its end.
    fn name(&mut self, core: &Core, env: &Env, piece: &mut Vec<u8>) -> bool {
        let state = core.engine.state();
        let gone = state.streams_trimmed.count;
        self.next = self.next.max(gone);
        let from = usize::try_from(self.next - gone).unwrap_or(usize::MAX);
        let rest = state.streams.get(from..).unwrap_or_default();
        for stream in rest {
            if self.left == 0 {
                break;
            }
            if piece.len() >= env.limits.answer_piece_bytes {
                return false;
            }
            if std::mem::replace(&mut self.named, true) {
                piece.push(b',');
            }
            // Numbers and text are always JSON, and a Vec takes all of it.
            let _ = serde_json::to_writer(&mut *piece, &StreamStatus::of(stream));
            self.next += 1;
            self.left -= 1;
        }
        piece.extend_from_slice(b"]\n");
        true
    }
}

impl StreamStatus<'_> {
    fn of(stream: &StreamState) -> StreamStatus<'_> {
        StreamStatus {
            name: stream.name.to_string(),
            label: &stream.label,
            length: stream.length.0,
            trimmed: stream.trimmed.0,
            end: match stream.end {
                StreamEnd::Open => "open",
                StreamEnd::Closed => "closed",
                StreamEnd::Cut => "cut",
            },
            continues: stream.continues.map(|(name, at)| Continues {
                stream: name.to_string(),
                at: at.0,
            }),
            continued_by: stream.continued_by.map(|name| name.to_string()),
        }
    }
}
