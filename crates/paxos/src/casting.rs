//! The casting vote: a new era begins without a stall.
//!
//! A reconfiguration that is chosen wants a new term t' of the new era, while all that is proposed
//! in the term t before it is still under way. If the leader's own voice alone joins two quorums of
//! the new configuration, one can promise t' while the other goes on accepting in t:
//!
//! ```text
//!   q' ∈ Q1(e+1)  ── asked to promise t' ──┐
//!                                          ├── q ∩ q' = {leader}
//!   q  ∈ Q2(e+1)  ── accepts in t ─────────┘
//!
//!   slots   … chosen in t │ under way in t, through q │ proposed in t' from here on …
//!           first unchosen┘                           └ p: where t' took over,  p <= s
//! ```
//!
//! The leader's own promise of t' comes first, and is the only one that leaves something open: it counts from
//! slot s, the end of its permit at that moment, and its record says so ([`Finishing`]). Below s the leader
//! goes on in t. Once q' has promised and the own promise is durable, t' takes over in slot p, the first slot
//! in which nothing was proposed: from there on nothing is accepted in t any more, by anybody, because only
//! this leader proposes in t. The slots below p that are not chosen are finished in t; their acceptances go
//! on counting.
//!
//! Where the votes cannot be split so, the leader does phase 1 as any other would, and stalls.

use alloc::vec::Vec;

use crate::engine::Engine;
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::phase1::Phase1;
use crate::safety::{self, Voter};
use crate::{Finishing, Message, NodeId, Note, RecordNumber, Slot, Term};

impl Engine {
    /// Prepares the next term at q' alone, when a new era began under a leader that may stand. False if there
    /// is no such split, or something else is going on.
    pub(crate) fn cast_vote(&mut self) -> bool {
        let Stage::Leading(leading) = &self.stage else {
            return false;
        };
        let all_of_one_term = leading.finishing_below() <= self.state.next;
        let undisturbed = leading.is_open()
            && leading.again.is_none()
            && leading.redo_at.is_none()
            && leading.plan.is_empty()
            && self.acceptor.promised().0 == leading.term;
        if !all_of_one_term || !undisturbed || !safety::may_choose(leading.term, self.state.era) {
            return false;
        }
        let finishing = Finishing {
            term: leading.term,
            below: self.window_end().max(leading.proposed_up_to),
        };
        let Some(asked) = self.split_votes() else {
            return false;
        };
        let Some(term) = self.next_term(self.config.node) else {
            return false;
        };
        let record = self.promise_and_finish(term, finishing);
        let phase = Phase1::casting(self, term, record, asked.clone());
        self.last_phase1 = Some(self.now);
        if let Stage::Leading(leading) = &mut self.stage {
            leading.again = Some(phase);
        }
        self.note(Note::CastingVote { term });
        for node in asked {
            self.send(node, Message::Prepare { term }, RecordNumber(0));
        }
        true
    }

    /// q' without this leader. A silent member is in neither quorum; a member that gets no proposals cannot
    /// be in q; and a member is better in q the more of this term it accepted.
    fn split_votes(&self) -> Option<Vec<NodeId>> {
        let Stage::Leading(_) = &self.stage else {
            return None;
        };
        let node = self.config.node;
        let members = self.state.configuration.members().iter();
        let others = members.filter(|m| m.node != node && self.peers.is_alive(m.node));
        let voters = others.map(|member| Voter {
            node: member.node,
            weight: u64::from(member.weight),
            accepts: self.wants_proposals(member.node),
            level: self.peer_accepted_up_to(member.node) >= Some(self.state.next),
        });
        let voters: Vec<Voter> = voters.collect();
        if mutation::is(Mutation::CastingVoteWithoutSplit) {
            return Some(voters.iter().map(|voter| voter.node).collect());
        }
        safety::casting_vote(&self.state.configuration, node, &voters)
    }

    /// Takes over in slot `p`: q' has promised that from there on nothing of another term is in the way.
    pub(crate) fn take_over(&mut self, term: Term) {
        let first = self.state.next;
        let finish_by = self.now + self.config.timing.leader_timeout;
        let Stage::Leading(leading) = &mut self.stage else {
            return;
        };
        let below = leading.proposed_up_to;
        let finishing = Finishing {
            term: leading.term,
            below,
        };
        crate::invariant!(
            leading.plan.is_empty() && finishing.term < term,
            "I3: {term} takes over from {} with slots bound",
            finishing.term
        );
        leading.finishing = Some(finishing);
        leading.finish_by = (first < below).then_some((first, finish_by));
        leading.term = term;
        leading.is_used = false;
        leading.started_at = below;
        leading.reported_end = leading.reported_end.max(below);
        leading.again = None;
        leading.redo_at = None;
        leading.reads.on_new_term();
        self.acceptor.stop_finishing();
        self.peers.forget_statuses();
        self.catch_up.on_new_term(term);
        self.check_quorum();
        self.send_to_members(&Message::LeaderStatus {
            term,
            proposed_up_to: below,
            chosen_up_to: first,
            finishing: Some(finishing),
        });
    }

    /// Gives up a split that does not hold: the same term is asked of everybody, and nothing more is proposed
    /// in the one before.
    pub(crate) fn give_up_casting(&mut self) {
        let Some(phase) = self.phase1() else {
            return;
        };
        let Some(asked) = phase.stop_casting() else {
            return;
        };
        let term = phase.term;
        self.acceptor.stop_finishing();
        self.close_permit();
        self.note(Note::PhaseOneAgain { term });
        let members: Vec<NodeId> = self.member_nodes();
        for member in members {
            if member != self.config.node && !asked.contains(&member) {
                self.send(member, Message::Prepare { term }, RecordNumber(0));
            }
        }
        self.evaluate_phase1();
    }

    /// The members asked to promise, besides this leader itself, while its casting vote runs.
    pub fn asked_at_a_casting_vote(&self) -> Option<&[NodeId]> {
        match &self.stage {
            Stage::Leading(leading) => leading.again.as_ref().and_then(Phase1::asked),
            _ => None,
        }
    }

    /// Checks whether the split still holds when a member fell silent, or came back.
    pub(crate) fn check_casting(&mut self) {
        let node = self.config.node;
        let Stage::Leading(leading) = &self.stage else {
            return;
        };
        let Some(asked) = leading.again.as_ref().and_then(Phase1::asked) else {
            return;
        };
        let all_there = asked.iter().all(|peer| self.peers.is_alive(*peer));
        let goes_on = self.state.configuration.is_quorum(|member| {
            member == node
                || !asked.contains(&member)
                    && self.peers.is_alive(member)
                    && self.wants_proposals(member)
        });
        if !all_there || !goes_on && !mutation::is(Mutation::CastingVoteWithoutSplit) {
            self.give_up_casting();
        }
    }

    /// Proposes everything again if the slots left to the term before cannot be finished.
    pub(crate) fn check_finished(&mut self) {
        let (now, first) = (self.now, self.state.next);
        let later = self.now + self.config.timing.leader_timeout;
        let Stage::Leading(leading) = &mut self.stage else {
            return;
        };
        let Some((from, due)) = leading.finish_by else {
            return;
        };
        if first >= leading.finishing_below() || leading.again.is_some() {
            leading.finish_by = None; // or everything is proposed again anyhow
        } else if from < first {
            leading.finish_by = Some((first, later)); // it goes on
        } else if due <= now {
            leading.finish_by = None;
            self.start_phase1(Vec::new());
        }
    }

    /// The slot from which on slots are outside of the window of unchosen bytes.
    pub(crate) fn window_end(&self) -> Slot {
        let window = match mutation::is(Mutation::WindowUnbounded) {
            true => 1 << 40,
            false => self.config.unchosen_bytes_max,
        };
        Slot(self.state.next.0.saturating_add(window))
    }
}
