//! An operator who changes his mind of how much of a log is kept, now and then.

use std::ops::Range;

use super::chain::SharedChain;
use super::line::Line;
use super::requester::{Asks, Requester};
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct RetainerConfig {
    pub log: String,
    pub nodes: Vec<String>,
    pub changes: u64,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
}

pub type Retainer = Requester<Retains>;

/// Asks for a retention until it is in force, and then for another: mostly a narrow one is taken back at
/// once. Its last request is to keep everything.
pub struct Retains {
    config: RetainerConfig,
    chain: SharedChain,
    left: u64,
    /// Asked again until its answer comes.
    asked: Option<String>,
    was_narrow: bool,
    granted: u64,
    not_in_force: u64,
}

const FOREVER: &str = "forever";

/// Between a narrow one and a wider one, mostly.
const MIND_US: Range<u64> = 1_000..300_000;

impl Retainer {
    pub fn new(seed: u64, config: RetainerConfig, chain: SharedChain) -> Retainer {
        let (nodes, patience_us) = (config.nodes.clone(), config.patience_us);
        let retains = Retains {
            left: config.changes.max(1),
            config,
            chain,
            asked: None,
            was_narrow: false,
            granted: 0,
            not_in_force: 0,
        };
        Requester::over(retains, seed ^ 0x7265_7461_696e, nodes, patience_us)
    }

    /// Granted, and told not to be in force yet.
    pub fn counts(&self) -> (u64, u64) {
        (self.asks.granted, self.asks.not_in_force)
    }
}

impl Retains {
    fn choose(&mut self, random: &mut Random) -> String {
        let mut chain = self.chain.borrow_mut();
        if self.left == 1 {
            return FOREVER.to_owned();
        }
        let total = chain.total.max(16);
        match random.below(4) {
            0 => FOREVER.to_owned(),
            // Wide enough for all of it, and too narrow for anything.
            1 => format!("{}B", 2 * total),
            parts => {
                // Everything that is chosen may be trimmed from now on.
                chain.trim_asked = chain.total;
                match random.below(3) {
                    0 => format!("{}s", 1 + random.below(3)),
                    _ => format!("{}B", 1 + random.below(total) / (parts * 4)),
                }
            }
        }
    }
}

impl Asks for Retains {
    fn is_done(&self) -> bool {
        self.left == 0
    }

    fn request(&mut self, random: &mut Random, _hinted: bool) -> Option<String> {
        if self.asked.is_none() {
            self.asked = Some(self.choose(random));
        }
        let asked = self.asked.as_ref()?;
        Some(format!("retain {} retention={asked}", self.config.log))
    }

    fn hear(&mut self, line: &Line, _text: &str) {
        match line.word.as_str() {
            "ok" => {
                self.granted += 1;
                self.left -= 1;
                let asked = self.asked.take();
                self.was_narrow = asked.is_some_and(|asked| asked != FOREVER);
            }
            // The same again is the same wish, and waits again.
            "not-in-force" => self.not_in_force += 1,
            // One of its own attempts, of which no answer came, is agreed on meanwhile.
            "refused" => {}
            "unknown-log" => {}
            _ => panic!("{line:?} in answer to a retention of {:?}", self.asked),
        }
    }

    fn rest_us(&self, random: &mut Random, _hinted: bool) -> u64 {
        match self.asked {
            Some(_) => 50_000,
            None if self.was_narrow && random.below(4) > 0 => random.within(&MIND_US),
            None => random.within(&self.config.rest_us),
        }
    }
}
