//! What a replica does differently while it is auxiliary: it drops the bytes that it is released
//! from, and takes no more when its disk is almost full.

use std::collections::BTreeMap;

use paxos::{Era, Proposal, Slot, StreamName, StreamPosition, Time, Value};

use crate::env::Env;
use crate::log::Log;

#[derive(Default)]
pub(super) struct Auxiliary {
    /// The bytes of the slots below are the active members' to keep, in this era.
    released: Option<(Era, Slot)>,
    /// A segment may be removed only once the next one stands: then there may be more to drop.
    retry_at: Option<Time>,
    warned_at: Time,
    /// The open segment holds only what is released: the next one may begin, and then this one go.
    wants_roll: bool,
}

const RETRY: u64 = 1_000_000;
const WARN_EVERY: u64 = 10_000_000;

impl Log {
    pub(super) fn on_release(&mut self, env: &Env, below: Slot) {
        self.auxiliary.released = Some((self.core.engine.state().era, below));
        self.core.counts.releases += 1;
        self.drop_released(env);
    }

    pub(super) fn auxiliary_deadline(&self) -> Option<Time> {
        self.auxiliary.retry_at
    }

    pub(super) fn settle_auxiliary(&mut self, env: &Env) {
        if self.auxiliary.retry_at.is_some_and(|due| due <= env.now) {
            self.drop_released(env);
        }
    }

    fn drop_released(&mut self, env: &Env) {
        self.auxiliary.retry_at = None;
        let bytes = self.released();
        if bytes.is_empty() {
            return;
        }
        self.trim_store();
        let released = |stream| bytes.get(&stream).copied().unwrap_or_default();
        self.auxiliary.wants_roll |= self.core.store.is_open_segment_trimmed(&released);
        if self.core.store.segments() > 1 || self.auxiliary.wants_roll {
            self.auxiliary.retry_at = Some(Time(env.now.0 + RETRY));
        }
    }

    /// Of each stream, below which position its bytes are the active members' to keep. ‡ Only while
    /// its era is the release's, and it is auxiliary there.
    pub(crate) fn released(&self) -> BTreeMap<StreamName, StreamPosition> {
        let holds =
            |era: Era| era == self.core.engine.state().era && self.core.engine.is_auxiliary();
        match self.auxiliary.released {
            Some((era, below)) if holds(era) => {
                self.core.engine.bytes_below(below).into_iter().collect()
            }
            _ => BTreeMap::new(),
        }
    }

    pub(super) fn take_wants_roll(&mut self) -> bool {
        std::mem::take(&mut self.auxiliary.wants_roll)
    }

    /// An auxiliary keeps its reserve: promises, states and other logs need it.
    pub(super) fn declines(&mut self, env: &Env, proposal: &Proposal) -> bool {
        let content = matches!(proposal.value, Value::Content { .. });
        if !content || !self.core.engine.is_auxiliary() || !env.is_full() {
            return false;
        }
        if self.auxiliary.warned_at == Time(0)
            || env.now.0 > self.auxiliary.warned_at.0 + WARN_EVERY
        {
            self.auxiliary.warned_at = env.now;
            tracing::warn!(
                log = self.core.id.0,
                name = self.core.name,
                free_bytes = env.free_bytes,
                reserve = env.limits.disk_reserve_bytes,
                "this auxiliary's disk is almost full: it takes no bytes until there is space; bring the active nodes back or free space"
            );
        }
        self.core.counts.proposals_declined += 1;
        true
    }
}
