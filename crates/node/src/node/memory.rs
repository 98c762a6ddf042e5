//! Who holds so much memory that it is divided with the others ([`replica::Share`]).

use replica::{Log, Share};

use super::Node;

impl Node {
    /// A log that holds less than the least share is not counted: what it holds is not worth it.
    pub(super) fn share_memory(&mut self) {
        let least = Share::of(&self.env.limits, u64::MAX);
        let holds = |log: &&Log| {
            log.ring_bytes() >= least.ring_bytes || log.store().queued_bytes() >= least.queue_bytes
        };
        let logs = self.logs.values().filter(holds).count();
        self.env.share = Share::of(&self.env.limits, logs as u64);
    }
}
