//! This node's memory of the others' disks, and its word of its own (`store::past`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use formats::past::{End, Findings, Start, Told};
use formats::proof::{Challenge, Evidence, Seal, SealedEnd, Signature};
use formats::{DiskId, LogId};
use ops::{Disk, Op};
use paxos::mutation::{self, Mutation};
use paxos::{NodeId, Time};
use replica::{Env, Own};
use store::Manifest;
use store::past::Lacks;
use store::past::ends::{ENDS_FILE, Ends};
use store::past::met::{self, MET_FILE, Met, Seen};
use store::past::refused::{self, REFUSED_FILE};

use crate::logs::Logs;
use crate::peers::NotAdmitted;
use crate::tokens;

/// The interval at which peers are told where logs end by now, and that at which it is written.
const TELL_EVERY: Duration = Duration::from_secs(1);
const WRITE_EVERY: Duration = Duration::from_secs(10);
#[derive(Default)]
pub(crate) struct Remembering {
    /// This node's directory.
    directory: PathBuf,
    met: BTreeMap<NodeId, Met>,
    /// Versions of `met`: in memory, on its way to disk, and there.
    version: u64,
    writing: Option<u64>,
    written: u64,
    /// Whether a write failed: the next tick tries again.
    again: bool,
    /// Whether people were told of that, and none has succeeded since.
    is_unsaved: bool,
    /// Whether more was told of the ends than stands in the last version, and when that was.
    grew: bool,
    grown_at: Time,
    /// The starts of this node's own disk.
    starts: Vec<Start>,
    /// The ends of the logs that this start, and those before, found.
    found: Findings,
    told: BTreeMap<LogId, End>,
    told_at: Time,
    /// The number of challenges that peers were sent.
    challenges: u64,
    /// The reason why this directory is refused, as an old copy.
    refused: Option<String>,
    /// The note of a stop: on its way (false), or there.
    noted: Option<bool>,
}

impl Remembering {
    pub fn load(
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
            directory: directory.to_owned(),
            met,
            starts,
            found,
            ..Remembering::default()
        }
    }

    /// The evidence that each met node is shown when it is greeted.
    pub fn evidence(&self) -> BTreeMap<NodeId, Evidence> {
        let of = |(node, met): (&NodeId, &Met)| Some((*node, met.evidence(None)?));
        self.met.iter().filter_map(of).collect()
    }

    pub fn seen(&self, node: NodeId) -> Option<Seen> {
        self.met.get(&node).map(|met| met.seen)
    }

    /// Draws a challenge for each greeting that is to be proven.
    pub fn challenge(&mut self, own: &Own) -> Option<Challenge> {
        self.challenges += 1;
        let key = own.key.as_ref()?;
        Some(key.challenge(own.start(), self.challenges))
    }

    /// The evidence that shows a refused node that it is an old copy.
    pub fn evidence_against(
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

    pub fn is_written(&self) -> bool {
        self.written >= self.version || mutation::is(Mutation::IncarnationNotDurable)
    }

    pub fn forget(&mut self, node: NodeId) {
        if self.met.remove(&node).is_some() {
            self.version += 1;
            self.again = true;
        }
    }

    /// Meets a node that is the one it says, as far as its start's number tells. Returns the evidence that it
    /// is shown from now on when it is greeted.
    pub fn meet(
        &mut self,
        peer: NodeId,
        claim: Seen,
        signature: Option<Signature>,
        told: Option<&Told>,
        room: usize,
    ) -> Option<Evidence> {
        let met = self.met.entry(peer).or_insert_with(|| {
            self.version += 1;
            Met::new(claim)
        });
        if met.seen.disk != claim.disk {
            *met = Met::new(claim);
            self.version += 1;
        }
        self.version += u64::from(met.take(claim, signature, told, room));
        met.evidence(None)
    }

    /// The version that is to be on disk before the node that was met last is heard.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether a peer's word goes on from what is known of its disk.
    pub fn check(&self, peer: NodeId, disk: DiskId, told: &Told) -> Result<(), Lacks> {
        let known = self.met.get(&peer);
        let known = known.filter(|met| met.seen.disk == disk);
        known.map_or(Ok(()), |met| met.check(told))
    }

    /// Notes that a peer's past goes on, and more is durable.
    pub fn on_grown(&mut self, now: Time, peer: NodeId, told: &Told, room: usize) {
        if let Some(met) = self.met.get_mut(&peer)
            && met.grow(told, room)
            && !std::mem::replace(&mut self.grew, true)
        {
            self.grown_at = now;
        }
    }

    pub fn save(&mut self, env: &mut Env) {
        let idle = self.written >= self.version || self.writing.is_some();
        if idle || mutation::is(Mutation::IncarnationNotDurable) {
            return;
        }
        self.again = false;
        self.grew = false;
        self.writing = Some(self.version);
        let contents = met::encode(self.met.iter().map(|(node, met)| (*node, met)));
        env.out.ops.push_back(Op::WriteFile {
            token: tokens::MET,
            path: self.directory.join(MET_FILE),
            contents,
        });
    }

    /// The version that stands on disk from now on, if one more does.
    pub fn on_written(&mut self, env: &mut Env, result: std::io::Result<()>) -> Option<u64> {
        let version = self.writing.take()?;
        if let Err(error) = result {
            self.again = true;
            if std::mem::replace(&mut self.is_unsaved, true) {
                return None;
            }
            tracing::error!(%error, "what is known of the other nodes' disks could not be saved, and those that started anew wait for it; free space");
            return None;
        }
        self.written = version;
        self.is_unsaved = false;
        self.save(env);
        Some(version)
    }

    /// Writes, now and then, what was told since, and what could not be written before.
    pub fn keep(&mut self, env: &mut Env) {
        let is_due = env.now >= self.grown_at + WRITE_EVERY;
        if self.grew && is_due && self.writing.is_none() {
            self.version += 1;
            self.again = true;
        }
        if self.again {
            self.save(env);
        }
    }

    /// The first frame to a peer: all of this disk's past. `is_heard`: that peer's own connection is there.
    pub fn told_to(
        &self,
        peer: NodeId,
        is_heard: bool,
        logs: &Logs,
        manifest: &Manifest,
        own: &Own,
        challenge: Option<Challenge>,
    ) -> Told {
        let ends = logs.iter();
        let ends = ends.map(|(id, log)| (*id, log.store().durable_end()));
        let ends: Vec<(LogId, End)> = ends.collect();
        let answer = own.key.as_ref().zip(challenge);
        Told {
            starts: self.starts.clone(),
            found: self.found.clone(),
            seals: seals(own, &ends),
            ends,
            deleted: manifest.deleted_ranges(),
            answer: answer.map(|(key, challenge)| key.answer(challenge, peer, own.start())),
            kept: self.kept_of(peer, is_heard),
        }
    }

    /// ‡ The ends kept of a peer. A peer that is not heard may be an old copy, and knows by them at this
    /// node's first word. One that is heard has told what it has, and was not found to lack anything.
    fn kept_of(&self, peer: NodeId, is_heard: bool) -> Vec<SealedEnd> {
        let met = self.met.get(&peer).filter(|_| !is_heard);
        met.map_or_else(Vec::new, |met| met.kept().collect())
    }

    /// The ends of logs by now, for all peers, if they are more than was told.
    pub fn news_of_ends(&mut self, now: Time, logs: &Logs, own: &Own) -> Option<Told> {
        if now < self.told_at + TELL_EVERY {
            return None;
        }
        self.told_at = now;
        let mut ends = Vec::new();
        for (id, log) in logs.iter() {
            let end = log.store().durable_end();
            if self.told.insert(*id, end) != Some(end) {
                ends.push((*id, end));
            }
        }
        (!ends.is_empty()).then(|| Told {
            seals: seals(own, &ends),
            ends,
            ..Told::default()
        })
    }

    /// Whether this directory has what it said once, or has forgotten it on purpose.
    pub fn remembers(
        &self,
        evidence: &Evidence,
        own: &Own,
        logs: &Logs,
        manifest: &Manifest,
    ) -> bool {
        match evidence {
            Evidence::Start(start, _) => {
                let first = self.starts.first().map_or(0, |first| first.incarnation);
                start.incarnation < first || self.starts.contains(start)
            }
            // ‡ The next start found the ends that a start told, or they were forgotten. Bytes written since
            // are something else.
            Evidence::End(SealedEnd {
                start, log, end, ..
            }) => {
                let has = match *start == own.start() {
                    true => logs.get(log).map(|log| log.store().durable_end()),
                    false => Some(self.found.after(start.incarnation, *log)),
                };
                has.unwrap_or_default().has(*end) || manifest.deleted.contains(log)
            }
        }
    }

    /// The reason why this directory is refused, as an old copy.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Refuses this directory: it is an old copy, and says so from now on.
    pub fn refuse(&mut self, env: &mut Env, why: String) {
        env.out.ops.push_back(Op::WriteFile {
            token: tokens::REFUSED,
            path: self.directory.join(REFUSED_FILE),
            contents: refused::encode(&why),
        });
        self.refused = Some(why);
    }

    /// Notes, once all logs are closed, where each ended, and what was told of the others' since that was
    /// last written. True when the note stands there, or cannot.
    pub fn note_ends(&mut self, env: &mut Env, logs: &Logs) -> bool {
        if let Some(is_there) = self.noted {
            return is_there && self.writing.is_none();
        }
        if self.grew {
            self.version += 1;
            self.save(env);
        }
        let sound = logs.iter();
        let sound = sound.filter(|(_, log)| log.store().is_all_durable());
        let records = sound.map(|(id, log)| (*id, log.store().last_number()));
        let ends = Ends::new(env.own.incarnation, records);
        self.noted = Some(false);
        env.out.ops.push_back(Op::WriteFile {
            token: tokens::ENDS,
            path: self.directory.join(ENDS_FILE),
            contents: ends.encode(),
        });
        false
    }

    pub fn on_ends_noted(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            tracing::warn!(%error, "where the logs end could not be noted");
        }
        self.noted = Some(true);
    }
}

fn seals(own: &Own, ends: &[(LogId, End)]) -> Vec<Seal> {
    let start = own.start();
    let key = own.key.iter();
    key.flat_map(|key| ends.iter().map(|(log, end)| key.seal(start, *log, *end)))
        .collect()
}
