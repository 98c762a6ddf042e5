//! A node: many logs, shared connections, one listener.
//!
//! [`Node`] is a [`Machine`]: completions go to the part of it they belong to, and after each round
//! every log that was touched is settled once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use commands::{Replica, SessionBounds};
use formats::{ClusterId, LogId};
use ops::{Completion, ConnId, Machine, Op, Token};
use paxos::mutation::{self, Mutation};
use paxos::{Input, NodeId, Time};
use replica::{Env, Log};
use store::Manifest;

use crate::beat::Beat;
use crate::config::{NodeConfig, Start};
use crate::counts::NodeCounts;
use crate::directory::{self, DIRECTORY, Directory};
use crate::greeting::{Greeting, Held};
use crate::health::Board;
use crate::hosted::HostedLogs;
use crate::peers::guests::Guests;
use crate::peers::{Inbound, Peers, Places};
use crate::status::LogList;

mod agenda;
mod answering;
mod awake;
mod confirming;
mod directing;
mod hosting;
pub(crate) mod memory;
mod moving;
mod parting;
pub(crate) use confirming::{Asked, still_joining};
pub(crate) use directing::no_directory_quorum;
pub(crate) use moving::REMOVED;
mod remembering;
mod removing;
mod scrubbing;
mod settling;
mod showing;
mod space;
mod splitting;
mod versions;
mod wishing;

use agenda::Agenda;
use awake::{Awake, Look};
use confirming::Confirming;
pub(crate) use directing::{
    ChangeMembers, CreateLog, DeleteLog, JoinCluster, Retain, ShowLog, unknown_log,
};
use directing::{Directing, directory_members};
use hosting::Creating;
use moving::Move;
pub(crate) use remembering::Remembering;
use removing::Removing;
use scrubbing::Scrubbing;
use settling::Settling;
use space::Space;
use versions::Versioning;
use wishing::Wishing;

pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) env: Env,
    pub(crate) logs: BTreeMap<LogId, Log>,
    /// Logs whose first segment, and then the manifest, are on their way to disk.
    pub(crate) creating: BTreeMap<LogId, Creating>,
    pub(crate) manifest: Manifest,
    pub(crate) peers: Peers,
    pub(crate) guests: Guests,
    pub(crate) past: Remembering,
    settling: Settling,
    /// How many challenges peers were sent.
    pub(crate) challenges: u64,
    /// Why a peer calls this directory an old copy.
    refused: Option<String>,
    /// By the directory, when it was last known to be current.
    listed_addresses: BTreeMap<NodeId, String>,
    pub(crate) board: Board,
    pub(crate) directory: Replica<Directory>,
    pub(crate) hosted: HostedLogs,
    directing: Directing,
    confirming: Confirming,
    wishing: Wishing,
    versioning: Versioning,
    /// Deleted logs whose files are still there.
    pub(crate) removing: Removing,
    pub(crate) greetings: BTreeMap<ConnId, Greeting>,
    /// Incoming control connections: what arrived and is no whole frame yet.
    pub(crate) controls: BTreeMap<ConnId, Inbound>,
    /// Clients that wait for the directory to say what they asked for.
    pub(crate) requests: Vec<Request>,
    /// Clients that name a log which this node may not have heard of.
    pub(crate) held: Vec<Held>,
    pub(crate) join: Option<crate::join::Join>,
    /// Logs that something happened to in this round.
    pub(crate) dirty: BTreeSet<LogId>,
    agenda: Agenda,
    awake: Awake,
    /// Who led log 0 at the last heartbeat.
    told_director: Option<NodeId>,
    scrubbing: Scrubbing,
    pub(crate) write_path: String,
    last_round: Time,
    space: Space,
    next_tick: Time,
    /// Since when peers are silent.
    away_since: BTreeMap<NodeId, Time>,
    /// Where this node leads and the configuration is not what is wanted.
    pub(crate) moves: BTreeMap<LogId, Move>,
    parted: parting::Parted,
    stopping_since: Option<Time>,
    /// Everything is handed over and flushed; the files are being closed.
    closing_since: Option<Time>,
    finished: bool,
    /// Why it cannot go on.
    failure: Option<String>,
    waiting_told_at: Time,
    pub(crate) started_at: Time,
    pub(crate) counts: NodeCounts,
    manifest_file: SmallFile,
    peers_file: SmallFile,
}

/// A file that is replaced as a whole. Replacements on their way at once may land in any order, so
/// there is one at a time, and at last one with what is true by then.
#[derive(Default)]
struct SmallFile {
    writing: bool,
    stale: bool,
}

pub(crate) struct Request {
    pub conn: ConnId,
    pub since: Time,
    /// Passed, this node knows the directory as it was when it was asked.
    pub asked: Asked,
    pub wants: Wants,
}

/// What a client asked the directory for: one module in `directing` each.
pub(crate) enum Wants {
    Join(JoinCluster),
    CreateLog(CreateLog),
    Retain(Retain),
    ChangeMembers(ChangeMembers),
    DeleteLog(DeleteLog),
    ShowLog(ShowLog),
    FreshStatus,
    Logs(LogList),
    Members(LogList),
}

/// Marks the node's own disk ops; a log's id never reaches it.
const NODE_TOKENS: u64 = 0xFFFF_FFFF << 32;
const TOKEN_SPACE: Token = Token(NODE_TOKENS | 1);
const TOKEN_MANIFEST: Token = Token(NODE_TOKENS | 2);
const TOKEN_PEERS: Token = Token(NODE_TOKENS | 3);
const TOKEN_REMOVED: Token = Token(NODE_TOKENS | 4);
const TOKEN_MET: Token = Token(NODE_TOKENS | 5);
const TOKEN_REFUSED: Token = Token(NODE_TOKENS | 6);
const TOKEN_ENDS: Token = Token(NODE_TOKENS | 7);

/// Rounds further apart than this mean that the process was kept from running.
const ROUND_GAP: u64 = 150_000;
const TICK: u64 = 100_000;
/// So much earlier or later if it then comes with a heartbeat, for which we wake anyway.
const TICK_SLACK: u64 = 35_000;
const STOPPING_TICK: u64 = 5_000;

impl Node {
    pub(crate) fn assemble(
        config: NodeConfig,
        env: Env,
        manifest: Manifest,
        logs: BTreeMap<LogId, Log>,
        write_path: String,
        past: Remembering,
    ) -> Node {
        let now = env.now;
        let speaks = env.own.speaks;
        let beat = Beat::every(env.limits.heartbeat_interval.as_micros() as u64);
        let places = Places::new(&config.places);
        Node {
            config,
            env,
            logs,
            creating: BTreeMap::new(),
            manifest,
            peers: Peers::new(beat, places),
            guests: Guests::default(),
            past,
            refused: None,
            listed_addresses: BTreeMap::new(),
            board: Board::default(),
            directory: Replica::new(
                Directory {
                    speaks,
                    ..Directory::default()
                },
                SessionBounds::default(),
            ),
            hosted: HostedLogs::new(),
            directing: Directing::default(),
            confirming: Confirming::default(),
            wishing: Wishing::default(),
            versioning: Versioning::default(),
            removing: Removing::default(),
            greetings: BTreeMap::new(),
            controls: BTreeMap::new(),
            requests: Vec::new(),
            held: Vec::new(),
            join: None,
            dirty: BTreeSet::new(),
            agenda: Agenda::default(),
            awake: Awake::default(),
            settling: Settling::default(),
            challenges: 0,
            told_director: None,
            scrubbing: Scrubbing::default(),
            write_path,
            last_round: now,
            space: Space::default(),
            next_tick: now,
            away_since: BTreeMap::new(),
            moves: BTreeMap::new(),
            parted: Default::default(),
            stopping_since: None,
            closing_since: None,
            finished: false,
            failure: None,
            waiting_told_at: now,
            started_at: now,
            counts: NodeCounts::default(),
            manifest_file: SmallFile::default(),
            peers_file: SmallFile::default(),
        }
    }

    pub(crate) fn begin(&mut self) {
        // Whoever comes back does not know yet whether somebody appends.
        self.env.appended_at = self.env.now;
        self.env.out.ops.push_back(Op::Listen {
            address: self.config.listen.clone(),
        });
        if self.manifest.identity.node == NodeId(0) {
            if let Start::Join { servers } = &self.config.start {
                self.join = Some(crate::join::Join::new(servers.clone()));
            }
        } else if !self.logs.contains_key(&DIRECTORY) {
            // A new cluster, or the process ended between the node's id and its first replica. The
            // others know its address by now, and come.
            self.create_log(
                DIRECTORY,
                directory::DIRECTORY_NAME,
                &directory_members(),
                &[],
                None,
            );
        }
        let ids: Vec<LogId> = self.logs.keys().copied().collect();
        for id in ids {
            self.log_appeared(id);
        }
    }

    fn tick(&mut self) {
        self.next_tick = Time(self.env.now.0 + TICK);
        let was_full = self.env.room.own_is_full;
        let full = self.judge_space();
        if self.env.room.own_is_full && !was_full {
            // Idle ones, too, have spares to give up.
            self.dirty.extend(self.logs.keys());
        }
        self.counts.disk_full += u64::from(full && !self.env.room.disk_is_full);
        self.env.room.disk_is_full = full;
        self.confirm_directory();
        // From here on a change of an address there is news.
        if self.listed_addresses.is_empty() && self.is_confirmed() {
            self.keep_to_directory();
        }
        self.lead_directory();
        self.answer_requests();
        let Look { logs, is_sweep } = self.awake.for_tick(self.env.now, self.logs.keys());
        self.propose_wishes(&logs);
        self.move_members(&logs);
        self.split(&logs);
        self.keep_to_retention(&logs);
        self.advance_creating();
        self.advance_removing();
        self.save_stale_files();
        self.keep_met();
        self.tend_links(&logs);
        if is_sweep {
            self.begin_scrubs();
        }
        self.share_memory(&logs);
        self.keep_awake(&logs);
        self.env.expire_answers();
        self.expire_greetings();
        self.expire_frames();
        self.keep_guests();
        self.judge_health();
        self.tell_waiting();
        self.ask_space();
        if let Some(since) = self.stopping_since {
            for (id, log) in &mut self.logs {
                log.abdicate(&mut self.env); // perhaps nobody could succeed before
                self.dirty.insert(*id);
            }
            let leaves = |log: &Log| log.may_hand_over() || log.holds_writers();
            let leading = self.logs.values().any(leaves);
            let queued = self
                .logs
                .values()
                .any(|l| !l.is_stopped() && l.store().queued_bytes() > 0);
            let waited = self.env.now.0 - since.0;
            self.next_tick = Time(self.env.now.0 + STOPPING_TICK);
            if (!leading || waited > 1_000_000) && (!queued || waited > 5_000_000) {
                self.close_logs();
            }
        }
    }

    fn tend_links(&mut self, logs: &[LogId]) {
        let many = self.env.conns.len() > self.env.limits.connections_max / 2;
        for id in logs {
            let Some(log) = self.logs.get_mut(id) else {
                continue;
            };
            if log.break_late_links(&mut self.env) {
                self.dirty.insert(*id);
            }
            if many {
                log.close_idle_links(&mut self.env);
            }
        }
    }

    /// Those of which something is to come that may not settle them.
    fn keep_awake(&mut self, logs: &[LogId]) {
        for id in logs {
            let log = self.logs.get(id);
            let is_busy = log.is_some_and(|log| log.is_busy() || log.store().queued_bytes() > 0);
            if is_busy || self.moves.contains_key(id) {
                self.awake.stays(*id);
            }
        }
    }

    /// Nothing is said or taken any more; each log's last record says how far all is durable.
    fn close_logs(&mut self) {
        if self.closing_since.is_none() {
            self.closing_since = Some(self.env.now);
            for log in self.logs.values_mut() {
                log.close(&mut self.env);
            }
        }
        let mut open = Vec::new();
        for log in self.logs.values_mut() {
            if !log.is_closed(&mut self.env) {
                open.push(log.name());
            }
        }
        let late = |since: Time| self.env.now.0 > since.0 + 1_000_000;
        let late = self.closing_since.is_some_and(late);
        if late && !open.is_empty() && !self.finished {
            tracing::warn!(
                "the disk has not ended what it was told to write for {}: this process keeps its directory until it has; nothing that was acknowledged needs it",
                open.join(", ")
            );
        }
        self.finished |= open.is_empty() && self.note_ends() || late;
    }

    fn tell_waiting(&mut self) {
        if self.env.now.0 < self.waiting_told_at.0 + 2_000_000 || self.logs.is_empty() {
            return;
        }
        self.waiting_told_at = self.env.now;
        for why in self.leaderless() {
            tracing::warn!("{why}");
        }
    }

    /// Sentences about what keeps this node from working; empty when nothing does.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        let mut waits = self.leaderless();
        waits.extend(self.versions_wait());
        waits.extend(self.refusals());
        waits.extend(self.logs.values().filter_map(Log::scrub_warning));
        waits
    }

    fn leaderless(&self) -> Vec<String> {
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
                let peer = self.peers.peers.get(n);
                let why = peer.and_then(|peer| peer.old_copy.as_deref());
                Some(match why {
                    Some(why) => format!(
                        "node {n} at {address}, whose directory is refused here ({why}: put its newer one back)"
                    ),
                    None => format!("node {n} at {address}"),
                })
            })
            .collect();
        if silent.is_empty() {
            return vec![format!("no leader yet for {}", leaderless.join(", "))];
        }
        let leaderless = leaderless.join(", ");
        let silent = silent.join(" and ");
        vec![format!("waiting for {silent}: no leader for {leaderless}")]
    }

    fn tick_deadline(&self) -> Time {
        let beat = self.peers.beat.next();
        let with_beat = self.next_tick..=Time(self.next_tick.0 + TICK_SLACK);
        match self.stopping_since.is_none() && with_beat.contains(&beat) {
            true => beat,
            false => self.next_tick,
        }
    }

    fn heartbeat(&mut self) {
        self.peers.beat.on_said(self.env.now);
        let not_dialled = self.not_dialled();
        self.peers.dial(&mut self.env, &not_dialled);
        let round = self.peers.next_round();
        let ids: Vec<NodeId> = self.env.peers.addresses.keys().copied().collect();
        let parted = self.parted();
        let directory = self.logs.get(&DIRECTORY);
        let directs = directory.and_then(|log| Some(log.engine().leader()?.0));
        if std::mem::replace(&mut self.told_director, directs) != directs {
            self.awake.wake_all_for_peers();
        }
        let tells = self.board.is_time_to_tell(self.env.now);
        self.awake.on_beat(self.env.now, &ids, self.logs.keys());
        for id in ids {
            let mut entries = Vec::new();
            let mut renounced = Vec::new();
            let peer = self.peers.get_or_add(id);
            let mut looked_at = self.awake.for_peer(id);
            looked_at.extend(&peer.status_wanted);
            // Where this peer is to be told again with the next heartbeat.
            let mut again = BTreeSet::new();
            for log_id in &looked_at {
                let Some(log) = self.logs.get(log_id) else {
                    continue;
                };
                if log.is_stopped() {
                    if let Some(message) = log.renounces() {
                        renounced.push((*log_id, message));
                        again.insert(*log_id);
                    }
                    continue;
                }
                // Before somebody is dismissed it must be known who holds what.
                let lacks = directs == Some(id) && log.lacks_bytes();
                let hosts = self.directory.hosts(*log_id, id);
                if !lacks && !hosts {
                    continue;
                }
                if lacks {
                    again.insert(*log_id);
                }
                if log.is_leading() {
                    if hosts && !log.engine().is_level(id) {
                        again.insert(*log_id);
                        let status = log.engine().leader_status();
                        entries.extend(status.map(|status| (*log_id, status)));
                    }
                    if lacks {
                        entries.push((*log_id, log.engine().follower_status()));
                    }
                    continue;
                }
                // Only what is durable is told, and is news once it is durable.
                let promised = log.engine().durable_promised();
                let wanted = peer.status_wanted.contains(log_id);
                let news = peer.promise_told.get(log_id) != Some(&promised);
                if wanted || lacks || news && !mutation::is(Mutation::PromiseNotToldInHeartbeat) {
                    peer.promise_told.insert(*log_id, promised);
                    entries.push((*log_id, log.engine().follower_status()));
                }
            }
            self.awake.stay_for_peer(id, again);
            peer.status_wanted.clear();
            let heartbeat = formats::Heartbeat {
                round,
                answers: peer.answers(),
                entries,
                free_bytes: self.env.room.free_bytes,
                disk_version: self.env.disk_version,
                members_version: self.directory.members.version,
                parted: parted.clone(),
                warnings: tells.then(|| {
                    let own = self.env.own.identity.node;
                    self.board.to_tell(self.env.now, own, id)
                }),
            };
            self.peers
                .send(&mut self.env, id, &formats::Frame::Heartbeat(heartbeat));
            for (log, message) in renounced {
                let frame = formats::Frame::Engine { log, message };
                self.peers.send(&mut self.env, id, &frame);
            }
        }
        self.tell_wishes();
        self.tell_ends();
    }

    fn settle(&mut self) {
        loop {
            let dirty = std::mem::take(&mut self.dirty);
            for &id in &dirty {
                if let Some(log) = self.logs.get_mut(&id) {
                    log.settle(&mut self.env);
                    self.agenda.set(id, log.deadline(&self.env));
                    self.awake.wake(id);
                }
            }
            while let Some(event) = self.env.out.events.pop_front() {
                self.on_log_event(event);
            }
            if dirty.contains(&DIRECTORY) {
                self.take_directory();
            }
            if !self.hosted.is_empty() {
                self.serve_hosted(&dirty);
            }
            let outbox: VecDeque<_> = std::mem::take(&mut self.env.out.outbox);
            for (to, frame) in outbox {
                self.peers.send(&mut self.env, to, &frame);
            }
            if self.dirty.is_empty() && self.env.out.events.is_empty() {
                self.direct();
                if self.dirty.is_empty() && self.env.out.events.is_empty() {
                    return;
                }
            }
        }
    }

    fn judge_peers(&mut self) {
        for (peer, alive) in self.peers.judge(&self.env) {
            match alive {
                true => self.away_since.remove(&peer),
                false => self.away_since.insert(peer, self.env.now),
            };
            if !alive {
                self.peers.on_silent(&mut self.env, peer);
            }
            for (id, log) in &mut self.logs {
                if !alive {
                    log.break_links(&mut self.env, peer);
                } else if !self.directory.hosts(*id, peer) {
                    continue;
                }
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

    /// This process may have been kept from running. Silence meanwhile says nothing about the others
    /// or the disk; but they may have elected another leader, whom a leader that knows nothing of it
    /// must not unseat by preparing above it.
    fn notice_gap(&mut self) {
        let now = self.env.now;
        let gap = now.0.saturating_sub(self.last_round.0);
        if gap <= ROUND_GAP {
            return;
        }
        self.last_round = now;
        self.env.resumed_at = now;
        self.peers.forgive(gap - ROUND_GAP);
        if gap <= self.env.limits.peer_timeout.as_micros() as u64 {
            return;
        }
        self.counts.gaps += 1;
        self.counts.gap_us = gap;
        tracing::warn!(
            milliseconds = gap / 1000,
            "this process did not run for a while"
        );
        for (id, log) in &mut self.logs {
            if log.is_leading() && log.engine().state().configuration.members().len() > 1 {
                self.dirty.insert(*id);
                log.input(&mut self.env, Input::StepDown);
            }
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
        self.next_tick = Time(self.env.now.0 + STOPPING_TICK);
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
                Completion::Space { result, .. } => self.on_space(result),
                Completion::Done {
                    token: TOKEN_MANIFEST,
                    result,
                } => self.on_manifest_written(result),
                Completion::Done {
                    token: TOKEN_PEERS,
                    result,
                } => self.on_peers_written(result),
                Completion::Done {
                    token: TOKEN_REMOVED,
                    result,
                } => self.on_removed(result),
                Completion::Done {
                    token: TOKEN_MET,
                    result,
                } => self.on_met_written(result),
                Completion::Done {
                    token: TOKEN_REFUSED,
                    result,
                } => self.on_refusal_written(result),
                Completion::Done {
                    token: TOKEN_ENDS,
                    result,
                } => self.on_ends_noted(result),
                _ => {}
            };
        }
        self.space.is_stale |= matches!(completion, Completion::Done { .. });
        let id = LogId((token.0 >> 32) as u32);
        if let Some(log) = self.logs.get_mut(&id) {
            log.on_disk(&mut self.env, completion);
            self.dirty.insert(id);
        } else if let Some(creating) = self.creating.get_mut(&id) {
            creating.store.on_completion(self.env.now, completion);
            self.advance_creating();
        } else {
            self.on_removing_disk(id, completion);
        }
    }

    /// Ends this process: nothing is taken, written or said any more.
    fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
        for log in self.logs.values_mut() {
            log.end("this node is stopping");
        }
        self.finished = true;
    }

    /// Why it ended, if nobody asked it to.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub fn cluster(&self) -> ClusterId {
        self.env.own.identity.cluster
    }
}

impl Machine for Node {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.env.now = now;
        self.notice_gap();
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
        self.notice_gap();
        self.last_round = now;
        let beats = self.peers.beat.is_due(now);
        if beats {
            self.heartbeat();
        }
        self.judge_peers();
        self.settle_start();
        if now >= self.next_tick || beats && now.0 + TICK_SLACK >= self.next_tick.0 {
            self.tick();
        }
        if let Some(join) = &self.join
            && join.is_due(now)
        {
            self.dial_join();
        }
        self.dirty.extend(self.agenda.due(now));
        self.dirty.extend(self.hosted_due());
        self.scrub();
        self.settle();
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.env.out.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let own = [
            Some(self.peers.beat.next()),
            Some(self.tick_deadline()),
            self.peers.next_judgement(&self.env),
            self.scrub_deadline(),
            self.settling_deadline(),
            self.hosted_deadline(),
        ];
        own.into_iter().chain([self.agenda.first()]).flatten().min()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}
