//! The past of peers' disks, and of this one ([`crate::past`]), is heard and acted on.
//!
//! ```text
//!  greeting ─▶ its start is not below the last ─▶ the frame Past ─▶ it goes on from what is known
//!                                                                     │  a start that is news
//!                                                                     ▼
//!                                             `met` is written ─▶ frames are heard
//! ```

use formats::past::{Start, Told};
use formats::proof::{DiskKey, Evidence, SealedEnd, Signature};
use formats::{Frame, parse_hex16, version};
use paxos::NodeId;
use paxos::mutation::{self, Mutation};
use store::past::met::Seen;

use super::Node;
use crate::peers::{CalledOld, Entry};

/// The number of unread logs beyond which a peer that lies makes nothing grow.
const UNREAD_LOGS_MAX: usize = 4096;

impl Node {
    /// Admits a peer that is the node it says, as far as its start's number tells. True if its frames are
    /// heard from now on.
    pub(super) fn admit(&mut self, peer: NodeId, claim: Seen, told: Option<&Told>) -> bool {
        let room = self.room_for_ends();
        let proof = self.peers.get_or_add(peer).admission.proof();
        let signature = proof.map(|proof| proof.signature);
        match self.past.meet(peer, claim, signature, told, room) {
            Some(evidence) => _ = self.env.own.evidence.insert(peer, evidence),
            None => _ = self.env.own.evidence.remove(&peer),
        }
        let entry = match self.past.is_written() {
            true => Entry::Open,
            false => Entry::AwaitsDisk(self.past.version()),
        };
        let state = self.peers.get_or_add(peer);
        state.admission.on_admitted(claim, entry);
        self.past.save(&mut self.env);
        self.peers.get_or_add(peer).admission.entry() == Entry::Open
    }

    /// Takes the first frame of a peer's connection. An error is the reason why it is not heard.
    pub(super) fn on_past(&mut self, peer: NodeId, claim: Seen, told: &Told) -> Result<(), String> {
        let own = Start {
            incarnation: claim.incarnation,
            nonce: claim.nonce,
        };
        if told.starts.last() != Some(&own) {
            return Err("the last start that it lists is not its own".to_owned());
        }
        if claim.disk.is_keyed() && !mutation::is(Mutation::DisksNeedNoProof) {
            let proof = self.peers.get_or_add(peer).admission.proof();
            let proof = proof.ok_or("it proves nothing of its disk")?;
            let to = self.env.own.identity.node;
            let has_answered =
                |answer: &Signature| proof.key.has_answered(proof.challenge, to, own, answer);
            if !told.answer.as_ref().is_some_and(has_answered) {
                return Err(
                    "it does not answer for its disk: what it says was overheard".to_owned(),
                );
            }
        }
        // Each seal costs a look: a node that has a key has answered for it by now.
        for kept in &told.kept {
            let told = format!("node {peer} remembers more of this disk");
            self.on_evidence(&Evidence::End(*kept), &told);
        }
        if let Err(lacks) = self.past.check(peer, claim.disk, told)
            && !mutation::is(Mutation::OlderStartAdmitted)
        {
            self.counts.peers_refused += 1;
            tracing::error!(peer = peer.0, why = %lacks, "a peer is refused");
            let state = self.peers.get_or_add(peer);
            state.admission.refuse(claim, lacks);
            return Err(lacks.to_string());
        }
        if let Some(said) = self.peers.get_or_add(peer).admission.take_unproven() {
            self.take_said(peer, said);
        }
        self.admit(peer, claim, Some(told));
        Ok(())
    }

    /// The number of logs whose ends are kept of one peer. It may know logs that this node has not read of yet.
    fn room_for_ends(&self) -> usize {
        self.cluster.directory.logs.len().max(self.logs.len()) + UNREAD_LOGS_MAX
    }

    /// Notes that a peer's past goes on, and more is durable.
    pub(super) fn on_past_grown(&mut self, peer: NodeId, told: &Told) {
        let room = self.room_for_ends();
        self.past.on_grown(self.env.now, peer, told, room);
    }

    pub(super) fn on_met_written(&mut self, result: std::io::Result<()>) {
        let Some(version) = self.past.on_written(&mut self.env, result) else {
            return;
        };
        for (peer, conn) in self.peers.open_entries(version) {
            if let Err(why) = self.take_frames(conn, peer) {
                tracing::warn!(peer = peer.0, why, "a peer's control connection is closed");
                self.peers.end_control(&mut self.env, conn, peer);
            }
        }
    }

    /// Tells the past on a connection that is up, before anything else.
    pub(super) fn tell_past(&mut self, peer: NodeId) {
        self.due.awake.wake_all_for_peers();
        let state = self.peers.get_or_add(peer);
        let is_heard = state.admission.incoming().is_some();
        let challenge = state.way.challenges_us();
        let (logs, manifest, own) = (&self.logs, &self.disk.manifest, &self.env.own);
        let told = self
            .past
            .told_to(peer, is_heard, logs, manifest, own, challenge);
        self.peers.send(&mut self.env, peer, &Frame::Past(told));
    }

    /// ‡ Takes evidence of what this disk said once, as its own key shows, whoever brings it. A fact that is
    /// not in the directory was forgotten.
    pub(super) fn on_evidence(&mut self, evidence: &Evidence, told: &str) {
        let disk = self.env.own.identity.disk;
        let is_own = |key: &DiskKey| key.has_said(disk, evidence);
        let (logs, manifest) = (&self.logs, &self.disk.manifest);
        let remembers = self.past.remembers(evidence, &self.env.own, logs, manifest);
        if remembers || !self.env.own.key.as_ref().is_some_and(is_own) {
            return;
        }
        let why = match evidence {
            Evidence::Start(start, _) => {
                format!(
                    "{told}: its start {} is not among those of this directory",
                    start.incarnation
                )
            }
            Evidence::End(SealedEnd { log, end, .. }) => {
                format!(
                    "{told}: in log {log} it had accepted all below slot {} and promised {}, and this directory had less",
                    end.accepted_up_to, end.promised.0
                )
            }
        };
        if !mutation::is(Mutation::EvidenceIgnored) {
            self.refuse_directory(why);
        }
    }

    /// Tells all peers where logs end, if that is more than was told.
    pub(super) fn tell_ends(&mut self) {
        let (now, own) = (self.env.now, &self.env.own);
        let Some(told) = self.past.news_of_ends(now, &self.logs, own) else {
            return;
        };
        let links = self.env.peers.links.iter();
        let links = links.filter(|(_, version)| **version >= version::PASTS);
        let links: Vec<NodeId> = links.map(|(id, _)| *id).collect();
        let frame = Frame::Past(told);
        for peer in links {
            self.peers.send(&mut self.env, peer, &frame);
        }
    }

    /// Takes a peer's word that this directory is an old copy. Others may count on what it forgot, and not
    /// all of them may know: nothing more is said or taken.
    ///
    /// ‡ The word is believed only of a peer whose own connection to this node is admitted and speaks: that
    /// peer told its chain of starts, and goes on from the start that this node met. Somebody else may answer
    /// at the address of a node that is gone, and could stop one node after the other.
    pub(super) fn on_called_old(&mut self, called: &CalledOld) {
        let CalledOld {
            by,
            disk,
            evidence,
            why,
        } = called;
        if let Some(evidence) = evidence {
            return self.on_evidence(evidence, &format!("node {by} refuses it: {why}"));
        }
        let listed = self.cluster.directory.nodes.get(by);
        let is_listed = listed.is_none_or(|entry| parse_hex16(&entry.disk) == disk.map(|d| d.0));
        let now = self.env.now;
        let is_there = self.peers.get(*by).is_some_and(|peer| {
            let admission = &peer.admission;
            let is_it = disk.is_some() && admission.disk() == *disk;
            peer.is_here(now, &self.env.limits) && admission.entry() == Entry::Open && is_it
        });
        if self.past.refused().is_some() || !is_listed || !is_there {
            return;
        }
        self.refuse_directory(format!("node {by} refuses it: {why}"));
    }

    /// Refuses this directory. Others may count on what it forgot, and not all of them may know: nothing more
    /// is said or taken.
    fn refuse_directory(&mut self, why: String) {
        if self.past.refused().is_some() {
            return;
        }
        tracing::error!(
            why,
            "this directory is an old copy: this node stops and does not start from it again"
        );
        for log in self.logs.values_mut() {
            log.stop_clients(
                &mut self.env,
                "shutting-down",
                "this node's directory is an old copy; ask another node",
            );
            log.end_replication(&mut self.env);
            log.end("its directory is an old copy");
        }
        self.past.refuse(&mut self.env, why);
    }

    pub(super) fn on_refusal_written(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            tracing::error!(%error, "that this directory is an old copy could not be noted in it");
        }
        let why = self.past.refused().unwrap_or_default();
        let directory = self.config.directory.display();
        let why = format!("{directory} is an old copy: {why}");
        self.fail(why);
    }

    pub(super) fn on_ends_noted(&mut self, result: std::io::Result<()>) {
        self.past.on_ends_noted(result);
        self.rounds.tick_now(self.env.now);
    }
}
