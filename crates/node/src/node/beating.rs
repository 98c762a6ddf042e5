//! Heartbeats to all peers, and what follows when one falls silent or is heard again.

use std::collections::BTreeSet;
use std::ops::Range;

use ops::{Buffer, ConnId};
use paxos::NodeId;
use paxos::mutation::{self, Mutation};

use super::Node;
use crate::directory::DIRECTORY;

impl Node {
    pub(super) fn heartbeat(&mut self) {
        self.peers.beat.on_said(self.env.now);
        let not_dialled = self.not_dialled();
        self.peers.dial(&mut self.env, &not_dialled);
        let round = self.peers.next_round();
        let ids: Vec<NodeId> = self.env.peers.addresses.keys().copied().collect();
        let parted = self.parted();
        let directory = self.logs.get(&DIRECTORY);
        let directs = directory.and_then(|log| Some(log.engine().leader()?.0));
        if std::mem::replace(&mut self.told_director, directs) != directs {
            self.due.awake.wake_all_for_peers();
        }
        let tells = self.board.is_time_to_tell(self.env.now);
        self.due.awake.on_beat(self.env.now, &ids, self.logs.keys());
        for id in ids {
            let mut entries = Vec::new();
            let mut renounced = Vec::new();
            let peer = self.peers.get_or_add(id);
            let mut looked_at = self.due.awake.for_peer(id);
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
            self.due.awake.stay_for_peer(id, again);
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

    pub(super) fn judge_peers(&mut self) {
        for (peer, alive) in self.peers.judge(&self.env) {
            match alive {
                true => self.away_since.remove(&peer),
                false => self.away_since.insert(peer, self.env.now),
            };
            if !alive {
                self.peers.on_silent(&mut self.env, peer);
            }
            for (id, log) in self.logs.iter_mut() {
                if !alive {
                    log.break_links(&mut self.env, peer);
                } else if !self.directory.hosts(*id, peer) {
                    continue;
                }
                log.set_alive(&mut self.env, peer, alive);
                self.due.touch(*id);
            }
        }
    }

    fn peer_is_back(&mut self, peer: NodeId) {
        for (id, log) in self.logs.iter_mut() {
            log.resend_to(peer);
            self.due.touch(*id);
        }
    }

    /// The answer of a peer to this node's greeting.
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
        if let Some(called) = self.peers.call_us_old.take() {
            self.on_called_old(&called);
        }
        if std::mem::take(&mut self.peers.found) {
            self.save_peers();
        }
    }
}
