//! Ids that greet as peers and that this node does not know: guests.
//!
//! Peers are the nodes of the directory, and the members of every configuration that this node knows. A node
//! that greets under another id may be a node that joins, of which this follower of the directory has not
//! heard; or a proper member, of which this node, away for long, has an old directory; or nobody of ours. A
//! guest is heard on one connection, for a while, within a small bound, and its words reach no engine. It is
//! dialled and told nothing that proves who this node is. Once it is known its connection ends, and it greets
//! anew as what it is.
//!
//! ```text
//!              the directory lists it, or a configuration known here has it
//!   guest  ────────────────────────────────────────────────────────────────────▶  peer
//!     │
//!     │  log 0 has had no leader here for 2 s:  "what is log 0's state?"   (as a guest of that node in turn)
//!     └── its answer is taken if it begins a later era, of which the guest is a member ──▶ known
//! ```
//!
//! The last way is for a node whose known members have all left the cluster meanwhile. Within one era it
//! needs no guest: a quorum of members that it knows tells it the same.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use formats::Frame;
use formats::frame::encode_control;
use ops::{BLOCK, Buffer, ConnId};
use paxos::{NodeId, Time};
use replica::{Env, Link, Purpose};
use wire::Request;
use wire::welcome::Welcome;

use crate::directory::DIRECTORY;

/// The most guests that are heard at once. When another comes, the one that was heard for longest goes.
pub(crate) const GUESTS_MAX: usize = 16;
/// The time after which a guest that is no peer may greet again.
pub(crate) const GUEST_TIME: Duration = Duration::from_secs(10);
/// The time without a leader of log 0 after which guests are asked for log 0's state where they are.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(2);
/// The least time between two such questions to one guest.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The most addresses of ids that the directory does not list (yet, or any more) that are dialled while log 0
/// has no leader.
pub(crate) const UNLISTED_DIALLED_MAX: usize = 64;
/// The time for which a directory has been current before addresses that an earlier start left in
/// `peers.json`, and that it does not list, are forgotten.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Guests {
    pub(crate) here: BTreeMap<NodeId, Guest>,
    /// The nodes named by the one that gave this one its id, until this node has a directory of its own.
    pub(crate) introduced: BTreeSet<NodeId>,
    /// The time since which log 0 has had no leader here.
    pub(crate) lost_since: Option<Time>,
    /// The time since which this node has followed log 0 without a break, and applied all of it.
    pub(crate) current_since: Option<Time>,
}

pub(crate) struct Guest {
    /// The guest says who it is, and proves nothing: it is told nothing that others may not know.
    pub withholds_disk: bool,
    pub incoming: ConnId,
    since: Time,
    pub address: String,
    /// Our connection to it.
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
            link: Link::Down {
                retry_at: Time::ZERO,
            },
            asked_at: None,
        }
    }

    pub fn conns(&self) -> impl Iterator<Item = ConnId> {
        [Some(self.incoming), self.link.conn()]
            .into_iter()
            .flatten()
    }

    pub fn is_over(&self, now: Time) -> bool {
        now >= self.since + GUEST_TIME
    }

    pub fn is_asked(&self) -> bool {
        self.asked_at.is_some()
    }

    /// Whether it is time for a question; then it counts as put.
    pub fn ask(&mut self, now: Time) -> bool {
        let is_time = self.asked_at.is_none_or(|at| now >= at + ASK_AGAIN);
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

    /// Whether log 0 has had no leader here for a while: perhaps all that this node knows have left.
    pub(crate) fn are_lost(&self, now: Time) -> bool {
        self.lost_since
            .is_some_and(|since| now >= since + LOST_AFTER)
    }

    pub(crate) fn is_settled(&self, now: Time) -> bool {
        self.current_since
            .is_some_and(|since| now >= since + SETTLED_AFTER)
    }

    /// Puts this question to guests, where it is time. Those that were peers to an earlier start of this node are
    /// dialled as peers, and returned: the question is to be sent to them.
    pub(crate) fn ask(&mut self, env: &mut Env, question: &Frame) -> Vec<NodeId> {
        let now = env.now;
        let mut as_peers = Vec::new();
        for (id, guest) in &mut self.here {
            if guest.withholds_disk {
                continue;
            }
            if env.peers.addresses.contains_key(id) {
                if guest.ask(now) {
                    as_peers.push(*id);
                }
                continue;
            }
            if guest.link.is_late(env)
                && let Some(conn) = guest.link.conn()
            {
                env.close(conn);
                guest.link = Link::Down { retry_at: now };
            }
            match guest.link {
                Link::Down { retry_at } if retry_at <= now && !guest.address.is_empty() => {
                    let address = guest.address.clone();
                    let conn = env.connect(address, Purpose::GuestOut(*id));
                    guest.link = Link::Connecting(conn, now);
                }
                Link::Up(conn, version) if !env.conns.is_sending(conn) => {
                    let asks = guest.ask(now);
                    let bytes = asks.then(|| encode_control(version, question));
                    bytes.iter().for_each(|bytes| env.send_bytes(conn, bytes));
                }
                _ => {}
            }
        }
        as_peers
    }

    pub(crate) fn on_connected(&mut self, env: &mut Env, id: NodeId, conn: ConnId, ok: bool) {
        let guest = self.here.get_mut(&id);
        let guest = guest.filter(|guest| guest.link.conn() == Some(conn));
        let Some(guest) = guest.filter(|_| ok) else {
            return self.on_broken(env, id, conn);
        };
        guest.link = Link::Greeting(conn, env.now);
        let hello = hello_as_guest(env, id);
        env.send_bytes(conn, &hello);
        env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
    }

    /// Takes the answer to our first line.
    pub(crate) fn on_answered(
        &mut self,
        env: &mut Env,
        id: NodeId,
        conn: ConnId,
        buffer: Buffer,
        got: Range<usize>,
    ) {
        let guest = self.here.get_mut(&id);
        let Some(guest) = guest.filter(|guest| guest.link.conn() == Some(conn)) else {
            return env.close(conn);
        };
        match guest.link.answer(env, &buffer, &got) {
            Welcome::Taken { version, .. } => {
                guest.link = Link::Up(conn, version);
                env.receive(conn, buffer, 0..BLOCK, false);
            }
            Welcome::NotYet => env.receive(conn, buffer, got.end..BLOCK, false),
            Welcome::Refused(_) | Welcome::Nonsense => self.on_broken(env, id, conn),
        }
    }

    fn on_broken(&mut self, env: &mut Env, id: NodeId, conn: ConnId) {
        env.close(conn);
        if let Some(guest) = self.here.get_mut(&id)
            && guest.link.conn() == Some(conn)
        {
            let retry_at = env.now + env.limits.connect_timeout;
            guest.link = Link::Down { retry_at };
        }
    }
}

/// The first line of a connection to a node of which nothing is known but its own word.
fn hello_as_guest(env: &Env, to: NodeId) -> Vec<u8> {
    let hello = Request::new("peer")
        .key("kind", "control")
        .key("log", DIRECTORY)
        .key("cluster", env.own.identity.cluster.to_string())
        .key("from", env.own.identity.node)
        .key("to", to)
        .key("guest", 1)
        .key("address", &env.own.advertise)
        .key("speaks", env.own.speaks);
    env.with_evidence(hello, to).encode()
}
