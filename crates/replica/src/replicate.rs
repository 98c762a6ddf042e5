//! A leader brings its proposals to every other replica: one connection each, each at its own pace.
//!
//! Shape:  ring -> socket of each follower.
//! Units:  cursors count entries of the ring; a send carries up to `send_bytes_max` bytes.
//! Errors: a broken connection is dialled again and everything unchosen is sent once more. A
//!         follower slower than the ring skips what is chosen and catches up by itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use formats::DataHeader;
use formats::frame::ProposeHeader;
use ops::{BLOCK, Buffer, ConnId, Slice};
use paxos::{NodeId, Term, Time};
use wire::welcome::{self, Welcome};

use crate::conns::Purpose;
use crate::env::Env;
use crate::lent::Core;

struct Follower {
    link: Link,
    /// The next entry of the ring to send.
    cursor: u64,
    sending: bool,
    /// The time when the cursor was last moved back or the peer's acceptance last grew.
    progress_at: Time,
    accepted_up_to: u64,
    /// The follower is an auxiliary at rest, or its disk is almost full: nothing is sent to it.
    rests: bool,
}

pub enum Link {
    Down {
        retry_at: Time,
    },
    /// The connection is being made, since then.
    Connecting(ConnId, Time),
    /// Our first line is out since then, and the peer's answer is not in.
    Greeting(ConnId, Time),
    /// The connection is up. All frames are in this version.
    Up(ConnId, u8),
}

impl Link {
    pub fn conn(&self) -> Option<ConnId> {
        match self {
            Link::Down { .. } => None,
            Link::Connecting(c, _) | Link::Greeting(c, _) | Link::Up(c, _) => Some(*c),
        }
    }

    /// Whether the peer should have answered by now: a connection may be lost without anybody being told.
    pub fn is_late(&self, env: &Env) -> bool {
        match self {
            Link::Connecting(_, since) | Link::Greeting(_, since) => {
                env.now > *since + env.answered_within()
            }
            Link::Down { .. } | Link::Up(..) => false,
        }
    }

    /// The answer to our first line, as far as it was received. Later nothing is to be received.
    pub fn answer(&self, env: &Env, buffer: &Buffer, got: &Range<usize>) -> Welcome {
        if !matches!(self, Link::Greeting(..)) {
            return Welcome::Nonsense;
        }
        match welcome::read(env.own.speaks, &buffer[..got.end]) {
            // The connection ended, or the answer is longer than any.
            Welcome::NotYet if got.is_empty() || got.end == BLOCK => Welcome::Nonsense,
            welcome => welcome,
        }
    }

    pub fn is_up(&self) -> bool {
        matches!(self, Link::Up(..))
    }
}

/// The time after which an unused connection is given up where connections are scarce: the next batch waits
/// for another one, some three round trips.
const LINK_IDLE: Duration = Duration::from_secs(10);

/// The time without progress after which a follower is sent everything unchosen again.
const RESEND_AFTER: Duration = Duration::from_millis(500);

impl Follower {
    fn new(cursor: u64, now: Time) -> Follower {
        Follower {
            link: Link::Down {
                retry_at: Time::ZERO,
            },
            cursor,
            sending: false,
            progress_at: now,
            accepted_up_to: 0,
            rests: false,
        }
    }
}

/// Each peer's place in this leader's proposals, and the connection that they go by.
#[derive(Default)]
pub(crate) struct Followers {
    by_node: BTreeMap<NodeId, Follower>,
}

impl Followers {
    /// Begins after becoming leader of a term, or again in a later one.
    pub fn begin(&mut self, core: &mut Core, env: &mut Env, term: Term) {
        let before = core.ring.term();
        if core
            .engine
            .took_over_from()
            .is_some_and(|f| f.term == before)
        {
            // The term took over by a casting vote: each follower goes on where it stands.
            return core.ring.go_on(term);
        }
        core.ring.begin(term);
        let first = core.ring.first_beyond(core.engine.first_unchosen());
        for follower in self.by_node.values_mut() {
            follower.cursor = first;
            follower.accepted_up_to = 0;
            follower.progress_at = env.now;
        }
    }

    pub fn end(&mut self, core: &mut Core, env: &mut Env) {
        core.ring.clear();
        for (_, follower) in std::mem::take(&mut self.by_node) {
            if let Some(conn) = follower.link.conn() {
                env.close(conn);
            }
        }
    }

    /// Sends each follower its next proposals, as far as its connection takes them.
    pub fn replicate(&mut self, core: &mut Core, env: &mut Env) {
        if !core.is_leading() {
            return;
        }
        let first_unchosen = core.engine.first_unchosen();
        let first = core.ring.first_beyond(first_unchosen);
        // The peers are those that were here once, and those that are: the hosts of this log, and not all of
        // the cluster.
        for peer in &core.alive {
            let follower = || Follower::new(first, env.now);
            self.by_node.entry(*peer).or_insert_with(follower);
        }
        for (&peer, follower) in &mut self.by_node {
            if !env.peers.addresses.contains_key(&peer) {
                continue;
            }
            if !core.engine.wants_proposals(peer) || core.leaves_behind(env, peer) {
                follower.rests = true;
                continue;
            }
            if std::mem::take(&mut follower.rests) {
                follower.cursor = first; // all that is not chosen
                follower.progress_at = env.now;
                let configuration = &core.engine.state().configuration;
                core.counts.engaged += u64::from(configuration.is_auxiliary(peer));
            }
            let accepted = core.engine.peer_accepted_up_to(peer).map_or(0, |s| s.0);
            if accepted > follower.accepted_up_to || follower.cursor < core.ring.end() {
                follower.accepted_up_to = accepted;
                follower.progress_at = env.now;
            } else if accepted < core.engine.proposed_up_to().0
                && first < core.ring.end()
                && env.now > follower.progress_at + RESEND_AFTER
            {
                follower.cursor = first;
                follower.progress_at = env.now;
            }
            match follower.link {
                Link::Down { retry_at } if follower.cursor < core.ring.end() => {
                    if core.alive.contains(&peer)
                        && retry_at <= env.now
                        && let Some(address) = env.peers.addresses.get(&peer).cloned()
                    {
                        let conn = env.connect(address, Purpose::DataOut(core.id, peer));
                        follower.link = Link::Connecting(conn, env.now);
                    }
                }
                Link::Up(conn, version) if !follower.sending => {
                    let mut slices: Vec<Slice> = Vec::new();
                    let mut bytes = 0;
                    follower.cursor = follower.cursor.max(core.ring.base());
                    while bytes < env.limits.send_bytes_max
                        && let Some(entry) = core.ring.get(follower.cursor)
                    {
                        let mut proposal = entry.proposal.clone();
                        proposal.chosen_up_to = first_unchosen;
                        let payload_length = entry.payload.as_ref().map_or(0, |p| p.len());
                        let header = DataHeader::Propose(ProposeHeader::new(
                            core.id,
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
                        core.counts.proposal_bytes_sent += bytes as u64;
                        env.send(conn, slices);
                    }
                }
                _ => {}
            }
        }
    }

    /// Makes room before new proposals are refused for want of memory: a share may have become smaller while
    /// nothing happened here, and then nothing else would come to make room.
    pub fn make_room(&mut self, core: &mut Core, env: &Env) {
        if !core.is_leading() {
            return;
        }
        let sent_to_all = self
            .by_node
            .iter()
            .filter(|(peer, f)| core.alive.contains(peer) && !f.rests)
            .map(|(_, f)| f.cursor)
            .min()
            .unwrap_or(u64::MAX);
        core.ring.evict(
            core.engine.first_unchosen(),
            env.room.share.ring_bytes,
            sent_to_all,
            env.room.share.tail_bytes,
        );
    }

    /// Sends everything unchosen to this peer again: it, or its way to us, came back.
    pub fn resend_to(&mut self, core: &Core, peer: NodeId) {
        let first = core.ring.first_beyond(core.engine.first_unchosen());
        if let Some(follower) = self.by_node.get_mut(&peer) {
            follower.cursor = first;
        }
    }

    pub fn on_connected(
        &mut self,
        core: &Core,
        env: &mut Env,
        peer: NodeId,
        conn: ConnId,
        ok: bool,
    ) {
        let Some(follower) = self.by_node.get_mut(&peer) else {
            return env.close(conn);
        };
        if follower.link.conn() != Some(conn) {
            return env.close(conn);
        }
        if !ok {
            return self.on_broken(core, env, peer, conn);
        }
        follower.link = Link::Greeting(conn, env.now);
        let hello = env.hello(peer, "data", core.id);
        env.send_bytes(conn, &hello);
        env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
    }

    /// Takes the peer's answer to our first line; later, anything at all means the end.
    pub fn on_received(
        &mut self,
        core: &Core,
        env: &mut Env,
        peer: NodeId,
        conn: ConnId,
        buffer: Buffer,
        got: Range<usize>,
    ) {
        let first = core.ring.first_beyond(core.engine.first_unchosen());
        let Some(follower) = self.by_node.get_mut(&peer) else {
            return env.close(conn);
        };
        if follower.link.conn() != Some(conn) {
            return;
        }
        match follower.link.answer(env, &buffer, &got) {
            Welcome::Taken { version, .. } => {
                follower.link = Link::Up(conn, version);
                follower.cursor = first;
                follower.sending = false;
                env.receive(conn, buffer, 0..BLOCK, false);
            }
            Welcome::NotYet => env.receive(conn, buffer, got.end..BLOCK, false),
            _ => self.on_broken(core, env, peer, conn),
        }
    }

    pub fn on_sent(&mut self, core: &Core, env: &mut Env, peer: NodeId, conn: ConnId, ok: bool) {
        let Some(follower) = self.by_node.get_mut(&peer) else {
            return;
        };
        if follower.link.conn() != Some(conn) {
            return;
        }
        if !ok {
            return self.on_broken(core, env, peer, conn);
        }
        if follower.link.is_up() {
            follower.sending = false;
        }
    }

    pub fn on_broken(&mut self, core: &Core, env: &mut Env, peer: NodeId, conn: ConnId) {
        env.close(conn);
        let first = core.ring.first_beyond(core.engine.first_unchosen());
        if let Some(follower) = self.by_node.get_mut(&peer)
            && follower.link.conn() == Some(conn)
        {
            follower.link = Link::Down {
                retry_at: env.now + env.limits.reconnect_delay,
            };
            follower.cursor = first;
            follower.sending = false;
        }
    }

    /// Closes the links of a log that rests: its next proposal makes new ones.
    pub fn close_idle(&mut self, core: &Core, env: &mut Env) {
        let rests = core.engine.first_unchosen() == core.engine.proposed_up_to();
        if !rests || env.now < core.last_chosen_at + LINK_IDLE {
            return;
        }
        for follower in self.by_node.values_mut() {
            if let Link::Up(conn, _) = follower.link
                && !follower.sending
                && (follower.rests || follower.cursor == core.ring.end())
            {
                env.close(conn);
                follower.link = Link::Down { retry_at: env.now };
            }
        }
    }

    pub fn check(&self, core: &Core) {
        let (base, end) = (core.ring.base(), core.ring.end());
        for (peer, follower) in &self.by_node {
            paxos::invariant!(
                follower.cursor <= end,
                "node {peer} is sent entry {} of {base}..{end}",
                follower.cursor
            );
        }
        let (first, proposed) = (core.engine.first_unchosen(), core.engine.proposed_up_to());
        if core.is_leading() && first < proposed {
            let covered = core.ring.covers();
            paxos::invariant!(
                covered.start <= first && covered.end == proposed,
                "a leader can send all that it proposed: {first} to {proposed} of {covered}"
            );
        }
    }

    /// Forgets a node that is no peer any more.
    pub fn forget(&mut self, peer: NodeId) {
        self.by_node.remove(&peer);
    }

    /// Our connection to this peer, if there is one.
    pub fn link_to(&self, peer: NodeId) -> Option<ConnId> {
        self.by_node.get(&peer)?.link.conn()
    }

    /// The connections whose peers take too long to answer.
    pub fn late(&self, env: &Env) -> Vec<(NodeId, ConnId)> {
        let late = |link: &Link| link.conn().filter(|_| link.is_late(env));
        let links = self.by_node.iter();
        let links = links.filter_map(|(peer, f)| Some((*peer, late(&f.link)?)));
        links.collect()
    }
}
