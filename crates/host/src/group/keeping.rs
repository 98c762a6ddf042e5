//! The shelf of a group is brought forward: frames are applied, flushed, compacted.

use std::time::Duration;

use formats::Stand;
use letters::{CREDIT_BYTES, Wish};
use paxos::Time;
use paxos::mutation::{self, Mutation};
use shelf::{Applied, ShelfError};

use super::{Core, Out};
use crate::bounds::Bounds;
use crate::jobs;

/// With so many times the bytes that are flushed at a time nothing more is applied: some are being flushed, and as many come.
const MEMTABLES_MAX: u64 = 2;
/// A full disk is looked at again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// A leader that answers from its memory applies as often: more comes meanwhile, and what is applied together wakes fewer threads.
const APPLY_EVERY: Duration = Duration::from_millis(2);
/// So many bytes are given back at a time: each time wakes the node's thread.
const CREDIT_AT_ONCE: u64 = CREDIT_BYTES / 8;
/// The time after something was applied for which more is expected.
const BUSY_FOR: Duration = Duration::from_millis(250);
/// A leader's node asks each second whether its host is there. Frames that are applied at more such questions are stuck: rows go into memory, and that is a
/// matter of milliseconds.
const QUESTIONS_MAX: u32 = 5;
const STUCK: &str = "nothing that was chosen has reached the shelf for five seconds: the disk below state/ may hang; look after that disk, or restart this node";

#[derive(Default)]
pub struct Keeping {
    /// The place of the shelf in its log.
    applied: Applied,
    /// The place to which a crash takes it back.
    durable: Applied,
    is_applying: bool,
    /// The questions since that began.
    asked: u32,
    is_flushing: bool,
    compaction: Compaction,
    unflushed_bytes: u64,
    /// The memory of what is not flushed.
    memory: u64,
    /// Those of them that were there when the flush began.
    flushing_bytes: u64,
    flush_at: Option<Time>,
    /// The disk is full, or fails to write.
    trouble: Option<String>,
    has_news: bool,
    /// Something is on the shelf that is not durable, though no more of the log is applied than is.
    has_rows: bool,
    /// The log was applied a moment ago.
    busy_until: Option<Time>,
    /// Too much is not flushed for more to be applied.
    is_behind: bool,
    /// Nothing is applied before, if nobody waits for it.
    apply_at: Time,
    /// The next frames wait for that.
    is_put_off: bool,
    /// Bytes that are applied, and for which no more were asked for yet.
    owed: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Compaction {
    #[default]
    Idle,
    UnderWay,
    /// More was flushed since it began.
    AndAgain,
}

impl Keeping {
    pub fn begin(&mut self, applied: Applied, durable: Applied) {
        self.applied = applied;
        self.durable = durable;
    }

    pub fn is_applying(&self) -> bool {
        self.is_applying
    }

    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    pub fn stand(&self, is_whole: bool) -> Stand {
        let durable = self.durable.position.min(self.applied.position);
        let frame_bytes = u64::from(self.durable.frame_bytes);
        Stand {
            applied: self.applied.position,
            durable,
            needed_from: durable.saturating_sub(frame_bytes),
            is_whole,
            disk_bytes: 0,
            mark: None,
        }
    }

    /// Rows came that the log does not count. Returns the time that so many may take: who applies the log is not to feel it.
    pub fn on_piece_taken(&mut self, now: Time, bytes: u64, bounds: &Bounds) -> Duration {
        self.unflushed_bytes += bytes;
        self.has_news = true;
        self.has_rows = true;
        let is_busy = self.busy_until.is_some_and(|until| now < until);
        let rate = bounds.copy_bytes_per_second.max(1);
        match is_busy {
            true => Duration::from_micros(bytes.saturating_mul(1_000_000) / rate),
            false => Duration::ZERO,
        }
    }

    /// ‡ A copy has ended durably. What was flushed before was a part of a copy, and no state.
    pub fn on_copied(&mut self, durable: Applied) {
        self.durable = durable;
        self.trouble = None;
    }

    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Why nothing more is taken.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref().filter(|_| self.is_behind)
    }

    /// The shelf says how much memory all takes that is not flushed.
    pub fn on_memory(&mut self, bytes: u64) {
        self.memory = bytes;
    }

    /// The node asks whether its host is there.
    pub fn on_question(&mut self) {
        self.asked += u32::from(self.is_applying);
    }

    /// ‡ Whoever applies nothing answers from memory for a while, and then nobody: another may lead. Questions are counted, and not seconds, as the node does.
    pub fn stuck(&self) -> Option<&'static str> {
        let is_stuck = self.asked > QUESTIONS_MAX && !mutation::is(Mutation::StuckLaneLeadsOn);
        is_stuck.then_some(STUCK)
    }

    pub fn on_applied(
        &mut self,
        core: &mut Core,
        bytes: u64,
        result: Result<Applied, ShelfError>,
        out: &mut Out,
    ) {
        self.is_applying = false;
        self.asked = 0;
        match result {
            Ok(applied) => {
                self.applied = applied;
                self.unflushed_bytes += bytes;
                self.has_news = true;
                self.give_credit(core, bytes, out);
            }
            Err(error) => core.halt_for(out, &error),
        }
    }

    pub fn on_flushed(
        &mut self,
        core: &mut Core,
        result: Result<Applied, ShelfError>,
        out: &mut Out,
    ) {
        self.is_flushing = false;
        match result {
            Ok(durable) => {
                self.durable = durable;
                self.unflushed_bytes -= self.flushing_bytes.min(self.unflushed_bytes);
                self.trouble = None;
                match self.compaction {
                    Compaction::Idle => self.compact(core, out),
                    _ => self.compaction = Compaction::AndAgain,
                }
            }
            Err(error @ ShelfError::Io { .. }) => self.put_off(core, &error),
            Err(error) => core.halt_for(out, &error),
        }
    }

    pub fn on_compacted(&mut self, core: &mut Core, result: Result<(), ShelfError>, out: &mut Out) {
        let again = self.compaction == Compaction::AndAgain;
        self.compaction = Compaction::Idle;
        match result {
            Ok(()) if again => self.compact(core, out),
            Ok(()) => {}
            Err(error @ ShelfError::Io { .. }) => self.put_off(core, &error),
            Err(error) => core.halt_for(out, &error),
        }
    }

    fn compact(&mut self, core: &Core, out: &mut Out) {
        if let Some(shelf) = &core.shelf {
            self.compaction = Compaction::UnderWay;
            core.run(out, jobs::COMPACT, jobs::compact(shelf));
        }
    }

    pub fn put_off(&mut self, core: &Core, error: &ShelfError) {
        self.has_rows = true;
        let why = super::with_remedy(error);
        if self.trouble.is_none() {
            tracing::warn!(log = %core.name, "the state of {} cannot be written for now: {why}", core.name);
        }
        self.trouble = Some(why);
        self.flush_at = None;
        self.has_news = false;
    }

    fn give_credit(&mut self, core: &Core, bytes: u64, out: &mut Out) {
        self.owed += bytes;
        if self.owed >= CREDIT_AT_ONCE {
            let bytes = std::mem::take(&mut self.owed);
            core.wish(out, Wish::Took { bytes });
        }
    }

    /// `is_awaited`: somebody waits until all is applied that is there.
    pub fn settle(&mut self, now: Time, is_awaited: bool, core: &mut Core, out: &mut Out) {
        let Some(shelf) = core.shelf.clone() else {
            return;
        };
        let Bounds {
            flush_bytes,
            flush_after,
            ..
        } = core.bounds;
        // Without room for a flush the next one has to be no larger.
        let memtables_max = match self.trouble {
            None => MEMTABLES_MAX,
            Some(_) => 1,
        };
        let unflushed = self.unflushed_bytes.max(self.memory);
        self.is_behind = unflushed >= memtables_max * flush_bytes;
        let copying = core.copying.as_ref();
        let may_apply = copying.is_none_or(|copying| copying.may_apply(now, self.applied));
        let is_time = is_awaited || now >= self.apply_at;
        self.is_put_off = !is_time && may_apply && core.intake.has_load();
        if !self.is_applying && !self.is_behind && may_apply && is_time {
            if let Some(load) = core.intake.load() {
                if let Some(copying) = &mut core.copying {
                    copying.on_applying();
                }
                self.is_applying = true;
                self.apply_at = now + APPLY_EVERY;
                self.busy_until = Some(now + BUSY_FOR);
                core.run(out, jobs::APPLY, jobs::apply(&shelf, load));
            } else {
                let bytes = core.intake.credit_for_waiting();
                if bytes > 0 {
                    self.give_credit(core, bytes, out);
                }
            }
        }
        if self.trouble.is_some() && self.flush_at.is_none() {
            self.flush_at = Some(now + AGAIN_AFTER);
        }
        if std::mem::take(&mut self.has_news) {
            // Not put off by what comes later: after a crash the log is applied again from the last flush on.
            self.flush_at.get_or_insert(now + flush_after);
        }
        let is_due = match self.trouble {
            None => unflushed >= flush_bytes || self.flush_at.is_some_and(|at| at <= now),
            Some(_) => self.flush_at.is_some_and(|at| at <= now),
        };
        if is_due {
            self.flush(core, out);
        }
    }

    fn flush(&mut self, core: &Core, out: &mut Out) {
        if self.is_flushing || core.shelf.is_none() {
            return;
        }
        self.flush_at = None;
        if self.applied == self.durable && !self.has_rows {
            // A flush takes all that is there when its turn comes, and not only what was there when it was asked for.
            self.unflushed_bytes = 0;
            self.memory = 0;
            self.trouble = None;
            return;
        }
        self.has_rows = false;
        if let Some(shelf) = &core.shelf {
            self.is_flushing = true;
            self.flushing_bytes = self.unflushed_bytes;
            core.run(out, jobs::UPKEEP, jobs::flush(shelf));
        }
    }

    /// Flushes what is on the shelf. True once nothing is left to do.
    pub fn wind_up(&mut self, core: &Core, out: &mut Out) -> bool {
        if let Some(shelf) = &core.shelf {
            shelf.end_compactions();
        }
        if !self.is_flushing && self.trouble.is_none() {
            self.flush(core, out);
        }
        !self.is_flushing && !self.is_applying
    }

    pub fn deadline(&self) -> Option<Time> {
        let applies_at = Some(self.apply_at).filter(|_| self.is_put_off && !self.is_applying);
        let flushes_at = self.flush_at.filter(|_| !self.is_flushing);
        [applies_at, flushes_at].into_iter().flatten().min()
    }
}
