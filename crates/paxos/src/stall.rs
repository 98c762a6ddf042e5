//! A log that stands still, and whether one member holds it up or something that all have in common.
//!
//! One whose disk hangs while the others' go on is stood in for: an auxiliary accepts in its place. But copies may lie on one disk, or on disks that a common
//! device, host or network keeps waiting. Then every active member has something that it was asked to accept, and none gets on. An auxiliary would wait as
//! well, and its bytes would keep the others waiting longer. So that time does not count, up to a limit.
//!
//! ```text
//!   proposed, not chosen   ├───────────────────────────────────►
//!   none gets on                 ├─ all stand still ─┤
//!   counts                 ├────┤                    ├── engage_after ──► the auxiliaries are engaged
//! ```

use crate::{Slot, Time};
use core::time::Duration;

/// The first unchosen slot is proposed.
#[derive(Clone, Copy, Debug)]
struct Stalled {
    slot: Slot,
    since: Time,
    /// Since then somebody got on, and it was not chosen.
    counts_from: Time,
}

/// How far the active members are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The sum of the ends of what each has accepted: it is another when one of them gets on.
    pub sum: u64,
    /// Each has something before it that it has not accepted.
    pub all_wait: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Stall {
    stalled: Option<Stalled>,
    /// The last look, and when somebody got on.
    progress: Option<(Progress, Time)>,
}

impl Stall {
    /// The present state: `unchosen` is the first unchosen slot if it is proposed.
    pub fn look(&mut self, now: Time, unchosen: Option<Slot>, progress: Progress, still: Duration) {
        let before = self.progress;
        let moved = match before {
            Some((last, at)) if last.sum == progress.sum => at,
            _ => now,
        };
        // Also in the moment in which the first of them gets on: the others' acceptances are on their way.
        let all_stood_still =
            before.is_some_and(|(last, at)| last.all_wait && at + still <= now && at < now);
        self.progress = Some((progress, moved));
        self.stalled = match (self.stalled, unchosen) {
            (_, None) => None,
            (Some(stalled), Some(slot)) if stalled.slot == slot => Some(Stalled {
                counts_from: match all_stood_still {
                    true => now,
                    false => stalled.counts_from,
                },
                ..stalled
            }),
            (_, Some(slot)) => Some(Stalled {
                slot,
                since: now,
                counts_from: now,
            }),
        };
    }

    pub fn clear(&mut self) {
        *self = Stall::default();
    }

    /// When the log will have stood still for so long: because of one, or whatever the reason.
    pub fn due(&self, because_of_one: Duration, at_most: Duration) -> Option<Time> {
        let stalled = self.stalled?;
        Some((stalled.counts_from + because_of_one).min(stalled.since + at_most))
    }
}
