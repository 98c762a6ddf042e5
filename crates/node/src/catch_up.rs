//! Fetches the bytes this replica missed, from whichever peer has them, at a bounded rate.
//!
//! Paxos lets a node that was away accept new slots at once; what it missed comes behind, as bytes
//! by ⟨stream, position⟩ that carry no term and are no acceptance. What is missing is worked out
//! only when it can have grown: at start, when the state jumped, when a record turned out corrupt.
//!
//! Shape:  peer's segments -> data connection -> own segment.
//! Units:  bytes; one request of at most `fetch_bytes_max`, `catch_up_rate` bytes per second.
//! Errors: a peer that does not have them, or does not answer, is passed over for the next.

use std::collections::VecDeque;
use std::ops::Range;

use paxos::{Engine, NodeId, StreamName, StreamPosition, Time};

use crate::buffer::Buffer;
use crate::env::Env;
use crate::format::frame::FetchBytes;
use crate::log::Log;
use crate::store::{NewRecord, Store};

#[derive(Default)]
pub(crate) struct CatchUp {
    /// Ranges of chosen output that were not held when last counted, in log order.
    missing: VecDeque<(StreamName, Range<u64>)>,
    /// Bytes that phase 1 needs and we lack; they go first.
    wanted: Option<Wanted>,
    request: Option<Request>,
    last_request: u64,
    /// Bytes we may still ask for, and when that was last topped up.
    allowance: u64,
    topped_up_at: Time,
    /// Turns through the peers.
    turn: usize,
    /// Each doubles the patience with a peer: a chunk that comes too late is asked for for ever.
    lapses: u32,
    received: u64,
    told_at: Time,
    /// Everything was asked for: count again once it is on disk.
    recheck: bool,
    state_jumped: bool,
}

struct Wanted {
    stream: StreamName,
    range: Range<u64>,
    holders: Vec<NodeId>,
}

struct Request {
    id: u64,
    peer: NodeId,
    stream: StreamName,
    next: u64,
    to: u64,
    progress_at: Time,
    wanted: bool,
}

/// No peer is waited for longer than this often doubled.
const LAPSES_MAX: u32 = 5;

impl CatchUp {
    pub(crate) fn is_busy(&self) -> bool {
        !self.missing.is_empty() || self.wanted.is_some() || self.request.is_some() || self.recheck
    }

    /// The state jumped: what is missing is counted once the engine's outputs are performed.
    pub(crate) fn recount_soon(&mut self) {
        self.state_jumped = true;
    }

    pub(crate) fn take_state_jumped(&mut self) -> bool {
        std::mem::take(&mut self.state_jumped)
    }

    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing.iter().map(|(_, r)| r.end - r.start).sum()
    }

    /// Compares the chosen output with what is held.
    pub(crate) fn recount(&mut self, engine: &Engine, store: &Store) {
        self.missing.clear();
        for stream in &engine.state().streams {
            let range = stream.trimmed..stream.length;
            for gap in store.holdings().missing(stream.name, range) {
                self.missing
                    .push_back((stream.name, gap.start.0..gap.end.0));
            }
        }
    }

    pub(crate) fn want(
        &mut self,
        stream: StreamName,
        range: Range<StreamPosition>,
        holders: &[NodeId],
    ) {
        let range = range.start.0..range.end.0;
        if !self
            .wanted
            .as_ref()
            .is_some_and(|w| w.stream == stream && w.range == range)
        {
            self.wanted = Some(Wanted {
                stream,
                range,
                holders: holders.to_vec(),
            });
        }
    }
}

impl Log {
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.catch_up.missing_bytes()
    }

    /// Asks for the next missing bytes, if there are any and the rate allows.
    pub(crate) fn pump_catch_up(&mut self, env: &mut Env) {
        if !self.catch_up.is_busy() {
            return;
        }
        self.forget_what_came();
        if self.catch_up.recheck && self.store.queued_bytes() == 0 {
            self.catch_up.recheck = false;
            self.recount_missing(env);
        }
        let catch_up = &mut self.catch_up;
        let passed = env
            .now
            .0
            .saturating_sub(catch_up.topped_up_at.0)
            .min(1_000_000);
        let gained = passed * env.limits.catch_up_rate / 1_000_000;
        if gained > 0 {
            catch_up.allowance =
                (catch_up.allowance + gained).min(env.limits.fetch_bytes_max.max(gained));
            catch_up.topped_up_at = env.now;
        }
        if let Some(request) = &catch_up.request {
            let patience = env.limits.fetch_timeout << catch_up.lapses.min(LAPSES_MAX);
            if env.now.0 <= request.progress_at.0 + patience {
                return;
            }
            catch_up.request = None;
            catch_up.turn += 1;
            catch_up.lapses += 1;
        }
        if self.store.queued_bytes() > env.limits.store_queue_bytes_max / 2 {
            return;
        }
        let (stream, range, holders, wanted) = match (&catch_up.wanted, catch_up.missing.front()) {
            (Some(w), _) => (w.stream, w.range.clone(), w.holders.clone(), true),
            (None, Some((stream, range))) => (*stream, range.clone(), Vec::new(), false),
            (None, None) => return,
        };
        let count = (range.end - range.start).min(env.limits.fetch_bytes_max);
        if !wanted && catch_up.allowance < count.min(1 << 20) {
            return;
        }
        let count = if wanted {
            count
        } else {
            count.min(catch_up.allowance)
        };
        let mut peers: Vec<NodeId> = self.alive.iter().copied().collect();
        if wanted {
            peers.retain(|p| holders.contains(p));
        } else if let Some((leader, _)) = self.engine.leader() {
            // The leader has enough to do: ask it last.
            peers.sort_by_key(|p| *p == leader);
            let others = peers.iter().filter(|p| **p != leader).count();
            if others > 0 && catch_up.turn % 4 != 3 {
                peers.truncate(others);
            }
        }
        if peers.is_empty() {
            return;
        }
        let peer = peers[catch_up.turn % peers.len()];
        catch_up.last_request += 1;
        catch_up.allowance = catch_up.allowance.saturating_sub(count);
        let request = Request {
            id: catch_up.last_request,
            peer,
            stream,
            next: range.start,
            to: range.start + count,
            progress_at: env.now,
            wanted,
        };
        env.send_fetch(
            peer,
            FetchBytes {
                log: self.id,
                request: request.id,
                stream,
                from: StreamPosition(request.next),
                to: StreamPosition(request.to),
            },
        );
        catch_up.request = Some(request);
        if env.now.0 > catch_up.told_at.0 + 1_000_000 {
            catch_up.told_at = env.now;
            let (missing, received) = (catch_up.missing_bytes(), catch_up.received);
            tracing::info!(
                log = self.id.0,
                missing,
                received,
                peer = peer.0,
                "catching up with bytes"
            );
        }
    }

    /// Drops what is held by now from the list of what is missing.
    fn forget_what_came(&mut self) {
        let before = self.catch_up.missing.is_empty();
        while let Some((stream, range)) = self.catch_up.missing.front().cloned() {
            let asked = StreamPosition(range.start)..StreamPosition(range.end);
            let gap = self.store.holdings().missing(stream, asked).next();
            match gap {
                None => {
                    self.catch_up.missing.pop_front();
                }
                Some(gap) => {
                    if let Some(front) = self.catch_up.missing.front_mut() {
                        front.1.start = gap.start.0;
                    }
                    break;
                }
            }
        }
        if let Some(wanted) = &self.catch_up.wanted {
            let range = StreamPosition(wanted.range.start)..StreamPosition(wanted.range.end);
            if self.store.holdings().holds(wanted.stream, range) {
                self.catch_up.wanted = None;
            }
        }
        if !before && self.catch_up.missing.is_empty() {
            self.catch_up.recheck = true;
        }
    }

    /// Bytes we asked for, checked against their digest.
    #[allow(clippy::too_many_arguments, reason = "the fields of one header")]
    pub(crate) fn on_fetched(
        &mut self,
        env: &mut Env,
        peer: NodeId,
        request: u64,
        stream: StreamName,
        position: StreamPosition,
        buffer: Buffer,
        length: usize,
    ) {
        let context = self.context();
        let Some(current) = &mut self.catch_up.request else {
            return;
        };
        let end = position.0 + length as u64;
        if current.id != request
            || current.peer != peer
            || current.stream != stream
            || current.next != position.0
        {
            return;
        }
        if end > current.to {
            return;
        }
        if env.now.0 <= current.progress_at.0 + env.limits.fetch_timeout {
            self.catch_up.lapses = 0;
        }
        current.next = end;
        current.progress_at = env.now;
        let done = current.next == current.to;
        self.catch_up.received += length as u64;
        self.counts.bytes_fetched += length as u64;
        let digest = crate::format::digest(&buffer[crate::format::RECORD_HEADER..][..length]);
        let tag = self.persisted.0;
        self.store.append(
            NewRecord::Bytes {
                stream,
                position,
                length,
                digest,
                buffer,
            },
            context,
            tag,
        );
        if done {
            let wanted = self.catch_up.request.take().is_some_and(|r| r.wanted);
            if !wanted
                && let Some((s, range)) = self.catch_up.missing.front_mut()
                && *s == stream
                && range.start < end
            {
                // On its way to disk: go on behind it. `recount` at the end finds what was lost.
                range.start = end.min(range.end);
                if range.start == range.end {
                    self.catch_up.missing.pop_front();
                    self.catch_up.recheck |= self.catch_up.missing.is_empty();
                }
            }
        }
        self.drain(env);
    }

    pub(crate) fn on_bytes_not_here(&mut self, env: &mut Env, peer: NodeId, request: u64) {
        if self
            .catch_up
            .request
            .as_ref()
            .is_some_and(|r| r.id == request && r.peer == peer)
        {
            self.catch_up.request = None;
            self.catch_up.turn += 1;
            // Another turn at the next round, not at once: the bytes may be on their way.
            self.catch_up.topped_up_at = env.now;
        }
    }
}
