//! Whether the last segments were ever more than begun.
//!
//! A segment's birth is its first block, its checkpoint and the index of the one before. Records behind were
//! told to nobody before the birth was durable; so a segment whose birth is not whole, and of which no record
//! knows the birth to be durable, is as if it were not there.
//!
//! ‡ Only its word of the segment before counts: it was begun when everything there was durable.

use formats::segment::Predecessor;
use ops::BLOCK;
use paxos::mutation::{self, Mutation};

use super::blocks::{Blocks, Said};
use super::refusal::{Refusal, Stop};
use super::uses::Use;
use super::verdict::{Aside, Expected};
use super::walk::{Behind, Scope, behind, record, walk};
use crate::read::FIRST_RECORD;

/// The word of segments that are put aside about the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Testimony {
    /// The last record of that segment.
    pub last_record: Option<u64>,
    /// The record up to which all were durable.
    pub durable: u64,
}

/// Takes the segments that were being born from the end of `uses`.
pub(super) fn put_aside<B: Blocks>(
    blocks: &mut B,
    uses: &mut Vec<Use>,
) -> Result<(Vec<Aside>, Testimony), Stop<B::Error>> {
    let mut aside = Vec::new();
    let mut testimony = Testimony::default();
    while let Some(at) = uses.len().checked_sub(1) {
        let mut of_itself = match was_born(blocks, uses, at, testimony)? {
            None => break,
            Some(of_itself) => of_itself,
        };
        if let Some(Said::Unreadable) = blocks.block(at, 0).map_err(Stop::Failed)? {
            of_itself.unreadable.insert(0);
        }
        // ‡ The unreadable block may hold the word that the segment was born.
        if let Some(&offset) = of_itself.unreadable.first()
            && !mutation::is(Mutation::UnreadableReadAsAbsent)
        {
            return Err(Refusal::Unreadable { at, offset }.into());
        }
        let gone = uses.pop().unwrap_or_default();
        aside.push(match gone.other {
            Some(was) => Aside::Spare(was),
            None => Aside::Torn {
                is_written: of_itself.is_written,
            },
        });
        if mutation::is(Mutation::TestimonyOfTheUnbornIgnored) {
            continue;
        }
        let last_record = gone.last_before.filter(|last| *last > 0);
        testimony = Testimony {
            last_record,
            durable: of_itself.watermark.max(last_record.unwrap_or(0)),
        };
    }
    Ok((aside, testimony))
}

/// Returns `None` if the segment was born; else what its blocks say.
fn was_born<B: Blocks>(
    blocks: &mut B,
    uses: &[Use],
    at: usize,
    testimony: Testimony,
) -> Result<Option<Behind>, Stop<B::Error>> {
    let own = &uses[at];
    let Some(salt) = own.salt else {
        let known = testimony.durable > own.last_before.unwrap_or(before_of_file(uses, at));
        return match known && own.other.is_none() {
            true => Ok(None),
            false => unrecognised(blocks, at, own).map(Some),
        };
    };
    let scope = Scope {
        at,
        salt,
        last_record: None,
        durable: 0,
        is_last: false,
    };
    if let Some(predecessor) = own.predecessor
        && is_birth_whole(blocks, &scope, &predecessor)?
    {
        return Ok(None);
    }
    let of_itself = behind(blocks, &scope, FIRST_RECORD)?;
    let last_before = match (own.last_before, at.checked_sub(1)) {
        (Some(last), _) => Some(last),
        (None, None) if own.number == 1 => Some(0),
        (None, Some(before)) => end_of(blocks, uses, before)?,
        // No other block is left to ask.
        (None, None) => None,
    };
    let durable = of_itself.watermark.max(testimony.durable);
    let known = last_before.is_none_or(|last| durable > last);
    Ok((!known).then_some(of_itself))
}

/// The record before the first one of a file of which nothing is known: it comes behind all that is known of
/// those before.
fn before_of_file(uses: &[Use], at: usize) -> u64 {
    let before = uses[..at].iter().filter_map(|before| before.last_before);
    before.max().unwrap_or(0)
}

/// Judges a file in which nothing of this use can be read.
fn unrecognised<B: Blocks>(blocks: &mut B, at: usize, own: &Use) -> Result<Behind, Stop<B::Error>> {
    let mut found = Behind::default();
    let mut offset = 0;
    while offset < own.looked_at()
        && let Some(said) = blocks.block(at, offset).map_err(Stop::Failed)?
    {
        match said {
            Said::Unreadable => drop(found.unreadable.insert(offset)),
            Said::Record { .. } => found.is_written = true,
            Said::Nothing { is_written, .. } => found.is_written |= is_written,
        }
        offset += BLOCK as u64;
    }
    found.is_written |= own.other.is_some();
    Ok(found)
}

fn is_birth_whole<B: Blocks>(
    blocks: &mut B,
    scope: &Scope,
    predecessor: &Predecessor,
) -> Result<bool, Stop<B::Error>> {
    let mut next = first_expected(predecessor);
    let last_of_birth = match predecessor.last_record {
        0 => 1,
        before => before + 2,
    };
    while next.number <= last_of_birth {
        let Ok((header, checksum)) = record(blocks, scope, &next)? else {
            return Ok(false);
        };
        next = next.after(&header, checksum);
    }
    Ok(true)
}

pub(super) fn first_expected(predecessor: &Predecessor) -> Expected {
    Expected {
        offset: FIRST_RECORD,
        number: predecessor.last_record + 1,
        chain: predecessor.checksum,
    }
}

/// The last record of a segment by its own records, if its first block can be read.
fn end_of<B: Blocks>(
    blocks: &mut B,
    uses: &[Use],
    at: usize,
) -> Result<Option<u64>, Stop<B::Error>> {
    let (Some(salt), Some(predecessor)) = (uses[at].salt, uses[at].predecessor) else {
        return Ok(None);
    };
    let scope = Scope {
        at,
        salt,
        last_record: None,
        durable: 0,
        is_last: false,
    };
    let end = walk(blocks, &scope, first_expected(&predecessor), &mut |_, _| {
        Ok(())
    })?;
    Ok(Some(end.next.number - 1))
}
