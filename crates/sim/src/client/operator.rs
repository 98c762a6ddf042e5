//! Somebody who changes weights and members, one change after the other, while everything goes wrong.

use std::ops::Range;

use node::op::{Completion, Machine, Op, Time};

use super::conversation::{Conversation, News};
use super::line::Line;
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct OperatorConfig {
    pub nodes: Vec<String>,
    pub logs: Vec<String>,
    /// At last a node is taken out for ever.
    pub removes: bool,
    pub changes: u64,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
}

/// Asks for a change until it is agreed or refused for what it says, and then for the next one, whether
/// the first was carried out or not. What it asked for last must come true in the end.
pub struct Operator {
    config: OperatorConfig,
    random: Random,
    conversation: Conversation,
    /// Asked again if its answer is lost.
    asked: Option<String>,
    left: u64,
    agreed: u64,
    leader: Option<String>,
    rest_until: Option<Time>,
    patient_until: Time,
    finished: bool,
}

/// Of one node: with three nodes every split of the votes occurs.
const WEIGHT_MAX: u64 = 3;

impl Operator {
    pub fn new(seed: u64, config: OperatorConfig) -> Operator {
        Operator {
            random: Random::new(seed ^ 0x6f70_6572),
            conversation: Conversation::default(),
            asked: None,
            left: config.changes,
            agreed: 0,
            leader: None,
            rest_until: Some(Time(1_000_000)),
            patient_until: Time(0),
            finished: false,
            config,
        }
    }

    /// Changes that were made wanted.
    pub fn agreed(&self) -> u64 {
        self.agreed
    }

    fn choose(&mut self) -> String {
        let nodes = self.config.nodes.len() as u64;
        let random = &mut self.random;
        let mut node = || 1 + random.below(nodes);
        let (one, other) = (node(), node());
        if self.left == 1 && self.config.removes {
            return match self.random.coin() {
                true => format!("replace {one} {other} force=1"),
                false => format!("remove {one} force=1"),
            };
        }
        let weight = self.random.below(1 + WEIGHT_MAX);
        let change = match self.random.below(6) {
            0 => format!("weight {one} 0"),
            1 => format!("add {one} weight={}", weight.max(1)),
            2 => {
                let zone = ["a", "b", "c", "-"][self.random.below(4) as usize];
                return format!("zone {one} {zone}");
            }
            _ => format!("weight {one} {weight}"),
        };
        let force = match self.random.coin() {
            true => " force=1",
            false => "",
        };
        match self.random.below(3) {
            0 => format!("{change}{force}"),
            _ => {
                let log = self.random.below(self.config.logs.len() as u64);
                format!("{change}{force} log={}", self.config.logs[log as usize])
            }
        }
    }

    fn rest(&mut self, now: Time) {
        self.conversation.close();
        let pause = match self.asked {
            Some(_) => 50_000,
            None => self.random.within(&self.config.rest_us),
        };
        self.rest_until = Some(Time(now.0 + pause.max(1)));
    }

    fn begin(&mut self, now: Time) {
        if self.left == 0 {
            self.finished = true;
            return;
        }
        if self.asked.is_none() {
            self.asked = Some(self.choose());
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
                self.agreed += 1;
                self.asked = None;
                self.left -= 1;
            }
            "not-leader" => self.leader = line.key("leader").map(str::to_owned),
            "no-quorum" | "shutting-down" => {}
            "bad-request" if line.came_too_late() => {}
            // Too much weight in a zone, no such log yet, the last weight.
            "refused" | "unknown-node" | "unknown-log" => {
                self.asked = None;
                self.left -= 1;
            }
            _ => panic!("{line:?} in answer to {:?}", self.asked),
        }
    }
}

impl Machine for Operator {
    fn handle(&mut self, now: Time, completion: Completion) {
        let Some(news) = self.conversation.handle(completion) else {
            return;
        };
        if news == News::Connected {
            let asked = self.asked.clone().unwrap_or_default();
            let line = format!("logberg/1 change-members {asked}\n");
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
