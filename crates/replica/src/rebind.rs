//! After a change of leader: proposing again, in our term, the bytes that earlier terms left accepted and not
//! chosen. They come from our own disk, or from a node that reported them accepted.

use formats::PAYLOAD_BYTES_MAX;
use ops::Buffer;
use paxos::{Input, PermitContent, StreamName, StreamPosition, Term};
use store::{ReadBytes, ReadFailure};

use crate::catch_up::CatchUp;
use crate::env::Env;
use crate::lent::{Core, ONE_RECORD, Ticket, Wanted};

/// A bound run's bytes on their way from our own disk.
#[derive(Default)]
pub(crate) struct Rebind {
    run: Option<Run>,
}

struct Run {
    term: Term,
    stream: StreamName,
    position: StreamPosition,
    count: u64,
    since: paxos::Time,
    reading: bool,
}

impl Rebind {
    /// Proposes again, in our term, the bytes that earlier terms left accepted but not chosen.
    pub fn pump(&mut self, core: &mut Core, catch_up: &mut CatchUp, env: &mut Env) {
        let Some(permit) = core.engine.permit() else {
            catch_up.want_nothing();
            return;
        };
        let PermitContent::Bound {
            stream,
            position,
            holders,
        } = &permit.content
        else {
            self.run = None;
            catch_up.want_nothing();
            return;
        };
        let (term, stream, position, holders) = (permit.term, *stream, *position, holders.clone());
        let count = (permit.limit.0 - permit.next.0).min(PAYLOAD_BYTES_MAX as u64);
        if count == 0 {
            return;
        }
        let same = self
            .run
            .as_ref()
            .is_some_and(|r| r.term == term && r.stream == stream && r.position == position);
        if !same {
            let reading = self.run.as_ref().is_some_and(|r| r.reading);
            self.run = Some(Run {
                term,
                stream,
                position,
                count,
                since: env.now,
                reading,
            });
        }
        let rebind = self.run.as_mut().expect("it was set just now");
        if rebind.reading {
            return;
        }
        let end = StreamPosition(position.0 + count);
        if core
            .store
            .holdings()
            .holds(stream, position..StreamPosition(position.0 + 1))
        {
            rebind.reading = true;
            let wanted = Wanted::new(stream, position.0);
            let buffer = env.memory.batches.take();
            core.read_from_store(Ticket::Rebind, wanted, ONE_RECORD, buffer);
            return;
        }
        let own = holders.contains(&env.own.identity.node);
        if own && core.store.queued_bytes() > 0 {
            return; // Still on its way to our own disk.
        }
        if env.now > rebind.since + 2 * env.limits.fetch_timeout {
            tracing::warn!(log = core.id.0, %stream, position = position.0, "bytes of an accepted run did not arrive");
            rebind.since = env.now;
            core.counts.bytes_unavailable += 1;
            core.input(env, Input::BytesUnavailable { term, holders });
            return;
        }
        catch_up.want(stream, position..end, &holders);
    }

    /// Takes the bytes that are to be proposed.
    pub fn on_read(
        &mut self,
        core: &mut Core,
        env: &mut Env,
        wanted: Wanted,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) -> Option<(StreamName, u64, Buffer, usize)> {
        let rebind = self.run.as_mut()?;
        rebind.reading = false;
        let (term, stream, position) = (rebind.term, rebind.stream, rebind.position);
        if wanted != Wanted::new(stream, position.0) {
            return None; // Another term wants other bytes.
        }
        let Ok(ReadBytes { payload, .. }) = result else {
            return None;
        };
        let fits = core.engine.permit().is_some_and(|p| {
            p.term == term
                && matches!(&p.content, PermitContent::Bound { stream: s, position: at, .. } if *s == stream && *at == position)
        });
        if !fits {
            return None;
        }
        let count = payload.len().min(rebind.count as usize);
        self.run = None;
        core.counts.bound_batches += 1;
        let batch = env.batch_of(&buffer[payload.start..payload.start + count]);
        Some((stream, position.0, batch, count))
    }

    pub fn is_under_way(&self) -> bool {
        self.run.is_some()
    }

    /// Stops: this replica leads no more.
    pub fn stop(&mut self) {
        self.run = None;
    }
}
