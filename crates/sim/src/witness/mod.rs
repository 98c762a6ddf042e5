//! Somebody who sees every disk and every message, and holds the nodes to the definitions.
//!
//! ```text
//! Op::Write ── records ── durable when done, or found whole after a crash ──┐
//! Op::Send  ── frames ─── what a node tells others ─────────────────────────┼─▶ History of each log
//! views     ── what each node takes for chosen ─────────────────────────────┤   Replica of each node
//! clients   ── what they were told is acknowledged, and what they read ─────┘
//! ```
//!
//! It believes no node: what is accepted stands on a disk, what is chosen follows from that, and
//! what a client was told must have been chosen by then. It knows the formats and the rules of
//! applying, and nothing of how the nodes come to what they do. Everything is incremental: a step
//! costs what it changed.

mod disk;
mod files;
mod history;
mod intent;
mod names;
mod promises;
mod ranges;
mod removals;
mod replica;
mod said;
mod steps;
mod versions;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::replica::LogView;
use formats::{LogId, codec};
use history::{History, Shape};
use node::Node;
use node::directory::DIRECTORY;
use ops::{ConnId, Op};
use paxos::{Digest, NodeId, Role, Slot, Time};
use replica::{Replica, Whose};

use crate::client::{Appender, Chain, Ledger, Reader};
use crate::disk::SimDisk;
use crate::host::{HostId, Process};
use crate::world::World;

#[derive(Default)]
pub(crate) struct Witness {
    hosts: BTreeMap<HostId, Seen>,
    logs: BTreeMap<LogId, History>,
    replicas: BTreeMap<(LogId, NodeId), Replica>,
    /// As they stood when a disk was copied last.
    copied: BTreeMap<HostId, BTreeMap<(LogId, NodeId), Replica>>,
    names: BTreeMap<String, LogId>,
    /// The logs that each node gave up.
    removed: BTreeSet<(LogId, NodeId)>,
    /// The whole state of a log up to a slot, by the first node that knew it.
    states: BTreeMap<(LogId, Slot), Digest>,
    /// Bytes of streams that are no client's, by the first node that held them.
    bytes: BTreeMap<paxos::StreamName, BTreeMap<u64, u8>>,
    /// Said in this step: who releases what in which era.
    releases: Vec<(Whose, paxos::Era, Slot)>,
    /// The last era of each log whose beginning was looked at.
    eras_checked: BTreeMap<LogId, paxos::Era>,
    /// The beginnings of frames that are not whole yet, by sender.
    parts: BTreeMap<(HostId, ConnId), Vec<u8>>,
    written: versions::Written,
    ledger: Ledger,
    said: said::Said,
    intent: intent::Intent,
    registers: names::Names,
    scratch: Vec<u8>,
}

/// A host on which a node runs, or ran.
#[derive(Default)]
struct Seen {
    node: NodeId,
    /// Its disk was damaged: what it forgot is not held against it.
    damaged: bool,
    disk: disk::Watching,
    views: BTreeMap<LogId, Told>,
    promises: promises::Listing,
}

/// The last word of a replica's view.
#[derive(Clone, Copy, Default)]
struct Told {
    next: Slot,
    promised: paxos::PromisedTerm,
    shape: Shape,
}

impl Witness {
    /// All who ask for something write it down there.
    pub fn of(ledger: Ledger) -> Witness {
        Witness {
            ledger,
            ..Witness::default()
        }
    }

    /// This host's disk is damaged by the nemesis.
    pub fn excuse(&mut self, host: HostId) {
        self.hosts.entry(host).or_default().damaged = true;
    }

    pub fn on_start(&mut self, host: HostId, process: &dyn Process) {
        let process: &dyn std::any::Any = process;
        if let Some(node) = process.downcast_ref::<Node>() {
            let seen = self.hosts.entry(host).or_default();
            seen.node = node.id();
            seen.views.clear();
            seen.promises = promises::Listing::default();
            self.parts.retain(|(sender, _), _| *sender != host);
        }
    }

    pub fn on_op(&mut self, host: HostId, op: &Op, number: u64) {
        match op {
            Op::Send { conn, slices } => self.on_send(host, *conn, slices),
            Op::Close { conn, .. } | Op::Reset { conn } => _ = self.parts.remove(&(host, *conn)),
            Op::Open { .. } | Op::Write { .. } => self.on_disk_op(host, op, number),
            Op::Remove { .. } | Op::Rename { .. } => self.on_file_op(host, op),
            Op::RemoveDirectory { path, .. } => self.on_removal(host, path),
            _ => {}
        }
    }

    /// A process that writes on it from then on writes behind what stands there now.
    pub fn on_copied(&mut self, host: HostId) {
        let node = self.hosts.get(&host).map(|seen| seen.node);
        let replicas = self.replicas.iter();
        let own = replicas.filter(|((_, owner), _)| Some(*owner) == node);
        let copies = own.map(|(whose, replica)| (*whose, replica.clone()));
        self.copied.insert(host, copies.collect());
    }

    /// Keeps the acceptances and promises of a node whose disk is put back: the histories do not forget what
    /// others count on.
    pub fn on_put_back(&mut self, host: HostId) {
        let node = self.hosts.get(&host).map(|seen| seen.node);
        self.replicas.retain(|(_, owner), _| Some(*owner) != node);
        for (whose, replica) in self.copied.get(&host).into_iter().flatten() {
            self.replicas.insert(*whose, replica.clone());
        }
    }

    pub fn on_end(&mut self, host: HostId, disk: &SimDisk) {
        let Some(seen) = self.hosts.get(&host) else {
            return;
        };
        let node = seen.node;
        self.on_disk_end(host, disk);
        self.check_version_at_end(host, disk);
        for ((_, owner), replica) in &mut self.replicas {
            if *owner == node {
                replica.on_end();
            }
        }
    }

    pub fn after_step(&mut self, host: HostId, world: &World) {
        if let Some(node) = world.machine::<Node>(host) {
            let seen = self.hosts.entry(host).or_default();
            seen.node = node.id();
            node.check_invariants();
            let now = world.hosts[host.index()].clock.shows(world.now());
            seen.promises
                .keep(|log| node.log_views().any(|view| view.id == log));
            for view in node.log_views() {
                check_awake(now, &view);
                assert!(
                    view.counts.scrub_differences == 0,
                    "I6: a scrub of {} sees other bytes of a stream on another node",
                    view.name
                );
                self.look(host, &view);
            }
            self.check_versions(host, node, world);
            self.check_releases(world);
            self.check_steps(world);
        } else if let Some(writer) = world.machine::<Appender>(host) {
            self.check_chain(writer.log(), &writer.chain().borrow());
        } else if let Some(reader) = world.machine::<Reader>(host) {
            self.check_chain(reader.log(), &reader.chain().borrow());
        }
        for entry in self.ledger.take() {
            self.intent.on_entry(&entry, &self.said);
            self.registers.on_entry(&entry, &self.said, &self.logs);
        }
    }

    /// Judges what took effect in this log, and what log 0 says by now.
    fn on_chosen(&mut self, log: LogId) {
        let Some(history) = self.logs.get_mut(&log) else {
            return;
        };
        let acts = std::mem::take(&mut history.acts);
        if log == DIRECTORY
            && let Some(state) = &history.state
        {
            self.said.follow(state, &self.bytes);
            self.intent.on_said(&self.said);
            self.forbid_what_is_freed();
        }
        for act in &acts {
            self.intent.on_act(log, act, &self.said);
        }
    }

    /// Nothing is chosen any more in a log whose name is free for another.
    fn forbid_what_is_freed(&mut self) {
        let (said, registers) = (&self.said, &self.registers);
        let logs = self
            .logs
            .iter_mut()
            .filter(|(_, history)| !history.is_freed);
        for (log, history) in logs {
            let name = said.name_of(*log);
            let abandoned = name.is_some_and(|name| registers.is_abandoned(name));
            history.is_freed = said.is_kept() && said.is_deleted(*log) && !abandoned;
        }
    }

    /// I5 and I6: what clients were told is chosen by then, and no reader sees more.
    fn check_chain(&self, log: &str, chain: &Chain) {
        let known = chain.acknowledged.max(chain.observed);
        if known == 0 {
            return;
        }
        let history = self.names.get(log).and_then(|id| self.logs.get(id));
        let reach = history.and_then(|history| history.reach.get(&chain.client));
        let chosen = reach.copied().unwrap_or(0);
        assert!(
            chain.acknowledged <= chosen,
            "I5: {} bytes are acknowledged in log {log} and {chosen} chosen: {chain:?}",
            chain.acknowledged
        );
        assert!(
            chain.observed <= chosen,
            "I5: {} bytes were shown to a reader of log {log} and {chosen} are chosen: {chain:?}",
            chain.observed
        );
        let left_from = history.map_or(0, |history| history.left_from(chain.client));
        assert!(
            chain.trimmed <= left_from,
            "I5: a reader of log {log} was told that all below {} is trimmed, and {left_from} is left: {chain:?}",
            chain.trimmed
        );
    }

    /// A node's view of one log, if anything in it changed.
    fn look(&mut self, host: HostId, view: &LogView) {
        let Some(seen) = self.hosts.get(&host) else {
            return;
        };
        let whose = Whose {
            node: seen.node,
            log: view.id,
        };
        self.check_not_removed(whose);
        let Some(seen) = self.hosts.get_mut(&host) else {
            return;
        };
        let told = seen.views.entry(view.id).or_insert_with(|| {
            self.names.insert(view.name.to_owned(), view.id);
            Told::default()
        });
        let node = seen.node;
        let name = Whose { node, log: view.id };
        let next = view.state.next;
        let promised = view.durable_promise();
        // A node that does not host it is told nothing of it.
        let listed = view.stopped.is_none()
            && !matches!(view.role, Role::Leader { .. })
            && !self.said.is_on_some(view.id);
        seen.promises.look(view.id, listed.then_some(promised));
        if told.next == next && told.promised == promised {
            return;
        }
        assert!(
            promised >= told.promised,
            "I4: {name} forgot that it promised {}: {}",
            told.promised.0,
            promised.0
        );
        assert!(
            next >= told.next,
            "I8: {name} took all below {} for chosen, and now {next}",
            told.next
        );
        let shape = Shape::of(view.state);
        let news = shape != told.shape;
        *told = Told {
            next,
            promised,
            shape,
        };
        if let Some(replica) = self.replicas.get(&(view.id, node)) {
            assert!(
                promised <= replica.promised,
                "I4: {name} takes its promise {} for durable, and its disk has {}",
                promised.0,
                replica.promised.0
            );
        }
        let Some(history) = self.logs.get(&view.id) else {
            return;
        };
        history.check_state(name, view.state);
        if news {
            if next == history.next() {
                assert!(
                    history.state.as_ref() == Some(view.state),
                    "I1: {name} knows another history: {:?}, not {:?}",
                    view.state,
                    history.state
                );
            }
            let digest = formats::digest(&codec::encode(formats::version::FIRST, view.state));
            let first = *self.states.entry((view.id, next)).or_insert(digest);
            assert!(
                first == digest,
                "I1: {name} knows another history up to {next}: {:?}",
                view.state
            );
        }
    }

    /// Every byte of what these hosts take for chosen, and do not say that they lack, stands on their disks. (More may
    /// be chosen already, by acceptances that nobody has heard of yet. A log that was deleted while a node was away
    /// may lack bytes there for ever.)
    pub fn check_whole(&self, hosts: &[HostId], world: &World) {
        let sound = |host: &&HostId| self.hosts.get(host).is_some_and(|seen| !seen.damaged);
        for host in hosts.iter().filter(sound) {
            let Some(node) = world.machine::<Node>(*host) else {
                continue;
            };
            let whole = |view: &LogView<'_>| !view.is_auxiliary() && view.missing().is_empty();
            for view in node.log_views().filter(whole) {
                let replica = self.replicas.get(&(view.id, node.id()));
                for stream in &view.state.streams {
                    let bytes = stream.trimmed.0..stream.length.0;
                    assert!(
                        replica.is_some_and(|replica| replica.holds(stream.name, bytes.clone())),
                        "I5: node {} says that it is whole, and its disk lacks some of {bytes:?} of {} in log {}",
                        node.id(),
                        stream.name,
                        view.name
                    );
                }
            }
        }
    }
}

/// A candidate whose wait grows without end never stands again.
fn check_awake(now: Time, view: &LogView) {
    let waits = view.stopped.is_none() && view.role == Role::Candidate;
    let Some(wakes) = view.deadline().filter(|_| waits) else {
        return;
    };
    assert!(
        wakes <= now + CANDIDATE_SLEEPS,
        "liveness: a candidate in log {} sleeps for {} µs",
        view.name,
        (wakes - now).as_micros()
    );
}

/// All that can delay a candidate at its longest: backoff, pause, patience, handicap.
const CANDIDATE_SLEEPS: Duration = Duration::from_secs(5);
