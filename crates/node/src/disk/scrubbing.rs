//! Which log is scrubbed next, and when: one at a time per node, at the rate of its pass.

use std::collections::VecDeque;
use std::time::Duration;

use formats::LogId;
use paxos::Time;
use replica::{Env, Progress};

use crate::logs::Logs;
use crate::logs::due::Due;

#[derive(Default)]
pub struct Scrubbing {
    /// With a pass under way; those that somebody asked for go first.
    queue: VecDeque<LogId>,
    /// What was read is paid for by then.
    next_at: Time,
}

impl Scrubbing {
    /// Before the others, and at once: somebody asked for it.
    pub fn put_first(&mut self, id: LogId, now: Time) {
        self.queue.retain(|other| *other != id);
        self.queue.push_front(id);
        self.next_at = now;
    }

    /// Passes that are due begin.
    pub fn begin(&mut self, logs: &mut Logs, env: &Env) {
        let rate = env.limits.scrub_bytes_per_second;
        for (id, log) in logs.iter_mut() {
            if log.is_scrub_due(env) {
                log.begin_pass(env, rate, false);
                if !self.queue.contains(id) {
                    self.queue.push_back(*id);
                }
            }
        }
    }

    /// The next piece, if it is time for it.
    pub fn pump(&mut self, logs: &mut Logs, due: &mut Due, env: &mut Env) {
        for _ in 0..self.queue.len() {
            let now = env.now;
            let Some(&id) = self.queue.front() else {
                return;
            };
            let log = logs.get_mut(&id);
            let owed = log.map_or(Duration::ZERO, |log| log.take_scrub_debt());
            if owed > Duration::ZERO {
                self.next_at = now + owed;
            }
            if now < self.next_at || env.stopping {
                return;
            }
            let log = logs.get_mut(&id);
            match log.map_or(Progress::Over, |log| log.scrub_on(env)) {
                Progress::Busy => {
                    due.touch(id);
                    return;
                }
                Progress::Waits => self.queue.rotate_left(1),
                Progress::Over => drop(self.queue.pop_front()),
            }
        }
    }

    /// If only the rate holds the next piece back.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        (!self.queue.is_empty() && self.next_at > now).then_some(self.next_at)
    }
}
