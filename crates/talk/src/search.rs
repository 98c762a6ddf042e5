//! Finding the node that can answer: servers in turn, hints followed, a pause between rounds.

use std::collections::VecDeque;
use std::time::Duration;

use crate::known::Known;
use crate::said::{Said, Unreachable};

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// The number of hints of "ask there" that are followed at once; two nodes that point at each other during an
/// election must not be asked in a tight loop.
const HINTS_MAX: u32 = 2;

/// A pause that grows from 20 to 250 ms until it is begun anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub fn new() -> Self {
        Self(PAUSE_MIN)
    }

    /// A backoff without a first pause.
    pub fn graceful() -> Self {
        Self(Duration::ZERO)
    }

    /// When the pause that begins now is over.
    pub fn pause(&mut self, now: Duration, known: &mut Known) -> Duration {
        let pause = known.jittered(self.0);
        self.0 = (self.0 * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        now + pause
    }
}

/// One search for a node that can do what is asked.
///
/// [`Search::next`] names the server to ask; the asker reports the answer with [`Search::said`], or ends the
/// search.
#[derive(Debug)]
pub(crate) struct Search {
    started: Duration,
    round: VecDeque<String>,
    tried: Vec<(String, Said)>,
    backoff: Backoff,
    /// The end of the pause before the next round.
    until: Option<Duration>,
    hints: u32,
}

/// The next step of a search.
#[derive(Debug)]
pub(crate) enum Next {
    Ask(String),
    /// Nothing for a while.
    Pause,
    GiveUp(Unreachable),
}

impl Search {
    pub fn new(now: Duration, known: &Known) -> Self {
        let mut search = Self {
            started: now,
            round: VecDeque::new(),
            tried: Vec::new(),
            backoff: Backoff::new(),
            until: None,
            hints: 0,
        };
        search.begin_round(known);
        search
    }

    /// A search that begins with what a lost server said, not before `until`.
    pub fn after(
        now: Duration,
        known: &mut Known,
        lost: &str,
        said: Said,
        until: Duration,
    ) -> Self {
        let mut search = Self::new(now, known);
        search.said(known, lost, said.clone());
        search.begin_round(known);
        search.said(known, lost, said);
        search.until = Some(until);
        search
    }

    /// Counts from the time when its purpose was first waited for.
    pub fn since(mut self, started: Duration) -> Self {
        self.started = started;
        self
    }

    /// The server that answered last comes first; those that were silent come last, because to wait for a
    /// stopped node costs more than to ask all others.
    fn begin_round(&mut self, known: &Known) {
        let good = known.good.iter();
        let others = known
            .servers
            .iter()
            .filter(|server| known.good.as_ref() != Some(server));
        let (silent, heard): (Vec<_>, Vec<_>) = good.chain(others).cloned().partition(|server| {
            let last = self.tried.iter().find(|(tried, _)| tried == server);
            last.is_some_and(|(_, said)| matches!(said, Said::Silent | Said::Unanswered))
        });
        self.round = heard.into_iter().chain(silent).collect();
        self.hints = 0;
    }

    /// Ask this server next: it said something that changes the question.
    pub fn again(&mut self, server: &str) {
        self.round.push_front(server.to_owned());
    }

    /// The next server to ask, or the reason to give up: before the deadline that means that there is nobody.
    pub fn next(&mut self, now: Duration, deadline: Duration, known: &mut Known) -> Next {
        if self.round.is_empty() && self.until.is_none() {
            self.until = Some(self.backoff.pause(now, known).min(deadline));
        }
        if self.until.is_some_and(|until| now < until.min(deadline)) {
            return Next::Pause;
        }
        self.until = None;
        if self.round.is_empty() {
            self.begin_round(known);
        }
        match self.round.pop_front() {
            // Everyone is asked once, however short the time.
            Some(server) if now < deadline || !self.has_tried(&server) => Next::Ask(server),
            _ => Next::GiveUp(self.give_up(now)),
        }
    }

    pub fn paused_until(&self) -> Option<Duration> {
        self.until
    }

    fn has_tried(&self, server: &str) -> bool {
        self.tried.iter().any(|(tried, _)| tried == server)
    }

    pub fn said(&mut self, known: &mut Known, server: &str, said: Said) {
        if let Said::NotLeader {
            leader: Some(leader),
        } = &said
        {
            known.add(leader);
            // A search that learns of no others asks none.
            let is_known = known.servers.contains(leader);
            if self.hints < HINTS_MAX && leader != server && is_known {
                self.hints += 1;
                self.round.retain(|server| server != leader);
                self.round.push_front(leader.clone());
            }
        }
        match self.tried.iter_mut().find(|(tried, _)| tried == server) {
            Some(tried) => tried.1 = said,
            None => self.tried.push((server.to_owned(), said)),
        }
    }

    fn give_up(&self, now: Duration) -> Unreachable {
        Unreachable {
            of: None,
            after: now.saturating_sub(self.started),
            tried: self.tried.clone(),
        }
    }
}
