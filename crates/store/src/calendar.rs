//! Seconds of the calendar, from a clock that knows none.

use paxos::Time;

/// The second of the calendar: by the wall clock at the start, and by the monotonic one since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calendar {
    /// The second at [`Time::ZERO`]; none if the node was told no wall clock.
    second_zero: Option<i64>,
}

impl Calendar {
    pub fn new(second: Option<u64>, now: Time) -> Calendar {
        let zero = |second: u64| i64::try_from(second).ok()?.checked_sub(seconds(now));
        Calendar {
            second_zero: second.and_then(zero),
        }
    }

    /// The second since the beginning of 1970.
    pub fn second(&self, now: Time) -> Option<u64> {
        let second = self.second_zero?.checked_add(seconds(now))?;
        u64::try_from(second).ok().filter(|second| *second > 0)
    }
}

fn seconds(time: Time) -> i64 {
    (time - Time::ZERO).as_secs() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calendar_goes_on_from_the_start() {
        let calendar = Calendar::new(Some(1_000_000), Time::from_micros(5_000_000));
        assert_eq!(
            calendar.second(Time::from_micros(5_000_000)),
            Some(1_000_000)
        );
        assert_eq!(
            calendar.second(Time::from_micros(7_999_999)),
            Some(1_000_002)
        );
        assert_eq!(
            Calendar::new(None, Time::from_micros(1)).second(Time::from_micros(9)),
            None
        );
        assert_eq!(
            Calendar::new(Some(3), Time::from_micros(60_000_000)).second(Time::ZERO),
            None
        );
        assert_eq!(
            Calendar::new(Some(u64::MAX), Time::ZERO).second(Time::ZERO),
            None
        );
    }
}
