//! The guest's writing: bytes of a stream of its own, while this node leads.

use std::collections::VecDeque;

use formats::{PAYLOAD_BYTES_MAX as PAYLOAD_MAX, RECORD_HEADER};
use paxos::StreamName;

use super::events::NotNow;
use crate::env::Env;
use crate::log::Log;

/// The most bytes that are taken before they can be proposed; one submission may exceed it.
const PENDING_MAX: usize = 1 << 20;

/// ‡ As slices: an iterator of a ring goes byte by byte.
fn first_bytes(ring: &VecDeque<u8>, count: usize) -> Vec<u8> {
    let (front, back) = ring.as_slices();
    let of_front = &front[..count.min(front.len())];
    let of_back = &back[..(count - of_front.len()).min(back.len())];
    [of_front, of_back].concat()
}

impl Log {
    pub(super) fn open_for_guest(&mut self, env: &mut Env) -> bool {
        let is_open = self.ingest.guests_stream().is_some();
        let is_over = self.core.engine.state().is_sealed();
        if !self.core.is_leading() || is_open || is_over || self.port.writing.is_opening {
            return false;
        }
        self.port.writing.is_opening = true;
        self.ingest.open_for_guest(env.now);
        true
    }

    pub(super) fn open_anew_for_guest(&mut self, env: &mut Env) -> bool {
        if !self.core.is_leading() || !self.guest_is_idle() {
            return false;
        }
        let writing = &mut self.port.writing;
        writing.is_opening = true;
        writing.begun = None;
        self.ingest.open_for_guest(env.now);
        true
    }

    pub(super) fn guest_has_begun(&self) -> bool {
        let stream = self.ingest.guests_stream();
        self.core.is_leading() && stream.is_some() && self.port.writing.begun == stream
    }

    pub(super) fn submit(
        &mut self,
        env: &mut Env,
        bytes: &[u8],
        frees: bool,
    ) -> Result<u64, NotNow> {
        if !self.guest_has_begun() {
            return Err(NotNow::NotWriting);
        }
        if self.core.is_full(env) && !(frees && self.core.may_free(env)) {
            return Err(NotNow::Full(self.core.disk_full(env)));
        }
        let pending = &mut self.port.writing.pending;
        if !pending.is_empty() && pending.len() + bytes.len() > PENDING_MAX {
            return Err(NotNow::Later);
        }
        pending.extend(bytes);
        self.port.writing.on_submitted();
        let end = self.ingest.proposed() + self.port.writing.pending.len() as u64;
        self.propose_submitted(env);
        Ok(end)
    }

    /// ‡ Proposes submitted bytes, bounded as clients' bytes are: by what may be unchosen, by the ring, and
    /// by the disk's queue. A batch costs three disks a write and each of them messages, be it of one command or of fifty.
    pub(crate) fn propose_submitted(&mut self, env: &mut Env) {
        let is_behind = self.core.engine.first_unchosen() < self.core.engine.proposed_up_to();
        if !is_behind {
            self.port.writing.on_chosen(env.now);
        }
        while !self.port.writing.pending.is_empty() && self.guest_has_begun() {
            let is_behind = self.core.engine.first_unchosen() < self.core.engine.proposed_up_to();
            if self.port.writing.gathers(env.now, is_behind) {
                return;
            }
            let Some(stream) = self.ingest.guests_stream() else {
                return;
            };
            let permit = self.core.engine.permit();
            let room = permit.map_or(0, |p| p.limit.0 - p.next.0) as usize;
            let share = &env.room.share;
            if !self.core.can_propose()
                || room == 0
                || self.core.ring.bytes() > share.ring_bytes
                || self.core.store.queued_bytes() > share.queue_bytes
            {
                return;
            }
            if !self.may_begin_batch(env) {
                return;
            }
            let pending = &mut self.port.writing.pending;
            let count = pending.len().min(PAYLOAD_MAX).min(room);
            let bytes = first_bytes(pending, count);
            pending.drain(..count);
            self.port.writing.on_proposed(env.now);
            let position = self.ingest.on_guest_proposes(count);
            let batch = env.batch_of(&bytes);
            let digest = formats::digest(&batch[RECORD_HEADER..RECORD_HEADER + count]);
            self.propose_bytes(env, stream, position, batch, (count, digest));
        }
    }

    /// The stream that the guest was told it may write, and may not any more.
    pub(super) fn take_deposed(&mut self) -> Option<StreamName> {
        if self.guest_has_begun() {
            return None;
        }
        let stream = self.port.writing.begun.take()?;
        self.port.writing.drop_pending();
        Some(stream)
    }

    /// The guest's stream, once it is open and all before it is taken.
    pub(super) fn take_begun(&mut self) -> Option<StreamName> {
        let stream = self.ingest.guests_stream()?;
        let is_new = self.port.writing.begun != Some(stream);
        if !is_new || !self.core.is_leading() || !self.guest_has_reached(stream) {
            return None;
        }
        self.port.writing.begun = Some(stream);
        Some(stream)
    }
}
