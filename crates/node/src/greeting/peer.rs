//! Peers: who may speak to us, and the control frames they send.

use std::ops::Range;

use formats::past::Start as PastStart;
use formats::proof::{PublicKey, Signature};
use formats::version::{self, Speaks};
use formats::{DiskId, Frame, LogId, hex, parse_hex};
use ops::{Buffer, ConnId, Received};
use paxos::mutation::{self, Mutation};
use paxos::{Message, NodeId, Role};
use replica::Purpose;
use store::past::met::Seen;
use wire::{LineError, Refusal, Request, Standing, welcome};

use crate::node::Node;
use crate::peers::{Entry, Inbound, NotAdmitted, OLD_COPY, Proof, SaidOfItself};

/// So much of unfinished frames each peer may always have.
const UNFINISHED_FREE: usize = 1 << 20;

pub(super) const CONTROL_BUFFER: usize = 64 << 10;

/// HOST:PORT, and a name is at most 253 bytes long.
pub(crate) const ADDRESS_BYTES_MAX: usize = 300;

/// A peer's first line, as far as it can be understood without knowing who it is.
pub(super) struct Hello {
    pub kind: String,
    pub from: NodeId,
    pub speaks: Speaks,
    /// Where it says that it can be dialled; perhaps nothing.
    pub address: String,
    /// It knows this node no better than this node knows a guest.
    pub withholds_disk: bool,
}

fn bad(what: impl Into<String>) -> Refusal {
    Refusal::new("bad-request", what)
}

fn number(request: &Request, key: &'static str) -> Result<u32, Refusal> {
    Ok(request.parsed::<u32>(key)?.ok_or(LineError::Missing(key))?)
}

pub(crate) fn check_address(address: &str) -> Result<(), Refusal> {
    match address.len() <= ADDRESS_BYTES_MAX {
        true => Ok(()),
        false => Err(bad(format!(
            "an address is HOST:PORT, and at most {ADDRESS_BYTES_MAX} bytes long"
        ))),
    }
}

impl Node {
    /// `peer kind=control|data …`: checks that it is who we think, and of our cluster. Keys that we
    /// do not know are a newer node's, and are passed over.
    pub(super) fn on_peer_greeting(
        &mut self,
        conn: ConnId,
        request: &Request,
        rest: &[u8],
    ) -> Result<(), Refusal> {
        let hello = self.check_hello(request)?;
        if hello.withholds_disk || !self.knows(hello.from) {
            return self.on_guest_greeting(conn, &hello, rest);
        }
        let from = hello.from;
        let disk = formats::parse_hex16(request.require("disk")?)
            .ok_or_else(|| bad("disk is 32 hex digits"))?;
        let proof = self.check_proof(request, DiskId(disk))?;
        let entry = self.directory.nodes.get(&from);
        let is_listed = entry.is_some_and(|entry| entry.disk == hex(&disk));
        // ‡ After a rescue log 0 names the disk of before first, and only the node itself can tell the rest. What was
        // met of it before that was read goes on.
        let met = self.past.seen(from).filter(|_| !self.is_confirmed());
        let is_met = met.is_some_and(|met| met.disk.0 == disk);
        let is_other = entry.is_some() && !is_listed && !is_met;
        if is_other && !mutation::is(Mutation::EmptyDiskKeepsItsId) {
            return Err(bad(format!(
                "node {from} had another disk; a node that lost its disk joins anew, with --join and an empty directory"
            )));
        }
        let standing = Standing::parse(request)?;
        let needed = self.directory.versions.agreed;
        let version = self.check_speaks(&format!("node {from}"), hello.speaks, needed);
        let version = version.inspect_err(|refusal| {
            tracing::warn!(peer = from.0, why = refusal.sentence, "a peer is refused");
        })?;
        // ‡ What an older program says proves nothing of the challenge. This disk knows that the cluster left those behind, also
        // before log 0 is read again.
        let is_left_behind = version < version::PASTS && self.env.disk_version >= version::PASTS;
        if proof.is_some() && is_left_behind {
            return Err(Refusal::new(
                "no-proof",
                format!(
                    "node {from} has a key and asks to be heard as a program that cannot prove it"
                ),
            ));
        }
        let claim = Seen {
            disk: DiskId(disk),
            incarnation: number(request, "incarnation")?,
            nonce: request
                .parsed::<u64>("nonce")?
                .ok_or(LineError::Missing("nonce"))?,
        };
        let own_disk = self.env.own.identity.disk.0;
        let now = self.env.now;
        let known = self.past.seen(from);
        let peer = self.peers.get_or_add(from);
        peer.seen = peer.seen.or(known);
        let is_in_use = peer.incoming.is_some() && peer.speaks_now(now, &self.env.limits);
        let admitted = peer.admit(claim, is_listed, is_in_use);
        if let Err(why) = admitted
            && why.is_old_copy()
        {
            peer.old_copy = Some(why.to_string());
        }
        admitted.map_err(|why| {
            if why == NotAdmitted::InUse {
                tracing::warn!(peer = from.0, %why, "a peer is put off");
                return Refusal::new("busy", format!("node {from} is put off: {why}"));
            }
            self.counts.peers_refused += 1;
            tracing::error!(peer = from.0, %why, "a peer is refused");
            match why.is_old_copy() {
                // The node that stops at that word checks whose it is, unless there is evidence. Nobody else hears
                // the disk.
                true => {
                    let refusal = Refusal::new(OLD_COPY, why.to_string());
                    let refusal = match is_listed {
                        true => refusal.key("disk", hex(&own_disk)),
                        false => refusal,
                    };
                    match self.evidence_against(from, claim.disk, why) {
                        Some(evidence) => refusal.key("evidence", evidence),
                        None => refusal,
                    }
                }
                false => bad(format!("node {from} is refused: {why}")),
            }
        })?;
        let peer = self.peers.get_or_add(from);
        let is_admitted = peer.claim == Some(claim) && peer.entry == Entry::Open;
        if hello.kind == "data" && (!is_admitted || self.env.own.settling) {
            return Err(Refusal::new(
                "busy",
                format!("node {from} is heard here once its control connection is"),
            ));
        }
        let said = SaidOfItself {
            standing,
            address: hello.address.clone(),
            is_listed,
            speaks: (hello.kind == "control").then_some(hello.speaks),
        };
        // ‡ A greeting may have been overheard: where a key can prove it, it counts once the challenge is answered.
        match (proof, hello.kind.as_str()) {
            (None, _) => self.take_said(from, said),
            (Some(_), "control") => self.peers.get_or_add(from).unproven = Some(said),
            (Some(_), _) => {}
        }
        match hello.kind.as_str() {
            "control" => {
                let peer = self.peers.get_or_add(from);
                peer.takes_parts = request.get("parts") == Some("1");
                match request.get("digests") {
                    Some("1") => self.env.peers.compares.insert(from),
                    _ => self.env.peers.compares.remove(&from),
                };
                peer.claim = Some(claim);
                peer.proof = proof;
                if let Some(old) = self.peers.get_or_add(from).on_greeted(conn) {
                    self.controls.remove(&old);
                    self.env.close(old);
                }
                self.env.conns.insert(conn, Purpose::ControlIn(from));
                let mut control = Inbound::default();
                control.push(now, rest);
                self.controls.insert(conn, control);
                self.peers.get_or_add(from).entry = Entry::AwaitsPast;
                if version < version::PASTS {
                    self.admit(from, claim, None);
                }
                let line = match proof {
                    Some(proof) => welcome::challenging_line(version, proof.challenge),
                    None => welcome::line(version),
                };
                self.env.send_bytes(conn, &line);
                self.env
                    .receive(conn, Buffer::new(CONTROL_BUFFER), 0..CONTROL_BUFFER, false);
            }
            _ => {
                let id = LogId(number(request, "log")?);
                let hears = self.hears(from, id);
                let log = self.logs.get_mut(&id).filter(|l| !l.is_stopped());
                let log = log.ok_or_else(|| {
                    Refusal::new(
                        "unknown-log",
                        format!("this node has no running replica of log {id}"),
                    )
                })?;
                if !hears {
                    return Err(Refusal::new(
                        "unknown-node",
                        format!(
                            "node {from} is neither in this node's directory nor a member of log {id}, as far as this node has heard"
                        ),
                    ));
                }
                if !rest.is_empty() {
                    return Err(bad("a peer waits for the answer to its first line"));
                }
                self.env.conns.insert(conn, Purpose::DataIn(id, from));
                log.add_source(&mut self.env, conn, from, version);
            }
        }
        Ok(())
    }

    /// A node's word of itself, from its greeting, counts from here on.
    pub(crate) fn take_said(&mut self, from: NodeId, said: SaidOfItself) {
        // A claim that is not listed may be anybody's who knows that node's number.
        if said.is_listed || !self.env.peers.addresses.contains_key(&from) {
            self.learn_address(from, &said.address);
        }
        let peer = self.peers.get_or_add(from);
        peer.standing = Some(said.standing);
        peer.speaks = said.speaks.or(peer.speaks);
        (peer.said_address, peer.unproven_address) = match said.is_listed {
            true => (Some(said.address), None),
            false => (None, Some(said.address)),
        };
    }

    /// ‡ Whoever says a disk that a key names has that key.
    fn check_proof(&mut self, request: &Request, disk: DiskId) -> Result<Option<Proof>, Refusal> {
        if !disk.is_keyed() || mutation::is(Mutation::DisksNeedNoProof) {
            return Ok(None);
        }
        let start = PastStart {
            incarnation: number(request, "incarnation")?,
            nonce: request
                .parsed::<u64>("nonce")?
                .ok_or(LineError::Missing("nonce"))?,
        };
        let key = request.get("key").and_then(parse_hex).map(PublicKey);
        let signature = request.get("signature").and_then(parse_hex);
        let signed = key
            .zip(signature.map(Signature))
            .filter(|(key, signature)| {
                key.disk() == disk && key.has_signed_start(disk, start, signature)
            });
        let Some((key, signature)) = signed else {
            return Err(Refusal::new(
                "no-proof",
                "the key of that disk has not signed this start: the file key in a node's directory is what proves it",
            ));
        };
        self.challenges += 1;
        let own = self.env.own.key.as_ref();
        let challenge = own.map(|own| own.challenge(self.env.own.start(), self.challenges));
        Ok(challenge.map(|challenge| Proof {
            key,
            signature,
            challenge,
        }))
    }

    /// What needs to be so of guests too.
    fn check_hello(&mut self, request: &Request) -> Result<Hello, Refusal> {
        let cluster = request.require("cluster")?;
        let own = self.env.own.identity.cluster.to_string();
        if self.env.own.identity.node == NodeId(0) {
            return Err(Refusal::new(
                "not-here",
                "this node has not joined a cluster yet",
            ));
        }
        if cluster != own {
            return Err(bad(format!(
                "this node is of cluster {own}, not of {cluster}; check --join and the data directory"
            )));
        }
        let (from, to) = (number(request, "from")?, number(request, "to")?);
        let (from, to) = (NodeId(from), NodeId(to));
        if to != self.env.own.identity.node {
            let own = self.env.own.identity.node;
            let refusal = bad(format!(
                "this is node {own}, not node {to}; check the addresses"
            ));
            return Err(refusal.key("node", own));
        }
        if from == to || from == NodeId(0) {
            return Err(bad(
                "a peer has another node's id; its directory was copied",
            ));
        }
        if self.is_removed(from) {
            self.counts.peers_refused += 1;
            return Err(Refusal::new(
                "removed",
                format!(
                    "node {from} was removed from this cluster and its id is never used again; stop it, and to come back join anew, with --join and an empty directory"
                ),
            ));
        }
        if let Some(evidence) = request.get("met").and_then(|met| met.parse().ok()) {
            let told = format!("node {from} remembers more of this disk");
            self.on_evidence(&evidence, &told);
        }
        let withholds_disk = request.flag("guest")?;
        if !withholds_disk {
            let disk = formats::parse_hex16(request.require("disk")?);
            disk.ok_or_else(|| bad("disk is 32 hex digits"))?;
            number(request, "incarnation")?;
            let nonce = request.parsed::<u64>("nonce")?;
            nonce.ok_or(LineError::Missing("nonce"))?;
        }
        let kind = request.require("kind")?;
        if !matches!(kind, "control" | "data") {
            return Err(bad(format!("unknown kind {kind:?}")));
        }
        if kind == "data" {
            number(request, "log")?;
        }
        let address = request.get("address").unwrap_or_default();
        check_address(address)?;
        Ok(Hello {
            kind: kind.to_owned(),
            from,
            speaks: request.parsed("speaks")?.unwrap_or(Speaks::UNSAID),
            address: address.to_owned(),
            withholds_disk,
        })
    }

    pub(super) fn on_control_bytes(
        &mut self,
        conn: ConnId,
        peer: NodeId,
        buffer: Buffer,
        got: Range<usize>,
        result: std::io::Result<Received>,
    ) {
        let ended = !matches!(result, Ok(r) if !r.end);
        let Some(control) = self.controls.get_mut(&conn) else {
            return;
        };
        control.push(self.env.now, &buffer[got]);
        let taken = self.take_frames(conn, peer);
        match taken.and_then(|()| self.check_unfinished(conn)) {
            Ok(()) if !ended => self.env.receive(conn, buffer, 0..CONTROL_BUFFER, false),
            outcome => {
                if let Err(why) = outcome {
                    tracing::warn!(peer = peer.0, why, "a peer's control connection is closed");
                }
                self.end_control(conn, peer);
            }
        }
    }

    /// ‡ What is held of frames that are not whole is bounded over all peers together. Whoever exceeds it sends
    /// again, when others have ended; what is short passes always.
    fn check_unfinished(&self, conn: ConnId) -> Result<(), String> {
        let held = |control: &Inbound| control.held();
        let own = self.controls.get(&conn).map_or(0, held);
        if own <= UNFINISHED_FREE {
            return Ok(());
        }
        let all: usize = self.controls.values().map(held).sum();
        match all <= self.env.limits.unfinished_bytes_max {
            true => Ok(()),
            false => Err(format!(
                "frames that are not whole take {all} bytes, of which {own} are this peer's"
            )),
        }
    }

    /// A peer that began a frame ends it in time.
    pub(crate) fn expire_frames(&mut self) {
        let (now, within) = (self.env.now, self.env.limits.unfinished_time);
        let late = self.controls.iter();
        let late = late.filter(|(_, control)| control.is_late(now, within));
        for conn in late.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            match self.env.conns.get(&conn) {
                Some(Purpose::ControlIn(peer)) => {
                    let peer = *peer;
                    tracing::warn!(
                        peer = peer.0,
                        "a frame is not whole in time: the peer's control connection is closed"
                    );
                    self.end_control(conn, peer);
                }
                Some(Purpose::GuestIn(guest)) => {
                    let guest = *guest;
                    self.part_from_guest(guest);
                }
                _ => _ = self.controls.remove(&conn),
            }
        }
    }

    pub(crate) fn end_control(&mut self, conn: ConnId, peer: NodeId) {
        self.controls.remove(&conn);
        self.env.close(conn);
        let state = self.peers.get_or_add(peer);
        if state.incoming == Some(conn) {
            state.incoming = None;
            self.peers.shorten(&self.env, peer);
        }
    }

    /// ‡ None reaches an engine before it is known, and durably, which start of which disk says it.
    pub(crate) fn take_frames(&mut self, conn: ConnId, peer: NodeId) -> Result<(), String> {
        while let Some(control) = self.controls.get_mut(&conn) {
            let state = self.peers.get_or_add(peer);
            let (entry, claim) = (state.entry, state.claim);
            if matches!(entry, Entry::AwaitsDisk(_)) {
                break;
            }
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
            Frame::Wishes(told) => self.on_wishes_told(peer, &told),
            Frame::Past(told) => self.on_past_grown(peer, &told),
            Frame::Part(_) => {} // The connection's `Inbound` put it together with the others.
            Frame::Engine { log, message } => {
                let asks = matches!(message, Message::LeaderStatus { .. });
                self.on_engine_message(peer, log, message);
                if asks {
                    self.answer_status(peer, log);
                }
            }
            Frame::Heartbeat(heartbeat) => {
                self.on_parted(heartbeat.members_version, &heartbeat.parted);
                let now = self.env.now;
                let own = self.env.own.identity.node;
                if let Some(warnings) = &heartbeat.warnings {
                    let known = &self.env.peers.addresses;
                    let knows = |node| known.contains_key(&node);
                    self.board.on_told(now, own, peer, warnings, knows);
                }
                self.peers.beat.on_heard(now, own, peer);
                let said = self.peers.round();
                let state = self.peers.get_or_add(peer);
                state.disk_version = state.disk_version.max(heartbeat.disk_version);
                state.on_heartbeat(
                    now,
                    heartbeat.round,
                    heartbeat.answers,
                    said,
                    heartbeat.free_bytes,
                );
                state.lacks.clear();
                for (log, message) in &heartbeat.entries {
                    match message {
                        Message::LeaderStatus { .. } => {
                            state.status_wanted.insert(*log);
                        }
                        Message::FollowerStatus { missing_bytes, .. } if *missing_bytes > 0 => {
                            state.lacks.insert(*log);
                        }
                        _ => {}
                    }
                }
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

    /// Outside of a heartbeat a leader's status is a question: it has just been elected, or wants to
    /// hand over, and waits.
    fn answer_status(&mut self, peer: NodeId, id: LogId) {
        let Some(log) = self.logs.get(&id).filter(|log| !log.is_stopped()) else {
            return;
        };
        if matches!(log.role(), Role::Follower { leader, .. } if leader == peer) {
            let status = log.engine().follower_status();
            self.env.send_message(peer, id, status);
        }
    }

    pub(super) fn on_engine_message(&mut self, peer: NodeId, id: LogId, message: Message) {
        if !self.hears(peer, id) {
            return;
        }
        // ‡ A state replaces this replica's own, and comes from who has a vote there. A replica that hears no leader may
        // have been away while all that it knew left, and has to learn from others who has.
        let is_led = |log: &replica::Log| log.engine().leader().is_some();
        let is_state = matches!(message, Message::State(_));
        if is_state && self.logs.get(&id).is_some_and(is_led) && !self.has_vote(peer, id) {
            return;
        }
        if let Some(log) = self.logs.get_mut(&id) {
            self.due.touch(id);
            log.on_message(&mut self.env, peer, message);
        }
    }
}
