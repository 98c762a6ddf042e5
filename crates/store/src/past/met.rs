//! `met`: this node's memory of the others' disks.

use std::collections::BTreeMap;
use std::path::Path;

use formats::past::{End, STARTS_KEPT, Start, Told};
use formats::proof::{Evidence, Seal, SealedEnd, Signature};
use formats::{DiskId, LogId, hex, parse_hex, parse_hex16};
use ops::Disk;
use paxos::NodeId;
use paxos::mutation::{self, Mutation};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::page::{self, PageEnd, page_end};

pub const MET_FILE: &str = "met";

/// The disk and the start of a peer when we last met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub disk: DiskId,
    pub incarnation: u32,
    pub nonce: u64,
}

/// The knowledge of one node's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// The last start of it that was admitted.
    pub seen: Seen,
    /// The last of the starts that told which ones came before: an older program's does not, and is in no list.
    pub listed: Option<Start>,
    /// The disk's own signature under `seen`, if it has a key: an old copy of it knows by that what it has
    /// forgotten.
    pub signature: Option<Signature>,
    /// The ends of its logs, never above those it told to be durable.
    pub ends: BTreeMap<LogId, End>,
    /// The disk's own seals of these ends, where it told them, and the start that sealed.
    pub seals: BTreeMap<LogId, (Start, Seal)>,
}

/// The fact that a directory should have and has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Lacks {
    #[error(
        "start {0} of that node is known here, and its directory has another or none of that number: it is an old copy and must not be used"
    )]
    Start(u32),
    #[error(
        "it told before that it promised {} and accepted all below slot {} in log {log}, and its directory has only {} and {}: it is an old copy, or its disk lost what was durable; it must not be used", .told.promised.0, .told.accepted_up_to.0, .has.promised.0, .has.accepted_up_to.0
    )]
    End { log: LogId, told: End, has: End },
}

impl Met {
    pub fn new(seen: Seen) -> Met {
        Met {
            seen,
            listed: None,
            signature: None,
            ends: BTreeMap::new(),
            seals: BTreeMap::new(),
        }
    }

    /// Checks that a start which tells this goes on where this node knows that disk to have been.
    ///
    /// ‡ An honest node is never refused. A start that was admitted had written its list before it said
    /// anything, so every later one lists it, or has listed `STARTS_KEPT` others since. (A start that nobody
    /// met may be missing, and an older program's is in no list.) The ends that it told were durable, and
    /// neither number goes back.
    ///
    /// ‡ The ends that an earlier start told stand in what this one found. The present log may hold more, and
    /// something else.
    pub fn check(&self, told: &Told) -> Result<(), Lacks> {
        let starts = &told.starts;
        let seen = self.start();
        for known in [Some(seen), self.listed].into_iter().flatten() {
            let named = starts.iter().find(|s| s.incarnation == known.incarnation);
            let is_listed = self.listed == Some(known);
            let forgotten = starts.len() == STARTS_KEPT
                && starts
                    .first()
                    .is_some_and(|s| s.incarnation > known.incarnation);
            let agrees = match named {
                Some(named) => *named == known,
                None => !is_listed || forgotten,
            };
            if !agrees {
                return Err(Lacks::Start(known.incarnation));
            }
        }
        let is_same = starts.last() == Some(&seen) || mutation::is(Mutation::TodaysEndsBelieved);
        let ends: BTreeMap<LogId, End> = told.ends.iter().copied().collect();
        for (log, before) in &self.ends {
            let has = match is_same {
                true => ends.get(log).copied().unwrap_or_default(),
                false => told.found.after(seen.incarnation, *log),
            };
            if !told.has_deleted(*log) && !has.has(*before) {
                return Err(Lacks::End {
                    log: *log,
                    told: *before,
                    has,
                });
            }
        }
        Ok(())
    }

    /// Takes the word of an admitted start. True if the start is news.
    pub fn take(
        &mut self,
        claim: Seen,
        signature: Option<Signature>,
        told: Option<&Told>,
        room: usize,
    ) -> bool {
        let before = (self.seen, self.listed, self.signature);
        self.seen = claim;
        self.signature = signature;
        if let Some(told) = told {
            self.listed = Some(Start {
                incarnation: claim.incarnation,
                nonce: claim.nonce,
            });
            self.ends.retain(|log, _| !told.has_deleted(*log));
            self.seals.retain(|log, _| !told.has_deleted(*log));
            self.grow(told, room);
        }
        before != (self.seen, self.listed, self.signature)
    }

    /// The evidence that shows an old copy of this disk that it is one, whoever shows it.
    pub fn evidence(&self, lacks: Option<Lacks>) -> Option<Evidence> {
        if let Some(Lacks::End { log, told, .. }) = lacks {
            let kept = self.kept().find(|kept| kept.log == log);
            return kept.filter(|kept| kept.end == told).map(Evidence::End);
        }
        Some(Evidence::Start(self.start(), self.signature?))
    }

    /// Its words of its logs, in a form that can be shown.
    pub fn kept(&self) -> impl Iterator<Item = SealedEnd> {
        self.seals.iter().filter_map(|(log, (start, seal))| {
            Some(SealedEnd {
                start: *start,
                log: *log,
                end: *self.ends.get(log)?,
                seal: *seal,
            })
        })
    }

    fn start(&self) -> Start {
        Start {
            incarnation: self.seen.incarnation,
            nonce: self.seen.nonce,
        }
    }

    /// Takes more that it told. True if it did tell more. So many logs are kept, and words of others are dropped.
    pub fn grow(&mut self, told: &Told, room: usize) -> bool {
        let mut grew = false;
        let start = self.start();
        for (log, end, seal) in told.sealed() {
            if self.ends.len() >= room && !self.ends.contains_key(&log) {
                continue;
            }
            let known = self.ends.entry(log).or_default();
            let more = known.and(end);
            grew |= more != *known;
            *known = more;
            // A seal covers both numbers as they were told.
            match seal.filter(|_| more == end) {
                Some(seal) => _ = self.seals.insert(log, (start, seal)),
                None => _ = self.seals.remove(&log),
            }
        }
        grew
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageMet {
    disk: String,
    incarnation: u32,
    nonce: u64,
    listed: Option<(u32, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    ends: Vec<PageEnd>,
    /// The seals, one for each end, as INCARNATION:NONCE:SEAL, or an empty text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    seals: Vec<String>,
}

pub fn encode<'a>(met: impl Iterator<Item = (NodeId, &'a Met)>) -> Vec<u8> {
    let of = |(node, met): (NodeId, &Met)| {
        let page = PageMet {
            disk: hex(&met.seen.disk.0),
            incarnation: met.seen.incarnation,
            nonce: met.seen.nonce,
            listed: met.listed.map(|start| (start.incarnation, start.nonce)),
            signature: met.signature.map(|signature| hex(&signature.0)),
            ends: met
                .ends
                .iter()
                .map(|(log, end)| page_end(*log, end))
                .collect(),
            seals: seals_of(met),
        };
        (node.0, page)
    };
    let all: BTreeMap<u32, PageMet> = met.map(of).collect();
    page::encode(MET_FILE, &all)
}

fn seals_of(met: &Met) -> Vec<String> {
    if met.seals.is_empty() {
        return Vec::new();
    }
    let seal = |log: &LogId| {
        let (start, seal) = met.seals.get(log)?;
        let Start { incarnation, nonce } = start;
        Some(format!("{incarnation}:{nonce}:{}", hex(&seal.0)))
    };
    let all = met.ends.keys().map(|log| seal(log).unwrap_or_default());
    all.collect()
}

fn parse_seals(
    ends: &BTreeMap<LogId, End>,
    seals: &[String],
) -> Result<BTreeMap<LogId, (Start, Seal)>, String> {
    if !seals.is_empty() && seals.len() != ends.len() {
        return Err("its seals are of other ends".to_owned());
    }
    let there = ends.keys().zip(seals).filter(|(_, seal)| !seal.is_empty());
    let parsed = there.map(|(log, seal)| Some((*log, parse_seal(seal)?)));
    parsed
        .collect::<Option<_>>()
        .ok_or_else(|| "a seal is wrong".to_owned())
}

fn parse_seal(text: &str) -> Option<(Start, Seal)> {
    let mut words = text.split(':');
    let start = Start {
        incarnation: words.next()?.parse().ok()?,
        nonce: words.next()?.parse().ok()?,
    };
    let seal = Seal(parse_hex(words.next()?)?);
    words.next().is_none().then_some((start, seal))
}

pub fn parse(contents: &[u8]) -> Result<BTreeMap<NodeId, Met>, String> {
    let all: BTreeMap<u32, PageMet> = page::parse(MET_FILE, contents)?;
    let of = |(node, page): (u32, PageMet)| {
        let disk = parse_hex16(&page.disk).ok_or("a disk's id is wrong")?;
        let signature = match &page.signature {
            Some(text) => Some(Signature(parse_hex(text).ok_or("a signature is wrong")?)),
            None => None,
        };
        let listed_ends = page.ends.len();
        let ends: BTreeMap<LogId, End> = page.ends.into_iter().map(page::end).collect();
        if ends.len() != listed_ends {
            return Err("a log is listed twice".to_owned());
        }
        let seals = parse_seals(&ends, &page.seals)?;
        let met = Met {
            seen: Seen {
                disk: DiskId(disk),
                incarnation: page.incarnation,
                nonce: page.nonce,
            },
            listed: page
                .listed
                .map(|(incarnation, nonce)| Start { incarnation, nonce }),
            signature,
            ends,
            seals,
        };
        Ok((NodeId(node), met))
    };
    all.into_iter().map(of).collect()
}

/// Loads the memory that the last start of this node left.
pub fn load(disk: &mut dyn Disk, directory: &Path) -> Result<BTreeMap<NodeId, Met>, String> {
    let contents = page::read(disk, &directory.join(MET_FILE));
    match contents.map_err(|error| error.to_string())? {
        None => Ok(BTreeMap::new()),
        Some(contents) => parse(&contents),
    }
}

#[cfg(test)]
mod tests {
    use formats::past::{Findings, Found};
    use paxos::{Era, PromisedTerm, Slot, Term};

    use super::super::starts;
    use super::*;

    fn seen(incarnation: u32, nonce: u64) -> Seen {
        Seen {
            disk: DiskId([7; 16]),
            incarnation,
            nonce,
        }
    }

    fn end(number: u32, slot: u64) -> End {
        let term = Term {
            era: Era(1),
            number,
            owner: NodeId(2),
        };
        End {
            promised: PromisedTerm(term),
            accepted_up_to: Slot(slot),
        }
    }

    fn told(starts: &[(u32, u64)], ends: &[(u32, End)]) -> Told {
        let start = |(incarnation, nonce): &(u32, u64)| Start {
            incarnation: *incarnation,
            nonce: *nonce,
        };
        let last = starts.last().map_or(0, |(incarnation, _)| *incarnation);
        Told {
            found: found(last, ends),
            starts: starts.iter().map(start).collect(),
            ends: ends.iter().map(|(log, end)| (LogId(*log), *end)).collect(),
            deleted: vec![(5, 6)],
            ..Told::default()
        }
    }

    fn found(incarnation: u32, ends: &[(u32, End)]) -> Findings {
        let ends = ends.iter().map(|(log, end)| (LogId(*log), *end)).collect();
        Findings(vec![Found { incarnation, ends }])
    }

    fn met(starts: &[(u32, u64)], ends: &[(u32, End)]) -> Met {
        let (incarnation, nonce) = *starts.last().unwrap();
        let mut met = Met::new(seen(0, 0));
        met.take(
            seen(incarnation, nonce),
            None,
            Some(&told(starts, ends)),
            100,
        );
        met
    }

    #[test]
    fn of_more_logs_than_there_can_be_nothing_is_kept() {
        let mut met = met(&[(1, 11)], &[(7, end(1, 1))]);
        let many: Vec<(u32, End)> = (0..1000).map(|log| (log, end(2, 2))).collect();
        let many = told(&[], &many);
        assert!(met.grow(&many, 10));
        assert_eq!(met.ends.len(), 10);
        assert_eq!(met.ends[&LogId(7)], end(2, 2));
        assert!(!met.grow(&many, 10), "there was no more to keep");
    }

    #[test]
    fn a_start_that_goes_on_from_the_one_that_was_met_is_admitted() {
        let met = met(&[(1, 11), (2, 12)], &[(1, end(3, 50))]);
        let ends = [(1, end(3, 50))];
        assert_eq!(met.check(&told(&[(1, 11), (2, 12)], &ends)), Ok(()));
        let next = told(&[(1, 11), (2, 12), (3, 13)], &ends);
        assert_eq!(met.check(&next), Ok(()));
        // These are starts that nobody met, and one that ended before it had written its list.
        let later = told(&[(1, 11), (2, 12), (3, 13), (7, 17)], &ends);
        assert_eq!(met.check(&later), Ok(()));
    }

    #[test]
    fn a_start_that_goes_on_from_an_earlier_one_is_refused_however_often_it_starts() {
        let met = met(&[(1, 11), (2, 12)], &[]);
        assert_eq!(
            met.check(&told(&[(1, 11), (2, 99)], &[])),
            Err(Lacks::Start(2))
        );
        let again = told(&[(1, 11), (2, 99), (3, 98)], &[]);
        assert_eq!(met.check(&again), Err(Lacks::Start(2)));
        // The copy was made before its program kept a list.
        assert_eq!(met.check(&told(&[(5, 15)], &[])), Err(Lacks::Start(2)));
    }

    #[test]
    fn so_many_starts_later_only_the_ends_speak() {
        let met = met(&[(1, 11)], &[(1, end(3, 50))]);
        let many: Vec<(u32, u64)> = (2..2 + STARTS_KEPT as u32).map(|n| (n, 7)).collect();
        assert_eq!(met.check(&told(&many, &[(1, end(3, 50))])), Ok(()));
        assert!(met.check(&told(&many, &[(1, end(3, 49))])).is_err());
        assert_eq!(met.check(&told(&many[1..], &[])), Err(Lacks::Start(1)));
    }

    #[test]
    fn less_than_was_told_is_refused_unless_the_log_was_deleted() {
        let met = met(
            &[(1, 11)],
            &[(1, end(3, 50)), (2, end(1, 0)), (6, end(9, 9))],
        );
        let starts = [(1, 11), (2, 12)];
        let all = [(1, end(4, 50)), (2, end(1, 7))];
        assert_eq!(met.check(&told(&starts, &all)), Ok(()));
        for (log, less) in [(1, end(2, 99)), (1, end(9, 49)), (2, end(0, 99))] {
            let mut ends = all;
            ends[log as usize - 1].1 = less;
            let lacks = met.check(&told(&starts, &ends));
            assert!(
                matches!(lacks, Err(Lacks::End { log: l, .. }) if l.0 == log),
                "{lacks:?}"
            );
        }
        assert!(
            met.check(&told(&starts, &all[..1])).is_err(),
            "a log is gone"
        );
    }

    /// The node forgot what it had promised, and has promised more since.
    #[test]
    fn what_a_later_start_wrote_is_not_what_an_earlier_one_told() {
        let mut met = met(&[(1, 11), (2, 12)], &[(1, end(3, 50)), (2, end(1, 7))]);
        let more = Told {
            found: found(3, &[(1, end(3, 40)), (2, end(1, 7))]),
            ..told(
                &[(1, 11), (2, 12), (3, 13)],
                &[(1, end(4, 90)), (2, end(1, 7))],
            )
        };
        let lacks = met.check(&more);
        assert!(
            matches!(lacks, Err(Lacks::End { has, .. }) if has == end(3, 40)),
            "{lacks:?}"
        );
        // The node had to make this log anew.
        let anew = Told {
            found: found(3, &[(1, end(3, 50))]),
            ..more.clone()
        };
        assert!(met.check(&anew).is_err());
        let honest = Told {
            found: found(3, &[(1, end(3, 50)), (2, end(1, 7))]),
            ..more.clone()
        };
        assert_eq!(met.check(&honest), Ok(()));
        // The node was started once more since it forgot: the start behind the one that was met speaks.
        let mut again = more.clone();
        again.starts.push(Start {
            incarnation: 4,
            nonce: 14,
        });
        again.found.add(4, &again.ends.clone(), |_| false);
        assert!(met.check(&again).is_err());
        met.take(seen(3, 13), None, Some(&honest), 100);
        // A new connection of the same start comes: it holds what it told since it began.
        assert_eq!(met.check(&honest), Ok(()));
        assert_eq!(met.ends[&LogId(1)], end(4, 90));
    }

    /// The older program wrote no list, and its number is in no list.
    #[test]
    fn a_node_that_went_back_to_the_older_program_and_forward_again_is_admitted() {
        let mut met = met(&[(1, 11), (2, 12)], &[(1, end(3, 50))]);
        assert!(met.take(seen(3, 13), None, None, 100));
        let forward = told(&[(1, 11), (2, 12), (4, 14)], &[(1, end(3, 60))]);
        assert_eq!(met.check(&forward), Ok(()));
        // A copy of before the newer program's last start does not pass.
        let old = told(&[(1, 11), (4, 14)], &[(1, end(3, 60))]);
        assert_eq!(met.check(&old), Err(Lacks::Start(2)));
        met.take(seen(4, 14), None, Some(&forward), 100);
        assert!(met.check(&told(&[(1, 11), (2, 12), (5, 15)], &[])).is_err());
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_told() {
        let one = met(&[(1, 11), (2, u64::MAX)], &[(1, end(3, 50))]);
        let mut other = Met::new(seen(9, 9));
        other.grow(&told(&[], &[(4, end(1, 1))]), 100);
        let mut keyed = Met::new(seen(9, 9));
        let sealed = Told {
            seals: vec![Seal([3; 16]), Seal([4; 16])],
            ..told(&[(9, 9)], &[(1, end(3, 50)), (2, end(1, 1))])
        };
        keyed.take(seen(9, 9), Some(Signature([5; 64])), Some(&sealed), 100);
        keyed.grow(&told(&[], &[(2, end(1, 2))]), 100);
        assert_eq!(keyed.seals.len(), 1, "a seal is of what it was told with");
        let all = BTreeMap::from([(NodeId(2), one), (NodeId(3), other), (NodeId(4), keyed)]);
        let bytes = encode(all.iter().map(|(node, met)| (*node, met)));
        assert_eq!(parse(&bytes).unwrap(), all);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(parse(&damaged).is_err(), "byte {at}");
        }
        for kept in 0..bytes.len() {
            assert!(parse(&bytes[..kept]).is_err());
        }
    }

    #[test]
    fn a_list_of_starts_keeps_the_last() {
        let start = |incarnation| Start {
            incarnation,
            nonce: u64::from(incarnation) << 40,
        };
        let mut list = Vec::new();
        for incarnation in 1..=100 {
            list = starts::after(list, start(incarnation));
        }
        assert_eq!(list.len(), STARTS_KEPT);
        assert_eq!(starts::parse(&starts::encode(&list)).unwrap(), list);
        list = starts::after(list, start(90));
        assert_eq!(list.last(), Some(&start(90)));
        assert_eq!(list.len(), STARTS_KEPT - 10);
    }
}
