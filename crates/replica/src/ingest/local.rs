//! The writer inside this process: commands of a replicated state machine, in a stream of their own.

use std::collections::VecDeque;

use formats::PAYLOAD_BYTES_MAX as PAYLOAD_MAX;
use paxos::StreamName;

use super::Sink;
use super::opening::{Append, EndOfBytes, Mode};
use crate::env::Env;
use crate::log::Log;

#[derive(Default)]
pub(super) struct Local {
    /// Whole frames, but for the rest of one that began in the stream being written.
    pub(super) pending: VecDeque<u8>,
    /// A stream is being opened.
    pub(super) wanted: bool,
    /// The state machine has reached the beginning of this stream, so that it has applied all that
    /// was chosen before: nothing is written to a stream before that.
    begun: Option<StreamName>,
}

impl Log {
    /// Appends bytes of the state machine inside this process, to a stream of its own. They are lost
    /// if leadership is: who waits for them hears of the change of role.
    pub fn append_local(&mut self, env: &mut Env, bytes: &[u8]) -> bool {
        if !self.core.is_leading() {
            return false;
        }
        self.ingest.local.pending.extend(bytes);
        self.write_local(env);
        true
    }

    /// Nothing of the state machine inside this process is on its way.
    pub fn local_is_idle(&self) -> bool {
        self.ingest.local.pending.is_empty()
            && !self.ingest.local.wanted
            && self
                .ingest
                .writer
                .as_ref()
                .is_none_or(|w| w.acknowledged == w.proposed)
    }

    /// A stream of ours was opened, and the state machine has applied everything before it.
    pub fn local_begins(&self) -> bool {
        let writer = self.ingest.writer.as_ref();
        writer
            .filter(|writer| writer.sink == Sink::Local)
            .is_some_and(|writer| {
                self.ingest.local.begun != Some(writer.stream)
                    && self.readers.local_has_reached(writer.stream)
            })
    }

    /// After [`Log::local_begins`]: from now on the stream is written to, these bytes first.
    pub fn begin_local(&mut self, env: &mut Env, first: &[u8]) {
        let Some(writer) = &self.ingest.writer else {
            return;
        };
        let local = &mut self.ingest.local;
        local.begun = Some(writer.stream);
        let rest = std::mem::take(&mut local.pending);
        local.pending = first.iter().copied().chain(rest).collect();
        self.write_local(env);
    }

    /// Whether the stream of the state machine inside this process is open, and may be written.
    pub fn local_has_begun(&self) -> bool {
        let writer = self.ingest.writer.as_ref();
        writer.is_some_and(|writer| {
            writer.sink == Sink::Local && self.ingest.local.begun == Some(writer.stream)
        })
    }

    /// Opens another stream after the one that is written now. Only while nothing is on its way.
    pub fn reopen_local(&mut self, env: &mut Env) {
        if self.core.is_leading() && self.local_is_idle() {
            self.open_local(env);
        }
    }

    fn open_local(&mut self, env: &mut Env) {
        self.ingest.local.wanted = true;
        self.ingest.queue.push_back(Append {
            from: Sink::Local,
            label: "commands".to_string(),
            continues: None,
            mode: Mode::TakeOver,
            end: EndOfBytes::Cut,
            leftover: Vec::new(),
            ended: false,
            since: env.now,
            told_at: env.now,
        });
    }

    pub(super) fn write_local(&mut self, env: &mut Env) {
        if self.ingest.local.pending.is_empty() || self.ingest.local.wanted {
            return;
        }
        match &self.ingest.writer {
            Some(writer) if writer.sink == Sink::Local => {
                if self.ingest.local.begun != Some(writer.stream) {
                    return;
                }
                let (stream, position) = (writer.stream, writer.proposed);
                let room = self
                    .core
                    .engine
                    .permit()
                    .map_or(0, |p| p.limit.0 - p.next.0) as usize;
                if !self.core.can_propose() || room == 0 {
                    return;
                }
                let count = self.ingest.local.pending.len().min(PAYLOAD_MAX).min(room);
                let bytes: Vec<u8> = self.ingest.local.pending.drain(..count).collect();
                if let Some(writer) = &mut self.ingest.writer {
                    writer.proposed += count as u64;
                }
                let batch = env.batch_of(&bytes);
                self.propose_bytes(env, stream, position, batch, count);
            }
            _ => self.open_local(env),
        }
    }
}
