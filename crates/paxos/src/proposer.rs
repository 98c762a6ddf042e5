//! Phase 1, and what a leader proposes after it.
//!
//! ```text
//!   first unchosen        proposed_up_to                 first unchosen + W
//!   │                     │                              │
//!   ├── given to disk ────┼── permit: next..limit ───────┤
//!   │   and network       │
//!   ├── plan: what earlier terms left, re-proposed first ┄┄ then slots are free
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::engine::{Engine, earliest};
use crate::leadership::Stage;
use crate::reads::Reads;
use crate::safety::{self, Contradiction, Piece};
use crate::{
    AcceptedRun, AcceptedTerm, Action, BytesWritten, Digest, Ignored, Message, NodeId, NotLeading,
    Note, Offset, Output, PermitContent, Promise, PromisedTerm, Proposal, RecordNumber, Slot,
    SlotRange, StepDownReason, StreamPosition, Term, Time, Value, WritePermit,
};

#[derive(Debug)]
pub(crate) struct Phase1 {
    pub term: Term,
    /// The own promise. Nothing is proposed in the term before it is durable.
    record: RecordNumber,
    promises: Vec<(NodeId, Promise)>,
    /// They hold bytes that cannot be had: a quorum is sought without them.
    excluded: Vec<NodeId>,
    retry_at: Time,
    give_up_at: Time,
}

impl Phase1 {
    pub(crate) fn deadline(&self) -> Time {
        self.retry_at.min(self.give_up_at)
    }
}

#[derive(Debug)]
pub(crate) struct Leading {
    pub term: Term,
    /// Its first proposal's slot.
    started_at: Slot,
    pub proposed_up_to: Slot,
    /// Below it, phase 1 reported slots of earlier terms.
    pub reported_end: Slot,
    /// What is still to be re-proposed.
    plan: VecDeque<Piece>,
    /// Every proposal of the term that is not chosen, and some that are.
    batches: VecDeque<Batch>,
    /// Phase 1 for a later term. Until it is done acceptances in `term` still count, and nothing
    /// more is proposed.
    pub again: Option<Phase1>,
    redo_at: Option<Time>,
    no_quorum_since: Option<Time>,
    abdication: Option<Abdication>,
    /// Holders whose bytes could not be had, until a quorum without them is alive.
    unavailable: Vec<NodeId>,
    /// Holders not counted in this term's phase 1.
    excluded: Vec<NodeId>,
    pub reads: Reads,
}

#[derive(Clone, Debug)]
struct Batch {
    slots: SlotRange,
    value: Value,
    digest: Digest,
}

/// The permit is closed; the successor has until then to become level.
#[derive(Clone, Copy, Debug)]
struct Abdication {
    to: Option<NodeId>,
    until: Time,
}

/// So many chosen batches are kept to check the acceptances of slower replicas.
const CHOSEN_BATCHES_KEPT: usize = 1024;

impl Leading {
    fn new(term: Term) -> Leading {
        Leading {
            term,
            started_at: Slot(0),
            proposed_up_to: Slot(0),
            reported_end: Slot(0),
            plan: VecDeque::new(),
            batches: VecDeque::new(),
            again: None,
            redo_at: None,
            no_quorum_since: None,
            abdication: None,
            unavailable: Vec::new(),
            excluded: Vec::new(),
            reads: Reads::default(),
        }
    }

    /// Whether it may propose in its term.
    fn is_open(&self) -> bool {
        self.again.is_none() && self.abdication.is_none()
    }

    /// The batch of exactly these slots: mostly one of the last.
    fn batch(&self, slots: SlotRange) -> Option<&Batch> {
        let recent = self.batches.iter().rev().take(4);
        for batch in recent {
            if batch.slots.start <= slots.start {
                return Some(batch).filter(|batch| batch.slots == slots);
            }
        }
        let batches = &self.batches;
        let at = batches.partition_point(|batch| batch.slots.start < slots.start);
        batches.get(at).filter(|batch| batch.slots == slots)
    }

    fn no_quorum_deadline(&self, timeout: u64) -> Option<Time> {
        let since = self.no_quorum_since?;
        Some(Time(since.0.saturating_add(timeout)))
    }
}

impl Engine {
    // Phase 1.

    /// Prepares a term of this node. Its own promise comes first and closes the permit.
    pub(crate) fn prepare(&mut self, term: Term, excluded: Vec<NodeId>) {
        assert!(
            term.owner == self.config.node && term > self.acceptor.promised().0,
            "I3: {term} is prepared by its owner, above every promise"
        );
        let record = self.raise_promise(term);
        let timing = self.config.timing;
        let give_up = timing.leader_timeout.max(timing.retry.saturating_mul(4));
        let phase = Phase1 {
            term,
            record,
            promises: Vec::new(),
            excluded,
            retry_at: Time(self.now.0.saturating_add(timing.retry)),
            give_up_at: Time(self.now.0.saturating_add(give_up)),
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

    fn phase1(&mut self) -> Option<&mut Phase1> {
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
        let Some(phase) = self.phase1().filter(|phase| phase.term == promise.term) else {
            self.ignore(from, Ignored::Stale);
            return;
        };
        phase.promises.retain(|(node, _)| *node != from);
        phase.promises.push((from, promise));
        self.evaluate_phase1();
    }

    /// Whether phase 1 is done, and what follows.
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
        if !self.acceptor.is_durable(record) {
            return;
        }
        assert!(
            self.acceptor.promised().0 == term,
            "I4: phase 1 of {term} goes on below the promise {}",
            self.acceptor.promised().0
        );
        let own = self.acceptor.runs();
        let Some(phase) = self.phase1() else {
            return;
        };
        // First catch up to the largest `from`: a promise says nothing on the slots below it.
        let ahead = phase.promises.iter().filter(|(_, p)| p.from > first);
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
            if promise.from <= first && !phase.excluded.contains(peer) {
                promises.push((*peer, &promise.runs));
            }
        }
        let answered: Vec<NodeId> = promises.iter().map(|(node, _)| *node).collect();
        let plan = safety::plan(first, &promises);
        let excluded = phase.excluded.clone();
        if !self
            .state
            .configuration
            .is_quorum(|member| answered.contains(&member))
        {
            return;
        }
        match plan {
            Ok(plan) => self.become_leader(term, plan, excluded),
            Err(Contradiction(peer)) => {
                if let Some(phase) = self.phase1() {
                    phase.promises.retain(|(node, _)| *node != peer);
                }
                self.ignore(peer, Ignored::Malformed);
            }
        }
    }

    pub(crate) fn on_phase1_timer(&mut self) {
        let now = self.now;
        let retry = self.config.timing.retry;
        let Some(phase) = self.phase1() else {
            return;
        };
        if phase.give_up_at <= now {
            if !phase.excluded.is_empty() {
                // No quorum without them; perhaps their bytes can be had by now.
                self.start_phase1(Vec::new());
            } else if matches!(self.stage, Stage::Leading(_)) {
                self.step_down(StepDownReason::NoQuorum, 0);
            } else {
                self.become_candidate(0);
            }
            return;
        }
        if phase.retry_at > now {
            return;
        }
        phase.retry_at = Time(now.0.saturating_add(retry));
        let term = phase.term;
        let answered: Vec<NodeId> = phase.promises.iter().map(|(node, _)| *node).collect();
        let members: Vec<NodeId> = self.member_nodes();
        for member in members {
            if member != self.config.node && !answered.contains(&member) {
                self.send(member, Message::Prepare { term }, RecordNumber(0));
            }
        }
        self.evaluate_phase1();
    }

    fn member_nodes(&self) -> Vec<NodeId> {
        let members = self.state.configuration.members();
        members.iter().map(|member| member.node).collect()
    }

    /// Peers chose more than this leader knows: it is none any more, but its phase 1 goes on.
    pub(crate) fn fall_back_to_preparing(&mut self) {
        if let Stage::Leading(leading) = &mut self.stage
            && let Some(phase) = leading.again.take()
        {
            self.leave_stage();
            self.stage = Stage::Preparing(phase);
        }
    }

    fn become_leader(&mut self, term: Term, plan: VecDeque<Piece>, excluded: Vec<NodeId>) {
        let first = self.state.next;
        self.peers.forget_acceptances();
        if !matches!(self.stage, Stage::Leading(_)) {
            self.leave_stage();
            self.stage = Stage::Leading(alloc::boxed::Box::new(Leading::new(term)));
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
        leading.again = None;
        leading.redo_at = None;
        leading.unavailable.clear();
        leading.excluded = excluded;
        leading.reads.on_new_term();
        self.attempts = 0;
        self.deposed = false;
        self.catch_up.on_new_term(term);
        self.check_quorum();
        self.send_to_members(&Message::LeaderStatus {
            term,
            proposed_up_to: first,
            chosen_up_to: first,
        });
        self.advance_plan();
    }

    /// A later term was heard of: this leader prepares above it, not too often.
    pub(crate) fn redo_above(&mut self, from: NodeId, promised: Term) {
        if promised <= self.acceptor.promised().0 || !matches!(self.stage, Stage::Leading(_)) {
            return;
        }
        if promised.era > self.state.era {
            // A later era began elsewhere: others lead there.
            self.step_down(StepDownReason::LaterTerm, 0);
            self.catch_up_from(from);
        } else {
            self.redo_phase1();
        }
    }

    pub(crate) fn redo_phase1(&mut self) {
        let interval = self.config.timing.phase_one_interval_min;
        let earliest = match self.last_phase1 {
            Some(last) => Time(last.0.saturating_add(interval)),
            None => self.now,
        };
        if let Stage::Leading(leading) = &mut self.stage {
            leading.redo_at = Some(earliest);
            if earliest <= self.now {
                self.start_phase1(Vec::new());
            }
        }
    }

    /// The bytes of a bound run cannot be had: its holders are not counted, as soon as a quorum
    /// without them answers. Any acceptor of the run has its bytes, so that quorum has them too,
    /// or frees the slots.
    pub(crate) fn on_bytes_unavailable(&mut self, term: Term, holders: Vec<NodeId>) {
        if let Stage::Leading(leading) = &mut self.stage
            && leading.term == term
            && leading.again.is_none()
            && !leading.plan.is_empty()
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

    // Phase 2.

    /// Re-proposes what needs no bytes from elsewhere.
    fn advance_plan(&mut self) {
        loop {
            let Stage::Leading(leading) = &mut self.stage else {
                return;
            };
            let Some(piece) = leading.plan.front() else {
                leading.excluded.clear();
                return;
            };
            if let Value::Content { .. } = piece.value {
                if leading.proposed_up_to < piece.slots.end {
                    return;
                }
                leading.plan.pop_front();
            } else if let Some(piece) = leading.plan.pop_front() {
                self.propose_run(piece.slots, piece.value, Digest(0), true);
            }
        }
    }

    fn propose_run(&mut self, slots: SlotRange, value: Value, digest: Digest, replicate: bool) {
        let Stage::Leading(leading) = &mut self.stage else {
            return;
        };
        let term = leading.term;
        assert!(
            leading.again.is_none() && self.acceptor.promised().0 == term,
            "I2: proposed in {term} without the promises for it"
        );
        assert!(
            slots.start == leading.proposed_up_to && !slots.is_empty(),
            "I3: one slot, one value in a term: {slots} after {}",
            leading.proposed_up_to
        );
        leading.proposed_up_to = slots.end;
        leading.batches.push_back(Batch {
            slots,
            value: value.clone(),
            digest,
        });
        let first_unchosen = self.state.next;
        while leading.batches.len() > CHOSEN_BATCHES_KEPT
            && let Some(first) = leading.batches.front()
            && first.slots.end <= first_unchosen
        {
            leading.batches.pop_front();
        }
        if replicate {
            self.put(Output::Replicate(Proposal {
                term,
                slots,
                value: value.clone(),
                digest,
                chosen_up_to: first_unchosen,
            }));
        }
        self.accept(term, slots, value, digest);
    }

    /// Proposes an action in the next slot. Only while the permit is free: what earlier terms left
    /// comes first. An action needs no room in the window of unchosen bytes.
    pub fn propose(&mut self, now: Time, action: Action) -> Result<Slot, NotLeading> {
        self.now = self.now.max(now);
        assert!(
            safety::is_credible_action(&action),
            "label and metadata are within their bounds"
        );
        let refused = NotLeading {
            leader: self.leader().filter(|(node, _)| *node != self.config.node),
        };
        let Stage::Leading(leading) = &self.stage else {
            return Err(refused);
        };
        let slot = leading.proposed_up_to;
        if !leading.is_open() || !leading.plan.is_empty() {
            return Err(refused);
        }
        let value = Value::Action(alloc::sync::Arc::new(action));
        let slots = SlotRange::new(slot, Slot(slot.0 + 1));
        self.propose_run(slots, value, Digest(0), true);
        self.settle();
        Ok(slot)
    }

    /// These bytes are with disk and network: they are proposed, and cannot be taken back.
    pub(crate) fn on_bytes_written(&mut self, written: &BytesWritten) {
        let end = written.first_slot.0.checked_add(written.count).map(Slot);
        let fits = match (&self.permit, end) {
            (Some(permit), Some(end)) => {
                permit.term == written.term
                    && permit.next == written.first_slot
                    && written.count > 0
                    && end <= permit.limit
                    && match &permit.content {
                        PermitContent::Free => true,
                        PermitContent::Bound {
                            stream, position, ..
                        } => *stream == written.stream && *position == written.position,
                    }
            }
            _ => false,
        };
        assert!(
            fits,
            "I3: bytes were written outside the permit {:?}: {written:?}",
            self.permit
        );
        let offset = written.first_slot.0.checked_sub(written.position.0);
        let (Some(end), Some(offset)) = (end, offset) else {
            panic!("I6: every byte before took a slot: {written:?}");
        };
        let value = Value::Content {
            stream: written.stream,
            offset: Offset(offset),
        };
        let slots = SlotRange::new(written.first_slot, end);
        self.propose_run(slots, value, written.digest, false);
        self.advance_plan();
    }

    pub(crate) fn on_accepted(
        &mut self,
        from: NodeId,
        term: Term,
        slots: SlotRange,
        digest: Digest,
    ) {
        let first_unchosen = self.state.next;
        let Stage::Leading(leading) = &self.stage else {
            return; // the remains of an earlier life as a leader
        };
        if leading.term != term || slots.is_empty() {
            self.ignore(from, Ignored::OlderTerm);
            return;
        }
        let Some(batch) = leading.batch(slots) else {
            if slots.end > first_unchosen {
                self.ignore(from, Ignored::Malformed);
            }
            return;
        };
        // The values of actions and no-ops are in the message itself.
        let bytes = matches!(batch.value, Value::Content { .. });
        if bytes && batch.digest != digest {
            self.note(Note::DigestMismatch { by: from, slots });
            return;
        }
        let started_at = leading.started_at;
        let peer = self.peers.entry(from);
        peer.accepted_up_to.get_or_insert(started_at);
        if slots.end > first_unchosen {
            peer.on_accepted(slots, first_unchosen);
            self.choose();
        } else {
            peer.extend(slots);
        }
    }

    /// The proposals of this term from the one that holds `from` on, as first made: what a replica
    /// that lost some of them needs again. Slots that are chosen may be left out.
    pub fn proposals(&self, from: Slot) -> impl Iterator<Item = Proposal> {
        let leading = match &self.stage {
            Stage::Leading(leading) if leading.again.is_none() => Some(leading),
            _ => None,
        };
        let chosen_up_to = self.state.next;
        leading.into_iter().flat_map(move |leading| {
            let first = leading.batches.partition_point(|b| b.slots.end <= from);
            leading.batches.range(first..).map(move |batch| Proposal {
                term: leading.term,
                slots: batch.slots,
                value: batch.value.clone(),
                digest: batch.digest,
                chosen_up_to,
            })
        })
    }

    pub(crate) fn on_follower_status(
        &mut self,
        from: NodeId,
        promised: PromisedTerm,
        accepted_term: AcceptedTerm,
        accepted_up_to: Slot,
        first_unchosen: Slot,
    ) {
        self.heard_first_unchosen(from, first_unchosen);
        self.see(promised.0);
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        if leading.again.is_none() && leading.term == accepted_term.0 {
            let peer = self.peers.entry(from);
            peer.accepted_up_to = peer.accepted_up_to.max(Some(accepted_up_to));
            let before = peer.status.map_or(Slot(0), |status| status.first_unchosen);
            peer.status = Some(crate::peers::PeerStatus {
                promised: promised.0,
                first_unchosen: first_unchosen.max(before),
            });
        }
        if first_unchosen > self.state.next && leading.again.is_none() {
            self.redo_phase1(); // its promise will show what there is to catch up with
        }
        self.redo_above(from, promised.0);
    }

    /// Whether that replica has accepted all this leader proposed, knows all chosen that is, and
    /// misses no bytes, by its last status; and nothing it announced was lost on the way here.
    pub fn is_level(&self, node: NodeId) -> bool {
        let Stage::Leading(leading) = &self.stage else {
            return false;
        };
        let Some(peer) = self.peers.get(node) else {
            return false;
        };
        leading.again.is_none()
            && peer.missing_bytes == Some(0)
            && self
                .peer_accepted_up_to(node)
                .is_some_and(|up_to| up_to >= leading.proposed_up_to)
            && peer.status.is_some_and(|status| {
                status.promised <= leading.term && status.first_unchosen == self.state.next
            })
    }

    // Permits.

    pub(crate) fn close_permit(&mut self) {
        if self.permit.take().is_some() {
            self.put(Output::Permit(None));
        }
    }

    /// Brings the permit up to date, and tells the node only of what it could not reckon itself.
    pub(crate) fn update_permit(&mut self) {
        let window = self.config.unchosen_bytes_max;
        let window_end = Slot(self.state.next.0.saturating_add(window));
        let leading = match &self.stage {
            Stage::Leading(leading)
                if leading.is_open() && leading.term == self.acceptor.promised().0 =>
            {
                leading
            }
            _ => {
                self.close_permit();
                return;
            }
        };
        let next = leading.proposed_up_to.max(self.state.next);
        let (bound_end, limit) = match leading.plan.front() {
            Some(piece) => (Some(piece.slots.end), window_end.min(piece.slots.end)),
            None => (None, window_end),
        };
        let limit = limit.max(next);
        if let Some(permit) = &mut self.permit
            && permit.term == leading.term
            && self.permit_bound_end == bound_end
        {
            if let PermitContent::Bound { position, .. } = &mut permit.content {
                position.0 += next.0 - permit.next.0; // both only grow
            }
            permit.next = next;
            permit.limit = limit;
            let told = self.permit_limit_told;
            if limit > told && (told <= next || limit.0 - told.0 >= window / 8) {
                self.permit_limit_told = limit;
                let permit = permit.clone();
                self.put(Output::Permit(Some(permit)));
            }
            return;
        }
        let content = match leading.plan.front() {
            None => PermitContent::Free,
            Some(Piece { value, holders, .. }) => {
                let Value::Content { stream, offset } = value else {
                    return; // advance_plan leaves content at the front
                };
                PermitContent::Bound {
                    stream: *stream,
                    position: StreamPosition(next.0 - offset.0), // credible: offset <= slot
                    holders: holders.clone(),
                }
            }
        };
        let permit = WritePermit {
            term: leading.term,
            next,
            limit,
            content,
        };
        self.permit_limit_told = limit;
        self.permit_bound_end = bound_end;
        self.permit = Some(permit.clone());
        self.put(Output::Permit(Some(permit)));
    }

    // Leading from day to day.

    pub(crate) fn check_quorum(&mut self) {
        let alive = self.is_quorum_alive();
        let now = self.now;
        if let Stage::Leading(leading) = &mut self.stage {
            leading.no_quorum_since = match leading.no_quorum_since {
                _ if alive => None,
                None => Some(now),
                since => since,
            };
        }
    }

    /// After every input: a new era wants a new term, a waiting abdication its successor.
    pub(crate) fn settle_leader(&mut self) {
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        let term = leading.again.as_ref().map_or(leading.term, |p| p.term);
        if term.era < self.state.era {
            if self.may_stand() {
                // The followers know all slots before the era once they hear what is chosen.
                let status = Message::LeaderStatus {
                    term: leading.term,
                    proposed_up_to: leading.proposed_up_to,
                    chosen_up_to: self.state.next,
                };
                self.send_to_members(&status);
                self.start_phase1(Vec::new());
            } else if leading.abdication.is_none() {
                self.begin_abdication(None);
            }
        }
        self.check_abdication();
    }

    pub(crate) fn on_abdicate(&mut self, to: Option<NodeId>) {
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        let possible = leading.is_open()
            && leading.plan.is_empty()
            && match to {
                Some(node) => self.may_succeed(node),
                None => self.peers.iter().any(|peer| self.may_succeed(peer.node)),
            };
        if possible {
            self.begin_abdication(to);
        } else {
            let from = to.unwrap_or(self.config.node);
            self.ignore(from, Ignored::Stale);
        }
    }

    fn may_succeed(&self, node: NodeId) -> bool {
        let member = self.state.configuration.member(node);
        node != self.config.node
            && member.is_some_and(|member| !member.auxiliary)
            && self.peers.is_alive(node)
    }

    fn begin_abdication(&mut self, to: Option<NodeId>) {
        let until = Time(self.now.0.saturating_add(self.config.timing.abdication));
        if let Stage::Leading(leading) = &mut self.stage {
            leading.abdication = Some(Abdication { to, until });
            self.close_permit();
        }
    }

    /// With the permit closed the followers become level soon. ‡ Only a level, live one succeeds.
    fn check_abdication(&mut self) {
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        let Some(abdication) = leading.abdication else {
            return;
        };
        let suits = |node: NodeId| {
            abdication.to.is_none_or(|to| to == node)
                && self.may_succeed(node)
                && self.is_level(node)
        };
        let level = self.peers.iter().map(|p| p.node).filter(|n| suits(*n));
        let successor = level.max_by_key(|node| self.state.configuration.weight(*node));
        if let Some(successor) = successor {
            self.hand_over(successor);
        }
    }

    fn hand_over(&mut self, successor: NodeId) {
        let Some(term) = self.next_term(successor) else {
            return;
        };
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        self.note(Note::SteppedDown {
            term: leading.term,
            reason: StepDownReason::Asked,
        });
        self.raise_promise(term);
        self.leave_stage();
        self.send_to_members(&Message::Prepare { term });
        self.send_promise(term);
        let until = Time(self.now.0.saturating_add(self.config.timing.abdication));
        self.deposed = true;
        self.stage = Stage::HandedOver { until };
    }

    pub(crate) fn leader_deadline(&self, leading: &Leading) -> Option<Time> {
        let timeout = self.config.timing.leader_timeout;
        let quorum = leading.no_quorum_deadline(timeout);
        let phase = leading.again.as_ref().map(Phase1::deadline);
        let abdication = leading.abdication.map(|abdication| abdication.until);
        let own = earliest(
            earliest(quorum, phase),
            earliest(abdication, leading.redo_at),
        );
        earliest(own, leading.reads.deadline())
    }

    pub(crate) fn on_leader_timer(&mut self) {
        let now = self.now;
        let timeout = self.config.timing.leader_timeout;
        self.on_phase1_timer();
        self.on_reads_timer();
        let Stage::Leading(leading) = &mut self.stage else {
            return;
        };
        if leading
            .no_quorum_deadline(timeout)
            .is_some_and(|due| due <= now)
        {
            self.step_down(StepDownReason::NoQuorum, 0);
            return;
        }
        if leading.redo_at.is_some_and(|due| due <= now) {
            leading.redo_at = None;
            self.start_phase1(Vec::new());
        }
        let Stage::Leading(leading) = &mut self.stage else {
            return;
        };
        if let Some(abdication) = leading.abdication
            && abdication.until <= now
        {
            leading.abdication = None;
            let from = abdication.to.unwrap_or(self.config.node);
            self.ignore(from, Ignored::Stale);
            if !self.may_stand() {
                self.step_down(StepDownReason::Asked, 0);
            }
        }
    }
}
