//! What this node remembers of the others' disks, and tells of its own (`store::past`).
//!
//! ```text
//!  greeting ─▶ its start is not below the last ─▶ the frame Past ─▶ it goes on from what is known
//!                                                                     │  a start that is news
//!                                                                     ▼
//!                                             `met` is written ─▶ frames are heard
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use formats::past::{End, Findings, Start, Told};
use formats::proof::{Challenge, DiskKey, Evidence, Seal, SealedEnd, Signature};
use formats::{DiskId, Frame, LogId, parse_hex16, version};
use ops::{ConnId, Disk, Op};
use paxos::mutation::{self, Mutation};
use paxos::{NodeId, Time};
use replica::Own;
use store::past::ends::{ENDS_FILE, Ends};
use store::past::met::{self, MET_FILE, Met, Seen};
use store::past::refused::{self, REFUSED_FILE};

use super::Node;
use crate::peers::{CalledOld, Entry, NotAdmitted};
use crate::tokens;

/// So often peers are told where logs end by now, and so often that is written. Microseconds.
const TELL_EVERY: u64 = 1_000_000;
const WRITE_EVERY: u64 = 10_000_000;
/// A peer that lies about more logs makes nothing grow.
const UNREAD_LOGS_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Remembering {
    met: BTreeMap<NodeId, Met>,
    /// Versions of `met`: in memory, on its way to disk, and there.
    version: u64,
    writing: Option<u64>,
    written: u64,
    /// A write failed: the next tick tries again.
    again: bool,
    /// More was told of the ends than stands in the last version, and when that was.
    grew: bool,
    grown_at: Time,
    /// This node's own.
    pub(crate) starts: Vec<Start>,
    /// Where this start, and those before, found that each log ended.
    found: Findings,
    told: BTreeMap<LogId, End>,
    told_at: Time,
    /// How many challenges peers were sent.
    challenges: u64,
    /// The note of a stop: on its way, or there.
    noted: Option<bool>,
}

impl Remembering {
    pub(crate) fn load(
        disk: &mut dyn Disk,
        directory: &Path,
        starts: Vec<Start>,
        found: Findings,
    ) -> Remembering {
        let met = met::load(disk, directory).unwrap_or_else(|trouble| {
            tracing::error!(
                path = %directory.join(MET_FILE).display(),
                "what was known of the other nodes' disks cannot be read ({trouble}): an old copy of one that only this node would know for one is not known for one any more"
            );
            BTreeMap::new()
        });
        Remembering {
            met,
            starts,
            found,
            ..Remembering::default()
        }
    }

    /// What each node that was met is shown when it is greeted.
    pub(crate) fn evidence(&self) -> BTreeMap<NodeId, Evidence> {
        let of = |(node, met): (&NodeId, &Met)| Some((*node, met.evidence(None)?));
        self.met.iter().filter_map(of).collect()
    }

    pub(crate) fn seen(&self, node: NodeId) -> Option<Seen> {
        self.met.get(&node).map(|met| met.seen)
    }

    /// Drawn for each greeting that is to be proven.
    pub(crate) fn challenge(&mut self, own: &Own) -> Option<Challenge> {
        self.challenges += 1;
        let key = own.key.as_ref()?;
        Some(key.challenge(own.start(), self.challenges))
    }

    /// What shows the node that is refused so that it is an old copy.
    pub(crate) fn evidence_against(
        &self,
        peer: NodeId,
        disk: DiskId,
        why: NotAdmitted,
    ) -> Option<Evidence> {
        let met = self.met.get(&peer);
        let lacks = match why {
            NotAdmitted::Lacks(lacks) => Some(lacks),
            _ => None,
        };
        met.filter(|met| met.seen.disk == disk)?.evidence(lacks)
    }

    pub(crate) fn is_written(&self) -> bool {
        self.written >= self.version || mutation::is(Mutation::IncarnationNotDurable)
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        if self.met.remove(&node).is_some() {
            self.version += 1;
            self.again = true;
        }
    }
}

impl Node {
    /// It is who it says, as far as its start's number tells. True if its frames are heard from now on.
    pub(crate) fn admit(&mut self, peer: NodeId, claim: Seen, told: Option<&Told>) -> bool {
        let room = self.room_for_ends();
        let past = &mut self.past;
        let met = past.met.entry(peer).or_insert_with(|| {
            past.version += 1;
            Met::new(claim)
        });
        if met.seen.disk != claim.disk {
            *met = Met::new(claim);
            past.version += 1;
        }
        let proof = self.peers.get_or_add(peer).proof;
        let signature = proof.map(|proof| proof.signature);
        past.version += u64::from(met.take(claim, signature, told, room));
        let evidence = met.evidence(None);
        match evidence {
            Some(evidence) => _ = self.env.own.evidence.insert(peer, evidence),
            None => _ = self.env.own.evidence.remove(&peer),
        }
        let state = self.peers.get_or_add(peer);
        state.seen = Some(claim);
        state.old_copy = None;
        state.entry = match self.past.is_written() {
            true => Entry::Open,
            false => Entry::AwaitsDisk(self.past.version),
        };
        self.save_met();
        self.peers.get_or_add(peer).entry == Entry::Open
    }

    /// The first frame of a peer's connection. An error is why it is not heard.
    pub(crate) fn on_past(&mut self, peer: NodeId, claim: Seen, told: &Told) -> Result<(), String> {
        let own = Start {
            incarnation: claim.incarnation,
            nonce: claim.nonce,
        };
        if told.starts.last() != Some(&own) {
            return Err("the last start that it lists is not its own".to_owned());
        }
        if claim.disk.is_keyed() && !mutation::is(Mutation::DisksNeedNoProof) {
            let proof = self.peers.get_or_add(peer).proof;
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
        let known = self.past.met.get(&peer);
        let known = known.filter(|met| met.seen.disk == claim.disk);
        let lacks = known.map_or(Ok(()), |met| met.check(told));
        if let Err(lacks) = lacks
            && !mutation::is(Mutation::OlderStartAdmitted)
        {
            self.counts.peers_refused += 1;
            tracing::error!(peer = peer.0, why = %lacks, "a peer is refused");
            let state = self.peers.get_or_add(peer);
            state.lacks_start = Some((claim, lacks));
            state.old_copy = Some(lacks.to_string());
            return Err(lacks.to_string());
        }
        if let Some(said) = self.peers.get_or_add(peer).unproven.take() {
            self.take_said(peer, said);
        }
        self.admit(peer, claim, Some(told));
        Ok(())
    }

    /// How many logs' ends are kept of one peer. It may know logs that this node has not read of yet.
    fn room_for_ends(&self) -> usize {
        self.directory.logs.len().max(self.logs.len()) + UNREAD_LOGS_MAX
    }

    /// It goes on, and more is durable.
    pub(crate) fn on_past_grown(&mut self, peer: NodeId, told: &Told) {
        let room = self.room_for_ends();
        if let Some(met) = self.past.met.get_mut(&peer)
            && met.grow(told, room)
            && !std::mem::replace(&mut self.past.grew, true)
        {
            self.past.grown_at = self.env.now;
        }
    }

    pub(super) fn save_met(&mut self) {
        let past = &mut self.past;
        let idle = past.written >= past.version || past.writing.is_some();
        if idle || mutation::is(Mutation::IncarnationNotDurable) {
            return;
        }
        past.again = false;
        past.grew = false;
        past.writing = Some(past.version);
        let contents = met::encode(past.met.iter().map(|(node, met)| (*node, met)));
        self.env.out.ops.push_back(Op::WriteFile {
            token: tokens::MET,
            path: self.config.directory.join(MET_FILE),
            contents,
        });
    }

    pub(super) fn on_met_written(&mut self, result: std::io::Result<()>) {
        let Some(version) = self.past.writing.take() else {
            return;
        };
        if let Err(error) = result {
            tracing::error!(%error, "what is known of the other nodes' disks could not be saved, and those that started anew wait for it; free space");
            self.past.again = true;
            return;
        }
        self.past.written = version;
        self.save_met();
        let open = |(id, peer): (&NodeId, &mut crate::peers::Peer)| match peer.entry {
            Entry::AwaitsDisk(awaited) if awaited <= version => {
                peer.entry = Entry::Open;
                Some((*id, peer.incoming?))
            }
            _ => None,
        };
        let opened = self.peers.peers.iter_mut().filter_map(open);
        for (peer, conn) in opened.collect::<Vec<_>>() {
            self.take_held_frames(conn, peer);
        }
    }

    /// Now and then: what was told since is written, and what could not be written before.
    pub(super) fn keep_met(&mut self) {
        let is_due = self.env.now.0 >= self.past.grown_at.0 + WRITE_EVERY;
        if self.past.grew && is_due && self.past.writing.is_none() {
            self.past.version += 1;
            self.past.again = true;
        }
        if self.past.again {
            self.save_met();
        }
    }

    /// On a connection that is up: before anything else.
    pub(crate) fn tell_past(&mut self, peer: NodeId) {
        self.due.awake.wake_all_for_peers();
        let logs = self.logs.iter();
        let ends = logs.map(|(id, log)| (*id, log.store().durable_end()));
        let ends: Vec<(LogId, End)> = ends.collect();
        let challenge = self.peers.get_or_add(peer).challenges_us;
        let key = self.env.own.key.as_ref();
        let answer = key.zip(challenge);
        let told = Told {
            starts: self.past.starts.clone(),
            found: self.past.found.clone(),
            seals: self.seals_of(&ends),
            ends,
            deleted: self.manifest.deleted_ranges(),
            answer: answer
                .map(|(key, challenge)| key.answer(challenge, peer, self.env.own.start())),
            kept: self.kept_of(peer),
        };
        self.peers.send(&mut self.env, peer, &Frame::Past(told));
    }

    /// ‡ Whoever is not heard may be an old copy, and knows by that at this node's first word. Whoever is heard has told
    /// what it has, and was not found to lack anything.
    fn kept_of(&mut self, peer: NodeId) -> Vec<SealedEnd> {
        let is_heard = self.peers.get_or_add(peer).incoming.is_some();
        let met = self.past.met.get(&peer).filter(|_| !is_heard);
        met.map_or_else(Vec::new, |met| met.kept().collect())
    }

    fn seals_of(&self, ends: &[(LogId, End)]) -> Vec<Seal> {
        let start = self.env.own.start();
        let key = self.env.own.key.iter();
        key.flat_map(|key| ends.iter().map(|(log, end)| key.seal(start, *log, *end)))
            .collect()
    }

    /// ‡ This disk said that once, as its own key shows, whoever brings it. What is not in the directory was forgotten.
    pub(crate) fn on_evidence(&mut self, evidence: &Evidence, told: &str) {
        let disk = self.env.own.identity.disk;
        let is_own = |key: &DiskKey| key.has_said(disk, evidence);
        if self.remembers(evidence) || !self.env.own.key.as_ref().is_some_and(is_own) {
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

    fn remembers(&self, evidence: &Evidence) -> bool {
        let starts = &self.past.starts;
        match evidence {
            Evidence::Start(start, _) => {
                let first = starts.first().map_or(0, |first| first.incarnation);
                start.incarnation < first || starts.contains(start)
            }
            // ‡ What a start told the next one found, or it was forgotten. What was written since is something else.
            Evidence::End(SealedEnd {
                start, log, end, ..
            }) => {
                let has = match *start == self.env.own.start() {
                    true => self.logs.get(log).map(|log| log.store().durable_end()),
                    false => Some(self.past.found.after(start.incarnation, *log)),
                };
                has.unwrap_or_default().has(*end) || self.manifest.deleted.contains(log)
            }
        }
    }

    /// To all, where it is more than was told.
    pub(super) fn tell_ends(&mut self) {
        if self.env.now.0 < self.past.told_at.0 + TELL_EVERY {
            return;
        }
        self.past.told_at = self.env.now;
        let mut ends = Vec::new();
        for (id, log) in self.logs.iter() {
            let end = log.store().durable_end();
            if self.past.told.insert(*id, end) != Some(end) {
                ends.push((*id, end));
            }
        }
        let links = self.env.peers.links.iter();
        let links = links.filter(|(_, version)| **version >= version::PASTS);
        let links: Vec<NodeId> = links.map(|(id, _)| *id).collect();
        if ends.is_empty() || links.is_empty() {
            return;
        }
        let frame = Frame::Past(Told {
            seals: self.seals_of(&ends),
            ends,
            ..Told::default()
        });
        for peer in links {
            self.peers.send(&mut self.env, peer, &frame);
        }
    }

    /// A peer says that this directory is an old copy. What it forgot others may count on, and not all of them may
    /// know: nothing more is said or taken.
    ///
    /// ‡ The word is believed only of a peer whose own connection to this node is admitted and speaks: that one told
    /// its chain of starts, and goes on from the start that this node met. Somebody else may answer at the address of a
    /// node that is gone, and could stop one node after the other.
    pub(crate) fn on_called_old(&mut self, called: &CalledOld) {
        let CalledOld {
            by,
            disk,
            evidence,
            why,
        } = called;
        if let Some(evidence) = evidence {
            return self.on_evidence(evidence, &format!("node {by} refuses it: {why}"));
        }
        let listed = self.directory.nodes.get(by);
        let is_listed = listed.is_none_or(|entry| parse_hex16(&entry.disk) == disk.map(|d| d.0));
        let now = self.env.now;
        let is_there = self.peers.peers.get(by).is_some_and(|peer| {
            let speaks = peer.incoming.is_some() && peer.speaks_now(now, &self.env.limits);
            speaks && peer.entry == Entry::Open && disk.is_some() && peer.disk() == *disk
        });
        if self.refused.is_some() || !is_listed || !is_there {
            return;
        }
        self.refuse_directory(format!("node {by} refuses it: {why}"));
    }

    /// What this directory forgot others may count on, and not all of them may know: nothing more is said or taken.
    fn refuse_directory(&mut self, why: String) {
        if self.refused.is_some() {
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
        self.env.out.ops.push_back(Op::WriteFile {
            token: tokens::REFUSED,
            path: self.config.directory.join(REFUSED_FILE),
            contents: refused::encode(&why),
        });
        self.refused = Some(why);
    }

    pub(super) fn on_refusal_written(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            tracing::error!(%error, "that this directory is an old copy could not be noted in it");
        }
        let why = self.refused.clone().unwrap_or_default();
        let directory = self.config.directory.display();
        self.fail(format!("{directory} is an old copy: {why}"));
    }

    /// Once all logs are closed: where each ended, and what was told of the others' since that was last written. True
    /// when it stands there, or cannot.
    pub(super) fn note_ends(&mut self) -> bool {
        if let Some(is_there) = self.past.noted {
            return is_there && self.past.writing.is_none();
        }
        if self.past.grew {
            self.past.version += 1;
            self.save_met();
        }
        let sound = self
            .logs
            .iter()
            .filter(|(_, log)| log.store().is_all_durable());
        let records = sound.map(|(id, log)| (*id, log.store().last_number()));
        let ends = Ends::new(self.env.own.incarnation, records);
        self.past.noted = Some(false);
        self.env.out.ops.push_back(Op::WriteFile {
            token: tokens::ENDS,
            path: self.config.directory.join(ENDS_FILE),
            contents: ends.encode(),
        });
        false
    }

    pub(super) fn on_ends_noted(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            tracing::warn!(%error, "where the logs end could not be noted");
        }
        self.past.noted = Some(true);
        self.next_tick = self.env.now;
    }

    /// Frames that came meanwhile.
    fn take_held_frames(&mut self, conn: ConnId, peer: NodeId) {
        if let Err(why) = self.take_frames(conn, peer) {
            tracing::warn!(peer = peer.0, why, "a peer's control connection is closed");
            self.end_control(conn, peer);
        }
    }
}
