//! The time when each log wants to be settled.
//!
//! A node may host a thousand logs of which a few are busy. The cost of a wake-up must depend on its cause,
//! so each log's next deadline is looked up when the log was settled, and not on every turn.

use std::collections::{BTreeMap, BTreeSet};

use formats::LogId;
use paxos::Time;

#[derive(Default)]
pub struct Agenda {
    by_time: BTreeSet<(Time, LogId)>,
    by_log: BTreeMap<LogId, Time>,
}

impl Agenda {
    /// Sets the log's next deadline, in place of the one it had.
    pub fn set(&mut self, log: LogId, deadline: Option<Time>) {
        let before = match deadline {
            Some(time) => self.by_log.insert(log, time),
            None => self.by_log.remove(&log),
        };
        if before == deadline {
            return;
        }
        if let Some(time) = before {
            self.by_time.remove(&(time, log));
        }
        if let Some(time) = deadline {
            self.by_time.insert((time, log));
        }
    }

    /// Lets the log be due at this time at the latest.
    pub fn set_by(&mut self, log: LogId, latest: Time) {
        if self.by_log.get(&log).is_none_or(|time| *time > latest) {
            self.set(log, Some(latest));
        }
    }

    /// The earliest deadline of all.
    pub fn first(&self) -> Option<Time> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// The logs whose deadline has come, the earliest first. They stay until they are settled.
    pub fn due(&self, now: Time) -> impl Iterator<Item = LogId> {
        let due = self
            .by_time
            .iter()
            .take_while(move |(time, _)| *time <= now);
        due.map(|(_, log)| *log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(agenda: &Agenda, now: u64) -> Vec<u32> {
        agenda
            .due(Time::from_micros(now))
            .map(|log| log.0)
            .collect()
    }

    #[test]
    fn a_later_deadline_replaces_the_earlier_one() {
        let mut agenda = Agenda::default();
        agenda.set(LogId(1), Some(Time::from_micros(10)));
        agenda.set(LogId(2), Some(Time::from_micros(5)));
        assert_eq!(agenda.first(), Some(Time::from_micros(5)));
        assert!(due(&agenda, 4).is_empty());
        assert_eq!(due(&agenda, 10), [2, 1]);
        agenda.set(LogId(2), Some(Time::from_micros(20)));
        agenda.set(LogId(1), Some(Time::from_micros(10)));
        assert_eq!(due(&agenda, 10), [1]);
        agenda.set_by(LogId(2), Time::from_micros(15));
        agenda.set_by(LogId(1), Time::from_micros(15));
        assert_eq!(due(&agenda, 15), [1, 2], "one is due earlier as it was");
        agenda.set(LogId(2), Some(Time::from_micros(20)));
        agenda.set(LogId(1), None);
        agenda.set(LogId(3), None);
        assert_eq!(agenda.first(), Some(Time::from_micros(20)));
        agenda.set(LogId(2), None);
        assert_eq!(agenda.first(), None);
    }
}
