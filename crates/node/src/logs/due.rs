//! The logs for which something is to be done: in this round, at their next deadline, with the next tick and
//! heartbeat.

use std::collections::BTreeSet;

use formats::LogId;
use paxos::Time;

use super::agenda::Agenda;
use super::awake::Awake;

#[derive(Default)]
pub struct Due {
    /// The logs to which something happened in this round.
    touched: BTreeSet<LogId>,
    agenda: Agenda,
    pub awake: Awake,
}

impl Due {
    /// Marks this log to be settled at the end of the round.
    pub fn touch(&mut self, log: LogId) {
        self.touched.insert(log);
    }

    pub fn touch_all(&mut self, logs: impl Iterator<Item = LogId>) {
        self.touched.extend(logs);
    }

    /// Marks the logs whose deadline has come.
    pub fn touch_due(&mut self, now: Time) {
        self.touched.extend(self.agenda.due(now));
    }

    pub fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Takes the logs that are to be settled now.
    pub fn take_touched(&mut self) -> BTreeSet<LogId> {
        std::mem::take(&mut self.touched)
    }

    /// The logs of which something may be under way: they were touched, or are awake.
    pub fn busy(&self) -> impl Iterator<Item = &LogId> {
        self.touched.union(self.awake.logs())
    }

    pub fn on_settled(&mut self, log: LogId, deadline: Option<Time>) {
        self.agenda.set(log, deadline);
        self.awake.wake(log);
    }

    pub fn forget(&mut self, log: LogId) {
        self.agenda.set(log, None);
    }

    /// The time when the first log is to be looked at.
    pub fn deadline(&self) -> Option<Time> {
        self.agenda.first()
    }
}
