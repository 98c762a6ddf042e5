//! This node's promises and acceptances, and how much of them is durable.
//!
//! ```text
//!   records   1 … durable … last          they become durable in this order
//!   promised  >= every accepted term      accepting in t raises the promise to t
//! ```
//!
//! One promise leaves something open: the owner's own one at a casting vote (see `casting`).
//!
//! A message that depends on a record is sent `after` it. A message that names no record (a follower's
//! status) is built from the durable part alone.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::runs::{RunValue, Runs};
use crate::{
    AcceptedRun, AcceptedTerm, Finishing, PromisedTerm, RecordNumber, Slot, SlotRange, Term, Value,
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Acceptance {
    pub term: AcceptedTerm,
    pub value: Value,
}

impl RunValue for AcceptedTerm {
    fn extends(&self, before: &AcceptedTerm) -> bool {
        self == before
    }
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
    /// The part that the promise leaves open.
    finishing: Option<Finishing>,
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
    /// The slots durably accepted, by the latest term.
    durable: Runs<AcceptedTerm>,
}

impl Acceptor {
    pub(crate) fn new(promised: PromisedTerm, accepted: &[AcceptedRun]) -> Acceptor {
        let mut acceptor = Acceptor {
            promised,
            finishing: None, // only the life that proposed in that term could go on in it
            promise_record: RecordNumber(0),
            accepted: Runs::new(),
            accepted_term: AcceptedTerm::default(),
            last_record: RecordNumber(0),
            durable_record: RecordNumber(0),
            issued: VecDeque::new(),
            durable_promised: promised,
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
            acceptor.durable.assign(run.slots, run.term);
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
        self.durable.prefix_end(from, |in_term| in_term.0 == term)
    }

    /// The first slot below `end` whose acceptance here is on its way to disk; `end` if there is none.
    pub(crate) fn first_undurable(&self, end: Slot) -> Slot {
        let issued = self.issued.iter().filter(|issued| !issued.slots.is_empty());
        issued.map(|i| i.slots.start).fold(end, Slot::min)
    }

    /// The slots behind the last accepted one, so many of them: only a mutation reckons in this way.
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
        self.finishing = None;
        let record = self.next_record();
        self.promise_record = record;
        self.issue(record, term, SlotRange::default());
        record
    }

    /// ‡ As `promise`, but the promise counts from `finishing.below` on: below it the owner goes on in the
    /// term before.
    pub(crate) fn promise_and_finish(&mut self, term: Term, finishing: Finishing) -> RecordNumber {
        crate::invariant!(
            term.owner == finishing.term.owner && self.promised.0 == finishing.term,
            "I4: {term} leaves {} open above the promise {}",
            finishing.term,
            self.promised.0
        );
        let record = self.promise(term);
        self.finishing = Some(finishing);
        record
    }

    pub(crate) fn finishing(&self) -> Option<Finishing> {
        self.finishing
    }

    /// Ends what the promise left open: nothing more is accepted below the promise, which counts from there.
    pub(crate) fn stop_finishing(&mut self) {
        self.finishing = None;
    }

    /// Whether the acceptance is allowed: nothing below the promise is, but for what the promise left open.
    fn may_accept(&self, term: Term, slots: SlotRange) -> bool {
        let finishes = |f: Finishing| f.term == term && slots.end <= f.below;
        term >= self.promised.0 || self.finishing.is_some_and(finishes)
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
            self.may_accept(term, slots),
            "I4: nothing is accepted below the promise: {slots} in {term} below {}",
            self.promised.0
        );
        let record = self.next_record();
        if term > self.promised.0 {
            self.promised = PromisedTerm(term);
            self.promise_record = record;
            self.finishing = None;
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
                self.durable.assign(issued.slots, AcceptedTerm(issued.term));
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
