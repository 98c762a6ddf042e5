//! Reading: checked chunks, in order, each once, across changes of leader.

mod error;
mod hearing;

use std::time::Duration;

use paxos::mutation::{self, Mutation};
use wire::{Answer, Ask, Code, Format, ReadEnd, Refusal, StreamName};

use crate::known::Known;
use crate::links::{Input, Lines, Link, Links, Output};
use crate::lookout::Lookout;
use crate::owed::Owed;
use crate::said::{Said, Timeouts, elsewhere};
use crate::search::{Backoff, Search};
use crate::seek::{Found, Lent, Seeker};

pub use error::ReadError;

/// The bytes that are to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    pub log: String,
    /// The first stream of the chain to read. `None`: all outputs of the log, one after the other.
    pub stream: Option<StreamName>,
    /// The first position, in bytes of that chain.
    pub from: u64,
    /// The position after the last one.
    pub to: Option<u64>,
    /// Wait for more until the chain is closed or cut, or `to` is reached.
    pub follow: bool,
    /// Any node may answer, from what it knows to be chosen; that may be less than there is.
    pub stale: bool,
}

/// Reads a chain of streams, or a whole log.
///
/// Hands out only bytes whose checksum it verified. When its server is lost or no longer leads, it
/// goes on elsewhere at the position it reached: no gap and no repeat.
///
/// Nothing is heard while a chunk waits to be consumed: a caller that receives only from connections
/// that [`Reader::hears`] lets the kernel hold the server back.
#[derive(Debug)]
pub struct Reader {
    links: Links,
    /// The lookout. It looks out for nobody if any node may answer: then no leader is needed.
    lookout: Lookout,
    timeouts: Timeouts,
    options: ReadOptions,
    phase: Phase,
    /// The verified chunk, of which `chunk[taken..]` was not consumed yet.
    chunk: Vec<u8>,
    taken: usize,
    /// The position after the chunk.
    position: u64,
    length: u64,
    began: bool,
    end: Option<ReadEnd>,
    error: Option<ReadError>,
    /// Since when somebody waits for bytes, or when a node last said that there are none.
    progress: Duration,
    /// Between conversations that bring nothing.
    backoff: Backoff,
    reconnects: u64,
}

#[derive(Debug)]
enum Phase {
    Seeking {
        seeker: Box<Seeker>,
        until: Duration,
        /// After a loss: another node may know less than the one that was lost.
        resumes: bool,
    },
    Reading(Reading),
    Over,
}

/// The conversation with one server.
#[derive(Debug)]
struct Reading {
    server: String,
    link: Link,
    lines: Lines,
    began: Duration,
    /// The next line, or the next bytes of a chunk.
    owed: Owed,
    body: Option<Body>,
    /// It ended while a chunk was not consumed.
    lost: Option<Said>,
    /// Room for a chunk, kept from one to the next.
    room: Vec<u8>,
}

/// A chunk on its way. Until it is whole and verified nobody may see it.
#[derive(Debug)]
struct Body {
    bytes: Vec<u8>,
    filled: usize,
    crc32c: u32,
}

impl Reader {
    /// Begins to look for a server that answers.
    pub fn new(now: Duration, known: &Known, options: ReadOptions, timeouts: Timeouts) -> Self {
        let log = (!options.stale).then_some(options.log.as_str());
        let mut reader = Self {
            links: Links::default(),
            lookout: Lookout::new(log),
            timeouts,
            phase: Phase::Over,
            chunk: Vec::new(),
            taken: 0,
            position: options.from,
            length: 0,
            began: false,
            end: None,
            error: None,
            progress: now,
            backoff: Backoff::graceful(),
            reconnects: 0,
            options,
        };
        reader.phase = Phase::Seeking {
            seeker: Box::new(Seeker::new(reader.ask(), Search::new(now, known))),
            until: now + timeouts.total,
            resumes: false,
        };
        reader
    }

    /// Takes in what happened. Afterwards [`Reader::poll_output`] says what to do.
    pub fn handle(&mut self, now: Duration, known: &mut Known, input: &Input) {
        match self.phase {
            Phase::Seeking { .. } => self.seek(now, known, input),
            Phase::Reading(_) => self.converse(now, known, input),
            Phase::Over => {}
        }
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.links.poll()
    }

    /// When [`Reader::handle`] is to be called with [`Input::Time`] at the latest. While a chunk waits to be
    /// consumed nothing is owed.
    pub fn deadline(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Seeking { seeker, until, .. } => {
                seeker.deadline(*until, &self.timeouts, &self.lookout)
            }
            Phase::Reading(reading) if self.chunk().is_empty() => {
                let patience = match self.lookout.is_armed() {
                    true => self.silence(reading),
                    false => self.patience(reading).min(self.silence(reading)),
                };
                let owed = reading.owed.since().saturating_add(patience);
                Some(self.lookout.deadline().map_or(owed, |look| look.min(owed)))
            }
            Phase::Reading(_) | Phase::Over => None,
        }
    }

    /// Whether bytes of this connection are wanted now.
    pub fn hears(&self, link: Link) -> bool {
        match &self.phase {
            Phase::Reading(reading) if reading.link == link => self.chunk().is_empty(),
            _ => true,
        }
    }

    /// A server has said that it can answer.
    pub fn has_begun(&self) -> bool {
        self.began
    }

    /// Verified bytes that were not consumed. If there are none, and no error, more is to come, unless there
    /// is an end.
    pub fn chunk(&self) -> &[u8] {
        &self.chunk[self.taken..]
    }

    /// Notes that so many bytes of the chunk were used.
    pub fn consume(&mut self, now: Duration, count: usize) {
        self.taken = (self.taken + count).min(self.chunk.len());
        if self.taken == self.chunk.len() {
            self.want(now);
        }
    }

    /// Somebody waits for bytes from now on. Time counts while somebody does, not while the last ones were
    /// used.
    pub fn want(&mut self, now: Duration) {
        self.progress = now;
        if let Phase::Reading(reading) = &mut self.phase {
            reading.owed = Owed::from(now);
        }
    }

    /// The position of the next byte of [`Reader::chunk`].
    pub fn position(&self) -> u64 {
        self.position - self.chunk().len() as u64
    }

    /// The number of bytes of the chain that were known chosen when the present server was asked.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The end of the chain, once it came.
    pub fn end(&self) -> Option<ReadEnd> {
        self.end
    }

    /// Why the read is over before its end.
    pub fn error(&self) -> Option<&ReadError> {
        self.error.as_ref()
    }

    /// The number of times that another server, or the same one again, had to be asked.
    pub fn reconnects(&self) -> u64 {
        self.reconnects
    }

    fn ask(&self) -> Ask {
        Ask::Read {
            log: self.options.log.clone(),
            stream: self.options.stream,
            from: self.position,
            to: self.options.to,
            follow: self.options.follow,
            stale: self.options.stale,
            format: Format::Framed,
        }
    }

    fn fail(&mut self, error: ReadError) {
        self.leave();
        self.error = Some(error);
    }

    /// The conversation, if there is one, is over.
    fn leave(&mut self) {
        self.lookout.disarm(&mut self.links);
        if let Phase::Reading(reading) = std::mem::replace(&mut self.phase, Phase::Over) {
            self.links.close(reading.link);
        }
    }

    /// Finds a server that answers from the position on.
    fn seek(&mut self, now: Duration, known: &mut Known, input: &Input) {
        let mut input = input;
        while let Phase::Seeking {
            seeker,
            until,
            resumes,
        } = &mut self.phase
        {
            let mut lent = Lent {
                now,
                known: &mut *known,
                links: &mut self.links,
                lookout: &mut self.lookout,
                timeouts: &self.timeouts,
            };
            let Some(found) = seeker.handle(&mut lent, input, *until) else {
                return;
            };
            input = &Input::Time;
            let (server, answer) = match found {
                Found::GaveUp(unreachable) => return self.fail(unreachable.into()),
                Found::Unreached { server, said } | Found::Unanswered { server, said } => {
                    seeker.said(&mut lent, &server, said);
                    continue;
                }
                Found::Answered { server, answer } => (server, answer),
            };
            match answer {
                Answer::Reading { stale: true, .. } if !self.options.stale => {
                    seeker.hang_up(&mut lent);
                    let what = "what may be stale, and that was not asked for".to_owned();
                    return self.fail(ReadError::Garbled { server, what });
                }
                Answer::Reading { from, length, .. } if from == self.position => {
                    let Some((link, lines)) = seeker.take() else {
                        return;
                    };
                    known.succeeded(&server);
                    self.length = length;
                    self.began = true;
                    self.phase = Phase::Reading(Reading {
                        server,
                        link,
                        lines,
                        began: now,
                        owed: Owed::from(now),
                        body: None,
                        lost: None,
                        room: Vec::new(),
                    });
                    return self.converse(now, known, &Input::Time);
                }
                Answer::Reading { from, .. } => {
                    seeker.hang_up(&mut lent);
                    let what = format!(
                        "a read from {from}, where one from {} was asked for",
                        self.position
                    );
                    return self.fail(ReadError::Garbled { server, what });
                }
                Answer::Error(refusal) => match elsewhere(&refusal) {
                    // Whoever may ask this node alone, and would take what it knows, hears that it does not have the log.
                    Some(_)
                        if self.options.stale
                            && lent.known.is_alone()
                            && is_elsewhere(&refusal) =>
                    {
                        seeker.hang_up(&mut lent);
                        let error = error::refused(&self.options, self.position, &server, refusal);
                        return self.fail(error);
                    }
                    Some(said) => seeker.said(&mut lent, &server, said),
                    // Another node may know less than the one that was lost: later it will.
                    None if *resumes && refusal.code == Code::PastEnd => {
                        seeker.said(&mut lent, &server, Said::NotHere);
                    }
                    None => {
                        seeker.hang_up(&mut lent);
                        let error = error::refused(&self.options, self.position, &server, refusal);
                        return self.fail(error);
                    }
                },
                other => {
                    let what = other.to_line().trim_end().to_owned();
                    seeker.said(&mut lent, &server, Said::Garbled(what));
                }
            }
        }
    }

    /// The server is lost: the read goes on elsewhere.
    fn lose(&mut self, now: Duration, known: &mut Known, said: Said) {
        let (server, began) = match &self.phase {
            Phase::Reading(reading) => (reading.server.clone(), reading.began),
            _ => return,
        };
        self.leave();
        self.position += u64::from(mutation::is(Mutation::ReadOnPastItsPlace));
        self.reconnects += 1;
        if !self.is_owed_bytes() && now.saturating_sub(began) > self.timeouts.silence {
            // Nothing was owed, perhaps for hours; the search's time begins now.
            self.progress = now;
        }
        let pause = self.backoff.pause(now, known);
        let search = Search::after(now, known, &server, said, pause).since(self.progress);
        self.phase = Phase::Seeking {
            seeker: Box::new(Seeker::new(self.ask(), search)),
            until: self.progress + self.timeouts.total,
            resumes: true,
        };
        self.seek(now, known, &Input::Time);
    }
}

/// Whether a node names another one for a read that any node of the log would answer: it does not host the log.
fn is_elsewhere(refusal: &Refusal) -> bool {
    refusal.code == Code::NotLeader && refusal.value::<String>("leader").is_some()
}
