//! Which segment each file is: the use of it that counts.
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
    /// The file's name says so.
    pub number: u64,
    pub salt: Option<u64>,
    /// As the first block says.
    pub predecessor: Option<Predecessor>,
    pub birth: Birth,
    /// Of all in it; 0 if the first block does not say.
    pub version: u8,
    /// The number of the record before its first one, also where only its birth's records say so.
    pub last_before: Option<u64>,
    /// The first of its records, where the first block is lost.
    pub found: Option<(u64, RecordHeader)>,
    /// The first block is that of this segment, and no record of this one is there.
    pub other: Option<u64>,
}

/// Of a file that seems not to be written yet. Files are taken before they are needed, and to read all of
/// them would make each start slower; what is written begins at the beginning.
const UNWRITTEN_LOOKED_AT: u64 = 1 << 20;

impl Use {
    /// Up to where it is searched for records of its own.
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
    // By the first blocks, wherever they stand.
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
    // The oldest first: numbers only grow.
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

/// What a file has of one use.
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
            // A segment begins with these two.
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

/// The one whose newest record is the newest that can be this segment's.
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
