//! Heartbeats to all peers, and what follows when one falls silent or is heard again.

use std::collections::BTreeSet;
use std::ops::Range;

use formats::frame::TOLD_MAX;
use ops::{Buffer, ConnId};
use paxos::NodeId;
use paxos::mutation::{self, Mutation};

use super::Node;

impl Node {
    pub(super) fn heartbeat(&mut self) {
        self.peers.beat.on_said(self.env.now);
        let not_dialled = self.not_dialled();
        self.peers.dial(&mut self.env, &not_dialled);
        let round = self.peers.next_round();
        let ids: Vec<NodeId> = self.env.peers.addresses.keys().copied().collect();
        let parted = self.cluster.parted(&self.logs);
        let directs = self.logs.director();
        self.due.awake.on_director(directs);
        let tells = self.board.is_time_to_tell(self.env.now);
        let from = |from| self.logs.keys_from(from);
        let awake = self.due.awake.on_beat(self.env.now, &ids, from);
        let stopped = match tells {
            true => self.stopped_to_tell(),
            false => Vec::new(),
        };
        for id in ids {
            let mut entries = Vec::new();
            let mut renounced = Vec::new();
            let peer = self.peers.get_or_add(id);
            let mut looked_at = self.due.awake.for_peer(id);
            let status_wanted = peer.told.take_status_wanted();
            looked_at.extend(&status_wanted);
            // The logs of which this peer is to be told again with the next heartbeat.
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
                // The holders of bytes must be known before a node is dismissed.
                let lacks = directs == Some(id) && log.lacks_bytes();
                let hosts = self.cluster.directory.hosts(*log_id, id);
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
                // Only a durable promise is told, and it is news once it is durable.
                let promised = log.engine().durable_promised();
                let wanted = status_wanted.contains(log_id);
                let news = !peer.told.knows_promise(*log_id, promised);
                if wanted || lacks || news && !mutation::is(Mutation::PromiseNotToldInHeartbeat) {
                    peer.told.on_promise(*log_id, promised);
                    entries.push((*log_id, log.engine().follower_status()));
                }
            }
            self.due.awake.stay_for_peer(id, again);
            let heartbeat = formats::Heartbeat {
                round,
                answers: peer.pulse.answers(),
                entries,
                free_bytes: self.env.room.free_bytes,
                disk_version: self.env.version.disk,
                members_version: self.cluster.directory.members.version,
                parted: parted.clone(),
                warnings: tells.then(|| {
                    let own = self.env.own.identity.node;
                    let mut told = stopped.clone();
                    // The sum of them comes last: it is what is shown.
                    told.extend(self.board.to_tell(self.env.now, own, id));
                    told.truncate(TOLD_MAX);
                    told
                }),
            };
            self.peers
                .send(&mut self.env, id, &formats::Frame::Heartbeat(heartbeat));
            for (log, message) in renounced {
                let frame = formats::Frame::Engine { log, message };
                self.peers.send(&mut self.env, id, &frame);
            }
        }
        let (cluster, mut lent) = self.lend();
        cluster.tell_wishes(&mut lent, awake.iter());
        self.tell_ends();
    }

    pub(super) fn judge_peers(&mut self) {
        for (peer, alive) in self.peers.judge(&self.env) {
            if !alive {
                self.peers.on_silent(&mut self.env, peer);
            }
            for (id, log) in self.logs.iter_mut() {
                let hosts = self.cluster.directory.hosts(*id, peer);
                if !hosts && (alive || !log.alive().contains(&peer)) {
                    continue;
                }
                // A peer that is heard again may have said that its replica of this log stopped.
                if alive && !self.peers.runs(peer, *id) {
                    continue;
                }
                if !alive {
                    log.break_links(&mut self.env, peer);
                }
                log.set_alive(&mut self.env, peer, alive);
                self.due.soon(*id, self.env.now);
            }
        }
    }

    fn peer_is_back(&mut self, peer: NodeId) {
        for (id, log) in self.logs.iter_mut() {
            if log.alive().contains(&peer) || self.cluster.directory.hosts(*id, peer) {
                log.resend_to(peer);
                self.due.soon(*id, self.env.now);
            }
        }
    }

    /// Takes the answer of a peer to this node's greeting.
    pub(super) fn on_peer_answered(
        &mut self,
        conn: ConnId,
        peer: NodeId,
        buffer: Buffer,
        got: Range<usize>,
    ) {
        if self
            .peers
            .on_received(&mut self.env, peer, conn, buffer, got)
        {
            self.tell_past(peer);
            self.peer_is_back(peer);
        }
        if let Some(called) = self.peers.take_called_old() {
            self.on_called_old(&called);
        }
        if self.peers.take_found() {
            self.save_peers();
        }
    }
}
