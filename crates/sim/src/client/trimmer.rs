//! Somebody who forgets the beginning of what a writer has written, now and then.

use std::ops::Range;

use node::op::{Completion, Machine, Op, Time};

use super::chain::SharedChain;
use super::conversation::{Conversation, News};
use super::line::Line;
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct TrimmerConfig {
    pub log: String,
    pub nodes: Vec<String>,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
}

/// Asks for a trim at a position that is acknowledged, until an answer comes; and goes when the
/// chain is closed. It is the only one who trims this log.
pub struct Trimmer {
    config: TrimmerConfig,
    chain: SharedChain,
    random: Random,
    conversation: Conversation,
    /// The place asked for: asked again if its answer is lost.
    asked: Option<String>,
    leader: Option<String>,
    rest_until: Option<Time>,
    patient_until: Time,
    trims: u64,
    finished: bool,
}

impl Trimmer {
    pub fn new(seed: u64, config: TrimmerConfig, chain: SharedChain) -> Trimmer {
        Trimmer {
            random: Random::new(seed ^ 0x7472_696d),
            config,
            chain,
            conversation: Conversation::default(),
            asked: None,
            leader: None,
            rest_until: Some(Time(0)),
            patient_until: Time(0),
            trims: 0,
            finished: false,
        }
    }

    /// That were chosen.
    pub fn trims(&self) -> u64 {
        self.trims
    }

    /// A place in the chain's streams up to which all is acknowledged.
    fn choose(&mut self) -> Option<String> {
        let mut chain = self.chain.borrow_mut();
        let low = chain.trim_asked.min(chain.acknowledged);
        let at = match self.random.below(4) {
            0 => chain.acknowledged,
            _ => self.random.within(&(low..chain.acknowledged + 1)),
        };
        let streams = chain.streams.iter().rev();
        let (stream, begins) = streams.clone().find(|(_, begins)| *begins <= at)?;
        let place = match at - begins {
            0 => stream.clone(),
            position => format!("{stream}@{position}"),
        };
        chain.trim_asked = chain.trim_asked.max(at);
        Some(place)
    }

    fn rest(&mut self, now: Time) {
        self.conversation.close();
        let rest_us = self.random.within(&self.config.rest_us);
        self.rest_until = Some(Time(now.0 + rest_us.max(1)));
    }

    fn begin(&mut self, now: Time) {
        if self.chain.borrow().closed {
            self.finished = true;
            return;
        }
        if self.asked.is_none() {
            self.asked = self.choose();
        }
        if self.asked.is_none() {
            return self.rest(now);
        }
        let address = self.leader.take().unwrap_or_else(|| {
            let node = self.random.below(self.config.nodes.len() as u64);
            self.config.nodes[node as usize].clone()
        });
        self.conversation.connect(&address);
        self.rest_until = None;
        self.patient_until = Time(now.0 + self.config.patience_us);
    }

    fn hear(&mut self, line: &Line) {
        match line.word.as_str() {
            "ok" => {
                self.trims += 1;
                self.asked = None;
            }
            "not-leader" => self.leader = line.key("leader").map(str::to_owned),
            "no-quorum" | "shutting-down" | "unknown-log" => {}
            // Our own request line may come too late for a node that hung.
            "bad-request" if line.came_too_late() => {}
            _ => panic!("{line:?} in answer to a trim before {:?}", self.asked),
        }
    }
}

impl Machine for Trimmer {
    fn handle(&mut self, now: Time, completion: Completion) {
        let Some(news) = self.conversation.handle(completion) else {
            return;
        };
        if news == News::Connected {
            let place = self.asked.clone().unwrap_or_default();
            let line = format!("logberg/1 trim {} before={place}\n", self.config.log);
            return self.conversation.send(line.as_bytes());
        }
        if let Some(line) = self.conversation.line() {
            self.hear(&Line::parse(&line));
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
