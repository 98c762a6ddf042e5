//! Which log is scrubbed next, and when: one at a time per node, at the rate of its pass.

use std::collections::VecDeque;
use std::time::Duration;

use formats::LogId;
use ops::ConnId;
use paxos::Time;
use replica::{Progress, Purpose};
use wire::{Refusal, Request};

use crate::node::Node;

#[derive(Default)]
pub(super) struct Scrubbing {
    /// With a pass under way; those that somebody asked for go first.
    queue: VecDeque<LogId>,
    /// What was read is paid for by then.
    next_at: Time,
}

impl Node {
    /// Passes that are due begin.
    pub(super) fn begin_scrubs(&mut self) {
        let rate = self.env.limits.scrub_rate;
        for (id, log) in &mut self.logs {
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
            let owed = log.map_or(Duration::ZERO, |log| log.take_scrub_debt());
            if !owed.is_zero() {
                self.scrubbing.next_at = now + owed;
            }
            if now < self.scrubbing.next_at || self.stopping_since.is_some() {
                return;
            }
            let log = self.logs.get_mut(&id);
            match log.map_or(Progress::Over, |log| log.scrub_on(&mut self.env)) {
                Progress::Busy => {
                    self.dirty.insert(id);
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

    /// `scrub LOG [start=1] [rate=BYTES]`
    pub(crate) fn on_scrub_request(
        &mut self,
        conn: ConnId,
        request: &Request,
        id: LogId,
    ) -> Result<(), Refusal> {
        request.check()?;
        let rate = request
            .parsed("rate")?
            .unwrap_or(self.env.limits.scrub_rate_asked);
        let start = request.flag("start")?;
        let Some(log) = self.logs.get_mut(&id) else {
            return Ok(());
        };
        if start {
            log.check_leading(&self.env)?;
            log.begin_pass(&self.env, rate.max(1), true);
            self.scrubbing.queue.retain(|other| *other != id);
            self.scrubbing.queue.push_front(id);
            self.scrubbing.next_at = self.env.now;
        }
        let line = log.scrub_line(&self.env);
        self.env.conns.insert(conn, Purpose::Request(id));
        self.env.part(conn, line.as_bytes());
        self.scrub();
        Ok(())
    }
}
