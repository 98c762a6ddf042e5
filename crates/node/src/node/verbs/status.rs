//! A node's word of itself, as JSON (docs/wire.md, `status`).

use std::time::Duration;

use formats::Stand;
use ops::ConnId;
use paxos::{Role, Time};
use serde::Serialize;

use replica::{Env, Log};
use wire::Refusal;
use wire::told::{Altered, SlotsUnderWay};

use super::awaiting::{Answer, Commands, Want};
use crate::counts::micros;
use crate::directory::Directory;
use crate::greeting::Caller;
use crate::health::Health;
use crate::node::Node;
use crate::peers::Peer;

#[derive(Serialize)]
struct Status {
    cluster: String,
    /// The keys that a client may add to any request here. Programs that do not say so refuse keys that they
    /// do not know.
    understands: &'static [&'static str],
    node: u32,
    version: &'static str,
    /// The version in which logs are written.
    cluster_version: u8,
    /// The version of this node's disk.
    disk_version: u8,
    address: String,
    write_path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    altered: Option<Altered>,
    uptime_ms: u64,
    disk_full: bool,
    nodes: Vec<NodeStatus>,
    logs: Vec<LogStatus>,
    waiting_for: Vec<String>,
    slots_under_way: Vec<SlotsUnderWay>,
    health: Health,
}

#[derive(Serialize)]
struct NodeStatus {
    id: u32,
    address: String,
    alive: bool,
    last_heard_ms: Option<u64>,
    free_bytes: Option<u64>,
    /// Where it answers clients of keys, if it does, as far as it said.
    #[serde(skip_serializing_if = "Option::is_none")]
    kv: Option<String>,
    /// … and over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,
    /// The versions that the node speaks, as it said last.
    speaks: Option<String>,
    #[serde(rename = "self")]
    is_self: bool,
}

#[derive(Serialize)]
struct LogStatus {
    id: u32,
    name: String,
    role: &'static str,
    leader: Option<u32>,
    term: String,
    era: u32,
    weights: Vec<Weight>,
    /// Whether this node leads, with auxiliaries that get its proposals.
    engaged: bool,
    /// The number of full voters that are to hold what is acknowledged; 0 if a majority decides.
    min_copies: u32,
    /// At the leader: the number of full voters that are alive and hold all of the log.
    copies: Option<usize>,
    /// The bytes sent to followers, with proposals, since the node started.
    proposal_bytes_sent: u64,
    first_unchosen: u64,
    proposed: u64,
    output_bytes: u64,
    trimmed_bytes: u64,
    missing_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<StateStatus>,
    disk_bytes: u64,
    streams: usize,
    writer: Option<String>,
    stopped: Option<String>,
    peers: Vec<PeerStatus>,
}

/// This node's state of a machine's log, in positions of the log's output.
#[derive(Serialize)]
struct StateStatus {
    applied: u64,
    durable: u64,
    whole: bool,
    /// The room that it takes.
    disk_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<MarkStatus>,
    /// At the leader: the nodes whose marks of one position are not its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differs: Vec<u32>,
}

/// All rows of a state at one position, in short.
#[derive(Serialize)]
struct MarkStatus {
    position: u64,
    rows: u64,
    crc32c: String,
}

#[derive(Serialize)]
struct Weight {
    node: u32,
    weight: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    auxiliary: bool,
}

#[derive(Serialize)]
struct PeerStatus {
    id: u32,
    accepted_up_to: Option<u64>,
    lag_bytes: Option<u64>,
    missing_bytes: Option<u64>,
    level: bool,
}

/// The time for which a fresh status waits for new logs of this node to stand on its disk.
const COMING_WAIT: Duration = Duration::from_secs(1);

/// A status that lists every log of this node that the directory has by now. A new one is listed once it stands on the
/// disk, which takes a moment; where the disk does not take it the answer comes without.
struct FreshStatus {
    until: Time,
    asker: ConnId,
}

impl Want for FreshStatus {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        match node.logs.coming.is_empty() || node.env.now >= self.until {
            true => Answer::List(node.status_line(self.asker)),
            false => Answer::Wait,
        }
    }
}

impl Node {
    /// `status [fresh=1]`
    pub(super) fn tell_status(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        request.check()?;
        if request.flag("fresh")? {
            let until = self.env.now + COMING_WAIT;
            let asker = *conn;
            return self.tell_fresh(caller, FreshStatus { until, asker });
        }
        let line = self.status_line(*conn);
        self.env.answer(*conn, line);
        Ok(())
    }

    /// ‡ Whoever may not ask for the status, and has a token, is told what a client needs to find its logs, and no more.
    fn status_line(&self, asker: ConnId) -> String {
        let now = self.env.now;
        let pass = self.pass_of(asker);
        let is_whole = pass.only.is_none();
        let said = |door: &String| Some(door.clone()).filter(|door| !door.is_empty());
        let known = |bytes: u64| (bytes != u64::MAX).then_some(bytes);
        let mut nodes = vec![NodeStatus {
            id: self.env.own.identity.node.0,
            address: self.env.own.advertise.clone(),
            alive: true,
            last_heard_ms: None,
            free_bytes: known(self.env.room.free_bytes),
            kv: said(&self.config.standing.door),
            http: said(&self.config.standing.http),
            speaks: Some(self.env.own.speaks.to_string()),
            is_self: true,
        }];
        for (id, address) in &self.env.peers.addresses {
            let peer = self.peers.get(*id);
            nodes.push(NodeStatus {
                id: id.0,
                address: address.clone(),
                alive: peer.is_some_and(Peer::is_alive),
                last_heard_ms: peer
                    .and_then(|p| p.pulse.heard_at())
                    .map(|at| micros(now - at) / 1000),
                free_bytes: peer.and_then(|p| known(p.said.free_bytes())),
                kv: self.env.peers.doors.get(id).cloned(),
                http: peer
                    .and_then(|peer| peer.said.standing())
                    .and_then(|standing| said(&standing.http)),
                speaks: peer.and_then(|p| Some(p.said.speaks()?.to_string())),
                is_self: false,
            });
        }
        nodes.sort_by_key(|n| n.id);
        wire::ok(&Status {
            cluster: self.env.own.identity.cluster.to_string(),
            understands: &["cluster", "token", "checked"],
            node: self.env.own.identity.node.0,
            version: self.config.version,
            cluster_version: self.cluster.directory.versions.agreed,
            disk_version: self.env.version.disk,
            address: self.env.own.advertise.clone(),
            write_path: self.disk.write_path.clone(),
            altered: self.config.altered.clone(),
            uptime_ms: micros(now - self.rounds.started_at) / 1000,
            disk_full: self.env.room.disk_is_full,
            nodes,
            logs: self
                .logs
                .values()
                .filter(|log| pass.shows_log(log.name()))
                .map(|log| LogStatus::of(log, &self.env, &self.cluster.directory))
                .collect(),
            waiting_for: if is_whole {
                self.waiting_for()
            } else {
                Vec::new()
            },
            slots_under_way: match is_whole {
                true => self.slots_under_way(),
                false => Vec::new(),
            },
            health: match is_whole {
                true => self.health(),
                false => Health {
                    state: self.health().state,
                    warnings: Vec::new(),
                },
            },
        })
    }

    /// Sentences about the obstacles to this node's work; empty when there are none.
    fn waiting_for(&self) -> Vec<String> {
        let mut waits = self.leaderless();
        waits.extend(self.cluster.versions_wait(&self.env, &self.peers));
        waits.extend(self.peers.refusals(&self.env.peers.addresses));
        waits.extend(self.logs.values().filter_map(Log::scrub_warning));
        waits
    }

    pub(in crate::node) fn leaderless(&self) -> Vec<String> {
        let leaderless: Vec<&str> = self
            .logs
            .values()
            .filter(|l| !l.is_stopped() && l.engine().leader().is_none())
            .map(|l| l.name())
            .collect();
        if leaderless.is_empty() {
            return Vec::new();
        }
        let silent = self.peers.silent();
        let silent: Vec<String> = silent
            .iter()
            .filter_map(|n| {
                let address = self.env.peers.addresses.get(n)?;
                let peer = self.peers.get(*n);
                let why = peer.and_then(|peer| peer.admission.old_copy());
                Some(match why {
                    Some(why) => format!(
                        "node {n} at {address}, whose directory is refused here ({why}: put its newer one back)"
                    ),
                    None => format!("node {n} at {address}"),
                })
            })
            .collect();
        let leaderless = some_of(&leaderless);
        if silent.is_empty() {
            return vec![format!("no leader yet for {leaderless}")];
        }
        let silent = silent.join(" and ");
        vec![format!("waiting for {silent}: no leader for {leaderless}")]
    }
}

/// The number of logs that a sentence names: thousands may wait for the same node.
const NAMED_MAX: usize = 8;

fn some_of(names: &[&str]) -> String {
    let named = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len() - names.len().min(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl LogStatus {
    fn of(log: &Log, env: &Env, directory: &Directory) -> LogStatus {
        let state = log.engine().state();
        let proposed = log.engine().proposed_up_to().0.max(state.next.0);
        let peers = env.peers.addresses.keys();
        let peers = peers.filter(|id| directory.hosts(log.id(), **id));
        let peers = peers.map(|id| {
            let accepted = log.engine().peer_accepted_up_to(*id).map(|s| s.0);
            PeerStatus {
                id: id.0,
                accepted_up_to: accepted,
                lag_bytes: accepted.map(|a| proposed.saturating_sub(a)),
                missing_bytes: log.engine().peer_missing_bytes(*id),
                level: log.engine().is_level(*id),
            }
        });
        LogStatus {
            id: log.id().0,
            name: log.name().to_owned(),
            role: match (log.stopped(), log.role()) {
                (Some(_), _) => "stopped",
                (None, Role::Leader { .. }) => "leader",
                (None, Role::Follower { .. }) => "follower",
                (None, Role::Candidate) => "candidate",
            },
            // A replica that stopped does not hear who leads.
            leader: log
                .engine()
                .leader()
                .filter(|_| !log.is_stopped())
                .map(|(node, _)| node.0),
            term: log.engine().promised().0.to_string(),
            era: state.era.0,
            weights: state
                .configuration
                .members()
                .iter()
                .map(|m| Weight {
                    node: m.node.0,
                    weight: m.weight,
                    auxiliary: m.auxiliary,
                })
                .collect(),
            engaged: log.engine().is_engaged(),
            min_copies: state.wish.as_ref().map_or(0, |wish| wish.min_copies),
            copies: log.is_leading().then(|| log.engine().whole_copies()),
            proposal_bytes_sent: log.counts().proposal_bytes_sent,
            first_unchosen: state.next.0,
            proposed,
            output_bytes: replica::output_bytes(state),
            trimmed_bytes: replica::forgotten_bytes(state),
            missing_bytes: log.missing_bytes(),
            state: log
                .stand()
                .filter(|stand| *stand != Stand::IN_LOG)
                .map(|stand| StateStatus {
                    applied: stand.applied,
                    durable: stand.durable,
                    whole: stand.is_whole,
                    disk_bytes: stand.disk_bytes,
                    mark: stand.mark.map(|mark| MarkStatus {
                        position: mark.position,
                        rows: mark.rows,
                        crc32c: format!("{:08x}", mark.crc32c),
                    }),
                    differs: log.states_differ().iter().map(|node| node.0).collect(),
                }),
            disk_bytes: log.store().disk_bytes(),
            streams: state.streams.len(),
            writer: log.writer_stream().map(|s| s.to_string()),
            stopped: log.stopped().map(str::to_owned),
            peers: if log.is_leading() {
                peers.collect()
            } else {
                Vec::new()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::some_of;

    #[test]
    fn a_sentence_names_a_few_logs_and_counts_the_others() {
        assert_eq!(some_of(&["main"]), "main");
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        assert_eq!(some_of(&names[..8]), "a, b, c, d, e, f, g, h");
        assert_eq!(some_of(&names), "a, b, c, d, e, f, g, h and 2 more");
    }
}
