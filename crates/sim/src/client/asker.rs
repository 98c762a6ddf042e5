//! Asks one thing until it is granted: to create a log, mostly. Where there are several ways to ask,
//! it tries the next one when one is refused for what it says.

use std::time::Duration;

use ops::{Completion, Machine, Op, Time};

use super::conversation::{Conversation, News};
use super::ledger::{Answer, Attempt, Ledger};
use super::line::Line;

/// Finishes once it heard `ok`, or an error that counts as it.
pub struct Asker {
    requests: Vec<String>,
    way: usize,
    /// The error that says that it was granted before.
    granted: String,
    nodes: Vec<String>,
    turn: usize,
    leader: Option<String>,
    conversation: Conversation,
    rest_until: Option<Time>,
    patient_until: Time,
    finished: bool,
    ledger: Ledger,
    attempt: Option<Attempt>,
}

const REST: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(10);

impl Asker {
    /// `requests` without version and LF.
    pub fn new(requests: &[String], granted: &str, nodes: Vec<String>) -> Asker {
        Asker {
            requests: requests.to_vec(),
            way: 0,
            granted: granted.to_owned(),
            nodes,
            turn: 0,
            leader: None,
            conversation: Conversation::default(),
            rest_until: Some(Time::ZERO),
            patient_until: Time::ZERO,
            finished: false,
            ledger: Ledger::default(),
            attempt: None,
        }
    }

    pub(super) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// In the place of another on the same host.
    pub(super) fn after(mut self, conversation: &Conversation) -> Asker {
        self.conversation = conversation.successor();
        self
    }

    /// Writes its questions and answers down there.
    pub fn in_ledger(mut self, ledger: &Ledger) -> Asker {
        self.ledger = ledger.clone();
        self
    }

    fn rest(&mut self, now: Time) {
        self.conversation.close();
        self.attempt = None;
        self.rest_until = Some(now + REST);
    }
}

impl Machine for Asker {
    fn handle(&mut self, now: Time, completion: Completion) {
        let Some(news) = self.conversation.handle(completion) else {
            return;
        };
        if news == News::Connected {
            let request = &self.requests[self.way % self.requests.len()];
            self.attempt = Some(self.ledger.ask(request));
            let line = format!("logberg/1 {request}\n");
            return self.conversation.send(line.as_bytes());
        }
        if let Some(line) = self.conversation.line() {
            if let Some(attempt) = self.attempt.take() {
                self.ledger.hear(attempt, Answer::Line(line.clone()));
            }
            let line = Line::parse(&line);
            self.leader = line.key("leader").map(str::to_owned);
            self.finished = !line.is_error() || line.word == self.granted;
            let in_time = ["not-leader", "no-quorum", "shutting-down", "not-in-force"];
            if line.is_error() && !in_time.contains(&line.word.as_str()) {
                self.way += 1;
            }
            return self.rest(now);
        }
        if news == News::Over {
            self.rest(now);
        }
    }

    fn on_time(&mut self, now: Time) {
        match self.rest_until {
            Some(until) if until <= now && !self.finished => {
                self.turn += 1;
                let turn = self.turn % self.nodes.len();
                let address = self.leader.take();
                let address = address.unwrap_or_else(|| self.nodes[turn].clone());
                self.conversation.connect(&address);
                self.rest_until = None;
                self.patient_until = now + PATIENCE;
            }
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
