//! The other nodes: one control connection to each, heartbeats, and who is alive.
//!
//! One heartbeat per pair of nodes serves all their logs. It lists a log only while its follower is
//! not level with its leader, or its promise changed, so that idle logs cost nothing.
//!
//! ```text
//! alive  =  heard within `peer_timeout`  and  its heartbeats answer ours within `peer_timeout`
//! ```

pub mod file;
pub(crate) mod guests;
mod inbound;
mod outbound;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use formats::frame::WishTold;
use formats::proof::{Challenge, Evidence, PublicKey, Signature};
use formats::version::{self, Speaks};
use formats::{DiskId, Frame, LogId, parse_hex16};
use ops::{BLOCK, Buffer, ConnId, Slice};
use paxos::mutation::{self, Mutation};
use paxos::{NodeId, PromisedTerm, Time};
use replica::{Env, Limits, Link, Purpose};
use store::past::Lacks;
use store::past::met::Seen;
use thiserror::Error;
use wire::Standing;
use wire::welcome::Welcome;

pub use self::inbound::Inbound;
use self::outbound::Outbound;
pub use self::places::Places;
use crate::beat::Beat;

/// Somebody says that this node's directory is an old copy.
pub struct CalledOld {
    pub by: NodeId,
    /// The disk that whoever says so claims to have: who he is.
    pub disk: Option<DiskId>,
    /// What this node said itself, and should know.
    pub evidence: Option<Evidence>,
    pub why: String,
}

#[derive(Default)]
pub struct Peers {
    pub peers: BTreeMap<NodeId, Peer>,
    pub beat: Beat,
    /// Where they may be, besides where they are thought to be.
    pub places: Places,
    /// One of them was found elsewhere.
    pub found: bool,
    /// What answers at the address of one of them said that this node's directory is an old copy.
    pub call_us_old: Option<CalledOld>,
    round: u64,
}

pub struct Peer {
    link: Link,
    /// Where it was dialled last, and how often since it answered.
    dialled: String,
    attempts: u32,
    /// By its last greeting, of a disk that the directory knows for its own.
    pub said_address: Option<String>,
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
    /// What it, leading the directory, was told that logs have chosen.
    pub wishes_told: BTreeMap<LogId, WishTold>,
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
    /// What answered at its address last said that this node was removed from the cluster.
    pub calls_us_removed: bool,
    /// Why it takes no connection of ours, as it said last.
    pub refuses_us: Option<String>,
    /// Its last start that was admitted, by this start of ours or by an earlier one.
    pub seen: Option<Seen>,
    /// What it says that it is, on its control connection.
    pub claim: Option<Seen>,
    /// The words of a greeting that is not proven yet.
    pub unproven: Option<SaidOfItself>,
    /// By what it proves that it is, if its disk has a key.
    pub proof: Option<Proof>,
    /// What it asked this node to sign, on our connection to it.
    pub challenges_us: Option<Challenge>,
    /// Whether its frames are heard.
    pub entry: Entry,
    /// Which start of it is refused, and why: it hears so when it greets again.
    pub lacks_start: Option<(Seen, Lacks)>,
    /// Why what came last as this node was not it, but an old copy of it.
    pub old_copy: Option<String>,
    /// Where it said that it can be dialled, while the directory did not say which disk it has.
    pub unproven_address: Option<String>,
}

/// A node's word of itself, in its greeting.
pub struct SaidOfItself {
    pub standing: Standing,
    pub address: String,
    /// The directory knows its disk for that of the node.
    pub is_listed: bool,
    /// On a control connection.
    pub speaks: Option<Speaks>,
}

/// By what a disk with a key proves a start of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub key: PublicKey,
    pub signature: Signature,
    /// To be signed by the first frame.
    pub challenge: Challenge,
}

/// Why somebody who greets is not taken for the node whose id he says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotAdmitted {
    #[error(
        "it has another disk than the node of that id; a node that lost its disk joins anew, with --join and an empty directory"
    )]
    OtherDisk,
    #[error("its incarnation went back; its directory is an old copy and must not be used")]
    WentBack,
    #[error("two processes claim the same start of one node; its directory was copied")]
    Copied,
    #[error(
        "another start of that node is connected and speaks; if it was stopped, this one is heard in a moment"
    )]
    InUse,
    #[error(
        "it says that it is its start number {claimed}, and {known} is the last that this node knows: nobody starts so often; if its directory is sound, restart this node"
    )]
    TooFar { claimed: u32, known: u32 },
    #[error(transparent)]
    Lacks(Lacks),
}

impl NotAdmitted {
    /// It must not go on: what it forgot others count on.
    pub fn is_old_copy(self) -> bool {
        matches!(
            self,
            NotAdmitted::WentBack | NotAdmitted::Copied | NotAdmitted::Lacks(_)
        )
    }
}

/// The code of a refusal.
pub const OLD_COPY: &str = "old-copy";

/// Whether a peer's frames are heard on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Open,
    /// It is to say first what its disk has been through.
    AwaitsPast,
    /// Until this version of what is known of all stands on our disk.
    AwaitsDisk(u64),
}

/// So often a node may have started, at most, since this one met it last. A start number that is believed is never
/// gone back from, so one that nobody can have come to must not be believed.
const STARTS_MAX: u32 = 1 << 20;
/// Of a node that is met first: far enough from the end that it can start as often as it likes.
const FIRST_INCARNATION_MAX: u32 = 1 << 30;

/// Whether who claims this may be the node that was met.
fn goes_on_as(seen: Seen, claim: Seen, is_in_use: bool) -> Result<(), NotAdmitted> {
    if claim.disk != seen.disk {
        return Err(NotAdmitted::OtherDisk);
    }
    let anybody = mutation::is(Mutation::OlderStartAdmitted);
    if claim.incarnation < seen.incarnation && !anybody {
        return Err(NotAdmitted::WentBack);
    }
    if claim.incarnation <= seen.incarnation {
        return match claim.nonce == seen.nonce || anybody {
            true => Ok(()),
            false => Err(NotAdmitted::Copied),
        };
    }
    match is_in_use {
        true => Err(NotAdmitted::InUse),
        false => Ok(()),
    }
}

impl Peer {
    fn new() -> Peer {
        Peer {
            link: Link::Down { retry_at: Time(0) },
            dialled: String::new(),
            attempts: 0,
            said_address: None,
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
            wishes_told: BTreeMap::new(),
            alive: false,
            free_bytes: u64::MAX,
            lacks: BTreeSet::new(),
            standing: None,
            speaks: None,
            takes_parts: false,
            disk_version: version::FIRST,
            calls_us_removed: false,
            refuses_us: None,
            seen: None,
            claim: None,
            unproven: None,
            proof: None,
            challenges_us: None,
            entry: Entry::Open,
            lacks_start: None,
            old_copy: None,
            unproven_address: None,
        }
    }

    /// It was heard a moment ago.
    pub fn speaks_now(&self, now: Time, limits: &Limits) -> bool {
        now < self.heard_at + 4 * limits.heartbeat_interval
    }

    /// Which disk it said that it has.
    pub fn disk(&self) -> Option<DiskId> {
        self.claim.or(self.seen).map(|seen| seen.disk)
    }

    /// ‡ Another disk, a lower incarnation, or an equal one with another nonce is somebody else.
    ///
    /// `is_listed`: the directory says that the node of this id has this disk, which is the only proof there is.
    /// Without it (this node has not read so far) a claim holds until one comes that is listed.
    /// `is_in_use`: the node that was admitted last is there and speaks.
    pub fn admit(&self, claim: Seen, is_listed: bool, is_in_use: bool) -> Result<(), NotAdmitted> {
        let anybody = mutation::is(Mutation::EmptyDiskKeepsItsId);
        let before = self.seen.filter(|_| !anybody);
        match before {
            Some(before) if before.disk != claim.disk && is_listed => {}
            Some(before) => goes_on_as(before, claim, is_in_use)?,
            None => {}
        }
        let known = before.filter(|before| before.disk == claim.disk);
        let known = known.map_or(0, |before| before.incarnation);
        let limit = match before {
            Some(_) => known.saturating_add(STARTS_MAX),
            None => FIRST_INCARNATION_MAX,
        };
        if claim.incarnation > limit && !anybody {
            let (claimed, known) = (claim.incarnation, known);
            return Err(NotAdmitted::TooFar { claimed, known });
        }
        if let Some((refused, lacks)) = self.lacks_start
            && refused == claim
        {
            return Err(NotAdmitted::Lacks(lacks));
        }
        Ok(())
    }

    /// `said`: our last round. What answers a later one was meant for an earlier process of this node.
    pub fn on_heartbeat(
        &mut self,
        now: Time,
        round: u64,
        answers: u64,
        said: u64,
        free_bytes: u64,
    ) {
        self.heard_at = now;
        self.heard_round = self.heard_round.max(round);
        if answers > self.answered_round && answers <= said {
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
    pub fn new(beat: Beat, places: Places) -> Peers {
        Peers {
            beat,
            places,
            ..Peers::default()
        }
    }

    pub fn get_or_add(&mut self, id: NodeId) -> &mut Peer {
        self.peers.entry(id).or_insert_with(Peer::new)
    }

    /// It is never to be heard again. What is left open to it and from it.
    pub fn forget(&mut self, id: NodeId) -> Vec<ConnId> {
        self.places.forget(id);
        let peer = self.peers.remove(&id);
        peer.map_or_else(Vec::new, |peer| {
            peer.link.conn().into_iter().chain(peer.incoming).collect()
        })
    }

    /// The last one that was said.
    pub fn round(&self) -> u64 {
        self.round
    }

    pub fn next_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }

    /// Peers whose liveness changed.
    pub fn judge(&mut self, env: &Env) -> Vec<(NodeId, bool)> {
        let since = env.now - env.limits.peer_timeout;
        let mut changed = Vec::new();
        for (id, peer) in &mut self.peers {
            let recent = |at: Time| at.0 != 0 && at >= since;
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
        let first = live.map(|p| p.heard_at.min(p.answered_at)).min();
        first.map(|at| at + env.limits.peer_timeout + Duration::from_micros(1))
    }

    /// Closes connections that nobody answers on: a peer that vanished tells nobody.
    fn break_late(&mut self, env: &mut Env) {
        let mut late = Vec::new();
        for (id, peer) in &mut self.peers {
            if peer.alive {
                peer.up_at = env.now;
            }
            let vain = peer.link.is_up() && env.now > peer.up_at + 2 * env.limits.peer_timeout;
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

    /// Dials everybody that is not connected, but for those.
    pub fn dial(&mut self, env: &mut Env, but: &[NodeId]) {
        self.break_late(env);
        let dialled = env
            .peers
            .addresses
            .iter()
            .filter(|(id, _)| !but.contains(id));
        let addresses: Vec<(NodeId, String)> = dialled.map(|(n, a)| (*n, a.clone())).collect();
        for (id, usual) in addresses {
            let peer = self.peers.entry(id).or_insert_with(Peer::new);
            if let Link::Down { retry_at } = peer.link
                && retry_at <= env.now
            {
                let address = self.places.choose(id, &usual, peer.attempts).to_owned();
                peer.attempts = peer.attempts.wrapping_add(1);
                peer.dialled.clone_from(&address);
                let conn = env.connect(address, Purpose::ControlOut(id));
                peer.link = Link::Connecting(conn, env.now);
            }
        }
    }

    pub fn send(&mut self, env: &mut Env, to: NodeId, frame: &Frame) {
        // Messages may be lost, and to nobody who is not dialled is anything said.
        let Some(peer) = self.peers.get_mut(&to) else {
            return;
        };
        let Link::Up(_, version) = peer.link else {
            return;
        };
        if frame.since() > version {
            return; // It would end the connection.
        }
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
            Welcome::Taken { version, challenge } => {
                peer.link = Link::Up(conn, version);
                peer.challenges_us = challenge;
                env.peers.links.insert(id, version);
                peer.up_at = env.now;
                peer.sending = false;
                peer.outbound.clear();
                peer.promise_told.clear();
                peer.wishes_told.clear();
                peer.refuses_us = None;
                peer.calls_us_removed = false;
                peer.attempts = 0;
                let dialled = peer.dialled.clone();
                let found = self.is_at(env, id, dialled);
                self.found |= found;
                env.receive(conn, buffer, 0..BLOCK, false);
                return true;
            }
            Welcome::NotYet => env.receive(conn, buffer, got.end..BLOCK, false),
            Welcome::Refused(said) if said.starts_with("busy") => {
                tracing::info!(peer = id.0, said, "a peer puts this node off");
                peer.link = Link::Down {
                    retry_at: env.now + 3 * env.limits.heartbeat_interval,
                };
                env.close(conn);
            }
            Welcome::Refused(said) if said_node(&said).is_some_and(|node| node != id) => {
                // That is another one's address.
                let found = said_node(&said).unwrap_or(id);
                let dialled = peer.dialled.clone();
                tracing::warn!(
                    peer = id.0,
                    found = found.0,
                    address = dialled,
                    "another node answers there"
                );
                let is_usual = env.peers.addresses.get(&id) == Some(&dialled);
                let pause = match is_usual {
                    true => Duration::from_secs(1),
                    false => env.limits.reconnect_delay,
                };
                peer.link = Link::Down {
                    retry_at: env.now + pause,
                };
                if is_usual {
                    peer.refuses_us = Some(refusal_sentence(&said));
                }
                self.places.is_of(found, &dialled);
                env.close(conn);
            }
            Welcome::Refused(said) => {
                tracing::warn!(peer = id.0, said, "a peer refuses this node");
                peer.link = Link::Down {
                    retry_at: Time(env.now.0 + 1_000_000),
                };
                let sentence = refusal_sentence(&said);
                peer.refuses_us = Some(sentence.clone());
                peer.calls_us_removed = said.starts_with("removed");
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
            env.peers.links.remove(&id);
            let was_up = peer.link.is_up();
            // The first attempt after a break is at once, later ones are paced.
            peer.link = Link::Down {
                retry_at: if was_up { now } else { now + delay },
            };
            peer.sending = false;
            peer.refuses_us = None; // nobody answers there now
            peer.outbound.clear();
            self.shorten(env, id);
        }
    }

    /// It answers there. True if it was thought to be elsewhere.
    fn is_at(&mut self, env: &mut Env, id: NodeId, address: String) -> bool {
        match env.peers.addresses.insert(id, address.clone()) {
            Some(before) if before != address => {
                self.places.note(id, &before);
                true
            }
            _ => false,
        }
    }

    /// A connection with the peer broke: give it a short time to come back instead of the long one.
    pub fn shorten(&mut self, env: &Env, id: NodeId) {
        let deadline = env.now + env.limits.peer_reconnect_grace - env.limits.peer_timeout;
        let peer = self.get_or_add(id);
        if peer.alive {
            peer.heard_at = peer.heard_at.min(deadline).max(Time(1));
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

/// Which node answers there, if the refusal says that.
fn said_node(said: &str) -> Option<NodeId> {
    let id = said_key(said, "node=")?;
    Some(NodeId(id.parse::<u32>().ok().filter(|id| *id > 0)?))
}

/// The value behind a key of `CODE key=value: SENTENCE`.
pub(crate) fn said_key<'a>(said: &'a str, key: &str) -> Option<&'a str> {
    let (head, _) = said.split_once(": ")?;
    head.split(' ').find_map(|word| word.strip_prefix(key))
}

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

    fn admit(
        peer: &mut Peer,
        claim: Seen,
        is_listed: bool,
        in_use: bool,
    ) -> Result<(), NotAdmitted> {
        peer.admit(claim, is_listed, in_use)?;
        peer.seen = Some(claim);
        Ok(())
    }

    #[test]
    fn a_peer_with_another_disk_an_older_start_or_a_copy_is_refused() {
        let mut peer = Peer::new();
        let mut admit = |seen: Seen| admit(&mut peer, seen, true, false);
        assert_eq!(admit(seen(1, 4, 9)), Ok(()));
        assert_eq!(admit(seen(1, 4, 9)), Ok(()), "the same start again");
        assert_eq!(admit(seen(1, 3, 1)), Err(NotAdmitted::WentBack));
        assert_eq!(admit(seen(1, 4, 8)), Err(NotAdmitted::Copied));
        assert_eq!(admit(seen(1, 5, 8)), Ok(()), "the next start");
    }

    #[test]
    fn only_the_disk_that_the_directory_lists_takes_a_name_from_who_has_it() {
        let mut peer = Peer::new();
        assert_eq!(
            admit(&mut peer, seen(1, 4, 9), false, false),
            Ok(()),
            "not read yet"
        );
        let other = admit(&mut peer, seen(2, 5, 1), false, false);
        assert_eq!(other, Err(NotAdmitted::OtherDisk));
        assert_eq!(
            admit(&mut peer, seen(2, 3, 1), true, true),
            Ok(()),
            "it is the real one"
        );
        let former = admit(&mut peer, seen(1, 6, 9), false, false);
        assert_eq!(former, Err(NotAdmitted::OtherDisk));
    }

    #[test]
    fn a_name_in_use_is_not_taken_over_by_a_higher_number() {
        let mut peer = Peer::new();
        assert_eq!(admit(&mut peer, seen(1, 4, 9), true, false), Ok(()));
        let taken = admit(&mut peer, seen(1, 5, 1), true, true);
        assert_eq!(taken, Err(NotAdmitted::InUse));
        assert_eq!(
            admit(&mut peer, seen(1, 4, 9), true, true),
            Ok(()),
            "it is itself"
        );
        assert_eq!(
            admit(&mut peer, seen(1, 5, 1), true, false),
            Ok(()),
            "it fell silent"
        );
    }

    #[test]
    fn nobody_starts_four_billion_times() {
        let mut peer = Peer::new();
        assert!(admit(&mut peer, seen(1, u32::MAX, 1), true, false).is_err());
        assert_eq!(admit(&mut peer, seen(1, 700, 1), true, false), Ok(()));
        let claimed = u32::MAX;
        let far = admit(&mut peer, seen(1, claimed, 2), true, false);
        assert_eq!(
            far,
            Err(NotAdmitted::TooFar {
                claimed,
                known: 700
            })
        );
        assert_eq!(
            admit(&mut peer, seen(1, 701, 3), true, false),
            Ok(()),
            "the real one"
        );
        let long = admit(&mut peer, seen(1, 701 + STARTS_MAX, 4), true, false);
        assert_eq!(long, Ok(()), "it was away for long");
    }
}
