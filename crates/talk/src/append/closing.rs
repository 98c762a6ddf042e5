//! Ending a chain cleanly, by an exchange of its own.

use std::time::Duration;

use wire::told::{StreamEnd, StreamInfo};
use wire::{Answer, Ask, Code, StreamPlace};

use super::{AppendError, Appender, Closed, Lent, Phase, lent};
use crate::ask::{Asked, Inquiry, NoAnswer};
use crate::known::Known;
use crate::links::Input;
use crate::lookout::Lookout;
use crate::said::{Said, Timeouts, elsewhere};
use crate::search::Search;
use crate::seek::{Found, Seeker};

/// Closes the stream, all of which is acknowledged.
///
/// An answer may be lost and a leader may change in the middle, so whatever is not a plain
/// `closed` is settled by looking at the stream as the log has it.
#[derive(Debug)]
pub(super) struct Closing {
    seeker: Seeker,
    closed: Closed,
    at: StreamPlace,
    /// The server whose answer was none, and what the log says of the stream meanwhile.
    inquiry: Option<(String, Inquiry)>,
}

/// The log's word of a stream whose close was not confirmed.
enum Fate {
    Closed,
    /// It can still be closed.
    Open,
    /// It was cut at its whole length. It can be continued, and the continuation closed.
    Cut,
}

impl Closing {
    pub fn deadline(
        &self,
        until: Duration,
        timeouts: &Timeouts,
        lookout: &Lookout,
    ) -> Option<Duration> {
        match &self.inquiry {
            Some((_, inquiry)) => inquiry.deadline(until, timeouts, lookout),
            None => self.seeker.deadline(until, timeouts, lookout),
        }
    }
}

impl Appender {
    pub(super) fn begin_to_close(&mut self, now: Duration, known: &mut Known) {
        let (Some(chain), Some(writing)) = (&self.chain, &self.writing) else {
            return;
        };
        let position = self.progress.ring.acknowledged();
        let closed = Closed {
            stream: chain.first,
            last: chain.last,
            position,
        };
        let at = StreamPlace {
            stream: chain.last,
            position: position - chain.base,
        };
        let ask = Ask::Close {
            log: self.options.log.clone(),
            at,
        };
        let mut search = Search::new(now, known);
        search.again(&writing.server);
        self.phase = Phase::Closing(Box::new(Closing {
            seeker: Seeker::new(ask, search),
            closed,
            at,
            inquiry: None,
        }));
        self.lookout.disarm(&mut self.links);
        self.close_stream(now, known, &Input::Time);
    }

    pub(super) fn close_stream(&mut self, now: Duration, known: &mut Known, input: &Input) {
        let mut input = input;
        while let Phase::Closing(closing) = &mut self.phase {
            let until = self.progress.deadline(now, self.timeouts.total);
            let mut lent = lent!(self, now, known);
            if let Some((server, inquiry)) = &mut closing.inquiry {
                let Some(answer) = inquiry.handle(&mut lent, input, until) else {
                    return;
                };
                input = &Input::Time;
                let server = std::mem::take(server);
                closing.inquiry = None;
                let fate = fate(&server, &self.options.log, closing.at, answer);
                match fate {
                    // ‡ It said that it cannot be closed, and that it can: it is asked again after a pause, and not for ever.
                    Ok(Fate::Open) => {
                        closing.seeker.said(&mut lent, &server, Said::NotHere);
                        continue;
                    }
                    Ok(Fate::Closed) => {
                        let closed = closing.closed;
                        return self.finish(Ok(closed));
                    }
                    Ok(Fate::Cut) => return self.lose(now, known, Said::Lost),
                    Err(error) => return self.fail(error),
                }
            }
            let Some(found) = closing.seeker.handle(&mut lent, input, until) else {
                return;
            };
            input = &Input::Time;
            let (server, answer) = match found {
                Found::GaveUp(unreachable) => return self.fail(unreachable),
                Found::Unreached { server, said } | Found::Unanswered { server, said } => {
                    closing.seeker.said(&mut lent, &server, said);
                    closing.look(&lent, &self.options.log, server);
                    continue;
                }
                Found::Answered { server, answer } => (server, answer),
            };
            match answer {
                Answer::Closed(position) if position == closing.at.position => {
                    closing.seeker.hang_up(&mut lent);
                    lent.known.succeeded(&server);
                    let closed = closing.closed;
                    return self.finish(Ok(closed));
                }
                // It can be closed at its end alone: no other server would make that true.
                Answer::Closed(position) => {
                    closing.seeker.hang_up(&mut lent);
                    let at = closing.at;
                    let what = format!("a close at {at} is answered by one at {position}");
                    return self.fail(AppendError::Garbled { server, what });
                }
                Answer::Error(refusal) => match elsewhere(&refusal) {
                    Some(said) => closing.seeker.said(&mut lent, &server, said),
                    None => {
                        closing.seeker.hang_up(&mut lent);
                        closing.look(&lent, &self.options.log, server);
                    }
                },
                other => {
                    let what = other.to_line().trim_end().to_owned();
                    closing.seeker.said(&mut lent, &server, Said::Garbled(what));
                }
            }
        }
    }
}

impl Closing {
    fn look(&mut self, lent: &Lent, log: &str, server: String) {
        let ask = Ask::Streams {
            log: log.to_owned(),
            stale: false,
            after: None,
            limit: None,
        };
        self.inquiry = Some((server, Inquiry::new(lent.now, lent.known, ask)));
    }
}

fn fate(
    server: &str,
    log: &str,
    at: StreamPlace,
    answer: Result<Asked, NoAnswer>,
) -> Result<Fate, AppendError> {
    let garbled = |what: String| AppendError::Garbled {
        server: server.to_owned(),
        what,
    };
    let asked = match answer {
        Ok(asked) => asked,
        Err(NoAnswer::Unreachable(unreachable)) => return Err(unreachable.into()),
        Err(NoAnswer::Garbled { what, .. }) => return Err(garbled(what)),
    };
    let json = match asked.answer {
        Ok(json) => json,
        Err(refusal) if refusal.code == Code::UnknownLog => {
            let log = log.to_owned();
            return Err(AppendError::UnknownLog { log });
        }
        Err(refusal) => {
            let server = asked.server;
            return Err(AppendError::Refused { server, refusal });
        }
    };
    let streams: Vec<StreamInfo> =
        serde_json::from_str(&json).map_err(|error| garbled(error.to_string()))?;
    let name = at.stream.to_string();
    let Some(stream) = streams.into_iter().find(|stream| stream.name == name) else {
        return Err(AppendError::UnknownStream { stream: at.stream });
    };
    if stream.length != at.position {
        let length = stream.length;
        return Err(garbled(format!(
            "{name} has {length} bytes, not {}",
            at.position
        )));
    }
    if let Some(by) = stream.continued_by {
        return Err(AppendError::Superseded {
            by: by.parse().ok(),
        });
    }
    Ok(match stream.end {
        StreamEnd::Closed => Fate::Closed,
        StreamEnd::Open => Fate::Open,
        StreamEnd::Cut => Fate::Cut,
    })
}
