//! The other nodes: one control connection to each, heartbeats, and who is alive.
//!
//! One heartbeat per pair of nodes serves all their logs. It lists a log only while its follower is
//! not level with its leader, or its promise changed, so that idle logs cost nothing.
//!
//! ```text
//! alive  =  heard within `peer_timeout`  and  its heartbeats answer ours within `peer_timeout`
//! ```

mod inbound;
mod outbound;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use paxos::mutation::{self, Mutation};
use paxos::{NodeId, PromisedTerm, Time};

pub use self::inbound::Inbound;
use self::outbound::Outbound;
use crate::beat::Beat;
use crate::buffer::{Buffer, Slice};
use crate::config::Standing;
use crate::env::{Env, Purpose};
use crate::format::Frame;
use crate::op::{BLOCK, ConnId};
use crate::replicate::Link;
use crate::version::{self, Speaks};
use crate::welcome::Welcome;
use crate::{DiskId, LogId};

#[derive(Default)]
pub struct Peers {
    pub peers: BTreeMap<NodeId, Peer>,
    pub beat: Beat,
    /// One of them said that this node was removed from the cluster.
    pub call_us_removed: bool,
    round: u64,
}

pub struct Peer {
    link: Link,
    outbound: Outbound,
    sending: bool,
    /// When the link came up, or was last found to work.
    up_at: Time,
    pub incoming: Option<ConnId>,
    pub heard_at: Time,
    pub answered_at: Time,
    /// The greatest round heard from it, which our heartbeats answer.
    heard_round: u64,
    answered_round: u64,
    /// Logs about which it sent its leader status since our last heartbeat.
    pub status_wanted: BTreeSet<LogId>,
    pub promise_told: BTreeMap<LogId, PromisedTerm>,
    pub alive: bool,
    pub free_bytes: u64,
    /// Logs of which it lacks bytes, by its last heartbeat.
    pub lacks: BTreeSet<LogId>,
    /// By its last greeting.
    pub standing: Option<Standing>,
    /// By its last greeting.
    pub speaks: Option<Speaks>,
    /// By its last greeting: a state may come to it in parts.
    pub takes_parts: bool,
    /// What its disk is written in, at least: by its heartbeats.
    pub disk_version: u8,
    /// Why it takes no connection of ours, as it said last.
    pub refuses_us: Option<String>,
    seen: Option<Seen>,
}

/// Which start of which disk a peer was when we last met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub disk: DiskId,
    pub incarnation: u32,
    pub nonce: u64,
}

impl Peer {
    fn new() -> Peer {
        Peer {
            link: Link::Down { retry_at: Time(0) },
            outbound: Outbound::default(),
            sending: false,
            up_at: Time(0),
            incoming: None,
            heard_at: Time(0),
            answered_at: Time(0),
            heard_round: 0,
            answered_round: 0,
            status_wanted: BTreeSet::new(),
            promise_told: BTreeMap::new(),
            alive: false,
            free_bytes: u64::MAX,
            lacks: BTreeSet::new(),
            standing: None,
            speaks: None,
            takes_parts: false,
            disk_version: version::FIRST,
            refuses_us: None,
            seen: None,
        }
    }

    /// ‡ Another disk, a lower incarnation, or an equal one with another nonce is somebody else.
    pub fn admit(&mut self, seen: Seen) -> Result<(), String> {
        let anybody = mutation::is(Mutation::EmptyDiskKeepsItsId);
        if let Some(before) = self.seen.filter(|_| !anybody) {
            if before.disk != seen.disk {
                return Err("it has another disk than the node of that id; a node that lost its disk joins anew, with --join and an empty directory".into());
            }
            if seen.incarnation < before.incarnation {
                return Err(
                    "its incarnation went back; its directory is an old copy and must not be used"
                        .into(),
                );
            }
            if seen.incarnation == before.incarnation && seen.nonce != before.nonce {
                return Err(
                    "two processes claim the same start of one node; its directory was copied"
                        .into(),
                );
            }
        }
        self.seen = Some(seen);
        Ok(())
    }

    pub fn on_heartbeat(&mut self, now: Time, round: u64, answers: u64, free_bytes: u64) {
        self.heard_at = now;
        self.heard_round = self.heard_round.max(round);
        if answers > self.answered_round {
            self.answered_round = answers;
            self.answered_at = now;
        }
        self.free_bytes = free_bytes;
    }

    /// A new control connection: perhaps of a new process, whose rounds begin again.
    pub fn on_greeted(&mut self, conn: ConnId) -> Option<ConnId> {
        self.heard_round = 0;
        self.incoming.replace(conn)
    }

    pub fn answers(&self) -> u64 {
        self.heard_round
    }
}

impl Peers {
    pub fn new(beat: Beat) -> Peers {
        Peers {
            beat,
            ..Peers::default()
        }
    }

    pub fn get_or_add(&mut self, id: NodeId) -> &mut Peer {
        self.peers.entry(id).or_insert_with(Peer::new)
    }

    /// It is never to be heard again. What is left open to it and from it.
    pub fn forget(&mut self, id: NodeId) -> Vec<ConnId> {
        let peer = self.peers.remove(&id);
        peer.map_or_else(Vec::new, |peer| {
            peer.link.conn().into_iter().chain(peer.incoming).collect()
        })
    }

    pub fn next_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }

    /// Peers whose liveness changed.
    pub fn judge(&mut self, env: &Env) -> Vec<(NodeId, bool)> {
        let timeout = env.limits.peer_timeout;
        let mut changed = Vec::new();
        for (id, peer) in &mut self.peers {
            let recent = |at: Time| at.0 != 0 && env.now.0 <= at.0 + timeout;
            let alive = recent(peer.heard_at) && recent(peer.answered_at);
            if alive != peer.alive {
                peer.alive = alive;
                tracing::info!(peer = id.0, alive, "peer");
                changed.push((*id, alive));
            }
        }
        changed
    }

    /// The way to a silent peer is tried anew: the old one may lead nowhere.
    pub fn on_silent(&mut self, env: &mut Env, id: NodeId) {
        if let Some(conn) = self.get_or_add(id).link.conn() {
            self.on_broken(env, id, conn);
        }
    }

    /// This process did not run for a while: silence meanwhile says nothing about the others.
    pub fn forgive(&mut self, by: u64) {
        for peer in self.peers.values_mut() {
            for at in [&mut peer.heard_at, &mut peer.answered_at] {
                if at.0 != 0 {
                    at.0 += by;
                }
            }
        }
    }

    pub fn next_judgement(&self, env: &Env) -> Option<Time> {
        let live = self.peers.values().filter(|p| p.alive);
        live.map(|p| Time(p.heard_at.0.min(p.answered_at.0) + env.limits.peer_timeout + 1))
            .min()
    }

    /// Closes connections that nobody answers on: a peer that vanished tells nobody.
    fn break_late(&mut self, env: &mut Env) {
        let mut late = Vec::new();
        for (id, peer) in &mut self.peers {
            if peer.alive {
                peer.up_at = env.now;
            }
            let vain = peer.link.is_up() && env.now.0 > peer.up_at.0 + 2 * env.limits.peer_timeout;
            if let Some(conn) = peer.link.conn()
                && (vain || peer.link.is_late(env))
            {
                late.push((*id, conn));
            }
        }
        for (id, conn) in late {
            self.on_broken(env, id, conn);
        }
    }

    /// Dials everybody that is not connected.
    pub fn dial(&mut self, env: &mut Env) {
        self.break_late(env);
        let addresses: Vec<(NodeId, String)> =
            env.addresses.iter().map(|(n, a)| (*n, a.clone())).collect();
        for (id, address) in addresses {
            let peer = self.get_or_add(id);
            if let Link::Down { retry_at } = peer.link
                && retry_at <= env.now
            {
                let conn = env.connect(address, Purpose::ControlOut(id));
                peer.link = Link::Connecting(conn, env.now);
            }
        }
    }

    pub fn send(&mut self, env: &mut Env, to: NodeId, frame: &Frame) {
        let peer = self.get_or_add(to);
        let Link::Up(_, version) = peer.link else {
            return; // Messages may be lost.
        };
        let part_bytes = peer.takes_parts.then_some(env.limits.part_bytes);
        peer.outbound.push(version, frame, part_bytes);
        Peers::flush(env, peer);
    }

    fn flush(env: &mut Env, peer: &mut Peer) {
        if let Link::Up(conn, version) = peer.link
            && !peer.sending
            && let Some(bytes) = peer.outbound.next(version, env.limits.part_bytes)
        {
            peer.sending = true;
            env.send(conn, vec![Slice::copied_from(&bytes)]);
        }
    }

    pub fn on_connected(&mut self, env: &mut Env, id: NodeId, conn: ConnId, ok: bool) {
        let peer = self.get_or_add(id);
        if peer.link.conn() != Some(conn) {
            return env.close(conn);
        }
        if !ok {
            return self.on_broken(env, id, conn);
        }
        peer.link = Link::Greeting(conn, env.now);
        let hello = env.hello(id, "control", LogId(0));
        env.send_bytes(conn, &hello);
        env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
    }

    /// The answer to our first line. True when the way to the peer is open (again).
    pub fn on_received(
        &mut self,
        env: &mut Env,
        id: NodeId,
        conn: ConnId,
        buffer: Buffer,
        got: Range<usize>,
    ) -> bool {
        let peer = self.get_or_add(id);
        if peer.link.conn() != Some(conn) {
            return false;
        }
        match peer.link.answer(env, &buffer, &got) {
            Welcome::Taken { version } => {
                peer.link = Link::Up(conn, version);
                peer.up_at = env.now;
                peer.sending = false;
                peer.outbound.clear();
                peer.promise_told.clear();
                peer.refuses_us = None;
                env.receive(conn, buffer, 0..BLOCK, false);
                return true;
            }
            Welcome::NotYet => env.receive(conn, buffer, got.end..BLOCK, false),
            Welcome::Refused(said) => {
                tracing::warn!(peer = id.0, said, "a peer refuses this node");
                peer.link = Link::Down {
                    retry_at: Time(env.now.0 + 1_000_000),
                };
                peer.refuses_us = Some(refusal_sentence(&said));
                self.call_us_removed |= said.starts_with("removed");
                env.close(conn);
            }
            Welcome::Nonsense => self.on_broken(env, id, conn),
        }
        false
    }

    pub fn on_sent(&mut self, env: &mut Env, id: NodeId, conn: ConnId, ok: bool) {
        let peer = self.get_or_add(id);
        if peer.link.conn() != Some(conn) {
            return;
        }
        if !ok {
            return self.on_broken(env, id, conn);
        }
        if peer.link.is_up() {
            peer.sending = false;
            Peers::flush(env, peer);
        }
    }

    pub fn on_broken(&mut self, env: &mut Env, id: NodeId, conn: ConnId) {
        env.close(conn);
        let now = env.now;
        let delay = env.limits.reconnect_delay;
        let peer = self.get_or_add(id);
        if peer.link.conn() == Some(conn) {
            let was_up = peer.link.is_up();
            // The first attempt after a break is at once, later ones are paced.
            peer.link = Link::Down {
                retry_at: if was_up { now } else { Time(now.0 + delay) },
            };
            peer.sending = false;
            peer.refuses_us = None; // nobody answers there now
            peer.outbound.clear();
            self.shorten(env, id);
        }
    }

    /// A connection with the peer broke: give it a short time to come back instead of the long one.
    pub fn shorten(&mut self, env: &Env, id: NodeId) {
        let deadline =
            (env.now.0 + env.limits.peer_reconnect_grace).saturating_sub(env.limits.peer_timeout);
        let peer = self.get_or_add(id);
        if peer.alive {
            peer.heard_at = Time(peer.heard_at.0.min(deadline).max(1));
        }
    }

    pub fn silent(&self) -> Vec<NodeId> {
        self.peers
            .iter()
            .filter(|(_, p)| !p.alive)
            .map(|(id, _)| *id)
            .collect()
    }
}

/// What is for people in `CODE key=value: SENTENCE`, and no more of it than fits into a line of `status`.
fn refusal_sentence(said: &str) -> String {
    let sentence = said.split_once(": ").map_or(said, |(_, sentence)| sentence);
    let printable = sentence.chars().filter(|c| !c.is_control());
    printable.take(REFUSAL_CHARS_MAX).collect()
}

const REFUSAL_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(disk: u8, incarnation: u32, nonce: u64) -> Seen {
        Seen {
            disk: DiskId([disk; 16]),
            incarnation,
            nonce,
        }
    }

    #[test]
    fn a_peer_with_another_disk_an_older_start_or_a_copy_is_refused() {
        let mut peer = Peer::new();
        assert!(peer.admit(seen(1, 4, 9)).is_ok());
        assert!(peer.admit(seen(1, 4, 9)).is_ok(), "the same start again");
        assert!(peer.admit(seen(2, 5, 1)).is_err(), "another disk");
        assert!(peer.admit(seen(1, 3, 1)).is_err(), "an older start");
        assert!(peer.admit(seen(1, 4, 8)).is_err(), "a copy running at once");
        assert!(peer.admit(seen(1, 5, 8)).is_ok(), "the next start");
    }
}
