//! `metrics`: figures for machines, as JSON (docs/wire.md). The command line gives them their names for Prometheus.

use std::collections::BTreeMap;

use letters::{DoorFigures, Family, Fate, HttpFigures, HttpMethod, Refused};
use paxos::Role;
use replica::{Env, Log, LogCounts};
use serde::Serialize;
use store::{BOUNDS_US, Histogram};
use wire::Refusal;

use crate::counts::{NodeCounts, micros};
use crate::greeting::Caller;
use crate::health::State;
use crate::node::Node;
use crate::peers::Peer;

#[derive(Serialize)]
struct Metrics {
    node: u32,
    version: &'static str,
    uptime_us: u64,
    state: State,
    /// ⟨code, how many⟩
    warnings: BTreeMap<&'static str, u64>,
    connections: usize,
    connections_max: usize,
    /// Answers that are made, and not with the kernel yet.
    answers_held_bytes: u64,
    /// Answers that were broken off for want of room.
    answers_broken: u64,
    disk_free_bytes: Option<u64>,
    disk_reserve_bytes: u64,
    /// The microseconds of every histogram's steps.
    bounds_us: [u64; BOUNDS_US.len()],
    /// The time of durable writes, of all logs.
    write: Histogram,
    /// The time from the proposal to the choice, where this node leads.
    chosen: Histogram,
    counts: NodeCounts,
    /// Refusals at the doors of this node.
    refused: BTreeMap<&'static str, RefusedCounts>,
    peers: Vec<PeerMetrics>,
    logs: Vec<LogMetrics>,
    /// Figures of the door for clients of keys, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    kv: Option<DoorMetrics>,
    /// Figures of the door for HTTP, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<HttpMetrics>,
}

// A histogram of the door has the steps that all have.
const _: () = {
    let mut at = 0;
    while at < BOUNDS_US.len() {
        assert!(BOUNDS_US[at] == letters::BOUNDS_US[at]);
        at += 1;
    }
};

/// Refusals at one of the node's doors.
#[derive(Serialize)]
struct RefusedCounts {
    unauthenticated: u64,
    forbidden: u64,
}

impl From<&Refused> for RefusedCounts {
    fn from(refused: &Refused) -> RefusedCounts {
        RefusedCounts {
            unauthenticated: refused.unauthenticated.get(),
            forbidden: refused.forbidden.get(),
        }
    }
}

#[derive(Serialize)]
struct DoorMetrics {
    /// HOST:PORT, as clients reach it.
    address: String,
    clients: u64,
    connections: u64,
    connections_refused: u64,
    clients_closed: u64,
    requests_refused: u64,
    slow_commands: u64,
    commands_per_second: u64,
    received_bytes: u64,
    sent_bytes: u64,
    unread_bytes: u64,
    unfinished_bytes: u64,
    expired_keys: u64,
    slots_coming: u64,
    slots_under_way_ms: u64,
    moved_bytes: u64,
    moved_slots: u64,
    families: Vec<FamilyMetrics>,
}

#[derive(Serialize)]
struct HttpMetrics {
    /// HOST:PORT, as clients reach it.
    address: String,
    clients: u64,
    connections: u64,
    connections_refused: u64,
    live_readers: u64,
    received_bytes: u64,
    sent_bytes: u64,
    methods: Vec<MethodMetrics>,
    /// ⟨code of the refusal, how many⟩
    refused: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct MethodMetrics {
    method: &'static str,
    /// ⟨class of the status, how many⟩
    requests: BTreeMap<&'static str, u64>,
    /// The time from a request's head to its answer's; of live reads nothing is said.
    duration: Histogram,
}

#[derive(Serialize)]
struct FamilyMetrics {
    family: &'static str,
    /// ⟨what became of them, how many⟩
    commands: BTreeMap<&'static str, u64>,
    /// The time from a command's coming to its answer.
    duration: Histogram,
}

#[derive(Serialize)]
struct PeerMetrics {
    node: u32,
    alive: bool,
    last_heard_us: Option<u64>,
    /// The time from the proposal to this node's acceptance, where we lead.
    accepted: Option<Histogram>,
}

#[derive(Serialize)]
struct LogMetrics {
    name: String,
    role: &'static str,
    first_unchosen: u64,
    proposed: u64,
    output_bytes: u64,
    trimmed_bytes: u64,
    missing_bytes: u64,
    disk_bytes: u64,
    queued_bytes: u64,
    ring_bytes: u64,
    streams: usize,
    /// ⟨node, bytes⟩ that the node has not accepted, where we lead.
    lag_bytes: BTreeMap<u32, u64>,
    counts: LogCounts,
}

impl Node {
    /// `metrics`
    pub(super) fn tell_metrics(&mut self, caller: &Caller) -> Result<(), Refusal> {
        caller.request.check()?;
        let line = self.metrics_line();
        self.env.answer(caller.conn, line);
        Ok(())
    }

    fn refused(&self) -> BTreeMap<&'static str, RefusedCounts> {
        let pipe = RefusedCounts {
            unauthenticated: self.counts.unauthenticated + self.callers.greetings.bad_tokens,
            forbidden: self.counts.forbidden,
        };
        let mut refused = BTreeMap::from([("pipe", pipe)]);
        if let Some(board) = self.config.hosts.rights() {
            refused.insert("keys", (&board.refused_keys).into());
            refused.insert("http", (&board.refused_http).into());
        }
        refused
    }

    pub(super) fn metrics_line(&self) -> String {
        let now = self.env.now;
        let health = self.health();
        let mut warnings: BTreeMap<&'static str, u64> = BTreeMap::new();
        for warning in health.warnings.iter().filter(|warning| warning.active) {
            *warnings.entry(warning.code).or_default() += 1;
        }
        let mut write = Histogram::default();
        let mut chosen = Histogram::default();
        for log in self.logs.values() {
            write.add(log.store().write_times());
            chosen.add(&log.pulse().chosen);
        }
        let peers = self.env.peers.addresses.keys().map(|id| {
            let peer = self.peers.get(*id);
            let heard = peer.and_then(|peer| peer.pulse.heard_at());
            let mut accepted = None;
            for log in self.logs.values() {
                if let Some(histogram) = log.pulse().accepted.get(id) {
                    accepted.get_or_insert(Histogram::default()).add(histogram);
                }
            }
            PeerMetrics {
                node: id.0,
                alive: peer.is_some_and(Peer::is_alive),
                last_heard_us: heard.map(|at| micros(now - at)),
                accepted,
            }
        });
        wire::ok(&Metrics {
            node: self.env.own.identity.node.0,
            version: self.config.version,
            uptime_us: micros(now - self.rounds.started_at),
            state: health.state,
            warnings,
            connections: self.env.conns.count(),
            connections_max: self.env.limits.connections_max,
            answers_held_bytes: self.env.memory.answers.held_bytes(),
            answers_broken: self.env.memory.answers.broken(),
            disk_free_bytes: Some(self.env.room.free_bytes).filter(|free| *free != u64::MAX),
            disk_reserve_bytes: self.env.limits.disk_reserve_bytes,
            bounds_us: BOUNDS_US,
            write,
            chosen,
            counts: self.counts,
            refused: self.refused(),
            peers: peers.collect(),
            logs: self
                .logs
                .values()
                .map(|log| LogMetrics::of(log, &self.env))
                .collect(),
            kv: self.config.hosts.door().map(|door| DoorMetrics {
                slots_under_way_ms: self.slots_under_way_ms(),
                ..DoorMetrics::of(door, &self.config.standing.door)
            }),
            http: self
                .config
                .hosts
                .http()
                .map(|http| HttpMetrics::of(http, &self.config.standing.http)),
        })
    }
}

impl LogMetrics {
    fn of(log: &Log, env: &Env) -> LogMetrics {
        let state = log.engine().state();
        let proposed = log.engine().proposed_up_to().0.max(state.next.0);
        let nodes = env.peers.addresses.keys();
        let lag = nodes.filter_map(|id| {
            let accepted = log.engine().peer_accepted_up_to(*id)?;
            Some((id.0, proposed.saturating_sub(accepted.0)))
        });
        LogMetrics {
            name: log.name().to_owned(),
            role: match (log.stopped(), log.role()) {
                (Some(_), _) => "stopped",
                (None, Role::Leader { .. }) => "leader",
                (None, Role::Follower { .. }) => "follower",
                (None, Role::Candidate) => "candidate",
            },
            first_unchosen: state.next.0,
            proposed,
            output_bytes: replica::output_bytes(state),
            trimmed_bytes: replica::forgotten_bytes(state),
            missing_bytes: log.missing_bytes(),
            disk_bytes: log.store().disk_bytes(),
            queued_bytes: log.store().queued_bytes(),
            ring_bytes: log.ring_bytes(),
            streams: state.streams.len(),
            lag_bytes: lag.collect(),
            counts: log.counts(),
        }
    }
}

/// A door's histogram, as one of the node.
fn histogram(counts: impl Iterator<Item = u64>, sum_us: u64) -> Histogram {
    let mut histogram = Histogram {
        sum_us,
        ..Histogram::default()
    };
    for (count, counted) in histogram.counts.iter_mut().zip(counts) {
        *count = counted;
    }
    histogram
}

impl HttpMetrics {
    fn of(http: &HttpFigures, address: &str) -> HttpMetrics {
        let methods = HttpMethod::ALL.into_iter().map(|method| {
            let figures = http.method(method);
            MethodMetrics {
                method: method.name(),
                requests: figures.by_class().collect(),
                duration: histogram(figures.durations(), figures.sum_us()),
            }
        });
        HttpMetrics {
            address: address.to_owned(),
            clients: http.clients.get(),
            connections: http.connections.get(),
            connections_refused: http.connections_refused.get(),
            live_readers: http.live_readers.get(),
            received_bytes: http.received_bytes.get(),
            sent_bytes: http.sent_bytes.get(),
            methods: methods.collect(),
            refused: http.refused(),
        }
    }
}

impl DoorMetrics {
    fn of(door: &DoorFigures, address: &str) -> DoorMetrics {
        let families = Family::ALL.into_iter().map(|family| {
            let figures = door.family(family);
            let duration = histogram(figures.durations(), figures.sum_us());
            let fates = Fate::ALL.into_iter();
            FamilyMetrics {
                family: family.name(),
                commands: fates
                    .map(|fate| (fate.name(), figures.of_fate(fate)))
                    .collect(),
                duration,
            }
        });
        DoorMetrics {
            address: address.to_owned(),
            clients: door.clients.get(),
            connections: door.connections.get(),
            connections_refused: door.connections_refused.get(),
            clients_closed: door.clients_closed.get(),
            requests_refused: door.requests_refused.get(),
            slow_commands: door.slow_commands.get(),
            commands_per_second: door.commands_per_second.get(),
            received_bytes: door.received_bytes.get(),
            sent_bytes: door.sent_bytes.get(),
            unread_bytes: door.unread_bytes.get(),
            unfinished_bytes: door.unfinished_bytes.get(),
            expired_keys: door.expired_keys.get(),
            slots_coming: door.slots_coming.get(),
            slots_under_way_ms: 0,
            moved_bytes: door.moved_bytes.get(),
            moved_slots: door.moved_slots.get(),
            families: families.collect(),
        }
    }
}
