//! Linearizable reads: a round of confirmations instead of a slot.
//!
//! A read may be served from the leader's state once
//!
//! 1. every slot reported in this term's phase 1 is chosen and applied, and
//! 2. a round of confirmations, begun after the read arrived, was answered by a quorum of the first
//!    unchosen slot's era: no member of it had promised a later term, so nobody chose anything that
//!    this leader does not know.
//!
//! No clock counts. Reads that arrive while a round is under way wait for the next one. A follower
//! that asks for a barrier (see `asking`) is one more read: its answer is the first unchosen slot at
//! the moment when a read of this leader would be served.

use alloc::vec::Vec;

use crate::engine::Engine;
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::{AskNumber, Ignored, Message, NodeId, Output, ReadId, RecordNumber, Term, Time};

#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// Questions that no round covers yet.
    arrived: Waiting,
    round: Option<Round>,
    /// Questions that a round covered. They wait for rule 1.
    confirmed: Waiting,
    rounds: u64,
}

/// All questions that wait for the same.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// The last of this node's reads.
    read: Option<ReadId>,
    /// At most one question of each follower.
    asks: Vec<(NodeId, AskNumber)>,
}

#[derive(Clone, Debug)]
struct Round {
    covers: Waiting,
    confirmed: Vec<NodeId>,
    retry_at: Time,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.read.is_none() && self.asks.is_empty()
    }

    fn has(&self, from: NodeId, number: AskNumber) -> bool {
        self.asks.contains(&(from, number))
    }

    /// Puts a question in the place of an earlier one of that follower, for which the follower no longer waits.
    fn ask(&mut self, from: NodeId, number: AskNumber) {
        match self.asks.iter_mut().find(|(node, _)| *node == from) {
            Some((_, known)) => *known = number.max(*known),
            None => self.asks.push((from, number)),
        }
    }

    fn join(&mut self, others: Waiting) {
        self.read = self.read.max(others.read);
        for (from, number) in others.asks {
            self.ask(from, number);
        }
    }
}

impl Reads {
    /// Fails all questions. Returns whether there were any of this node's. Followers notice by themselves.
    pub(crate) fn fail(&mut self) -> bool {
        let before = core::mem::take(self);
        let covered = before.round.map(|round| round.covers);
        let read = before.arrived.read.max(before.confirmed.read);
        read.max(covered.and_then(|covered| covered.read)).is_some()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.round.as_ref().map(|round| round.retry_at)
    }

    /// Lets all reads wait anew: confirmations in an earlier term say nothing on this one.
    pub(crate) fn on_new_term(&mut self) {
        if let Some(round) = self.round.take() {
            self.arrived.join(round.covers);
        }
        self.arrived.join(core::mem::take(&mut self.confirmed));
    }

    /// Adds a question. A repeated one keeps its place.
    fn ask(&mut self, from: NodeId, number: AskNumber) {
        let round = self.round.as_ref().map(|round| &round.covers);
        let mut before = [Some(&self.confirmed), round].into_iter().flatten();
        if !before.any(|waiting| waiting.has(from, number)) {
            self.arrived.ask(from, number);
        }
    }
}

impl Engine {
    pub(crate) fn on_read(&mut self, id: ReadId) {
        match &mut self.stage {
            Stage::Leading(leading) => {
                leading.reads.arrived.read = leading.reads.arrived.read.max(Some(id));
            }
            Stage::Following(following) => following.asking.on_read(id),
            _ => self.put(Output::ReadsFailed),
        }
    }

    /// Takes the question of a follower that has readers.
    pub(crate) fn on_ask_barrier(&mut self, from: NodeId, term: Term, number: AskNumber) {
        let Stage::Leading(leading) = &mut self.stage else {
            self.ignore(from, Ignored::Stale); // it hears of another leader, or asks again
            return;
        };
        if leading.term == term {
            leading.reads.ask(from, number);
            if mutation::is(Mutation::BarrierAnsweredWithoutRound) {
                self.answer_barrier(from, term, number);
            }
            return;
        }
        self.ignore(from, Ignored::OlderTerm);
        if let Some(status) = self.leader_status() {
            self.send(from, status, RecordNumber(0));
        }
    }

    fn answer_barrier(&mut self, to: NodeId, term: Term, number: AskNumber) {
        let slot = self.state.next;
        let message = Message::Barrier { term, number, slot };
        self.send(to, message, RecordNumber(0));
    }

    pub(crate) fn on_confirm(&mut self, from: NodeId, term: Term, round: u64) {
        if term.owner != from {
            self.ignore(from, Ignored::NotOwner);
        } else if self.acceptor.promised().0 > term {
            self.refuse(from, term);
        } else {
            self.send(from, Message::Confirmed { term, round }, RecordNumber(0));
        }
    }

    pub(crate) fn on_confirmed(&mut self, from: NodeId, term: Term, number: u64) {
        if let Stage::Leading(leading) = &mut self.stage
            && leading.goes_on()
            && leading.term == term
            && leading.reads.rounds == number
            && let Some(round) = &mut leading.reads.round
            && !round.confirmed.contains(&from)
        {
            round.confirmed.push(from);
        }
    }

    pub(crate) fn settle_reads(&mut self) {
        loop {
            let Stage::Leading(leading) = &mut self.stage else {
                return;
            };
            let reads = &leading.reads;
            if reads.arrived.is_empty() && reads.round.is_none() && reads.confirmed.is_empty() {
                return;
            }
            // The own voice: no promise above the term, but of the own term that is to take over, in
            // which nothing is proposed yet.
            let casts = leading.casts();
            if !leading.goes_on() || self.acceptor.promised().0 != leading.term && !casts {
                return;
            }
            let node = self.config.node;
            let reads = &mut leading.reads;
            let anyhow = mutation::is(Mutation::ReadWithoutRound);
            let configuration = &self.state.configuration;
            let is_confirmed = |round: &mut Round| {
                configuration.is_quorum(|member| {
                    member == node || round.confirmed.contains(&member) || anyhow
                })
            };
            if let Some(round) = reads.round.take_if(is_confirmed) {
                reads.confirmed.join(round.covers);
            }
            let early = mutation::is(Mutation::ReadNotWaitingForPhase1);
            if leading.reported_end <= self.state.next || early {
                let term = leading.term;
                let served = core::mem::take(&mut leading.reads.confirmed);
                if let Some(id) = served.read {
                    self.put(Output::ReadReady(id));
                }
                for (to, number) in served.asks {
                    self.answer_barrier(to, term, number);
                }
            }
            if !self.start_round() {
                return;
            }
        }
    }

    /// Begins a round. Returns whether one was begun.
    fn start_round(&mut self) -> bool {
        let retry = self.config.timing.retry;
        let Stage::Leading(leading) = &mut self.stage else {
            return false;
        };
        if leading.reads.round.is_some() {
            return false;
        }
        if leading.reads.arrived.is_empty() {
            return false;
        }
        let covers = core::mem::take(&mut leading.reads.arrived);
        leading.reads.rounds += 1;
        leading.reads.round = Some(Round {
            covers,
            confirmed: Vec::new(),
            retry_at: self.now + retry,
        });
        let message = Message::Confirm {
            term: leading.term,
            round: leading.reads.rounds,
        };
        self.send_to_members(&message);
        true
    }

    pub(crate) fn on_reads_timer(&mut self) {
        let now = self.now;
        let retry = self.config.timing.retry;
        let Stage::Leading(leading) = &mut self.stage else {
            return;
        };
        let term = leading.term;
        let number = leading.reads.rounds;
        let Some(round) = &mut leading.reads.round else {
            return;
        };
        if round.retry_at > now {
            return;
        }
        round.retry_at = now + retry;
        let message = Message::Confirm {
            term,
            round: number,
        };
        self.send_to_members(&message);
    }
}
