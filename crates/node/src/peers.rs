//! The other nodes: one control connection to each, heartbeats, and their liveness.
//!
//! One heartbeat per pair of nodes serves all their logs. It lists a log only while its follower is
//! not level with its leader, or its promise changed, so that idle logs cost nothing.

mod admission;
mod controls;
pub mod file;
pub(crate) mod guests;
pub mod hello;
mod inbound;
mod outbound;
mod peer;
pub mod places;
mod way;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use formats::proof::Evidence;
use formats::{DiskId, Frame, LogId, parse_hex16};
use ops::{BLOCK, Buffer, ConnId};
use paxos::{NodeId, Time};
use replica::{Env, Link, Purpose};
use wire::welcome::Welcome;

pub use self::admission::{Entry, NotAdmitted, Proof, SaidOfItself};
use self::guests::Guests;
pub use self::inbound::Inbound;
pub use self::peer::Peer;
pub use self::places::Places;
use crate::beat::Beat;

/// A peer's word that this node's directory is an old copy.
pub struct CalledOld {
    pub by: NodeId,
    /// The disk that the speaker claims to have, which says who it is.
    pub disk: Option<DiskId>,
    /// The words that this node said itself, and should know.
    pub evidence: Option<Evidence>,
    pub why: String,
}

#[derive(Default)]
pub struct Peers {
    by_id: BTreeMap<NodeId, Peer>,
    pub beat: Beat,
    /// The places where they may be, besides where they are thought to be.
    pub places: Places,
    /// Whether one of them was found elsewhere.
    found: bool,
    /// The word, from the address of one of them, that this node's directory is an old copy.
    call_us_old: Option<CalledOld>,
    /// Incoming control connections: the bytes that arrived and are no whole frame yet.
    pub controls: BTreeMap<ConnId, Inbound>,
    /// Nodes that greeted under ids that this node does not know.
    pub guests: Guests,
    /// The time since which peers are silent.
    away_since: BTreeMap<NodeId, Time>,
    /// The addresses by the directory, when it was last known to be current.
    listed_addresses: BTreeMap<NodeId, String>,
    round: u64,
}

impl Peers {
    pub fn new(beat: Beat, places: Places) -> Peers {
        Peers {
            beat,
            places,
            ..Peers::default()
        }
    }

    /// The peers that are alive.
    pub fn live(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.by_id.iter().filter(|(_, peer)| peer.is_alive())
    }

    /// The time for which a peer has been silent. One that was never heard is silent since this was asked first.
    fn silent_for(&mut self, now: Time, id: NodeId) -> Duration {
        let since = self.away_since.entry(id).or_insert(now);
        now - *since
    }

    /// Notes the address that the directory lists. True if it is another than before, and was listed before.
    pub fn on_listed(&mut self, id: NodeId, address: &str) -> bool {
        let seen = self.listed_addresses.insert(id, address.to_owned());
        seen.is_some_and(|seen| seen != address)
    }

    /// Whether no address of the directory was looked at yet.
    pub fn none_is_listed(&self) -> bool {
        self.listed_addresses.is_empty()
    }

    pub fn is_alive(&self, id: NodeId) -> bool {
        self.by_id.get(&id).is_some_and(Peer::is_alive)
    }

    /// Whether it is alive, and its replica of the log has not stopped: a replica that stopped is as good as silent.
    pub fn runs(&self, id: NodeId, log: LogId) -> bool {
        let peer = self.by_id.get(&id);
        peer.is_some_and(|peer| peer.is_alive() && peer.said.stopped_at(log).is_none())
    }

    /// The time for which nothing was to be had from its replica of the log.
    pub fn out_for(&mut self, now: Time, id: NodeId, log: LogId) -> Duration {
        let stopped_at = self.get(id).filter(|peer| peer.is_alive());
        let stopped_at = stopped_at.and_then(|peer| peer.said.stopped_at(log));
        match stopped_at {
            Some(at) => now - at,
            None => self.silent_for(now, id),
        }
    }

    /// Opens the entries that waited for this version of what is known of all, which stands on disk: their
    /// nodes are heard, on their connections.
    pub fn open_entries(&mut self, version: u64) -> Vec<(NodeId, ConnId)> {
        let open = |(id, peer): (&NodeId, &mut Peer)| Some((*id, peer.admission.open(version)?));
        self.by_id.iter_mut().filter_map(open).collect()
    }

    pub fn get(&self, id: NodeId) -> Option<&Peer> {
        self.by_id.get(&id)
    }

    pub fn contains(&self, id: NodeId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.by_id.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&NodeId, &mut Peer)> {
        self.by_id.iter_mut()
    }

    pub fn get_or_add(&mut self, id: NodeId) -> &mut Peer {
        self.by_id.entry(id).or_insert_with(Peer::new)
    }

    /// Forgets a node, which is never to be heard again. Returns the connections left open to it and from it.
    pub fn forget(&mut self, id: NodeId) -> Vec<ConnId> {
        self.places.forget(id);
        self.away_since.remove(&id);
        let peer = self.by_id.remove(&id);
        peer.map_or_else(Vec::new, |peer| {
            let incoming = peer.admission.incoming();
            peer.way.link.conn().into_iter().chain(incoming).collect()
        })
    }

    /// True if one of them was found elsewhere since this was last asked.
    pub fn take_found(&mut self) -> bool {
        std::mem::take(&mut self.found)
    }

    pub fn take_called_old(&mut self) -> Option<CalledOld> {
        self.call_us_old.take()
    }

    /// The last round that was said.
    pub fn round(&self) -> u64 {
        self.round
    }

    pub fn next_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }

    /// Judges the peers. Returns those whose liveness changed.
    pub fn judge(&mut self, env: &Env) -> Vec<(NodeId, bool)> {
        let since = env.now - env.limits.peer_timeout;
        let mut changed = Vec::new();
        for (id, peer) in &mut self.by_id {
            if let Some(alive) = peer.pulse.judge(since) {
                tracing::info!(peer = id.0, alive, "peer");
                changed.push((*id, alive));
                match alive {
                    true => self.away_since.remove(id),
                    false => self.away_since.insert(*id, env.now),
                };
            }
        }
        changed
    }

    /// Tries the way to a silent peer anew: the old one may lead nowhere.
    pub fn on_silent(&mut self, env: &mut Env, id: NodeId) {
        if let Some(conn) = self.get_or_add(id).way.link.conn() {
            self.on_broken(env, id, conn);
        }
    }

    /// Forgives silence: this process did not run for a while, so silence meanwhile says nothing about the others.
    pub fn forgive(&mut self, by: Duration) {
        for peer in self.by_id.values_mut() {
            peer.pulse.forgive(by);
        }
    }

    pub fn next_judgement(&self, env: &Env) -> Option<Time> {
        let lived_at = self.live().map(|(_, peer)| peer.pulse.lived_at()).min()?;
        Some(lived_at + env.limits.peer_timeout + Duration::from_micros(1))
    }

    /// Closes connections that nobody answers on: a peer that vanished tells nobody.
    fn break_late(&mut self, env: &mut Env) {
        let mut late = Vec::new();
        // Its own way to here takes as long as ours to it.
        let extra = env.answered_within() - env.limits.connect_timeout;
        let in_vain_after = 2 * env.limits.peer_timeout + extra;
        for (id, peer) in &mut self.by_id {
            if peer.is_alive() {
                peer.way.up_at = env.now;
            }
            let vain = peer.way.link.is_up() && env.now > peer.way.up_at + in_vain_after;
            if let Some(conn) = peer.way.link.conn()
                && (vain || peer.way.link.is_late(env))
            {
                late.push((*id, conn));
            }
        }
        for (id, conn) in late {
            self.on_broken(env, id, conn);
        }
    }

    /// Dials every node that is not connected, but for those.
    pub fn dial(&mut self, env: &mut Env, but: &[NodeId]) {
        self.break_late(env);
        let dialled = env
            .peers
            .addresses
            .iter()
            .filter(|(id, _)| !but.contains(id));
        let addresses: Vec<(NodeId, String)> = dialled.map(|(n, a)| (*n, a.clone())).collect();
        for (id, usual) in addresses {
            let peer = self.by_id.entry(id).or_insert_with(Peer::new);
            if let Link::Down { retry_at } = peer.way.link
                && retry_at <= env.now
            {
                let address = self.places.choose(id, &usual, peer.way.attempts).to_owned();
                peer.way.attempts = peer.way.attempts.wrapping_add(1);
                peer.way.dialled.clone_from(&address);
                let conn = env.connect(address, Purpose::ControlOut(id));
                peer.way.link = Link::Connecting(conn, env.now);
            }
        }
    }

    /// The place that was dialled for this node is another's.
    pub fn found_another(&mut self, meant: NodeId, found: NodeId) {
        let dialled = self.by_id.get(&meant).map(|peer| peer.way.dialled.clone());
        if let Some(dialled) = dialled {
            self.places.is_of(found, &dialled);
        }
    }

    /// Whether a message to this node may arrive: there is a way to it.
    pub fn hears(&self, to: NodeId) -> bool {
        let way = self.by_id.get(&to).map(|peer| &peer.way);
        way.is_some_and(|way| way.link.is_up())
    }

    pub fn send(&mut self, env: &mut Env, to: NodeId, frame: &Frame) {
        // Messages may be lost, and a node that is not dialled is told nothing.
        if let Some(peer) = self.by_id.get_mut(&to) {
            peer.way.send(env, frame);
        }
    }

    pub fn on_connected(&mut self, env: &mut Env, id: NodeId, conn: ConnId, ok: bool) {
        let peer = self.get_or_add(id);
        if peer.way.link.conn() != Some(conn) {
            return env.close(conn);
        }
        if !ok {
            return self.on_broken(env, id, conn);
        }
        peer.way.link = Link::Greeting(conn, env.now);
        let hello = env.hello(id, "control", LogId(0));
        env.send_bytes(conn, &hello);
        env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
    }

    /// Takes the answer to our first line. True when the way to the peer is open (again).
    pub fn on_received(
        &mut self,
        env: &mut Env,
        id: NodeId,
        conn: ConnId,
        buffer: Buffer,
        got: Range<usize>,
    ) -> bool {
        let peer = self.get_or_add(id);
        if peer.way.link.conn() != Some(conn) {
            return false;
        }
        match peer.way.link.answer(env, &buffer, &got) {
            Welcome::Taken { version, challenge } => {
                peer.way.link = Link::Up(conn, version);
                env.peers.links.insert(id, version);
                peer.way.on_up(env.now, challenge);
                peer.told.forget();
                let dialled = peer.way.dialled.clone();
                let found = self.is_at(env, id, dialled);
                self.found |= found;
                env.receive(conn, buffer, 0..BLOCK, false);
                return true;
            }
            Welcome::NotYet => env.receive(conn, buffer, got.end..BLOCK, false),
            Welcome::Refused(said) if said.starts_with("busy") => {
                tracing::info!(peer = id.0, said, "a peer puts this node off");
                peer.way.link = Link::Down {
                    retry_at: env.now + 3 * env.limits.heartbeat_interval,
                };
                env.close(conn);
            }
            Welcome::Refused(said) if said_node(&said).is_some_and(|node| node != id) => {
                // The address is another node's.
                let found = said_node(&said).unwrap_or(id);
                let dialled = peer.way.dialled.clone();
                tracing::warn!(
                    peer = id.0,
                    found = found.0,
                    address = dialled,
                    "another node answers there"
                );
                let is_usual = env.peers.addresses.get(&id) == Some(&dialled);
                let pause = match is_usual {
                    true => REFUSED_PAUSE,
                    false => env.limits.reconnect_delay,
                };
                peer.way.link = Link::Down {
                    retry_at: env.now + pause,
                };
                if is_usual {
                    peer.way.refuses_us = Some(refusal_sentence(&said));
                }
                self.places.is_of(found, &dialled);
                env.close(conn);
            }
            Welcome::Refused(said) => {
                tracing::warn!(peer = id.0, said, "a peer refuses this node");
                peer.way.link = Link::Down {
                    retry_at: env.now + REFUSED_PAUSE,
                };
                let sentence = refusal_sentence(&said);
                peer.way.refuses_us = Some(sentence.clone());
                peer.way.calls_us_removed = said.starts_with("removed");
                if said.starts_with(OLD_COPY) {
                    let disk = said_key(&said, "disk=").and_then(parse_hex16);
                    self.call_us_old = Some(CalledOld {
                        by: id,
                        disk: disk.map(DiskId),
                        evidence: said_key(&said, "evidence=").and_then(|e| e.parse().ok()),
                        why: sentence,
                    });
                }
                env.close(conn);
            }
            Welcome::Nonsense => self.on_broken(env, id, conn),
        }
        false
    }

    pub fn on_sent(&mut self, env: &mut Env, id: NodeId, conn: ConnId, ok: bool) {
        let peer = self.get_or_add(id);
        if peer.way.link.conn() != Some(conn) {
            return;
        }
        if !ok {
            return self.on_broken(env, id, conn);
        }
        peer.way.on_sent(env);
    }

    pub fn on_broken(&mut self, env: &mut Env, id: NodeId, conn: ConnId) {
        env.close(conn);
        let now = env.now;
        let delay = env.limits.reconnect_delay;
        let peer = self.get_or_add(id);
        if peer.way.link.conn() == Some(conn) {
            env.peers.links.remove(&id);
            let was_up = peer.way.link.is_up();
            // The first attempt after a break is at once, later ones are paced.
            peer.way.link = Link::Down {
                retry_at: if was_up { now } else { now + delay },
            };
            peer.way.refuses_us = None; // nobody answers there now
            peer.way.clear();
            self.shorten(env, id);
        }
    }

    /// Notes that the node answers there. True if it was thought to be elsewhere.
    fn is_at(&mut self, env: &mut Env, id: NodeId, address: String) -> bool {
        match env.peers.addresses.insert(id, address.clone()) {
            Some(before) if before != address => {
                self.places.note(id, &before);
                true
            }
            _ => false,
        }
    }

    /// Gives a peer whose connection broke a short time to come back instead of the long one.
    pub fn shorten(&mut self, env: &Env, id: NodeId) {
        self.get_or_add(id).pulse.shorten(env.now, &env.limits);
    }

    /// Sentences about the servers that answer in the places of peers and take no connection of ours.
    pub fn refusals(&self, addresses: &BTreeMap<NodeId, String>) -> Vec<String> {
        let peers = self.by_id.iter();
        let refusals = peers.filter_map(|(id, peer)| {
            let why = peer.way.refuses_us.as_deref()?;
            let address = addresses.get(id)?;
            Some(format!(
                "waiting for node {id}: at {address} this node is refused: {why}"
            ))
        });
        refusals.collect()
    }

    pub fn silent(&self) -> Vec<NodeId> {
        self.by_id
            .iter()
            .filter(|(_, p)| !p.is_alive())
            .map(|(id, _)| *id)
            .collect()
    }
}

/// The code of a refusal.
pub const OLD_COPY: &str = "old-copy";

/// The part for people in `CODE key=value: SENTENCE`, and no more of it than fits into a line of `status`.
fn refusal_sentence(said: &str) -> String {
    let sentence = said.split_once(": ").map_or(said, |(_, sentence)| sentence);
    let printable = sentence.chars().filter(|c| !c.is_control());
    printable.take(REFUSAL_CHARS_MAX).collect()
}

/// The time after which a node that refuses this one is asked again.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
const REFUSAL_CHARS_MAX: usize = 300;

/// The node that answers there, if the refusal names it.
fn said_node(said: &str) -> Option<NodeId> {
    let id = said_key(said, "node=")?;
    Some(NodeId(id.parse::<u32>().ok().filter(|id| *id > 0)?))
}

/// The value behind a key of `CODE key=value: SENTENCE`.
pub(crate) fn said_key<'a>(said: &'a str, key: &str) -> Option<&'a str> {
    let (head, _) = said.split_once(": ")?;
    head.split(' ').find_map(|word| word.strip_prefix(key))
}
