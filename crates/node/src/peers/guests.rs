//! Ids that greet as peers and that this node does not know: guests.
//!
//! Peers are the nodes of the directory, and the members of every configuration that this node knows. Whoever greets
//! under another id may be a node that joins, of which this follower of the directory has not heard; or a proper
//! member, of which this node, away for long, has an old directory; or nobody of ours. A guest is heard on one
//! connection, for a while, within a small bound, and what it says reaches no engine. It is dialled and told nothing
//! that proves who this node is. Once it is known its connection ends, and it greets anew as what it is.
//!
//! ```text
//!              the directory lists it, or a configuration known here has it
//!   guest  ────────────────────────────────────────────────────────────────────▶  peer
//!     │
//!     │  log 0 has had no leader here for 2 s:  "what is log 0's state?"   (as a guest of that node in turn)
//!     └── its answer is taken if it begins a later era, of which the guest is a member ──▶ known
//! ```
//!
//! The last is for a node of which all that it knows have left the cluster meanwhile. Within one era it needs no
//! guest: a quorum of members that it knows tells it the same.

use std::collections::{BTreeMap, BTreeSet};

use ops::ConnId;
use paxos::{NodeId, Time};
use replica::Link;

/// Guests that are heard at once. When another comes, the one that was heard for longest goes.
pub(crate) const GUESTS_MAX: usize = 16;
/// A guest that is no peer by then may greet again. Microseconds.
pub(crate) const GUEST_TIME: u64 = 10_000_000;
/// Log 0 has had no leader for so long: guests are asked what it is like where they are.
pub(crate) const LOST_AFTER: u64 = 2_000_000;
/// Between two such questions to one guest.
const ASK_AGAIN: u64 = 1_000_000;
/// Addresses of ids that the directory does not list (yet, or any more) that are dialled while log 0 has no leader.
pub(crate) const UNLISTED_DIALLED_MAX: usize = 64;
/// What an earlier start left in `peers.json` is forgotten when a directory that has been current for so long does
/// not list it.
pub(crate) const SETTLED_AFTER: u64 = 10_000_000;

#[derive(Default)]
pub struct Guests {
    pub(crate) here: BTreeMap<NodeId, Guest>,
    /// Named by the node that gave this one its id, until this node has a directory of its own.
    pub(crate) introduced: BTreeSet<NodeId>,
    /// Since when log 0 has had no leader here.
    pub(crate) lost_since: Option<Time>,
    /// Since when this node has followed log 0 without a break, and applied all of it.
    pub(crate) current_since: Option<Time>,
}

pub(crate) struct Guest {
    /// It says who it is, and proves nothing: what it is told is nothing that others may not know.
    pub withholds_disk: bool,
    pub incoming: ConnId,
    since: Time,
    pub address: String,
    /// Ours to it.
    pub link: Link,
    asked_at: Option<Time>,
}

impl Guest {
    pub fn new(conn: ConnId, now: Time, address: String, withholds_disk: bool) -> Guest {
        Guest {
            withholds_disk,
            incoming: conn,
            since: now,
            address,
            link: Link::Down { retry_at: Time(0) },
            asked_at: None,
        }
    }

    pub fn conns(&self) -> impl Iterator<Item = ConnId> {
        [Some(self.incoming), self.link.conn()]
            .into_iter()
            .flatten()
    }

    pub fn is_over(&self, now: Time) -> bool {
        now.0 >= self.since.0 + GUEST_TIME
    }

    pub fn is_asked(&self) -> bool {
        self.asked_at.is_some()
    }

    /// Whether it is time for a question; then it counts as put.
    pub fn ask(&mut self, now: Time) -> bool {
        let is_time = self.asked_at.is_none_or(|at| now.0 >= at.0 + ASK_AGAIN);
        if is_time {
            self.asked_at = Some(now);
        }
        is_time
    }
}

impl Guests {
    /// The guest that has to go so that another may come.
    pub(crate) fn makes_room(&self) -> Option<NodeId> {
        let longest = self.here.iter().min_by_key(|(_, guest)| guest.since);
        let longest = longest.map(|(id, _)| *id);
        longest.filter(|_| self.here.len() >= GUESTS_MAX)
    }

    /// Log 0 has had no leader here for a while: perhaps all that this node knows have left.
    pub(crate) fn are_lost(&self, now: Time) -> bool {
        self.lost_since
            .is_some_and(|since| now.0 >= since.0 + LOST_AFTER)
    }

    pub(crate) fn is_settled(&self, now: Time) -> bool {
        self.current_since
            .is_some_and(|since| now.0 >= since.0 + SETTLED_AFTER)
    }
}
