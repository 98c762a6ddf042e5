//! The clients that asked for something just now. One that is alone may take a node's whole time; beside others none does.

use std::time::Duration;

use ops::Time;

/// A client is there for so long behind its last command.
const THERE_FOR: Duration = Duration::from_millis(100);

/// The last two clients that asked: with them it is known of each client whether another one is there.
#[derive(Default)]
pub struct Askers {
    last: Option<(u64, Time)>,
    before: Option<(u64, Time)>,
}

impl Askers {
    pub fn note(&mut self, id: u64, now: Time) {
        if self.last.is_some_and(|(last, _)| last != id) {
            self.before = self.last;
        }
        self.last = Some((id, now));
    }

    /// Whether somebody is there.
    pub fn any(&self, now: Time) -> bool {
        self.there(now).next().is_some()
    }

    /// Whether somebody but this client is there.
    pub fn others(&self, id: u64, now: Time) -> bool {
        self.there(now).any(|other| other != id)
    }

    fn there(&self, now: Time) -> impl Iterator<Item = u64> {
        let both = [self.last, self.before].into_iter().flatten();
        both.filter(move |(_, at)| now < *at + THERE_FOR)
            .map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_alone_until_another_asks_and_again_a_while_after() {
        let mut askers = Askers::default();
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        assert!(!askers.any(at(0)));
        for millis in 0..500 {
            askers.note(1, at(millis));
        }
        assert!(askers.any(at(500)));
        assert!(!askers.others(1, at(500)));
        assert!(askers.others(2, at(500)));
        askers.note(2, at(500));
        askers.note(1, at(501));
        assert!(askers.others(1, at(599)) && askers.others(2, at(599)));
        askers.note(1, at(600));
        assert!(
            !askers.others(1, at(600)),
            "the other one asked last at 500"
        );
        assert!(!askers.any(at(700)));
    }
}
