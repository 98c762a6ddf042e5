//! Proposers that all propose for the same decree, as one variant of an experiment.

use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use super::decrees;
use crate::study::rounds::Proposer;

/// The proposer whose learning ends the time of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The first proposer knows what was agreed on.
    First,
    /// All of them do.
    All,
}

/// One proposer beside each of the first nodes.
pub struct Contended {
    proposers: Vec<decrees::Proposer>,
    until: Until,
    decree: u64,
}

impl Contended {
    pub fn new(doors: &[String], proposers: u32, until: Until) -> Contended {
        let proposers = 0..proposers as usize;
        Contended {
            proposers: proposers
                .map(|at| decrees::Proposer::beside(at, doors, 0))
                .collect(),
            until,
            decree: 0,
        }
    }
}

impl Proposer for Contended {
    /// Errors: two of them learned two values.
    fn propose(&mut self, bytes: usize) -> Result<Duration> {
        self.decree += 1;
        let decree = self.decree;
        let begin = Barrier::new(self.proposers.len());
        let learned: Vec<(String, Duration)> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .proposers
                .iter_mut()
                .map(|proposer| {
                    let begin = &begin;
                    scope.spawn(move || {
                        proposer.give_bytes(bytes);
                        begin.wait();
                        proposer.propose(decree)
                    })
                })
                .collect();
            let joined = threads.into_iter().map(|thread| match thread.join() {
                Ok(learned) => learned,
                Err(_) => Err(anyhow!("a proposer panicked")),
            });
            joined.collect::<Result<_>>()
        })?;
        if learned.windows(2).any(|two| two[0].0 != two[1].0) {
            bail!("two proposers learned two values of decree {decree}");
        }
        let mut times = learned.iter().map(|(_, took)| *took);
        Ok(match self.until {
            Until::First => times.next().unwrap_or_default(),
            Until::All => times.max().unwrap_or_default(),
        })
    }
}
