//! An operator who moves a log's leader, now and then, to whatever node comes to mind.

use std::ops::Range;

use super::chain::SharedChain;
use super::line::Line;
use super::requester::{Asks, Requester};
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct MoverConfig {
    pub log: String,
    pub nodes: Vec<String>,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
}

pub type Mover = Requester<Moves>;

/// Goes when the chain is closed.
pub struct Moves {
    config: MoverConfig,
    chain: SharedChain,
    to: Option<u64>,
    moved: u64,
    refused: u64,
}

impl Mover {
    pub fn new(seed: u64, config: MoverConfig, chain: SharedChain) -> Mover {
        let (nodes, patience_us) = (config.nodes.clone(), config.patience_us);
        let moves = Moves {
            config,
            chain,
            to: None,
            moved: 0,
            refused: 0,
        };
        Requester::over(moves, seed ^ 0x6d6f_7665, nodes, patience_us)
    }

    /// Moves that ended with another leader, and those that could not be.
    pub fn counts(&self) -> (u64, u64) {
        (self.asks.moved, self.asks.refused)
    }
}

impl Asks for Moves {
    fn is_done(&self) -> bool {
        self.chain.borrow().closed
    }

    fn request(&mut self, random: &mut Random, hinted: bool) -> Option<String> {
        if !hinted {
            // One more than there are: somebody always mistypes.
            self.to = match random.below(3) {
                0 => None,
                _ => Some(1 + random.below(self.config.nodes.len() as u64 + 1)),
            };
        }
        let to = self.to.map_or(String::new(), |to| format!(" to={to}"));
        Some(format!("lead {}{to}", self.config.log))
    }

    fn hear(&mut self, line: &Line, text: &str) {
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
            "unknown-log" => {}
            _ => panic!("{line:?} in answer to a move to {:?}", self.to),
        }
    }

    /// A mover that was told whom to ask asks at once.
    fn rest_us(&self, random: &mut Random, hinted: bool) -> u64 {
        let rest_us = random.within(&self.config.rest_us);
        if hinted { 1 } else { rest_us }
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
