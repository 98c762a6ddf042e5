//! Streams end: somebody deletes them, or their time is over.

use paxos::mutation::{self, Mutation};

use super::trim::ROWS_MAX;
use super::{Outcome, Space};
use crate::keys;
use crate::path::Path;
use crate::request::Answer;
use crate::rows::Rows;
use crate::stored::{Numbers, Stream, Tail};

/// Rows of bytes that one sweep deletes one by one, of all streams together.
const SWEPT_ROWS_MAX: usize = 4 * ROWS_MAX;
/// A stream of which something was taken away is looked at again so soon.
const TRIM_AGAIN_MS: u64 = 1_000;

impl<R: Rows> Space<'_, R> {
    /// A stream whose bytes have an age is looked at again.
    pub(super) fn queue_for_age(
        &mut self,
        id: u64,
        stream: &mut Stream,
        tail: &Tail,
    ) -> Outcome<(), R> {
        let Some(old_ms) = self.too_old_ms(stream, tail) else {
            return Ok(());
        };
        if let Some(queued_ms) = stream.queued_ms {
            if queued_ms <= old_ms {
                return Ok(());
            }
            self.delete_row(&keys::expiry(queued_ms, id))?;
        }
        stream.queued_ms = Some(old_ms);
        self.put(&keys::stream(id), stream)?;
        self.put_bytes(&keys::expiry(old_ms, id), &[])
    }

    pub(super) fn delete(&mut self, path: &Path) -> Outcome<Answer, R> {
        let there = self.there(path)?;
        self.remove(there.id, there.stream, &there.tail)?;
        Ok(Answer::Deleted)
    }

    /// Removes a stream, or only hides it, if forks have bytes of it: returns whether.
    pub(super) fn remove(&mut self, id: u64, mut stream: Stream, tail: &Tail) -> Outcome<bool, R> {
        if let Some(queued_ms) = stream.queued_ms.take() {
            self.delete_row(&keys::expiry(queued_ms, id))?;
        }
        if stream.forks > 0 {
            stream.is_deleted = true;
            self.put(&keys::stream(id), &stream)?;
            self.hold_bytes(id, &stream, tail)?;
            // Whoever waits for its tail hears of it, and appends to it are over.
            self.delete_row(&keys::tail(id))?;
            return Ok(true);
        }
        self.purge(id, stream, tail)?;
        Ok(false)
    }

    /// Removes a stream that no fork holds, and those that it was the last to hold.
    fn purge(&mut self, mut id: u64, mut stream: Stream, tail: &Tail) -> Outcome<(), R> {
        let mut tail = Some(tail);
        let mut numbers: Numbers = self.row(keys::NUMBERS)?.unwrap_or_default();
        loop {
            numbers.streams = numbers.streams.saturating_sub(1);
            self.release_bytes(id, &stream, tail.take())?;
            self.delete_row(&keys::name(&stream.path))?;
            self.delete_row(&keys::stream(id))?;
            self.delete_row(&keys::tail(id))?;
            if mutation::is(Mutation::IdUsedAgain) {
                numbers.next = id;
            }
            if !mutation::is(Mutation::BytesOutliveStream) {
                self.forget(&keys::all_data(id))?;
            }
            self.forget(&keys::marks(id))?;
            self.forget(&keys::producers(id))?;
            self.forget(&keys::producer_counts(id))?;
            let Some(source) = stream.source else {
                break;
            };
            let mut counted = self.stream(source)?;
            counted.forks = counted.forks.saturating_sub(1);
            let is_kept = counted.forks > 0 || !counted.is_deleted;
            if is_kept || mutation::is(Mutation::ReleasedSourceKept) {
                self.put(&keys::stream(source), &counted)?;
                break;
            }
            (id, stream) = (source, counted);
        }
        self.put(keys::NUMBERS, &numbers)
    }

    /// Removes streams whose time is over, and looks again later after those that were used meanwhile.
    pub(super) fn sweep(&mut self, streams_max: u32) -> Outcome<Answer, R> {
        let now_ms = self.rows.time_ms();
        let (from, to) = keys::expiries_until(now_ms);
        let page = self.range(&from, &to, streams_max as usize)?;
        let (mut streams, mut rows_left) = (0, SWEPT_ROWS_MAX);
        for (key, _) in &page.rows {
            let Some((queued_ms, id)) = keys::expiry_in(key) else {
                continue;
            };
            self.delete_row(key)?;
            let Some(mut stream) = self.stream_row(id)? else {
                continue;
            };
            if stream.is_deleted || stream.queued_ms != Some(queued_ms) {
                continue;
            }
            let mut tail = self.tail(id)?;
            match stream.lifetime.ends_ms(tail.touched_ms) {
                Some(ends_ms) if ends_ms <= now_ms => {
                    streams += 1;
                    self.remove(id, stream, &tail)?;
                }
                ends_ms => {
                    let first = tail.first;
                    rows_left -= self.trim(id, &stream, &mut tail, rows_left)?.min(rows_left);
                    if tail.first != first {
                        self.put(&keys::tail(id), &tail)?;
                    }
                    let old_ms = self.too_old_ms(&stream, &tail);
                    // There may be more of it than goes at once.
                    let soon_ms = old_ms
                        .filter(|_| tail.first != first)
                        .map(|_| now_ms + TRIM_AGAIN_MS);
                    let old_ms = old_ms.into_iter().chain(soon_ms).min();
                    stream.queued_ms = ends_ms.into_iter().chain(old_ms).min();
                    self.put(&keys::stream(id), &stream)?;
                    if let Some(queued_ms) = stream.queued_ms {
                        self.put_bytes(&keys::expiry(queued_ms, id), &[])?;
                    }
                }
            }
        }
        Ok(Answer::Swept { streams })
    }
}
