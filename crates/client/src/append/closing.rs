//! Ending a chain cleanly, by an exchange of its own.

use std::time::Instant;

use super::driver::{Driver, Over, finished};
use super::{AppendError, Closed};
use crate::admin::{AdminError, Part, StreamEnd};
use crate::answer::Answer;
use crate::cluster::{Said, Search, elsewhere};
use crate::line::StreamPlace;
use crate::lookout::OWED;
use crate::request::Request;

/// What the log says of a stream whose close was not confirmed.
enum Fate {
    Closed,
    /// It can still be closed.
    Open,
    /// It was cut at its whole length. It can be continued, and the continuation closed.
    Cut,
}

impl Driver {
    /// Closes the stream, all of which is acknowledged. `server` is asked first.
    ///
    /// An answer may be lost and a leader may change in the middle, so whatever is not a plain
    /// `closed` is settled by looking at the stream as the log has it.
    pub(super) fn close(&mut self, server: &str) -> Over {
        let cluster = self.cluster.clone();
        let mut search = Search::new(&cluster);
        search.again(server);
        let (closed, at) = {
            let state = self.shared.lock();
            let position = state.ring.acknowledged();
            let closed = Closed {
                stream: state.first,
                last: state.last,
                position,
            };
            let at = StreamPlace {
                stream: state.last,
                position: position - state.base,
            };
            (closed, at)
        };
        let request = Request::Close {
            log: self.chain.log.clone(),
            at,
        };
        loop {
            let deadline = match self.deadline() {
                Ok(deadline) => deadline,
                Err(over) => return over,
            };
            let server = match search.next(deadline) {
                Ok(server) => server,
                Err(error) => return finished(error),
            };
            match self.ask_to_close(&server, &request) {
                Ok(Answer::Closed(position)) if position == at.position => {
                    cluster.succeeded(&server);
                    return Over::Finished(Ok(closed));
                }
                Ok(Answer::Error(refusal)) => {
                    if let Some(said) = elsewhere(&refusal) {
                        search.said(&server, said);
                        continue;
                    }
                }
                Ok(other) => {
                    let what = other.to_line().trim_end().to_owned();
                    search.said(&server, Said::Garbled(what));
                    continue;
                }
                Err(said) => search.said(&server, said),
            }
            match self.fate(&server, at, deadline) {
                Ok(Fate::Closed) => return Over::Finished(Ok(closed)),
                Ok(Fate::Open) => {}
                Ok(Fate::Cut) => return Over::Lost(Said::Lost),
                Err(error) => return finished(error),
            }
        }
    }

    fn ask_to_close(&mut self, server: &str, request: &Request) -> Result<Answer, Said> {
        let timeouts = self.cluster.timeouts;
        let mut connection = self.cluster.reach(server)?;
        let asked = connection.ask(request, timeouts.silence);
        asked.map_err(|error| Said::from(&error))?;
        let deadline = Some(Instant::now() + timeouts.silence);
        let lookout = &mut self.lookout;
        let answer = lookout.answer(server, &mut connection, OWED, deadline);
        answer.map_err(|no_line| Said::from(&no_line))
    }

    fn fate(&self, server: &str, at: StreamPlace, deadline: Instant) -> Result<Fate, AppendError> {
        let garbled = |what: String| AppendError::Garbled {
            server: server.to_owned(),
            what,
        };
        let streams = match self
            .cluster
            .streams(&self.chain.log, Part::default(), deadline)
        {
            Ok(streams) => streams,
            Err(AdminError::Unreachable(unreachable)) => return Err(unreachable.into()),
            Err(AdminError::UnknownLog { log }) => return Err(AppendError::UnknownLog { log }),
            Err(AdminError::Refused { server, refusal }) => {
                return Err(AppendError::Refused { server, refusal });
            }
            Err(error) => return Err(garbled(error.to_string())),
        };
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
}
