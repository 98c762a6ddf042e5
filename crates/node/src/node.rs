//! A node: many logs, shared connections, one listener.
//!
//! [`Node`] is a [`Machine`]: completions go to the part of it they belong to, and after each round
//! every log that was touched is settled once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use paxos::{Action, Checkpoint, LogState, NodeId, Outcome, Slot, Time};

use crate::commands::{self, Decoder};
use crate::config::{NodeConfig, Start};
use crate::directory::{self, Command, DIRECTORY, Directory};
use crate::env::{Env, LogEvent};
use crate::greeting::Greeting;
use crate::line::Refusal;
use crate::log::Log;
use crate::op::{Completion, ConnId, Machine, Op, Token};
use crate::peers::Peers;
use crate::store::{Manifest, ManifestLog, Store};
use crate::{ClusterId, LogId};

pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) env: Env,
    pub(crate) logs: BTreeMap<LogId, Log>,
    /// Logs whose first segment, and then the manifest, are on their way to disk.
    pub(crate) creating: BTreeMap<LogId, Creating>,
    pub(crate) manifest: Manifest,
    pub(crate) peers: Peers,
    pub(crate) directory: Directory,
    decoder: Decoder,
    pub(crate) greetings: BTreeMap<ConnId, Greeting>,
    pub(crate) controls: BTreeMap<ConnId, Control>,
    /// Clients that wait for the directory to say what they asked for.
    pub(crate) requests: Vec<Request>,
    pub(crate) join: Option<crate::join::Join>,
    pub(crate) dirty: BTreeSet<LogId>,
    pub(crate) write_path: String,
    pub(crate) free_bytes: u64,
    last_round: Time,
    next_space: Time,
    next_tick: Time,
    stopping_since: Option<Time>,
    finished: bool,
    waiting_told_at: Time,
    pub(crate) started_at: Time,
    files_pending: usize,
}

/// An incoming control connection: frames as they arrive.
pub(crate) struct Control {
    pub peer: NodeId,
    pub bytes: Vec<u8>,
}

pub(crate) struct Creating {
    name: String,
    store: Store,
    checkpoint: Checkpoint,
    listed: bool,
}

pub(crate) struct Request {
    pub conn: ConnId,
    pub since: Time,
    pub wants: Wants,
}

pub(crate) enum Wants {
    Join {
        address: String,
        disk: String,
        slot: Option<Slot>,
        proposed: bool,
    },
    CreateLog {
        name: String,
        proposed: bool,
    },
}

/// Marks the node's own disk ops; a log's id never reaches it.
const NODE_TOKENS: u64 = 0xFFFF_FFFF << 32;
const TOKEN_SPACE: Token = Token(NODE_TOKENS | 1);
const TOKEN_MANIFEST: Token = Token(NODE_TOKENS | 2);
const TOKEN_PEERS: Token = Token(NODE_TOKENS | 3);

pub(crate) const PEERS_FILE: &str = "peers.json";
/// Rounds further apart than this mean that the process was kept from running.
const ROUND_GAP: u64 = 150_000;
const TICK: u64 = 100_000;

impl Node {
    pub(crate) fn assemble(
        config: NodeConfig,
        env: Env,
        manifest: Manifest,
        logs: BTreeMap<LogId, Log>,
        write_path: String,
    ) -> Node {
        let now = env.now;
        Node {
            config,
            env,
            logs,
            creating: BTreeMap::new(),
            manifest,
            peers: Peers::default(),
            directory: Directory::default(),
            decoder: Decoder::default(),
            greetings: BTreeMap::new(),
            controls: BTreeMap::new(),
            requests: Vec::new(),
            join: None,
            dirty: BTreeSet::new(),
            write_path,
            free_bytes: u64::MAX,
            last_round: now,
            next_space: now,
            next_tick: now,
            stopping_since: None,
            finished: false,
            waiting_told_at: now,
            started_at: now,
            files_pending: 0,
        }
    }

    pub(crate) fn begin(&mut self) {
        self.env.ops.push_back(Op::Listen {
            address: self.config.listen.clone(),
        });
        if self.manifest.identity.node == NodeId(0) {
            if let Start::Join { servers } = &self.config.start {
                self.join = Some(crate::join::Join::new(servers.clone()));
            }
        } else if !self.logs.contains_key(&DIRECTORY) && self.manifest.identity.node == NodeId(1) {
            // A new cluster, or one whose making was interrupted.
            self.create_log(DIRECTORY, directory::DIRECTORY_NAME, &directory_members());
        }
        let ids: Vec<LogId> = self.logs.keys().copied().collect();
        for id in ids {
            self.log_appeared(id);
        }
    }

    fn log_appeared(&mut self, id: LogId) {
        self.dirty.insert(id);
        let Some(log) = self.logs.get_mut(&id) else {
            return;
        };
        if id == DIRECTORY {
            log.subscribe_local();
        }
        for (peer, state) in &self.peers.peers {
            if state.alive {
                log.set_alive(&mut self.env, *peer, true);
            }
        }
    }

    /// The first segment is made durable first, then the manifest lists the log, then it takes part:
    /// a listed log without its directory is a lost disk.
    pub(crate) fn create_log(&mut self, id: LogId, name: &str, members: &[(u32, u32)]) {
        if self.logs.contains_key(&id) || self.creating.contains_key(&id) {
            return;
        }
        let configuration = match directory::configuration(members) {
            Ok(configuration) => configuration,
            Err(e) => {
                tracing::error!(log = id.0, name, error = ?e, "the directory holds an impossible configuration");
                return;
            }
        };
        let checkpoint = Checkpoint {
            promised: Default::default(),
            state: LogState::new(configuration),
            accepted: Vec::new(),
        };
        tracing::info!(log = id.0, name, "creating this node's replica");
        let store = Store::create(self.store_config(id), &checkpoint);
        self.creating.insert(
            id,
            Creating {
                name: name.to_string(),
                store,
                checkpoint,
                listed: false,
            },
        );
        self.advance_creating();
    }

    fn advance_creating(&mut self) {
        for (id, creating) in &mut self.creating {
            while let Some(op) = creating.store.poll_op() {
                self.env.ops.push_back(op);
            }
            while let Some(event) = creating.store.poll_event() {
                if let crate::store::StoreEvent::Failed(error) = event {
                    tracing::error!(log = id.0, %error, "the replica could not be created; free space and restart the node");
                }
            }
            if creating.store.queued_bytes() == 0 && !creating.listed {
                creating.listed = true;
                self.manifest.logs.push(ManifestLog {
                    id: *id,
                    name: creating.name.clone(),
                });
                self.files_pending += 1;
                self.env
                    .ops
                    .push_back(self.manifest.write(&self.config.directory, TOKEN_MANIFEST));
            }
        }
    }

    fn on_manifest_written(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            tracing::error!(%error, "the manifest could not be written; free space and restart the node");
            return;
        }
        if self.files_pending > 0 {
            return; // A later one lists more.
        }
        if self.logs.is_empty() && self.creating.is_empty() && self.join.is_some() {
            return self.on_joined_durably();
        }
        let ready: Vec<LogId> = self
            .creating
            .iter()
            .filter(|(_, c)| c.listed)
            .map(|(id, _)| *id)
            .collect();
        for id in ready {
            if let Some(creating) = self.creating.remove(&id) {
                let log = Log::new(
                    &self.env,
                    id,
                    creating.name,
                    creating.store,
                    creating.checkpoint,
                );
                self.logs.insert(id, log);
                self.log_appeared(id);
            }
        }
    }

    pub(crate) fn save_manifest(&mut self) {
        self.files_pending += 1;
        self.env
            .ops
            .push_back(self.manifest.write(&self.config.directory, TOKEN_MANIFEST));
    }

    pub(crate) fn save_peers(&mut self) {
        let addresses: BTreeMap<u32, &String> =
            self.env.addresses.iter().map(|(n, a)| (n.0, a)).collect();
        let Ok(contents) = serde_json::to_vec_pretty(&addresses) else {
            return;
        };
        self.env.ops.push_back(Op::WriteFile {
            token: TOKEN_PEERS,
            path: self.config.directory.join(PEERS_FILE),
            contents,
        });
    }

    /// A peer's address, from the directory or from its own greeting.
    pub(crate) fn learn_address(&mut self, id: NodeId, address: &str) {
        if id == self.env.identity.node || id == NodeId(0) || address.is_empty() {
            return;
        }
        if self.env.addresses.get(&id).map(String::as_str) != Some(address) {
            self.env.addresses.insert(id, address.to_string());
            self.save_peers();
        }
    }

    // ---- the directory ----

    fn on_log_event(&mut self, event: LogEvent) {
        match event {
            LogEvent::Chunk {
                log: DIRECTORY,
                bytes,
                ..
            } => {
                self.decoder.push(&bytes);
                while let Some(command) = self.decoder.next_command() {
                    match serde_json::from_slice::<Command>(&command) {
                        Ok(command) => self.on_command(command),
                        Err(error) => {
                            tracing::error!(%error, "the directory holds a command that this version does not know; upgrade this node");
                        }
                    }
                }
            }
            LogEvent::StreamEnded { log: DIRECTORY } => self.decoder.end_of_stream(),
            LogEvent::Applied {
                log: DIRECTORY,
                slot,
                outcome: Outcome::NodeId(id),
            } => {
                self.on_node_id(slot, id);
            }
            LogEvent::Applied {
                log,
                outcome: Outcome::Reconfigured { era },
                ..
            } => {
                if let Some(log) = self.logs.get(&log) {
                    let members = log.engine.state().configuration.members();
                    tracing::info!(log = log.id.0, era = era.0, ?members, "a new configuration");
                }
            }
            LogEvent::Role { log } => {
                self.dirty.insert(log);
                if log == DIRECTORY && !self.logs.get(&log).is_some_and(|l| l.is_leading()) {
                    self.refuse_requests();
                }
            }
            _ => {}
        }
    }

    fn on_command(&mut self, command: Command) {
        self.directory.apply(&command);
        match &command {
            Command::AddNode { id, address, .. } => self.learn_address(NodeId(*id), address),
            Command::CreateLog { .. } => {
                let logs: Vec<_> = self
                    .directory
                    .logs
                    .iter()
                    .map(|(id, e)| (*id, e.clone()))
                    .collect();
                for (id, entry) in logs {
                    self.create_log(id, &entry.name, &entry.members);
                }
            }
            Command::SetVoters { .. } => {}
        }
        self.answer_requests();
    }

    fn propose_command(&mut self, command: &Command) -> bool {
        let Ok(bytes) = serde_json::to_vec(command) else {
            return false;
        };
        let Some(log) = self.logs.get_mut(&DIRECTORY) else {
            return false;
        };
        self.dirty.insert(DIRECTORY);
        log.append_local(&mut self.env, &commands::encode(&bytes))
    }

    fn on_node_id(&mut self, slot: Slot, id: NodeId) {
        let command = self.requests.iter_mut().find_map(|r| match &mut r.wants {
            Wants::Join {
                address,
                disk,
                slot: asked,
                proposed,
            } if *asked == Some(slot) => {
                *proposed = true;
                Some(Command::AddNode {
                    id: id.0,
                    address: address.clone(),
                    disk: disk.clone(),
                })
            }
            _ => None,
        });
        if let Some(command) = command {
            self.propose_command(&command);
        }
    }

    /// Moves every waiting request on: proposes what it needs, answers what the directory has.
    pub(crate) fn answer_requests(&mut self) {
        let hosted: BTreeSet<LogId> = self.logs.keys().copied().collect();
        let Some(log) = self.logs.get_mut(&DIRECTORY) else {
            return;
        };
        let mut commands = Vec::new();
        let mut kept = Vec::new();
        for mut request in std::mem::take(&mut self.requests) {
            if !self.env.conns.contains_key(&request.conn) {
                continue;
            }
            let answer = match &mut request.wants {
                Wants::Join {
                    address,
                    disk,
                    slot,
                    proposed,
                } => match self.directory.node_by_disk(disk) {
                    Some(id) if self.directory.nodes[&id].address == *address => Some(
                        crate::join::answer(&self.env, &self.directory, id, directory_members()),
                    ),
                    Some(id) => {
                        if !*proposed && log.can_propose() {
                            *proposed = true;
                            commands.push(Command::AddNode {
                                id: id.0,
                                address: address.clone(),
                                disk: disk.clone(),
                            });
                        }
                        None
                    }
                    None => {
                        if slot.is_none() && log.can_propose() {
                            *slot = log
                                .engine
                                .propose(self.env.now, Action::GenerateNodeId)
                                .ok();
                            log.drain(&mut self.env);
                            self.dirty.insert(DIRECTORY);
                        }
                        None
                    }
                },
                Wants::CreateLog { name, proposed } => match self.directory.log_by_name(name) {
                    // Whoever asks next finds it here; that it has no leader yet is no error to them.
                    Some(id) if *proposed && !hosted.contains(&id) => None,
                    Some(id) if *proposed => {
                        Some(format!("ok {{\"id\":{},\"name\":\"{name}\"}}\n", id.0).into_bytes())
                    }
                    Some(_) => Some(
                        Refusal::new("exists", format!("a log named {name} exists already"))
                            .encode(),
                    ),
                    None => {
                        if !*proposed && log.can_propose() {
                            *proposed = true;
                            let members = log.engine.state().configuration.members();
                            let members = members.iter().map(|m| (m.node.0, m.weight)).collect();
                            commands.push(Command::CreateLog {
                                name: name.clone(),
                                members,
                            });
                        }
                        None
                    }
                },
            };
            match answer {
                Some(line) => self.env.part(request.conn, &line),
                None if self.env.now.0 > request.since.0 + 2 * self.env.limits.leader_wait => {
                    self.env.refuse(request.conn, crate::ingest::no_quorum());
                }
                None => kept.push(request),
            }
        }
        self.requests.append(&mut kept);
        for command in commands {
            self.propose_command(&command);
        }
    }

    fn refuse_requests(&mut self) {
        let Some(log) = self.logs.get(&DIRECTORY) else {
            return;
        };
        let refusal = log.not_leader(&self.env);
        for request in std::mem::take(&mut self.requests) {
            self.env.refuse(request.conn, refusal.clone());
        }
    }

    /// What only the directory's leader does: makes the first entries of a new cluster.
    fn lead_directory(&mut self) {
        let Some(log) = self.logs.get(&DIRECTORY) else {
            return;
        };
        if !log.can_propose() || !log.local_is_idle() {
            return;
        }
        let own = self.env.identity.node;
        let disk = crate::line::hex(&self.env.identity.disk.0);
        let entry = self.directory.nodes.get(&own);
        if entry.is_none_or(|e| e.address != self.env.advertise) {
            let address = self.env.advertise.clone();
            self.propose_command(&Command::AddNode {
                id: own.0,
                address,
                disk,
            });
        }
        if let Start::Bootstrap { voters } = self.config.start
            && self.directory.voters == 0
        {
            self.propose_command(&Command::SetVoters { voters });
            self.propose_command(&Command::CreateLog {
                name: "main".into(),
                members: vec![(own.0, 1)],
            });
        }
    }

    /// Gives weight to nodes that hold everything, until there are as many voters as wanted.
    fn promote(&mut self) {
        let voters = self.directory.voters as usize;
        for (id, log) in &mut self.logs {
            if !log.can_propose() {
                continue;
            }
            let state = log.engine.state();
            if state.configuration.members().len() >= voters {
                continue;
            }
            let first_unchosen = log.engine.first_unchosen().0;
            let ready = self.directory.nodes.keys().copied().find(|node| {
                !state.configuration.contains(*node)
                    && log.alive.contains(node)
                    && log.engine.peer_missing_bytes(*node) == Some(0)
                    && log.engine.peer_accepted_up_to(*node).is_some_and(|s| {
                        s.0 + self.env.limits.unchosen_bytes_max / 4 >= first_unchosen
                    })
            });
            if let Some(node) = ready {
                let change = paxos::Change::Increment(node);
                let from = state.era;
                tracing::info!(
                    log = id.0,
                    node = node.0,
                    "giving weight to a node that holds everything"
                );
                if log
                    .engine
                    .propose(self.env.now, Action::Reconfigure { from, change })
                    .is_ok()
                {
                    log.drain(&mut self.env);
                    self.dirty.insert(*id);
                }
            }
        }
    }

    // ---- rounds ----

    fn tick(&mut self) {
        self.next_tick = Time(self.env.now.0 + TICK);
        self.env.disk_is_full = self.judge_space();
        self.lead_directory();
        self.answer_requests();
        self.promote();
        self.advance_creating();
        self.expire_greetings();
        self.tell_waiting();
        if self.env.now >= self.next_space {
            self.next_space = Time(self.env.now.0 + 1_000_000);
            self.env.ops.push_back(Op::FreeSpace {
                token: TOKEN_SPACE,
                path: self.config.directory.clone(),
            });
        }
        if let Some(since) = self.stopping_since {
            let leading = self
                .logs
                .values()
                .any(|l| l.is_leading() && l.engine.state().configuration.members().len() > 1);
            let queued = self
                .logs
                .values()
                .any(|l| l.stopped.is_none() && l.store.queued_bytes() > 0);
            let waited = self.env.now.0 - since.0;
            if (!leading || waited > 1_000_000) && (!queued || waited > 5_000_000) {
                self.finish();
            }
        }
    }

    /// With hysteresis, and for the scarcest disk among us and the live peers.
    fn judge_space(&self) -> bool {
        let peers = self
            .peers
            .peers
            .values()
            .filter(|p| p.alive)
            .map(|p| p.free_bytes);
        let least = peers.chain([self.free_bytes]).min().unwrap_or(u64::MAX);
        let reserve = self.env.limits.disk_reserve_bytes;
        let full = if self.env.disk_is_full {
            least < 2 * reserve
        } else {
            least < reserve
        };
        if full != self.env.disk_is_full {
            if full {
                tracing::error!(
                    free_bytes = least,
                    reserve,
                    "a disk is almost full: appends are refused until space is freed"
                );
            } else {
                tracing::info!(
                    free_bytes = least,
                    "there is space again: appends are taken"
                );
            }
        }
        full
    }

    fn tell_waiting(&mut self) {
        if self.env.now.0 < self.waiting_told_at.0 + 2_000_000 || self.logs.is_empty() {
            return;
        }
        self.waiting_told_at = self.env.now;
        for why in self.waiting_for() {
            tracing::warn!("{why}");
        }
    }

    /// Sentences about what keeps this node from working; empty when nothing does.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        let leaderless: Vec<&str> = self
            .logs
            .values()
            .filter(|l| l.stopped.is_none() && l.engine.leader().is_none())
            .map(|l| l.name.as_str())
            .collect();
        if leaderless.is_empty() {
            return Vec::new();
        }
        let silent = self.peers.silent();
        let silent: Vec<String> = silent
            .iter()
            .filter_map(|n| Some(format!("node {n} at {}", self.env.addresses.get(n)?)))
            .collect();
        if silent.is_empty() {
            return vec![format!("no leader yet for {}", leaderless.join(", "))];
        }
        vec![format!(
            "waiting for {}: no leader for {}",
            silent.join(" and "),
            leaderless.join(", ")
        )]
    }

    fn heartbeat(&mut self) {
        self.peers.next_heartbeat = Time(self.env.now.0 + self.env.limits.heartbeat_interval);
        self.peers.dial(&mut self.env);
        let round = self.peers.next_round();
        let ids: Vec<NodeId> = self.env.addresses.keys().copied().collect();
        for id in ids {
            let mut entries = Vec::new();
            let peer = self.peers.get_or_add(id);
            for (log_id, log) in &self.logs {
                if log.stopped.is_some() {
                    continue;
                }
                if log.is_leading() {
                    if !log.engine.is_level(id)
                        && let Some(status) = log.engine.leader_status()
                    {
                        entries.push((*log_id, status));
                    }
                    continue;
                }
                let promised = log.engine.promised();
                let wanted = peer.status_wanted.contains(log_id);
                if wanted || peer.promise_told.get(log_id) != Some(&promised) {
                    peer.promise_told.insert(*log_id, promised);
                    entries.push((*log_id, log.engine.follower_status()));
                }
            }
            peer.status_wanted.clear();
            let heartbeat = crate::format::Heartbeat {
                round,
                answers: peer.answers(),
                entries,
                free_bytes: self.free_bytes,
            };
            self.peers.send(
                &mut self.env,
                id,
                &crate::format::Frame::Heartbeat(heartbeat),
            );
        }
    }

    fn settle(&mut self) {
        loop {
            let dirty = std::mem::take(&mut self.dirty);
            for id in dirty {
                if let Some(log) = self.logs.get_mut(&id) {
                    log.settle(&mut self.env);
                }
            }
            while let Some(event) = self.env.events.pop_front() {
                self.on_log_event(event);
            }
            let outbox: VecDeque<_> = std::mem::take(&mut self.env.outbox);
            for (to, frame) in outbox {
                self.peers.send(&mut self.env, to, &frame);
            }
            if self.dirty.is_empty() && self.env.events.is_empty() {
                return;
            }
        }
    }

    fn judge_peers(&mut self) {
        for (peer, alive) in self.peers.judge(&self.env) {
            for (id, log) in &mut self.logs {
                log.set_alive(&mut self.env, peer, alive);
                self.dirty.insert(*id);
            }
        }
    }

    pub(crate) fn peer_is_back(&mut self, peer: NodeId) {
        for (id, log) in &mut self.logs {
            log.resend_to(peer);
            self.dirty.insert(*id);
        }
    }

    fn stop(&mut self) {
        if self.stopping_since.is_some() {
            self.finish();
            return;
        }
        tracing::info!("stopping: handing over, then flushing");
        self.stopping_since = Some(self.env.now);
        self.env.stopping = true;
        for (id, log) in &mut self.logs {
            log.abdicate(&mut self.env);
            self.dirty.insert(*id);
        }
        self.next_tick = Time(self.env.now.0 + 10_000);
    }

    fn finish(&mut self) {
        for log in self.logs.values_mut() {
            log.stop_clients(
                &mut self.env,
                "shutting-down",
                "this node is stopping; ask another",
            );
        }
        self.finished = true;
    }

    fn on_disk(&mut self, token: Token, completion: Completion) {
        if token.0 & NODE_TOKENS == NODE_TOKENS {
            return match completion {
                Completion::Space {
                    result: Ok(free), ..
                } => self.free_bytes = free,
                Completion::Done {
                    token: TOKEN_MANIFEST,
                    result,
                } => {
                    self.files_pending = self.files_pending.saturating_sub(1);
                    self.on_manifest_written(result);
                }
                Completion::Done {
                    token: TOKEN_PEERS,
                    result: Err(error),
                } => {
                    tracing::warn!(%error, "the peers' addresses could not be saved");
                }
                _ => {}
            };
        }
        let id = LogId((token.0 >> 32) as u32);
        if let Some(log) = self.logs.get_mut(&id) {
            log.on_disk(&mut self.env, completion);
            self.dirty.insert(id);
        } else if let Some(creating) = self.creating.get_mut(&id) {
            creating.store.on_completion(self.env.now, completion);
            self.advance_creating();
        }
    }

    pub fn cluster(&self) -> ClusterId {
        self.env.identity.cluster
    }
}

/// The directory begins with the cluster's first node alone.
fn directory_members() -> Vec<(u32, u32)> {
    vec![(1, 1)]
}

impl Machine for Node {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.env.now = now;
        match completion {
            Completion::Read { token, .. }
            | Completion::Done { token, .. }
            | Completion::Space { token, .. } => {
                self.on_disk(token, completion);
            }
            Completion::Accepted { conn, peer } => self.on_accepted(conn, peer),
            Completion::ListenFailed { address, error } => {
                tracing::error!(%address, %error, "cannot listen; choose another address with --listen");
                self.finished = true;
            }
            Completion::Connected { conn, result } => self.on_connected(conn, result),
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } => self.on_received(conn, buffer, range, result),
            Completion::Sent { conn, result } => self.on_sent(conn, result.is_ok()),
            Completion::StopRequested => self.stop(),
        }
    }

    fn on_time(&mut self, now: Time) {
        self.env.now = now;
        let gap = now.0.saturating_sub(self.last_round.0);
        if gap > ROUND_GAP {
            // Everything that arrived meanwhile has been handled by now; judge only afterwards.
            self.peers.forgive(gap - ROUND_GAP);
            if gap > 1_000_000 {
                tracing::warn!(
                    milliseconds = gap / 1000,
                    "this process did not run for a while"
                );
            }
        }
        self.last_round = now;
        if now >= self.peers.next_heartbeat {
            self.heartbeat();
        }
        self.judge_peers();
        if now >= self.next_tick {
            self.tick();
        }
        if let Some(join) = &self.join
            && join.is_due(now)
        {
            self.dial_join();
        }
        let due: Vec<LogId> = self
            .logs
            .iter()
            .filter(|(_, log)| log.deadline(&self.env).is_some_and(|d| d <= now) || log.is_busy())
            .map(|(id, _)| *id)
            .collect();
        self.dirty.extend(due);
        self.settle();
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.env.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let logs = self
            .logs
            .values()
            .filter_map(|l| l.deadline(&self.env))
            .min();
        let own = [
            Some(self.peers.next_heartbeat),
            Some(self.next_tick),
            self.peers.next_judgement(&self.env),
        ];
        own.into_iter().chain([logs]).flatten().min()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}
