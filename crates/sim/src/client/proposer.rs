//! A client that proposes one thing at a time, and notes how long each took.

use std::time::Duration;

use ops::{Completion, Machine, Op, Time};
use talk::{AppendOptions, Input, Known, Output, Said, Timeouts};

use super::appender::known;
use super::phones::{Heard, Phones, since_start, time};
use crate::random::Random;

/// Appends to a log in pieces of one size, each once the one before is acknowledged. It stays where it is when it has all its times.
pub struct Proposer {
    piece: Vec<u8>,
    count: usize,
    phones: Phones,
    known: Known,
    machine: talk::Appender,
    proposed_at: Option<Time>,
    times: Vec<Duration>,
    failure: Option<String>,
}

impl Proposer {
    /// `nodes`: `HOST:PORT` of each; `bytes` of a piece, and so many of them.
    pub fn new(
        (seed, now): (u64, Time),
        nodes: &[String],
        log: &str,
        (bytes, count): (usize, usize),
    ) -> Proposer {
        let known = known(nodes, &mut Random::new(seed));
        let options = AppendOptions::to(log);
        let timeouts = Timeouts {
            connect: Duration::from_secs(1),
            silence: Duration::from_secs(10),
            total: Duration::from_secs(60),
        };
        Proposer {
            piece: vec![b'v'; bytes],
            count,
            phones: Phones::default(),
            machine: talk::Appender::new(since_start(now), &known, options, timeouts),
            known,
            proposed_at: None,
            times: Vec::new(),
            failure: None,
        }
    }

    /// From each proposal until its last byte was acknowledged, so far.
    pub fn times(&self) -> &[Duration] {
        &self.times
    }

    /// The reason why there are no more. `None`: there is none.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn is_over(&self) -> bool {
        self.times.len() >= self.count || self.failure.is_some()
    }

    fn tell(&mut self, now: Time, input: &Input) {
        self.machine
            .handle(since_start(now), &mut self.known, input);
        if let Some(Err(error)) = self.machine.outcome() {
            self.failure = Some(error.to_string());
        }
        let said = self.machine.position();
        if self.machine.is_open() && self.machine.acknowledged() == said {
            if let Some(at) = self.proposed_at.take() {
                self.times.push(now - at);
            }
            if !self.is_over() {
                self.machine.write(&self.piece);
                self.machine.flush(self.machine.position());
                self.proposed_at = Some(now);
            }
        }
        while let Some(output) = self.machine.poll_output() {
            self.phones.perform(now, &output);
        }
        while let Some(Output::Send(link, bytes)) = self.machine.send_some() {
            self.phones.send(link, &bytes);
        }
    }

    fn hear(&mut self, now: Time, heard: Heard) {
        match heard {
            Heard::Sent => {}
            Heard::Connected(link) => self.tell(now, &Input::Connected(link)),
            Heard::Received(link, bytes, ended) => {
                self.tell(now, &Input::Received(link, bytes.into()));
                if ended {
                    self.tell(now, &Input::Lost(link, Said::Lost));
                }
            }
            Heard::Lost(link, said) => self.tell(now, &Input::Lost(link, said)),
        }
    }
}

impl Machine for Proposer {
    fn handle(&mut self, now: Time, completion: Completion) {
        if let Some(heard) = self.phones.handle(completion) {
            self.hear(now, heard);
        }
    }

    fn on_time(&mut self, now: Time) {
        while let Some(late) = self.phones.late(now) {
            self.hear(now, late);
        }
        if !self.is_over() {
            self.tell(now, &Input::Time);
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.phones.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        if self.is_over() {
            return None;
        }
        let due = self.machine.deadline().map(time);
        [due, self.phones.deadline()].into_iter().flatten().min()
    }

    fn is_finished(&self) -> bool {
        false
    }
}
