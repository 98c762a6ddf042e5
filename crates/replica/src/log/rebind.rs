//! After a change of leader: proposing again, in our term, the bytes that earlier terms left accepted
//! and not chosen. They come from our own disk, or from whoever reported them accepted.

use formats::PAYLOAD_BYTES_MAX;
use ops::Buffer;
use paxos::{Input, PermitContent, StreamName, StreamPosition, Term};
use store::{ReadBytes, ReadFailure};

use crate::env::Env;
use crate::lent::{Ticket, Wanted};
use crate::log::Log;

pub(super) struct Rebind {
    pub(super) term: Term,
    pub(super) stream: StreamName,
    pub(super) position: StreamPosition,
    pub(super) count: u64,
    pub(super) since: paxos::Time,
    pub(super) reading: bool,
}

impl Log {
    /// Proposes again, in our term, the bytes that earlier terms left accepted but not chosen.
    pub(super) fn rebind(&mut self, env: &mut Env) {
        let Some(permit) = self.core.engine.permit() else {
            self.catch_up.want_nothing();
            return;
        };
        let PermitContent::Bound {
            stream,
            position,
            holders,
        } = &permit.content
        else {
            self.rebind = None;
            self.catch_up.want_nothing();
            return;
        };
        let (term, stream, position, holders) = (permit.term, *stream, *position, holders.clone());
        let count = (permit.limit.0 - permit.next.0).min(PAYLOAD_BYTES_MAX as u64);
        if count == 0 {
            return;
        }
        let same = self
            .rebind
            .as_ref()
            .is_some_and(|r| r.term == term && r.stream == stream && r.position == position);
        if !same {
            let reading = self.rebind.as_ref().is_some_and(|r| r.reading);
            self.rebind = Some(Rebind {
                term,
                stream,
                position,
                count,
                since: env.now,
                reading,
            });
        }
        let rebind = self.rebind.as_mut().expect("it was set just now");
        if rebind.reading {
            return;
        }
        let end = StreamPosition(position.0 + count);
        if self
            .core
            .store
            .holdings()
            .holds(stream, position..StreamPosition(position.0 + 1))
        {
            rebind.reading = true;
            self.core
                .read_from_store(Ticket::Rebind, stream, position.0, env.batches.take());
            self.drain(env);
            return;
        }
        let own = holders.contains(&env.identity.node);
        if own && self.core.store.queued_bytes() > 0 {
            return; // Still on its way to our own disk.
        }
        if env.now.0 > rebind.since.0 + 2 * env.limits.fetch_timeout {
            tracing::warn!(log = self.core.id.0, %stream, position = position.0, "bytes of an accepted run did not arrive");
            rebind.since = env.now;
            self.core.counts.bytes_unavailable += 1;
            self.input(env, Input::BytesUnavailable { term, holders });
            return;
        }
        self.catch_up.want(stream, position..end, &holders);
    }

    pub(super) fn on_rebind_read(
        &mut self,
        env: &mut Env,
        wanted: Wanted,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) {
        let Some(rebind) = self.rebind.as_mut() else {
            return;
        };
        rebind.reading = false;
        let (term, stream, position) = (rebind.term, rebind.stream, rebind.position);
        if wanted != Wanted::new(stream, position.0) {
            return; // Another term wants other bytes.
        }
        let Ok(ReadBytes { payload, .. }) = result else {
            return;
        };
        let fits = self.core.engine.permit().is_some_and(|p| {
            p.term == term
                && matches!(&p.content, PermitContent::Bound { stream: s, position: at, .. } if *s == stream && *at == position)
        });
        if !fits {
            return;
        }
        let count = payload.len().min(rebind.count as usize);
        self.rebind = None;
        self.core.counts.bound_batches += 1;
        let batch = env.batch_of(&buffer[payload.start..payload.start + count]);
        self.propose_bytes(env, stream, position.0, batch, count);
        self.rebind(env);
    }
}
