//! The things that the parts of a log are lent: its engine, its store, its ring, and its identity.
//!
//! A part owns its own state. It is handed this `Core` and the node's [`Env`], and no other part.

use std::collections::{BTreeMap, BTreeSet};

use formats::{LogId, LogKind};
use ops::{Buffer, ConnId};
use paxos::mutation::{self, Mutation};
use paxos::{Engine, Input, NodeId, PermitContent, RecordNumber, Role, StreamName, StreamPosition};
use store::{Reach, RecordContext, Store};
use wire::Refusal;

use crate::counts::LogCounts;
use crate::env::Env;
use crate::ring::Ring;
use crate::stands::Stands;
use crate::young::Young;

pub(crate) struct Core {
    pub id: LogId,
    pub name: String,
    pub kind: LogKind,
    pub own: NodeId,
    pub role: Role,
    /// The reason why the replica takes no part any more.
    pub stopped: Option<String>,
    pub engine: Engine,
    pub store: Store,
    pub ring: Ring,
    /// The newest bytes that a follower accepted, for a guest.
    pub young: Young,
    /// The peers that are taken to be there.
    pub alive: BTreeSet<NodeId>,
    /// The peers whose replicas of this log stopped.
    pub stopped_at: BTreeSet<NodeId>,
    pub counts: LogCounts,
    /// The knowledge at the moment when every record asked for had been appended.
    pub borne_out: RecordContext,
    /// Reads that the store has not answered, by the number each was given.
    pub reads: BTreeMap<u64, (Ticket, Wanted)>,
    pub last_read: u64,
    /// The last record that was asked for.
    pub persisted: RecordNumber,
    pub last_chosen_at: paxos::Time,
    /// The last stream that was seen to be cut for its writer was gone.
    pub cut_as_gone: Option<paxos::StreamName>,
    pub stands: Stands,
    /// Its bytes are taken when disks are almost full, too: it is what frees them.
    pub uses_reserve: bool,
}

/// The part that asked the store to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    Rebind,
    Reader(ConnId),
    Feeder(NodeId),
    Port,
    Examine(Asker),
}

/// The node whose question a piece's digest answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asker {
    Own,
    Peer(NodeId),
}

/// The bytes that were asked for: by the time they come their asker may want others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub stream: StreamName,
    pub position: u64,
}

/// A read of these brings one record alone.
pub(crate) const ONE_RECORD: u64 = 1;

impl Wanted {
    pub fn new(stream: StreamName, position: u64) -> Wanted {
        Wanted { stream, position }
    }
}

impl Core {
    /// Hands the engine one input. Its outputs are performed once the log drains it.
    pub fn input(&mut self, env: &Env, input: Input) {
        if self.stopped.is_none() {
            self.engine.handle(env.now, input);
        }
    }

    /// Refuses what would change the bytes of a machine's log other than by the machine.
    pub fn check_bytes(&self) -> Result<(), Refusal> {
        match self.kind {
            LogKind::Bytes => Ok(()),
            LogKind::State | LogKind::Kv | LogKind::Streams => Err(Refusal::new(
                "bad-request",
                format!(
                    "{} is of kind {}: its machine alone writes and trims it; ask the machine",
                    self.name, self.kind
                ),
            )),
        }
    }

    pub fn is_leading(&self) -> bool {
        matches!(self.role, Role::Leader { .. }) && self.stopped.is_none()
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether it leads, and is free to propose something new.
    pub fn can_propose(&self) -> bool {
        self.is_leading()
            && self
                .engine
                .permit()
                .is_some_and(|p| p.content == PermitContent::Free && p.next < p.limit)
    }

    /// Whether it pays to wait for somebody else to lead.
    pub fn may_hand_over(&self) -> bool {
        let members = self.engine.state().configuration.members();
        let others = members
            .iter()
            .any(|member| self.alive.contains(&member.node));
        self.is_leading() && others
    }

    /// The context that the next record may carry besides its own fact: what the records before it bear out.
    /// The engine may know more while it still has records to put out.
    pub fn context(&mut self) -> RecordContext {
        if self.engine.all_records_are_out() {
            self.borne_out = RecordContext {
                promised: self.engine.promised(),
                first_unchosen: self.engine.first_unchosen(),
            };
        }
        self.borne_out
    }

    /// Reads from there on, so many bytes if they stand in a row.
    pub fn read_from_store(&mut self, ticket: Ticket, wanted: Wanted, bytes: u64, buffer: Buffer) {
        self.last_read += 1;
        let number = self.last_read;
        let to_send = matches!(ticket, Ticket::Reader(_) | Ticket::Feeder(_));
        let reach = Reach { bytes, to_send };
        self.reads.insert(number, (ticket, wanted));
        let position = StreamPosition(wanted.position);
        let stream = wanted.stream;
        self.store.read(number, stream, position, buffer, reach);
    }

    /// Whether clients are in the right place.
    pub fn check_leading(&self, env: &Env) -> Result<(), Refusal> {
        self.check_running(env)?;
        if self.is_leading() {
            return Ok(());
        }
        Err(self.not_leader(env))
    }

    /// Whether this replica can serve anybody.
    pub fn check_running(&self, env: &Env) -> Result<(), Refusal> {
        if let Some(why) = &self.stopped {
            return Err(Refusal::new(
                "shutting-down",
                format!("this node's replica of {} stopped: {why}", self.name),
            ));
        }
        if env.stopping {
            return Err(Refusal::new(
                "shutting-down",
                "this node is stopping; ask another",
            ));
        }
        Ok(())
    }

    pub fn not_leader(&self, env: &Env) -> Refusal {
        let leader = self
            .engine
            .leader()
            .map(|(node, _)| node)
            .filter(|n| *n != env.own.identity.node);
        match leader.and_then(|n| env.peers.addresses.get(&n)) {
            Some(address) => Refusal::new(
                "not-leader",
                format!("the leader of {} is at {address}; ask there", self.name),
            )
            .key("leader", address),
            None => Refusal::new(
                "not-leader",
                format!(
                    "{} has no leader that this node knows of; ask again in a moment",
                    self.name
                ),
            ),
        }
    }

    /// The members of this log whose disks are almost full: they take no clients' bytes.
    pub fn full_members(&self, env: &Env) -> Vec<NodeId> {
        let members = self.engine.state().configuration.members().iter();
        let nodes = members.map(|member| member.node);
        nodes.filter(|node| self.is_disk_full(env, *node)).collect()
    }

    fn is_disk_full(&self, env: &Env, node: NodeId) -> bool {
        match node == self.own {
            true => env.is_full(),
            false => env.room.full_peers.contains(&node),
        }
    }

    /// Whether the members that are there and have room are a quorum: the log goes on by them, and leaves the full
    /// ones behind.
    pub fn has_room_without_the_full(&self, env: &Env) -> bool {
        self.engine.state().configuration.is_quorum(|node| {
            let is_here = node == self.own || self.alive.contains(&node);
            is_here && !self.is_disk_full(env, node)
        })
    }

    /// Whether clients' bytes have nowhere to go: the disks of so many members are almost full that the others are
    /// no quorum. A leader whose own disk is full takes bytes while it hands over, of half its reserve at most.
    pub fn is_full(&self, env: &Env) -> bool {
        if self.uses_reserve || !env.is_full() && env.room.full_peers.is_empty() {
            return false;
        }
        let is_scarce = env.room.free_bytes < env.limits.disk_reserve_bytes / 2;
        if self.is_leading() && env.is_full() && is_scarce {
            return true;
        }
        !self.full_members(env).is_empty() && !self.has_room_without_the_full(env)
    }

    /// ‡ Whether the full disks have room for what frees room: half of each reserve. The other half is for what is under way, and for trims.
    pub fn may_free(&self, env: &Env) -> bool {
        let is_spent = |node: &NodeId| match *node == self.own {
            true => env.room.free_bytes < env.limits.disk_reserve_bytes / 2,
            false => env.room.spent_peers.contains(node),
        };
        let ignores = mutation::is(Mutation::FreeingTakesAllReserve);
        ignores || !self.full_members(env).iter().any(is_spent)
    }

    /// Whether this replica's disk is almost full and the log can do without it: it takes no bytes and does not lead.
    pub fn stands_back(&self, env: &Env) -> bool {
        !self.uses_reserve && env.is_full() && self.has_room_without_the_full(env)
    }

    /// Whether that follower is left behind, since its disk is almost full and the log can do without it.
    pub fn leaves_behind(&self, env: &Env, peer: NodeId) -> bool {
        !self.uses_reserve
            && env.room.full_peers.contains(&peer)
            && self.has_room_without_the_full(env)
    }

    /// ‡ Whether bytes that were taken since the count was so may have fewer copies than the log's wish wants.
    pub fn lacks_copies_since(&self, uncopied: u64) -> bool {
        self.engine.copies_wanted().is_some() && self.engine.uncopied() != uncopied
    }

    /// The refusal for an appender while fewer replicas than the log wants can hold its bytes.
    pub fn few_copies(&self) -> Refusal {
        let wanted = self.engine.copies_wanted().unwrap_or_default();
        let there = self.engine.whole_copies();
        let name = &self.name;
        let sentence = format!(
            "{name} wants {wanted} copies of what it acknowledges, and {there} of its voters are there and hold all of it: start or reconnect the others, wait until they have caught up, or want fewer copies (logberg log set {name} --min-copies N)"
        );
        let refusal = Refusal::new("too-few-copies", sentence);
        refusal.key("copies", there).key("wanted", wanted)
    }

    /// The refusal for an appender while disks are full: it names their nodes, which need not be this one.
    pub fn disk_full(&self, env: &Env) -> Refusal {
        let full = self.full_members(env);
        let address = |node: NodeId| match node == env.own.identity.node {
            true => Some(&env.own.advertise),
            false => env.peers.addresses.get(&node),
        };
        let named = |node: &NodeId| match address(*node) {
            Some(address) => format!("node {node} at {address}"),
            None => format!("node {node}"),
        };
        let named: Vec<String> = full.iter().map(named).collect();
        let remedy = match self.kind.is_bytes() {
            true => "free space there, or trim, and append again",
            // Its log is trimmed by itself.
            false => {
                "free space there, or replace that node (logberg members replace), and ask again"
            }
        };
        let named_all = named.join(" and of ");
        let sentence = format!("the disk of {named_all} has reached its reserve; {remedy}");
        let refusal = Refusal::new("full", sentence);
        refusal.key("disks", named.join(", "))
    }
}

pub(crate) fn no_quorum() -> Refusal {
    Refusal::new(
        "no-quorum",
        "too few nodes answer to agree on anything; start or reconnect the others",
    )
}

/// The refusal for clients that were told nothing yet of a log that has ended.
pub(crate) fn ended() -> Refusal {
    Refusal::new(
        "not-leader",
        "the log that had this name has ended; ask again",
    )
}
