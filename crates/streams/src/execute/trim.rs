//! The beginning of a stream, taken away by its retention.
//!
//! ```text
//!  position   first ········ │ block ····· │ block ··· begin ··· target ······· tail
//!               [ own rows  ][  forgotten together  ][ one by one ][ stays          ]
//! ```
//!
//! ‡ Whole appends go, and never one that a bound reaches into. Nothing goes as long as a fork has bytes of the stream.

use paxos::mutation::{self, Mutation};

use super::{Outcome, Space};
use crate::keys::{self, DATA_BLOCK};
use crate::rows::Rows;
use crate::stored::{BEGINS, Stream, Tail};

/// No append is longer.
const APPEND_BYTES_MAX: u64 = 8 << 20;
/// A stream that keeps so much has its blocks forgotten for its size, and no rows go one by one.
const KEEPS_BLOCKS: u64 = 64 << 20;
/// Blocks that are forgotten at a time.
const BLOCKS_MAX: u64 = 64;
/// Rows that go one by one at a time.
pub(super) const ROWS_MAX: usize = 1_000;
/// A tail is noted so many times in the age that a stream keeps, and marks are looked at as often.
const MARKS: u64 = 16;
const MARK_MS_MIN: u64 = 1_000;

/// How long a mark stands for the bytes behind it.
pub(super) fn mark_every_ms(age_ms: u64) -> u64 {
    (age_ms / MARKS).max(MARK_MS_MIN)
}

impl<R: Rows> Space<'_, R> {
    /// Notes the tail of a stream whose bytes have an age, before something is appended.
    pub(super) fn mark(&mut self, id: u64, stream: &Stream, tail: &mut Tail) -> Outcome<(), R> {
        let Some(age_ms) = stream.retention.age_ms else {
            return Ok(());
        };
        let now_ms = self.rows.time_ms();
        if now_ms < tail.marked_ms.saturating_add(mark_every_ms(age_ms)) {
            return Ok(());
        }
        tail.marked_ms = now_ms;
        let position = tail.position.to_be_bytes();
        self.put_bytes(&keys::mark(id, now_ms), &position)
    }

    /// When bytes are to be looked at that may be too old then.
    pub(super) fn too_old_ms(&self, stream: &Stream, tail: &Tail) -> Option<u64> {
        let age_ms = stream.retention.age_ms?;
        let is_empty = tail.first >= tail.position;
        (!is_empty).then(|| self.rows.time_ms().saturating_add(mark_every_ms(age_ms)))
    }

    /// Takes away what is beyond the retention, as far as it goes at once: at most so many rows. Returns how many of them were.
    pub(super) fn trim(
        &mut self,
        id: u64,
        stream: &Stream,
        tail: &mut Tail,
        rows_max: usize,
    ) -> Outcome<usize, R> {
        let is_held = stream.forks > 0 && !mutation::is(Mutation::HeldBytesTrimmed);
        if is_held {
            return Ok(0);
        }
        let by_size = beyond_size(stream, tail);
        let by_age = self.beyond_age(id, stream, tail)?;
        let target = by_size.unwrap_or(0).max(by_age);
        if target <= tail.first {
            return Ok(0);
        }
        let before = super::limit::own_bytes(stream, tail);
        let inherited = stream.inherited.last().map_or(0, |segment| segment.to);
        if tail.first < inherited {
            // Others' rows: they are no longer shown, all together.
            if target < inherited {
                return Ok(0);
            }
            tail.first = inherited;
        }
        self.forget_blocks(id, tail, target)?;
        let keeps_blocks = stream
            .retention
            .bytes
            .is_some_and(|bytes| bytes >= KEEPS_BLOCKS);
        let one_by_one = by_age > tail.first || !keeps_blocks;
        let gone = match one_by_one {
            true => self.delete_until(id, tail, target, rows_max)?,
            false => 0,
        };
        self.count_gone(before, super::limit::own_bytes(stream, tail))?;
        Ok(gone)
    }

    /// The position before which all is too old. Marks that are not needed any more go.
    fn beyond_age(&mut self, id: u64, stream: &Stream, tail: &Tail) -> Outcome<u64, R> {
        let Some(age_ms) = stream.retention.age_ms else {
            return Ok(0);
        };
        let Some(since_ms) = self.rows.time_ms().checked_sub(age_ms) else {
            return Ok(0);
        };
        if tail.appended_ms <= since_ms {
            // Nothing was appended since.
            return Ok(tail.position);
        }
        let to = keys::mark(id, since_ms.saturating_add(1));
        let (mut from, mut beyond) = (keys::marks(id), 0);
        loop {
            let page = self.range(&from, &to, 4 * MARKS as usize)?;
            for (key, position) in &page.rows {
                let position = position.as_slice().try_into().map_or(0, u64::from_be_bytes);
                beyond = position.max(beyond);
                // A mark is not needed any more once that of a later one stands for the same.
                if position <= tail.first {
                    self.delete_row(key)?;
                }
            }
            match page.rows.last() {
                Some((last, _)) if !page.is_last => from = [last, &[0][..]].concat(),
                _ => break,
            }
        }
        Ok(match mutation::is(Mutation::YoungBytesTrimmed) {
            true => tail.position,
            false => beyond,
        })
    }

    /// Forgets whole blocks. ‡ The append that reaches into the first block that stays began in one that goes: it has to end before the target.
    fn forget_blocks(&mut self, id: u64, tail: &mut Tail, target: u64) -> Outcome<(), R> {
        let begin = tail.first / DATA_BLOCK;
        let end = target.saturating_sub(APPEND_BYTES_MAX) / DATA_BLOCK;
        let end = end.min(begin + BLOCKS_MAX);
        if begin >= end {
            return Ok(());
        }
        let (mut from, to) = (keys::data(id, end * DATA_BLOCK), keys::data(id, target));
        let (mut first, mut goes_on) = (None, Vec::new());
        while first.is_none() {
            let page = self.range(&from, &to, 64)?;
            for (key, value) in &page.rows {
                if value.first() == Some(&BEGINS) {
                    first = keys::position_in(key);
                    break;
                }
                goes_on.push(key.clone());
            }
            match page.rows.last() {
                Some((last, _)) if !page.is_last => from = [last, &[0][..]].concat(),
                _ => break,
            }
        }
        // There is one: no append is as long as what lies between.
        let Some(first) = first else {
            return Ok(());
        };
        for block in begin..end {
            self.forget(&keys::data_block(id, block))?;
        }
        for key in &goes_on {
            self.delete_row(key)?;
        }
        tail.first = first;
        Ok(())
    }

    /// Deletes rows of whole appends before the target.
    fn delete_until(
        &mut self,
        id: u64,
        tail: &mut Tail,
        target: u64,
        rows_max: usize,
    ) -> Outcome<usize, R> {
        let (mut from, to) = (
            keys::data(id, tail.first),
            keys::data(id, target.saturating_add(1)),
        );
        let mut passed: Vec<Vec<u8>> = Vec::new();
        // The rows before the last append's begin that was seen, and that begin.
        let (mut gone, mut first) = (0, tail.first);
        let is_all = loop {
            let page = self.range(&from, &to, 256)?;
            for (key, value) in &page.rows {
                if value.first() == Some(&BEGINS)
                    && let Some(position) = keys::position_in(key)
                {
                    (gone, first) = (passed.len(), position);
                }
                passed.push(key.clone());
            }
            match page.rows.last() {
                _ if page.is_last => break true,
                Some((last, _)) if passed.len() < rows_max => {
                    from = [last, &[0][..]].concat();
                }
                _ => break false,
            }
        };
        if is_all && target == tail.position {
            (gone, first) = (passed.len(), target);
        }
        for key in &passed[..gone] {
            self.delete_row(key)?;
        }
        tail.first = first;
        Ok(gone)
    }
}

/// The position before which all is beyond the size. Little more than the size is left for a while, so that not each append takes something away.
fn beyond_size(stream: &Stream, tail: &Tail) -> Option<u64> {
    let bytes = stream.retention.bytes?;
    let over = tail
        .position
        .saturating_sub(tail.first)
        .saturating_sub(bytes);
    let is_due = over > (bytes / 8).min(DATA_BLOCK);
    let bytes = match mutation::is(Mutation::TooMuchTrimmed) {
        true => bytes / 2,
        false => bytes,
    };
    is_due.then(|| tail.position - bytes)
}
