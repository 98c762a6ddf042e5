//! What this node has promised and accepted, and how much of it is durable.
//!
//! ```text
//!   records   1 … durable … last          they become durable in this order
//!   promised  >= every accepted term      accepting in t raises the promise to t
//! ```
//!
//! A message that depends on a record is sent `after` it. What is told without naming a record
//! (a follower's status) is built from the durable part alone.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::runs::{RunValue, Runs};
use crate::{AcceptedRun, AcceptedTerm, PromisedTerm, RecordNumber, Slot, SlotRange, Term, Value};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Acceptance {
    pub term: AcceptedTerm,
    pub value: Value,
}

impl RunValue for Acceptance {
    /// Actions stay one slot each, also when two equal ones follow each other.
    fn extends(&self, before: &Acceptance) -> bool {
        self.term == before.term
            && match (&self.value, &before.value) {
                (Value::NoOp, Value::NoOp) => true,
                (
                    Value::Content { stream, offset },
                    Value::Content {
                        stream: stream_before,
                        offset: offset_before,
                    },
                ) => stream == stream_before && offset == offset_before,
                _ => false,
            }
    }
}

/// A record that is not durable yet. A promise's has no slots.
#[derive(Clone, Copy, Debug)]
struct Issued {
    record: RecordNumber,
    term: Term,
    slots: SlotRange,
}

#[derive(Clone, Debug)]
pub(crate) struct Acceptor {
    promised: PromisedTerm,
    /// The record that raised the promise.
    promise_record: RecordNumber,
    /// At or above the first unchosen slot; by the latest term, durable or not.
    accepted: Runs<Acceptance>,
    /// The latest term in which anything was accepted.
    accepted_term: AcceptedTerm,
    last_record: RecordNumber,
    durable_record: RecordNumber,
    issued: VecDeque<Issued>,
    durable_promised: PromisedTerm,
    /// The slots durably accepted in `durable_term`, the latest such term.
    durable_term: AcceptedTerm,
    durable: Runs<()>,
}

impl Acceptor {
    pub(crate) fn new(promised: PromisedTerm, accepted: &[AcceptedRun]) -> Acceptor {
        let mut acceptor = Acceptor {
            promised,
            promise_record: RecordNumber(0),
            accepted: Runs::new(),
            accepted_term: AcceptedTerm::default(),
            last_record: RecordNumber(0),
            durable_record: RecordNumber(0),
            issued: VecDeque::new(),
            durable_promised: promised,
            durable_term: AcceptedTerm::default(),
            durable: Runs::new(),
        };
        for run in accepted {
            crate::invariant!(
                run.term.0 <= promised.0,
                "I4: accepted in {} above the promise {}",
                run.term.0,
                promised.0
            );
            acceptor.add(run.term, run.slots, run.value.clone());
            acceptor.add_durable(run.term, run.slots);
        }
        acceptor
    }

    pub(crate) fn promised(&self) -> PromisedTerm {
        self.promised
    }

    pub(crate) fn durable_promised(&self) -> PromisedTerm {
        self.durable_promised
    }

    pub(crate) fn promise_record(&self) -> RecordNumber {
        self.promise_record
    }

    pub(crate) fn last_record(&self) -> RecordNumber {
        self.last_record
    }

    pub(crate) fn is_durable(&self, record: RecordNumber) -> bool {
        record <= self.durable_record
    }

    pub(crate) fn accepted(&self) -> &Runs<Acceptance> {
        &self.accepted
    }

    pub(crate) fn has_accepted_in(&self, term: Term) -> bool {
        self.accepted_term.0 == term
    }

    pub(crate) fn runs(&self) -> Vec<AcceptedRun> {
        let run = |(slots, accepted): (SlotRange, &Acceptance)| AcceptedRun {
            slots,
            term: accepted.term,
            value: accepted.value.clone(),
        };
        self.accepted.iter().map(run).collect()
    }

    /// The end of what is durably accepted in `term`, without a hole from `from` on.
    pub(crate) fn durable_end(&self, term: Term, from: Slot) -> Slot {
        if self.durable_term.0 == term {
            self.durable.prefix_end(from, |()| true)
        } else {
            from
        }
    }

    /// The first slot below `end` whose acceptance here is on its way to disk; `end` if there is none.
    pub(crate) fn first_undurable(&self, end: Slot) -> Slot {
        let issued = self.issued.iter().filter(|issued| !issued.slots.is_empty());
        issued.map(|i| i.slots.start).fold(end, Slot::min)
    }

    /// So many slots behind the last accepted one: only a mutation reckons in this way.
    pub(crate) fn count_on(&self, from: Slot, count: u64) -> SlotRange {
        let start = from.max(self.accepted.end());
        SlotRange::new(start, Slot(start.0 + count))
    }

    pub(crate) fn next_record(&mut self) -> RecordNumber {
        self.last_record.0 += 1;
        self.last_record
    }

    /// Raises the promise; the caller persists it.
    pub(crate) fn promise(&mut self, term: Term) -> RecordNumber {
        crate::invariant!(
            term >= self.promised.0,
            "I4: a promise is never taken back: {term} after {}",
            self.promised.0
        );
        self.promised = PromisedTerm(term);
        let record = self.next_record();
        self.promise_record = record;
        self.issue(record, term, SlotRange::default());
        record
    }

    /// Accepts, at or above the first unchosen slot `from`; the caller persists it.
    pub(crate) fn accept(
        &mut self,
        term: Term,
        slots: SlotRange,
        value: Value,
        from: Slot,
    ) -> RecordNumber {
        crate::invariant!(
            term >= self.promised.0,
            "I4: nothing is accepted below the promise: {term} below {}",
            self.promised.0
        );
        let record = self.next_record();
        if term > self.promised.0 {
            self.promised = PromisedTerm(term);
            self.promise_record = record;
        }
        let slots = SlotRange::new(slots.start.max(from), slots.end);
        self.add(AcceptedTerm(term), slots, value);
        self.issue(record, term, slots);
        record
    }

    fn issue(&mut self, record: RecordNumber, term: Term, slots: SlotRange) {
        let many = self.issued.len() > ISSUED_MAX;
        if many
            && let Some(last) = self.issued.back_mut()
            && last.term == term
            && last.slots.end == slots.start
        {
            // A disk that lags this far gets coarser answers, not more memory.
            last.record = record;
            last.slots.end = slots.end;
            return;
        }
        self.issued.push_back(Issued {
            record,
            term,
            slots,
        });
    }

    fn add(&mut self, term: AcceptedTerm, slots: SlotRange, value: Value) {
        self.accepted_term = self.accepted_term.max(term);
        self.accepted.assign(slots, Acceptance { term, value });
    }

    fn add_durable(&mut self, term: AcceptedTerm, slots: SlotRange) {
        if term > self.durable_term {
            self.durable_term = term;
            self.durable.clear();
        }
        if term == self.durable_term {
            self.durable.assign(slots, ());
        }
    }

    pub(crate) fn on_durable(&mut self, up_to: RecordNumber, from: Slot) {
        crate::invariant!(
            up_to <= self.last_record,
            "I4: record {} is durable before it was asked for",
            up_to.0
        );
        self.durable_record = self.durable_record.max(up_to);
        while let Some(issued) = self.issued.front().copied()
            && issued.record <= up_to
        {
            self.issued.pop_front();
            self.durable_promised = self.durable_promised.max(PromisedTerm(issued.term));
            if !issued.slots.is_empty() {
                self.add_durable(AcceptedTerm(issued.term), issued.slots);
            }
        }
        self.durable.remove_below(from);
    }

    /// Slots below are chosen: their acceptances have done their work.
    pub(crate) fn forget_below(&mut self, slot: Slot) {
        self.accepted.remove_below(slot);
        self.durable.remove_below(slot);
    }
}

/// More records than this in flight are counted in coarser steps.
const ISSUED_MAX: usize = 1 << 16;
