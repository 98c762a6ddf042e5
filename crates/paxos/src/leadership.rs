//! Leadership: pre-votes, patience, stepping down, handing over.
//!
//! ```text
//!                 offers of a quorum              promises of a quorum
//!   Candidate ─────────────────────► Preparing ─────────────────────────► Leading
//!     ▲  ▲  ▲                            │ refused, or no answers            │ │
//!     │  │  └────────────────────────────┘                                   │ │ abdicates
//!     │  └── leader silent ── Following ◄── proposal or status of a leader   │ ▼
//!     └────────── later term, no quorum, asked ──────────────────────────────┘ HandedOver
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::asking::Asking;
use crate::engine::{Engine, earliest};
use crate::mutation::{self, Mutation};
use crate::phase1::Phase1;
use crate::proposer::Leading;
use crate::{
    Ignored, Message, NodeId, Note, Output, PromisedTerm, RecordNumber, Slot, StepDownReason, Term,
    Time,
};

#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Candidate(Candidacy),
    /// A candidate in phase 1.
    Preparing(Phase1),
    Following(Following),
    Leading(Box<Leading>),
    /// The leader prepared a term for a successor, and waits for a sign of it.
    HandedOver {
        until: Time,
    },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Candidacy {
    /// The time to seek votes (again).
    wake: Option<Time>,
    /// Votes were sought and no reason not to stand was found since.
    seeking: bool,
    offers: Vec<NodeId>,
    /// A replica that holds all bytes offered its vote, so it has no leader and can stand itself.
    whole_peer: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Following {
    pub leader: NodeId,
    pub term: Term,
    /// The failure detector must have heard the leader by then.
    pub alive_by: Option<Time>,
    /// Reads, for which this follower asks that leader.
    pub asking: Asking,
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::Candidate(Candidacy::default())
    }
}

/// A replica that misses bytes lets whole ones stand this many times before it stands itself: a
/// whole one may be unable to win.
const YIELDS_MAX: u32 = 4;

impl Engine {
    /// Whether this replica may lead: a member that is not auxiliary, and forgot nothing.
    pub(crate) fn may_stand(&self) -> bool {
        let member = self.state.configuration.member(self.config.node);
        self.may_promise() && member.is_some_and(|member| !member.auxiliary)
    }

    /// Whether the next [`Input::Timer`](crate::Input::Timer) seeks votes for this replica.
    #[inline]
    pub fn wants_to_stand(&self, now: Time) -> bool {
        match &self.stage {
            Stage::Candidate(candidacy) => self.has_come_to_stand(candidacy, now),
            _ => false,
        }
    }

    fn has_come_to_stand(&self, candidacy: &Candidacy, now: Time) -> bool {
        candidacy.wake.is_some_and(|wake| wake <= now)
            && self.patience <= now
            && self.may_stand()
            && !self.is_alone()
    }

    /// Has a candidate wait until it is told that it need not: neither the time nor a vote that is offered late
    /// begins its election. It hears and votes for others all the while.
    #[inline]
    pub fn wait_for_turn(&mut self, waits: bool) {
        self.waits_for_turn = waits;
        if waits && let Stage::Candidate(candidacy) = &mut self.stage {
            candidacy.seeking = false;
        }
    }

    /// Whether this replica stands for election: it seeks votes, or asks for promises.
    pub fn is_standing(&self, now: Time) -> bool {
        match &self.stage {
            Stage::Candidate(candidacy) => {
                candidacy.seeking && candidacy.wake.is_some_and(|wake| wake > now)
            }
            Stage::Preparing(_) => true,
            _ => false,
        }
    }

    pub(crate) fn is_alone(&self) -> bool {
        let members = self.state.configuration.members();
        members.len() == 1 && members[0].node == self.config.node
    }

    /// Whether this replica and the peers that are alive are a quorum.
    pub fn is_quorum_alive(&self) -> bool {
        self.state
            .configuration
            .is_quorum(|node| node == self.config.node || self.peers.is_alive(node))
    }

    fn backoff(&mut self) -> Duration {
        let timing = self.config.timing;
        let doubled = timing
            .candidate_backoff_first
            .saturating_mul(1 << self.attempts.min(20));
        let limit = match mutation::is(Mutation::BackoffUncapped) {
            true => Duration::MAX,
            false => timing.candidate_backoff_max,
        };
        let mut backoff = self.random.duration_up_to(doubled.min(limit));
        if self.missing_bytes > 0 && self.peers.any_alive() {
            backoff = backoff.saturating_add(timing.missing_bytes_handicap);
        }
        backoff
    }

    /// Leaves whatever this replica was. It stands after a random while and `delay`.
    pub(crate) fn become_candidate(&mut self, delay: Duration) {
        self.leave_stage();
        // A replica that may not stand asks as well, seldom: a leader that hears it answers.
        let delay = if self.may_stand() || self.deposed {
            delay
        } else {
            delay.saturating_add(self.config.timing.candidate_backoff_max)
        };
        let backoff = self.backoff();
        let wake = (self.now + backoff.saturating_add(delay)).max(self.patience);
        self.stage = Stage::Candidate(Candidacy {
            wake: Some(wake),
            ..Candidacy::default()
        });
    }

    /// Closes what a leader had open, and fails the reads that wait. The caller sets the next stage.
    pub(crate) fn leave_stage(&mut self) {
        self.close_permit();
        self.acceptor.stop_finishing();
        let some_waited = match &mut self.stage {
            Stage::Leading(leading) => leading.reads.fail(),
            Stage::Following(following) => following.asking.fail(),
            _ => false,
        };
        if some_waited {
            self.put(Output::ReadsFailed);
        }
    }

    pub(crate) fn follow(&mut self, leader: NodeId, term: Term) {
        self.see(term);
        match &mut self.stage {
            Stage::Following(following) if following.leader == leader => {
                if following.term != term {
                    following.term = term;
                    self.catch_up.on_new_term(term);
                    self.ask_in_new_term();
                }
                return;
            }
            Stage::Leading(leading) => {
                let term = leading.term;
                let reason = StepDownReason::LaterTerm;
                self.note(Note::SteppedDown { term, reason });
            }
            _ => {}
        }
        self.leave_stage();
        self.attempts = 0;
        self.deposed = false;
        let alive_by = if self.peers.is_alive(leader) {
            None
        } else {
            Some(self.now + self.config.timing.leader_timeout)
        };
        self.stage = Stage::Following(Following {
            leader,
            term,
            alive_by,
            asking: Asking::default(),
        });
        self.catch_up.on_new_term(term);
    }

    /// The term of the leader this replica follows.
    pub(crate) fn followed_term(&self) -> Option<Term> {
        match &self.stage {
            Stage::Following(following) => Some(following.term),
            _ => None,
        }
    }

    /// Gives another node time to finish its phase 1, for which it has this replica's promise.
    pub(crate) fn yield_to(&mut self, owner: NodeId) {
        let patience = self.config.timing.retry.saturating_mul(2);
        self.patience = self.now + patience;
        match &mut self.stage {
            Stage::Following(following) if following.leader == owner => return,
            Stage::Leading(leading) => {
                let term = leading.term;
                let reason = StepDownReason::LaterTerm;
                self.note(Note::SteppedDown { term, reason });
            }
            _ => {}
        }
        self.become_candidate(patience);
    }

    fn is_promise_durable(&self) -> bool {
        self.acceptor.durable_promised() == self.acceptor.promised()
    }

    /// Notes that the promise to another node is durable. If that took long, the other's own may take as long.
    pub(crate) fn on_promise_durable(&mut self) {
        if !self.is_promise_durable() {
            return;
        }
        let Some(since) = self.promised_since.take() else {
            return;
        };
        if self.acceptor.promised().0.owner != self.config.node {
            let took = self.now - since;
            let most = self.config.timing.leader_timeout.saturating_mul(4);
            self.patience = self.patience.max(self.now + took.min(most));
        }
    }

    fn wait_for_patience(&mut self) {
        let patience = self.patience;
        let backoff = self.backoff();
        if let Stage::Candidate(candidacy) = &mut self.stage {
            candidacy.wake = Some(patience + backoff);
        }
    }

    /// Stops leading by itself, and says so: its followers have no other way to know.
    pub(crate) fn step_down(&mut self, reason: StepDownReason, delay: Duration) {
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        let term = leading.term;
        self.note(Note::SteppedDown { term, reason });
        self.deposed = true;
        self.become_candidate(delay);
        self.send_seek_votes();
    }

    fn send_seek_votes(&mut self) {
        let message = Message::SeekVotes {
            first_unchosen: self.state.next,
            promised: self.acceptor.durable_promised(),
            missing_bytes: self.missing_bytes > 0,
        };
        self.send_to_members(&message);
    }

    // Messages.

    pub(crate) fn on_seek_votes(
        &mut self,
        from: NodeId,
        first_unchosen: Slot,
        promised: PromisedTerm,
    ) {
        self.heard_first_unchosen(from, first_unchosen);
        self.see_promise_of(from, promised.0);
        match &self.stage {
            Stage::Leading(_) => {
                self.peers.entry(from).status = None;
                if let Some(status) = self.leader_status() {
                    self.send(from, status, RecordNumber(0));
                }
                if first_unchosen < self.state.next {
                    self.offer_catch_up(from);
                }
                self.redo_above(from, promised.0);
                return;
            }
            Stage::Following(following) if following.leader == from => {
                self.become_candidate(Duration::ZERO)
            }
            Stage::Following(_) => {
                // It may be cut off from that leader, and can still be told by way of this follower what is chosen.
                if first_unchosen < self.state.next {
                    self.offer_catch_up(from);
                }
                self.ignore(from, Ignored::HasLeader);
                return;
            }
            Stage::Preparing(_) | Stage::HandedOver { .. } => {
                self.ignore(from, Ignored::HasLeader);
                return;
            }
            Stage::Candidate(_) if self.now < self.patience => {
                self.ignore(from, Ignored::HasLeader);
                return;
            }
            Stage::Candidate(_) => {}
        }
        if first_unchosen < self.state.next {
            self.offer_catch_up(from);
            return;
        }
        if first_unchosen > self.state.next {
            self.catch_up_from(from);
        }
        if !self.may_promise() {
            self.ignore(from, Ignored::Forgetful);
            return;
        }
        let message = Message::OfferVote {
            promised: self.acceptor.promised(),
            missing_bytes: self.missing_bytes > 0,
        };
        self.send(from, message, self.acceptor.promise_record());
    }

    pub(crate) fn offer_catch_up(&mut self, to: NodeId) {
        let first_unchosen = self.state.next;
        let message = Message::OfferCatchUp { first_unchosen };
        self.send(to, message, RecordNumber(0));
    }

    pub(crate) fn on_offer_vote(
        &mut self,
        from: NodeId,
        promised: PromisedTerm,
        missing_bytes: bool,
    ) {
        self.see_promise_of(from, promised.0);
        let may_lead = self
            .state
            .configuration
            .member(from)
            .is_some_and(|member| !member.auxiliary);
        let Stage::Candidate(candidacy) = &mut self.stage else {
            return;
        };
        if !candidacy.seeking {
            return;
        }
        candidacy.whole_peer |= may_lead && !missing_bytes;
        if !candidacy.offers.contains(&from) {
            candidacy.offers.push(from);
        }
        self.count_offers();
    }

    /// Quorums of both phases are majorities of one configuration, that of the first unchosen
    /// slot, so one count answers for both.
    fn count_offers(&mut self) {
        let node = self.config.node;
        let Stage::Candidate(candidacy) = &self.stage else {
            return;
        };
        let enough = candidacy.seeking
            && self
                .state
                .configuration
                .is_quorum(|member| member == node || candidacy.offers.contains(&member));
        let yields = self.missing_bytes > 0 && candidacy.whole_peer && self.attempts <= YIELDS_MAX;
        if enough && !yields {
            self.start_phase1(Vec::new());
        }
    }

    /// A peer knows more slots chosen.
    pub(crate) fn on_offer_catch_up(&mut self, from: NodeId, first_unchosen: Slot) {
        self.heard_first_unchosen(from, first_unchosen);
        if first_unchosen <= self.state.next {
            return;
        }
        if let Stage::Candidate(candidacy) = &mut self.stage {
            candidacy.seeking = false;
        }
        self.catch_up_from(from);
    }

    // Inputs.

    pub(crate) fn on_peer_alive(&mut self, node: NodeId) {
        if node == self.config.node {
            return;
        }
        let peer = self.peers.entry(node);
        let before = peer.alive;
        peer.alive = true;
        if !before {
            peer.on_alive_again();
        }
        match &mut self.stage {
            Stage::Following(following) if following.leader == node => following.alive_by = None,
            Stage::Candidate(candidacy) if !before && candidacy.wake.is_some() => {
                self.attempts = 0;
                self.wake_within(Duration::ZERO);
            }
            Stage::Leading(_) => {
                self.check_quorum();
                self.retry_unavailable();
            }
            _ => {}
        }
    }

    /// Shortens a candidate's wait: after news it need not wait for the end of a long backoff.
    pub(crate) fn wake_within(&mut self, delay: Duration) {
        let backoff = self.backoff();
        let earlier = (self.now + backoff.saturating_add(delay)).max(self.patience);
        if let Stage::Candidate(candidacy) = &mut self.stage
            && let Some(wake) = &mut candidacy.wake
        {
            *wake = earlier.min(*wake);
        }
    }

    pub(crate) fn on_peer_silent(&mut self, node: NodeId) {
        self.peers.entry(node).alive = false;
        match &self.stage {
            Stage::Following(following) if following.leader == node => {
                self.become_candidate(Duration::ZERO)
            }
            Stage::Leading(_) | Stage::Preparing(_) => {
                self.check_quorum();
                self.check_casting();
                self.evaluate_phase1();
                // Slots may have waited for this peer's copy.
                self.choose();
            }
            _ => {}
        }
    }

    pub(crate) fn on_step_down(&mut self) {
        let delay = self.config.timing.candidate_backoff_max;
        self.step_down(StepDownReason::Asked, delay);
    }

    // Time.

    pub(crate) fn stage_deadline(&self) -> Option<Time> {
        match &self.stage {
            Stage::Candidate(candidacy) => candidacy.wake.filter(|_| !self.waits_for_turn),
            Stage::Preparing(phase) => Some(phase.deadline()),
            Stage::Following(following) => {
                earliest(following.alive_by, following.asking.deadline())
            }
            Stage::Leading(leading) => self.leader_deadline(leading),
            Stage::HandedOver { until } => Some(*until),
        }
    }

    pub(crate) fn on_timer(&mut self) {
        let now = self.now;
        match &self.stage {
            Stage::Candidate(candidacy) => {
                if !self.waits_for_turn && candidacy.wake.is_some_and(|wake| wake <= now) {
                    match now < self.patience {
                        true => self.wait_for_patience(),
                        false => self.seek_votes(),
                    }
                }
            }
            Stage::Preparing(_) => self.on_phase1_timer(),
            Stage::Following(following) => {
                if following.alive_by.is_some_and(|by| by <= now) {
                    self.become_candidate(Duration::ZERO);
                } else {
                    self.on_asking_timer();
                }
            }
            Stage::Leading(_) => self.on_leader_timer(),
            Stage::HandedOver { until } => {
                if *until <= now {
                    // No sign of the successor came. The promise above the own last term stands, so only a
                    // new phase 1 leads on.
                    self.start_phase1(Vec::new());
                }
            }
        }
        self.on_copies_timer();
        self.on_catch_up_timer();
    }

    /// One attempt at an election.
    fn seek_votes(&mut self) {
        if self.is_alone() && self.may_stand() {
            self.start_phase1(Vec::new());
            return;
        }
        self.attempts = self.attempts.saturating_add(1);
        let timing = self.config.timing;
        let pause = if self.may_stand() || self.deposed {
            timing.retry
        } else {
            timing.retry.max(timing.candidate_backoff_max)
        };
        let backoff = self.backoff();
        let wake = self.now + pause.saturating_add(backoff);
        self.stage = Stage::Candidate(Candidacy {
            wake: Some(wake),
            // While a promise is on its way to disk, no further one is begun.
            seeking: self.may_stand() && self.is_promise_durable(),
            ..Candidacy::default()
        });
        self.send_seek_votes();
        self.count_offers();
    }

    /// Makes a candidate begin anew when the configuration changed below it: perhaps it may stand now, or no more.
    pub(crate) fn on_new_era(&mut self) {
        if let Stage::Candidate(_) = &self.stage {
            self.become_candidate(Duration::ZERO);
        }
    }

    pub(crate) fn start_phase1(&mut self, excluded: Vec<NodeId>) {
        match self.next_term(self.config.node) {
            Some(term) if self.may_stand() => self.prepare(term, excluded),
            _ => {
                if !matches!(self.stage, Stage::Leading(_)) {
                    self.become_candidate(Duration::ZERO);
                }
            }
        }
    }

    /// The least term of this era above every promise heard of. (I3, restart: the own promise as
    /// found on disk at start is among them, so no term of an earlier life is used again.)
    pub(crate) fn next_term(&self, owner: NodeId) -> Option<Term> {
        let era = self.state.era;
        let above = self.seen.max(self.acceptor.promised().0);
        if above.era > era {
            return None; // first it must learn how that era began
        }
        let again = mutation::is(Mutation::TermReused) && above.owner == owner;
        let number = if above.era == era {
            above.number.checked_add(u32::from(!again))?
        } else {
            1
        };
        let term = Term { era, number, owner };
        crate::invariant!(
            term > self.acceptor.promised().0,
            "I3: a term is prepared above every promise"
        );
        Some(term)
    }
}
