//! Guests: nodes that greet as peers under an id that this node does not know (`crate::peers::guests`).

use std::ops::Range;

use formats::{Frame, LogId, hex};
use ops::{Buffer, ConnId, Received};
use paxos::{Input, Message, NodeId, Time};
use replica::Purpose;
use wire::Refusal;
use wire::welcome::{self};

use super::Node;
use super::hearing::CONTROL_BUFFER;
use crate::directory::DIRECTORY;
use crate::peers::Inbound;
use crate::peers::guests::{Guest, UNLISTED_DIALLED_MAX};
use crate::peers::hello::{Hello, Kind};

impl Node {
    /// Whether an id is one of this cluster's nodes, as far as this node knows.
    pub(super) fn knows(&self, node: NodeId) -> bool {
        self.cluster.directory.nodes.contains_key(&node)
            || self.peers.guests.introduced.contains(&node)
            || self.logs.have_member(node)
    }

    /// ‡ Whether the node's word on a log may reach its engine: the node is in the directory, or a member of
    /// the log's configuration as it is known here. Anybody may have heard the cluster's name and make up an
    /// id.
    pub(super) fn hears(&self, node: NodeId, log: LogId) -> bool {
        let is_member = |log: &replica::Log| log.engine().state().configuration.contains(node);
        self.cluster.directory.nodes.contains_key(&node)
            || self.peers.guests.introduced.contains(&node)
            || self.logs.get(&log).is_some_and(is_member)
    }

    /// Takes the first line of an unknown node, or of one that withholds its disk's id.
    pub(super) fn on_guest_greeting(
        &mut self,
        conn: ConnId,
        hello: &Hello,
        rest: &[u8],
    ) -> Result<(), Refusal> {
        let from = hello.from;
        if hello.kind != Kind::Control {
            return Err(Refusal::new(
                "unknown-node",
                format!(
                    "node {from} is not in this node's directory yet; it is heard here when it is"
                ),
            ));
        }
        let needed = self.cluster.directory.versions.agreed;
        let version =
            self.cluster
                .check_speaks(&self.env, &format!("node {from}"), hello.speaks, needed)?;
        let room = self.peers.guests.makes_room();
        let old = room.filter(|_| !self.peers.guests.here.contains_key(&from));
        for old in old.into_iter().chain([from]) {
            self.peers.part_from_guest(&mut self.env, old);
        }
        tracing::debug!(
            node = from.0,
            address = hello.address,
            "an id that this node's directory does not list is heard as a guest"
        );
        let guest = Guest::new(
            conn,
            self.env.now,
            hello.address.clone(),
            hello.claim.is_none(),
        );
        self.peers.guests.here.insert(from, guest);
        self.env.conns.turn_to(conn, Purpose::GuestIn(from));
        let mut control = Inbound::of_guest();
        control.push(self.env.now, rest);
        self.peers.controls.insert(conn, control);
        self.env.send_bytes(conn, &welcome::line(version));
        self.env
            .receive(conn, Buffer::new(CONTROL_BUFFER), 0..CONTROL_BUFFER, false);
        Ok(())
    }

    pub(super) fn on_guest_bytes(
        &mut self,
        conn: ConnId,
        guest: NodeId,
        buffer: Buffer,
        got: Range<usize>,
        result: std::io::Result<Received>,
    ) {
        let ended = !matches!(result, Ok(r) if !r.end);
        let Some(control) = self.peers.controls.get_mut(&conn) else {
            return;
        };
        control.push(self.env.now, &buffer[got]);
        let outcome = loop {
            // A frame's consequences may end the connection.
            let Some(control) = self.peers.controls.get_mut(&conn) else {
                return;
            };
            match control.next(self.env.own.speaks) {
                Ok(Some(frame)) => self.on_guest_frame(guest, frame),
                Ok(None) => break Ok(()),
                Err(error) => break Err(self.counts.refuse_frame(&error)),
            }
        };
        match outcome {
            Ok(()) if !ended => self.env.receive(conn, buffer, 0..CONTROL_BUFFER, false),
            outcome => {
                if let Err(why) = outcome {
                    tracing::debug!(node = guest.0, why, "a guest's connection is closed");
                }
                self.peers.part_from_guest(&mut self.env, guest);
            }
        }
    }

    /// Hears two things of a guest, both about log 0. One is a question from a node that may be lost: it goes
    /// on to the engine because the answer goes to the node that the directory lists, and nowhere else. The
    /// other is the answer to such a question of ours.
    fn on_guest_frame(&mut self, guest: NodeId, frame: Frame) {
        let Frame::Engine {
            log: DIRECTORY,
            message,
        } = frame
        else {
            return;
        };
        match message {
            Message::RequestState { .. } if self.cluster.directory.nodes.contains_key(&guest) => {
                self.on_engine_message(guest, DIRECTORY, message);
            }
            Message::State(state) => {
                let is_asked = self
                    .peers
                    .guests
                    .here
                    .get(&guest)
                    .is_some_and(|guest| guest.is_asked());
                let Some(log) = self.logs.get_mut(&DIRECTORY) else {
                    return;
                };
                let begins_an_era = state.era > log.engine().state().era;
                if is_asked
                    && begins_an_era
                    && state.configuration.contains(guest)
                    && self.peers.guests.are_lost(self.env.now)
                {
                    tracing::info!(
                        node = guest.0,
                        era = state.era.0,
                        "this node was away while all that it knew left log 0: it goes on with what a later member says"
                    );
                    let message = Message::State(state);
                    log.input(
                        &mut self.env,
                        Input::Message {
                            from: guest,
                            message,
                        },
                    );
                    self.due.touch(DIRECTORY);
                }
            }
            _ => {}
        }
    }

    /// Now and then lets guests become peers, or go; and asks them where nothing else is left.
    pub(super) fn keep_guests(&mut self) {
        let now = self.env.now;
        let log = self.logs.get(&DIRECTORY);
        let log = log.filter(|log| !log.is_stopped());
        let is_led = log.is_some_and(|log| log.engine().leader().is_some());
        let is_current = is_led
            && log.is_some_and(|log| log.guest_is_current())
            && self.cluster.is_listed(&self.env);
        let since = |before: Option<Time>, holds: bool| holds.then(|| before.unwrap_or(now));
        self.peers.guests.lost_since = since(self.peers.guests.lost_since, !is_led);
        self.peers.guests.current_since = since(self.peers.guests.current_since, is_current);
        let guests = self.peers.guests.here.iter();
        let over = guests.filter(|(id, guest)| {
            let is_peer = !guest.withholds_disk && self.knows(**id);
            is_peer || guest.is_over(now)
        });
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(guest) = self.peers.guests.here.get(&id)
                && !guest.withholds_disk
                && self.knows(id)
                && !self.env.peers.addresses.contains_key(&id)
            {
                let address = guest.address.clone();
                self.learn_address(id, &address);
            }
            self.peers.part_from_guest(&mut self.env, id);
        }
        self.prove_members();
        if self.peers.guests.is_settled(now) {
            self.peers.guests.introduced.clear();
            self.forget_unlisted();
        }
        if self.peers.guests.are_lost(now) {
            self.ask_guests();
        }
    }

    /// Proves members that greeted before this node had read which disks they have: now it can tell.
    fn prove_members(&mut self) {
        let peers = self.peers.iter();
        let unproven = peers.filter(|(id, peer)| {
            peer.said.is_unproven() && self.cluster.directory.nodes.contains_key(id)
        });
        for id in unproven.map(|(id, _)| *id).collect::<Vec<_>>() {
            let peer = self.peers.get_or_add(id);
            let its = &self.cluster.directory.nodes[&id].disk;
            let is_its = peer
                .admission
                .disk()
                .is_some_and(|disk| hex(&disk.0) == *its);
            if is_its {
                let address = peer.said.on_proven().unwrap_or_default();
                self.learn_address(id, &address);
                continue;
            }
            peer.said.on_disproven();
            if let Some(conn) = peer.admission.incoming() {
                tracing::warn!(
                    peer = id.0,
                    "somebody greeted as this node with another disk than it has, and is not heard any more"
                );
                self.peers.end_control(&mut self.env, conn, id);
            }
        }
    }

    /// Forgets ids that an earlier program took for peers, or that this one was told of when it joined.
    fn forget_unlisted(&mut self) {
        let known = self.env.peers.addresses.keys().copied();
        let unlisted: Vec<NodeId> = known.filter(|id| !self.knows(*id)).collect();
        for node in unlisted {
            tracing::info!(
                node = node.0,
                "the directory does not list it: it is forgotten"
            );
            self.forget_node(node);
        }
    }

    /// The addresses that are not to be dialled: of ids that this node does not know, while log 0 has a
    /// leader that does.
    pub(super) fn not_dialled(&self) -> Vec<NodeId> {
        let addresses = self.env.peers.addresses.keys().copied();
        let unknown = addresses.filter(|id| !self.knows(*id));
        let lost = self.peers.guests.are_lost(self.env.now);
        unknown
            .skip(if lost { UNLISTED_DIALLED_MAX } else { 0 })
            .collect()
    }

    fn ask_guests(&mut self) {
        let Some(log) = self.logs.get(&DIRECTORY) else {
            return;
        };
        let question = Frame::Engine {
            log: DIRECTORY,
            message: Message::RequestState {
                first_unchosen: log.engine().first_unchosen(),
                streams_known: 0,
            },
        };
        let asked_as_peers = self.peers.guests.ask(&mut self.env, &question);
        for id in asked_as_peers {
            self.peers.send(&mut self.env, id, &question);
        }
    }
}
