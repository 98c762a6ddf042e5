//! A node that comes back asks before it acts.
//!
//! ```text
//!  start ─▶ every peer that is known is dialled ─▶ all are heard and answer, or 0.3 s ─▶ engines act
//!               └─ one of them remembers more of this disk: its evidence stops the node first
//! ```
//!
//! ‡ An old copy of a directory would promise, accept and lead within a tenth of a second, and with one node
//! that was away it is a quorum. A node whose own vote is a quorum needs nobody. Nodes that it does not know
//! of yet, or not any more, dial it in the meantime, and show it what they remember.

use paxos::Time;
use std::time::Duration;

/// The rest: longer than it takes to dial a peer, and to be dialled by it, where both run.
const SETTLES_WITHIN: Duration = Duration::from_millis(300);
/// The most that one step counts: a process that was stopped meanwhile, or that waited for the machine, heard
/// nobody.
const STEP_MAX: Duration = Duration::from_millis(50);

#[derive(Default)]
pub struct Settling {
    /// The time for which others could say something.
    rested: Duration,
    /// The last round. There is none before the first: the reading of the disk before it gave nobody time.
    looked_at: Option<Time>,
}

impl Settling {
    /// One more round. True once it has rested long enough.
    pub fn pass(&mut self, now: Time) -> bool {
        let before = self.looked_at.replace(now).unwrap_or(now);
        self.rested += (now - before).min(STEP_MAX);
        self.rested >= SETTLES_WITHIN
    }

    /// The time of the next look.
    pub fn deadline(&self, now: Time) -> Time {
        let rest = SETTLES_WITHIN.saturating_sub(self.rested);
        self.looked_at.unwrap_or(now) + rest.min(STEP_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_the_first_round_is_no_rest() {
        let mut settling = Settling::default();
        let read_its_disk = Time::from_micros(90_000_000);
        assert!(!settling.pass(read_its_disk));
        assert_eq!(settling.deadline(read_its_disk), read_its_disk + STEP_MAX);
        let mut now = read_its_disk;
        while !settling.pass(now) {
            now = settling.deadline(now);
        }
        assert_eq!(now - read_its_disk, SETTLES_WITHIN);
    }

    #[test]
    fn a_process_that_was_stopped_has_not_listened_meanwhile() {
        let mut settling = Settling::default();
        assert!(!settling.pass(Time::ZERO));
        assert!(!settling.pass(Time::from_micros(3_600_000_000)));
        assert_eq!(settling.rested, STEP_MAX);
        // The clock stands still.
        assert!(!settling.pass(Time::from_micros(3_600_000_000)));
        assert_eq!(settling.rested, STEP_MAX);
    }
}
