//! Leading from day to day: a quorum must be alive, a new era wants a new term, and a leader may
//! hand over.

use alloc::vec::Vec;
use core::time::Duration;

use crate::engine::{Engine, earliest};
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::phase1::Phase1;
use crate::proposer::{Abdication, Leading};
use crate::{Ignored, Message, NodeId, Note, PhaseOne, RecordNumber, StepDownReason, Time};

impl Engine {
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

    /// Gives a new era its new term and a waiting abdication its successor, after every input.
    pub(crate) fn settle_leader(&mut self) {
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        let term = leading.again.as_ref().map_or(leading.term, |p| p.term);
        if term.era < self.state.era {
            if self.may_stand() {
                // The followers know all slots before the era once they hear what is chosen.
                self.tell_chosen();
                if !self.cast_vote() {
                    self.start_phase1(Vec::new());
                }
            } else if leading.abdication.is_none() {
                self.begin_abdication(None);
            }
        }
        if self.config.phase_one == PhaseOne::PerBatchAhead && self.wants_term_of_its_own() {
            self.prepare_for_next_batch();
        }
        self.check_finished();
        if let Stage::Leading(leading) = &self.stage
            && leading.abdication.is_some()
        {
            self.check_abdication();
        }
    }

    /// Whether this leader does a phase 1 for each batch of bytes.
    pub fn prepares_each_batch(&self) -> bool {
        self.config.phase_one != PhaseOne::PerTerm
    }

    /// Whether the next batch of bytes may be proposed in the term that there is. A leader that prepares for each batch
    /// begins to do so here, once all before it is chosen; the permit is closed meanwhile, and the node asks again.
    pub fn may_begin_batch(&mut self, now: Time) -> bool {
        let Stage::Leading(leading) = &self.stage else {
            return false;
        };
        if !self.prepares_each_batch() || !leading.is_used {
            return true;
        }
        if self.wants_term_of_its_own() {
            self.now = self.now.max(now);
            self.prepare_for_next_batch();
            self.settle();
        }
        false
    }

    /// The followers learn before what was chosen in the term that there is. In the next one they could not, since they accepted it in this one:
    /// each promise would report everything since the leader was elected, and grow with every batch.
    fn prepare_for_next_batch(&mut self) {
        self.tell_chosen();
        self.start_phase1(Vec::new());
    }

    fn tell_chosen(&mut self) {
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        let status = Message::LeaderStatus {
            term: leading.term,
            proposed_up_to: leading.proposed_up_to,
            chosen_up_to: self.state.next,
            finishing: leading.finishing,
        };
        self.send_to_members(&status);
    }

    /// Whether its term is used up, and nothing is under way in which another one would interfere.
    fn wants_term_of_its_own(&self) -> bool {
        let Stage::Leading(leading) = &self.stage else {
            return false;
        };
        leading.is_used
            && leading.is_open()
            && leading.again.is_none()
            && leading.redo_at.is_none()
            && leading.plan.is_empty()
            && leading.proposed_up_to <= self.state.next
            && leading.term.era == self.state.era
    }

    /// Whether the permit is closed for an abdication, and its successor is not level yet.
    pub fn is_abdicating(&self) -> bool {
        matches!(&self.stage, Stage::Leading(leading) if leading.abdication.is_some())
    }

    /// Whether it led, prepared a term for its successor, and has not heard of it since.
    pub fn has_handed_over(&self) -> bool {
        matches!(&self.stage, Stage::HandedOver { .. })
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
        let until = self.now + self.config.timing.abdication;
        if let Stage::Leading(leading) = &mut self.stage {
            leading.abdication = Some(Abdication {
                to,
                until,
                asked: Vec::new(),
            });
            self.close_permit();
        }
    }

    /// Hands over once the successor is level: with the permit closed the followers become level soon. ‡ Only
    /// a level, live one succeeds.
    fn check_abdication(&mut self) {
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        let Some(Abdication { to, asked, .. }) = &leading.abdication else {
            return;
        };
        let suits = |node: &NodeId| to.is_none_or(|to| to == *node) && self.may_succeed(*node);
        let candidates = || self.peers.iter().map(|peer| peer.node).filter(suits);
        let is_level = |n: &NodeId| self.is_level(*n) || mutation::is(Mutation::AbdicatesToAnyone);
        let level = candidates().filter(is_level);
        let successor = level.max_by_key(|node| self.state.configuration.weight(*node));
        if let Some(successor) = successor {
            self.hand_over(successor);
            return;
        }
        let proposed = leading.proposed_up_to;
        let has_all = |node: &NodeId| {
            proposed <= self.state.next && self.peer_accepted_up_to(*node) >= Some(proposed)
        };
        let owing = candidates().find(|node| has_all(node) && !asked.contains(node));
        if let Some(node) = owing {
            self.ask_whether_level(node);
        }
    }

    /// Asks a follower whose last acceptances made everything chosen. The follower does not know that they
    /// did, nor does this leader know its level: the next heartbeats would tell, and writers would wait for
    /// them.
    fn ask_whether_level(&mut self, node: NodeId) {
        if let Some(status) = self.leader_status() {
            self.send(node, status, RecordNumber(0));
        }
        if let Stage::Leading(leading) = &mut self.stage
            && let Some(abdication) = &mut leading.abdication
        {
            abdication.asked.push(node);
        }
        self.check_abdication();
    }

    fn hand_over(&mut self, successor: NodeId) {
        crate::invariant!(
            self.is_level(successor),
            "node {successor} is to lead, and lacks something that was proposed"
        );
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
        let until = self.now + self.config.timing.abdication;
        self.deposed = true;
        self.stage = Stage::HandedOver { until };
    }

    pub(crate) fn leader_deadline(&self, leading: &Leading) -> Option<Time> {
        let timeout = self.config.timing.leader_timeout;
        let quorum = leading.no_quorum_deadline(timeout);
        let phase = leading.again.as_ref().map(Phase1::deadline);
        let abdication = leading.abdication.as_ref().map(|a| a.until);
        let own = earliest(
            earliest(quorum, phase),
            earliest(abdication, leading.redo_at),
        );
        let own = earliest(own, leading.finish_by.map(|(_, due)| due));
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
            self.step_down(StepDownReason::NoQuorum, Duration::ZERO);
            return;
        }
        if leading.redo_at.is_some_and(|due| due <= now) {
            leading.redo_at = None;
            self.start_phase1(Vec::new());
        }
        let Stage::Leading(leading) = &mut self.stage else {
            return;
        };
        if let Some(abdication) = leading.abdication.take_if(|a| a.until <= now) {
            let from = abdication.to.unwrap_or(self.config.node);
            self.ignore(from, Ignored::Stale);
            if !self.may_stand() {
                self.step_down(StepDownReason::Asked, Duration::ZERO);
            }
        }
    }
}
