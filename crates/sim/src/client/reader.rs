//! A reader that knows what it must see: an initial part of what was sent, with everything that
//! was acknowledged before it asked. It reads by the client that people use, and believes it nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use ops::{Completion, Machine, Op, Time};
use talk::{Input, Known, Link, Output, ReadError, ReadOptions, Said, Timeouts};
use wire::{Answer, Ask, ReadEnd};

use super::appender::known;
use super::chain::SharedChain;
use super::content;
use super::notary::came_too_late;
use super::phones::{Heard, Phones, since_start, time};
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct ReaderConfig {
    pub log: String,
    pub nodes: Vec<String>,
    /// Per million reads: answered by any node from what it knows.
    pub stale_ppm: u64,
    pub follow_ppm: u64,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
    /// Asks any node whether what is known is there, and never for bytes, until the chain is closed.
    pub probes: bool,
    /// Finish after a read from 0 to the end of a closed chain.
    pub until_closed: bool,
}

pub struct Reader {
    config: ReaderConfig,
    chain: SharedChain,
    random: Random,
    phones: Phones,
    state: State,
    read: Read,
    /// The place to go on from if the client gave up.
    resume_at: Option<u64>,
    bytes_checked: u64,
    counts: ReaderCounts,
}

/// Reads that came to their end; `resumed` counts those that went on after a lost connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    pub linearizable: u64,
    pub stale: u64,
    pub followed: u64,
    pub resumed: u64,
    /// Were told that what they asked for is trimmed.
    pub trimmed: u64,
}

/// A question, and its time.
#[derive(Clone, Debug, Default)]
struct Read {
    from: u64,
    /// Only where all up to it must be there.
    to: Option<u64>,
    stale: bool,
    follow: bool,
    /// Acknowledged or seen before the request was sent.
    known: u64,
    /// Known to be trimmed by then.
    trimmed: u64,
    /// The length in the last answer.
    length: u64,
    at: u64,
    /// The beginning of each connection's question, and the first line it heard.
    links: BTreeMap<Link, First>,
}

#[derive(Clone, Debug, Default)]
struct First {
    from: u64,
    heard: Vec<u8>,
    over: bool,
}

enum State {
    Resting { until: Time },
    Talking(Box<Talking>),
    Finished,
}

struct Talking {
    known: Known,
    machine: talk::Reader,
}

impl Default for ReaderConfig {
    fn default() -> ReaderConfig {
        ReaderConfig {
            log: "1".to_owned(),
            nodes: Vec::new(),
            stale_ppm: 200_000,
            follow_ppm: 200_000,
            rest_us: 1_000..300_000,
            patience_us: 10_000_000,
            probes: false,
            until_closed: true,
        }
    }
}

impl Reader {
    pub fn new(seed: u64, config: ReaderConfig, chain: SharedChain) -> Reader {
        Reader {
            random: Random::new(seed ^ 0x7265_6164),
            config,
            chain,
            phones: Phones::default(),
            state: State::Resting { until: Time::ZERO },
            read: Read::default(),
            resume_at: None,
            bytes_checked: 0,
            counts: ReaderCounts::default(),
        }
    }

    pub fn bytes_checked(&self) -> u64 {
        self.bytes_checked
    }

    pub fn log(&self) -> &str {
        &self.config.log
    }

    pub fn chain(&self) -> &SharedChain {
        &self.chain
    }

    pub fn counts(&self) -> ReaderCounts {
        self.counts
    }

    fn begin(&mut self, now: Time) {
        let chain = self.chain.borrow();
        let too_early = chain.first.is_none() || self.config.probes && chain.known() == 0;
        let too_late = self.config.probes && chain.closed;
        drop(chain);
        if too_late {
            self.state = State::Finished;
            return;
        }
        if too_early {
            return self.rest(now);
        }
        let first = self.choose();
        let silence = Duration::from_micros(self.config.patience_us);
        let timeouts = Timeouts {
            connect: Duration::from_secs(1).min(silence),
            silence,
            // A reader that probes asks one node, once.
            total: if self.config.probes {
                Duration::ZERO
            } else {
                3 * silence
            },
        };
        let options = ReadOptions {
            log: self.config.log.clone(),
            stream: Some(first.parse().expect("it was written as a name")),
            from: self.read.from,
            to: self.read.to,
            follow: self.read.follow,
            stale: self.read.stale,
        };
        let known = match self.config.probes {
            true => {
                let node = self.random.pick(&self.config.nodes).cloned();
                Known::new(node, self.random.draw()).alone()
            }
            false => known(&self.config.nodes, &mut self.random),
        };
        let machine = talk::Reader::new(since_start(now), &known, options, timeouts);
        self.state = State::Talking(Box::new(Talking { known, machine }));
        self.tell(now, &Input::Time);
    }

    /// Chooses the bytes to read; returns the name of the chain.
    fn choose(&mut self) -> String {
        let chain = self.chain.borrow();
        let from = match self.resume_at.take() {
            Some(position) => {
                self.counts.resumed += 1;
                position
            }
            None if self.config.probes => chain.known(),
            None if chain.closed || self.random.coin() => 0,
            None => self.random.below(chain.acknowledged + 1),
        };
        let stale = self.random.below(1_000_000) < self.config.stale_ppm;
        let bounded = !stale && from > 0 && self.random.below(4) == 0;
        let to = match self.config.probes {
            true => Some(from),
            false => bounded.then(|| self.random.within(&(from..chain.known().max(from) + 1))),
        };
        self.read = Read {
            from,
            to,
            stale,
            follow: self.random.below(1_000_000) < self.config.follow_ppm,
            known: chain.known(),
            trimmed: chain.trimmed,
            length: 0,
            at: from,
            links: BTreeMap::new(),
        };
        chain.first.clone().expect("it was looked at before")
    }

    fn rest(&mut self, now: Time) {
        self.phones.close_all(now);
        let rest_us = self.random.within(&self.config.rest_us);
        let until = now + Duration::from_micros(rest_us.max(1));
        self.state = State::Resting { until };
    }

    /// Tells the machine, does what it wants, and judges what it hands out.
    fn tell(&mut self, now: Time, input: &Input) {
        let mut input = input;
        loop {
            let State::Talking(talking) = &mut self.state else {
                return;
            };
            let Talking { known, machine } = &mut **talking;
            machine.handle(since_start(now), known, input);
            input = &Input::Time;
            while let Some(output) = machine.poll_output() {
                if let Output::Send(link, bytes) = &output {
                    let from = self.read.at;
                    self.read.on_said(*link, bytes, from);
                }
                self.phones.perform(now, &output);
            }
            let chunk = machine.chunk().to_vec();
            let at = machine.position();
            if chunk.is_empty() {
                break;
            }
            machine.consume(since_start(now), chunk.len());
            assert_eq!(at, self.read.at, "a gap or a repeat");
            self.check(&chunk);
        }
        let State::Talking(talking) = &self.state else {
            return;
        };
        let reconnects = talking.machine.reconnects();
        let (end, error) = (talking.machine.end(), talking.machine.error().cloned());
        if end.is_some() || error.is_some() {
            self.counts.resumed += reconnects;
        }
        match (end, error) {
            (Some(end), _) => self.end(now, end),
            (None, Some(error)) => self.failed(now, &error),
            (None, None) => {}
        }
    }

    fn check(&mut self, bytes: &[u8]) {
        let mut chain = self.chain.borrow_mut();
        let at = self.read.at;
        assert!(
            self.read.stale || at >= self.read.trimmed,
            "trimmed bytes are back: {at} of {:?}",
            self.read
        );
        let mut expected = vec![0; bytes.len()];
        content::fill(chain.client, at, &mut expected);
        let wrong = bytes.iter().zip(&expected).position(|(a, b)| a != b);
        if let Some(wrong) = wrong {
            let position = at + wrong as u64;
            panic!("another byte at {position} than was sent: {chain:?}");
        }
        self.read.at += bytes.len() as u64;
        chain.observe(self.read.at);
        self.bytes_checked += bytes.len() as u64;
    }

    fn end(&mut self, now: Time, end: ReadEnd) {
        let chain = self.chain.borrow();
        let read = &self.read;
        let least = read.to.unwrap_or(read.length);
        let complete = read.at >= least && read.to.is_none_or(|to| read.at == to);
        assert!(complete, "bytes are missing or too many: {end} of {read:?}");
        let closed = match end {
            ReadEnd::Closed => {
                assert!(chain.close_asked, "{end} of {chain:?}");
                assert_eq!(read.at, chain.total, "closed too early: {chain:?}");
                true
            }
            ReadEnd::To if read.to.is_some() => false,
            ReadEnd::Cut => false,
            ReadEnd::Open if !read.follow => false,
            _ => panic!("{end} in answer to {read:?}"),
        };
        drop(chain);
        let kind = match read.stale {
            true => &mut self.counts.stale,
            false => &mut self.counts.linearizable,
        };
        *kind += 1;
        self.counts.followed += u64::from(self.read.follow);
        self.resume_at = None;
        // From its beginning, or from what is left of it.
        let all = self.read.from <= self.chain.borrow().trimmed;
        if closed && all && self.config.until_closed {
            self.phones.close_all(now);
            self.state = State::Finished;
            return;
        }
        self.rest(now);
    }

    fn failed(&mut self, now: Time, error: &ReadError) {
        match error {
            ReadError::Trimmed { from } => {
                let from = *from;
                assert!(from > self.read.at, "{error} in answer to {:?}", self.read);
                self.chain.borrow_mut().left_from(from);
                self.counts.trimmed += 1;
                self.rest(now);
                self.resume_at = Some(from);
                return;
            }
            ReadError::Unreachable(_) | ReadError::UnknownLog { .. } => {}
            ReadError::PastEnd { .. } | ReadError::UnknownStream { .. } if self.read.stale => {}
            ReadError::Refused { refusal, .. } if came_too_late(refusal) => {}
            _ => panic!("{error} in answer to {:?}", self.read),
        }
        let goes_on = !self.config.probes && self.read.at > self.read.from;
        if goes_on && self.random.coin() {
            self.resume_at = Some(self.read.at);
        }
        self.rest(now);
    }

    fn hear(&mut self, now: Time, heard: Heard) {
        match heard {
            Heard::Sent => {}
            Heard::Connected(link) => self.tell(now, &Input::Connected(link)),
            Heard::Received(link, bytes, ended) => {
                if let Some(length) = self.read.on_heard(link, &bytes) {
                    self.chain.borrow_mut().observe(length);
                }
                self.tell(now, &Input::Received(link, bytes.into()));
                if ended {
                    self.tell(now, &Input::Lost(link, Said::Lost));
                }
            }
            Heard::Lost(link, said) => self.tell(now, &Input::Lost(link, said)),
        }
    }
}

impl Read {
    /// A request goes on where the last byte was seen.
    fn on_said(&mut self, link: Link, line: &[u8], at: u64) {
        let mut request = wire::Request::parse(line).expect("a request is a line of the grammar");
        request.take("cluster");
        if let Ask::Read { from, .. } = Ask::read(&request).expect("it is a client's request") {
            assert_eq!(from, at, "a gap or a repeat");
            let first = First {
                from,
                ..First::default()
            };
            self.links.insert(link, first);
        }
    }

    /// The first line says what is there: the length.
    fn on_heard(&mut self, link: Link, bytes: &[u8]) -> Option<u64> {
        let first = self.links.get_mut(&link).filter(|first| !first.over)?;
        first.heard.extend_from_slice(bytes);
        let end = first.heard.iter().position(|byte| *byte == b'\n')?;
        let answer = Answer::parse(&first.heard[..end]);
        let from = first.from;
        *first = First {
            from,
            heard: Vec::new(),
            over: true,
        };
        let Ok(Answer::Reading {
            from: said, length, ..
        }) = answer
        else {
            return None;
        };
        assert_eq!(said, from, "reading from {said}");
        assert!(
            self.stale || length >= self.known,
            "acknowledged bytes are missing: {length} of {self:?}"
        );
        self.length = length;
        Some(length)
    }
}

impl Machine for Reader {
    fn handle(&mut self, now: Time, completion: Completion) {
        if let Some(heard) = self.phones.handle(completion) {
            self.hear(now, heard);
        }
    }

    fn on_time(&mut self, now: Time) {
        while let Some(late) = self.phones.late(now) {
            self.hear(now, late);
        }
        match self.state {
            State::Resting { until } if until <= now => self.begin(now),
            State::Resting { .. } | State::Finished => {}
            State::Talking(_) => self.tell(now, &Input::Time),
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.phones.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        let due = match &self.state {
            State::Finished => return None,
            State::Resting { until } => return Some(*until),
            State::Talking(talking) => talking
                .machine
                .deadline()
                .map_or(Time::from_micros(u64::MAX), time),
        };
        let late = self.phones.deadline();
        Some(late.map_or(due, |late| late.min(due)))
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }
}
