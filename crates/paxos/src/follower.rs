//! Answers to prepares and proposals: the acceptor's side of both phases.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::engine::Engine;
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::safety::{is_credible, is_credible_term};
use crate::{
    Digest, Finishing, Ignored, Message, NodeId, Note, Promise, PromisedTerm, Proposal,
    RecordNumber, Slot, SlotRange, Term, Time,
};

/// An acceptance announced and not known chosen: repeated until the leader shows that it heard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    term: Term,
    slots: SlotRange,
    digest: Digest,
    record: RecordNumber,
    at: Time,
}

/// The most announcements kept: the leader repeats the proposals that it does not know accepted.
const ANNOUNCED_MAX: usize = 4096;

#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    announced: VecDeque<Announced>,
}

impl Engine {
    /// Refuses a prepare, a proposal, a confirmation or a status below the promise.
    pub(crate) fn refuse(&mut self, to: NodeId, refused: Term) {
        let message = Message::Refuse {
            refused,
            promised: self.acceptor.promised(),
        };
        self.send(to, message, self.acceptor.promise_record());
        self.ignore(to, Ignored::OlderTerm);
    }

    pub(crate) fn on_prepare(&mut self, from: NodeId, term: Term) {
        if !is_credible_term(term) {
            self.ignore(from, Ignored::Malformed);
            return;
        }
        let any_era = mutation::is(Mutation::UnknownEraPromised)
            || mutation::is(Mutation::HiddenErasForgotten);
        if term.era > self.state.era && !any_era {
            // Answered as soon as all slots before that era are known here.
            self.ignore(from, Ignored::EraNotKnown);
            self.early_prepare = self.early_prepare.max(Some((term, from)));
            self.catch_up_from(from);
            return;
        }
        if let Err(why) = self.believes(term) {
            self.ignore(from, why);
            return;
        }
        // A leader that hands over prepares a term of its successor. It may be a member no more.
        let speaks_for_it = self.state.configuration.contains(from)
            || self.leader().is_some_and(|(leader, _)| leader == from);
        if term.owner != from && !speaks_for_it && !mutation::is(Mutation::TermsOfStrangers) {
            self.ignore(from, Ignored::NotOwner);
            return;
        }
        let leads = self.leader().is_some_and(|(leader, _)| leader == from);
        if term.owner != from && leads {
            self.note(Note::HandsOver { from, term });
        }
        if term.owner == self.config.node {
            self.on_succession(from, term);
            return;
        }
        if !self.may_promise() {
            self.ignore(from, Ignored::Forgetful);
            self.catch_up_from(from);
            return;
        }
        let promised = self.acceptor.promised().0;
        if term < promised && !mutation::is(Mutation::PromiseGoesBack) {
            self.refuse(term.owner, term);
            return;
        }
        if term == promised {
            if self.acceptor.has_accepted_in(term)
                && !mutation::is(Mutation::PreparedAgainAfterAccepting)
            {
                self.ignore(from, Ignored::AlreadyAcceptedInTerm);
                return;
            }
        } else {
            self.yield_to(term.owner);
            self.raise_promise(term);
        }
        self.send_promise(term);
    }

    pub(crate) fn answer_early_prepare(&mut self) {
        let era = self.state.era;
        if let Some((term, from)) = self.early_prepare.take_if(|(term, _)| term.era <= era) {
            self.on_prepare(from, term);
        }
    }

    /// ‡ The promise reports every acceptance asked for before it, and goes out after its record,
    /// which follows theirs.
    pub(crate) fn send_promise(&mut self, term: Term) {
        let mut promise = Promise {
            term,
            from: self.state.next,
            runs: self.acceptor.runs(),
        };
        let mut after = self.acceptor.last_record();
        if mutation::is(Mutation::BoundSlotPromisedFree) {
            promise.runs.clear();
        }
        if mutation::is(Mutation::PromiseBeforeDurable) {
            after = RecordNumber(0);
        }
        self.send(term.owner, Message::Promise(promise), after);
    }

    /// Takes a term of this node's that a leader which abdicates prepared.
    fn on_succession(&mut self, from: NodeId, term: Term) {
        let current = term.era == self.state.era && term > self.acceptor.promised().0;
        if current && self.may_stand() && !matches!(self.stage, Stage::Leading(_)) {
            self.prepare(term, alloc::vec::Vec::new());
        } else {
            self.ignore(from, Ignored::Stale);
        }
    }

    pub(crate) fn on_propose(&mut self, from: NodeId, proposal: Proposal) {
        let Proposal {
            term,
            slots,
            value,
            digest,
            chosen_up_to,
        } = proposal;
        if !is_credible_term(term) || !is_credible(slots, &value) {
            self.ignore(from, Ignored::Malformed);
            return;
        }
        if !self.heed_leader(from, term, chosen_up_to, None) {
            return;
        }
        let first_unchosen = self.state.next;
        let slots = match mutation::is(Mutation::SlotInferredByCounting) {
            true => self.acceptor.count_on(first_unchosen, slots.len()),
            false => slots,
        };
        if slots.end <= first_unchosen {
            // These slots were chosen long ago. A proposer that does not know that must catch up.
            if chosen_up_to < slots.end {
                self.offer_catch_up(from);
            }
            self.ignore(from, Ignored::Stale);
            return;
        }
        let open = SlotRange::new(slots.start.max(first_unchosen), slots.end);
        let accepted = self.acceptor.accepted();
        let is_new = accepted.end() <= open.start;
        let conflicts = !is_new
            && accepted
                .over(open)
                .any(|(_, acceptance)| acceptance.term.0 == term && acceptance.value != value);
        let held = mutation::is(Mutation::HeldTakenForAccepted);
        let known = !is_new
            && accepted.covers(open, |acceptance| {
                acceptance.term.0 == term || held && acceptance.value == value
            });
        if conflicts {
            // I3 is broken by the proposer; this replica keeps to the first value.
            self.ignore(from, Ignored::Malformed);
            return;
        }
        let record = if known {
            match self.announced_record(term, slots) {
                // The acceptance is said, and waits for its record: while a disk hangs, that is not to grow.
                Some(record) if !self.acceptor.is_durable(record) => {
                    self.learn();
                    return;
                }
                Some(record) => record,
                None => self.acceptor.last_record(),
            }
        } else {
            let record = self.accept(term, slots, value, digest);
            self.remember(Announced {
                term,
                slots,
                digest,
                record,
                at: self.now,
            });
            record
        };
        let message = Message::Accepted {
            term,
            slots,
            digest,
        };
        let undurable = mutation::is(Mutation::AckBeforeDurability);
        let after = if undurable { RecordNumber(0) } else { record };
        self.send(from, message, after);
        self.learn();
    }

    /// Whether `from` leads in `term` as far as this replica knows, and may be answered.
    fn heed_leader(
        &mut self,
        from: NodeId,
        term: Term,
        chosen_up_to: Slot,
        finishing: Option<Finishing>,
    ) -> bool {
        if term.owner != from {
            self.ignore(from, Ignored::NotOwner);
            return false;
        }
        if term < self.acceptor.promised().0 && !mutation::is(Mutation::AcceptsBelowPromise) {
            self.refuse(from, term);
            return false;
        }
        if self.followed_term().is_some_and(|followed| term < followed) {
            // The status in which a term took over may overtake proposals to be finished in the term before.
            if term.era <= self.state.era && self.catch_up.finishes(term) {
                return true;
            }
            self.ignore(from, Ignored::OlderTerm);
            return false;
        }
        if let Err(why) = self.believes(term) {
            self.ignore(from, why);
            if why == Ignored::EraNotKnown {
                self.catch_up_from(from);
            }
            return false;
        }
        self.follow(from, term);
        self.heard_first_unchosen(from, chosen_up_to);
        self.catch_up.on_told(term, chosen_up_to);
        if let Some(finishing) = finishing {
            self.catch_up.on_finishing(finishing);
        }
        if term.era > self.state.era {
            self.learn(); // what was accepted in the term before may say how this era began
        }
        if term.era > self.state.era {
            self.ignore(from, Ignored::EraNotKnown);
            self.catch_up_from(from);
            return false;
        }
        true
    }

    pub(crate) fn on_leader_status(
        &mut self,
        from: NodeId,
        term: Term,
        chosen_up_to: Slot,
        finishing: Option<Finishing>,
    ) {
        if !is_credible_term(term) {
            self.ignore(from, Ignored::Malformed);
            return;
        }
        if self.heed_leader(from, term, chosen_up_to, finishing) {
            self.learn();
            self.announce_again(term, chosen_up_to);
        }
    }

    fn remember(&mut self, announced: Announced) {
        let recent = &mut self.recent.announced;
        // A later term of the same owner may finish what was proposed in the one before.
        let owner = announced.term.owner;
        if recent.back().is_some_and(|last| last.term.owner != owner) {
            recent.clear();
        }
        if recent.len() == ANNOUNCED_MAX {
            recent.pop_front();
        }
        recent.push_back(announced);
    }

    /// The record that holds an acceptance announced before.
    fn announced_record(&self, term: Term, slots: SlotRange) -> Option<RecordNumber> {
        let mut recent = self.recent.announced.iter();
        recent
            .find(|announced| announced.slots == slots && announced.term == term)
            .map(|announced| announced.record)
    }

    /// Announces again the acceptances that the leader does not know to be chosen: perhaps the announcement
    /// was lost. (If their records are not durable yet, it still waits here.)
    fn announce_again(&mut self, term: Term, chosen_up_to: Slot) {
        let retry = self.config.timing.retry;
        for at in 0..self.recent.announced.len() {
            let announced = &mut self.recent.announced[at];
            if announced.term != self.catch_up.term_at(announced.slots.start)
                || announced.slots.end <= chosen_up_to
                || !self.acceptor.is_durable(announced.record)
                || self.now < announced.at + retry
            {
                continue;
            }
            announced.at = self.now;
            let record = announced.record;
            let message = Message::Accepted {
                term: announced.term,
                slots: announced.slots,
                digest: announced.digest,
            };
            self.send(term.owner, message, record);
        }
    }

    pub(crate) fn forget_recent(&mut self) {
        let first_unchosen = self.state.next;
        while let Some(first) = self.recent.announced.front()
            && first.slots.end <= first_unchosen
        {
            self.recent.announced.pop_front();
        }
    }

    pub(crate) fn on_refuse(&mut self, from: NodeId, refused: Term, promised: PromisedTerm) {
        self.see_promise_of(from, promised.0);
        self.note(crate::Note::Refused {
            by: from,
            term: promised.0,
        });
        match &self.stage {
            Stage::Preparing(phase) if phase.term == refused && promised.0 > phase.term => {
                self.become_candidate(Duration::ZERO);
                if promised.0.era > self.state.era {
                    self.catch_up_from(from);
                }
            }
            Stage::Leading(_) => self.redo_above(from, promised.0),
            _ => {}
        }
    }
}
