//! Moments, and the arithmetic that they have with durations.

use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A moment of a monotonic clock, in whole microseconds. The clock's zero means nothing.
///
/// No arithmetic overflows: a moment before the zero is the zero, and a moment after the last is the last. A
/// duration counts in whole microseconds, and the rest of it is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// No moment is before this one.
    pub const ZERO: Time = Time(0);

    /// The moment at so many microseconds of the clock.
    #[inline]
    pub const fn from_micros(micros: u64) -> Time {
        Time(micros)
    }

    /// The moment as a number: for a metric, a line of a report, a draw.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    #[inline]
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(whole_micros(duration)))
    }
}

impl AddAssign<Duration> for Time {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    #[inline]
    fn sub(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(whole_micros(duration)))
    }
}

/// The time from `earlier` to this moment: none, if `earlier` is the later one.
impl Sub for Time {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// `Duration::as_micros` counts in 128 bits, which costs more than a batch should pay.
#[inline]
pub(crate) const fn whole_micros(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000);
    seconds.saturating_add(duration.subsec_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_moment_and_a_duration_make_a_moment() {
        let mut time = Time::from_micros(7) + SECOND;
        assert_eq!(time.as_micros(), 1_000_007);
        assert_eq!(time - SECOND, Time::from_micros(7));
        time += Duration::from_micros(3);
        assert_eq!(time, Time::from_micros(1_000_010));
        assert_eq!(time - Time::from_micros(10), SECOND);
    }

    #[test]
    fn no_arithmetic_leaves_the_clock() {
        let last = Time::from_micros(u64::MAX);
        assert_eq!(last + SECOND, last);
        assert_eq!(Time::ZERO + Duration::MAX, last);
        assert_eq!(Time::ZERO - SECOND, Time::ZERO);
        assert_eq!(last - Duration::MAX, Time::ZERO);
        assert_eq!(Time::ZERO - last, Duration::ZERO);
    }

    #[test]
    fn what_is_less_than_a_microsecond_is_dropped() {
        let time = Time::from_micros(1);
        assert_eq!(time + Duration::from_nanos(1_999), Time::from_micros(2));
        assert_eq!(time - Duration::from_nanos(999), time);
    }

    #[test]
    fn every_number_of_microseconds_comes_back() {
        for micros in [0, 1, 999_999, 1_000_000, u64::MAX - 1, u64::MAX] {
            let time = Time::from_micros(micros);
            assert_eq!(Time::ZERO + (time - Time::ZERO), time);
        }
    }
}
