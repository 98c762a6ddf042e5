//! Segments that hold nothing but trimmed bytes are forgotten, oldest first: their files become spares for
//! segments to come, or are removed.
//!
//! ```text
//! 7.seg ─ wholly trimmed ─┬─▶ 7.free ─ a new segment is due ─▶ 19.seg ─ birth ─▶ …
//!                         │     └─▶ removed: fewer are needed than before
//!                         └─▶ removed: there are spares enough, or it is too small to be one
//! ```
//!
//! Writing to a file that was written before is the cheapest durable write (docs/decisions/0003).
//! Nothing in a spare is erased: its records have the salt of another use.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use formats::segment::spare_name;
use ops::Op;
use paxos::mutation::{self, Mutation};
use paxos::{Slot, StreamName, StreamPosition};

use super::{Awaiting, Store};

/// The fewest spares: a log that is trimmed as it grows needs one, and another while it rolls.
const SPARES_LEAST: usize = 2;
/// The most spares, kept for a log that is trimmed while it is written fast.
const SPARES_MAX: usize = 8;
/// The number of a log's files waiting to be removed above which it is trimmed faster than they are let go
/// with pauses.
const LEAVING_MANY: usize = 4;

#[derive(Default)]
pub(super) struct Trimmer {
    /// The segments on their way out, out of memory already; forgotten one after the other, so that neither a
    /// crash nor an error leaves a hole. The first is under way if the trimmer is busy.
    leaving: VecDeque<Leaving>,
    busy: bool,
    /// The slot below which all must be known chosen to know that the trim is.
    as_of: Slot,
    /// Whether something is trimmed and still there: it is not sealed yet, it is being read, or the next
    /// start would not know yet that it is trimmed.
    held_back: bool,
    keeps_no_spares: bool,
    /// The spares, by the number of the segment that each was last.
    spares: VecDeque<Spare>,
    /// Segments begun since a trim last forgot one, and the most of it lately.
    begun: usize,
    begun_lately: usize,
    /// The number of spares that were taken.
    pub reused: u64,
}

#[derive(Clone, Copy)]
struct Leaving {
    segment: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Spare {
    pub number: u64,
    pub bytes: u64,
}

impl Trimmer {
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    pub fn spare_bytes(&self) -> u64 {
        let leaving: u64 = self.leaving.iter().map(|leaving| leaving.bytes).sum();
        self.spares.iter().map(|spare| spare.bytes).sum::<u64>() + leaving
    }

    fn on_forgetting(&mut self) {
        let begun = match std::mem::take(&mut self.begun) {
            // So many spares would not be kept, and the few that are would be next to nothing of them.
            many if many >= SPARES_MAX => 0,
            begun => begun,
        };
        self.begun_lately = begun.max(self.begun_lately.saturating_sub(1));
    }

    /// The wanted number of spares: as many as segments begin from one trim to the next, and one in reserve.
    fn spares_wanted(&self) -> usize {
        match self.keeps_no_spares {
            true => 0,
            false => (self.begun_lately + 1).max(SPARES_LEAST),
        }
    }
}

impl Store {
    /// Trims. `trimmed` says, for each stream, below which position its bytes are forgotten
    /// (`StreamPosition(u64::MAX)` for a stream that is forgotten altogether). Everybody who knows all slots
    /// below `as_of` to be chosen knows the same.
    ///
    /// A segment goes once it holds no other byte, the checkpoint of the next one is durable (no acceptance
    /// in it matters then), and a durable record says that all below `as_of` is chosen: otherwise the next
    /// start would miss the bytes, and a leader could have to propose them again. It is to be called again
    /// after a recovery, and when [`Store::may_trim`].
    pub fn trim(&mut self, as_of: Slot, trimmed: &dyn Fn(StreamName) -> StreamPosition) {
        self.trimmer.as_of = as_of;
        let held: Vec<_> = self.holdings.iter().collect();
        for (stream, range) in held {
            let below = trimmed(stream).0.min(range.end.0);
            self.holdings.remove(stream, range.start.0..below);
        }
        // Without this it would be held again after a while, without a file.
        self.distrusted
            .retain_mut(|d| d.forget_below(trimmed(d.stream)));
        self.trimmer.held_back = false;
        let mut forgets = false;
        while let Some((&number, segment)) = self.segments.first_key_value() {
            let early = mutation::is(Mutation::SegmentForgottenTooEarly);
            let is_trimmed = segment.extents.iter().all(|(stream, extent)| match early {
                false => extent.end() <= trimmed(stream).0,
                true => extent.start() < trimmed(stream).0,
            });
            if !is_trimmed {
                break;
            }
            if !self.may_forget(number) {
                self.trimmer.held_back = true;
                break;
            }
            let bytes = segment.end;
            self.segments.remove(&number);
            self.forget_file(number);
            let segment = number;
            self.trimmer.leaving.push_back(Leaving { segment, bytes });
            forgets = true;
        }
        if forgets {
            self.trimmer.on_forgetting();
        }
        self.forget_next();
    }

    /// Sets whether files of trimmed segments are kept to be written again. If not, the present ones go.
    pub fn keep_spares(&mut self, keep: bool) {
        self.trimmer.keeps_no_spares = !keep;
        // A file that could not be removed waits for the next trim, and is not tried in every round.
        let is_free = !self.trimmer.busy && self.trimmer.leaving.is_empty();
        if !keep && is_free && !self.writer.closing {
            self.remove_a_spare_too_many();
        }
    }

    fn may_forget(&self, number: u64) -> bool {
        let durable = self.writer.durable.number();
        // The index may be a later segment's, where a start could not read this one's: it stands behind a
        // newer checkpoint.
        let mut segments = self.segments.range(number..);
        let stands = segments.find_map(|(_, segment)| segment.index_stands);
        stands.is_some_and(|stands| stands.number <= durable)
            && self.segments.contains_key(&(number + 1))
            && !self.is_being_read(number)
            && !self.lacks_word()
    }

    /// Whether no durable record says yet that the trim was chosen.
    pub(super) fn lacks_word(&self) -> bool {
        self.writer.durable.first_unchosen() < self.trimmer.as_of
            && !mutation::is(Mutation::ForgottenBeforeKnownChosen)
    }

    /// Whether something trimmed is still there. [`Store::bear_out`] may bring what it waits for.
    pub fn is_trim_held_back(&self) -> bool {
        self.trimmer.held_back
    }

    /// Whether the open segment has grown, and holds no byte that is kept.
    pub fn is_open_segment_trimmed(&self, trimmed: &dyn Fn(StreamName) -> StreamPosition) -> bool {
        let last = self.segments.last_key_value();
        last.is_some_and(|(_, segment)| {
            let mut extents = segment.extents.iter();
            segment.end > self.config.segment_bytes_first
                && extents.all(|(stream, extent)| extent.end() <= trimmed(stream).0)
        })
    }

    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Whether [`Store::trim`] has something to do that it could not do before.
    pub fn may_trim(&self) -> bool {
        let first = self.segments.first_key_value();
        self.trimmer.held_back && first.is_some_and(|(number, _)| self.may_forget(*number))
    }

    fn forget_next(&mut self) {
        if self.trimmer.busy || self.writer.closing {
            return;
        }
        let Some(next) = self.trimmer.leaving.front().copied() else {
            return self.remove_a_spare_too_many();
        };
        self.trimmer.busy = true;
        let path = self.path(next.segment);
        let spare = Spare {
            number: next.segment,
            bytes: next.bytes,
        };
        let op = match self.is_wanted(&spare) {
            true => Op::Rename {
                token: self.token(Awaiting::Spared { spare }),
                from: path,
                to: self.spare_path(spare.number),
            },
            false => Op::Remove {
                token: self.token(Awaiting::Removed),
                path,
                urgent: self.trimmer.leaving.len() > LEAVING_MANY,
            },
        };
        self.ops.push_back(op);
    }

    fn remove_a_spare_too_many(&mut self) {
        if self.trimmer.spares.len() <= self.trimmer.spares_wanted() {
            return;
        }
        if let Some(spare) = self.trimmer.spares.pop_back() {
            self.trimmer.busy = true;
            let token = self.token(Awaiting::SpareRemoved);
            let path = self.spare_path(spare.number);
            self.ops.push_back(Op::Remove {
                token,
                path,
                urgent: false,
            });
        }
    }

    /// Goes on behind a spare. One that could not be removed is found by the next start.
    pub(super) fn on_spare_removed(&mut self) {
        self.trimmer.busy = false;
        self.forget_next();
    }

    /// Whether the spare is large enough: a file much smaller than the next segment would grow as a new one does.
    fn is_wanted(&self, spare: &Spare) -> bool {
        // ‡ Sockets may still have the bytes received into a file, by reference: written again, it would be
        // sent with the new contents.
        if self.config.landing.is_some() {
            return false;
        }
        let last = self.segments.last_key_value();
        let next = last.map_or(1, |(number, _)| number + 1);
        self.trimmer.spares.len() < self.trimmer.spares_wanted()
            && 2 * spare.bytes >= self.size_target(next)
    }

    pub(super) fn on_removed(&mut self, result: io::Result<()>) {
        self.trimmer.busy = false;
        // A removal that failed may have happened all the same: then the file is not there at the next attempt.
        match result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                // The file stays, and with it all behind it: the next trim, or the next start, begins with it.
                let log = self.config.log.0;
                tracing::warn!(log, %error, "a trimmed segment cannot be removed; the next trim tries it again");
            }
            _ => {
                self.trimmer.leaving.pop_front();
                self.forget_next();
            }
        }
    }

    pub(super) fn on_spared(&mut self, spare: Spare, result: io::Result<()>) {
        if result.is_ok() {
            self.trimmer.spares.push_back(spare);
        }
        self.on_removed(result);
    }

    /// Adopts the spares that a recovery found. Returns the files that are too many.
    pub(super) fn adopt_spares(&mut self, mut found: Vec<Spare>) -> Vec<PathBuf> {
        found.sort_by_key(|spare| std::cmp::Reverse(spare.bytes));
        let many = found.split_off(found.len().min(SPARES_MAX));
        self.trimmer.begun_lately = found.len().saturating_sub(1);
        self.trimmer.spares = found.into();
        let paths = many.iter().map(|spare| self.spare_path(spare.number));
        paths.collect()
    }

    /// Takes a spare for a segment that begins.
    pub(super) fn take_spare(&mut self) -> Option<Spare> {
        self.trimmer.begun += 1;
        let spare = self.trimmer.spares.pop_front()?;
        self.trimmer.reused += 1;
        Some(spare)
    }

    pub(super) fn spare_path(&self, number: u64) -> PathBuf {
        self.config.directory.join(spare_name(number))
    }
}
