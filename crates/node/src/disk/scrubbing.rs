//! The log that is scrubbed next, and the time of it: one at a time per node, at the rate of its pass.

use std::collections::VecDeque;
use std::time::Duration;

use formats::LogId;
use paxos::Time;
use replica::{Env, Progress};

use crate::logs::Logs;
use crate::logs::due::Due;

#[derive(Default)]
pub struct Scrubbing {
    /// The logs with a pass under way; those that somebody asked for go first.
    queue: VecDeque<LogId>,
    /// The time by which the bytes read are paid for.
    next_at: Time,
}

impl Scrubbing {
    /// Puts a log before the others, and at once: somebody asked for it.
    pub fn put_first(&mut self, id: LogId, now: Time) {
        self.queue.retain(|other| *other != id);
        self.queue.push_front(id);
        self.next_at = now;
    }

    /// Begins the passes that are due.
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

    /// Reads the next piece, if it is time for it.
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

    /// The time of the next piece, if only the rate holds it back.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        (!self.queue.is_empty() && self.next_at > now).then_some(self.next_at)
    }
}
