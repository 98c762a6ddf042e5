//! One node's holdings of one log, by the records that became durable.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use formats::LogId;
use paxos::{
    AcceptedRun, Checkpoint, Finishing, NodeId, PromisedTerm, Slot, SlotRange, StreamName, Term,
    Value,
};

use super::files::Files;
use super::ranges::Ranges;

#[derive(Clone, Default)]
pub(super) struct Replica {
    /// In records that are durable.
    pub promised: PromisedTerm,
    /// All slots below are chosen, as durable records say.
    pub known_chosen: Slot,
    /// Found on disk at the last start: it proposes only above it.
    pub promised_at_start: PromisedTerm,
    /// In the headers of records given to the disk; and in any part of them. A state that a peer
    /// sent may be recorded with the promise whose own record comes next.
    promised_issued: PromisedTerm,
    promised_at_most: PromisedTerm,
    /// The part that the last promise leaves open, by the records given to the disk; the casting vote.
    left_open: Option<Finishing>,
    /// From here on it proposes in the promised term although that is not closed by a record yet.
    takes_over_at: Option<Slot>,
    /// The last acceptance in each slot, durably.
    pub accepted: Ranges<(Term, Value)>,
    /// The same, with what its damaged disk lost.
    once_accepted: Ranges<(Term, Value)>,
    /// By term: slots whose records became durable, and those that this life of the node asked its
    /// disk to record besides.
    durable: BTreeMap<Term, Ranges<()>>,
    issued: BTreeMap<Term, Ranges<()>>,
    /// By stream: below it an auxiliary was released.
    pub released: BTreeMap<StreamName, u64>,
    /// The leader that released it knew all below for chosen: what that trims, the replica may give up.
    pub released_below: Slot,
    /// Bytes of streams.
    pub held: BTreeMap<StreamName, Ranges<()>>,
    pub files: Files,
}

impl Replica {
    /// True if a promise that left something open counts in full from now on, as the checkpoint says.
    pub fn on_issued(
        &mut self,
        whose: Whose,
        promised: PromisedTerm,
        within: Option<&Checkpoint>,
        accept: Option<(Term, SlotRange)>,
    ) -> bool {
        assert!(
            promised >= self.promised_issued,
            "I4: {whose} records the promise {} after {}",
            promised.0,
            self.promised_issued.0
        );
        if let Some((term, slots)) = accept {
            let finishes = |open: Finishing| open.term == term && slots.end <= open.below;
            assert!(
                term >= self.promised_at_most.0 || self.left_open.is_some_and(finishes),
                "I4: {whose} accepts {slots} in {term} below its promise {}, which left {:?} open",
                self.promised_at_most.0,
                self.left_open
            );
            if term >= self.promised_at_most.0 {
                self.close();
            }
            let issued = self.issued.entry(term).or_default();
            issued.assign(slots.start.0..slots.end.0, ());
        }
        self.promised_issued = promised;
        let closed = within.is_some_and(|checkpoint| self.on_left_open(whose, checkpoint));
        let within = within.map(|checkpoint| checkpoint.promised);
        let within = within.unwrap_or_default();
        self.promised_at_most = self.promised_at_most.max(promised).max(within);
        closed
    }

    fn close(&mut self) {
        self.left_open = None;
        self.takes_over_at = None;
    }

    /// A promise leaves nothing open but to its owner, in the own term that was promised before;
    /// and what is closed once stays so.
    fn on_left_open(&mut self, whose: Whose, checkpoint: &Checkpoint) -> bool {
        let before = self.promised_at_most.0;
        let term = checkpoint.promised.0;
        if let Some(open) = checkpoint.finishing {
            let begins = term > before
                && open.term == before
                && [term.owner, before.owner] == [whose.node; 2];
            let stands = term == before && self.left_open == Some(open);
            assert!(
                begins || stands,
                "I4: {whose} promises {term} after {before} and leaves {open:?} open, not {:?}",
                self.left_open
            );
            if begins {
                self.close();
                self.left_open = Some(open);
            }
            return false;
        }
        let was_open = self.left_open.is_some();
        if term >= before {
            self.close();
        }
        was_open && term == before
    }

    /// Its owner proposes in a term from `from` on: there the promise counts, whatever it left open.
    /// Returns that, if this is news.
    pub fn take_over(&mut self, term: Term, from: Slot) -> Option<Finishing> {
        let open = self.left_open.filter(|_| self.promised_at_most.0 == term)?;
        let news = self.takes_over_at.is_none_or(|before| from < before);
        self.takes_over_at = Some(from).filter(|_| news).or(self.takes_over_at);
        news.then_some(open)
    }

    /// The terms that it leaves open: the one before, and the promised one.
    pub fn finishes(&self, term: Term) -> Option<Term> {
        let open = self.left_open.filter(|open| open.term == term);
        open.map(|_| self.promised_at_most.0)
    }

    /// The acceptances from there on, durably.
    pub fn accepted_from(&self, from: Slot) -> impl Iterator<Item = AcceptedRun> + '_ {
        let accepted = self.accepted.over(from.0..u64::MAX);
        accepted.map(|(range, (term, value))| AcceptedRun {
            slots: SlotRange::new(Slot(range.start), Slot(range.end)),
            term: paxos::AcceptedTerm(*term),
            value: value.clone(),
        })
    }

    pub fn on_accepted(&mut self, term: Term, slots: SlotRange, value: &Value) {
        let range = slots.start.0..slots.end.0;
        let durable = self.durable.entry(term).or_default();
        durable.assign(range.clone(), ());
        self.once_accepted
            .assign(range.clone(), (term, value.clone()));
        self.accepted.assign(range, (term, value.clone()));
    }

    /// `runs` say all that was accepted at or above `from` in terms below `below`, and nothing that
    /// was not.
    pub fn check_told(
        &self,
        whose: Whose,
        what: &str,
        from: Slot,
        below: Option<Term>,
        runs: &[AcceptedRun],
    ) {
        check_kept(&self.accepted, whose, what, from, below, runs);
        for run in runs {
            let issued = self.issued.get(&run.term.0);
            let range = run.slots.start.0.max(from.0)..run.slots.end.0;
            assert!(
                issued.is_some_and(|issued| issued.covers(range)),
                "I4: {what} of {whose} tells of an acceptance that never was: {run:?}"
            );
        }
    }

    /// A promise says that nothing else was accepted: a replica whose disk lost acceptances makes
    /// none before it knows what is chosen beyond them.
    pub fn check_promise(
        &self,
        whose: Whose,
        from: Slot,
        below: Option<Term>,
        runs: &[AcceptedRun],
    ) {
        self.check_told(whose, "a promise", from, below, runs);
        check_kept(&self.once_accepted, whose, "a promise", from, below, runs);
    }

    /// After a disk lost records: what it may have forgotten is not held against it.
    pub fn forgive(&mut self, checkpoint_from: Slot, runs: &[AcceptedRun]) {
        self.accepted = Ranges::default();
        for run in runs {
            let range = run.slots.start.0.max(checkpoint_from.0)..run.slots.end.0;
            self.accepted.assign(range, (run.term.0, run.value.clone()));
        }
    }

    /// While it is auxiliary it may give up the bytes of the stream below `end`: others hold them.
    pub fn release(&mut self, stream: StreamName, end: u64) {
        let released = self.released.entry(stream).or_default();
        *released = end.max(*released);
    }

    pub fn hold(&mut self, stream: StreamName, bytes: Range<u64>, path: &Path) {
        self.files.hold(path, stream, bytes.clone());
        self.held.entry(stream).or_default().assign(bytes, ());
    }

    pub fn lose(&mut self, stream: StreamName, bytes: Range<u64>) {
        self.files.lose(stream, bytes.clone());
        self.held.entry(stream).or_default().remove(bytes);
    }

    /// A file goes, or becomes another's: what only it held is not held any more. Returns that.
    pub fn forget_file(&mut self, path: &Path) -> Vec<(StreamName, Range<u64>)> {
        let only_there = self.files.forget(path);
        for (stream, bytes) in &only_there {
            self.held.entry(*stream).or_default().remove(bytes.clone());
        }
        only_there
    }

    pub fn holds(&self, stream: StreamName, bytes: Range<u64>) -> bool {
        bytes.is_empty()
            || self
                .held
                .get(&stream)
                .is_some_and(|held| held.covers(bytes))
    }

    /// The process ended: what was on its way and is not durable never was.
    pub fn on_end(&mut self) {
        self.promised_issued = self.promised;
        self.promised_at_most = self.promised;
        self.promised_at_start = self.promised;
        self.close();
        self.issued = self.durable.clone();
    }
}

/// All that was accepted at or above `from` in terms below `below` is among the runs.
fn check_kept(
    accepted: &Ranges<(Term, Value)>,
    whose: Whose,
    what: &str,
    from: Slot,
    below: Option<Term>,
    runs: &[AcceptedRun],
) {
    for (range, (term, value)) in accepted.over(from.0..u64::MAX) {
        if below.is_some_and(|below| *term >= below) {
            continue;
        }
        let mut at = range.start;
        while at < range.end {
            let told = runs.iter().find(|run| run.slots.contains(Slot(at)));
            let kept = told.is_some_and(|run| {
                run.term.0 > *term || (run.term.0 == *term && run.value == *value)
            });
            assert!(
                kept,
                "I4: {what} of {whose} forgets that {value:?} was accepted at {at} in {term}: from {from}, {runs:?}"
            );
            at = told.map_or(range.end, |run| run.slots.end.0);
        }
    }
}

/// The replica that a sentence is about.
#[derive(Clone, Copy)]
pub(super) struct Whose {
    pub node: NodeId,
    pub log: LogId,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} in log {}", self.node, self.log.0)
    }
}
