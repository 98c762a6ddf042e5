//! The special conduct of a replica while it is auxiliary: it drops the bytes that it is released from.

use std::collections::BTreeMap;
use std::time::Duration;

use paxos::{Era, Slot, StreamName, StreamPosition, Time};

use crate::env::Env;
use crate::lent::Core;
use crate::trim::trim_store;

#[derive(Default)]
pub(crate) struct Auxiliary {
    /// The slot below which the bytes are the active members' to keep, in this era.
    released: Option<(Era, Slot)>,
    /// A segment may be removed only once the next one stands: then there may be more to drop.
    retry_at: Option<Time>,
    /// The open segment holds only released bytes: the next one may begin, and then this one go.
    wants_roll: bool,
}

const DROP_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Auxiliary {
    pub fn on_release(&mut self, core: &mut Core, env: &Env, below: Slot) {
        self.released = Some((core.engine.state().era, below));
        core.counts.releases += 1;
        self.drop_released(core, env);
    }

    pub fn deadline(&self) -> Option<Time> {
        self.retry_at
    }

    pub fn settle(&mut self, core: &mut Core, env: &Env) {
        if self.retry_at.is_some_and(|due| due <= env.now) {
            self.drop_released(core, env);
        }
    }

    fn drop_released(&mut self, core: &mut Core, env: &Env) {
        self.retry_at = None;
        let bytes = self.released(core);
        if bytes.is_empty() {
            return;
        }
        trim_store(core, &bytes);
        let released = |stream| bytes.get(&stream).copied().unwrap_or_default();
        self.wants_roll |= core.store.is_open_segment_trimmed(&released);
        if core.store.segments() > 1 || self.wants_roll {
            self.retry_at = Some(env.now + DROP_AGAIN_AFTER);
        }
    }

    /// For each stream, the position below which its bytes are the active members' to keep. ‡ Only while its
    /// era is the release's, and it is auxiliary there.
    pub fn released(&self, core: &Core) -> BTreeMap<StreamName, StreamPosition> {
        let holds = |era: Era| era == core.engine.state().era && core.engine.is_auxiliary();
        match self.released {
            Some((era, below)) if holds(era) => {
                core.engine.bytes_below(below).into_iter().collect()
            }
            _ => BTreeMap::new(),
        }
    }

    pub fn take_wants_roll(&mut self) -> bool {
        std::mem::take(&mut self.wants_roll)
    }
}
