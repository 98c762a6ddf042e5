//! Linearizable reads of a follower, which asks its leader for a barrier.
//!
//! ```text
//!   arrived ──► asked ──── AskBarrier ───► the leader: a round of confirmations
//!               answered ◄─ Barrier, slot ─┘
//!   ReadReady, once every slot below `slot` is applied here
//! ```
//!
//! All reads that wait here share one question, and one question is under way at a time: a read that comes
//! later waits for the next. A question costs one message to the leader and its answer, and no slot. The
//! answer says, as a status does, what is chosen, so mostly nothing more has to arrive.
//!
//! ‡ Only the answer to the question under way counts: by the leader that is followed, in its term, with the
//! number of the question. An answer to an earlier question was perhaps reckoned before the reads arrived
//! that wait now.

use crate::engine::Engine;
use crate::leadership::{Following, Stage};
use crate::mutation::{self, Mutation};
use crate::safety::SLOT_MAX;
use crate::{AskNumber, Ignored, Message, NodeId, Output, ReadId, RecordNumber, Slot, Term, Time};

#[derive(Clone, Debug, Default)]
pub(crate) struct Asking {
    /// The last read that no question covers yet.
    arrived: Option<ReadId>,
    asked: Option<Asked>,
    /// The last read covered by the last answer, and the slot of that answer.
    answered: Option<(ReadId, Slot)>,
}

#[derive(Clone, Debug)]
struct Asked {
    covers: ReadId,
    number: AskNumber,
    retry_at: Time,
}

impl Asking {
    pub(crate) fn on_read(&mut self, id: ReadId) {
        self.arrived = self.arrived.max(Some(id));
    }

    /// Fails all reads. Returns whether there were any.
    pub(crate) fn fail(&mut self) -> bool {
        let before = core::mem::take(self);
        before.arrived.is_some() || before.asked.is_some() || before.answered.is_some()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.asked.as_ref().map(|asked| asked.retry_at)
    }
}

impl Engine {
    fn following(&mut self) -> Option<&mut Following> {
        match &mut self.stage {
            Stage::Following(following) => Some(following),
            _ => None,
        }
    }

    /// Serves the reads that have been answered, and asks for those that came since.
    pub(crate) fn settle_asking(&mut self) {
        let next = self.state.next;
        let anyhow = mutation::is(Mutation::BarrierNotReached);
        let Some(following) = self.following() else {
            return;
        };
        let asking = &mut following.asking;
        if let Some((id, _)) = asking.answered.take_if(|(_, slot)| *slot <= next || anyhow) {
            self.put(Output::ReadReady(id));
        }
        self.ask_for_arrived();
    }

    /// Asks for the reads that came, unless a slot is answered and not reached: reads that come all the time
    /// would put it off for ever.
    fn ask_for_arrived(&mut self) {
        let number = AskNumber {
            incarnation: self.config.incarnation,
            count: self.asked + 1,
        };
        let retry_at = self.now;
        let Some(following) = self.following() else {
            return;
        };
        let asking = &mut following.asking;
        if asking.asked.is_some() || asking.answered.is_some() {
            return;
        }
        let Some(covers) = asking.arrived.take() else {
            return;
        };
        asking.asked = Some(Asked {
            covers,
            number,
            retry_at,
        });
        self.asked = number.count;
        self.on_asking_timer();
    }

    /// Asks again in a new term, since the leader answers in its own term only.
    pub(crate) fn ask_in_new_term(&mut self) {
        let now = self.now;
        let following = self.following();
        if let Some(asked) = following.and_then(|following| following.asking.asked.as_mut()) {
            asked.retry_at = now;
        }
        self.on_asking_timer();
    }

    pub(crate) fn on_asking_timer(&mut self) {
        let now = self.now;
        let again = self.now + self.config.timing.retry;
        let Some(following) = self.following() else {
            return;
        };
        let (leader, term) = (following.leader, following.term);
        let asked = following.asking.asked.as_mut();
        if let Some(asked) = asked.filter(|asked| asked.retry_at <= now) {
            asked.retry_at = again;
            let number = asked.number;
            self.send(
                leader,
                Message::AskBarrier { term, number },
                RecordNumber(0),
            );
        }
    }

    /// Takes the leader's answer. The slots that it says are chosen are so, whatever else this replica heard.
    pub(crate) fn on_barrier(&mut self, from: NodeId, term: Term, number: AskNumber, slot: Slot) {
        if slot.0 > SLOT_MAX {
            self.ignore(from, Ignored::Malformed);
            return;
        }
        let any = mutation::is(Mutation::BarrierOfAnotherQuestion);
        let Some(following) = self.following() else {
            self.ignore(from, Ignored::Stale);
            return;
        };
        let is_leaders = following.leader == from && following.term == term;
        let asked = &mut following.asking.asked;
        let Some(asked) = asked.take_if(|a| is_leaders && a.number == number || any) else {
            self.ignore(from, Ignored::Stale);
            return;
        };
        following.asking.answered = Some((asked.covers, slot));
        self.heard_first_unchosen(from, slot);
        self.catch_up.on_told(term, slot);
        self.learn();
        // An auxiliary at rest is sent no proposals, and proposals of an era that is not known are not taken.
        if self.state.next < slot && (self.is_auxiliary() || term.era > self.state.era) {
            self.catch_up_from(from);
        }
    }
}
