//! The rounds of this process: its start, its last round and its next tick.

pub mod settling;

use paxos::Time;
use std::time::Duration;

use settling::Settling;

pub struct Rounds {
    pub started_at: Time,
    last_at: Time,
    next_tick: Time,
    waiting_told_at: Time,
    pub settling: Settling,
}

/// The distance of two rounds beyond which the process was kept from running.
const GAP: Duration = Duration::from_millis(150);
const TICK: Duration = Duration::from_millis(100);
/// The time by which a tick may come earlier or later if it then comes with a heartbeat, for which we wake anyway.
const TICK_SLACK: Duration = Duration::from_millis(35);
const STOPPING_TICK: Duration = Duration::from_millis(5);
/// The interval at which a log tells what it waits for.
const WAITING_TOLD_EVERY: Duration = Duration::from_secs(2);

impl Rounds {
    pub fn new(now: Time) -> Rounds {
        Rounds {
            started_at: now,
            last_at: now,
            next_tick: now,
            waiting_told_at: now,
            settling: Settling::default(),
        }
    }

    /// The time for which this process was kept from running, and by how much that is more than usual.
    pub fn notice_gap(&mut self, now: Time) -> Option<(Duration, Duration)> {
        // Most rounds have no gap, and are to cost nothing.
        if now <= self.last_at + GAP {
            return None;
        }
        let gap = now - self.last_at;
        self.last_at = now;
        Some((gap, gap - GAP))
    }

    pub fn begin(&mut self, now: Time) {
        self.last_at = now;
    }

    /// `beats`: heartbeats are said in this round.
    pub fn is_tick_due(&self, now: Time, beats: bool) -> bool {
        now >= self.next_tick || beats && now + TICK_SLACK >= self.next_tick
    }

    pub fn on_tick(&mut self, now: Time, is_stopping: bool) {
        let pause = if is_stopping { STOPPING_TICK } else { TICK };
        self.next_tick = now + pause;
    }

    pub fn tick_now(&mut self, now: Time) {
        self.next_tick = now;
    }

    /// `beat`: when the next heartbeats are said.
    pub fn tick_deadline(&self, beat: Time, is_stopping: bool) -> Time {
        let with_beat = self.next_tick..=self.next_tick + TICK_SLACK;
        match !is_stopping && with_beat.contains(&beat) {
            true => beat,
            false => self.next_tick,
        }
    }

    /// Whether it is time to say again what is waited for.
    pub fn tells_waiting(&mut self, now: Time) -> bool {
        let is_due = now >= self.waiting_told_at + WAITING_TOLD_EVERY;
        if is_due {
            self.waiting_told_at = now;
        }
        is_due
    }
}
