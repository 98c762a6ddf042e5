//! The logs for which something is to be done: in this round, at their next deadline, with the next tick and
//! heartbeat.
//!
//! An event of one log settles it in the same round. An event of all at once, such as the loss of a peer,
//! makes all of them due: each round settles so many that a node of thousands is still heard by its peers.

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

    /// Lets this log be settled in this round or one of the next.
    pub fn soon(&mut self, log: LogId, now: Time) {
        self.agenda.set_by(log, now);
    }

    /// Marks the logs whose deadline has come, so many at most. The others' is past: the next round comes at once.
    pub fn touch_due(&mut self, now: Time, most: usize) {
        self.touched.extend(self.agenda.due(now).take(most));
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
