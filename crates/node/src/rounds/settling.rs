//! A node that comes back asks before it acts.
//!
//! ```text
//!  start ─▶ every peer that is known is dialled ─▶ all are heard and answer, or 0.3 s ─▶ engines act
//!               └─ one of them remembers more of this disk: its evidence stops the node first
//! ```
//!
//! ‡ An old copy of a directory would promise, accept and lead within a tenth of a second, and with one node that was away
//! it is a quorum. A node whose own vote is one needs nobody; those that it does not know of yet, or not any more,
//! dial it in the meantime, and show it what they remember.

use paxos::Time;

/// Longer than it takes to dial a peer, and to be dialled by it, where both run. Microseconds.
const SETTLES_WITHIN: u64 = 300_000;
/// A process that was stopped meanwhile, or that waited for the machine, heard nobody.
const STEP_MAX: u64 = 50_000;

#[derive(Default)]
pub struct Settling {
    /// For how long others could say something, in microseconds.
    rested: u64,
    /// The last round. There is none before the first: what came before, the reading of the disk, gave nobody time.
    looked_at: Option<Time>,
}

impl Settling {
    /// One more round. True once it has rested long enough.
    pub fn pass(&mut self, now: Time) -> bool {
        let before = self.looked_at.replace(now).unwrap_or(now);
        self.rested += now.0.saturating_sub(before.0).min(STEP_MAX);
        self.rested >= SETTLES_WITHIN
    }

    /// When to look again.
    pub fn deadline(&self, now: Time) -> Time {
        let rest = SETTLES_WITHIN.saturating_sub(self.rested);
        Time(self.looked_at.unwrap_or(now).0 + rest.min(STEP_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_the_first_round_is_no_rest() {
        let mut settling = Settling::default();
        let read_its_disk = Time(90_000_000);
        assert!(!settling.pass(read_its_disk));
        assert_eq!(settling.deadline(read_its_disk).0, 90_000_000 + STEP_MAX);
        let mut now = read_its_disk;
        while !settling.pass(now) {
            now = settling.deadline(now);
        }
        assert_eq!(now.0 - read_its_disk.0, SETTLES_WITHIN);
    }

    #[test]
    fn a_process_that_was_stopped_has_not_listened_meanwhile() {
        let mut settling = Settling::default();
        assert!(!settling.pass(Time(0)));
        assert!(!settling.pass(Time(3_600_000_000)));
        assert_eq!(settling.rested, STEP_MAX);
        // A clock that stands still.
        assert!(!settling.pass(Time(3_600_000_000)));
        assert_eq!(settling.rested, STEP_MAX);
    }
}
