//! The changes of slots that are being copied, in their order, for whoever copies them.
//!
//! ```text
//! 'D' number        → first slot u16, last slot u16, next u64       big-endian, so that rows stand in their order
//! 'd' number, u64   → is a prefix u8, slot u16, the rest of the key
//! 'i'               → the last number u64
//! ```
//!
//! A change names a key, and not what became of it: who asks gets the value of now. ‡ A number is never given out twice, so all of its rows can be
//! forgotten at once.

use std::collections::BTreeMap;

use kv::{Life, Rows};

use crate::moving::words::{Change, Span};
use crate::rows::tagged;

use super::used::{Holding, Token, hold, used};

const UNDER_WAY: u8 = b'D';
const CHANGE: u8 = b'd';
const LAST: &[u8] = b"i";

/// The changes that one answer has at most, and the bytes of their values.
pub const TAIL_MAX: usize = 1_024;
const TAIL_BYTES_MAX: usize = 1 << 20;
/// So many changes that are known elsewhere are let go at a time.
const LET_GO_MAX: usize = 2 * TAIL_MAX;

/// The slots whose changes are noted under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    pub span: Span,
    /// The number of the next change.
    pub next: u64,
}

fn head(number: u64) -> Vec<u8> {
    [&[UNDER_WAY], &number.to_be_bytes()[..]].concat()
}

fn prefix(number: u64) -> Vec<u8> {
    [&[CHANGE], &number.to_be_bytes()[..]].concat()
}

fn place(number: u64, change: u64) -> Vec<u8> {
    [&prefix(number), &change.to_be_bytes()[..]].concat()
}

fn put<R: Rows>(rows: &mut R, number: u64, under_way: UnderWay) -> Result<(), R::Stop> {
    let UnderWay { span, next } = under_way;
    let mut row = span.first.to_be_bytes().to_vec();
    row.extend_from_slice(&span.last.to_be_bytes());
    row.extend_from_slice(&next.to_be_bytes());
    rows.put(&head(number), &row)
}

pub fn get<R: Rows>(rows: &mut R, number: u64) -> Result<Option<UnderWay>, R::Stop> {
    let row = rows.get(&head(number))?;
    let read = |row: Vec<u8>| {
        let (first, rest) = row.split_first_chunk()?;
        let (last, rest) = rest.split_first_chunk()?;
        let span = Span {
            first: u16::from_be_bytes(*first),
            last: u16::from_be_bytes(*last),
        };
        let next = u64::from_be_bytes(*rest.first_chunk()?);
        Some(UnderWay { span, next })
    };
    Ok(row.and_then(read))
}

/// From now on changes of these slots are noted, under this number.
pub fn begin<R: Rows>(rows: &mut R, span: Span) -> Result<u64, R::Stop> {
    let last = rows.get(LAST)?;
    let last = last.and_then(|row| row.first_chunk().map(|number| u64::from_be_bytes(*number)));
    let number = last.unwrap_or(0) + 1;
    rows.put(LAST, &number.to_be_bytes())?;
    put(rows, number, UnderWay { span, next: 0 })?;
    Ok(number)
}

/// Notes a change of a row of a slot, or of all rows that begin so.
pub fn note<R: Rows>(
    rows: &mut R,
    number: u64,
    key: &[u8],
    is_prefix: bool,
) -> Result<(), R::Stop> {
    let Some(under_way) = get(rows, number)? else {
        return Ok(());
    };
    let (slot, rest) = (key.get(..2), key.get(Life::BYTES..));
    let change = [
        &[u8::from(is_prefix)],
        slot.unwrap_or_default(),
        rest.unwrap_or_default(),
    ];
    rows.put(&place(number, under_way.next), &change.concat())?;
    let next = under_way.next + 1;
    put(rows, number, UnderWay { next, ..under_way })
}

/// The slots of this number are served on, and nobody copies them any more.
pub fn end<R: Rows>(rows: &mut R, number: u64) -> Result<(), R::Stop> {
    let Some(under_way) = get(rows, number)? else {
        return Ok(());
    };
    hold(rows, under_way.span, |holding| match holding.token {
        Token::Leaving { changes, .. } if changes == number => Holding {
            token: Token::Owned,
            ..holding
        },
        _ => holding,
    })?;
    forget(rows, number)
}

/// Forgets all that is noted under this number.
pub fn forget<R: Rows>(rows: &mut R, number: u64) -> Result<(), R::Stop> {
    rows.delete(&head(number))?;
    rows.forget(&prefix(number))
}

/// The changes from one on, what they came to by now, and where the next ones stand. True if these are all.
type Tail = (Vec<Change>, u64, bool);

pub fn tail<R: Rows>(
    rows: &mut R,
    number: u64,
    under_way: UnderWay,
    from: u64,
) -> Result<Tail, R::Stop> {
    if from > 0 {
        // ‡ Whoever asks has all before, and that is chosen there.
        let known = rows.range(&place(number, 0), &place(number, from), LET_GO_MAX)?;
        for (key, _) in &known.rows {
            rows.delete(key)?;
        }
    }
    let page = rows.range(&place(number, from), &prefix(number + 1), TAIL_MAX)?;
    let changes = page.rows.iter().filter_map(|(key, row)| {
        let at = u64::from_be_bytes(*key.last_chunk()?);
        let (is_prefix, rest) = row.split_first()?;
        let (slot, rest) = rest.split_first_chunk()?;
        Some((at, *is_prefix == 1, u16::from_be_bytes(*slot), rest))
    });
    let changes: Vec<(u64, bool, u16, &[u8])> = changes.collect();
    let mut next = match (page.is_last, changes.last()) {
        (false, Some((at, ..))) => at + 1,
        _ => under_way.next,
    };
    // ‡ Of several changes of a row the last one counts, and its place among those of prefixes.
    let rows_of_changes = changes.iter().enumerate();
    let last_of: BTreeMap<(bool, u16, &[u8]), usize> = rows_of_changes
        .map(|(index, (_, is_prefix, slot, rest))| ((*is_prefix, *slot, *rest), index))
        .collect();
    let (mut tail, mut bytes, mut is_all, mut stopped) = (Vec::new(), 0, page.is_last, None);
    for (index, (at, is_prefix, slot, rest)) in changes.iter().enumerate() {
        if last_of.get(&(*is_prefix, *slot, *rest)) != Some(&index) {
            continue;
        }
        if bytes > TAIL_BYTES_MAX {
            (next, is_all) = (*at, false);
            break;
        }
        let (slot, rest) = (*slot, rest.to_vec());
        tail.push(match (is_prefix, rest.is_empty()) {
            (true, true) => Change::Whole { slot },
            (true, false) => Change::Forget { slot, rest },
            (false, _) => {
                // What is not here is asked for together.
                let value = used(rows, slot).and_then(|used| {
                    let key = [&used.life(slot).prefix()[..], &rest].concat();
                    rows.get(&tagged(&key))
                });
                match value {
                    Ok(value) => {
                        bytes += value.as_ref().map_or(0, Vec::len) + rest.len();
                        Change::Row { slot, rest, value }
                    }
                    Err(stop) => {
                        stopped = stopped.or(Some(stop));
                        continue;
                    }
                }
            }
        });
    }
    match stopped {
        Some(stop) => Err(stop),
        None => Ok((tail, next, is_all)),
    }
}
