//! A node tells each peer, in its heartbeats, of every log whose promise is news to it: the leader
//! that an idle log had must hear that its term is over.

use std::collections::BTreeMap;

use formats::LogId;
use paxos::{NodeId, PromisedTerm};

/// Heartbeats that may leave before one lists the promise. The first to each peer does.
const HEARTBEATS_MAX: u32 = 20;

/// The promises that one life of a node told in its heartbeats.
#[derive(Default)]
pub(super) struct Listing {
    listed: BTreeMap<LogId, PromisedTerm>,
    /// Logs with a promise that was not listed yet, and how many heartbeats went without.
    unlisted: BTreeMap<LogId, u32>,
}

impl Listing {
    /// The durable promise in a log; none while it leads there, or takes no part.
    pub fn look(&mut self, log: LogId, promised: Option<PromisedTerm>) {
        let listed = self.listed.get(&log).copied().unwrap_or_default();
        if promised.is_some_and(|promised| promised > listed) {
            self.unlisted.entry(log).or_default();
        } else {
            self.unlisted.remove(&log);
        }
    }

    /// Other logs are not hosted any more.
    pub fn keep(&mut self, hosted: impl Fn(LogId) -> bool) {
        self.unlisted.retain(|log, _| hosted(*log));
    }

    pub fn on_listed(&mut self, log: LogId, promised: PromisedTerm) {
        let listed = self.listed.entry(log).or_default();
        *listed = promised.max(*listed);
        self.unlisted.remove(&log);
    }

    /// A heartbeat left, and what it listed was told.
    pub fn on_heartbeat(&mut self, node: NodeId) {
        for (log, heartbeats) in &mut self.unlisted {
            *heartbeats += 1;
            assert!(
                *heartbeats <= HEARTBEATS_MAX,
                "liveness: node {node} sent {heartbeats} heartbeats without telling what it promised in log {}",
                log.0
            );
        }
    }
}
