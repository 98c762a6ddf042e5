//! The chosen slots, and the way in which a replica that missed some hears of them.
//!
//! The leader counts acceptances. A follower needs no message for the slots that it accepted itself: the
//! leader's first unchosen slot, carried by every proposal and status of a term, says that all below is
//! chosen, and the values that this replica accepted *in that term* below it are the chosen ones. Slots that
//! it did not accept so, it takes from a peer's state: values, not bytes.

use alloc::sync::Arc;
use core::time::Duration;

use crate::engine::Engine;
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::safety::may_choose;
use crate::{
    Finishing, Ignored, LogState, Message, NodeId, Outcome, Output, RecordNumber, Slot, SlotRange,
    Term, Time,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct CatchUp {
    /// The end of the chosen slots, as the leader of this term told.
    told: (Term, Slot),
    /// The term from which that term took over.
    finishing: Option<Finishing>,
    /// The first unchosen slot, while it is known to be chosen, and the time since which nothing has filled it.
    gap: Option<(Slot, Time)>,
    last_request: Option<Time>,
    last_asked: NodeId,
}

impl CatchUp {
    pub(crate) fn on_new_term(&mut self, term: Term) {
        if self.told.0 != term {
            self.told = (term, Slot(0));
            self.finishing = None;
            self.gap = None;
        }
    }

    pub(crate) fn on_told(&mut self, term: Term, chosen_up_to: Slot) {
        self.on_new_term(term);
        self.told.1 = self.told.1.max(chosen_up_to);
    }

    pub(crate) fn on_finishing(&mut self, finishing: Finishing) {
        let (term, _) = self.told;
        if finishing.term < term && finishing.term.owner == term.owner {
            self.finishing = Some(finishing);
        }
    }

    /// Whether the leader that is followed still finishes this term.
    pub(crate) fn finishes(&self, term: Term) -> bool {
        self.finishing
            .is_some_and(|finishing| finishing.term == term)
    }

    /// The term whose acceptances choose this slot, as far as its leader told.
    pub(crate) fn term_at(&self, slot: Slot) -> Term {
        self.next_part(slot).0
    }

    /// The end of what is chosen, and the term to know it by, from `first` on.
    fn next_part(&self, first: Slot) -> (Term, Slot) {
        let (term, chosen) = self.told;
        match self.finishing {
            Some(finishing) if first < finishing.below => {
                (finishing.term, finishing.below.min(chosen))
            }
            _ => (term, chosen),
        }
    }
}

impl Engine {
    /// Extends the chosen slots on the leader while a quorum accepted in its term. Every slot is judged by
    /// its own era, which is known because all slots before it are chosen.
    pub(crate) fn choose(&mut self) {
        loop {
            let Stage::Leading(leading) = &self.stage else {
                return;
            };
            let first = self.state.next;
            let term = leading.term_at(first);
            let proposed_up_to = match leading.finishing {
                Some(finishing) if first < finishing.below => finishing.below,
                _ => leading.proposed_up_to,
            };
            if first >= proposed_up_to || !may_choose(term, self.state.era) {
                return;
            }
            let end = self.quorum_end(term, first).min(proposed_up_to);
            let end = self.copied_end(term, first, end);
            if end <= first {
                return;
            }
            let era = self.state.era;
            self.apply_chosen(term, SlotRange::new(first, end), true);
            let Stage::Leading(leading) = &self.stage else {
                return;
            };
            if self.state.era == era && end != leading.finishing_below() {
                return;
            }
            self.check_quorum();
        }
    }

    /// The end of the slots that, from `first` on, a quorum of the current era accepted without a hole.
    fn quorum_end(&mut self, term: Term, first: Slot) -> Slot {
        self.scratch.clear();
        let mut weight = 0;
        for member in self.state.configuration.members() {
            let own = member.node == self.config.node;
            let end = if own && mutation::is(Mutation::OwnWriteNotAwaited) {
                let accepted = self.acceptor.accepted();
                accepted.prefix_end(first, |acceptance| acceptance.term.0 == term)
            } else if own {
                self.acceptor.durable_end(term, first)
            } else if member.auxiliary && mutation::is(Mutation::AuxiliaryCountedWithoutBytes) {
                self.proposed_up_to()
            } else {
                match self.peers.get(member.node) {
                    Some(peer) => peer.accepted.prefix_end(first, |()| true),
                    None => first,
                }
            };
            if end > first {
                weight += u64::from(member.weight);
                self.scratch.push((end, u64::from(member.weight)));
            }
        }
        let any = mutation::is(Mutation::ChosenWithoutAQuorum);
        if !self.state.configuration.is_majority(weight) && !any {
            return first;
        }
        self.scratch.sort_unstable_by(|a, b| b.cmp(a));
        let mut weight = 0;
        for (end, more) in &self.scratch {
            weight += more;
            if self.state.configuration.is_majority(weight) || any {
                return *end;
            }
        }
        first
    }

    /// Applies the values of `slots`, all accepted here in `term`. A leader stops after a
    /// reconfiguration: the slots behind it have other quorums.
    fn apply_chosen(&mut self, term: Term, slots: SlotRange, leads: bool) {
        let state = Arc::make_mut(&mut self.state);
        for (slots, acceptance) in self.acceptor.accepted().over(slots) {
            crate::invariant!(
                acceptance.term.0 == term && slots.start == state.next,
                "I1: {slots} is chosen in {term}, and accepted in {} after {}",
                acceptance.term.0,
                state.next
            );
            if let Some(outcome) = state.apply(slots, &acceptance.value) {
                let new_era = matches!(outcome, Outcome::Reconfigured { .. });
                self.outcomes.push((slots.start, outcome));
                if new_era && leads && !mutation::is(Mutation::Q2OfTheWrongEra) {
                    break;
                }
            }
        }
        let next = state.next;
        if !self.outcomes.is_empty() {
            let mut outcomes = core::mem::take(&mut self.outcomes);
            for (slot, outcome) in outcomes.drain(..) {
                self.put(Output::Applied { slot, outcome });
            }
            self.outcomes = outcomes;
        }
        self.acceptor.forget_below(next);
    }

    /// Learns on a follower from what its leader told.
    pub(crate) fn learn(&mut self) {
        let Some(term) = self.followed_term() else {
            return;
        };
        let (told_in, chosen) = self.catch_up.told;
        let first = self.state.next;
        if told_in != term || chosen <= first {
            self.catch_up.gap = None;
            return;
        }
        while self.learn_part() {}
        self.check_gap(term, chosen);
    }

    /// Learns the slots that were accepted in one term. True if that was all to its end.
    fn learn_part(&mut self) -> bool {
        let first = self.state.next;
        let (term, part_end) = self.catch_up.next_part(first);
        let accepted = self.acceptor.accepted();
        let any = mutation::is(Mutation::LearnedInAnotherTerm);
        let end = accepted
            .prefix_end(first, |acceptance| acceptance.term.0 == term || any)
            .min(part_end);
        if end > first {
            self.apply_chosen(term, SlotRange::new(first, end), false);
            self.forget_recent();
        }
        end > first && end == part_end
    }

    /// Asks for a slot that is chosen and that nothing fills: its leader proposes it no more. While proposals
    /// are merely under way the gap moves, and nothing is asked.
    fn check_gap(&mut self, term: Term, chosen: Slot) {
        let first = self.state.next;
        if chosen <= first {
            self.catch_up.gap = None;
            return;
        }
        match self.catch_up.gap {
            Some((slot, _)) if slot == first => {}
            _ => self.catch_up.gap = Some((first, self.now)),
        }
        let accepted = self.acceptor.accepted();
        let accepted_above = accepted.iter().last();
        // The slot was accepted in an earlier term of the same leader: if this term took over from that one,
        // its status is on the way here, and will say so.
        let at_first = accepted
            .over(SlotRange::new(first, Slot(first.0 + 1)))
            .next();
        let may_take_over = at_first.is_some_and(|(_, acceptance)| {
            acceptance.term.0 != term && acceptance.term.0.owner == term.owner
        });
        if !may_take_over && accepted_above.is_some_and(|(_, acceptance)| acceptance.term.0 == term)
        {
            self.catch_up_from(term.owner);
        }
    }

    pub(crate) fn catch_up_deadline(&self) -> Option<Time> {
        let (_, since) = self.catch_up.gap?;
        let timing = &self.config.timing;
        // An auxiliary at rest is sent no proposals, so it must ask for everything it learns.
        let wait = match self.is_auxiliary() {
            true => timing.retry.max(timing.auxiliary_pace),
            false => timing.retry,
        };
        Some(since + wait)
    }

    pub(crate) fn on_catch_up_timer(&mut self) {
        if self.catch_up_deadline().is_some_and(|due| due <= self.now)
            && let Some((slot, _)) = self.catch_up.gap
        {
            self.catch_up.gap = Some((slot, self.now));
            let (term, _) = self.catch_up.told;
            self.catch_up_from(term.owner);
        }
    }

    pub(crate) fn heard_first_unchosen(&mut self, from: NodeId, slot: Slot) {
        let peer = self.peers.entry(from);
        peer.first_unchosen = peer.first_unchosen.max(slot);
    }

    /// Asks for state: `first` at first, then others that told of more. At most once per
    /// `timing.retry`.
    pub(crate) fn catch_up_from(&mut self, first: NodeId) {
        let retry = self.config.timing.retry;
        if let Some(last) = self.catch_up.last_request
            && self.now < last + retry
        {
            return;
        }
        let mut to = first;
        if to == self.catch_up.last_asked || to == self.config.node {
            let next = self.state.next;
            let other = |peer: &&crate::peers::Peer| {
                peer.alive && peer.node != first && peer.first_unchosen > next
            };
            if let Some(peer) = self.peers.iter().find(other) {
                to = peer.node;
            }
        }
        if to == self.config.node {
            return;
        }
        self.catch_up.last_request = Some(self.now);
        self.catch_up.last_asked = to;
        let message = Message::RequestState {
            first_unchosen: self.state.next,
            streams_known: 0,
        };
        self.send(to, message, RecordNumber(0));
    }

    pub(crate) fn on_request_state(&mut self, from: NodeId, first_unchosen: Slot) {
        self.heard_first_unchosen(from, first_unchosen);
        if first_unchosen < self.state.next {
            let state = Arc::clone(&self.state);
            self.send(from, Message::State(state), RecordNumber(0));
        } else {
            self.ignore(from, Ignored::Stale);
        }
    }

    /// Takes a peer's state, which states what is chosen. A leader past phase 1 takes none: the slots that it
    /// tells its followers to be chosen must be those that they accepted in its term.
    ///
    /// ‡ A state that says less never replaces what is known to be chosen here: somebody forgot, and both
    /// must not go on.
    pub(crate) fn on_state(&mut self, from: NodeId, state: Arc<LogState>) {
        self.heard_first_unchosen(from, state.next);
        if !state.is_sound() {
            self.ignore(from, Ignored::Malformed);
            return;
        }
        if let Some(what) = self.state.contradicted_by(&state)
            && !mutation::is(Mutation::ContradictingStateInstalled)
        {
            self.put(Output::Contradicted { by: from, what });
            return;
        }
        if state.next <= self.state.next {
            self.ignore(from, Ignored::Stale);
            return;
        }
        if let Stage::Leading(leading) = &mut self.stage {
            if leading.goes_on() {
                self.redo_phase1();
                return;
            }
            self.fall_back_to_preparing();
        }
        let new_era = state.era != self.state.era;
        self.state = state;
        self.missing_is_stale = true;
        self.acceptor.forget_below(self.state.next);
        self.forget_recent();
        self.catch_up.gap = None;
        self.catch_up.last_request = None;
        self.persist_state();
        self.put(Output::StateInstalled);
        self.attempts = 0;
        if new_era {
            // The early prepare is answered before a term of our own is prepared: one input raises the
            // promise once, so that the record of a promise holds that promise.
            self.answer_early_prepare();
            self.on_new_era();
        }
        self.wake_within(Duration::ZERO);
        self.learn();
        self.evaluate_phase1();
    }
}
