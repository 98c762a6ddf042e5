//! A leader brings its proposals to every other replica: one connection each, each at its own pace.
//!
//! Shape:  ring -> socket of each follower.
//! Units:  cursors count entries of the ring; a send carries up to `send_bytes_max` bytes.
//! Errors: a broken connection is dialled again and everything unchosen is sent once more. A
//!         follower slower than the ring skips what is chosen and catches up by itself.

use std::ops::Range;

use formats::DataHeader;
use formats::frame::ProposeHeader;
use ops::{BLOCK, Buffer, ConnId, Slice};
use paxos::{NodeId, Term, Time};
use wire::welcome::{self, Welcome};

use crate::env::{Env, Purpose};
use crate::log::Log;

pub struct Follower {
    link: Link,
    /// The next entry of the ring to send.
    cursor: u64,
    sending: bool,
    /// When the cursor was last moved back or the peer's acceptance last grew.
    progress_at: Time,
    accepted_up_to: u64,
    /// An auxiliary at rest: nothing is sent to it.
    rests: bool,
}

pub enum Link {
    Down {
        retry_at: Time,
    },
    /// Since then.
    Connecting(ConnId, Time),
    /// Our first line is out, the peer's answer is not in. Since then.
    Greeting(ConnId, Time),
    /// All frames are in this version.
    Up(ConnId, u8),
}

impl Link {
    pub fn conn(&self) -> Option<ConnId> {
        match self {
            Link::Down { .. } => None,
            Link::Connecting(c, _) | Link::Greeting(c, _) | Link::Up(c, _) => Some(*c),
        }
    }

    /// Whoever should answer does not: a connection may be lost without anybody being told.
    pub fn is_late(&self, env: &Env) -> bool {
        match self {
            Link::Connecting(_, since) | Link::Greeting(_, since) => {
                env.now.0 > since.0 + env.limits.connect_timeout
            }
            Link::Down { .. } | Link::Up(..) => false,
        }
    }

    /// What was received so far in answer to our first line. Later nothing is to be received.
    pub fn answer(&self, env: &Env, buffer: &Buffer, got: &Range<usize>) -> Welcome {
        if !matches!(self, Link::Greeting(..)) {
            return Welcome::Nonsense;
        }
        match welcome::read(env.speaks, &buffer[..got.end]) {
            // The connection ended, or nobody says so much.
            Welcome::NotYet if got.is_empty() || got.end == BLOCK => Welcome::Nonsense,
            welcome => welcome,
        }
    }

    pub fn is_up(&self) -> bool {
        matches!(self, Link::Up(..))
    }
}

/// A connection that has carried nothing for so long is given up where connections are scarce: the next
/// batch waits for another one, some three round trips. Microseconds.
const LINK_IDLE: u64 = 10_000_000;

/// Without progress for so long, a follower is sent everything unchosen again.
const RESEND_AFTER: u64 = 500_000;

impl Follower {
    fn new(cursor: u64, now: Time) -> Follower {
        Follower {
            link: Link::Down { retry_at: Time(0) },
            cursor,
            sending: false,
            progress_at: now,
            accepted_up_to: 0,
            rests: false,
        }
    }
}

impl Log {
    /// After becoming leader of a term, or again in a later one.
    pub(crate) fn begin_replication(&mut self, env: &mut Env, term: Term) {
        let before = self.ring.term();
        if self
            .engine
            .took_over_from()
            .is_some_and(|f| f.term == before)
        {
            // By a casting vote: each follower goes on where it stands.
            return self.ring.go_on(term);
        }
        self.ring.begin(term);
        let first = self.ring.first_beyond(self.engine.first_unchosen());
        for follower in self.followers.values_mut() {
            follower.cursor = first;
            follower.accepted_up_to = 0;
            follower.progress_at = env.now;
        }
    }

    pub fn end_replication(&mut self, env: &mut Env) {
        self.ring.clear();
        for (_, follower) in std::mem::take(&mut self.followers) {
            if let Some(conn) = follower.link.conn() {
                env.close(conn);
            }
        }
    }

    /// Sends each follower what is next for it, as far as its connection takes it.
    pub(crate) fn replicate(&mut self, env: &mut Env) {
        if !self.is_leading() {
            return;
        }
        let first_unchosen = self.engine.first_unchosen();
        let peers: Vec<NodeId> = env.addresses.keys().copied().collect();
        for peer in peers {
            let first = self.ring.first_beyond(first_unchosen);
            let follower = self
                .followers
                .entry(peer)
                .or_insert_with(|| Follower::new(first, env.now));
            if !self.engine.wants_proposals(peer) {
                follower.rests = true;
                continue;
            }
            if std::mem::take(&mut follower.rests) {
                follower.cursor = first; // all that is not chosen
                follower.progress_at = env.now;
                self.counts.engaged += 1;
            }
            let accepted = self.engine.peer_accepted_up_to(peer).map_or(0, |s| s.0);
            if accepted > follower.accepted_up_to || follower.cursor < self.ring.end() {
                follower.accepted_up_to = accepted;
                follower.progress_at = env.now;
            } else if accepted < self.engine.proposed_up_to().0
                && first < self.ring.end()
                && env.now.0 > follower.progress_at.0 + RESEND_AFTER
            {
                follower.cursor = first;
                follower.progress_at = env.now;
            }
            match follower.link {
                Link::Down { retry_at } if follower.cursor < self.ring.end() => {
                    if self.alive.contains(&peer)
                        && retry_at <= env.now
                        && let Some(address) = env.addresses.get(&peer).cloned()
                    {
                        let conn = env.connect(address, Purpose::DataOut(self.id, peer));
                        follower.link = Link::Connecting(conn, env.now);
                    }
                }
                Link::Up(conn, version) if !follower.sending => {
                    let mut slices: Vec<Slice> = Vec::new();
                    let mut bytes = 0;
                    follower.cursor = follower.cursor.max(self.ring.base());
                    while bytes < env.limits.send_bytes_max
                        && let Some(entry) = self.ring.get(follower.cursor)
                    {
                        let mut proposal = entry.proposal.clone();
                        proposal.chosen_up_to = first_unchosen;
                        let payload_length = entry.payload.as_ref().map_or(0, |p| p.len());
                        let header = DataHeader::Propose(ProposeHeader::new(
                            self.id,
                            &proposal,
                            payload_length,
                        ));
                        slices.push(Slice::copied_from(&header.encode(version)));
                        bytes += payload_length + slices[slices.len() - 1].len();
                        slices.extend(entry.payload.clone());
                        follower.cursor += 1;
                    }
                    if !slices.is_empty() {
                        follower.sending = true;
                        self.counts.proposal_bytes_sent += bytes as u64;
                        env.send(conn, slices);
                    }
                }
                _ => {}
            }
        }
    }

    /// Before new proposals are refused for want of memory: a share may have become smaller while nothing
    /// happened here, and then nothing else would come to make room.
    pub(crate) fn make_room(&mut self, env: &Env) {
        if !self.is_leading() {
            return;
        }
        let sent_to_all = self
            .followers
            .iter()
            .filter(|(peer, f)| self.alive.contains(peer) && !f.rests)
            .map(|(_, f)| f.cursor)
            .min()
            .unwrap_or(u64::MAX);
        self.ring.evict(
            self.engine.first_unchosen(),
            env.share.ring_bytes,
            sent_to_all,
            env.share.tail_bytes,
        );
    }

    /// Everything unchosen goes to this peer again: it, or its way to us, came back.
    pub fn resend_to(&mut self, peer: NodeId) {
        let first = self.ring.first_beyond(self.engine.first_unchosen());
        if let Some(follower) = self.followers.get_mut(&peer) {
            follower.cursor = first;
        }
    }

    pub fn on_data_out_connected(&mut self, env: &mut Env, peer: NodeId, conn: ConnId, ok: bool) {
        let Some(follower) = self.followers.get_mut(&peer) else {
            return env.close(conn);
        };
        if follower.link.conn() != Some(conn) {
            return env.close(conn);
        }
        if !ok {
            return self.on_data_out_broken(env, peer, conn);
        }
        follower.link = Link::Greeting(conn, env.now);
        let hello = env.hello(peer, "data", self.id);
        env.send_bytes(conn, &hello);
        env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
    }

    /// The peer's answer to our first line; later, anything at all means the end.
    pub fn on_data_out_received(
        &mut self,
        env: &mut Env,
        peer: NodeId,
        conn: ConnId,
        buffer: Buffer,
        got: Range<usize>,
    ) {
        let first = self.ring.first_beyond(self.engine.first_unchosen());
        let Some(follower) = self.followers.get_mut(&peer) else {
            return env.close(conn);
        };
        if follower.link.conn() != Some(conn) {
            return;
        }
        match follower.link.answer(env, &buffer, &got) {
            Welcome::Taken { version } => {
                follower.link = Link::Up(conn, version);
                follower.cursor = first;
                follower.sending = false;
                env.receive(conn, buffer, 0..BLOCK, false);
            }
            Welcome::NotYet => env.receive(conn, buffer, got.end..BLOCK, false),
            _ => self.on_data_out_broken(env, peer, conn),
        }
    }

    pub fn on_data_out_sent(&mut self, env: &mut Env, peer: NodeId, conn: ConnId, ok: bool) {
        let Some(follower) = self.followers.get_mut(&peer) else {
            return;
        };
        if follower.link.conn() != Some(conn) {
            return;
        }
        if !ok {
            return self.on_data_out_broken(env, peer, conn);
        }
        if follower.link.is_up() {
            follower.sending = false;
        }
    }

    pub(crate) fn on_data_out_broken(&mut self, env: &mut Env, peer: NodeId, conn: ConnId) {
        env.close(conn);
        let first = self.ring.first_beyond(self.engine.first_unchosen());
        if let Some(follower) = self.followers.get_mut(&peer)
            && follower.link.conn() == Some(conn)
        {
            follower.link = Link::Down {
                retry_at: Time(env.now.0 + env.limits.reconnect_delay),
            };
            follower.cursor = first;
            follower.sending = false;
        }
    }

    /// Closes what leads to this peer: it is silent, so nobody may ever tell us that it is gone.
    pub fn break_links(&mut self, env: &mut Env, peer: NodeId) {
        let follower = self.followers.get(&peer).and_then(|f| f.link.conn());
        if let Some(conn) = follower {
            self.on_data_out_broken(env, peer, conn);
        }
        let feeder = self.feeders.get(&peer).and_then(|f| f.link.conn());
        if let Some(conn) = feeder {
            self.on_feed_broken(env, peer, conn);
        }
        for conn in self.sources_of(peer) {
            self.close_source(env, conn, None);
        }
    }

    /// Of a log that rests: its next proposal makes new ones.
    pub fn close_idle_links(&mut self, env: &mut Env) {
        let rests = self.engine.first_unchosen() == self.engine.proposed_up_to();
        if !rests || env.now.0 < self.last_chosen_at.0 + LINK_IDLE {
            return;
        }
        for follower in self.followers.values_mut() {
            if let Link::Up(conn, _) = follower.link
                && !follower.sending
                && (follower.rests || follower.cursor == self.ring.end())
            {
                env.close(conn);
                follower.link = Link::Down { retry_at: env.now };
            }
        }
    }

    /// As `break_links`, where a peer takes too long to answer. True if there was one.
    pub fn break_late_links(&mut self, env: &mut Env) -> bool {
        let late = |link: &Link| link.conn().filter(|_| link.is_late(env));
        let followers = self.followers.iter();
        let followers = followers.filter_map(|(peer, f)| Some((*peer, late(&f.link)?)));
        let followers: Vec<_> = followers.collect();
        let feeders = self.feeders.iter();
        let feeders = feeders.filter_map(|(peer, f)| Some((*peer, late(&f.link)?)));
        let feeders: Vec<_> = feeders.collect();
        let any = !followers.is_empty() || !feeders.is_empty();
        for (peer, conn) in followers {
            self.on_data_out_broken(env, peer, conn);
        }
        for (peer, conn) in feeders {
            self.on_feed_broken(env, peer, conn);
        }
        any
    }

    pub(crate) fn check_replication(&self) {
        let (base, end) = (self.ring.base(), self.ring.end());
        for (peer, follower) in &self.followers {
            paxos::invariant!(
                follower.cursor <= end,
                "node {peer} is sent entry {} of {base}..{end}",
                follower.cursor
            );
        }
        let (first, proposed) = (self.engine.first_unchosen(), self.engine.proposed_up_to());
        if self.is_leading() && first < proposed {
            let covered = self.ring.covers();
            paxos::invariant!(
                covered.start <= first && covered.end == proposed,
                "a leader can send all that it proposed: {first} to {proposed} of {covered}"
            );
        }
    }
}
