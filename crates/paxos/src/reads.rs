//! Linearizable reads: a round of confirmations instead of a slot.
//!
//! A read may be served from the leader's state once
//!
//! 1. every slot reported in this term's phase 1 is chosen and applied, and
//! 2. a round of confirmations, begun after the read arrived, was answered by a quorum of the first
//!    unchosen slot's era: none of them had promised a later term, so nobody chose anything that
//!    this leader does not know.
//!
//! No clock counts. Reads that arrive while a round is under way wait for the next one.

use alloc::vec::Vec;

use crate::engine::Engine;
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::{Ignored, Message, NodeId, Output, ReadId, RecordNumber, Term, Time};

#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// The last one that no round covers yet.
    arrived: Option<ReadId>,
    round: Option<Round>,
    /// The last one confirmed, waiting for rule 1.
    confirmed: Option<ReadId>,
    rounds: u64,
}

#[derive(Clone, Debug)]
struct Round {
    covers: ReadId,
    confirmed: Vec<NodeId>,
    retry_at: Time,
}

impl Reads {
    /// Whether there were any to fail.
    pub(crate) fn fail(&mut self) -> bool {
        let some = self.arrived.take().is_some();
        let some = self.round.take().is_some() || some;
        self.confirmed.take().is_some() || some
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.round.as_ref().map(|round| round.retry_at)
    }

    /// Confirmations in an earlier term say nothing on this one: all reads wait anew.
    pub(crate) fn on_new_term(&mut self) {
        let covered = self.round.take().map(|round| round.covers);
        self.arrived = self.arrived.max(covered).max(self.confirmed.take());
    }
}

impl Engine {
    pub(crate) fn on_read(&mut self, id: ReadId) {
        match &mut self.stage {
            Stage::Leading(leading) => {
                leading.reads.arrived = leading.reads.arrived.max(Some(id));
            }
            _ => self.put(Output::ReadsFailed),
        }
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
            if leading.reads.arrived.is_none()
                && leading.reads.round.is_none()
                && leading.reads.confirmed.is_none()
            {
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
            if let Some(round) = &reads.round
                && self.state.configuration.is_quorum(|member| {
                    member == node || round.confirmed.contains(&member) || anyhow
                })
            {
                reads.confirmed = reads.confirmed.max(Some(round.covers));
                reads.round = None;
            }
            let early = mutation::is(Mutation::ReadNotWaitingForPhase1);
            if (leading.reported_end <= self.state.next || early)
                && let Some(id) = leading.reads.confirmed.take()
            {
                self.put(Output::ReadReady(id));
            }
            if !self.start_round() {
                return;
            }
        }
    }

    /// Whether a round was begun.
    fn start_round(&mut self) -> bool {
        let retry = self.config.timing.retry;
        let Stage::Leading(leading) = &mut self.stage else {
            return false;
        };
        if leading.reads.round.is_some() {
            return false;
        }
        let Some(covers) = leading.reads.arrived.take() else {
            return false;
        };
        leading.reads.rounds += 1;
        leading.reads.round = Some(Round {
            covers,
            confirmed: Vec::new(),
            retry_at: Time(self.now.0.saturating_add(retry)),
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
        round.retry_at = Time(now.0.saturating_add(retry));
        let message = Message::Confirm {
            term,
            round: number,
        };
        self.send_to_members(&message);
    }
}
