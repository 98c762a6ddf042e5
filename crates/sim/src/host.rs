//! A machine in the world: its process, its clock, and how it was started.

use std::any::Any;
use std::io;
use std::time::Duration;

use ops::{Disk, Machine, Time};

use crate::random::Random;

/// In the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// A machine that tests can look into (`World::machine`). Every machine without borrows is one.
pub trait Process: Machine + Any {}

impl<T: Machine + Any> Process for T {}

/// Makes a host's process from what is on its disk, at every start.
pub type Start = Box<dyn FnMut(&mut dyn Disk, Time) -> io::Result<Box<dyn Process>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    NeverStarted,
    Running,
    /// It said that it is finished.
    Finished,
    /// The process was killed, by anybody.
    Crashed,
    /// The start returned an error (a broken or full disk, mostly).
    FailedToStart,
}

pub(crate) struct Host {
    pub name: String,
    pub process: Option<Box<dyn Process>>,
    pub start: Option<Start>,
    pub status: Status,
    pub clock: HostClock,
    pub paused_until: Time,
    /// The timer that is set, in the world's time.
    pub timer: Option<Time>,
    /// Die after this many more ops: between any two of one round.
    pub dies_after_ops: Option<u64>,
    pub starts: u64,
    /// The time of its last start.
    pub started: Time,
    /// In a row: without a completion, without an op, right after the one before.
    pub idle_rounds: u32,
    pub last_round: Time,
    /// Whether its completions count as the run's steps.
    pub is_counted: bool,
}

/// A monotonic clock that began anywhere and runs a little fast or slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostClock {
    offset_us: u64,
    /// The µs that it gains in a million; negative if it is slow.
    pub gains_ppm: i64,
}

impl HostId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Host {
    pub fn new(name: &str, random: &mut Random) -> Host {
        Host {
            name: name.to_owned(),
            process: None,
            start: None,
            status: Status::NeverStarted,
            clock: HostClock {
                offset_us: random.below(1 << 40),
                gains_ppm: 0,
            },
            paused_until: Time::ZERO,
            timer: None,
            dies_after_ops: None,
            starts: 0,
            started: Time::ZERO,
            idle_rounds: 0,
            last_round: Time::ZERO,
            is_counted: false,
        }
    }
}

impl HostClock {
    pub fn shows(&self, now: Time) -> Time {
        let now_us = i128::from(now.as_micros());
        let gained_us = now_us * i128::from(self.gains_ppm) / 1_000_000;
        Time::from_micros((i128::from(self.offset_us) + now_us + gained_us) as u64)
    }

    /// The first moment at which it shows `time` or more.
    pub fn when_it_shows(&self, time: Time) -> Time {
        let since = i128::from(time.as_micros()) - i128::from(self.offset_us);
        let estimate = since * 1_000_000 / i128::from(1_000_000 + self.gains_ppm);
        let mut at = Time::from_micros((estimate - 2).clamp(0, i128::from(u64::MAX / 2)) as u64);
        while self.shows(at) < time && at.as_micros() < u64::MAX / 2 {
            at += Duration::from_micros(1);
        }
        at
    }

    pub fn jump(&mut self, forward_us: u64) {
        self.offset_us += forward_us;
    }

    /// Changes the rate without a step at `now`.
    pub fn drift(&mut self, now: Time, gains_ppm: i64) {
        assert!(gains_ppm.abs() < 500_000, "no clock is that bad");
        let before = self.shows(now);
        self.gains_ppm = gains_ppm;
        let now_us = i128::from(now.as_micros());
        let gained_us = now_us * i128::from(gains_ppm) / 1_000_000;
        let offset_us = i128::from(before.as_micros()) - now_us - gained_us;
        self.offset_us = offset_us.max(0) as u64;
        let step = before - self.shows(now);
        self.offset_us += step.as_micros() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_never_early_and_never_goes_back() {
        let mut random = Random::new(3);
        for gains_ppm in [0, 200, -200, 50_000, -50_000] {
            let mut clock = Host::new("h", &mut random).clock;
            let before = clock.shows(Time::from_micros(1_000_000));
            clock.drift(Time::from_micros(1_000_000), gains_ppm);
            assert!(clock.shows(Time::from_micros(1_000_000)) >= before);
            let deadline = before + Duration::from_micros(12_345);
            let at = clock.when_it_shows(deadline);
            assert!(clock.shows(at) >= deadline);
            assert!(clock.shows(at - Duration::from_micros(1)) < deadline);
        }
    }
}
