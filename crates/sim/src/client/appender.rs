//! A writer that never gives up: one client after another, each of them the one that people use, or somebody who
//! speaks the lines by hand.

use std::ops::Range;
use std::time::Duration;

use ops::{Completion, Machine, Op, Time};
use talk::{AppendError, AppendOptions, Input, Known, Output, Timeouts};
use wire::Mode;

use super::by_hand::{ByHand, Hand, LINK};
use super::chain::SharedChain;
use super::content;
use super::notary::{Notary, came_too_late};
use super::phones::{Heard, Phones, since_start, time};
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct AppenderConfig {
    pub log: String,
    /// `HOST:PORT` of every node.
    pub nodes: Vec<String>,
    pub ending: Ending,
    /// In half of the attempts.
    pub by_hand: Option<ByHand>,
    pub chunk_bytes: Range<u64>,
    /// Between two chunks.
    pub pace_us: Range<u64>,
    /// Sent and not acknowledged.
    pub ahead_bytes_max: u64,
    /// After an error.
    pub rest_us: Range<u64>,
    /// The time for which it waits for an answer before it tries another node.
    pub patience_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A clean end.
    Close,
    /// Stops when all is acknowledged, without a word.
    Vanish,
}

pub struct Appender {
    pub(super) config: AppenderConfig,
    pub(super) random: Random,
    pub(super) phones: Phones,
    pub(super) notary: Notary,
    pub(super) chain: SharedChain,
    pub(super) state: State,
    takeover: bool,
    next_chunk_at: Time,
}

/// Counts of what other writers did to this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppenderCounts {
    /// Refused because another was writing.
    pub busy: u64,
    /// Another one came and took the log.
    pub superseded: u64,
}

pub(super) enum State {
    Resting { until: Time },
    Talking(Box<Talking>),
    ByHand(Hand),
    Finished,
}

pub(super) struct Talking {
    known: Known,
    machine: talk::Appender,
}

impl Default for AppenderConfig {
    fn default() -> AppenderConfig {
        AppenderConfig {
            log: "1".to_owned(),
            nodes: Vec::new(),
            ending: Ending::Close,
            by_hand: None,
            chunk_bytes: 1..20_000,
            pace_us: 100..20_000,
            ahead_bytes_max: 200_000,
            rest_us: 1_000..300_000,
            patience_us: 10_000_000,
        }
    }
}

impl Appender {
    /// Writes the chain's content, all of it.
    pub fn new(seed: u64, config: AppenderConfig, chain: SharedChain) -> Appender {
        // Apart from `seed ^ client`, which is 0 for all whose client has the number of its seed.
        let random = Random::new(seed.rotate_left(32) ^ chain.borrow().client);
        Appender {
            config,
            random,
            phones: Phones::default(),
            notary: Notary::new(chain.clone()),
            chain,
            state: State::Resting { until: Time::ZERO },
            takeover: false,
            next_chunk_at: Time::ZERO,
        }
    }

    pub fn log(&self) -> &str {
        &self.config.log
    }

    pub fn chain(&self) -> &SharedChain {
        &self.chain
    }

    pub fn counts(&self) -> AppenderCounts {
        AppenderCounts {
            busy: self.notary.busy,
            superseded: self.notary.superseded,
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.chain.borrow().total
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.chain.borrow().acknowledged
    }

    fn begin(&mut self, now: Time) {
        let all = self.acknowledged() == self.total();
        if all && (self.config.ending == Ending::Vanish || self.chain.borrow().closed) {
            self.state = State::Finished;
            return;
        }
        let mode = match std::mem::take(&mut self.takeover) {
            true => Mode::TakeOver,
            false => Mode::Refuse,
        };
        let by_hand = self.config.by_hand.filter(|_| !all);
        match by_hand.filter(|_| self.random.coin()) {
            Some(how) => self.dial(now, how),
            None => self.talk(now, mode),
        }
    }

    fn talk(&mut self, now: Time, mode: Mode) {
        let known = known(&self.config.nodes, &mut self.random);
        let continues = self.notary.place();
        let options = AppendOptions {
            log: self.config.log.clone(),
            label: Some(format!("client-{}", self.chain.borrow().client)),
            mode,
            buffer_bytes_max: self.config.ahead_bytes_max as usize,
            continues,
            token: Some(format!("{:016x}", self.random.draw())),
            checked: true,
        };
        let silence = Duration::from_micros(self.config.patience_us);
        let timeouts = Timeouts {
            connect: Duration::from_secs(1).min(silence),
            silence,
            total: 3 * silence,
        };
        let machine = talk::Appender::new(since_start(now), &known, options, timeouts);
        self.state = State::Talking(Box::new(Talking { known, machine }));
        self.tell(now, &Input::Time);
    }

    /// Tells the machine, does what it wants, and judges what it makes of it.
    fn tell(&mut self, now: Time, input: &Input) {
        let State::Talking(talking) = &mut self.state else {
            return;
        };
        let Talking { known, machine } = &mut **talking;
        machine.handle(since_start(now), known, input);
        while let Some(output) = machine.poll_output() {
            if let Output::Send(link, bytes) = &output {
                self.notary.on_said(*link, bytes);
            }
            self.phones.perform(now, &output);
        }
        let (said, promised) = (machine.acknowledged(), self.chain.borrow().acknowledged);
        assert!(
            said <= promised || !machine.is_open(),
            "the client says that {said} bytes are chosen, and was promised {promised}"
        );
        match machine.outcome().cloned() {
            None => {}
            Some(Ok(closed)) => {
                let chain = self.chain.borrow();
                let ended = chain.closed && closed.position == chain.total;
                assert!(
                    ended,
                    "the client says {closed:?}, and was promised {chain:?}"
                );
                drop(chain);
                self.leave(now);
                self.state = State::Finished;
            }
            Some(Err(error)) => self.failed(now, error),
        }
    }

    /// The world's faults end a client, and another one goes on; a mistake of the client's does not.
    fn failed(&mut self, now: Time, error: AppendError) {
        match &error {
            AppendError::Superseded { by: Some(by) } if self.notary.is_of_the_chain(*by) => {
                panic!("the client takes its own stream {by} for another's");
            }
            AppendError::Busy { .. } | AppendError::Superseded { .. } => {
                self.takeover = self.random.coin();
            }
            AppendError::Unreachable(_)
            | AppendError::Continues { .. }
            | AppendError::Full { .. }
            | AppendError::UnknownLog { .. } => {}
            AppendError::Refused { refusal, .. } if came_too_late(refusal) => {}
            _ => panic!("an honest cluster was told: {error}"),
        }
        self.rest(now);
    }

    fn leave(&mut self, now: Time) {
        match &self.state {
            // To close is to say that these were all the bytes.
            State::ByHand(hand) if hand.how.fin => self.phones.abandon_all(),
            _ => self.phones.close_all(now),
        }
        self.notary.forget();
    }

    pub(super) fn rest(&mut self, now: Time) {
        self.leave(now);
        let rest_us = self.random.within(&self.config.rest_us);
        let until = now + Duration::from_micros(rest_us);
        self.state = State::Resting { until };
    }

    /// The next chunk of content, as long as there is room for it.
    pub(super) fn next_chunk(&mut self, written: u64) -> Vec<u8> {
        let left = self.total() - written;
        let ahead = written.saturating_sub(self.acknowledged());
        let room = self.config.ahead_bytes_max.saturating_sub(ahead);
        let count = self.random.within(&self.config.chunk_bytes);
        let mut bytes = vec![0; count.min(left).min(room) as usize];
        content::fill(self.chain.borrow().client, written, &mut bytes);
        bytes
    }

    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let due = self.next_chunk_at <= now;
        if due {
            let pace_us = self.random.within(&self.config.pace_us);
            self.next_chunk_at = now + Duration::from_micros(pace_us.max(1));
        }
        due
    }

    fn may_write(&self) -> bool {
        let State::Talking(talking) = &self.state else {
            return false;
        };
        let written = talking.machine.position();
        let ahead = written.saturating_sub(self.acknowledged());
        let room = ahead < self.config.ahead_bytes_max;
        talking.machine.is_open() && room && written < self.total()
    }

    fn go_on(&mut self, now: Time) {
        if self.may_write() && self.is_due(now) {
            let written = match &self.state {
                State::Talking(talking) => talking.machine.position(),
                _ => return,
            };
            let bytes = self.next_chunk(written);
            if let State::Talking(talking) = &mut self.state {
                talking.machine.write(&bytes);
            }
        }
        let (ending, total) = (self.config.ending, self.total());
        if let State::Talking(talking) = &mut self.state
            && talking.machine.is_open()
            && talking.machine.position() == total
            && ending == Ending::Close
        {
            talking.machine.close(since_start(now));
        }
        self.tell(now, &Input::Time);
        self.send();
        if ending == Ending::Vanish && self.acknowledged() == total {
            self.leave(now);
            self.state = State::Finished;
        }
    }

    /// Gives the connection what the machine lends.
    fn send(&mut self) {
        let State::Talking(talking) = &mut self.state else {
            return;
        };
        let machine = &mut talking.machine;
        while let Some(link) = machine
            .sending()
            .filter(|link| self.phones.sends(*link) < 3)
        {
            let mut parts = Vec::new();
            machine.lend(1, &mut parts);
            let Some(part) = parts.first() else { return };
            // A socket takes what it likes.
            let count = 1 + self.random.below(part.bytes().len() as u64);
            let bytes = &part.bytes()[..count as usize];
            self.notary.on_said(link, bytes);
            self.phones.send(link, bytes);
            machine.sent(count);
        }
    }

    fn hear(&mut self, now: Time, heard: Heard) {
        if let Heard::Received(link, bytes, _) = &heard {
            self.notary.on_heard(*link, bytes);
        }
        if let State::ByHand(hand) = &mut self.state {
            hand.patient_until = now + Duration::from_micros(self.config.patience_us);
            return match heard {
                Heard::Connected(_) => self.ask_by_hand(),
                Heard::Sent | Heard::Received(_, _, false) => {}
                Heard::Received(_, _, true) | Heard::Lost(..) => self.rest(now),
            };
        }
        match heard {
            Heard::Sent => {}
            Heard::Connected(link) => self.tell(now, &Input::Connected(link)),
            Heard::Received(link, bytes, ended) => {
                self.tell(now, &Input::Received(link, bytes.into()));
                if ended {
                    self.tell(now, &Input::Lost(link, talk::Said::Lost));
                }
            }
            Heard::Lost(link, said) => self.tell(now, &Input::Lost(link, said)),
        }
        self.send();
    }
}

/// A client that was told of these nodes, in some order.
pub(crate) fn known(nodes: &[String], random: &mut Random) -> Known {
    let mut nodes = nodes.to_vec();
    let first = random.below(nodes.len() as u64) as usize;
    nodes.rotate_left(first);
    Known::new(nodes, random.draw())
}

impl Machine for Appender {
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
            State::Talking(_) => self.go_on(now),
            State::ByHand(_) => self.go_on_by_hand(now),
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.phones.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        let next = match &self.state {
            State::Finished => return None,
            State::Resting { until } => return Some(*until),
            State::ByHand(hand) => {
                let left = hand.begins + hand.sent < self.total();
                let open = self.notary.is_open(LINK);
                let says = open && left && self.phones.sends(LINK) < 3;
                match says {
                    true => self.next_chunk_at.min(hand.patient_until),
                    false => hand.patient_until,
                }
            }
            State::Talking(talking) => {
                let due = talking.machine.deadline();
                let due = due.map_or(Time::from_micros(u64::MAX), time);
                match self.may_write() {
                    true => self.next_chunk_at.min(due),
                    false => due,
                }
            }
        };
        let late = self.phones.deadline();
        Some(late.map_or(next, |late| late.min(next)))
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }
}
