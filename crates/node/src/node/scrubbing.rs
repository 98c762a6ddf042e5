//! Which log is scrubbed next, and when: one at a time per node, at the rate of its pass.

use std::collections::VecDeque;

use formats::LogId;
use paxos::Time;
use replica::Progress;

use crate::node::Node;

#[derive(Default)]
pub(super) struct Scrubbing {
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
}

impl Node {
    /// Passes that are due begin.
    pub(super) fn begin_scrubs(&mut self) {
        let rate = self.env.limits.scrub_rate;
        for (id, log) in self.logs.iter_mut() {
            if log.is_scrub_due(&self.env) {
                log.begin_pass(&self.env, rate, false);
                if !self.scrubbing.queue.contains(id) {
                    self.scrubbing.queue.push_back(*id);
                }
            }
        }
    }

    /// The next piece, if it is time for it.
    pub(super) fn scrub(&mut self) {
        for _ in 0..self.scrubbing.queue.len() {
            let now = self.env.now;
            let Some(&id) = self.scrubbing.queue.front() else {
                return;
            };
            let log = self.logs.get_mut(&id);
            let owed = log.map_or(0, |log| log.take_scrub_debt());
            if owed > 0 {
                self.scrubbing.next_at = Time(now.0 + owed);
            }
            if now < self.scrubbing.next_at || self.stopping_since.is_some() {
                return;
            }
            let log = self.logs.get_mut(&id);
            match log.map_or(Progress::Over, |log| log.scrub_on(&mut self.env)) {
                Progress::Busy => {
                    self.due.touch(id);
                    return;
                }
                Progress::Waits => self.scrubbing.queue.rotate_left(1),
                Progress::Over => drop(self.scrubbing.queue.pop_front()),
            }
        }
    }

    /// If only the rate holds the next piece back.
    pub(super) fn scrub_deadline(&self) -> Option<Time> {
        let Scrubbing { queue, next_at } = &self.scrubbing;
        (!queue.is_empty() && *next_at > self.env.now).then_some(*next_at)
    }
}
