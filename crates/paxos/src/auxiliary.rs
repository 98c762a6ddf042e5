//! Auxiliary members (Cheap Paxos): they vote, and hold bytes only while the active ones cannot do
//! without them.
//!
//! ```text
//!            an active member is silent, or nothing was chosen for `engage_after` (`stall`)
//!   at rest ──────────────────────────────────────────────────────────────────────► engaged
//!   no proposals, no bytes                                       all that is not chosen, and all new
//!           ◄──────────────────────────────────────────────────────────────────────
//!            the active ones are alive and keep up with what is proposed, for `disengage_after`
//! ```
//!
//! While bytes flow the active members never hold *all* at one moment: something is always on its way to them.
//! So they keep up by marks. A mark is the end of what is proposed at some moment; when all of them have accepted
//! up to it, the next one is made. They keep up while no mark is older than `engage_after`: a member that is
//! further behind would stall the log once the auxiliary rests, and engage it again.
//!
//! ```text
//!   proposed   ──────────|────────|─────────|──────────►      a mark at each |
//!   accepted by all      └──►|    └──►|     └──►|             each reached within `engage_after`
//! ```
//!
//! An engaged auxiliary is an acceptor like any other: it accepts bytes, durably, or nothing. The acceptors
//! that chose a byte held it, so there are always as many copies as a quorum has members. An auxiliary
//! forgets bytes only when it is released, and when its own disk says that all below is chosen:
//!
//! ```text
//!   every active member of era e:  "all below s is chosen, and I durably hold its bytes" (s ≥ e's start)
//!   leader ── Release ⟨e, h = least s⟩ ──► auxiliary of era e: drops below min(h, its first unchosen)
//! ```
//!
//! ‡ A member's statement about itself counts only if the member knew the present era by then: in an earlier
//! era it may have been auxiliary, and have dropped since what it held. An auxiliary says that it holds
//! nothing, and one that becomes active says so until its node has counted.

use alloc::vec::Vec;
use core::time::Duration;

use crate::engine::Engine;
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::stall::{Progress, Stall};
use crate::{
    Change, Era, Ignored, Message, NodeId, Output, RecordNumber, Slot, StreamName, StreamPosition,
    Time, Value,
};

/// A leader's knowledge of its configuration's auxiliaries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Auxiliaries {
    /// This replica leads.
    in_use: bool,
    engaged: bool,
    /// Whether something is proposed and not chosen, and since when.
    stall: Stall,
    /// The end of what was proposed at that time, which the active members have not all accepted, while engaged.
    mark: Option<(Slot, Time)>,
    /// The time since which the active members keep up, while engaged.
    kept_up: Option<Time>,
    /// The earliest time of the next release.
    release_at: Time,
    /// The slot below which each auxiliary said that it dropped its bytes.
    released: Vec<(NodeId, Era, Slot)>,
    /// Members that are silent, and the end of what this leader ever sent them.
    silent: Vec<(NodeId, Slot)>,
}

/// An auxiliary's release: it may drop the bytes below once the record is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released {
    by: NodeId,
    era: Era,
    below: Slot,
    record: RecordNumber,
}

/// A count of missing bytes that nobody has made.
pub(crate) const NOT_COUNTED: u64 = u64::MAX;

impl Auxiliaries {
    fn engage(&mut self) {
        self.engaged = true;
        self.mark = None;
        self.kept_up = None;
    }

    fn disengage(&mut self) {
        self.engaged = false;
        self.mark = None;
        self.kept_up = None;
    }
}

impl Engine {
    /// Whether this replica is an auxiliary in the last configuration it knows.
    pub fn is_auxiliary(&self) -> bool {
        self.state.configuration.is_auxiliary(self.config.node)
    }

    /// Whether this leader's proposals are for that node: not while the node is an auxiliary at rest.
    pub fn wants_proposals(&self, node: NodeId) -> bool {
        self.auxiliaries.engaged || !self.state.configuration.is_auxiliary(node)
    }

    /// Whether this leader's auxiliaries get its proposals.
    pub fn is_engaged(&self) -> bool {
        self.auxiliaries.engaged
    }

    /// Whether an auxiliary at rest is level: it is once it knows all that is chosen.
    pub(crate) fn is_level_at_rest(&self, node: NodeId) -> bool {
        let Stage::Leading(leading) = &self.stage else {
            return false;
        };
        let status = self.peers.get(node).and_then(|peer| peer.status);
        leading.goes_on()
            && status.is_some_and(|status| {
                status.promised <= leading.term && status.first_unchosen == self.state.next
            })
    }

    /// Notes that this node's own part in the configuration changed.
    pub(crate) fn settle_own_part(&mut self) {
        if self.part_told == Some(self.state.era) {
            return;
        }
        self.part_told = Some(self.state.era);
        let auxiliary = self.is_auxiliary();
        if auxiliary || self.was_auxiliary {
            self.missing_bytes = NOT_COUNTED;
        }
        self.was_auxiliary = auxiliary;
    }

    /// Takes the node's count of the bytes that it does not hold. An auxiliary's count says nothing.
    pub(crate) fn on_missing_bytes(&mut self, count: u64) {
        self.missing_is_stale = false;
        self.missing_bytes = match self.is_auxiliary() {
            true => NOT_COUNTED,
            false => count,
        };
    }

    /// As `missing_bytes`, unless the state jumped since.
    pub(crate) fn missing_bytes_told(&self) -> u64 {
        match self.missing_is_stale {
            true => NOT_COUNTED,
            false => self.missing_bytes,
        }
    }

    /// Engages, rests and releases auxiliaries, after every input.
    pub(crate) fn settle_auxiliaries(&mut self) {
        if !matches!(self.stage, Stage::Leading(_)) {
            if self.auxiliaries.in_use {
                self.auxiliaries = Auxiliaries::default();
            }
            return;
        }
        self.auxiliaries.in_use = true;
        self.settle_silent();
        if self.state.configuration.has_auxiliaries() {
            self.settle_engagement();
            self.settle_release();
        } else {
            self.auxiliaries.disengage();
            self.auxiliaries.stall.clear();
        }
    }

    fn settle_silent(&mut self) {
        let Engine {
            auxiliaries, peers, ..
        } = self;
        auxiliaries
            .silent
            .retain(|(node, _)| !peers.is_alive(*node));
        let end = self.proposed_up_to();
        for member in self.state.configuration.members() {
            let node = member.node;
            let known = self.auxiliaries.silent.iter().any(|(who, _)| *who == node);
            if !known && node != self.config.node && !self.peers.is_alive(node) {
                self.auxiliaries.silent.push((node, end));
            }
        }
    }

    fn settle_engagement(&mut self) {
        let (now, timing) = (self.now, self.config.timing);
        let next = self.state.next;
        let unchosen = (self.proposed_up_to() > next).then_some(next);
        let progress = self.progress();
        let still = timing.engage_after / 2;
        self.auxiliaries.stall.look(now, unchosen, progress, still);
        let due = |since: Time, wait: Duration| since + wait <= now;
        let stalled = self.stall_due().is_some_and(|at| at <= now);
        if stalled || !self.are_active_alive() {
            self.auxiliaries.engage();
        } else if self.auxiliaries.engaged {
            self.settle_mark();
            let since = self.auxiliaries.kept_up;
            if since.is_some_and(|since| due(since, timing.disengage_after)) {
                self.auxiliaries.disengage();
                self.check_casting(); // they may have been among those who go on accepting
            }
        }
    }

    /// When a stall engages the auxiliaries. One that keeps all active members waiting does so late: an auxiliary waits as well, most likely.
    fn stall_due(&self) -> Option<Time> {
        let timing = self.config.timing;
        let stall = &self.auxiliaries.stall;
        stall.due(timing.engage_after, timing.disengage_after)
    }

    /// How far the active members are, this one too.
    fn progress(&self) -> Progress {
        let end = self.proposed_up_to();
        let own = self.acceptor.first_undurable(end);
        let others = self.other_active();
        let others = others.map(|node| self.peer_accepted_up_to(node).unwrap_or(Slot(0)));
        let start = Progress {
            sum: own.0,
            all_wait: own < end,
        };
        others.fold(start, |so_far, other| Progress {
            sum: so_far.sum.wrapping_add(other.0),
            all_wait: so_far.all_wait && other < end,
        })
    }

    /// Sees how far behind the active members are: they keep up while they reach each mark in time.
    fn settle_mark(&mut self) {
        let now = self.now;
        let is_reached = |slot: Slot| {
            self.other_active()
                .all(|node| self.peer_accepted_up_to(node) >= Some(slot))
        };
        let (mut mark, mut kept_up) = (self.auxiliaries.mark, self.auxiliaries.kept_up);
        if let Some((slot, since)) = mark {
            let is_in_time = now <= since + self.config.timing.engage_after;
            if !is_in_time {
                kept_up = None;
            }
            if is_reached(slot) {
                kept_up = kept_up.or(is_in_time.then_some(since));
                mark = None;
            }
        }
        let end = self.proposed_up_to();
        if mark.is_none() {
            match is_reached(end) {
                true => kept_up = kept_up.or(Some(now)),
                false => mark = Some((end, now)),
            }
        }
        (self.auxiliaries.mark, self.auxiliaries.kept_up) = (mark, kept_up);
    }

    /// The active members of the present configuration but this one.
    fn other_active(&self) -> impl Iterator<Item = NodeId> {
        let own = self.config.node;
        let members = self.state.configuration.members().iter();
        members
            .filter(move |member| !member.auxiliary && member.node != own)
            .map(|member| member.node)
    }

    fn are_active_alive(&self) -> bool {
        self.other_active().all(|node| self.peers.is_alive(node))
    }

    // Holdings of the members.

    /// The slot below which all is chosen and this member durably holds all untrimmed bytes. ‡ A member that
    /// did not say so in the present era has said nothing.
    pub fn holds_below(&self, node: NodeId) -> Option<Slot> {
        if self.state.configuration.is_auxiliary(node) {
            return None;
        }
        let held = if node == self.config.node {
            match self.missing_bytes {
                0 if !self.missing_is_stale => self.acceptor.first_undurable(self.state.next),
                _ => return None,
            }
        } else {
            let peer = self.peers.get(node)?;
            if peer.is_state_short {
                return None;
            }
            peer.held_below
        };
        (held >= self.state.era_start).then_some(held.min(self.state.next))
    }

    /// ‡ All untrimmed bytes that were chosen below this mark, or given to a `node` that is silent, are durably held by
    /// active members that form a quorum without it: then it may become auxiliary.
    ///
    /// Under load no two members hold all that is chosen at one moment, so the mark is a moment ago. What was
    /// chosen since is in the hands of a quorum of this era, perhaps with this node, which keeps it until
    /// every active member says that it holds it ([`Message::Release`]); and every quorum of the next era
    /// meets that one (docs/decisions/0012). `mark`: at or above the start of the era.
    pub fn bytes_stand_without(&self, node: NodeId, mark: Slot) -> bool {
        let configuration = &self.state.configuration;
        // The slots that a silent node never got were chosen without it.
        let mut silent = self.auxiliaries.silent.iter();
        let given = silent
            .find(|(who, _)| *who == node)
            .map(|(_, given)| *given);
        let given = given.unwrap_or(mark).min(self.state.next);
        configuration.is_quorum(|member| {
            member != node && self.holds_below(member).is_some_and(|held| held >= given)
        })
    }

    /// ‡ Whether the slots chosen before this leader's term will be held by a quorum after this step, as far
    /// as members said. (Each era begins a term.) A slot chosen in this era is held by a quorum of it, and
    /// every quorum of the next era meets that one; a quorum two steps on need not (docs/decisions/0012).
    ///
    /// A step that gives weight to a holder, scales all weights, or makes a member active that was not, takes
    /// nothing from those who hold.
    pub(crate) fn is_held_after(&self, change: Change) -> bool {
        if mutation::is(Mutation::HoldsBelowNotAsked)
            || mutation::is(Mutation::WeightBeforeBytes)
            || mutation::is(Mutation::DecrementWhileBytesMissing)
        {
            return true; // the last two ask the same in the node
        }
        let Ok(next) = self.state.configuration.apply(change) else {
            return true; // it will have no effect
        };
        let began = match &self.stage {
            Stage::Leading(leading) => leading.started_at,
            _ => Slot(0),
        };
        // A member that said nothing holds nothing.
        let mark = began.max(Slot(1)).min(self.state.next);
        let holds = |node: NodeId| self.holds_below(node) >= Some(mark);
        match change {
            Change::Increment(node) if holds(node) => true,
            Change::Increment(_) | Change::Decrement(_) => next.is_quorum(holds),
            Change::MarkAuxiliary(node) => next.is_quorum(|member| member != node && holds(member)),
            Change::UnmarkAuxiliary(_) | Change::Multiply(_) | Change::Divide(_) => true,
        }
    }

    // Release.

    /// The slot below which every active member holds all, if these members are a quorum.
    fn releasable(&self) -> Option<Slot> {
        let configuration = &self.state.configuration;
        if mutation::is(Mutation::ReleasedTooEarly) {
            return Some(self.state.next);
        }
        if !configuration.is_quorum(|node| !configuration.is_auxiliary(node)) {
            return None; // together they are fewer copies than a quorum has
        }
        let active = configuration.members().iter().filter(|m| !m.auxiliary);
        let mut least = self.state.next;
        for member in active {
            least = least.min(self.holds_below(member.node)?);
        }
        Some(least)
    }

    fn released(&self, node: NodeId) -> Slot {
        let era = self.state.era;
        let known = self.auxiliaries.released.iter();
        let mut known = known.filter(|(who, when, _)| *who == node && *when == era);
        known.next().map_or(Slot(0), |(_, _, below)| *below)
    }

    /// Auxiliaries that can be told, and have not dropped all below.
    fn unreleased(&self, below: Slot) -> impl Iterator<Item = NodeId> {
        let members = self.state.configuration.members().iter();
        members
            .filter(|member| member.auxiliary && self.peers.is_alive(member.node))
            .map(|member| member.node)
            .filter(move |node| self.released(*node) < below)
    }

    /// The release that is due, if there is an auxiliary to be told.
    fn due_release(&self) -> Option<Slot> {
        self.unreleased(self.state.next).next()?;
        let below = self.releasable()?;
        self.unreleased(below).next().map(|_| below)
    }

    fn settle_release(&mut self) {
        if self.auxiliaries.release_at > self.now {
            return;
        }
        let Some(below) = self.due_release() else {
            return;
        };
        let pace = self.config.timing.auxiliary_pace;
        self.auxiliaries.release_at = self.now + pace;
        let nodes: Vec<NodeId> = self.unreleased(below).collect();
        let era = self.state.era;
        for node in nodes {
            self.send(node, Message::Release { era, below }, RecordNumber(0));
        }
    }

    pub(crate) fn on_release(&mut self, from: NodeId, era: Era, below: Slot) {
        if era != self.state.era || !self.is_auxiliary() {
            self.ignore(from, Ignored::Stale);
            return;
        }
        let below = below.min(self.state.next);
        // After a restart this auxiliary must know again that all below is chosen, else it would have
        // accepted there what it does not hold.
        if self.state_recorded.1 < below {
            self.persist_state();
        }
        self.released = Some(Released {
            by: from,
            era,
            below,
            record: self.state_recorded.0,
        });
        self.settle_released();
    }

    /// ‡ Releases only while the era is still that of the release, and this node is auxiliary in it.
    pub(crate) fn settle_released(&mut self) {
        let Some(released) = self.released else {
            return;
        };
        if !self.acceptor.is_durable(released.record) {
            return;
        }
        self.released = None;
        let Released { by, era, below, .. } = released;
        if era == self.state.era && self.is_auxiliary() {
            self.put(Output::Release { below });
            self.send(by, Message::Released { era, below }, RecordNumber(0));
        }
    }

    pub(crate) fn on_released(&mut self, from: NodeId, era: Era, below: Slot) {
        if era != self.state.era || below > self.state.next {
            self.ignore(from, Ignored::Stale);
            return;
        }
        let before = self.released(from);
        let released = &mut self.auxiliaries.released;
        released.retain(|(node, _, _)| *node != from);
        released.push((from, era, below.max(before)));
    }

    /// For each stream the position below which its bytes certainly lie in slots below `below`, and in no
    /// accepted slot that is not known chosen. As in a trim, a few bytes are kept in excess.
    pub fn bytes_below(&self, below: Slot) -> Vec<(StreamName, StreamPosition)> {
        let state = &self.state;
        let mut bytes = Vec::new();
        for (at, stream) in state.streams.iter().enumerate() {
            if stream.opened >= below {
                break;
            }
            let end = state.streams.get(at + 1).map_or(state.next, |s| s.opened);
            let kept_max = end.0.saturating_sub(below.0);
            let mut position = StreamPosition(stream.length.0.saturating_sub(kept_max));
            for (slots, acceptance) in self.acceptor.accepted().iter() {
                if let Value::Content { stream: of, offset } = &acceptance.value
                    && *of == stream.name
                {
                    position.0 = position.0.min(slots.start.0.saturating_sub(offset.0));
                }
            }
            bytes.push((stream.name, position));
        }
        bytes
    }

    /// The time when the passage of time alone changes something here.
    pub(crate) fn auxiliary_deadline(&self) -> Option<Time> {
        if !matches!(self.stage, Stage::Leading(_)) || !self.state.configuration.has_auxiliaries() {
            return None;
        }
        let timing = self.config.timing;
        let after = |since: Time, wait: Duration| since + wait;
        let engage = self.stall_due().filter(|_| !self.auxiliaries.engaged);
        let disengage = self.auxiliaries.kept_up;
        let disengage = disengage.map(|since| after(since, timing.disengage_after));
        let release = self.due_release();
        let release = release.map(|_| self.auxiliaries.release_at);
        [engage, disengage, release].into_iter().flatten().min()
    }
}
