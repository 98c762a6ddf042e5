//! `peer`: another node greets. Its identity, and whether it is heard.

use formats::version;
use formats::{LogId, hex};
use ops::{Buffer, ConnId};
use paxos::NodeId;
use paxos::mutation::{self, Mutation};
use replica::Purpose;
use store::past::met::Seen;
use wire::{Refusal, Standing, welcome};

use crate::greeting::Caller;
use crate::node::Node;
use crate::node::hearing::CONTROL_BUFFER;
use crate::peers::hello::{Hello, Kind, bad, check_proof};
use crate::peers::{Inbound, NotAdmitted, OLD_COPY, Proof, SaidOfItself};

impl Node {
    /// `peer kind=control|data …`: checks that it is the node we think, and of our cluster.
    pub(super) fn greet_peer(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { request, rest, .. } = caller;
        let conn = caller.conn;
        let hello = Hello::read(request, &self.env.own, |node| {
            self.cluster.is_removed(&self.logs, node)
        });
        let hello = hello.inspect_err(|refusal| {
            self.counts.peers_refused += u64::from(refusal.code == "removed");
        })?;
        let from = hello.from;
        let claim = hello.claim.filter(|_| self.knows(from));
        self.check_certificate(caller, from, claim.is_none())?;
        if let Some(evidence) = &hello.evidence {
            let told = format!("node {from} remembers more of this disk");
            self.on_evidence(evidence, &told);
        }
        let Some(claim) = claim else {
            return self.on_guest_greeting(conn, &hello, rest);
        };
        let proof = check_proof(request, claim)?;
        let proof = proof.and_then(|(key, signature)| {
            let challenge = self.past.challenge(&self.env.own)?;
            Some(Proof {
                key,
                signature,
                challenge,
            })
        });
        let is_listed = self.check_disk(from, claim)?;
        let standing = Standing::parse(request)?;
        let version = self.check_version(&hello, proof.is_some())?;
        self.check_claim(from, claim, is_listed)?;
        let peer = self.peers.get_or_add(from);
        let is_admitted = peer.admission.is_open_as(claim);
        if hello.kind != Kind::Control && (!is_admitted || self.env.own.settling) {
            return Err(Refusal::new(
                "busy",
                format!("node {from} is heard here once its control connection is"),
            ));
        }
        let said = SaidOfItself {
            standing,
            address: hello.address.clone(),
            is_listed,
            speaks: (hello.kind == Kind::Control).then_some(hello.speaks),
            reserve_bytes: hello.reserve_bytes,
        };
        // ‡ A greeting may have been overheard: where a key can prove it, it counts once the challenge is answered.
        // Version 1 has no frame for an answer. There the node is admitted by its greeting, and so its word of
        // itself counts as much as its promises do.
        let will_answer = version >= version::PASTS;
        match (proof, hello.kind) {
            (None, _) => self.take_said(from, said),
            (Some(_), Kind::Control) if will_answer => {
                self.peers.get_or_add(from).admission.keep_unproven(said);
            }
            (Some(_), Kind::Control) => self.take_said(from, said),
            (Some(_), Kind::Data(_)) => {}
        }
        match hello.kind {
            Kind::Control => {
                self.begin_control(conn, &hello, claim, proof, version, rest);
                Ok(())
            }
            Kind::Data(log) => self.begin_data(conn, from, log, version, rest),
        }
    }

    /// Whether the directory lists this disk for the node; an error if it lists another.
    fn check_disk(&self, from: NodeId, claim: Seen) -> Result<bool, Refusal> {
        let entry = self.cluster.directory.nodes.get(&from);
        let is_listed = entry.is_some_and(|entry| entry.disk == hex(&claim.disk.0));
        // ‡ After a rescue log 0 names the disk of before first, and only the node itself can tell the rest.
        // A disk that was met before that was read goes on.
        let met = self
            .past
            .seen(from)
            .filter(|_| !self.cluster.is_confirmed());
        let is_met = met.is_some_and(|met| met.disk == claim.disk);
        let is_other = entry.is_some() && !is_listed && !is_met;
        if is_other && !mutation::is(Mutation::EmptyDiskKeepsItsId) {
            return Err(bad(format!(
                "node {from} had another disk; a node that lost its disk joins anew, with --join and an empty directory"
            )));
        }
        Ok(is_listed)
    }

    /// The version of the connection.
    fn check_version(&self, hello: &Hello, is_proven: bool) -> Result<u8, Refusal> {
        let from = hello.from;
        let needed = self.cluster.directory.versions.agreed;
        let version =
            self.cluster
                .check_speaks(&self.env, &format!("node {from}"), hello.speaks, needed);
        let version = version.inspect_err(|refusal| {
            tracing::warn!(peer = from.0, why = refusal.sentence, "a peer is refused");
        })?;
        // ‡ An older program's word proves nothing of the challenge. This disk knows that the cluster left
        // those programs behind, also before log 0 is read again.
        let is_left_behind = version < version::PASTS && self.env.version.disk >= version::PASTS;
        if is_proven && is_left_behind {
            return Err(Refusal::new(
                "no-proof",
                format!(
                    "node {from} has a key and asks to be heard as a program that cannot prove it"
                ),
            ));
        }
        Ok(version)
    }

    /// Checks that the claim goes on from the start that was met last.
    fn check_claim(&mut self, from: NodeId, claim: Seen, is_listed: bool) -> Result<(), Refusal> {
        let known = self.past.seen(from);
        let peer = self.peers.get_or_add(from);
        peer.admission.recall(known);
        let is_in_use = peer.is_here(self.env.now, &self.env.limits);
        let Err(why) = peer.admission.admit(claim, is_listed, is_in_use) else {
            return Ok(());
        };
        if why.is_old_copy() {
            peer.admission.call_old(&why);
        }
        if why == NotAdmitted::InUse {
            tracing::warn!(peer = from.0, %why, "a peer is put off");
            return Err(Refusal::new(
                "busy",
                format!("node {from} is put off: {why}"),
            ));
        }
        self.counts.peers_refused += 1;
        tracing::error!(peer = from.0, %why, "a peer is refused");
        if !why.is_old_copy() {
            return Err(bad(format!("node {from} is refused: {why}")));
        }
        // The node that stops at that word checks whose word it is, unless there is evidence. Nobody else
        // hears the disk.
        let refusal = Refusal::new(OLD_COPY, why.to_string());
        let refusal = match is_listed {
            true => refusal.key("disk", hex(&self.env.own.identity.disk.0)),
            false => refusal,
        };
        Err(match self.past.evidence_against(from, claim.disk, why) {
            Some(evidence) => refusal.key("evidence", evidence),
            None => refusal,
        })
    }

    fn begin_control(
        &mut self,
        conn: ConnId,
        hello: &Hello,
        claim: Seen,
        proof: Option<Proof>,
        version: u8,
        rest: &[u8],
    ) {
        let from = hello.from;
        match hello.compares {
            true => self.env.peers.compares.insert(from),
            false => self.env.peers.compares.remove(&from),
        };
        let peer = self.peers.get_or_add(from);
        peer.way.on_greeted(hello.takes_parts);
        peer.pulse.on_greeted();
        if let Some(old) = peer.admission.on_greeted(conn, claim, proof) {
            self.peers.controls.remove(&old);
            self.env.close(old);
        }
        self.env.conns.turn_to(conn, Purpose::ControlIn(from));
        let mut control = Inbound::default();
        control.push(self.env.now, rest);
        self.peers.controls.insert(conn, control);
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

    fn begin_data(
        &mut self,
        conn: ConnId,
        from: NodeId,
        id: LogId,
        version: u8,
        rest: &[u8],
    ) -> Result<(), Refusal> {
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
        self.env.conns.turn_to(conn, Purpose::DataIn(id, from));
        log.add_source(&mut self.env, conn, from, version);
        Ok(())
    }

    /// Takes a node's word of itself, from its greeting: it counts from here on.
    pub(in crate::node) fn take_said(&mut self, from: NodeId, said: SaidOfItself) {
        // A claim that is not listed may come from anybody who knows that node's number.
        if said.is_listed || !self.env.peers.addresses.contains_key(&from) {
            self.learn_address(from, &said.address);
        }
        let door = said.standing.door.clone();
        match door.is_empty() {
            true => _ = self.env.peers.doors.remove(&from),
            false => _ = self.env.peers.doors.insert(from, door),
        }
        self.peers.get_or_add(from).said.on_greeting(said);
        self.forget_stopped(from);
    }
}
