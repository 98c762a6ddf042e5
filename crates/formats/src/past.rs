//! A node's word to its peers about its disk: its starts, and where its logs end
//! (docs/decisions/0029-a-disks-past-is-remembered-by-others.md).

use std::collections::BTreeMap;

use crate::LogId;
use crate::codec::{DecodeError, Encode, Reader};
use crate::proof::{Seal, SealedEnd, Signature};

pub use crate::standing::{End, Start};

/// A node's word to its peers about its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The last of them, this one included, in order. Empty in all but a connection's first.
    pub starts: Vec<Start>,
    /// The durable ends; of all logs in a connection's first frame, then of those in which they grew.
    pub ends: Vec<(LogId, End)>,
    /// One for each end, by which its node knows its own word; or none at all.
    pub seals: Vec<Seal>,
    /// First and last of each range of logs that were deleted; in a connection's first.
    pub deleted: Vec<(u32, u32)>,
    /// The answer to the receiver's challenge, where the disk has a key; in a connection's first frame.
    pub answer: Option<Signature>,
    /// The findings of this start and of those before; in a connection's first frame.
    pub found: Findings,
    /// The receiver's own words, as the sender keeps them; in a connection's first frame.
    pub kept: Vec<SealedEnd>,
}

/// The number of starts that are kept, and told.
pub const STARTS_KEPT: usize = 64;

/// The ends of the logs that one start found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub incarnation: u32,
    /// The ends in the order of the logs: all of them for the first start that is kept, and for each later
    /// one those that changed.
    pub ends: Vec<(LogId, End)>,
}

/// The findings of the last starts, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(pub Vec<Found>);

/// The findings of this many starts are kept, and told.
pub const FINDINGS_KEPT: usize = 8;

impl Findings {
    /// The log's end as the first start behind that one found it. All that the earlier start told stood in it.
    ///
    /// ‡ What later ones found may have been written since, by a node that had forgotten the rest.
    pub fn after(&self, incarnation: u32, log: LogId) -> End {
        let mut known = End::default();
        for found in &self.0 {
            known = found.of(log).unwrap_or(known);
            if found.incarnation > incarnation {
                break;
            }
        }
        known
    }

    /// With one more start, which found these. Logs that were deleted need nothing.
    pub fn add(
        &mut self,
        incarnation: u32,
        ends: &[(LogId, End)],
        is_deleted: impl Fn(LogId) -> bool,
    ) {
        // A start of a higher number never was: its manifest was not written.
        self.0.retain(|found| found.incarnation < incarnation);
        let mut all = Found {
            incarnation,
            ends: Vec::new(),
        };
        for found in &mut self.0 {
            found.ends.retain(|(log, _)| !is_deleted(*log));
            all.overlay(&found.ends);
        }
        let before = all.ends.clone();
        // A log that is not there any more.
        all.ends
            .iter_mut()
            .for_each(|(_, end)| *end = End::default());
        all.overlay(ends);
        let before = Found {
            incarnation,
            ends: before,
        };
        all.ends.retain(|(log, end)| before.of(*log) != Some(*end));
        self.0.push(all);
        while self.0.len() > FINDINGS_KEPT {
            let mut oldest = self.0.remove(0);
            oldest.overlay(&self.0[0].ends);
            self.0[0].ends = oldest.ends;
        }
    }
}

impl Found {
    fn of(&self, log: LogId) -> Option<End> {
        let at = self.ends.binary_search_by_key(&log, |(log, _)| *log);
        at.ok().map(|at| self.ends[at].1)
    }

    fn overlay(&mut self, ends: &[(LogId, End)]) {
        let mut all: BTreeMap<LogId, End> = self.ends.drain(..).collect();
        all.extend(ends.iter().copied());
        self.ends = all.into_iter().collect();
    }
}

impl Told {
    /// The ends, each with the seal that it came with.
    pub fn sealed(&self) -> impl Iterator<Item = (LogId, End, Option<Seal>)> {
        let seals = self.seals.iter().map(|seal| Some(*seal));
        let seals = seals.chain(std::iter::repeat(None));
        let ends = self.ends.iter().zip(seals);
        ends.map(|((log, end), seal)| (*log, *end, seal))
    }

    pub fn has_deleted(&self, log: LogId) -> bool {
        let above = self.deleted.partition_point(|(first, _)| *first <= log.0);
        let range = above.checked_sub(1).map(|at| self.deleted[at]);
        range.is_some_and(|(_, last)| log.0 <= last)
    }
}

impl Encode for Found {
    const BYTES_MIN: usize = 8;
    fn put(&self, out: &mut Vec<u8>) {
        self.incarnation.put(out);
        self.ends.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Found, DecodeError> {
        let found = Found {
            incarnation: u32::parse(from)?,
            ends: Vec::parse(from)?,
        };
        let mut pairs = found.ends.windows(2);
        match pairs.all(|two| two[0].0 < two[1].0) {
            true => Ok(found),
            false => Err(DecodeError::Invalid("logs that are not in order")),
        }
    }
}

impl Encode for Findings {
    const BYTES_MIN: usize = 4;
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Findings, DecodeError> {
        let found: Vec<Found> = Vec::parse(from)?;
        if found.len() > FINDINGS_KEPT {
            return Err(DecodeError::TooLong("a list of what starts found"));
        }
        let mut pairs = found.windows(2);
        match pairs.all(|two| two[0].incarnation < two[1].incarnation) {
            true => Ok(Findings(found)),
            false => Err(DecodeError::Invalid("starts that are not in order")),
        }
    }
}

impl Encode for Told {
    const BYTES_MIN: usize = 25;
    fn put(&self, out: &mut Vec<u8>) {
        self.starts.put(out);
        self.ends.put(out);
        self.deleted.put(out);
        self.seals.put(out);
        self.answer.put(out);
        self.found.put(out);
        self.kept.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Told, DecodeError> {
        let told = Told {
            starts: Vec::parse(from)?,
            ends: Vec::parse(from)?,
            deleted: Vec::parse(from)?,
            seals: Vec::parse(from)?,
            answer: Option::parse(from)?,
            found: Findings::parse(from)?,
            kept: Vec::parse(from)?,
        };
        if !told.seals.is_empty() && told.seals.len() != told.ends.len() {
            return Err(DecodeError::Invalid("seals of other ends"));
        }
        if told.starts.len() > STARTS_KEPT {
            return Err(DecodeError::TooLong("a list of starts"));
        }
        let in_order = told.starts.windows(2);
        if !in_order
            .into_iter()
            .all(|two| two[0].incarnation < two[1].incarnation)
        {
            return Err(DecodeError::Invalid("starts that are not in order"));
        }
        let sound = told.deleted.iter().all(|(first, last)| first <= last);
        let apart = told.deleted.windows(2).all(|two| two[0].1 < two[1].0);
        if !(sound && apart) {
            return Err(DecodeError::Invalid("ranges that are not in order"));
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use paxos::{Era, NodeId, PromisedTerm, Slot, Term};

    use super::*;

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

    fn log(number: u32, slot: u64) -> (LogId, End) {
        (LogId(number), end(number, slot))
    }

    #[test]
    fn what_a_start_told_is_looked_for_in_what_the_next_one_found() {
        let mut all = Findings::default();
        let none = |_| false;
        all.add(3, &[log(1, 10), log(2, 20)], none);
        all.add(5, &[log(1, 15), log(2, 20), log(7, 70)], none);
        all.add(6, &[log(1, 99), log(7, 70)], none);
        assert_eq!(all.0[1].ends, [log(1, 15), log(7, 70)], "what is new");
        for (told_by, log_1, log_2, log_7) in [
            (0, 10, Some(20), None),
            (2, 10, Some(20), None),
            (3, 15, Some(20), Some(70)),
            (4, 15, Some(20), Some(70)),
            (5, 99, None, Some(70)),
        ] {
            let some = |number, slot: Option<u64>| slot.map_or(End::default(), |s| end(number, s));
            assert_eq!(all.after(told_by, LogId(1)), end(1, log_1), "{told_by}");
            assert_eq!(all.after(told_by, LogId(2)), some(2, log_2), "{told_by}");
            assert_eq!(all.after(told_by, LogId(7)), some(7, log_7), "{told_by}");
        }
        // A start whose manifest was never written.
        all.add(6, &[log(1, 15), log(2, 20), log(7, 71)], none);
        assert_eq!(all.after(5, LogId(1)), end(1, 15));
        all.add(7, &[log(1, 15), log(7, 71)], |log| log == LogId(2));
        assert!(all.0.iter().all(|found| found.of(LogId(2)).is_none()));
    }

    #[test]
    fn of_many_starts_the_last_are_kept_and_the_first_of_them_whole() {
        let mut all = Findings::default();
        for start in 1..=20 {
            all.add(start, &[log(1, start.into()), log(2, 5)], |_| false);
        }
        assert_eq!(all.0.len(), FINDINGS_KEPT);
        assert_eq!(all.0[0].ends, [log(1, 13), log(2, 5)]);
        // The oldest start that is kept speaks for those before: it found all that they told.
        assert_eq!(all.after(4, LogId(1)), end(1, 13));
        assert_eq!(all.after(4, LogId(2)), end(2, 5));
        assert_eq!(all.after(19, LogId(1)), end(1, 20));
    }
}
