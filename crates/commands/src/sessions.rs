//! Sessions: each client's last command, and its answer.
//!
//! A session is opened by a frame of its own, and its client's number is drawn from the log's order:
//! no late copy of an old client's command can find a session of that number again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The bounds of sessions. They are equal on all replicas of a log, or the replicas' states part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionBounds {
    /// The most sessions. With more, the one unused for longest is forgotten.
    pub sessions_max: usize,
    /// The time, in microseconds of the log's time, after which an unused session is forgotten.
    pub idle_max: u64,
}

impl Default for SessionBounds {
    fn default() -> SessionBounds {
        SessionBounds {
            sessions_max: 100_000,
            idle_max: 24 * 3600 * 1_000_000,
        }
    }
}

/// The result of a command of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once {
    /// Applied now, or before: the same answer.
    Answered(Vec<u8>),
    /// The client has had a later command applied. It does not wait for this one any more.
    Superseded,
    /// The session was forgotten: nobody knows any more whether the command was applied before, so
    /// it was not applied now.
    Expired,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// 0 before the first command.
    pub sequence: u64,
    pub answer: Vec<u8>,
    pub used: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sessions {
    pub bounds: SessionBounds,
    /// The latest time in any frame so far. It never goes back.
    pub time: u64,
    pub last_client: u64,
    table: BTreeMap<u64, Session>,
    by_use: BTreeSet<(u64, u64)>,
}

impl Sessions {
    pub fn new(bounds: SessionBounds) -> Sessions {
        Sessions {
            bounds,
            ..Sessions::default()
        }
    }

    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// The first session after this client's.
    pub fn after(&self, client: Option<u64>) -> Option<(u64, &Session)> {
        let from = client.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.table.range((from, Bound::Unbounded)).next();
        next.map(|(client, session)| (*client, session))
    }

    pub fn open(&mut self, time: u64) -> u64 {
        self.pass(time);
        self.last_client += 1;
        let session = Session {
            sequence: 0,
            answer: Vec::new(),
            used: self.time,
        };
        self.insert(self.last_client, session);
        self.last_client
    }

    pub fn insert(&mut self, client: u64, session: Session) {
        self.by_use.insert((session.used, client));
        self.table.insert(client, session);
        while self.table.len() > self.bounds.sessions_max.max(1) {
            self.forget_oldest();
        }
    }

    /// The known result of the command, without applying it.
    pub fn find(&mut self, client: u64, sequence: u64, time: u64) -> Option<Once> {
        self.pass(time);
        let now = self.time;
        let Some(session) = self.table.get_mut(&client) else {
            return Some(Once::Expired);
        };
        self.by_use.remove(&(session.used, client));
        session.used = now;
        self.by_use.insert((now, client));
        match sequence.cmp(&session.sequence) {
            std::cmp::Ordering::Greater => None,
            std::cmp::Ordering::Equal => Some(Once::Answered(session.answer.clone())),
            std::cmp::Ordering::Less => Some(Once::Superseded),
        }
    }

    pub fn applied(&mut self, client: u64, sequence: u64, answer: &[u8]) {
        if let Some(session) = self.table.get_mut(&client) {
            session.sequence = sequence;
            session.answer = answer.to_vec();
        }
    }

    fn pass(&mut self, time: u64) {
        self.time = self.time.max(time);
        let (idle_max, now) = (self.bounds.idle_max, self.time);
        let is_idle = |used: u64| used.saturating_add(idle_max) < now;
        while self.by_use.first().is_some_and(|(used, _)| is_idle(*used)) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, client)) = self.by_use.pop_first() {
            self.table.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(sessions_max: usize) -> Sessions {
        Sessions::new(SessionBounds {
            sessions_max,
            idle_max: 100,
        })
    }

    #[test]
    fn a_retry_gets_the_first_answer() {
        let mut sessions = sessions(9);
        let client = sessions.open(0);
        assert_eq!(sessions.find(client, 1, 0), None);
        sessions.applied(client, 1, b"a");
        assert_eq!(
            sessions.find(client, 1, 0),
            Some(Once::Answered(b"a".to_vec()))
        );
        assert_eq!(sessions.find(client, 2, 0), None);
        sessions.applied(client, 2, b"b");
        assert_eq!(sessions.find(client, 1, 0), Some(Once::Superseded));
    }

    #[test]
    fn what_was_forgotten_is_not_applied() {
        let mut sessions = sessions(9);
        let client = sessions.open(0);
        assert_eq!(sessions.find(client, 1, 101), Some(Once::Expired));
        assert_ne!(sessions.open(101), client);
    }

    #[test]
    fn a_clock_that_goes_back_revives_and_expires_nobody() {
        let mut sessions = sessions(9);
        let client = sessions.open(1000);
        assert_eq!(sessions.find(client, 1, 5), None);
        assert_eq!(sessions.time, 1000);
    }

    #[test]
    fn the_table_is_bounded_and_forgets_who_was_quiet_longest() {
        let mut sessions = sessions(2);
        let (first, second) = (sessions.open(1), sessions.open(2));
        assert_eq!(sessions.find(first, 1, 3), None);
        let third = sessions.open(4);
        assert_eq!(sessions.find(second, 1, 5), Some(Once::Expired));
        assert_eq!(sessions.find(first, 1, 5), None);
        assert_eq!(sessions.find(third, 1, 5), None);
        assert_eq!(sessions.count(), 2);
    }
}
