//! Who holds so much memory that it is divided with the others ([`replica::Share`]).

use formats::LogId;
use replica::{Log, Share};

use super::Node;

impl Node {
    /// A log that holds less than the least share is not counted: what it holds is not worth it.
    /// Every log that holds any is awake.
    pub(super) fn share_memory(&mut self, logs: &[LogId]) {
        let least = Share::of(&self.env.limits, u64::MAX);
        let holds = |log: &&Log| {
            log.ring_bytes() >= least.ring_bytes || log.store().queued_bytes() >= least.queue_bytes
        };
        let logs = logs.iter().filter_map(|id| self.logs.get(id));
        let logs = logs.filter(holds).count();
        self.env.room.share = Share::of(&self.env.limits, logs as u64);
    }
}
