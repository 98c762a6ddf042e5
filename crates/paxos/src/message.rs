//! The messages of one engine to another about one log.
//!
//! Messages may be lost, repeated and reordered. None carries a byte of client data: a content
//! proposal's bytes travel beside it (the node's business).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::{AcceptedTerm, Digest, Era, LogState, PromisedTerm, Slot, SlotRange, Term, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A candidate asks whether it should stand.
    SeekVotes {
        first_unchosen: Slot,
        promised: PromisedTerm,
        missing_bytes: bool,
    },
    /// "I have no leader; my promise is this."
    OfferVote {
        promised: PromisedTerm,
        missing_bytes: bool,
    },
    /// "You are behind": the candidate asks for state instead.
    OfferCatchUp {
        first_unchosen: Slot,
    },
    RequestState {
        first_unchosen: Slot,
        streams_known: u64,
    },
    State(Arc<LogState>),
    Prepare {
        term: Term,
    },
    Promise(Promise),
    /// The answer to a prepare or a proposal below the promise.
    Refuse {
        refused: Term,
        promised: PromisedTerm,
    },
    /// The proposal of one batch. `chosen_up_to` is as far as the leader knows.
    Propose(Proposal),
    /// The acceptance of one batch, durable, with the bytes' checksum as computed by the acceptor.
    Accepted {
        term: Term,
        slots: SlotRange,
        digest: Digest,
    },
    /// The leader's word per log, carried by the pair's heartbeat until the follower is level.
    LeaderStatus {
        term: Term,
        proposed_up_to: Slot,
        chosen_up_to: Slot,
        /// The earlier term that the term took over from: its acceptances choose the slots it finishes.
        finishing: Option<Finishing>,
    },
    /// The answer, carried likewise. All slots from `first_unchosen` to `accepted_up_to` are durably accepted
    /// in `accepted_term`.
    FollowerStatus {
        promised: PromisedTerm,
        accepted_term: AcceptedTerm,
        accepted_up_to: Slot,
        first_unchosen: Slot,
        missing_bytes: u64,
    },
    /// Read barrier: "is no promise of yours above my term?"
    Confirm {
        term: Term,
        round: u64,
    },
    Confirmed {
        term: Term,
        round: u64,
    },
    /// A follower that has readers asks its leader for the end of the slots chosen when this question
    /// arrived. `term` is the one it follows.
    AskBarrier {
        term: Term,
        number: AskNumber,
    },
    /// The answer, after a round of confirmations begun behind the question: all slots below `slot`
    /// are chosen, and nothing chosen before the question arrived stands above.
    Barrier {
        term: Term,
        number: AskNumber,
        slot: Slot,
    },
    /// ‡ To an auxiliary: every active member of `era` durably holds all untrimmed bytes below.
    Release {
        era: Era,
        below: Slot,
    },
    /// The answer: the bytes held below are dropped, as far as the auxiliary knew the slots chosen.
    Released {
        era: Era,
        below: Slot,
    },
}

/// A follower's question for a barrier. No two of one node are equal, also not of two of its starts,
/// so that no answer is taken for one to a later question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskNumber {
    /// The number of the node's start.
    pub incarnation: u32,
    pub count: u64,
}

/// Slots below `below` are finished in this earlier term of the same owner: by a casting vote the
/// later term begins in the slots behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finishing {
    pub term: Term,
    pub below: Slot,
}

/// ⟨term, from, runs⟩. A promise frees every slot at or above `from` that it does not list, and says nothing below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    pub term: Term,
    /// The acceptor's first unchosen slot.
    pub from: Slot,
    pub runs: Vec<AcceptedRun>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedRun {
    pub slots: SlotRange,
    pub term: AcceptedTerm,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub term: Term,
    pub slots: SlotRange,
    pub value: Value,
    /// crc32c of the content bytes; of the encoded action for actions; 0 for no-ops.
    pub digest: Digest,
    pub chosen_up_to: Slot,
}
