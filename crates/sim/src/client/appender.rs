//! A writer that never gives up: follows the leader, continues its stream after every loss.

use std::ops::Range;

use ops::{Completion, Machine, Op, Time};

use super::chain::SharedChain;
use super::content;
use super::conversation::{Conversation, News};
use super::line::Line;
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct AppenderConfig {
    pub log: String,
    /// `HOST:PORT` of every node.
    pub nodes: Vec<String>,
    pub ending: Ending,
    pub chunk_bytes: Range<u64>,
    /// Between two chunks.
    pub pace_us: Range<u64>,
    /// Sent and not acknowledged.
    pub ahead_bytes_max: u64,
    /// Send bytes right behind the request, before the stream is open.
    pub eager: bool,
    /// After an error.
    pub rest_us: Range<u64>,
    /// How long it waits for an answer before it tries another node.
    pub patience_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `close` in a second exchange.
    Close,
    /// `end=fin` and a half-close.
    Fin,
    /// Stops when all is acknowledged, without a word.
    Vanish,
}

pub struct Appender {
    config: AppenderConfig,
    chain: SharedChain,
    random: Random,
    conversation: Conversation,
    state: State,
    /// The stream to continue, and the chain's position at which it begins.
    stream: Option<(String, u64)>,
    node: usize,
    leader: Option<String>,
    takeover: bool,
    /// All of it is there and can no longer be closed: its continuation can.
    cut: bool,
    /// Of the chain; on this connection.
    sent: u64,
    next_chunk_at: Time,
    patient_until: Time,
    counts: AppenderCounts,
}

/// What other writers did to this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppenderCounts {
    /// Refused because another was writing.
    pub busy: u64,
    /// Another one came and took the log.
    pub superseded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Resting {
        until: Time,
    },
    Connecting,
    /// The request is sent.
    Opening,
    Streaming,
    /// Everything and the half-close are sent.
    Ending,
    Closing,
    Finished,
}

impl Default for AppenderConfig {
    fn default() -> AppenderConfig {
        AppenderConfig {
            log: "1".to_owned(),
            nodes: Vec::new(),
            ending: Ending::Close,
            chunk_bytes: 1..20_000,
            pace_us: 100..20_000,
            ahead_bytes_max: 200_000,
            eager: false,
            rest_us: 1_000..300_000,
            patience_us: 10_000_000,
        }
    }
}

impl Appender {
    /// Writes the chain's content, all of it.
    pub fn new(seed: u64, config: AppenderConfig, chain: SharedChain) -> Appender {
        let mut random = Random::new(seed ^ chain.borrow().client);
        let node = random.below(config.nodes.len() as u64) as usize;
        Appender {
            config,
            chain,
            random,
            conversation: Conversation::default(),
            state: State::Resting { until: Time(0) },
            stream: None,
            node,
            leader: None,
            takeover: false,
            cut: false,
            sent: 0,
            next_chunk_at: Time(0),
            patient_until: Time(0),
            counts: AppenderCounts::default(),
        }
    }

    pub fn log(&self) -> &str {
        &self.config.log
    }

    pub fn chain(&self) -> &SharedChain {
        &self.chain
    }

    pub fn counts(&self) -> AppenderCounts {
        self.counts
    }

    fn total(&self) -> u64 {
        self.chain.borrow().total
    }

    fn acknowledged(&self) -> u64 {
        self.chain.borrow().acknowledged
    }

    fn begin(&mut self, now: Time) {
        self.chain.borrow_mut().attempts += 1;
        let address = match self.leader.take() {
            Some(leader) => leader,
            None => {
                self.node = (self.node + 1) % self.config.nodes.len();
                self.config.nodes[self.node].clone()
            }
        };
        self.conversation.connect(&address);
        self.state = State::Connecting;
        self.patient_until = Time(now.0 + self.config.patience_us);
    }

    fn rest(&mut self, now: Time) {
        match self.config.ending {
            // To close is to say that these were all the bytes.
            Ending::Fin => self.conversation.abandon(),
            Ending::Close | Ending::Vanish => self.conversation.close(),
        }
        let rest_us = self.random.within(&self.config.rest_us);
        let until = Time(now.0 + rest_us);
        self.state = State::Resting { until };
    }

    fn request(&mut self) {
        let log = &self.config.log;
        let acknowledged = self.acknowledged();
        let all_sent = acknowledged == self.total();
        if let (Some((name, begins)), true) = (&self.stream, all_sent)
            && self.config.ending == Ending::Close
            && !self.cut
        {
            let at = acknowledged - begins;
            let line = format!("logberg/1 close {log} stream={name} at={at}\n");
            self.chain.borrow_mut().close_asked = true;
            self.conversation.send(line.as_bytes());
            self.state = State::Closing;
            return;
        }
        let mut line = format!("logberg/1 append {log}");
        match &self.stream {
            Some((name, begins)) => {
                line += &format!(" continues={name}@{}", acknowledged - begins);
            }
            None => line += &format!(" label=client-{}", self.chain.borrow().client),
        }
        if self.takeover {
            line += " mode=takeover";
        }
        if self.config.ending == Ending::Fin {
            line += " end=fin";
        }
        line.push('\n');
        self.conversation.send(line.as_bytes());
        self.state = State::Opening;
        self.sent = acknowledged;
        if self.config.eager {
            self.send_chunk();
        }
    }

    fn may_send(&self) -> bool {
        let ahead = self.sent - self.acknowledged();
        let room = ahead < self.config.ahead_bytes_max;
        room && self.sent < self.total() && self.conversation.sends() < 3
    }

    fn send_chunk(&mut self) {
        let left = self.total() - self.sent;
        let ahead = self.sent - self.acknowledged();
        let room = self.config.ahead_bytes_max.saturating_sub(ahead);
        let count = self.random.within(&self.config.chunk_bytes);
        let count = count.min(left).min(room);
        if count == 0 {
            return;
        }
        let mut bytes = vec![0; count as usize];
        content::fill(self.chain.borrow().client, self.sent, &mut bytes);
        self.conversation.send(&bytes);
        self.sent += count;
        let mut chain = self.chain.borrow_mut();
        chain.sent = chain.sent.max(self.sent);
    }

    fn hear(&mut self, now: Time, line: &Line) {
        self.patient_until = Time(now.0 + self.config.patience_us);
        if line.is_error() {
            return self.refused(now, line);
        }
        match (line.word.as_str(), self.state) {
            ("waiting", State::Opening) => {}
            ("stream", State::Opening) => {
                let name = line.arguments.first().expect("a stream has a name");
                let at = line.number("at");
                assert_eq!(at, self.acknowledged(), "where {line:?} begins");
                self.opened(name, at);
                self.stream = Some((name.clone(), at));
                self.state = State::Streaming;
                self.takeover = false;
            }
            ("ack", State::Streaming | State::Ending) => {
                let position = self.in_chain(line.position(0));
                assert!(position <= self.sent, "{line:?} of {} sent", self.sent);
                self.chain.borrow_mut().acknowledge(position);
            }
            ("closed", State::Ending | State::Closing) => {
                let position = self.in_chain(line.position(0));
                self.chain.borrow_mut().close(position);
                self.finish();
            }
            _ => panic!("{line:?} while {:?}", self.state),
        }
    }

    fn opened(&mut self, name: &str, at: u64) {
        let mut chain = self.chain.borrow_mut();
        // Who sends eagerly may be observed before it hears that its stream is open.
        assert!(
            self.config.eager || chain.observed <= at,
            "bytes were seen that are not in the chain: {name} begins at {at} of {chain:?}"
        );
        chain.opened(name, at);
        self.cut = false;
    }

    fn in_chain(&self, position: u64) -> u64 {
        let (_, begins) = self.stream.as_ref().expect("acks are of a stream");
        begins + position
    }

    fn refused(&mut self, now: Time, line: &Line) {
        self.counts.superseded += u64::from(line.word == "superseded");
        match line.word.as_str() {
            "not-leader" => {
                self.leader = line.key("leader").map(str::to_owned);
            }
            "busy" => {
                self.counts.busy += 1;
                self.takeover = self.random.coin();
            }
            "continues" => {
                let (_, begins) = self.stream.clone().expect("we continue a stream");
                let length = begins + line.number("length");
                self.chain.borrow_mut().acknowledge(length);
                if let Some(by) = line.key("by") {
                    // We did, and did not hear of it.
                    self.opened(by, length);
                    self.stream = Some((by.to_owned(), length));
                }
            }
            "superseded" if self.state == State::Closing => self.cut = true,
            "no-quorum" | "superseded" | "full" | "shutting-down" | "unknown-log" => {}
            "bad-request" if line.came_too_late() => {}
            _ => panic!(
                "{line:?} in answer to an honest appender, while {:?}",
                self.state
            ),
        }
        self.rest(now);
    }

    fn finish(&mut self) {
        self.conversation.close();
        self.state = State::Finished;
    }

    fn go_on(&mut self, now: Time) {
        if self.state != State::Streaming {
            return;
        }
        let acknowledged_all = self.acknowledged() == self.total();
        match self.config.ending {
            Ending::Fin if self.sent == self.total() => {
                self.chain.borrow_mut().close_asked = true;
                self.conversation.shutdown_write();
                self.state = State::Ending;
                return;
            }
            Ending::Vanish if acknowledged_all => return self.finish(),
            Ending::Close if acknowledged_all => return self.rest(now),
            _ => {}
        }
        if self.next_chunk_at <= now && self.may_send() {
            self.send_chunk();
            let pace_us = self.random.within(&self.config.pace_us);
            self.next_chunk_at = Time(now.0 + pace_us.max(1));
        }
    }
}

impl Machine for Appender {
    fn handle(&mut self, now: Time, completion: Completion) {
        let Some(news) = self.conversation.handle(completion) else {
            return;
        };
        if news == News::Connected {
            return self.request();
        }
        while self.conversation.is_open() {
            let Some(line) = self.conversation.line() else {
                break;
            };
            self.hear(now, &Line::parse(&line));
        }
        if news == News::Over && self.conversation.is_open() {
            self.rest(now);
        }
    }

    fn on_time(&mut self, now: Time) {
        match self.state {
            State::Resting { until } if until <= now => self.begin(now),
            State::Resting { .. } | State::Finished => {}
            _ if self.patient_until <= now => self.rest(now),
            _ => self.go_on(now),
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.conversation.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Finished => None,
            State::Resting { until } => Some(until),
            // A chunk may have to wait for an acknowledgement instead: that wakes us too.
            State::Streaming if self.may_send() => Some(self.next_chunk_at.min(self.patient_until)),
            _ => Some(self.patient_until),
        }
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}
