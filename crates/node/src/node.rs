//! A node: many logs, shared connections, one listener.
//!
//! [`Node`] is a [`Machine`]: completions go to the part of it they belong to, and after each round
//! every log that was touched is settled once.
//!
//! Every module in this folder takes several parts: who calls whom, and when. A part decides by itself, with
//! what it is lent, and knows no node.

use std::collections::VecDeque;

use formats::{ClusterId, LogId, LogKind};
use letters::Asks;
use ops::{Completion, Disk, Machine, Op};
use paxos::{NodeId, Time};
use replica::Env;

use crate::beat::Beat;
use crate::cluster::{Cluster, directory_members};
use crate::config::{NodeConfig, Start};
use crate::counts::NodeCounts;
use crate::directory::{DIRECTORY, DIRECTORY_NAME};
use crate::disk::OwnDisk;
use crate::ending::Ending;
use crate::gate::Gate;
use crate::greeting::Greetings;
use crate::health::Board;
use crate::hosted::HostedLogs;
use crate::join::Join;
use crate::lent::{Lent, Sight};
use crate::logs::Logs;
use crate::logs::due::Due;
use crate::logs::going::Going;
use crate::past::Remembering;
use crate::peers::{Peers, Places};
use crate::rounds::Rounds;
use crate::start::{Opened, StartError};

mod asking;
mod beating;
mod directing;
mod ending;
mod guests;
mod halting;
mod hearing;
mod hosting;
mod inspect;
mod joining;
mod judging;
mod moving;
mod naming;
mod noting;
mod passing;
mod remembering;
mod routing;
mod slots;
mod space;
mod ticking;
mod under_way;
mod verbs;
mod versions;

pub use inspect::VersionsView;
pub(crate) use naming::shown_names;
use noting::Noting;
use passing::Passing;
use slots::MapAsked;
use under_way::UnderWay;
use verbs::{Awaiting, Held};

pub struct Node {
    config: NodeConfig,
    /// The environment that is lent to every log.
    env: Env,
    logs: Logs,
    due: Due,
    disk: OwnDisk,
    peers: Peers,
    /// The past of disks.
    past: Remembering,
    cluster: Cluster,
    hosted: HostedLogs,
    callers: Callers,
    gate: Gate,
    /// The last word to the doors of this process, and the version of log 0's word that it was of.
    doors_told: Option<(Asks, u64, bool)>,
    passing: Passing,
    noting: Noting,
    under_way: UnderWay,
    map_asked: MapAsked,
    /// The join, until this node has an id.
    join: Option<Join>,
    board: Board,
    /// The last of the stopped replicas that others were told of, one by one.
    told_stopped: LogId,
    rounds: Rounds,
    ending: Ending,
    counts: NodeCounts,
}

/// Connections whose owner is not known yet.
#[derive(Default)]
struct Callers {
    greetings: Greetings,
    /// Clients that name a log which this node may not have heard of.
    held: Vec<Held>,
    /// Clients that wait for the directory to say what they asked for.
    awaiting: Awaiting,
}

impl Node {
    /// Opens the directory, recovers every log, and is ready to run.
    pub fn start(config: NodeConfig, disk: &mut dyn Disk, now: Time) -> Result<Node, StartError> {
        let opened = Opened::from(&config, disk, now)?;
        let mut node = Node::new(config, opened);
        node.begin();
        Ok(node)
    }

    fn new(config: NodeConfig, opened: Opened) -> Node {
        let Opened {
            env,
            manifest,
            mut logs,
            write_path,
            past,
            remains,
        } = opened;
        logs.going = Going::of(remains);
        let beat = Beat::every(env.limits.heartbeat_interval);
        let places = Places::new(&config.places);
        let directory = config.directory.clone();
        Node {
            config,
            logs,
            due: Due::default(),
            disk: OwnDisk::new(directory, write_path, manifest),
            peers: Peers::new(beat, places),
            past,
            cluster: Cluster::new(env.own.speaks),
            hosted: HostedLogs::default(),
            callers: Callers::default(),
            gate: Gate::default(),
            doors_told: None,
            passing: Passing::default(),
            noting: Noting::default(),
            under_way: UnderWay::default(),
            map_asked: MapAsked::default(),
            join: None,
            board: Board::default(),
            told_stopped: LogId(0),
            rounds: Rounds::new(env.now),
            ending: Ending::default(),
            counts: NodeCounts::default(),
            env,
        }
    }

    fn begin(&mut self) {
        self.look_at_own_certificate();
        // A node that comes back does not know yet whether a client appends.
        self.env.moments.appended_at = self.env.now;
        self.env.out.ops.push_back(Op::Listen {
            address: self.config.listen.clone(),
        });
        if self.disk.manifest.identity.node == NodeId(0) {
            if let Start::Join { servers } = &self.config.start {
                self.join = Some(Join::new(
                    servers.clone(),
                    self.config.token.clone(),
                    self.config.replaces,
                ));
            }
        } else if !self.logs.contains_key(&DIRECTORY) {
            // This is a new cluster, or the process ended between the node's id and its first replica. The
            // others know its address by now, and come.
            self.create_log(
                DIRECTORY,
                (DIRECTORY_NAME, LogKind::Bytes),
                &directory_members(),
                &[],
                None,
            );
        }
        let ids: Vec<LogId> = self.logs.keys().copied().collect();
        for id in ids {
            self.log_appeared(id);
        }
        self.advance_going();
    }

    /// The cluster's part, and its loan.
    fn lend(&mut self) -> (&mut Cluster, Lent<'_>) {
        let lent = Lent {
            env: &mut self.env,
            logs: &mut self.logs,
            due: &mut self.due,
            peers: &mut self.peers,
        };
        (&mut self.cluster, lent)
    }

    fn sight(&self) -> Sight<'_> {
        Sight {
            env: &self.env,
            logs: &self.logs,
            peers: &self.peers,
        }
    }

    fn settle(&mut self) {
        loop {
            let touched = self.due.take_touched();
            for &id in &touched {
                if let Some(log) = self.logs.get_mut(&id) {
                    log.settle(&mut self.env);
                    self.due.on_settled(id, log.deadline(&self.env));
                }
            }
            while !self.env.turns.is_empty()
                && let Some(log) = self.env.turns.next_turn()
            {
                self.due.touch(log);
            }
            while let Some(event) = self.env.out.events.pop_front() {
                self.on_log_event(event);
            }
            if touched.contains(&DIRECTORY) {
                let (cluster, mut lent) = self.lend();
                cluster.take_directory(&mut lent);
            }
            self.hosted
                .serve(&touched, &mut self.logs, &mut self.due, &mut self.env);
            let outbox: VecDeque<_> = std::mem::take(&mut self.env.out.outbox);
            for (to, frame) in outbox {
                self.peers.send(&mut self.env, to, &frame);
            }
            if !self.due.has_touched() && self.env.out.events.is_empty() {
                self.direct();
                if !self.due.has_touched() && self.env.out.events.is_empty() {
                    return;
                }
            }
        }
    }

    /// The reason why it ended, if nobody asked it to.
    pub fn failure(&self) -> Option<&str> {
        self.ending.failure()
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
            Completion::Accepted {
                conn,
                peer,
                is_own,
                node,
                client,
                ..
            } => {
                self.env.conns.on_shown(conn, node.clone());
                let greetings = &mut self.callers.greetings;
                greetings.on_accepted(&mut self.env, conn, peer, (is_own, node, client));
            }
            Completion::ListenFailed { address, error } => {
                tracing::error!(%address, %error, "cannot listen; choose another address with --listen");
                self.ending.finish();
            }
            Completion::Connected { conn, result, node } => self.on_connected(conn, result, node),
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } => self.on_received(conn, buffer, range, result),
            Completion::Sent { conn, result } => self.on_sent(conn, result.is_ok()),
            Completion::Delivered { from, letter } => self.on_letter(from, letter),
            // The node gives no work away, and asks for no wall clock.
            Completion::Ran { .. } | Completion::WallClock { .. } => {}
            Completion::StopRequested => self.stop(),
        }
    }

    fn on_time(&mut self, now: Time) {
        self.env.now = now;
        self.notice_gap();
        self.rounds.begin(now);
        let beats = self.peers.beat.is_due(now);
        if beats {
            self.heartbeat();
        }
        self.judge_peers();
        self.settle_start();
        if self.rounds.is_tick_due(now, beats) {
            self.tick();
        }
        if let Some(join) = &mut self.join
            && join.is_due(now)
        {
            join.dial(&mut self.env);
        }
        let most = self.env.limits.due_logs_max;
        self.due.touch_due(now, most);
        self.due.touch_all(self.hosted.due(now));
        let scrubbing = &mut self.disk.scrubbing;
        scrubbing.pump(&mut self.logs, &mut self.due, &mut self.env);
        self.settle();
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.env.out.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let beat = self.peers.beat.next();
        let is_settling = self.env.own.settling;
        let own = [
            Some(beat),
            Some(self.rounds.tick_deadline(beat, self.ending.has_begun())),
            self.peers.next_judgement(&self.env),
            self.disk.scrubbing.deadline(self.env.now),
            is_settling.then(|| self.rounds.settling.deadline(self.env.now)),
            self.hosted.deadline(),
            self.due.deadline(),
        ];
        own.into_iter().flatten().min()
    }

    fn is_finished(&self) -> bool {
        self.ending.is_finished()
    }
}
