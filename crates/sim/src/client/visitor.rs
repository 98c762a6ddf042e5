//! A client that knows a log by its name alone, and does not mind that it comes and goes.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use ops::{Completion, Machine, Op, Time};

use super::content;
use super::conversation::{Conversation, News};
use super::ledger::{Answer, Attempt, Ledger};
use super::line::Line;
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct VisitorConfig {
    pub log: String,
    pub nodes: Vec<String>,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
    /// The first number of the contents that the visitor appends: each attempt has its own, from here on.
    pub first_client: u64,
}

/// Visits until the flag is set: appends a little, or reads all there is, through any node.
pub struct Visitor {
    config: VisitorConfig,
    random: Random,
    ledger: Ledger,
    over: Rc<Cell<bool>>,
    visit: Visit,
    clients: u64,
    rest_until: Option<Time>,
}

/// One append of a few bytes, or one read of a whole log: until it is done, or the log is said not to be
/// there, or it was tried often enough.
pub struct Visit {
    log: String,
    nodes: Vec<String>,
    patience_us: u64,
    /// The next attempt's content; none for a read.
    append: Option<u64>,
    tries_left: u32,
    random: Random,
    ledger: Ledger,
    conversation: Conversation,
    attempt: Option<Attempt>,
    leader: Option<String>,
    heard: Vec<u8>,
    /// The bytes of the read that come next, and their checksum.
    data: Option<(usize, u32)>,
    rest_until: Option<Time>,
    patient_until: Time,
    finished: bool,
}

/// The length of one append.
const BYTES: u64 = 600;
const REST_US: Range<u64> = 1_000..100_000;

impl Visit {
    /// `client` is the content of the first attempt, and the next ones follow.
    pub fn append(config: &VisitorConfig, ledger: &Ledger, client: u64, tries: u32) -> Visit {
        let mut visit = Visit::read(config, ledger, client, tries);
        visit.append = Some(client);
        visit
    }

    pub fn read(config: &VisitorConfig, ledger: &Ledger, seed: u64, tries: u32) -> Visit {
        Visit {
            log: config.log.clone(),
            nodes: config.nodes.clone(),
            patience_us: config.patience_us,
            append: None,
            tries_left: tries,
            random: Random::new(seed ^ 0x76_6973_6974),
            ledger: ledger.clone(),
            conversation: Conversation::default(),
            attempt: None,
            leader: None,
            heard: Vec::new(),
            data: None,
            rest_until: Some(Time::ZERO),
            patient_until: Time::ZERO,
            finished: false,
        }
    }

    pub(super) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// In the place of another on the same host.
    pub(super) fn after(mut self, conversation: &Conversation) -> Visit {
        self.conversation = conversation.successor();
        self
    }

    fn begin(&mut self, now: Time) {
        if self.tries_left == 0 {
            self.finished = true;
            return;
        }
        self.tries_left -= 1;
        let address = self.leader.take().unwrap_or_else(|| {
            let node = self.random.below(self.nodes.len() as u64);
            self.nodes[node as usize].clone()
        });
        self.conversation.connect(&address);
        self.rest_until = None;
        self.patient_until = now + Duration::from_micros(self.patience_us);
    }

    fn rest(&mut self, now: Time) {
        self.conversation.abandon();
        self.attempt = None;
        self.data = None;
        self.heard.clear();
        if self.finished {
            return;
        }
        if let Some(client) = &mut self.append {
            *client += 1;
        }
        let rest_us = self.random.within(&REST_US);
        self.rest_until = Some(now + Duration::from_micros(rest_us));
    }

    fn request(&mut self) {
        let log = &self.log;
        let request = match self.append {
            Some(client) => {
                let mode = ["", " mode=takeover"][usize::from(self.random.coin())];
                format!("append {log} label=client-{client}{mode}")
            }
            None => format!("read {log} format=framed"),
        };
        self.attempt = Some(self.ledger.ask(&request));
        let line = format!("logberg/1 {request}\n");
        self.conversation.send(line.as_bytes());
        if let Some(client) = self.append {
            let mut bytes = vec![0; BYTES as usize];
            content::fill(client, 0, &mut bytes);
            self.conversation.send(&bytes);
        }
    }

    fn tell(&mut self, answer: Answer) {
        if let Some(attempt) = self.attempt {
            self.ledger.hear(attempt, answer);
        }
    }

    /// True if nothing more is to be heard on this connection.
    fn hear(&mut self, text: &str) -> bool {
        let line = Line::parse(text);
        if line.is_error() {
            self.tell(Answer::Line(text.to_owned()));
            self.leader = line.key("leader").map(str::to_owned);
            self.finished = line.word == "unknown-log";
            return true;
        }
        match (line.word.as_str(), self.append) {
            ("waiting" | "stream", Some(_)) | ("reading", None) => false,
            ("ack", Some(client)) => {
                let bytes = line.position(0);
                assert!(bytes <= BYTES, "{line:?} of {BYTES} sent");
                self.tell(Answer::Acknowledged { client, bytes });
                self.finished = bytes == BYTES;
                self.finished
            }
            ("data", None) => {
                let checksum = line.arguments.get(2);
                let checksum = checksum.and_then(|hex| u32::from_str_radix(hex, 16).ok());
                let checksum = checksum.expect("a checksum in hex");
                self.data = Some((line.position(1) as usize, checksum));
                false
            }
            ("end", None) => {
                let output = std::mem::take(&mut self.heard);
                self.tell(Answer::Output(output));
                self.finished = true;
                true
            }
            _ => panic!("{line:?} in answer to a visit"),
        }
    }

    fn take(&mut self, now: Time) {
        while self.conversation.is_open() {
            if let Some((count, checksum)) = self.data {
                let Some(bytes) = self.conversation.bytes(count) else {
                    return;
                };
                assert_eq!(content::crc32c(&bytes), checksum, "damaged on the way");
                self.heard.extend_from_slice(&bytes);
                self.data = None;
            } else {
                let Some(line) = self.conversation.line() else {
                    return;
                };
                if self.hear(&line) {
                    self.rest(now);
                }
            }
        }
    }
}

impl Machine for Visit {
    fn handle(&mut self, now: Time, completion: Completion) {
        let Some(news) = self.conversation.handle(completion) else {
            return;
        };
        if news == News::Connected {
            return self.request();
        }
        self.take(now);
        if news == News::Over && self.conversation.is_open() {
            self.rest(now);
        }
    }

    fn on_time(&mut self, now: Time) {
        match self.rest_until {
            Some(until) if until <= now && !self.finished => self.begin(now),
            None if self.patient_until <= now && !self.finished => self.rest(now),
            _ => {}
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.conversation.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        (!self.finished).then(|| self.rest_until.unwrap_or(self.patient_until))
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

/// Attempts of one visit.
const TRIES: u32 = 4;

impl Visitor {
    pub fn new(seed: u64, config: VisitorConfig, ledger: &Ledger, over: Rc<Cell<bool>>) -> Visitor {
        Visitor {
            visit: Visit::read(&config, ledger, seed, 1),
            random: Random::new(seed ^ 0x6e61_6d65),
            ledger: ledger.clone(),
            config,
            over,
            clients: 0,
            rest_until: None,
        }
    }

    fn next_visit(&mut self) -> Visit {
        let client = self.config.first_client + self.clients;
        self.clients += u64::from(TRIES);
        let visit = match self.random.coin() {
            true => Visit::append(&self.config, &self.ledger, client, TRIES),
            false => Visit::read(&self.config, &self.ledger, client, TRIES),
        };
        visit.after(self.visit.conversation())
    }
}

impl Machine for Visitor {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.visit.handle(now, completion);
    }

    fn on_time(&mut self, now: Time) {
        if self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
            self.visit = self.next_visit();
        }
        self.visit.on_time(now);
        if self.visit.is_finished() && self.rest_until.is_none() {
            let rest_us = self.random.within(&self.config.rest_us);
            self.rest_until = Some(now + Duration::from_micros(rest_us.max(1)));
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.visit.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        match self.is_finished() {
            true => None,
            false => self.rest_until.or_else(|| self.visit.deadline()),
        }
    }

    fn is_finished(&self) -> bool {
        self.over.get()
    }
}
