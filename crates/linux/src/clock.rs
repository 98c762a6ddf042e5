//! Time, as machines are told it.

use std::time::{Duration, SystemTime};

use ops::Time;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC: the same for all processes of a machine, never set back.
pub fn now() -> Time {
    let time = clock_gettime(ClockId::Monotonic);
    Time::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000)
}

/// The time that people's clocks say, since the beginning of 1970; `None` before that.
pub fn wall() -> Option<Duration> {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
}
