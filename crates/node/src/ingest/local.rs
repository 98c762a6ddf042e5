//! The writer inside this process: commands of a replicated state machine, in a stream of their own.

use std::collections::VecDeque;

use super::Sink;
use super::opening::{Append, EndOfBytes, Mode};
use crate::env::Env;
use crate::format::PAYLOAD_BYTES_MAX as PAYLOAD_MAX;
use crate::log::{Log, batch_of};

#[derive(Default)]
pub(super) struct Local {
    pub(super) pending: VecDeque<u8>,
    pub(super) wanted: bool,
}

impl Log {
    /// Appends bytes of the state machine inside this process, to a stream of its own. They are lost
    /// if leadership is: who waits for them hears of the change of role.
    pub fn append_local(&mut self, env: &mut Env, bytes: &[u8]) -> bool {
        if !self.is_leading() {
            return false;
        }
        self.ingest.local.pending.extend(bytes);
        self.write_local(env);
        true
    }

    /// Nothing of the state machine inside this process is on its way.
    pub(crate) fn local_is_idle(&self) -> bool {
        self.ingest.local.pending.is_empty()
            && !self.ingest.local.wanted
            && self
                .ingest
                .writer
                .as_ref()
                .is_none_or(|w| w.acknowledged == w.proposed)
    }

    pub(super) fn write_local(&mut self, env: &mut Env) {
        if self.ingest.local.pending.is_empty() {
            return;
        }
        match &self.ingest.writer {
            Some(writer) if writer.sink == Sink::Local => {
                self.ingest.local.wanted = false;
                let (stream, position) = (writer.stream, writer.proposed);
                let room = self.engine.permit().map_or(0, |p| p.limit.0 - p.next.0) as usize;
                if !self.can_propose() || room == 0 {
                    return;
                }
                let count = self.ingest.local.pending.len().min(PAYLOAD_MAX).min(room);
                let bytes: Vec<u8> = self.ingest.local.pending.drain(..count).collect();
                if let Some(writer) = &mut self.ingest.writer {
                    writer.proposed += count as u64;
                }
                let batch = batch_of(env, &bytes);
                self.propose_bytes(env, stream, position, batch, count);
            }
            _ if self.ingest.local.wanted => {}
            _ => {
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
        }
    }
}
