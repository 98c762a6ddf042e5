//! A leader's proposals: first the values that earlier terms left, then actions and bytes.
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
use core::time::Duration;

use crate::engine::Engine;
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::phase1::Phase1;
use crate::reads::Reads;
use crate::safety::{self, Piece};
use crate::{
    AcceptedTerm, Action, BytesWritten, Digest, Finishing, Ignored, NodeId, NotProposed, Note,
    Offset, Output, PermitContent, PromisedTerm, Proposal, Slot, SlotRange, StreamPosition, Term,
    Time, Value, WritePermit,
};

#[derive(Clone, Debug)]
pub(crate) struct Leading {
    pub(crate) term: Term,
    /// The slot of its first proposal.
    pub(crate) started_at: Slot,
    pub(crate) proposed_up_to: Slot,
    /// The slot below which phase 1 reported slots of earlier terms.
    pub(crate) reported_end: Slot,
    /// The values still to be re-proposed.
    pub(crate) plan: VecDeque<Piece>,
    /// Every proposal of the term that is not chosen, and some that are.
    pub(crate) batches: VecDeque<Batch>,
    /// The earlier term from which `term` took over by a casting vote: below its end, slots are proposed and
    /// chosen in that term.
    pub(crate) finishing: Option<Finishing>,
    /// The deadline of the slots being finished: if none from this slot on is chosen by then, everything is
    /// proposed again.
    pub(crate) finish_by: Option<(Slot, Time)>,
    /// Phase 1 for a later term. Until it is done acceptances in `term` still count, and nothing
    /// more is proposed, unless it is done by a casting vote.
    pub(crate) again: Option<Phase1>,
    pub(crate) redo_at: Option<Time>,
    pub(crate) no_quorum_since: Option<Time>,
    pub(crate) abdication: Option<Abdication>,
    /// Holders whose bytes could not be had, until a quorum without them is alive.
    pub(crate) unavailable: Vec<NodeId>,
    /// Holders not counted in this term's phase 1.
    pub(crate) excluded: Vec<NodeId>,
    pub(crate) reads: Reads,
    /// Bytes of its own were proposed in this term.
    pub(crate) is_used: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) slots: SlotRange,
    value: Value,
    digest: Digest,
}

/// An abdication. The permit is closed; the successor has until then to become level.
#[derive(Clone, Debug)]
pub(crate) struct Abdication {
    pub(crate) to: Option<NodeId>,
    pub(crate) until: Time,
    /// Followers that accepted everything and were asked to say that they are level.
    pub(crate) asked: Vec<NodeId>,
}

/// The number of chosen batches that are kept to check the acceptances of slower replicas.
const CHOSEN_BATCHES_KEPT: usize = 1024;

impl Leading {
    pub(crate) fn new(term: Term) -> Leading {
        Leading {
            term,
            started_at: Slot(0),
            proposed_up_to: Slot(0),
            reported_end: Slot(0),
            plan: VecDeque::new(),
            batches: VecDeque::new(),
            finishing: None,
            finish_by: None,
            again: None,
            redo_at: None,
            no_quorum_since: None,
            abdication: None,
            unavailable: Vec::new(),
            excluded: Vec::new(),
            reads: Reads::default(),
            is_used: false,
        }
    }

    /// Whether it may propose in its term.
    pub(crate) fn is_open(&self) -> bool {
        self.goes_on() && self.abdication.is_none()
    }

    /// Whether it leads in its term: no phase 1 is under way, or one that leaves the term alone.
    pub(crate) fn goes_on(&self) -> bool {
        self.again.is_none() || self.casts()
    }

    /// Whether the next term is prepared by a casting vote.
    pub(crate) fn casts(&self) -> bool {
        let again = self.again.as_ref();
        again.is_some_and(|phase| phase.asked().is_some())
    }

    /// The term in which this slot is proposed.
    pub(crate) fn term_at(&self, slot: Slot) -> Term {
        match self.finishing {
            Some(finishing) if slot < finishing.below => finishing.term,
            _ => self.term,
        }
    }

    /// The end of the slots that are finished in the term before.
    pub(crate) fn finishing_below(&self) -> Slot {
        self.finishing.map_or(Slot(0), |finishing| finishing.below)
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

    pub(crate) fn no_quorum_deadline(&self, timeout: Duration) -> Option<Time> {
        let since = self.no_quorum_since?;
        Some(since + timeout)
    }
}
impl Engine {
    /// Re-proposes the values that need no bytes from elsewhere.
    pub(crate) fn advance_plan(&mut self) {
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
        crate::invariant!(
            leading.goes_on() && (self.acceptor.promised().0 == term || leading.casts()),
            "I2: proposed in {term} without the promises for it"
        );
        crate::invariant!(
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

    /// Proposes an action in the next slot, only while the permit is free: values that earlier terms left
    /// come first. An action needs no room in the window of unchosen bytes. A reconfiguration is refused
    /// while an era begins (ask again), and as long as it would leave bytes without a quorum that is known to
    /// hold them.
    pub fn propose(&mut self, now: Time, action: Action) -> Result<Slot, NotProposed> {
        self.now = self.now.max(now);
        assert!(
            safety::is_credible_action(&action),
            "label and metadata are within their bounds"
        );
        let refused = NotProposed::NotLeading {
            leader: self.leader().filter(|(node, _)| *node != self.config.node),
        };
        if mutation::is(Mutation::PermitReusedInItsTerm) {
            self.take_back_last_batch();
        }
        let Stage::Leading(leading) = &self.stage else {
            return Err(refused);
        };
        let slot = leading.proposed_up_to;
        let open = self.acceptor.finishing();
        let anyhow = mutation::is(Mutation::FinishesBeyondItsEnd);
        let left_open = open.is_none_or(|open| slot < open.below || anyhow);
        // Another era while one begins would stall: the term before can choose nothing in it.
        let skips = mutation::is(Mutation::EraSkipped);
        let begins = self.state.era > leading.term.era && !skips
            || self.state.next < leading.finishing_below();
        let early = begins && matches!(action, Action::Reconfigure { .. });
        if !leading.is_open() || !leading.plan.is_empty() || !left_open || early {
            return Err(refused);
        }
        if let Action::Reconfigure { change, .. } = &action
            && !self.is_held_after(*change)
        {
            return Err(NotProposed::HeldByNoQuorum { change: *change });
        }
        let value = Value::Action(alloc::sync::Arc::new(action));
        let slots = SlotRange::new(slot, Slot(slot.0 + 1));
        self.propose_run(slots, value, Digest(0), true);
        self.settle();
        Ok(slot)
    }

    /// Whether this leader has proposed another configuration, or still has to propose again what
    /// earlier terms left, and that is not chosen yet.
    pub fn may_yet_reconfigure(&self) -> bool {
        let Stage::Leading(leading) = &self.stage else {
            return false;
        };
        let first_unchosen = self.state.next;
        let unchosen = |batch: &&Batch| batch.slots.end > first_unchosen;
        let latest = leading.batches.iter().rev().take_while(unchosen);
        let own = latest.map(|batch| &batch.value);
        let left = leading.plan.iter().map(|piece| &piece.value);
        let changes = |value: &Value| match value {
            Value::Action(action) => matches!(**action, Action::Reconfigure { .. }),
            _ => false,
        };
        own.chain(left).any(changes)
    }

    /// Takes back a batch as if bytes that are with disk and network could be given up: only a mutation does that.
    fn take_back_last_batch(&mut self) {
        if let Stage::Leading(leading) = &mut self.stage
            && let Some(last) = leading.batches.back()
            && matches!(last.value, Value::Content { .. })
        {
            leading.proposed_up_to = last.slots.start.max(self.state.next);
        }
    }

    /// Proposes bytes that are with disk and network: they cannot be taken back.
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
        crate::invariant!(
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
        if let Stage::Leading(leading) = &mut self.stage {
            leading.is_used |= leading.plan.is_empty();
        }
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
        if leading.term_at(slots.start) != term || slots.is_empty() {
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
        if bytes && batch.digest != digest && !mutation::is(Mutation::CrcNotCompared) {
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

    /// The proposals of this term from the one that holds `from` on, as first made, for a replica that lost
    /// some of them. Slots that are chosen may be left out.
    pub fn proposals(&self, from: Slot) -> impl Iterator<Item = Proposal> {
        let leading = match &self.stage {
            Stage::Leading(leading) if leading.goes_on() => Some(leading),
            _ => None,
        };
        let chosen_up_to = self.state.next;
        leading.into_iter().flat_map(move |leading| {
            let first = leading.batches.partition_point(|b| b.slots.end <= from);
            leading.batches.range(first..).map(move |batch| Proposal {
                term: leading.term_at(batch.slots.start),
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
        self.see_promise_of(from, promised.0);
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        let goes_on = leading.goes_on();
        if goes_on && leading.term == accepted_term.0 {
            let peer = self.peers.entry(from);
            peer.accepted_up_to = peer.accepted_up_to.max(Some(accepted_up_to));
            let before = peer.status.map_or(Slot(0), |status| status.first_unchosen);
            peer.status = Some(crate::peers::PeerStatus {
                promised: promised.0,
                first_unchosen: first_unchosen.max(before),
            });
        }
        if first_unchosen > self.state.next && goes_on {
            self.redo_phase1(); // its promise will show what there is to catch up with
        }
        self.redo_above(from, promised.0);
    }

    /// Whether that replica has accepted everything this leader proposed, knows all that is chosen, and
    /// misses no bytes, by its last status; and nothing it announced was lost on the way here. An auxiliary
    /// need not hold bytes, and at rest it need not accept.
    pub fn is_level(&self, node: NodeId) -> bool {
        let Stage::Leading(leading) = &self.stage else {
            return false;
        };
        let Some(peer) = self.peers.get(node) else {
            return false;
        };
        if mutation::is(Mutation::LevelTooEarly) {
            return true;
        }
        let auxiliary = self.state.configuration.is_auxiliary(node);
        if !self.wants_proposals(node) {
            return self.is_level_at_rest(node);
        }
        leading.goes_on()
            && (auxiliary || peer.missing_bytes == Some(0))
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

    /// Brings the permit up to date, and tells the node only of a change that it could not reckon itself.
    pub(crate) fn update_permit(&mut self) {
        let window_end = self.window_end();
        let window = window_end.0 - self.state.next.0;
        // The part that the own promise left open ends where that promise begins to count.
        let window_end = match self.acceptor.finishing() {
            Some(open) if !mutation::is(Mutation::FinishesBeyondItsEnd) => {
                window_end.min(open.below)
            }
            _ => window_end,
        };
        let leading = match &self.stage {
            Stage::Leading(leading)
                if leading.is_open()
                    && (leading.term == self.acceptor.promised().0 || leading.casts())
                    || mutation::is(Mutation::PermitSurvivesPromise) =>
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
}
