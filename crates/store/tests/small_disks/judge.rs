//! The truth about a verdict, by what was told: by definition, without a thought of how it is found.
//!
//! One exception: a write that the disk lost without a word, and that nothing else on the disk tells to have
//! been durable, looks like one that a crash tore. Nobody can know what was told of it, and of later writes.

use paxos::{Checkpoint, PromisedTerm, Slot};
use store::recovery::Verdict;

use super::writer::{Fact, Moment, Truth};

pub struct Judge<'a> {
    pub moment: &'a Moment,
    pub truth: &'a Truth,
}

/// The witness that the damage leaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Witness {
    /// The record up to which somebody still tells that all were durable.
    pub durable: u64,
    /// The first record that was written to the files that are there.
    pub oldest: u64,
    /// The first record behind that was lost without a word.
    pub lost: Option<u64>,
}

impl Judge<'_> {
    /// A sentence if something is denied or made up.
    pub fn denies(
        &self,
        verdict: &Verdict,
        checkpoint: &Checkpoint,
        witness: Witness,
    ) -> Result<(), String> {
        let promised = checkpoint.promised.max(verdict.promised);
        for told in &self.moment.told {
            // If the fact's record was trimmed, later ones carry the fact: the oldest that is there.
            let record = told.record.max(witness.oldest);
            if witness.lost.is_some_and(|lost| lost <= record) && record > witness.durable {
                continue;
            }
            let denied = match &told.fact {
                Fact::Promised(term) => promised < *term,
                Fact::Accepted(run) => {
                    let mut at = run.slots.start.max(checkpoint.state.next);
                    at = at.max(verdict.learn_past);
                    while let Some(held) = (at < run.slots.end)
                        .then(|| {
                            let mut held = checkpoint.accepted.iter();
                            held.find(|held| held.slots.start <= at && at < held.slots.end)
                        })
                        .flatten()
                        .filter(|held| held.term >= run.term)
                    {
                        at = held.slots.end;
                    }
                    at < run.slots.end
                }
            };
            if denied {
                return Err(format!("{told:?} is denied"));
            }
        }
        self.made_up(checkpoint, promised)
    }

    fn made_up(&self, checkpoint: &Checkpoint, promised: PromisedTerm) -> Result<(), String> {
        for held in &checkpoint.accepted {
            let mut at = held.slots.start;
            while let Some(run) = self.truth.written.iter().find(|run| {
                run.term == held.term && run.value == held.value && run.slots.contains(at)
            }) {
                at = run.slots.end;
            }
            let is_part = at >= held.slots.end;
            if !is_part {
                return Err(format!("{held:?} was never accepted"));
            }
        }
        if promised > self.truth.promised {
            return Err(format!("{promised:?} was never promised"));
        }
        match self.truth.states.get(&checkpoint.state.next) {
            Some(state) if *state == checkpoint.state => Ok(()),
            _ => Err(format!(
                "what is chosen is not known: {:?}",
                checkpoint.state
            )),
        }
    }

    /// Checks that after a crash alone nothing is in doubt, and nothing is called damage.
    pub fn calls_damage(&self, verdict: &Verdict) -> Result<(), String> {
        match verdict.lost.is_empty() && verdict.learn_past == Slot(0) {
            true => Ok(()),
            false => Err(format!("a crash is called damage: {verdict:?}")),
        }
    }
}
