//! The time of a log, at its leader.

use paxos::Time;

/// ‡ It is the wall clock's, never earlier than before, and never stands: where somebody's clock was ahead for a moment, an earlier leader's or this one's, no
/// deadline would else be reached until the wall clock has caught up.
pub struct LogClock {
    /// The time of the log at that moment.
    at_ms: u64,
    at: Time,
}

impl LogClock {
    pub fn at(now: Time, time_ms: u64) -> LogClock {
        LogClock {
            at_ms: time_ms,
            at: now,
        }
    }

    /// The time now; it goes on from the last one that the log has, if that is later.
    pub fn now(&mut self, now: Time, wall_ms: Option<u64>, last_ms: u64) -> u64 {
        let went_on = self.at_ms + (now - self.at).as_millis() as u64;
        let ahead = last_ms.max(wall_ms.unwrap_or(0));
        // Else it is left as it is: of each look less than a millisecond would be lost, and of many looks all time.
        if ahead > went_on {
            *self = LogClock::at(now, ahead);
        }
        went_on.max(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

    #[test]
    fn a_clock_that_was_ahead_for_a_moment_stops_no_time() {
        let at = |ms: u64| Time::from_micros(ms * MS);
        let mut clock = LogClock::at(at(0), 5_000);
        assert_eq!(clock.now(at(10), Some(7_000), 5_000), 7_000);
        // A day ahead, for one look.
        assert_eq!(
            clock.now(at(20), Some(7_010 + DAY_MS), 7_000),
            7_010 + DAY_MS
        );
        let mut last = 7_010 + DAY_MS;
        for ms in 21..1_021 {
            let next = clock.now(at(ms), Some(7_000 + ms), last);
            assert_eq!(next, last + 1);
            last = next;
        }
        // And however often it is looked at.
        for us in 0..1_000 {
            last = clock.now(Time::from_micros(1_020 * MS + 10 * us), None, last);
        }
        assert_eq!(last, 7_010 + DAY_MS + 1_000 + 9);
    }
}
