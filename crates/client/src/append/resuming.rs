//! Going on after a loss: where the chain's next stream has to begin, and who leads there.

use std::net::Shutdown;
use std::time::Instant;

use super::AppendError;
use super::driver::{Driver, Over, finished};
use super::opening::{Attempt, Opened, attempt};
use crate::answer::{Code, Refusal};
use crate::cluster::{Said, Search};
use crate::connection::Connection;
use crate::line::{StreamName, StreamPlace};
use crate::request::Mode;

/// How often a resumption may be told another length before it counts as nonsense. Each lost
/// answer can cost one.
const LESSONS_MAX: u32 = 64;
/// How many streams of the chain are remembered as ours. A node that was away may take one for
/// active until it hears that we left it; each change of leader meanwhile makes it one older.
const WROTE_MAX: usize = 64;

impl Driver {
    /// Finds the leader and continues the chain there.
    pub(super) fn resume(&mut self, lost: &str, said: Said) -> Result<Opened, Over> {
        let cluster = self.cluster.clone();
        // Each attempt below may open a stream, so a server that takes and drops us is not asked
        // in a tight loop.
        let deadline = self.deadline()?;
        self.backoff.pause(deadline);
        let mut search = Search::after(&cluster, lost, said);
        let mut resumption = {
            let mut state = self.shared.lock();
            state.statistics.reconnects += 1;
            let position = state.ring.acknowledged() - state.base;
            let stream = state.last;
            Resumption::new(StreamPlace { stream, position }, state.base)
        };
        let mut lessons = 0;
        let mut busy = None;
        loop {
            let deadline = self.deadline()?;
            let server = search.next(deadline).map_err(|unreachable| {
                finished(busy.clone().unwrap_or(AppendError::from(unreachable)))
            })?;
            let request = self
                .chain
                .request(Some(resumption.place), resume_mode(self.chain.mode));
            let shared = &self.shared;
            let connected = |connection: &Connection| {
                let mut state = shared.lock();
                state.connection = connection.stream().try_clone().ok();
                if state.abandoned {
                    let _ = connection.stream().shutdown(Shutdown::Both);
                }
            };
            // The other writer is alive and its turn is not over: that is no fault of the cluster.
            let progress = &mut self.progress;
            let waiting = || *progress = Instant::now();
            let lookout = &mut self.lookout;
            match attempt(&cluster, lookout, &server, &request, connected, waiting) {
                Attempt::Opened(opened) => return self.resumed(opened, &resumption),
                Attempt::Elsewhere(said) => search.said(&server, said),
                Attempt::Unknown(said) => {
                    resumption.answer_lost = true;
                    search.said(&server, said);
                }
                Attempt::Refused(refusal) => match refusal.code {
                    Code::Continues => match resumption.on_refused(&refusal) {
                        Lesson::SafeBelow(position) => {
                            self.safe_below(position, &server)?;
                            lessons += 1;
                            match lessons {
                                ..=LESSONS_MAX => search.again(&server),
                                _ => search.said(
                                    &server,
                                    Said::Garbled("new lengths on and on".to_owned()),
                                ),
                            }
                        }
                        Lesson::Superseded(by) => {
                            return Err(finished(AppendError::Superseded { by }));
                        }
                        Lesson::Nonsense(what) => search.said(&server, Said::Garbled(what)),
                    },
                    Code::Busy => {
                        let by = refusal.value("stream");
                        let superseded = AppendError::Superseded { by };
                        let ours = by.is_some_and(|by| {
                            by == resumption.place.stream || self.wrote.contains(&by)
                        });
                        if !resumption.answer_lost && !ours {
                            return Err(finished(superseded));
                        }
                        // It may be our own attempt, or our stream of before a node was lost that
                        // leads again, whose connection that node still has to miss.
                        search.said(&server, Said::Busy);
                        busy = Some(superseded);
                    }
                    _ => return Err(finished(self.chain.final_error(&server, refusal))),
                },
            }
        }
    }

    fn safe_below(&mut self, position: u64, server: &str) -> Result<(), Over> {
        let now = Instant::now();
        let mut state = self.shared.lock();
        let before = state.ring.acknowledged();
        if !state.ring.resume_at(position) {
            let (low, high) = (before, state.ring.sent_max());
            return Err(finished(AppendError::Garbled {
                server: server.to_owned(),
                what: format!(
                    "the log ends at {position}, but {low} was acknowledged and {high} sent"
                ),
            }));
        }
        if position > before {
            drop(state);
            self.made_progress(position, now);
        }
        Ok(())
    }

    fn resumed(&mut self, opened: Opened, resumption: &Resumption) -> Result<Opened, Over> {
        let position = resumption.position();
        let mut state = self.shared.lock();
        if opened.at != position || !state.ring.resume_at(position) {
            return Err(finished(AppendError::Garbled {
                server: opened.server.clone(),
                what: format!("it continues at {} what ends at {position}", opened.at),
            }));
        }
        if self.wrote.len() == WROTE_MAX {
            self.wrote.pop_front();
        }
        self.wrote.push_back(state.last);
        state.last = opened.name;
        state.base = opened.at;
        state.statistics.streams_opened += 1;
        drop(state);
        Ok(opened)
    }
}

/// How a chain finds its way on: where the next stream has to begin.
///
/// The opening of a stream whose answer was lost may have taken effect. No bytes are sent before
/// the answer, so such a stream is empty, and is continued at 0 in its turn; a stream that is not
/// empty is another writer's.
#[derive(Debug)]
struct Resumption {
    /// The stream to continue, and where.
    place: StreamPlace,
    /// The chain position at which `place.stream` begins.
    base: u64,
    /// `place.stream` is one that we may have opened without hearing of it.
    supposed: bool,
    answer_lost: bool,
}

/// What a refusal to continue teaches.
#[derive(Debug, PartialEq, Eq)]
enum Lesson {
    /// Ask again; everything below this chain position is safe.
    SafeBelow(u64),
    /// Another writer has the chain.
    Superseded(Option<StreamName>),
    /// The refusal makes no sense.
    Nonsense(String),
}

impl Resumption {
    fn new(place: StreamPlace, base: u64) -> Self {
        Self {
            place,
            base,
            supposed: false,
            answer_lost: false,
        }
    }

    fn position(&self) -> u64 {
        self.base + self.place.position
    }

    /// Learns from `error continues length=L by=NAME`.
    fn on_refused(&mut self, refusal: &Refusal) -> Lesson {
        let Some(length) = refusal.value::<u64>("length") else {
            return Lesson::Nonsense("a refusal to continue without a length".to_owned());
        };
        let by = refusal.value::<StreamName>("by");
        if self.supposed && length > 0 {
            return Lesson::Superseded(Some(self.place.stream));
        }
        if by.is_some() && !self.answer_lost {
            return Lesson::Superseded(by);
        }
        let Some(safe) = self.base.checked_add(length) else {
            return Lesson::Nonsense(format!("a stream of {length} bytes"));
        };
        match by {
            Some(stream) => {
                self.base = safe;
                self.place = StreamPlace {
                    stream,
                    position: 0,
                };
                self.supposed = true;
            }
            None if length == self.place.position => {
                return Lesson::Nonsense(format!("{} refused at its very length", self.place));
            }
            None => self.place.position = length,
        }
        Lesson::SafeBelow(safe)
    }
}

/// The mode in which a chain is resumed. Who took over once does not do so again: the writer who
/// came meanwhile may have taken over from us, and was right to.
fn resume_mode(mode: Mode) -> Mode {
    match mode {
        Mode::Wait => Mode::Wait,
        Mode::Refuse | Mode::TakeOver => Mode::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(counter: u64) -> StreamName {
        StreamName {
            owner: 1,
            incarnation: 1,
            counter,
        }
    }

    /// Stream 1 begins at 1000 of the chain and was acknowledged up to 10.
    fn resumption(answer_lost: bool) -> Resumption {
        let place = StreamPlace {
            stream: name(1),
            position: 10,
        };
        Resumption {
            answer_lost,
            ..Resumption::new(place, 1000)
        }
    }

    fn refusal(length: u64, by: Option<u64>) -> Refusal {
        let refusal = Refusal::new(Code::Continues, "").key("length", length);
        match by {
            Some(counter) => refusal.key("by", name(counter)),
            None => refusal,
        }
    }

    #[test]
    fn a_longer_stream_is_continued_at_its_end() {
        let mut resumption = resumption(false);
        let lesson = resumption.on_refused(&refusal(25, None));
        assert_eq!(lesson, Lesson::SafeBelow(1025));
        assert_eq!(resumption.place.to_string(), "1.1.1@25");
        assert_eq!(resumption.position(), 1025);
    }

    #[test]
    fn a_stream_we_may_have_opened_is_continued_at_0() {
        let mut resumption = resumption(true);
        let lesson = resumption.on_refused(&refusal(25, Some(2)));
        assert_eq!(lesson, Lesson::SafeBelow(1025));
        assert_eq!(resumption.place.to_string(), "1.1.2@0");
        assert_eq!(resumption.position(), 1025);
    }

    #[test]
    fn a_stream_with_bytes_is_not_ours() {
        let mut resumption = resumption(true);
        resumption.on_refused(&refusal(25, Some(2)));
        let lesson = resumption.on_refused(&refusal(1, None));
        assert_eq!(lesson, Lesson::Superseded(Some(name(2))));
    }

    #[test]
    fn who_lost_no_answer_knows_a_continuation_for_anothers() {
        let lesson = resumption(false).on_refused(&refusal(10, Some(2)));
        assert_eq!(lesson, Lesson::Superseded(Some(name(2))));
    }

    #[test]
    fn a_refusal_that_teaches_nothing_is_nonsense() {
        for refusal in [
            refusal(10, None),
            refusal(u64::MAX, None),
            Refusal::new(Code::Continues, ""),
        ] {
            let lesson = resumption(false).on_refused(&refusal);
            assert!(matches!(lesson, Lesson::Nonsense(_)), "{lesson:?}");
        }
    }
}
