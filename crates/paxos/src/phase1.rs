//! Phase 1: asking for promises, and reading out of them what they bind a leader to.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::engine::Engine;
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::proposer::Leading;
use crate::safety::{self, Contradiction, Piece};
use crate::{
    AcceptedRun, Ignored, Message, NodeId, Note, Promise, RecordNumber, StepDownReason, Term, Time,
};

#[derive(Clone, Debug)]
pub(crate) struct Phase1 {
    pub term: Term,
    /// The own promise. Nothing is proposed in the term before it is durable.
    record: RecordNumber,
    promises: Vec<(NodeId, Promise)>,
    /// Nodes that hold bytes that cannot be had: a quorum is sought without them.
    excluded: Vec<NodeId>,
    /// The only nodes asked, at a casting vote; the term before goes on without them.
    casting: Option<Vec<NodeId>>,
    retry_at: Time,
    give_up_at: Time,
    /// The own promise is durable, and others are waited for.
    is_own_durable: bool,
}

/// The most doublings of the time that a candidate which hears a quorum waits for its promises, one with each
/// attempt: the promises may be on their way to slow disks.
const PATIENCE_DOUBLED_MAX: u32 = 3;

impl Phase1 {
    pub(crate) fn deadline(&self) -> Time {
        self.retry_at.min(self.give_up_at)
    }

    fn new(engine: &Engine, term: Term, record: RecordNumber) -> Phase1 {
        let (now, timing) = (engine.now, engine.config.timing);
        let give_up = timing.leader_timeout.max(timing.retry.saturating_mul(4));
        Phase1 {
            term,
            record,
            promises: Vec::new(),
            excluded: Vec::new(),
            casting: None,
            retry_at: now + timing.retry,
            give_up_at: now + give_up,
            is_own_durable: false,
        }
    }

    pub(crate) fn casting(
        engine: &Engine,
        term: Term,
        record: RecordNumber,
        asked: Vec<NodeId>,
    ) -> Phase1 {
        Phase1 {
            casting: Some(asked),
            ..Phase1::new(engine, term, record)
        }
    }

    /// The nodes that alone are asked, at a casting vote.
    pub(crate) fn asked(&self) -> Option<&[NodeId]> {
        self.casting.as_deref()
    }

    /// Asks everybody from now on. Returns the nodes that were asked before.
    pub(crate) fn stop_casting(&mut self) -> Option<Vec<NodeId>> {
        self.casting.take()
    }
}

impl Engine {
    /// Prepares a term of this node. Its own promise comes first and closes the permit.
    pub(crate) fn prepare(&mut self, term: Term, excluded: Vec<NodeId>) {
        crate::invariant!(
            term.owner == self.config.node && term > self.acceptor.promised().0,
            "I3: {term} is prepared by its owner, above every promise"
        );
        let record = self.raise_promise(term);
        let phase = Phase1 {
            excluded,
            ..Phase1::new(self, term, record)
        };
        self.last_phase1 = Some(self.now);
        match &mut self.stage {
            Stage::Leading(leading) => {
                leading.redo_at = None;
                leading.abdication = None;
                leading.again = Some(phase);
                self.note(Note::PhaseOneAgain { term });
            }
            _ => {
                self.leave_stage();
                self.stage = Stage::Preparing(phase);
                self.note(Note::StandingForElection { term });
            }
        }
        self.send_to_members(&Message::Prepare { term });
    }

    #[inline]
    pub(crate) fn phase1(&mut self) -> Option<&mut Phase1> {
        match &mut self.stage {
            Stage::Preparing(phase) => Some(phase),
            Stage::Leading(leading) => leading.again.as_mut(),
            _ => None,
        }
    }

    pub(crate) fn on_promise(&mut self, from: NodeId, promise: Promise) {
        self.heard_first_unchosen(from, promise.from);
        if !safety::is_credible_promise(&promise) {
            self.ignore(from, Ignored::Malformed);
            return;
        }
        let any = mutation::is(Mutation::PromiseForAnotherTermCounted);
        let phase = self.phase1();
        let Some(phase) = phase.filter(|phase| phase.term == promise.term || any) else {
            self.ignore(from, Ignored::Stale);
            return;
        };
        phase.promises.retain(|(node, _)| *node != from);
        phase.promises.push((from, promise));
        self.evaluate_phase1();
    }

    /// Does what follows if phase 1 is done.
    pub(crate) fn evaluate_phase1(&mut self) {
        let node = self.config.node;
        let era = self.state.era;
        let first = self.state.next;
        let Some(phase) = self.phase1() else {
            return;
        };
        if phase.term.era < era {
            let excluded = core::mem::take(&mut phase.excluded);
            self.start_phase1(excluded);
            return;
        }
        let (term, record) = (phase.term, phase.record);
        let casts = phase.casting.is_some();
        let anyhow = mutation::is(Mutation::OwnPromiseNotAwaited)
            || casts && mutation::is(Mutation::CastingPromiseNotAwaited);
        if !self.acceptor.is_durable(record) && !anyhow {
            return;
        }
        self.wait_for_others();
        crate::invariant!(
            self.acceptor.promised().0 == term,
            "I4: phase 1 of {term} goes on below the promise {}",
            self.acceptor.promised().0
        );
        let own = self.acceptor.runs();
        // At a casting vote the term begins behind what is under way in the one before.
        let from = match casts {
            true => self.proposed_up_to(),
            false => first,
        };
        let Some(phase) = self.phase1() else {
            return;
        };
        // The candidate first catches up to the largest `from`: a promise says nothing on the slots below it.
        let any = mutation::is(Mutation::PromiseFromIgnored);
        let ahead = phase.promises.iter();
        let ahead = ahead.filter(|(_, p)| p.from > first && !any);
        let ahead: Vec<NodeId> = ahead.map(|(node, _)| *node).collect();
        if let Some(peer) = ahead.iter().find(|peer| self.peers.is_alive(**peer)) {
            self.catch_up_from(*peer);
            return;
        }
        let Some(phase) = self.phase1() else {
            return;
        };
        let mut promises: Vec<(NodeId, &[AcceptedRun])> = Vec::new();
        if !phase.excluded.contains(&node) {
            promises.push((node, &own));
        }
        for (peer, promise) in &phase.promises {
            if (promise.from <= first || any) && !phase.excluded.contains(peer) {
                promises.push((*peer, &promise.runs));
            }
        }
        let answered: Vec<NodeId> = promises.iter().map(|(node, _)| *node).collect();
        let plan = safety::plan(from, &promises);
        let excluded = phase.excluded.clone();
        if !self
            .state
            .configuration
            .is_quorum(|member| answered.contains(&member))
        {
            return;
        }
        match plan {
            Ok(plan) if casts && plan.is_empty() => self.take_over(term),
            Ok(_) if casts => self.give_up_casting(), // an earlier term left something there
            Ok(plan) => self.become_leader(term, plan, excluded),
            Err(Contradiction(peer)) => {
                if let Some(phase) = self.phase1() {
                    phase.promises.retain(|(node, _)| *node != peer);
                }
                self.ignore(peer, Ignored::Malformed);
            }
        }
    }

    /// The own promise is durable: from now on a candidate waits for those of others.
    fn wait_for_others(&mut self) {
        let timing = self.config.timing;
        let doubled = match self.is_quorum_alive() {
            true => self.attempts.saturating_sub(1).min(PATIENCE_DOUBLED_MAX),
            false => 0,
        };
        let give_up_at = self.now + timing.leader_timeout.saturating_mul(1 << doubled);
        if let Stage::Preparing(phase) = &mut self.stage
            && !phase.is_own_durable
        {
            phase.is_own_durable = true;
            phase.give_up_at = give_up_at.max(phase.give_up_at);
        }
    }

    pub(crate) fn on_phase1_timer(&mut self) {
        let now = self.now;
        let retry = self.config.timing.retry;
        let limit = self.now + self.config.timing.leader_timeout;
        // Another term would add a promise to a disk that has not written this one yet.
        if let Stage::Preparing(phase) = &mut self.stage
            && phase.give_up_at <= now
            && !phase.is_own_durable
        {
            phase.give_up_at = limit;
        }
        let Some(phase) = self.phase1() else {
            return;
        };
        if phase.give_up_at <= now {
            if phase.casting.is_some() {
                phase.retry_at = now + retry;
                phase.give_up_at = now + retry.saturating_mul(4);
                self.give_up_casting();
            } else if !phase.excluded.is_empty() {
                // There is no quorum without the excluded nodes; perhaps their bytes can be had by now.
                self.start_phase1(Vec::new());
            } else if matches!(self.stage, Stage::Leading(_)) {
                self.step_down(StepDownReason::NoQuorum, Duration::ZERO);
            } else {
                self.become_candidate(Duration::ZERO);
            }
            return;
        }
        if phase.retry_at > now {
            return;
        }
        phase.retry_at = now + retry;
        let term = phase.term;
        let answered: Vec<NodeId> = phase.promises.iter().map(|(node, _)| *node).collect();
        let asked = phase.casting.clone();
        let members: Vec<NodeId> = asked.unwrap_or_else(|| self.member_nodes());
        for member in members {
            if member != self.config.node && !answered.contains(&member) {
                self.send(member, Message::Prepare { term }, RecordNumber(0));
            }
        }
        self.evaluate_phase1();
    }

    pub(crate) fn member_nodes(&self) -> Vec<NodeId> {
        let members = self.state.configuration.members();
        members.iter().map(|member| member.node).collect()
    }

    /// Falls back to preparing: peers chose more than this leader knows. It no longer leads, but its phase 1
    /// goes on.
    pub(crate) fn fall_back_to_preparing(&mut self) {
        if let Stage::Leading(leading) = &mut self.stage
            && let Some(mut phase) = leading.again.take()
        {
            phase.stop_casting();
            self.leave_stage();
            self.stage = Stage::Preparing(phase);
        }
    }

    fn become_leader(&mut self, term: Term, plan: VecDeque<Piece>, excluded: Vec<NodeId>) {
        let first = self.state.next;
        self.peers.forget_acceptances();
        if !matches!(self.stage, Stage::Leading(_)) {
            self.leave_stage();
            self.stage = Stage::Leading(Box::new(Leading::new(term)));
        }
        let Stage::Leading(leading) = &mut self.stage else {
            return;
        };
        leading.term = term;
        leading.started_at = first;
        leading.proposed_up_to = first;
        leading.reported_end = plan.back().map_or(first, |piece| piece.slots.end);
        leading.plan = plan;
        leading.batches.clear();
        leading.finishing = None;
        leading.finish_by = None;
        leading.again = None;
        leading.redo_at = None;
        leading.unavailable.clear();
        leading.excluded = excluded;
        leading.is_used = false;
        leading.reads.on_new_term();
        self.attempts = 0;
        self.deposed = false;
        self.catch_up.on_new_term(term);
        self.check_quorum();
        self.send_to_members(&Message::LeaderStatus {
            term,
            proposed_up_to: first,
            chosen_up_to: first,
            finishing: None,
        });
        self.advance_plan();
    }

    /// Prepares above a later term that was heard of, not too often. But a third node's term may be one by
    /// which that node leads where this one is not heard. If this leader prepared above it, the other would
    /// do the same, and both would go on for as long as they cannot talk. So this leader stands aside, and
    /// the nodes that have a leader, or none, decide by their offers.
    pub(crate) fn redo_above(&mut self, from: NodeId, promised: Term) {
        if promised <= self.acceptor.promised().0
            || !matches!(self.stage, Stage::Leading(_))
            || mutation::is(Mutation::LaterTermNotPreparedAbove)
        {
            return;
        }
        // A promise of a node that is no member binds no quorum of this era.
        let binds = self.state.configuration.contains(from);
        if !binds && promised.era <= self.state.era && !mutation::is(Mutation::TermsOfStrangers) {
            return;
        }
        if promised.era > self.state.era {
            // A later era began elsewhere: others lead there.
            self.step_down(StepDownReason::LaterTerm, Duration::ZERO);
            self.catch_up_from(from);
        } else if promised.owner != from && promised.owner != self.config.node {
            self.step_down(StepDownReason::LaterTerm, Duration::ZERO);
        } else {
            self.redo_phase1();
        }
    }

    pub(crate) fn redo_phase1(&mut self) {
        let interval = self.config.timing.phase_one_interval_min;
        let earliest = match self.last_phase1 {
            Some(last) => last + interval,
            None => self.now,
        };
        if let Stage::Leading(leading) = &mut self.stage {
            leading.redo_at = Some(earliest);
            if earliest <= self.now {
                self.start_phase1(Vec::new());
            }
        }
    }

    /// Stops counting the holders of a bound run whose bytes cannot be had, as soon as a quorum without them
    /// answers. Any acceptor of the run has its bytes, so that quorum has them too, or frees the slots.
    pub(crate) fn on_bytes_unavailable(&mut self, term: Term, holders: Vec<NodeId>) {
        if let Stage::Leading(leading) = &mut self.stage
            && leading.term == term
            && leading.again.is_none()
            && !leading.plan.is_empty()
            && !mutation::is(Mutation::UnavailableBytesWaitedFor)
        {
            leading.unavailable = holders;
            self.retry_unavailable();
        }
    }

    pub(crate) fn retry_unavailable(&mut self) {
        let node = self.config.node;
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        if leading.unavailable.is_empty() || leading.again.is_some() {
            return;
        }
        let mut excluded = leading.unavailable.clone();
        for other in &leading.excluded {
            if !excluded.contains(other) {
                excluded.push(*other);
            }
        }
        let enough = self.state.configuration.is_quorum(|member| {
            !excluded.contains(&member) && (member == node || self.peers.is_alive(member))
        });
        if enough {
            self.start_phase1(excluded);
        }
    }
}
