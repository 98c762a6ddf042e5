//! The limits of a space: changed, and kept.

use paxos::mutation::{self, Mutation};

use super::{End, Outcome, Space};
use crate::keys;
use crate::limits::{BLOCK_BYTES, Limits, LimitsChange, blocks};
use crate::request::{Answer, Refusal};
use crate::rows::Rows;
use crate::stored::{Stream, Tail};

/// The bytes that a stream has, and its sources have not.
pub(super) fn own_bytes(stream: &Stream, tail: &Tail) -> u64 {
    let inherited = stream.inherited.last().map_or(0, |segment| segment.to);
    tail.position.saturating_sub(inherited.max(tail.first))
}

impl<R: Rows> Space<'_, R> {
    pub(super) fn limits(&mut self) -> Outcome<Limits, R> {
        Ok(self.row(keys::LIMITS)?.unwrap_or_default())
    }

    pub(super) fn change_limits(&mut self, by: &LimitsChange) -> Outcome<Answer, R> {
        let mut limits = self.limits()?;
        let changed = limits.change(by);
        changed.map_err(|why| End::Refused(Refusal::BadLimits(why)))?;
        match limits == Limits::default() {
            true => self.delete_row(keys::LIMITS)?,
            false => self.put(keys::LIMITS, &limits)?,
        }
        Ok(Answer::Limits(Box::new(limits)))
    }

    /// Counts the blocks that so many more bytes of a stream begin.
    ///
    /// Errors: there may not be so many in this space.
    pub(super) fn count_bytes(
        &mut self,
        stream: &Stream,
        tail: &Tail,
        more: usize,
    ) -> Outcome<(), R> {
        let own = own_bytes(stream, tail);
        let begun = blocks(own + more as u64) - blocks(own);
        if begun == 0 {
            return Ok(());
        }
        let kept: u64 = self.row(keys::KEPT)?.unwrap_or(0);
        let kept = kept.saturating_add(begun);
        let limit = self.limits()?.bytes;
        if let Some(bytes) = limit
            && kept.saturating_mul(BLOCK_BYTES) > bytes
        {
            return Err(End::Refused(Refusal::ManyBytes { bytes }));
        }
        self.put(keys::KEPT, &kept)
    }

    /// The bytes of a stream whose tail goes are counted on, for its forks have them.
    pub(super) fn hold_bytes(&mut self, id: u64, stream: &Stream, tail: &Tail) -> Outcome<(), R> {
        self.put(&keys::held(id), &blocks(own_bytes(stream, tail)))
    }

    /// The blocks of a stream that is gone. `tail`: of one that nothing held; what was held has told its own.
    pub(super) fn release_bytes(
        &mut self,
        id: u64,
        stream: &Stream,
        tail: Option<&Tail>,
    ) -> Outcome<(), R> {
        let gone = match tail {
            Some(tail) => blocks(own_bytes(stream, tail)),
            None => {
                let held = self.row(&keys::held(id))?.unwrap_or(0);
                self.delete_row(&keys::held(id))?;
                held
            }
        };
        self.count_less(gone)
    }

    /// A stream had so many bytes of its own, and has so many now.
    pub(super) fn count_gone(&mut self, before: u64, now: u64) -> Outcome<(), R> {
        self.count_less(blocks(before).saturating_sub(blocks(now)))
    }

    fn count_less(&mut self, gone: u64) -> Outcome<(), R> {
        let kept: u64 = self.row(keys::KEPT)?.unwrap_or(0);
        if gone == 0 || mutation::is(Mutation::BytesCountedForEver) {
            return Ok(());
        }
        match kept.saturating_sub(gone) {
            0 => self.delete_row(keys::KEPT),
            kept => self.put(keys::KEPT, &kept),
        }
    }
}
