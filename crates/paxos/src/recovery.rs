//! From the records of a disk, in file order, to where an engine begins again.

use crate::acceptor::Acceptance;
use crate::runs::Runs;
use crate::safety::is_credible;
use crate::{
    AcceptedRun, AcceptedTerm, Checkpoint, Finishing, LogState, PromisedTerm, Slot, SlotRange,
    Term, Value,
};

/// The records contradict each other: the replica must not start from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryError {
    /// An acceptance below a promise recorded before it.
    BelowPromise {
        /// The acceptance's term.
        accepted: Term,
        /// The promise.
        promised: Term,
    },
    /// A slot was known chosen here without an acceptance of it.
    NotAccepted {
        /// The slot.
        slot: Slot,
        /// The first slot that is not known to be chosen here.
        first_unchosen: Slot,
    },
    /// No value of this kind fills these slots.
    /// The slots.
    Malformed {
        /// The slots.
        slots: SlotRange,
    },
}

/// Recovery, fed record by record. Conflicting acceptances resolve by the highest term.
#[derive(Clone, Debug)]
pub struct Recovery {
    promised: PromisedTerm,
    /// The part that the last promise left open.
    finishing: Option<Finishing>,
    state: LogState,
    accepted: Runs<Acceptance>,
}

impl Recovery {
    /// From the state a log was created with.
    pub fn new(initial: LogState) -> Recovery {
        Recovery {
            promised: PromisedTerm::default(),
            finishing: None,
            state: initial,
            accepted: Runs::new(),
        }
    }

    /// The first record of a segment.
    pub fn on_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.on_promise(checkpoint.promised, checkpoint.finishing, checkpoint.state);
        for run in checkpoint.accepted {
            self.promised = self.promised.max(PromisedTerm(run.term.0));
            self.add(run.term, run.slots, run.value);
        }
    }

    /// A record of a promise, with the state at that time.
    pub fn on_promise(
        &mut self,
        promised: PromisedTerm,
        finishing: Option<Finishing>,
        state: LogState,
    ) {
        if promised >= self.promised {
            self.promised = promised;
            self.finishing = finishing;
        }
        self.on_state(state);
    }

    /// A record of a state that was taken over from a peer.
    pub fn on_state(&mut self, state: LogState) {
        if state.next > self.state.next {
            self.state = state;
            self.accepted.remove_below(self.state.next);
        }
    }

    /// A record of an acceptance.
    ///
    /// Errors: it contradicts what came before it.
    pub fn on_accept(
        &mut self,
        term: Term,
        slots: SlotRange,
        value: Value,
    ) -> Result<(), RecoveryError> {
        let finishes = |f: Finishing| f.term == term && slots.end <= f.below;
        let left_open = self.finishing.is_some_and(finishes);
        if term < self.promised.0 && !left_open {
            return Err(RecoveryError::BelowPromise {
                accepted: term,
                promised: self.promised.0,
            });
        }
        if !is_credible(slots, &value) {
            return Err(RecoveryError::Malformed { slots });
        }
        if !left_open {
            self.promised = PromisedTerm(term);
            self.finishing = None;
        }
        self.add(AcceptedTerm(term), slots, value);
        Ok(())
    }

    /// Adds an acceptance, only in slots at or above the first unchosen one, and not over a later term's.
    fn add(&mut self, term: AcceptedTerm, slots: SlotRange, value: Value) {
        let mut start = slots.start.max(self.state.next);
        while start < slots.end {
            let rest = SlotRange::new(start, slots.end);
            let later = self
                .accepted
                .over(rest)
                .find(|(_, held)| held.term > term)
                .map(|(range, _)| range);
            let stop = later.map_or(slots.end, |range| range.start);
            let value = value.clone();
            self.accepted
                .assign(SlotRange::new(start, stop), Acceptance { term, value });
            start = later.map_or(slots.end, |range| range.end);
        }
    }

    /// Notes that all slots below were known chosen when the record was written. The values accepted there
    /// are the chosen ones; slots that were never accepted here came with a state record before.
    pub fn on_chosen(&mut self, first_unchosen: Slot) -> Result<(), RecoveryError> {
        let slots = SlotRange::new(self.state.next, first_unchosen);
        if slots.is_empty() {
            return Ok(());
        }
        let known = self.accepted.prefix_end(slots.start, |_| true);
        if known < first_unchosen {
            return Err(RecoveryError::NotAccepted {
                slot: known,
                first_unchosen,
            });
        }
        for (slots, acceptance) in self.accepted.over(slots) {
            if !is_credible(slots, &acceptance.value) {
                return Err(RecoveryError::Malformed { slots });
            }
            self.state.apply(slots, &acceptance.value);
        }
        self.accepted.remove_below(first_unchosen);
        Ok(())
    }

    /// Ends recovery. The part that a promise left open ended with the life of the node that promised it: a
    /// node that starts again proposes in no earlier term, and nobody else proposes in its terms.
    pub fn finish(self) -> Checkpoint {
        let run = |(slots, held): (SlotRange, &Acceptance)| AcceptedRun {
            slots,
            term: held.term,
            value: held.value.clone(),
        };
        Checkpoint {
            promised: self.promised,
            finishing: None,
            state: self.state,
            accepted: self.accepted.iter().map(run).collect(),
        }
    }
}
