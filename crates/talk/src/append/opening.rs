//! Opening a stream: the first of a chain, or one that continues the chain after a loss.

use std::time::Duration;

use paxos::mutation::{self, Mutation};
use wire::{Answer, Ask, Code, Mode, Refusal, StreamName, StreamPlace};

use super::error::final_error;
use super::resumption::{Lesson, Resumption, resume_mode};
use super::{AppendError, AppendOptions, Appender, Chain, Lent, Phase, Writing, lent};
use crate::known::Known;
use crate::links::Input;
use crate::lookout::{Lookout, SIGN_OF_LIFE};
use crate::said::{Said, Timeouts, Unreachable, elsewhere};
use crate::search::Search;
use crate::seek::{Found, Seeker};

/// The number of times that a resumption may be told another length before it counts as nonsense. Each lost
/// answer can cost one.
const LESSONS_MAX: u32 = 64;
/// The number of the chain's streams that are remembered as ours. A node that was away may take one for
/// active until it hears that we left it; each change of leader meanwhile makes it one older.
const WROTE_MAX: usize = 64;

/// The first stream of an appender.
#[derive(Debug)]
pub(super) struct Opening {
    seeker: Seeker,
    until: Duration,
    answer_lost: bool,
    busy: Option<AppendError>,
}

/// The next one, after a loss.
#[derive(Debug)]
pub(super) struct Resuming {
    seeker: Seeker,
    resumption: Resumption,
    lessons: u32,
    busy: Option<AppendError>,
}

/// The result of asking one server to open a stream.
enum Attempt {
    /// The server waits for another writer.
    Waits(String),
    Opened {
        server: String,
        name: StreamName,
        at: u64,
    },
    /// Nothing was opened there.
    Elsewhere(String, Said),
    /// The question may have been understood, and the stream be open, but no answer came.
    Unknown(String, Said),
    Refused(String, Refusal),
    GaveUp(Unreachable),
}

fn attempt(found: Found) -> Attempt {
    let (server, answer) = match found {
        Found::GaveUp(unreachable) => return Attempt::GaveUp(unreachable),
        Found::Unreached { server, said } => return Attempt::Elsewhere(server, said),
        Found::Unanswered { server, said } => return Attempt::Unknown(server, said),
        Found::Answered { server, answer } => (server, answer),
    };
    match answer {
        Answer::Waiting => Attempt::Waits(server),
        Answer::Stream { name, at } => Attempt::Opened { server, name, at },
        Answer::Error(refusal) => {
            // A node that stopped leading in the middle names the stream that may be open.
            let began = refusal.value::<StreamName>("stream").is_some();
            match elsewhere(&refusal) {
                Some(said @ (Said::NoQuorum | Said::ShuttingDown)) => {
                    Attempt::Unknown(server, said)
                }
                Some(said) if began => Attempt::Unknown(server, said),
                Some(said) => Attempt::Elsewhere(server, said),
                None => Attempt::Refused(server, refusal),
            }
        }
        other => {
            let what = other.to_line().trim_end().to_owned();
            Attempt::Unknown(server, Said::Garbled(what))
        }
    }
}

/// Only who asked to wait is told so.
fn waits_unasked(server: String) -> AppendError {
    let what = "it waits for another writer, which it was not asked to do".to_owned();
    AppendError::Garbled { server, what }
}

/// Leaves out what a node of an older program may not know. False if there is nothing of that.
fn speak_plainly(ask: &mut Ask) -> bool {
    match ask {
        Ask::Append { token, checked, .. } => {
            let had_token = token.take().is_some();
            std::mem::take(checked) || had_token
        }
        _ => false,
    }
}

impl Opening {
    pub fn new(
        now: Duration,
        known: &Known,
        options: &AppendOptions,
        timeouts: &Timeouts,
    ) -> Opening {
        let ask = Ask::Append {
            log: options.log.clone(),
            label: options.label.clone(),
            continues: options.continues,
            token: options.token.clone(),
            checked: options.checked,
            mode: options.mode,
            end: wire::ConnectionEnd::Cut,
        };
        Opening {
            seeker: Seeker::new(ask, Search::new(now, known)),
            until: now + timeouts.total,
            answer_lost: false,
            busy: None,
        }
    }

    pub fn deadline(&self, timeouts: &Timeouts, lookout: &Lookout) -> Option<Duration> {
        self.seeker.deadline(self.until, timeouts, lookout)
    }

    fn is_ours(&self, code: &Code) -> bool {
        // The active writer may be our own attempt, whose connection the node still has to
        // miss. It holds no bytes; it will be cut, and stay empty.
        *code == Code::Busy && self.answer_lost
    }
}

impl Resuming {
    pub fn deadline(
        &self,
        until: Duration,
        timeouts: &Timeouts,
        lookout: &Lookout,
    ) -> Option<Duration> {
        self.seeker.deadline(until, timeouts, lookout)
    }
}

impl Appender {
    pub(super) fn open(&mut self, now: Duration, known: &mut Known, input: &Input) {
        let mut input = input;
        while let Phase::Opening(opening) = &mut self.phase {
            let mut lent = lent!(self, now, known);
            let until = opening.until;
            let Some(found) = opening.seeker.handle(&mut lent, input, until) else {
                return;
            };
            input = &Input::Time;
            match attempt(found) {
                Attempt::Waits(server) if self.options.mode != Mode::Wait => {
                    let error = waits_unasked(server);
                    opening.seeker.hang_up(&mut lent);
                    return self.fail(error);
                }
                // What continues nothing begins at 0.
                Attempt::Opened { server, name, at }
                    if at > 0 && self.options.continues.is_none() =>
                {
                    opening.seeker.hang_up(&mut lent);
                    let what = format!("stream {name}, which is new, begins at {at}");
                    return self.fail(AppendError::Garbled { server, what });
                }
                Attempt::Waits(_) => {
                    opening.until = now + lent.timeouts.total;
                    opening.seeker.listen(now, SIGN_OF_LIFE);
                }
                Attempt::Opened { server, name, at } => {
                    let taken = opening.seeker.take();
                    let Some((link, lines)) = taken else {
                        return;
                    };
                    known.leads(&server, &self.options.log, name.owner);
                    self.progress.ring = self.options.ring(at);
                    self.progress.statistics.streams_opened = 1;
                    self.chain = Some(Chain {
                        first: name,
                        last: name,
                        base: at,
                        wrote: Default::default(),
                    });
                    self.begin_to_write(
                        now,
                        known,
                        Writing {
                            server,
                            link,
                            lines,
                        },
                    );
                }
                Attempt::Elsewhere(server, said) => opening.seeker.said(&mut lent, &server, said),
                Attempt::Unknown(server, said) => {
                    opening.answer_lost = true;
                    opening.seeker.said(&mut lent, &server, said);
                }
                Attempt::GaveUp(unreachable) => {
                    let error = opening.busy.take().unwrap_or(unreachable.into());
                    return self.fail(error);
                }
                Attempt::Refused(server, refusal)
                    if refusal.code == Code::BadRequest
                        && speak_plainly(&mut opening.seeker.ask) =>
                {
                    opening.seeker.again(&mut lent, &server);
                }
                Attempt::Refused(server, refusal) if opening.is_ours(&refusal.code) => {
                    opening.seeker.said(&mut lent, &server, Said::Busy);
                    opening.busy = Some(final_error(&self.options.log, &server, refusal));
                }
                Attempt::Refused(server, refusal) => {
                    opening.seeker.hang_up(&mut lent);
                    let error = self.refused(&server, refusal);
                    return self.fail(error);
                }
            }
        }
    }

    fn refused(&self, server: &str, refusal: Refusal) -> AppendError {
        match (&refusal.code, self.options.continues) {
            (Code::Continues, Some(place)) => AppendError::Continues {
                place,
                length: refusal.value("length").unwrap_or(0),
                by: refusal.value("by"),
            },
            (Code::UnknownStream, Some(place)) => AppendError::UnknownStream {
                stream: place.stream,
            },
            _ => final_error(&self.options.log, server, refusal),
        }
    }

    /// Finds the leader and continues the chain there.
    pub(super) fn begin_to_resume(
        &mut self,
        now: Duration,
        known: &mut Known,
        lost: &str,
        said: Said,
    ) {
        let Some(chain) = &self.chain else { return };
        let progress = &mut self.progress;
        progress.statistics.reconnects += 1;
        let place = StreamPlace {
            stream: chain.last,
            position: progress.ring.acknowledged() - chain.base,
        };
        let resumption = Resumption::new(place, chain.base);
        // Each attempt may open a stream, so a server that takes and drops us is not asked
        // in a tight loop.
        let until = progress.backoff.pause(now, known);
        let search = Search::after(now, known, lost, said, until);
        let ask = self.ask(Some(place), resume_mode(self.options.mode));
        self.phase = Phase::Resuming(Resuming {
            seeker: Seeker::new(ask, search),
            resumption,
            lessons: 0,
            busy: None,
        });
    }

    pub(super) fn resume(&mut self, now: Duration, known: &mut Known, input: &Input) {
        let mut input = input;
        while let Phase::Resuming(resuming) = &mut self.phase {
            let until = self.progress.deadline(now, self.timeouts.total);
            let mut lent = lent!(self, now, known);
            let Some(found) = resuming.seeker.handle(&mut lent, input, until) else {
                return;
            };
            input = &Input::Time;
            match attempt(found) {
                Attempt::Waits(server) if self.options.mode != Mode::Wait => {
                    let error = waits_unasked(server);
                    resuming.seeker.hang_up(&mut lent);
                    return self.fail(error);
                }
                Attempt::Waits(_) => {
                    // The other writer is alive and its turn is not over: that is no fault of the cluster.
                    self.progress.at = now;
                    resuming.seeker.listen(now, SIGN_OF_LIFE);
                }
                Attempt::Opened { server, name, at } => {
                    let taken = resuming.seeker.take();
                    let position = resuming.resumption.position();
                    let Some((link, lines)) = taken else {
                        return;
                    };
                    known.leads(&server, &self.options.log, name.owner);
                    let writing = Writing {
                        server,
                        link,
                        lines,
                    };
                    return self.resumed(now, known, writing, (name, at), position);
                }
                Attempt::Elsewhere(server, said) => resuming.seeker.said(&mut lent, &server, said),
                Attempt::Unknown(server, said) => {
                    resuming.resumption.answer_lost = true;
                    resuming.seeker.said(&mut lent, &server, said);
                }
                Attempt::GaveUp(unreachable) => {
                    let error = resuming.busy.take().unwrap_or(unreachable.into());
                    return self.fail(error);
                }
                Attempt::Refused(server, refusal) => match refusal.code {
                    Code::Continues => {
                        if let Err(error) = self.learn(now, known, &server, &refusal) {
                            return self.fail(error);
                        }
                    }
                    Code::Busy => {
                        let by = refusal.value("stream");
                        let superseded = AppendError::Superseded { by };
                        let chain = self.chain.as_ref();
                        let wrote = |by| chain.is_some_and(|chain| chain.wrote.contains(&by));
                        let place = resuming.resumption.place;
                        let ours = by.is_some_and(|by| by == place.stream || wrote(by));
                        if !resuming.resumption.answer_lost && !ours {
                            return self.fail(superseded);
                        }
                        // It may be our own attempt, or our stream of before a node was lost that
                        // leads again, whose connection that node still has to miss.
                        resuming.seeker.said(&mut lent, &server, Said::Busy);
                        resuming.busy = Some(superseded);
                    }
                    Code::BadRequest if speak_plainly(&mut resuming.seeker.ask) => {
                        resuming.seeker.again(&mut lent, &server);
                    }
                    _ => {
                        let error = final_error(&self.options.log, &server, refusal);
                        return self.fail(error);
                    }
                },
            }
        }
    }

    /// The chain goes on somewhere else than was asked.
    fn learn(
        &mut self,
        now: Duration,
        known: &mut Known,
        server: &str,
        refusal: &Refusal,
    ) -> Result<(), AppendError> {
        let Phase::Resuming(resuming) = &mut self.phase else {
            return Ok(());
        };
        let lesson = resuming.resumption.on_refused(refusal);
        let place = resuming.resumption.place;
        let mut lent = lent!(self, now, known);
        let position = match lesson {
            Lesson::SafeBelow(position) => position,
            Lesson::Superseded(by) => return Err(AppendError::Superseded { by }),
            Lesson::Nonsense(what) => {
                resuming.seeker.said(&mut lent, server, Said::Garbled(what));
                return Ok(());
            }
        };
        resuming.lessons += 1;
        match resuming.lessons {
            ..=LESSONS_MAX => resuming.seeker.again(&mut lent, server),
            _ => {
                let what = "new lengths on and on".to_owned();
                resuming.seeker.said(&mut lent, server, Said::Garbled(what));
            }
        }
        self.safe_below(now, position, server)?;
        let ask = self.ask(Some(place), resume_mode(self.options.mode));
        if let Phase::Resuming(resuming) = &mut self.phase {
            resuming.seeker.ask = ask;
        }
        Ok(())
    }

    fn safe_below(
        &mut self,
        now: Duration,
        position: u64,
        server: &str,
    ) -> Result<(), AppendError> {
        let ring = &mut self.progress.ring;
        let before = ring.acknowledged();
        if !ring.resume_at(position) {
            let (low, high) = (before, ring.sent_max());
            return Err(AppendError::Garbled {
                server: server.to_owned(),
                what: format!(
                    "the log ends at {position}, but {low} was acknowledged and {high} sent"
                ),
            });
        }
        if position > before {
            self.progress.acknowledged(now);
        }
        Ok(())
    }

    fn resumed(
        &mut self,
        now: Duration,
        known: &mut Known,
        writing: Writing,
        (name, at): (StreamName, u64),
        position: u64,
    ) {
        let Some(chain) = &mut self.chain else { return };
        let sent_more = self.progress.ring.sent_max() > position;
        let late = sent_more && mutation::is(Mutation::ResumedOneByteLate);
        let first = position + u64::from(late);
        if at != position || !self.progress.ring.resume_at(first) {
            let what = format!("it continues at {at} what ends at {position}");
            let server = writing.server.clone();
            self.links.close(writing.link);
            return self.fail(AppendError::Garbled { server, what });
        }
        if chain.wrote.len() == WROTE_MAX {
            chain.wrote.pop_front();
        }
        chain.wrote.push_back(chain.last);
        chain.last = name;
        chain.base = at;
        self.progress.statistics.streams_opened += 1;
        self.begin_to_write(now, known, writing);
    }
}
