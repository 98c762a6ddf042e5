//! One question that any server which can answer it answers with one line.

use std::time::Duration;

use wire::{Answer, Ask, Refusal};

use crate::known::Known;
use crate::links::{Input, Links, Output};
use crate::lookout::Lookout;
use crate::said::{Said, Timeouts, Unreachable, elsewhere};
use crate::search::Search;
use crate::seek::{Found, Lent, Seeker};

/// An answer, and how it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub server: String,
    /// JSON, or a position.
    pub answer: Result<String, Refusal>,
    /// An earlier attempt may have been carried out: its connection broke after the question.
    pub answer_lost: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum NoAnswer {
    Unreachable(Unreachable),
    Garbled { server: String, what: String },
}

/// Asks until a server answers with more than "elsewhere" or "later".
#[derive(Debug)]
pub(crate) struct Inquiry {
    seeker: Seeker,
    answer_lost: bool,
}

/// An [`Inquiry`] as a machine of its own.
#[derive(Debug)]
pub struct Asker {
    links: Links,
    lookout: Lookout,
    timeouts: Timeouts,
    inquiry: Inquiry,
    until: Duration,
    outcome: Option<Result<Asked, NoAnswer>>,
}

/// The log whose leader alone can answer, where others can name that leader. A question without a log is
/// answered by any node: nobody else could say that this one is wrong.
fn led(ask: &Ask) -> Option<&str> {
    match ask {
        Ask::Streams {
            log, stale: false, ..
        }
        | Ask::Trim { log, .. }
        | Ask::Scrub {
            log, start: true, ..
        }
        | Ask::Lead { log, .. } => Some(log),
        _ => None,
    }
}

impl Inquiry {
    pub fn new(now: Duration, known: &Known, ask: Ask) -> Self {
        Self {
            seeker: Seeker::new(ask, Search::new(now, known)),
            answer_lost: false,
        }
    }

    pub fn deadline(
        &self,
        until: Duration,
        timeouts: &Timeouts,
        lookout: &Lookout,
    ) -> Option<Duration> {
        self.seeker.deadline(until, timeouts, lookout)
    }

    pub fn handle(
        &mut self,
        lent: &mut Lent,
        input: &Input,
        until: Duration,
    ) -> Option<Result<Asked, NoAnswer>> {
        let mut input = input;
        while let Some(found) = self.seeker.handle(lent, input, until) {
            input = &Input::Time;
            if let Some(outcome) = self.on_found(lent, found) {
                self.seeker.hang_up(lent);
                return Some(outcome);
            }
        }
        None
    }

    fn on_found(&mut self, lent: &mut Lent, found: Found) -> Option<Result<Asked, NoAnswer>> {
        let (server, answer) = match found {
            Found::GaveUp(unreachable) => {
                let of = self.seeker.ask.leader_of();
                let unreachable = Unreachable { of, ..unreachable };
                return Some(Err(NoAnswer::Unreachable(unreachable)));
            }
            Found::Unreached { server, said } => {
                self.seeker.said(lent, &server, said);
                return None;
            }
            Found::Unanswered { server, said } => {
                self.answer_lost = true;
                let said = match said {
                    Said::Silent => Said::Unanswered,
                    other => other,
                };
                self.seeker.said(lent, &server, said);
                return None;
            }
            Found::Answered { server, answer } => (server, answer),
        };
        let answer = match answer {
            Answer::Ok(json) => Ok(json),
            Answer::Closed(position) => Ok(position.to_string()),
            Answer::Error(refusal) => match elsewhere(&refusal) {
                Some(said) => {
                    // A node that stopped leading in the middle may have begun it.
                    let began = refusal.value::<String>("log").is_some();
                    self.answer_lost |=
                        began || matches!(said, Said::NoQuorum | Said::ShuttingDown);
                    self.seeker.said(lent, &server, said);
                    return None;
                }
                None => Err(refusal),
            },
            other => {
                let what = other.to_line().trim_end().to_owned();
                return Some(Err(NoAnswer::Garbled { server, what }));
            }
        };
        lent.known.succeeded(&server);
        Some(Ok(Asked {
            server,
            answer,
            answer_lost: self.answer_lost,
        }))
    }
}

impl Asker {
    /// It gives up at `until`, but asks every server once.
    pub fn new(
        now: Duration,
        known: &Known,
        ask: Ask,
        timeouts: Timeouts,
        until: Duration,
    ) -> Self {
        Self {
            links: Links::default(),
            lookout: Lookout::new(led(&ask)),
            timeouts,
            inquiry: Inquiry::new(now, known, ask),
            until,
            outcome: None,
        }
    }

    pub fn handle(&mut self, now: Duration, known: &mut Known, input: &Input) {
        if self.outcome.is_some() {
            return;
        }
        let mut lent = Lent {
            now,
            known,
            links: &mut self.links,
            lookout: &mut self.lookout,
            timeouts: &self.timeouts,
        };
        self.outcome = self.inquiry.handle(&mut lent, input, self.until);
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.links.poll()
    }

    /// When it is to be called with [`Input::Time`].
    pub fn deadline(&self) -> Option<Duration> {
        let deadline = || {
            let inquiry = &self.inquiry;
            inquiry.deadline(self.until, &self.timeouts, &self.lookout)
        };
        self.outcome.is_none().then(deadline).flatten()
    }

    /// The answer, once.
    pub fn outcome(&mut self) -> Option<Result<Asked, NoAnswer>> {
        self.outcome.take()
    }
}
