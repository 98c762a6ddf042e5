//! Frames on peers' control connections.

use std::ops::Range;

use formats::frame::Piece;
use formats::{Frame, LogId};
use ops::{Buffer, ConnId, Received};
use paxos::{Message, NodeId};

use super::Node;
use crate::peers::Entry;

pub(super) const CONTROL_BUFFER: usize = 64 << 10;

impl Node {
    pub(super) fn on_control_bytes(
        &mut self,
        conn: ConnId,
        peer: NodeId,
        buffer: Buffer,
        got: Range<usize>,
        result: std::io::Result<Received>,
    ) {
        let ended = !matches!(result, Ok(r) if !r.end);
        let Some(control) = self.peers.controls.get_mut(&conn) else {
            return;
        };
        control.push(self.env.now, &buffer[got]);
        let taken = self.take_frames(conn, peer);
        match taken.and_then(|()| self.peers.check_unfinished(&self.env, conn)) {
            Ok(()) if !ended => self.env.receive(conn, buffer, 0..CONTROL_BUFFER, false),
            outcome => {
                if let Err(why) = outcome {
                    tracing::warn!(peer = peer.0, why, "a peer's control connection is closed");
                }
                self.peers.end_control(&mut self.env, conn, peer);
            }
        }
    }

    /// ‡ Takes frames. None reaches an engine before it is known, and durably, which start of which disk says it.
    pub(super) fn take_frames(&mut self, conn: ConnId, peer: NodeId) -> Result<(), String> {
        while self.peers.controls.contains_key(&conn) {
            let state = self.peers.get_or_add(peer);
            let (entry, claim) = (state.admission.entry(), state.admission.claim());
            if matches!(entry, Entry::AwaitsDisk(_)) {
                break;
            }
            let Some(control) = self.peers.controls.get_mut(&conn) else {
                break;
            };
            let frame = control.next(self.env.own.speaks);
            match frame.map_err(|e| self.counts.refuse_frame(&e))? {
                Some(Frame::Past(told)) if entry == Entry::AwaitsPast => {
                    let claim = claim.ok_or("it said nothing of itself")?;
                    self.on_past(peer, claim, &told)?;
                }
                Some(_) if entry == Entry::AwaitsPast => {
                    return Err("it does not begin with what its disk has been through".to_owned());
                }
                Some(frame) => {
                    paxos::invariant!(
                        claim.is_some() && self.past.seen(peer) == claim,
                        "D5: node {peer} is heard as a start that is not remembered"
                    );
                    self.on_frame(peer, frame);
                }
                None => break,
            }
        }
        Ok(())
    }

    fn on_frame(&mut self, peer: NodeId, frame: Frame) {
        match frame {
            Frame::Wishes(told) => {
                self.cluster.on_wishes_told(&self.logs, peer, &told);
                self.answer_requests();
            }
            Frame::Stand { log, stand } => {
                if self.hears(peer, log)
                    && let Some(log) = self.logs.get_mut(&log)
                {
                    self.due.touch(log.id());
                    log.on_stand_told(&mut self.env, peer, stand);
                }
            }
            Frame::AskPiece(piece) => self.on_piece(peer, true, piece),
            Frame::TellPiece(piece) => self.on_piece(peer, false, piece),
            Frame::AskGroup(piece) => self.on_group_word(peer, true, piece),
            Frame::TellGroup(piece) => self.on_group_word(peer, false, piece),
            Frame::Serves { .. } | Frame::WantSlots(_) => self.on_slots_told(peer, &frame),
            Frame::Leads(groups) => self.on_leads_told(peer, groups),
            Frame::AskDirector(piece) => self.on_ask_director(peer, &piece),
            Frame::TellDirector(piece) => self.on_tell_director(peer, &piece),
            Frame::Past(told) => self.on_past_grown(peer, &told),
            Frame::Part(_) => {} // The connection's `Inbound` put it together with the others.
            Frame::Engine { log, message } => {
                let asks = matches!(message, Message::LeaderStatus { .. });
                self.on_engine_message(peer, log, message);
                if asks {
                    self.logs.answer_status(&mut self.env, peer, log);
                }
            }
            Frame::Heartbeat(heartbeat) => {
                self.cluster
                    .on_parted(heartbeat.members_version, &heartbeat.parted);
                let now = self.env.now;
                let own = self.env.own.identity.node;
                if let Some(warnings) = &heartbeat.warnings {
                    let known = &self.env.peers.addresses;
                    let knows = |node| known.contains_key(&node);
                    self.board.on_told(now, own, peer, warnings, knows);
                    self.on_stopped_told(peer, warnings);
                }
                self.peers.beat.on_heard(now, own, peer);
                let said = self.peers.round();
                let state = self.peers.get_or_add(peer);
                state
                    .pulse
                    .on_heartbeat(now, heartbeat.round, heartbeat.answers, said);
                let mut lacks = Vec::new();
                for (log, message) in &heartbeat.entries {
                    match message {
                        Message::LeaderStatus { .. } => state.told.want_status(*log),
                        Message::FollowerStatus { missing_bytes, .. } if *missing_bytes > 0 => {
                            lacks.push(*log);
                        }
                        _ => {}
                    }
                }
                state.said.on_heartbeat(
                    heartbeat.disk_version,
                    heartbeat.free_bytes,
                    lacks.into_iter(),
                );
                for (log, message) in heartbeat.entries {
                    self.on_engine_message(peer, log, message);
                }
            }
            Frame::FetchBytes(fetch) => {
                self.due.touch(fetch.log);
                if let Some(log) = self.logs.get_mut(&fetch.log) {
                    log.on_fetch_request(&mut self.env, peer, fetch);
                }
            }
            Frame::AskDigest(ask) => {
                self.due.touch(ask.log);
                if let Some(log) = self.logs.get_mut(&ask.log) {
                    log.on_ask_digest(&mut self.env, peer, &ask);
                }
            }
            Frame::TellDigest(told) => {
                self.due.touch(told.log);
                if let Some(log) = self.logs.get_mut(&told.log) {
                    log.on_tell_digest(&mut self.env, peer, &told);
                }
            }
            Frame::BytesNotHere(answer) => {
                self.due.touch(answer.log);
                if let Some(log) = self.logs.get_mut(&answer.log) {
                    log.on_bytes_not_here(&mut self.env, peer, answer.request);
                }
            }
        }
    }

    fn on_piece(&mut self, peer: NodeId, asks: bool, piece: Piece) {
        if self.hears(peer, piece.log) {
            let (logs, env) = (&mut self.logs, &mut self.env);
            self.hosted.on_piece(peer, asks, piece, logs, env);
        }
    }

    pub(super) fn on_engine_message(&mut self, peer: NodeId, id: LogId, message: Message) {
        if !self.hears(peer, id) {
            return;
        }
        // ‡ A state replaces this replica's own, and comes from a node that has a vote there. A replica that
        // hears no leader may have been away while all nodes that it knew left, and has to learn from others
        // which nodes have a vote.
        let is_led = |log: &replica::Log| log.engine().leader().is_some();
        let is_state = matches!(message, Message::State(_));
        if is_state
            && self.logs.get(&id).is_some_and(is_led)
            && !self.cluster.has_vote(&self.logs, peer, id)
        {
            return;
        }
        if let Some(log) = self.logs.get_mut(&id) {
            self.due.touch(id);
            log.on_message(&mut self.env, peer, message);
        }
    }
}
