//! The use of each file that counts, and so its segment.
//!
//! ```text
//!   a used file:  [ header N │ checkpoint N │ record N │ record 3 │ record 3 │ … ]   salt N, behind it salt 3
//!   its first block lost:  the newest record in it that can be N's names the salt
//! ```
//!
//! A file's first block names its segment and its salt. Where it is lost, or is that of another segment, the
//! records are asked: those of earlier uses have lower numbers than any of this one.

use std::collections::BTreeMap;

use formats::record::{RecordHeader, RecordKind};
use formats::segment::{Birth, Predecessor};
use ops::BLOCK;
use paxos::mutation::{self, Mutation};

use super::blocks::{Blocks, First, Said};
use super::refusal::{Refusal, Stop};

#[derive(Clone, Debug, Default)]
pub(super) struct Use {
    /// The segment's number, by the file's name.
    pub number: u64,
    pub salt: Option<u64>,
    /// The segment before, by the first block.
    pub predecessor: Option<Predecessor>,
    pub birth: Birth,
    /// The version of all in the segment; 0 if the first block does not say.
    pub version: u8,
    /// The number of the record before its first one, also where only its birth's records say so.
    pub last_before: Option<u64>,
    /// The first of its records, where the first block is lost.
    pub found: Option<(u64, RecordHeader)>,
    /// The segment whose first block stands there, if no record of this one is there.
    pub other: Option<u64>,
}

/// The part of a file that is looked at when the file seems not to be written yet. Files are taken before
/// they are needed, and to read all of them would make each start slower; writing begins at the beginning.
const UNWRITTEN_LOOKED_AT: u64 = 1 << 20;

impl Use {
    /// The offset up to which it is searched for records of its own.
    pub fn looked_at(&self) -> u64 {
        match self.other {
            Some(_) => UNWRITTEN_LOOKED_AT,
            None => u64::MAX,
        }
    }
}

pub(super) fn uses<B: Blocks>(blocks: &mut B, numbers: &[u64]) -> Result<Vec<Use>, Stop<B::Error>> {
    let mut firsts = Vec::new();
    for at in 0..numbers.len() {
        let first = blocks.first(at).map_err(Stop::Failed)?;
        if let First::Foreign(reason) = first {
            return Err(Refusal::Foreign { at, reason }.into());
        }
        firsts.push(first);
    }
    let mut uses = vec![Use::default(); numbers.len()];
    // The first blocks are believed wherever they stand.
    let mut known = BTreeMap::new();
    for (at, first) in firsts.iter().enumerate() {
        uses[at].number = numbers[at];
        if let First::Own(header) = first {
            known.insert(header.salt, header.number);
            uses[at].salt = Some(header.salt);
            uses[at].predecessor = Some(header.predecessor);
            uses[at].birth = header.birth;
            uses[at].version = header.version;
            uses[at].last_before = Some(header.predecessor.last_record);
        } else if let First::OtherNumber { number, salt } = first {
            known.insert(*salt, *number);
        }
    }
    let mut in_files = BTreeMap::new();
    for (at, first) in firsts.iter().enumerate() {
        uses[at].other = match first {
            First::OtherNumber { number, .. } => Some(*number),
            First::Lost => None,
            _ => continue,
        };
        if uses[at].other.is_none() || !mutation::is(Mutation::OlderFirstBlockBelieved) {
            let own = numbers[at];
            let is_possible = |salt: u64| known.get(&salt).is_none_or(|of| *of == own);
            let end = uses[at].looked_at();
            in_files.insert(at, in_file(blocks, at, end, &is_possible)?);
        }
    }
    // The oldest file comes first: numbers only grow.
    let mut above = 0;
    for at in 0..numbers.len() {
        let up_to = uses.get(at + 1).and_then(|next| next.last_before);
        if let Some(found) = in_files.get(&at)
            && let Some((salt, found)) = newest(found, above, up_to)
        {
            let mut others = in_files.iter().filter(|(other, _)| **other != at);
            let mixed = others.any(|(_, others)| others.contains_key(&salt));
            // ‡ Else records of an earlier use might be taken for this one's.
            let unbounded = at
                .checked_sub(1)
                .is_some_and(|before| uses[before].salt.is_none());
            if mixed || unbounded {
                return Err(Refusal::Mixed { at }.into());
            }
            uses[at].other = None;
            uses[at].salt = Some(salt);
            uses[at].found = Some(found.first);
            uses[at].last_before = found.last_before;
            above = above.max(found.newest);
        }
        above = above.max(uses[at].last_before.unwrap_or(0));
    }
    Ok(uses)
}

/// The records of one use in a file.
struct Found {
    newest: u64,
    first: (u64, RecordHeader),
    last_before: Option<u64>,
}

/// The uses of a file whose first block does not tell.
fn in_file<B: Blocks>(
    blocks: &mut B,
    at: usize,
    end: u64,
    is_possible: &dyn Fn(u64) -> bool,
) -> Result<BTreeMap<u64, Found>, Stop<B::Error>> {
    let mut found: BTreeMap<u64, Found> = BTreeMap::new();
    let mut offset = BLOCK as u64;
    while offset < end
        && let Some(said) = blocks.block(at, offset).map_err(Stop::Failed)?
    {
        if let Said::Record { header, salt, .. } = said
            && is_possible(salt)
        {
            let of_salt = found.entry(salt).or_insert(Found {
                newest: 0,
                first: (offset, header),
                last_before: None,
            });
            of_salt.newest = of_salt.newest.max(header.number);
            // A segment begins with these two records.
            let before = match header.kind {
                RecordKind::Checkpoint => Some(header.number - 1),
                RecordKind::Index => header.number.checked_sub(2),
                _ => None,
            };
            of_salt.last_before = before.or(of_salt.last_before);
        }
        offset += BLOCK as u64;
    }
    Ok(found)
}

/// The use whose newest record is the newest that can be this segment's.
fn newest(found: &BTreeMap<u64, Found>, above: u64, up_to: Option<u64>) -> Option<(u64, &Found)> {
    let can_be = |newest: u64| newest > above && up_to.is_none_or(|last| newest <= last);
    let found = found.iter().map(|(salt, found)| (*salt, found));
    match mutation::is(Mutation::AnySaltBelieved) {
        true => found.min_by_key(|(_, found)| found.first.0),
        false => found
            .filter(|(_, found)| can_be(found.newest))
            .max_by_key(|(_, found)| found.newest),
    }
}
