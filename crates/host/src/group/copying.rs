//! A state is copied from another replica's: a new one, one that was lost, one that the log does not reach back to any more.
//!
//! ```text
//!  log       ───────────────── R1 ──────── A ──── R2 ─────── R3 ───▶
//!  rows      a ─────── f │ f ────── p │ p ───── z
//!            read at R1    read at R2   read at R3              … in the order of their keys, a piece at a time
//!            └── behind the cursor: follow the log ──┘└ ahead of it: passed over
//! ```
//!
//! ‡ *The copying lemma.* A piece is taken only if it was read at a position R that is not below the applied position A at that
//! moment, and nothing is applied between the question and the taking. Rows behind the cursor follow the log from A on; writes
//! ahead of it are passed over. Cursor, rows and the greatest R stand in one batch. Then each row behind the cursor is the
//! original's as of some position in A..R. All writes are blind and the last one wins, so repeated ones do no harm; and once
//! A has reached the greatest R, all of it is exact.
//!
//! ‡ It is whole once its end is durable: a crash before takes it back to a part of a copy, on which no trim may rest.
//!
//! A goes on all the time, so the log need not be kept for the length of a copy, and no copy begins anew because the log went
//! on. A crash takes it back to what was flushed, cursor and all, and it goes on from there.
//!
//! ‡ What was here before is removed once the first piece has come, not earlier: it may be the last that there is. And all of it
//! is removed: rows that were deleted since would stay.

use std::time::Duration;

use letters::Wish;
use paxos::Time;
use paxos::mutation::{self, Mutation};
use shelf::{Applied, Batch};

use super::{Core, Keeping, Out};
use crate::jobs::{self, Taking};
use crate::piece::{Answer, Question};

/// A question without an answer is asked again, of another node, after so long.
const PATIENCE: Duration = Duration::from_secs(2);
/// After an answer that did not help.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How far a copy has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The last key that was copied. `None` before the first.
    pub cursor: Option<Vec<u8>>,
    /// No row stands behind the cursor.
    pub is_read: bool,
    /// ‡ The greatest position at which a piece was read.
    pub read_at: u64,
}

/// The row in which the progress stands. It begins with no letter that other rows have.
pub const ROW: &[u8] = b"c";

#[derive(Debug)]
pub struct Copying {
    progress: Progress,
    /// The log begins here: the first piece may not have been read below. `None` once it is taken.
    first_from: Option<u64>,
    /// The last question, and its number. ‡ Only its own answer is taken, whatever an earlier copy, or process, asked.
    asked: Option<Question>,
    request: u64,
    asked_at: Time,
    /// The log had its turn since the last piece came. Without turns a busy log would leave a copy no moment, or a copy the log.
    log_had_turn: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is asked, and nothing is before this.
    Waits { until: Time },
    /// ‡ Nothing is applied.
    Asked { until: Time },
    /// A piece is on its way to the shelf.
    Takes,
}

impl Progress {
    /// ```text
    /// version u8 (1) │ read at u64 │ is read u8 │ has cursor u8 │ cursor        little-endian
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend_from_slice(&self.read_at.to_le_bytes());
        bytes.push(u8::from(self.is_read));
        bytes.push(u8::from(self.cursor.is_some()));
        bytes.extend_from_slice(self.cursor.as_deref().unwrap_or_default());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Progress> {
        let (header, cursor) = bytes.split_first_chunk::<11>()?;
        let [1, read_at @ .., is_read, has_cursor] = *header else {
            return None;
        };
        Some(Progress {
            cursor: (has_cursor == 1).then(|| cursor.to_vec()),
            is_read: is_read == 1,
            read_at: u64::from_le_bytes(read_at),
        })
    }

    fn has_passed(&self, key: &[u8]) -> bool {
        self.is_read || self.cursor.as_deref().is_some_and(|cursor| key <= cursor)
    }
}

impl Copying {
    /// A copy from the beginning, of a state that stands at `from` or above.
    pub fn begin(from: u64) -> Copying {
        Copying {
            progress: Progress::default(),
            first_from: Some(from),
            asked: None,
            request: 0,
            asked_at: Time::ZERO,
            log_had_turn: false,
            stage: Stage::Waits { until: Time::ZERO },
        }
    }

    /// A copy that a crash interrupted.
    pub fn resume(progress: Progress) -> Copying {
        Copying {
            progress,
            first_from: None,
            asked: None,
            request: 0,
            asked_at: Time::ZERO,
            log_had_turn: false,
            stage: Stage::Waits { until: Time::ZERO },
        }
    }

    /// Whether the log may be applied now.
    pub fn may_apply(&self, now: Time, applied: Applied) -> bool {
        let Stage::Waits { until } = self.stage else {
            return false;
        };
        let may_go_on = !self.progress.is_read || self.is_exact(now, applied);
        let is_its_turn = self.log_had_turn && now >= until && may_go_on;
        self.first_from.is_none() && !is_its_turn
    }

    /// The log has its turn.
    pub fn on_applying(&mut self) {
        self.log_had_turn = true;
    }

    /// ‡ Whether the state is exactly what the log below comes to.
    pub fn is_exact(&self, now: Time, applied: Applied) -> bool {
        let is_reached =
            applied.position >= self.progress.read_at || mutation::is(Mutation::CopyWholeTooEarly);
        let is_free = matches!(self.stage, Stage::Waits { until } if now >= until);
        self.progress.is_read && is_reached && is_free
    }

    /// Asks for the next piece, between two steps of the log.
    pub fn settle(&mut self, now: Time, core: &Core, keeping: &Keeping, out: &mut Out) {
        match self.stage {
            Stage::Waits { until } if now >= until => {}
            Stage::Asked { until } if now >= until => return self.wait_until(now + AGAIN_AFTER),
            _ => return,
        }
        if self.progress.is_read {
            // Only the log is waited for now.
            self.stage = Stage::Waits { until: Time::ZERO };
            return;
        }
        if keeping.is_applying() || keeping.is_behind() {
            return;
        }
        self.request += 1;
        self.asked_at = now;
        self.stage = Stage::Asked {
            until: now + PATIENCE,
        };
        let question = Question {
            from: self.least(keeping),
            after: self.progress.cursor.clone(),
        };
        let (request, bytes) = (self.request, question.encode());
        self.asked = Some(question);
        core.wish(out, Wish::AskPiece { request, bytes });
    }

    /// ‡ The least position at which a piece may have been read.
    fn least(&self, keeping: &Keeping) -> u64 {
        let applied = match mutation::is(Mutation::PieceBelowApplied) {
            true => 0,
            false => keeping.applied().position,
        };
        self.first_from.unwrap_or(applied)
    }

    /// Takes the answer to the last question.
    pub fn on_piece(
        &mut self,
        now: Time,
        request: u64,
        bytes: Vec<u8>,
        core: &Core,
        keeping: &Keeping,
    ) -> Option<Taking> {
        if !matches!(self.stage, Stage::Asked { .. }) || request != self.request {
            return None;
        }
        self.wait_until(now + AGAIN_AFTER);
        let piece = match Answer::decode(&bytes) {
            Ok(Answer::Piece { to, page }) if self.asked.as_ref() == Some(&to) => page,
            Ok(Answer::Piece { .. } | Answer::NotHere) => return None,
            Err(why) => {
                tracing::warn!(log = %core.name, "a piece of the state of {} is not taken: {why}", core.name);
                return None;
            }
        };
        let is_below = piece.applied.position < self.least(keeping);
        let follows = |key: &[u8]| key != ROW && !self.progress.has_passed(key);
        if is_below || !piece.rows.iter().all(|(key, _)| follows(key)) {
            return None;
        }
        let cursor = piece.rows.last().map(|(key, _)| key.clone());
        let progress = Progress {
            cursor: cursor.or(self.progress.cursor.take()),
            is_read: piece.is_last,
            read_at: self.progress.read_at.max(piece.applied.position),
        };
        let mut batch = Batch::default();
        let mut count = 0;
        for (key, value) in piece.rows {
            count += (key.len() + value.len()) as u64;
            batch.put(key, value);
        }
        batch.put(ROW, progress.encode());
        self.progress = progress;
        self.stage = Stage::Takes;
        if self.first_from.take().is_none() {
            let shelf = core.shelf.as_ref()?;
            let work = jobs::take_piece(shelf, batch, keeping.applied(), count);
            return Some(Taking {
                work,
                begins_anew: false,
            });
        }
        if let Some(shelf) = &core.shelf
            && mutation::is(Mutation::CopyIntoOldState)
        {
            let work = jobs::take_piece(shelf, batch, piece.applied, count);
            return Some(Taking {
                work,
                begins_anew: false,
            });
        }
        let (shelves, identity) = (&core.shelves, core.identity);
        let old = jobs::GivenUp(core.shelf.clone());
        let work = jobs::begin_anew(shelves, identity, old, (batch, piece.applied));
        Some(Taking {
            work,
            begins_anew: true,
        })
    }

    /// The piece is on the shelf. The next may be asked for so long after the last question.
    pub fn on_taken(&mut self, pace: Duration) {
        self.wait_until(self.asked_at + pace);
    }

    /// Leaves the time until then to the log.
    pub fn wait_until(&mut self, until: Time) {
        self.log_had_turn = false;
        self.stage = Stage::Waits { until };
    }

    /// The last batch is on its way, and is flushed with all before: nothing else happens before it is durable.
    pub fn on_ending(&mut self) {
        self.stage = Stage::Takes;
    }

    pub fn is_ending(&self) -> bool {
        self.progress.is_read && self.stage == Stage::Takes
    }

    pub fn deadline(&self, keeping: &Keeping) -> Option<Time> {
        match self.stage {
            _ if keeping.is_applying() || keeping.is_behind() => None,
            Stage::Waits { until } if self.progress.is_read && until == Time::ZERO => None,
            Stage::Waits { until } | Stage::Asked { until } => Some(until),
            Stage::Takes => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_was_written() {
        for cursor in [None, Some(Vec::new()), Some(b"key".to_vec())] {
            for is_read in [false, true] {
                let progress = Progress {
                    cursor: cursor.clone(),
                    is_read,
                    read_at: 1 << 40,
                };
                assert_eq!(Progress::decode(&progress.encode()), Some(progress));
            }
        }
        assert_eq!(Progress::decode(&[2; 20]), None);
        assert_eq!(Progress::decode(&[1]), None);
    }
}
