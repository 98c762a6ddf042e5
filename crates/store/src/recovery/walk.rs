//! One segment's records in order, and the meaning of a break in them.
//!
//! ```text
//!   record 7 │ record 8 │ ▒▒▒▒▒ │ record 10, watermark 9 │ ▒▒▒▒▒ │ zero
//!                         └ 9 was durable: lost            └ nothing says that 11 was: a torn tail
//! ```
//!
//! A header says all of an acceptance of a stream's bytes but the bytes. So where the header is sound and the
//! bytes are not, only the bytes are lost: others have them.
//!
//! A block that the device does not give counts as rotten where something tells that it was durable. Where
//! nothing does, and the segment is the last, nobody can tell.

use std::collections::BTreeSet;

use formats::record::{RecordError, RecordHeader, RecordKind, ValueKind};
use ops::BLOCK;
use paxos::mutation::{self, Mutation};
use paxos::{PromisedTerm, Slot};

use super::blocks::{Blocks, Said};
use super::refusal::{Refusal, Stop};
use super::verdict::{Expected, Lost};

/// The knowledge of a segment's records before they are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    pub at: usize,
    pub salt: u64,
    /// The successor's word: the segment ends with this record, and all up to it were durable.
    pub last_record: Option<u64>,
    /// The word of others: all up to this record were durable.
    pub durable: u64,
    /// Whether the last acknowledged records stand in it.
    pub is_last: bool,
}

/// The words of the headers of records that stand from some place on, the bad ones of torn records too: a
/// header that tells that a record was durable also tells how far it can have reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Behind {
    /// All records up to here were known durable.
    pub watermark: u64,
    pub bound: Bound,
    /// Whether anything but zeros stands there.
    pub is_written: bool,
    /// Blocks that the device does not give.
    pub unreadable: BTreeSet<u64>,
}

/// No promise and no acceptance in records up to `number` is above these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bound {
    pub number: u64,
    pub promised: PromisedTerm,
    pub accepted_up_to: Slot,
}

impl Bound {
    pub fn of(header: &RecordHeader) -> Bound {
        Bound {
            number: header.number,
            promised: header.promised,
            accepted_up_to: header.accepted_up_to.max(header.first_unchosen),
        }
    }

    pub fn and(self, other: Bound) -> Bound {
        Bound {
            number: self.number.max(other.number),
            promised: self.promised.max(other.promised),
            accepted_up_to: self.accepted_up_to.max(other.accepted_up_to),
        }
    }
}

/// One step of a walk.
pub(super) enum Walked {
    Record {
        offset: u64,
        header: RecordHeader,
    },
    /// By its header the record stands where it is expected; its bytes are lost.
    BytesLost {
        lost: Lost,
        header: RecordHeader,
    },
    Lost {
        lost: Lost,
        /// The bound by the headers behind, in the same segment.
        bound: Bound,
        watermark: u64,
    },
}

/// The result of a walk.
pub(super) struct Walk {
    /// The record that would come next.
    pub next: Expected,
    /// Whether bytes that nobody was told of stand behind the end.
    pub torn: bool,
}

/// A record's header with its checksum; or why there is none.
type Found = Result<(RecordHeader, u32), RecordError>;

/// Hears of every step of a walk.
type Visit<'a, B> = dyn FnMut(&mut B, Walked) -> Result<(), Stop<<B as Blocks>::Error>> + 'a;

/// The record expected there, with its checksum; or the reason why it is none.
pub(super) fn record<B: Blocks>(
    blocks: &mut B,
    scope: &Scope,
    expected: &Expected,
) -> Result<Found, Stop<B::Error>> {
    let (header, checksum) = match header(blocks, scope, expected.offset)? {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    if header.number != expected.number {
        return Ok(Err(RecordError::Invalid("another number is due")));
    }
    if header.chain != expected.chain {
        return Ok(Err(RecordError::Invalid("it follows another record")));
    }
    let whole = blocks.is_whole(scope.at, expected.offset, &header);
    Ok(match whole.map_err(Stop::Failed)? {
        true => Ok((header, checksum)),
        false => Err(RecordError::Payload),
    })
}

/// The header of a record of this use of the file.
pub(super) fn header<B: Blocks>(
    blocks: &mut B,
    scope: &Scope,
    offset: u64,
) -> Result<Found, Stop<B::Error>> {
    let said = blocks.block(scope.at, offset).map_err(Stop::Failed)?;
    Ok(match said {
        Some(Said::Record {
            header,
            checksum,
            salt,
        }) if salt == scope.salt => Ok((header, checksum)),
        Some(Said::Record { .. }) => Err(RecordError::OtherSalt),
        Some(Said::Nothing { why, .. }) => Err(why),
        Some(Said::Unreadable) => Err(RecordError::Unreadable),
        None => Err(RecordError::NoRecord),
    })
}

/// The words of all blocks from `from` on together.
///
/// A record's length is not believed: it may stand in a place that is not its own, and the record that knows
/// may be among those that it seems to cover.
pub(super) fn behind<B: Blocks>(
    blocks: &mut B,
    scope: &Scope,
    from: u64,
) -> Result<Behind, Stop<B::Error>> {
    let mut behind = Behind::default();
    let mut offset = from;
    while let Some(said) = blocks.block(scope.at, offset).map_err(Stop::Failed)? {
        match said {
            Said::Record { header, salt, .. } => {
                behind.is_written = true;
                let counts = scope.last_record.is_none_or(|last| header.number <= last);
                if salt == scope.salt && counts {
                    behind.watermark = behind.watermark.max(header.watermark);
                    behind.bound = behind.bound.and(Bound::of(&header));
                }
            }
            Said::Nothing { is_written, .. } => behind.is_written |= is_written,
            Said::Unreadable => {
                behind.is_written = true;
                behind.unreadable.insert(offset);
            }
        }
        offset += BLOCK as u64;
    }
    Ok(behind)
}

/// Visits every record from `start` on, and every stretch of loss between them.
///
/// A break below what is known durable is a loss: the walk goes on at the next record that can be read. A
/// break above is a torn tail: the walk ends there, whatever follows.
pub(super) fn walk<B: Blocks>(
    blocks: &mut B,
    scope: &Scope,
    start: Expected,
    visit: &mut Visit<'_, B>,
) -> Result<Walk, Stop<B::Error>> {
    let mut next = start;
    let mut known: Option<Behind> = None;
    loop {
        if scope.last_record.is_some_and(|last| next.number > last) {
            return Ok(Walk { next, torn: false });
        }
        let why = match record(blocks, scope, &next)? {
            Ok((header, checksum)) => {
                let offset = next.offset;
                visit(blocks, Walked::Record { offset, header })?;
                next = next.after(&header, checksum);
                continue;
            }
            Err(why) => why,
        };
        let all_behind = match &known {
            Some(behind) => behind,
            None => known.insert(behind(blocks, scope, next.offset)?),
        };
        let durable = all_behind.watermark.max(scope.durable);
        let durable = durable.max(scope.last_record.unwrap_or(0));
        if durable < next.number
            && mutation::is(Mutation::StaleRecordParsed)
            && let Some((offset, header)) = next_record(blocks, scope, next.offset, next.number)?
        {
            next = Expected {
                offset,
                number: header.number,
                chain: header.chain,
            };
            continue;
        }
        if durable < next.number || mutation::is(Mutation::CorruptReadAsAbsent) {
            // ‡ The block may hold the next record, or the word that the next record was durable.
            if scope.is_last
                && let Some(&offset) = all_behind.unreadable.range(next.offset..).next()
                && !mutation::is(Mutation::UnreadableReadAsAbsent)
            {
                return Err(Refusal::Unreadable {
                    at: scope.at,
                    offset,
                }
                .into());
            }
            // The words read behind a break before begin too early.
            let torn = all_behind.is_written && behind(blocks, scope, next.offset)?.is_written;
            return Ok(Walk { next, torn });
        }
        if why == RecordError::Payload
            && let Ok((header, checksum)) = header(blocks, scope, next.offset)?
            && holds_bytes_alone(&header)
        {
            let to = next.offset + header.total_length() as u64;
            let mut refused = all_behind.unreadable.range(next.offset..to);
            let why = refused.next().map_or(why, |_| RecordError::Unreadable);
            let lost = Lost {
                at: scope.at,
                from: next.offset,
                to,
                first_record: header.number,
                last_record: header.number,
                bytes: header.bytes().map(|bytes| (header.stream, bytes)),
                reason: why.to_string(),
            };
            visit(blocks, Walked::BytesLost { lost, header })?;
            next = next.after(&header, checksum);
            continue;
        }
        let resumed = resume(blocks, scope, &next, durable)?;
        let mut refused = all_behind.unreadable.range(next.offset..resumed.offset);
        let why = refused.next().map_or(why, |_| RecordError::Unreadable);
        let lost = Lost {
            at: scope.at,
            from: next.offset,
            to: resumed.offset,
            first_record: next.number,
            last_record: resumed.number - 1,
            bytes: None,
            reason: why.to_string(),
        };
        let (bound, watermark) = (all_behind.bound, all_behind.watermark);
        let walked = Walked::Lost {
            lost,
            bound,
            watermark,
        };
        visit(blocks, walked)?;
        next = resumed;
    }
}

/// ‡ Whether the payload says nothing that a replica may not forget: it is a stream's bytes, and the header
/// says which, in which slots, accepted in which term.
fn holds_bytes_alone(header: &RecordHeader) -> bool {
    match header.kind {
        RecordKind::Accept => {
            header.value == ValueKind::Content
                || mutation::is(Mutation::LostActionTakenForLostBytes)
        }
        RecordKind::Bytes => true,
        _ => false,
    }
}

/// Resumes behind a break below what is known durable: at the next record whose header can be read, or the end.
fn resume<B: Blocks>(
    blocks: &mut B,
    scope: &Scope,
    broken: &Expected,
    durable: u64,
) -> Result<Expected, Stop<B::Error>> {
    // A record with a sound header tells where it ends, so that its payload is not searched.
    let from = match header(blocks, scope, broken.offset)? {
        Ok((header, _)) if header.number == broken.number => {
            broken.offset + header.total_length() as u64
        }
        _ => broken.offset + BLOCK as u64,
    };
    if let Some((offset, header)) = next_record(blocks, scope, from, broken.number)? {
        return Ok(Expected {
            offset,
            number: header.number,
            chain: header.chain,
        });
    }
    Ok(Expected {
        offset: from,
        number: durable.max(broken.number) + 1,
        chain: 0,
    })
}

/// The next block from `from` on that begins a record of this use with a number above, whatever its
/// payload.
fn next_record<B: Blocks>(
    blocks: &mut B,
    scope: &Scope,
    from: u64,
    above: u64,
) -> Result<Option<(u64, RecordHeader)>, Stop<B::Error>> {
    let mut offset = from;
    while let Some(said) = blocks.block(scope.at, offset).map_err(Stop::Failed)? {
        if let Said::Record { header, salt, .. } = said
            && salt == scope.salt
            && header.number > above
            && scope.last_record.is_none_or(|last| header.number <= last)
        {
            return Ok(Some((offset, header)));
        }
        offset += BLOCK as u64;
    }
    Ok(None)
}
