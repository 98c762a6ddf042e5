//! Somebody who forgets the beginning of what a writer has written, now and then.

use std::ops::Range;

use super::chain::SharedChain;
use super::line::Line;
use super::requester::{Asks, Requester};
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct TrimmerConfig {
    pub log: String,
    pub nodes: Vec<String>,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
}

pub type Trimmer = Requester<Trims>;

/// Asks for a trim at a position that is acknowledged, until an answer comes; and goes when the
/// chain is closed. It is the only one who trims this log.
pub struct Trims {
    config: TrimmerConfig,
    chain: SharedChain,
    /// The place asked for: asked again if its answer is lost.
    asked: Option<String>,
    trims: u64,
}

impl Trimmer {
    pub fn new(seed: u64, config: TrimmerConfig, chain: SharedChain) -> Trimmer {
        let (nodes, patience_us) = (config.nodes.clone(), config.patience_us);
        let trims = Trims {
            config,
            chain,
            asked: None,
            trims: 0,
        };
        Requester::over(trims, seed ^ 0x7472_696d, nodes, patience_us)
    }

    /// The number of trims that were chosen.
    pub fn trims(&self) -> u64 {
        self.asks.trims
    }
}

impl Trims {
    /// A place in the chain's streams up to which all is acknowledged.
    fn choose(&self, random: &mut Random) -> Option<String> {
        let mut chain = self.chain.borrow_mut();
        let low = chain.trim_asked.min(chain.acknowledged);
        let at = match random.below(4) {
            0 => chain.acknowledged,
            _ => random.within(&(low..chain.acknowledged + 1)),
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
}

impl Asks for Trims {
    fn is_done(&self) -> bool {
        self.chain.borrow().closed
    }

    fn request(&mut self, random: &mut Random, _hinted: bool) -> Option<String> {
        if self.asked.is_none() {
            self.asked = self.choose(random);
        }
        let place = self.asked.as_ref()?;
        Some(format!("trim {} before={place}", self.config.log))
    }

    fn hear(&mut self, line: &Line, _text: &str) {
        match line.word.as_str() {
            "ok" => {
                self.trims += 1;
                self.asked = None;
            }
            "unknown-log" => {}
            _ => panic!("{line:?} in answer to a trim before {:?}", self.asked),
        }
    }

    fn rest_us(&self, random: &mut Random, _hinted: bool) -> u64 {
        random.within(&self.config.rest_us)
    }
}
