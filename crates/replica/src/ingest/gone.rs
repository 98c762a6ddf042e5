//! The end of a stream whose writer is gone: its leader cuts it, so that nobody who follows it waits for ever.
//!
//! ```text
//!  the connection ends ─── writer_gone_after ───▶ cut-stream, proposed ─ chosen ─▶ readers that follow hear `cut`
//!        └─ the writer is back: its next stream continues this one, and nothing is cut
//! ```
//!
//! A new leader saw no connection end, so it waits for the whole time again: its log's writer may be on the way. To be
//! cut costs a writer nothing: its stream is continued as one that is open is.
//!
//! Units:  the time counts from when this leader, able to propose, had no writer of the stream.
//! Errors: without a quorum nothing is cut; a cut that comes to nothing is proposed again.

use std::time::Duration;

use formats::LogId;
use formats::version::CUTS;
use paxos::{Action, StreamName, Time};

use crate::env::Env;
use crate::log::Log;

/// The time between two looks at a stream that is due while something is not chosen yet.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A stream that is open, and that nobody writes.
#[derive(Clone, Copy)]
pub(crate) struct Gone {
    stream: StreamName,
    due: Time,
}

impl Log {
    /// Cuts, on the leader, the stream that nobody has written for long.
    pub(super) fn cut_if_writer_is_gone(&mut self, env: &mut Env) {
        let Some(stream) = self.stream_without_writer() else {
            self.ingest.gone = None;
            return;
        };
        let due = env.now + env.limits.writer_gone_after;
        let gone = self.ingest.gone.get_or_insert(Gone { stream, due });
        if gone.stream != stream {
            *gone = Gone { stream, due };
        }
        if gone.due > env.now {
            return;
        }
        // A disk that is full gets no record that can wait, and an older program would not understand this one.
        if self.core.is_full(env) || env.version.logs < CUTS {
            gone.due = due;
            return;
        }
        gone.due = env.now + LOOK_EVERY;
        let engine = &mut self.core.engine;
        // ‡ Behind all that was proposed of it: a cut at another length has no effect.
        if engine.first_unchosen() < engine.proposed_up_to() {
            return;
        }
        let Some(at) = engine.state().stream(stream).map(|stream| stream.length) else {
            return;
        };
        if engine
            .propose(env.now, Action::CutStream { stream, at })
            .is_ok()
        {
            tracing::info!(log = self.core.id.0, name = self.core.name, %stream, at = at.0, "its writer is gone: the stream is cut");
            self.drain(env);
        }
    }

    /// The stream that is open though nobody writes it, is about to, or waits for its close. Log 0 and the logs of
    /// machines are written by nodes, which come and go with their leaders.
    fn stream_without_writer(&self) -> Option<StreamName> {
        let ingest = &self.ingest;
        let is_at_work = ingest.writer.is_some()
            || !ingest.opening.is_empty()
            || !ingest.closing.is_empty()
            || ingest.is_waiting();
        let is_for_clients = self.core.kind.is_bytes() && self.core.id != LogId(0);
        match is_for_clients && !is_at_work && self.core.can_propose() {
            true => self.core.engine.state().current,
            false => None,
        }
    }

    /// The time when a stream without a writer is due.
    pub(crate) fn gone_deadline(&self) -> Option<Time> {
        self.ingest.gone.map(|gone| gone.due)
    }
}
