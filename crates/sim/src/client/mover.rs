//! An operator who moves a log's leader, now and then, to whatever node comes to mind.

use std::ops::Range;

use node::op::{Completion, Machine, Op, Time};

use super::chain::SharedChain;
use super::conversation::{Conversation, News};
use super::line::Line;
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct MoverConfig {
    pub log: String,
    pub nodes: Vec<String>,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
}

/// Goes when the chain is closed.
pub struct Mover {
    config: MoverConfig,
    chain: SharedChain,
    random: Random,
    conversation: Conversation,
    leader: Option<String>,
    to: Option<u64>,
    rest_until: Option<Time>,
    patient_until: Time,
    moved: u64,
    refused: u64,
    finished: bool,
}

impl Mover {
    pub fn new(seed: u64, config: MoverConfig, chain: SharedChain) -> Mover {
        Mover {
            random: Random::new(seed ^ 0x6d6f_7665),
            config,
            chain,
            conversation: Conversation::default(),
            leader: None,
            to: None,
            rest_until: Some(Time(0)),
            patient_until: Time(0),
            moved: 0,
            refused: 0,
            finished: false,
        }
    }

    /// Moves that ended with another leader, and those that could not be.
    pub fn counts(&self) -> (u64, u64) {
        (self.moved, self.refused)
    }

    fn rest(&mut self, now: Time) {
        self.conversation.close();
        let hinted = self.leader.is_some();
        let rest_us = self.random.within(&self.config.rest_us);
        // Who was told whom to ask does so at once.
        let rest_us = if hinted { 1 } else { rest_us.max(1) };
        self.rest_until = Some(Time(now.0 + rest_us));
    }

    fn begin(&mut self, now: Time) {
        if self.chain.borrow().closed {
            self.finished = true;
            return;
        }
        let nodes = self.config.nodes.len() as u64;
        let hinted = self.leader.take();
        if hinted.is_none() {
            // One more than there are: somebody always mistypes.
            self.to = match self.random.below(3) {
                0 => None,
                _ => Some(1 + self.random.below(nodes + 1)),
            };
        }
        let address = hinted.unwrap_or_else(|| {
            let node = self.random.below(nodes);
            self.config.nodes[node as usize].clone()
        });
        self.conversation.connect(&address);
        self.rest_until = None;
        self.patient_until = Time(now.0 + self.config.patience_us);
    }

    fn hear(&mut self, text: &str) {
        let line = Line::parse(text);
        match line.word.as_str() {
            "ok" => {
                let (from, to) = (number(text, "from"), number(text, "to"));
                assert_ne!(from, to, "{text}");
                let asked = self.to;
                let is_there = asked.is_none_or(|asked| asked == to);
                assert!(is_there, "it was to go to {asked:?}: {text}");
                self.moved += 1;
            }
            "cannot-lead" | "unknown-node" => self.refused += 1,
            "not-leader" => self.leader = line.key("leader").map(str::to_owned),
            "no-quorum" | "shutting-down" | "unknown-log" => {}
            // Our own request line may come too late for a node that hung.
            "bad-request" if line.came_too_late() => {}
            _ => panic!("{line:?} in answer to a move to {:?}", self.to),
        }
    }
}

/// A field of the answer's JSON.
fn number(text: &str, key: &str) -> u64 {
    let field = text.split([',', '{', '}']).find_map(|field| {
        let (name, value) = field.split_once(':')?;
        (name.trim_matches('"') == key).then(|| value.parse().ok())?
    });
    field.unwrap_or_else(|| panic!("{text} has no number {key}"))
}

impl Machine for Mover {
    fn handle(&mut self, now: Time, completion: Completion) {
        let Some(news) = self.conversation.handle(completion) else {
            return;
        };
        if news == News::Connected {
            let to = self.to.map_or(String::new(), |to| format!(" to={to}"));
            let line = format!("logberg/1 lead {}{to}\n", self.config.log);
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
