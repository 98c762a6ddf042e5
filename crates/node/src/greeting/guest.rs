//! Guests: who greets as a peer under an id that this node does not know (`crate::peers::guests`).

use std::ops::Range;

use formats::frame::encode_control;
use formats::{DiskId, Frame, LogId, hex};
use ops::{BLOCK, Buffer, ConnId, Received};
use paxos::{Input, Message, NodeId, Time};
use replica::{Env, Link, Purpose};
use wire::welcome::{self, Welcome};
use wire::{Refusal, Request};

use super::peer::{CONTROL_BUFFER, Hello};
use crate::directory::DIRECTORY;
use crate::node::Node;
use crate::peers::Inbound;
use crate::peers::guests::{Guest, UNLISTED_DIALLED_MAX};

impl Node {
    /// Whether an id is one of this cluster's nodes, as far as this node knows.
    pub(crate) fn knows(&self, node: NodeId) -> bool {
        self.directory.nodes.contains_key(&node)
            || self.guests.introduced.contains(&node)
            || self.is_member(node)
    }

    /// ‡ Whose word on a log may reach its engine: that of a node of the directory, or of a member of the log's
    /// configuration as it is known here. Anybody may have heard the cluster's name and make up an id.
    pub(crate) fn hears(&self, node: NodeId, log: LogId) -> bool {
        let is_member = |log: &replica::Log| log.engine().state().configuration.contains(node);
        self.directory.nodes.contains_key(&node)
            || self.guests.introduced.contains(&node)
            || self.logs.get(&log).is_some_and(is_member)
    }

    /// A first line of somebody unknown, or of somebody who keeps to himself which disk he is.
    pub(super) fn on_guest_greeting(
        &mut self,
        conn: ConnId,
        hello: &Hello,
        rest: &[u8],
    ) -> Result<(), Refusal> {
        let from = hello.from;
        if hello.kind != "control" {
            return Err(Refusal::new(
                "unknown-node",
                format!(
                    "node {from} is not in this node's directory yet; it is heard here when it is"
                ),
            ));
        }
        let needed = self.directory.versions.agreed;
        let version = self.check_speaks(&format!("node {from}"), hello.speaks, needed)?;
        let room = self.guests.makes_room();
        let old = room.filter(|_| !self.guests.here.contains_key(&from));
        for old in old.into_iter().chain([from]) {
            self.part_from_guest(old);
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
            hello.withholds_disk,
        );
        self.guests.here.insert(from, guest);
        self.env.conns.insert(conn, Purpose::GuestIn(from));
        let mut control = Inbound::of_guest();
        control.push(self.env.now, rest);
        self.controls.insert(conn, control);
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
        let Some(control) = self.controls.get_mut(&conn) else {
            return;
        };
        control.push(self.env.now, &buffer[got]);
        let outcome = loop {
            // What a frame leads to may end the connection.
            let Some(control) = self.controls.get_mut(&conn) else {
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
                self.part_from_guest(guest);
            }
        }
    }

    /// Two things are heard of a guest, both about log 0: a question from a node that may be lost, which goes on to
    /// the engine because the answer goes to the node that the directory lists, and nowhere else; and the answer
    /// to such a question of ours.
    fn on_guest_frame(&mut self, guest: NodeId, frame: Frame) {
        let Frame::Engine {
            log: DIRECTORY,
            message,
        } = frame
        else {
            return;
        };
        match message {
            Message::RequestState { .. } if self.directory.nodes.contains_key(&guest) => {
                self.on_engine_message(guest, DIRECTORY, message);
            }
            Message::State(state) => {
                let is_asked = self
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
                    && self.guests.are_lost(self.env.now)
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
                    self.dirty.insert(DIRECTORY);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn part_from_guest(&mut self, guest: NodeId) {
        let Some(guest) = self.guests.here.remove(&guest) else {
            return;
        };
        for conn in guest.conns() {
            self.controls.remove(&conn);
            self.env.close(conn);
        }
    }

    /// Now and then: guests become peers, or go; and where nothing else is left they are asked.
    pub(crate) fn keep_guests(&mut self) {
        let now = self.env.now;
        let log = self.logs.get(&DIRECTORY);
        let log = log.filter(|log| !log.is_stopped());
        let is_led = log.is_some_and(|log| log.engine().leader().is_some());
        let is_current =
            is_led && log.is_some_and(|log| log.guest_is_current()) && self.is_listed();
        let since = |before: Option<Time>, holds: bool| holds.then(|| before.unwrap_or(now));
        self.guests.lost_since = since(self.guests.lost_since, !is_led);
        self.guests.current_since = since(self.guests.current_since, is_current);
        let guests = self.guests.here.iter();
        let over = guests.filter(|(id, guest)| {
            let is_peer = !guest.withholds_disk && self.knows(**id);
            is_peer || guest.is_over(now)
        });
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(guest) = self.guests.here.get(&id)
                && !guest.withholds_disk
                && self.knows(id)
                && !self.env.peers.addresses.contains_key(&id)
            {
                let address = guest.address.clone();
                self.learn_address(id, &address);
            }
            self.part_from_guest(id);
        }
        self.prove_members();
        if self.guests.is_settled(now) {
            self.guests.introduced.clear();
            self.forget_unlisted();
        }
        if self.guests.are_lost(now) {
            self.ask_guests();
        }
    }

    /// Members that greeted before this node had read which disks they have: now it can tell.
    fn prove_members(&mut self) {
        let peers = self.peers.peers.iter();
        let unproven = peers.filter(|(id, peer)| {
            peer.unproven_address.is_some() && self.directory.nodes.contains_key(id)
        });
        for id in unproven.map(|(id, _)| *id).collect::<Vec<_>>() {
            let peer = self.peers.get_or_add(id);
            let (disk, address) = (peer.disk(), peer.unproven_address.take());
            let incoming = peer.incoming;
            let is_its = |disk: DiskId| hex(&disk.0) == self.directory.nodes[&id].disk;
            if disk.is_some_and(is_its) {
                self.learn_address(id, &address.unwrap_or_default());
            } else if let Some(conn) = incoming {
                tracing::warn!(
                    peer = id.0,
                    "somebody greeted as this node with another disk than it has, and is not heard any more"
                );
                self.end_control(conn, id);
            }
        }
    }

    /// What an earlier program took for peers, or this one was told of when it joined.
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

    /// Addresses that are not to be dialled: of ids that this node does not know, while log 0 has a leader that
    /// does.
    pub(crate) fn not_dialled(&self) -> Vec<NodeId> {
        let addresses = self.env.peers.addresses.keys().copied();
        let unknown = addresses.filter(|id| !self.knows(*id));
        let lost = self.guests.are_lost(self.env.now);
        unknown
            .skip(if lost { UNLISTED_DIALLED_MAX } else { 0 })
            .collect()
    }

    fn ask_guests(&mut self) {
        let now = self.env.now;
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
        for (id, guest) in &mut self.guests.here {
            if guest.withholds_disk {
                continue;
            }
            if self.env.peers.addresses.contains_key(id) {
                // It was a peer to an earlier start of this node, and is dialled as one.
                if guest.ask(now) {
                    self.peers.send(&mut self.env, *id, &question);
                }
                continue;
            }
            if guest.link.is_late(&self.env)
                && let Some(conn) = guest.link.conn()
            {
                self.env.close(conn);
                guest.link = Link::Down { retry_at: now };
            }
            match guest.link {
                Link::Down { retry_at } if retry_at <= now && !guest.address.is_empty() => {
                    let address = guest.address.clone();
                    let conn = self.env.connect(address, Purpose::GuestOut(*id));
                    guest.link = Link::Connecting(conn, now);
                }
                Link::Up(conn, version) => {
                    let asks = !self.env.is_sending(conn) && guest.ask(now);
                    if asks {
                        let bytes = encode_control(version, &question);
                        self.env.send_bytes(conn, &bytes);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn on_guest_connected(&mut self, id: NodeId, conn: ConnId, ok: bool) {
        let guest = self.guests.here.get_mut(&id);
        let guest = guest.filter(|guest| guest.link.conn() == Some(conn));
        let Some(guest) = guest.filter(|_| ok) else {
            return self.on_guest_broken(id, conn);
        };
        guest.link = Link::Greeting(conn, self.env.now);
        let hello = hello_as_guest(&self.env, id);
        self.env.send_bytes(conn, &hello);
        self.env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
    }

    pub(super) fn on_guest_answered(
        &mut self,
        id: NodeId,
        conn: ConnId,
        buffer: Buffer,
        got: Range<usize>,
    ) {
        let guest = self.guests.here.get_mut(&id);
        let Some(guest) = guest.filter(|guest| guest.link.conn() == Some(conn)) else {
            return self.env.close(conn);
        };
        match guest.link.answer(&self.env, &buffer, &got) {
            Welcome::Taken { version, .. } => {
                guest.link = Link::Up(conn, version);
                self.env.receive(conn, buffer, 0..BLOCK, false);
            }
            Welcome::NotYet => self.env.receive(conn, buffer, got.end..BLOCK, false),
            Welcome::Refused(_) | Welcome::Nonsense => self.on_guest_broken(id, conn),
        }
    }

    fn on_guest_broken(&mut self, id: NodeId, conn: ConnId) {
        self.env.close(conn);
        if let Some(guest) = self.guests.here.get_mut(&id)
            && guest.link.conn() == Some(conn)
        {
            let retry_at = self.env.now + self.env.limits.connect_timeout;
            guest.link = Link::Down { retry_at };
        }
    }
}

/// The first line of a connection to somebody of whom nothing is known but what it says itself.
fn hello_as_guest(env: &Env, to: NodeId) -> Vec<u8> {
    let hello = Request::new("peer")
        .key("kind", "control")
        .key("log", DIRECTORY)
        .key("cluster", env.own.identity.cluster.to_string())
        .key("from", env.own.identity.node)
        .key("to", to)
        .key("guest", 1)
        .key("address", &env.own.advertise)
        .key("speaks", env.own.speaks);
    env.with_evidence(hello, to).encode()
}
