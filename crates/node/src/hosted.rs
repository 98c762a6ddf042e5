//! Guests of this node: state machines that are not the node's own, one for each log that somebody made one for.
//!
//! ```text
//!  a log appears ─▶ Hosts, by its name ─▶ a Hosted is attached ─▶ after each round of the log: what it has, then on_settled
//! ```
//!
//! The directory is a guest of log 0 by the same port, and part of the node since it steers it.

mod small;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use formats::LogId;
use paxos::Time;
use replica::{Event, Port};

use crate::directory::DIRECTORY;
use crate::node::Node;

pub use small::{CallId, Outcome, Small};

/// A guest of one log. It reads no clock and draws no randomness, so that it lives in a simulated node, too.
pub trait Hosted {
    /// Where in the log's output it goes on: what it keeps itself may stand for all before.
    fn from(&self) -> u64 {
        0
    }

    /// Whether it takes more now. What it does not take waits in the log.
    fn takes_more(&self) -> bool {
        true
    }

    /// The next event of its log.
    fn on_event(&mut self, event: Event, port: &mut Port<'_>);

    /// Something happened to its log, or its deadline came, and it has taken what it takes.
    fn on_settled(&mut self, now: Time, port: &mut Port<'_>);

    /// When it wants to be looked at in any case.
    fn deadline(&self) -> Option<Time> {
        None
    }
}

type Make = dyn Fn(&str) -> Option<Box<dyn Hosted>> + Send + Sync;

/// Which guests this node has: asked with the name of each log that appears here.
#[derive(Clone)]
pub struct Hosts(Arc<Make>);

impl Hosts {
    pub fn new(make: impl Fn(&str) -> Option<Box<dyn Hosted>> + Send + Sync + 'static) -> Hosts {
        Hosts(Arc::new(make))
    }
}

impl Default for Hosts {
    fn default() -> Hosts {
        Hosts::new(|_| None)
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hosts")
    }
}

pub(crate) type HostedLogs = BTreeMap<LogId, Box<dyn Hosted>>;

impl Node {
    /// The guest that somebody made for this log is attached.
    pub(crate) fn attach_hosted(&mut self, id: LogId) {
        let Some(log) = self.logs.get_mut(&id).filter(|_| id != DIRECTORY) else {
            return;
        };
        let make = &self.config.hosts.0;
        if let Some(hosted) = make(log.name()) {
            log.attach(hosted.from(), false);
            self.hosted.insert(id, hosted);
        }
    }

    /// Hands each guest what its log has. Those that are due are looked at in any case.
    pub(crate) fn serve_hosted(&mut self, settled: &BTreeSet<LogId>) {
        let now = self.env.now;
        for id in settled {
            let (Some(hosted), Some(log)) = (self.hosted.get_mut(id), self.logs.get_mut(id)) else {
                continue;
            };
            if log.is_stopped() {
                continue;
            }
            let mut port = log.port(&mut self.env);
            while hosted.takes_more()
                && let Some(event) = port.next_event()
            {
                hosted.on_event(event, &mut port);
            }
            hosted.on_settled(now, &mut port);
            if port.is_dirty() {
                self.due.touch(*id);
            }
        }
    }

    pub(crate) fn hosted_deadline(&self) -> Option<Time> {
        self.hosted
            .values()
            .filter_map(|hosted| hosted.deadline())
            .min()
    }

    pub(crate) fn hosted_due(&self) -> Vec<LogId> {
        let now = self.env.now;
        let due = self.hosted.iter();
        let due = due.filter(|(_, hosted)| hosted.deadline().is_some_and(|due| due <= now));
        due.map(|(id, _)| *id).collect()
    }
}
