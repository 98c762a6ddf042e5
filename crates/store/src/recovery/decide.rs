//! The way from the words of the blocks to the verdict.

use formats::record::{RecordHeader, RecordKind};
use formats::segment::SegmentError;
use paxos::Slot;
use paxos::mutation::{self, Mutation};

use super::birth::{Testimony, first_expected, put_aside};
use super::blocks::{Blocks, Taken};
use super::refusal::{Refusal, Stop};
use super::uses::{Use, uses};
use super::verdict::{Expected, Lost, Segment, Verdict};
use super::walk::{Bound, Scope, Walked, behind, header, walk};
use crate::read::FIRST_RECORD;

/// The depth of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Segments before the newest whole checkpoint are not read: their successors' indexes vouch for them.
    Start,
    /// Every record of every segment is read.
    All,
}

/// The verdict on the log's files, by their numbers, oldest first.
pub fn decide<B: Blocks>(
    blocks: &mut B,
    numbers: &[u64],
    depth: Depth,
) -> Result<Verdict, Stop<B::Error>> {
    for pair in numbers.windows(2) {
        if pair[1] != pair[0] + 1 {
            let (first, last) = (pair[0] + 1, pair[1] - 1);
            return Err(Refusal::MissingSegments { first, last }.into());
        }
    }
    let mut uses = uses(blocks, numbers)?;
    let (aside, testimony) = put_aside(blocks, &mut uses)?;
    if uses.is_empty() {
        return Err(Refusal::Empty.into());
    }
    if let Some((at, other)) = uses
        .iter()
        .enumerate()
        .find_map(|(at, u)| Some((at, u.other?)))
    {
        let reason = SegmentError::OtherNumber(other);
        return Err(Refusal::Foreign { at, reason }.into());
    }
    let mut base = uses.len() - 1;
    while !begins_with_checkpoint(blocks, &uses, base, testimony)? {
        base = base
            .checked_sub(1)
            .ok_or(Stop::Refused(Refusal::NoCheckpoint))?;
    }
    let mut deciding = Deciding {
        uses: &uses,
        testimony,
        base,
        verdict: Verdict {
            aside,
            ..Verdict::default()
        },
        gap: None,
        had_gap: false,
        bound: Bound::default(),
        newest: None,
        first_unchosen: None,
        next: None,
    };
    for at in 0..uses.len() {
        deciding.segment(blocks, at, depth)?;
    }
    deciding.finish()
}

struct Deciding<'u> {
    uses: &'u [Use],
    testimony: Testimony,
    /// The newest segment that begins with a whole checkpoint: from here on records count.
    base: usize,
    verdict: Verdict,
    /// Records that counted are lost, this one the last of them, and no full checkpoint followed.
    gap: Option<Lost>,
    had_gap: bool,
    /// The bound by all headers that counted, and those behind what was lost.
    bound: Bound,
    newest: Option<RecordHeader>,
    /// The first unchosen slot that the engine was told.
    first_unchosen: Option<Slot>,
    /// The end of the last walk.
    next: Option<Expected>,
}

impl Deciding<'_> {
    fn segment<B: Blocks>(
        &mut self,
        blocks: &mut B,
        at: usize,
        depth: Depth,
    ) -> Result<(), Stop<B::Error>> {
        let uses = self.uses;
        let own = &uses[at];
        let mut segment = Segment {
            salt: own.salt,
            birth: own.birth,
            version: own.version,
            end: 0,
            index: None,
        };
        let vouched = at < self.base && depth == Depth::Start;
        if vouched {
            segment.index = index_of(blocks, self.uses, at, true)?;
        }
        match (segment.index, self.successor(at)) {
            (Some(_), Some(predecessor)) => segment.end = predecessor.end,
            _ => {
                let end = self.walk(blocks, at)?;
                segment.end = end.offset;
                self.next = Some(end);
                if !vouched {
                    segment.index = index_of(blocks, self.uses, at, false)?;
                }
            }
        }
        self.verdict.segments.push(segment);
        Ok(())
    }

    fn successor(&self, at: usize) -> Option<formats::segment::Predecessor> {
        self.uses.get(at + 1)?.predecessor
    }

    /// Reads the segment's records; returns the record that would come next.
    fn walk<B: Blocks>(&mut self, blocks: &mut B, at: usize) -> Result<Expected, Stop<B::Error>> {
        let uses = self.uses;
        let own = &uses[at];
        let scope = scope(uses, at, self.testimony);
        let start = match (own.predecessor, own.found) {
            (Some(predecessor), _) => Some(first_expected(&predecessor)),
            (None, Some((offset, header))) => Some(Expected {
                offset,
                number: header.number,
                chain: header.chain,
            }),
            (None, None) => None,
        };
        if own.predecessor.is_none() {
            self.first_block_lost(blocks, at, scope.as_ref(), start)?;
        }
        let (Some(start), Some(scope)) = (start, scope) else {
            // Nothing of the segment can be read: the segment behind it says what is due next.
            let known = self.uses.get(at + 1).and_then(|next| next.last_before);
            let number = known.unwrap_or(self.testimony.durable) + 1;
            return Ok(Expected {
                number,
                ..Expected::default()
            });
        };
        let end = walk(blocks, &scope, start, &mut |blocks, walked| match walked {
            Walked::Record { offset, header } => self.record(blocks, at, offset, &header, true),
            Walked::BytesLost { lost, header } => {
                let offset = lost.from;
                self.verdict.lost.push(lost);
                self.record(blocks, at, offset, &header, false)
            }
            Walked::Lost {
                lost,
                bound,
                watermark,
            } => {
                // ‡ Only the segments that are put aside know of it: without them it would be forgotten.
                let unborn_alone = scope.is_last && lost.last_record > watermark;
                if unborn_alone
                    && !self.verdict.aside.is_empty()
                    && !mutation::is(Mutation::DoubtWithoutBound)
                {
                    return Err(no_bound(&lost).into());
                }
                self.lost(blocks, lost, bound);
                Ok(())
            }
        })?;
        if scope.is_last {
            // Behind its present use a used file goes on with its old bytes.
            self.verdict.torn = end.torn && !own.birth.in_used_file;
        }
        Ok(end.next)
    }

    fn first_block_lost<B: Blocks>(
        &mut self,
        blocks: &mut B,
        at: usize,
        scope: Option<&Scope>,
        start: Option<Expected>,
    ) -> Result<(), Stop<B::Error>> {
        let due = match self.next {
            Some(next) => Some(next.number),
            None => (self.uses[at].number == 1).then_some(1),
        };
        // A record in the first one's place may be a later one that strayed there.
        let is_first = |start: Expected| {
            start.offset == FIRST_RECORD && due.is_none_or(|due| due == start.number)
        };
        let block = Lost {
            at,
            from: 0,
            to: start.map_or(u64::MAX, |start| start.offset),
            first_record: 0,
            last_record: 0,
            bytes: None,
            reason: "the first block cannot be read".to_owned(),
        };
        if at < self.base || start.is_some_and(is_first) {
            self.verdict.lost.push(block);
            return Ok(());
        }
        let bound = match scope {
            Some(scope) => behind(blocks, scope, FIRST_RECORD)?.bound,
            None => Bound::default(),
        };
        let last_record = match start {
            Some(start) => start.number - 1,
            None => self.testimony.durable.max(due.unwrap_or(1)),
        };
        let lost = Lost {
            first_record: due.unwrap_or(0),
            last_record,
            ..block
        };
        self.lost(blocks, lost, bound);
        Ok(())
    }

    fn record<B: Blocks>(
        &mut self,
        blocks: &mut B,
        at: usize,
        offset: u64,
        header: &RecordHeader,
        is_whole: bool,
    ) -> Result<(), Stop<B::Error>> {
        self.verdict.records += 1;
        let counts = at >= self.base;
        let mut chosen = false;
        if counts {
            // The record holds all that a replica must not forget.
            let is_full = matches!(
                header.kind,
                RecordKind::Checkpoint | RecordKind::Promise | RecordKind::State
            );
            if is_full || mutation::is(Mutation::GapForgotten) {
                self.gap = None;
            }
            // ‡ The chosen value may be a lost one.
            let doubtful = self.gap.is_some() && !mutation::is(Mutation::ChosenOverAGap);
            if !doubtful && self.first_unchosen < Some(header.first_unchosen) {
                self.first_unchosen = Some(header.first_unchosen);
                chosen = true;
            }
            self.newest = Some(*header);
            self.bound = self.bound.and(Bound::of(header));
        }
        let taken = Taken {
            counts,
            chosen,
            is_whole,
        };
        let took = blocks.take(at, offset, header, taken);
        took.map_err(Stop::Failed)
    }

    fn lost<B: Blocks>(&mut self, blocks: &mut B, lost: Lost, bound: Bound) {
        if lost.at >= self.base {
            let before = self.gap.take().map_or(0, |gap| gap.last_record);
            let mut gap = lost.clone();
            gap.last_record = gap.last_record.max(before);
            self.gap = Some(gap);
            self.had_gap = true;
            self.bound = self.bound.and(bound);
            blocks.take_gap(lost.at);
        }
        self.verdict.lost.push(lost);
    }

    fn finish<E>(mut self) -> Result<Verdict, Stop<E>> {
        let newest = self.newest.unwrap_or_default();
        // ‡ Nothing above the word of a later header can have stood there; without one, anything can.
        if let Some(gap) = &self.gap
            && self.bound.number < gap.last_record
            && !mutation::is(Mutation::DoubtWithoutBound)
        {
            return Err(no_bound(gap).into());
        }
        let verdict = &mut self.verdict;
        verdict.learn_past = match self.gap.is_some() {
            true => newest.learn_past.max(self.bound.accepted_up_to),
            false => newest.learn_past,
        };
        verdict.promised = match self.had_gap {
            true => self.bound.promised,
            false => newest.promised,
        };
        if mutation::is(Mutation::LostPromiseForgotten) {
            verdict.promised = paxos::PromisedTerm::default();
        }
        verdict.first_unchosen = newest.first_unchosen;
        verdict.accepted_up_to = newest.accepted_up_to.max(verdict.learn_past);
        verdict.rested = newest.kind == RecordKind::Idle && !verdict.torn;
        verdict.next = self.next.ok_or(Stop::Refused(Refusal::NoCheckpoint))?;
        Ok(self.verdict)
    }
}

fn no_bound(lost: &Lost) -> Refusal {
    Refusal::NoBound {
        at: lost.at,
        offset: lost.from,
        last_record: lost.last_record,
    }
}

/// The marks by which the segment's records are recognised, and their end.
fn scope(uses: &[Use], at: usize, testimony: Testimony) -> Option<Scope> {
    let is_last = at + 1 == uses.len();
    let last_record = match uses.get(at + 1) {
        Some(next) => next.last_before,
        None => testimony.last_record,
    };
    Some(Scope {
        at,
        salt: uses[at].salt?,
        last_record,
        durable: if is_last { testimony.durable } else { 0 },
        is_last,
    })
}

fn begins_with_checkpoint<B: Blocks>(
    blocks: &mut B,
    uses: &[Use],
    at: usize,
    testimony: Testimony,
) -> Result<bool, Stop<B::Error>> {
    let Some(scope) = scope(uses, at, testimony) else {
        return Ok(false);
    };
    match header(blocks, &scope, FIRST_RECORD)? {
        Ok((header, _)) if header.kind == RecordKind::Checkpoint => {
            let whole = blocks.is_whole(at, FIRST_RECORD, &header);
            whole.map_err(Stop::Failed)
        }
        _ => Ok(false),
    }
}

/// The place where the successor holds the segment's index, if it can be understood. It is the second record
/// of a segment.
fn index_of<B: Blocks>(
    blocks: &mut B,
    uses: &[Use],
    at: usize,
    vouches: bool,
) -> Result<Option<(u64, RecordHeader)>, Stop<B::Error>> {
    let Some(successor) = uses.get(at + 1) else {
        return Ok(None);
    };
    let (Some(predecessor), Some(scope)) = (
        successor.predecessor,
        scope(uses, at + 1, Testimony::default()),
    ) else {
        return Ok(None);
    };
    let Ok((checkpoint, _)) = header(blocks, &scope, FIRST_RECORD)? else {
        return Ok(None);
    };
    let offset = FIRST_RECORD + checkpoint.total_length() as u64;
    let Ok((header, _)) = header(blocks, &scope, offset)? else {
        return Ok(None);
    };
    if header.kind != RecordKind::Index || header.number != predecessor.last_record + 2 {
        return Ok(None);
    }
    let whole = blocks.is_whole(at + 1, offset, &header);
    if !whole.map_err(Stop::Failed)? {
        return Ok(None);
    }
    let taken = blocks.take_index(at, offset, &header, vouches);
    let taken = taken.map_err(Stop::Failed)?;
    Ok(taken.then_some((offset, header)))
}
