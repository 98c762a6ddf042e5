//! A client that asks the cluster one thing after another: a connection to the node that is said to lead, one
//! line out, one line in, a rest. The `Asks` decides what there is to ask, and what an answer means.

use std::time::Duration;

use ops::{Completion, Machine, Op, Time};

use super::conversation::{Conversation, News};
use super::ledger::{Answer, Attempt, Ledger};
use super::line::Line;
use crate::random::Random;

pub trait Asks: 'static {
    fn is_done(&self) -> bool;
    /// The next request without version and LF, if there is anything to ask now. The one before, where
    /// its answer was lost or (`hinted`) named somebody else to ask.
    fn request(&mut self, random: &mut Random, hinted: bool) -> Option<String>;
    /// An answer that says more than that somebody else is to be asked, or nobody can be now.
    fn hear(&mut self, line: &Line, text: &str);
    fn rest_us(&self, random: &mut Random, hinted: bool) -> u64;
}

pub struct Requester<A> {
    pub(super) asks: A,
    nodes: Vec<String>,
    patience_us: u64,
    random: Random,
    conversation: Conversation,
    request: String,
    leader: Option<String>,
    rest_until: Option<Time>,
    patient_until: Time,
    finished: bool,
    ledger: Ledger,
    attempt: Option<Attempt>,
}

impl<A: Asks> Requester<A> {
    pub(super) fn over(asks: A, seed: u64, nodes: Vec<String>, patience_us: u64) -> Requester<A> {
        Requester {
            asks,
            nodes,
            patience_us,
            random: Random::new(seed),
            conversation: Conversation::default(),
            request: String::new(),
            leader: None,
            rest_until: Some(Time::ZERO),
            patient_until: Time::ZERO,
            finished: false,
            ledger: Ledger::default(),
            attempt: None,
        }
    }

    /// Writes its questions and answers down there.
    pub fn in_ledger(mut self, ledger: &Ledger) -> Requester<A> {
        self.ledger = ledger.clone();
        self
    }

    pub(super) fn resting_until(mut self, until: Time) -> Requester<A> {
        self.rest_until = Some(until);
        self
    }

    fn rest(&mut self, now: Time) {
        self.conversation.close();
        self.attempt = None;
        let hinted = self.leader.is_some();
        let rest_us = self.asks.rest_us(&mut self.random, hinted);
        self.rest_until = Some(now + Duration::from_micros(rest_us.max(1)));
    }

    fn begin(&mut self, now: Time) {
        if self.asks.is_done() {
            self.finished = true;
            return;
        }
        let hinted = self.leader.take();
        let Some(request) = self.asks.request(&mut self.random, hinted.is_some()) else {
            return self.rest(now);
        };
        self.request = request;
        let address = hinted.unwrap_or_else(|| {
            let node = self.random.below(self.nodes.len() as u64);
            self.nodes[node as usize].clone()
        });
        self.conversation.connect(&address);
        self.rest_until = None;
        self.patient_until = now + Duration::from_micros(self.patience_us);
    }

    fn hear(&mut self, text: &str) {
        if let Some(attempt) = self.attempt.take() {
            self.ledger.hear(attempt, Answer::Line(text.to_owned()));
        }
        let line = Line::parse(text);
        match line.word.as_str() {
            "not-leader" => self.leader = line.key("leader").map(str::to_owned),
            "no-quorum" | "shutting-down" => {}
            // Our own request line may come too late for a node that hung.
            "too-late" => {}
            _ => self.asks.hear(&line, text),
        }
    }
}

impl<A: Asks> Machine for Requester<A> {
    fn handle(&mut self, now: Time, completion: Completion) {
        let Some(news) = self.conversation.handle(completion) else {
            return;
        };
        if news == News::Connected {
            self.attempt = Some(self.ledger.ask(&self.request));
            let line = format!("logberg/1 {}\n", self.request);
            return self.conversation.send(line.as_bytes());
        }
        if let Some(line) = self.conversation.line() {
            self.hear(&line);
            return self.rest(now);
        }
        if news == News::Over {
            self.rest(now);
        }
    }

    fn on_time(&mut self, now: Time) {
        match self.rest_until {
            Some(until) if until <= now && !self.finished => self.begin(now),
            None if self.patient_until <= now => self.rest(now),
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
