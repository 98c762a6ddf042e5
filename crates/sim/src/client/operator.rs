//! Somebody who changes weights and members, one change after the other, while everything goes wrong.

use std::ops::Range;

use ops::Time;

use super::line::Line;
use super::requester::{Asks, Requester};
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct OperatorConfig {
    pub nodes: Vec<String>,
    pub logs: Vec<String>,
    /// At last a node is taken out for ever.
    pub removes: bool,
    pub changes: u64,
    /// Many changes follow at once upon the one before.
    pub hurries: bool,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
}

pub type Operator = Requester<Changes>;

/// Asks for a change until it is agreed or refused for what it says, and then for the next one, whether the
/// first was carried out or not. Its last change must come true in the end.
pub struct Changes {
    config: OperatorConfig,
    /// Asked again if its answer is lost.
    asked: Option<String>,
    left: u64,
}

/// The largest weight of one node: with three nodes every split of the votes occurs.
const WEIGHT_MAX: u64 = 3;

/// Between two changes in quick succession.
const HURRY_US: Range<u64> = 100..20_000;

impl Operator {
    pub fn new(seed: u64, config: OperatorConfig) -> Operator {
        let (nodes, patience_us) = (config.nodes.clone(), config.patience_us);
        let changes = Changes {
            asked: None,
            left: config.changes,
            config,
        };
        let requester = Requester::over(changes, seed ^ 0x6f70_6572, nodes, patience_us);
        requester.resting_until(Time::from_micros(1_000_000))
    }
}

impl Changes {
    fn choose(&self, random: &mut Random) -> String {
        let nodes = self.config.nodes.len() as u64;
        let mut node = || 1 + random.below(nodes);
        let (one, other) = (node(), node());
        if self.left == 1 && self.config.removes {
            return match random.coin() {
                true => format!("replace {one} {other} force=1"),
                false => format!("remove {one} force=1"),
            };
        }
        let weight = random.below(1 + WEIGHT_MAX);
        let change = match random.below(6) {
            0 => format!("weight {one} 0"),
            1 => format!("add {one} weight={}", weight.max(1)),
            2 => {
                let zone = ["a", "b", "c", "-"][random.below(4) as usize];
                return format!("zone {one} {zone}");
            }
            _ => format!("weight {one} {weight}"),
        };
        let force = match random.coin() {
            true => " force=1",
            false => "",
        };
        match random.below(3) {
            0 => format!("{change}{force}"),
            _ => {
                let log = random.below(self.config.logs.len() as u64);
                format!("{change}{force} log={}", self.config.logs[log as usize])
            }
        }
    }
}

impl Asks for Changes {
    fn is_done(&self) -> bool {
        self.left == 0
    }

    fn request(&mut self, random: &mut Random, _hinted: bool) -> Option<String> {
        if self.asked.is_none() {
            self.asked = Some(self.choose(random));
        }
        let asked = self.asked.as_ref()?;
        Some(format!("change-members {asked}"))
    }

    fn hear(&mut self, line: &Line, _text: &str) {
        match line.word.as_str() {
            // Refused: too much weight in a zone, no such log yet, the last weight.
            // Agreed, and not everywhere in force: the next change comes all the same.
            "ok" | "refused" | "unknown-node" | "unknown-log" | "not-in-force" => {
                self.asked = None;
                self.left -= 1;
            }
            _ => panic!("{line:?} in answer to {:?}", self.asked),
        }
    }

    fn rest_us(&self, random: &mut Random, _hinted: bool) -> u64 {
        match self.asked {
            Some(_) => 50_000,
            None if self.config.hurries && random.coin() => random.within(&HURRY_US),
            None => random.within(&self.config.rest_us),
        }
    }
}
