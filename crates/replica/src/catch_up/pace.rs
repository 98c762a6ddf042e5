//! The pace of requests for missing bytes: a bucket of bytes that fills at a rate.
//!
//! A writer must not feel that another node catches up: while new bytes come in, requests are small and
//! evenly spaced. While none do, the disks and the network are free, and the sooner a node is whole the
//! better.

use std::time::Duration;

use paxos::Time;

use crate::limits::Limits;

#[derive(Default)]
pub(super) struct Pace {
    allowance: u64,
    filled_at: Time,
}

/// The time after new bytes came in for which more are expected.
const FOREGROUND: Duration = Duration::from_millis(250);

impl Pace {
    /// The number of bytes that the next request may ask for; none yet if it is too early. The last request
    /// of a range may be small, so it waits no longer than for its own bytes.
    pub fn take(
        &mut self,
        now: Time,
        appended_at: Time,
        limits: &Limits,
        wanted: u64,
    ) -> Option<u64> {
        if now > appended_at + FOREGROUND {
            self.filled_at = now;
            return Some(wanted.min(limits.fetch_bytes_max));
        }
        let count = wanted.min(limits.fetch_bytes_busy);
        self.fill(now, limits);
        if self.allowance < count {
            return None;
        }
        self.allowance -= count;
        Some(count)
    }

    /// The time when so many bytes may be asked for, if appends go on.
    pub fn due(&self, limits: &Limits, wanted: u64) -> Time {
        let lacking = wanted
            .min(limits.fetch_bytes_busy)
            .saturating_sub(self.allowance);
        let wait_us =
            u128::from(lacking) * 1_000_000 / u128::from(limits.catch_up_bytes_per_second.max(1));
        self.filled_at + Duration::from_micros(wait_us as u64 + 1)
    }

    fn fill(&mut self, now: Time, limits: &Limits) {
        let passed = (now - self.filled_at).min(Duration::from_secs(1));
        let gained =
            (passed.as_micros() * u128::from(limits.catch_up_bytes_per_second) / 1_000_000) as u64;
        if gained > 0 {
            // The bucket holds no more than one request: an allowance that was not used in time makes no
            // burst later.
            self.allowance = (self.allowance + gained).min(limits.fetch_bytes_busy);
            self.filled_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            catch_up_bytes_per_second: 1_000_000,
            fetch_bytes_busy: 1000,
            fetch_bytes_max: 50_000,
            ..Limits::default()
        }
    }

    #[test]
    fn beside_appends_requests_are_small_and_evenly_spaced() {
        let limits = limits();
        let mut pace = Pace::default();
        let mut asked = Vec::new();
        for now in (10_000_000..10_010_000).step_by(10) {
            let now = Time::from_micros(now);
            if let Some(count) = pace.take(now, now, &limits, u64::MAX) {
                asked.push((now, count));
            }
        }
        assert_eq!(asked.len(), 10, "a kilobyte per millisecond: {asked:?}");
        for pair in asked.windows(2) {
            assert_eq!(pair[1].0 - pair[0].0, Duration::from_millis(1), "{asked:?}");
        }
        assert!(asked.iter().all(|(_, count)| *count == 1000));
    }

    #[test]
    fn a_pause_makes_no_burst() {
        let limits = limits();
        let mut pace = Pace::default();
        let now = Time::from_micros(60_000_000);
        assert_eq!(pace.take(now, now, &limits, u64::MAX), Some(1000));
        assert_eq!(pace.take(now, now, &limits, u64::MAX), None);
        assert_eq!(
            pace.due(&limits, u64::MAX),
            now + Duration::from_micros(1001)
        );
    }

    #[test]
    fn a_small_rest_is_not_waited_for_as_long_as_a_whole_request() {
        let limits = limits();
        let mut pace = Pace::default();
        let now = Time::from_micros(60_000_000);
        pace.take(now, now, &limits, u64::MAX);
        let later = now + Duration::from_micros(10);
        assert_eq!(pace.take(later, later, &limits, 10), Some(10));
    }

    #[test]
    fn nothing_holds_back_who_catches_up_while_nobody_appends() {
        let limits = limits();
        let mut pace = Pace::default();
        let now = Time::from_micros(60_000_000);
        for _ in 0..100 {
            let count = pace.take(now, Time::from_micros(1), &limits, 1 << 30);
            assert_eq!(count, Some(50_000));
        }
    }
}
