//! The messages of one engine to another about one log.
//!
//! Messages may be lost, repeated and reordered. None carries a byte of client data: a content
//! proposal's bytes travel beside it (the node's business).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::{AcceptedTerm, Digest, Era, LogState, PromisedTerm, Slot, SlotRange, Term, Value};

/// A message from one engine to another, about one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A candidate asks whether it should stand.
    SeekVotes {
        /// The candidate's first slot that it does not know to be chosen.
        first_unchosen: Slot,
        /// The candidate's promise.
        promised: PromisedTerm,
        /// Whether the candidate lacks bytes that are chosen.
        missing_bytes: bool,
    },
    /// "I have no leader; my promise is this."
    OfferVote {
        /// The promise of the one who answers.
        promised: PromisedTerm,
        /// Whether it lacks bytes that are chosen.
        missing_bytes: bool,
    },
    /// "You are behind": the candidate asks for state instead.
    OfferCatchUp {
        /// The first slot that the one who answers does not know to be chosen.
        first_unchosen: Slot,
    },
    /// Asks for the sum of what is chosen.
    RequestState {
        /// The first slot that is not known to be chosen here.
        first_unchosen: Slot,
        /// The number of streams that are known here, also of those that were trimmed.
        streams_known: u64,
    },
    /// The answer: the sum of what is chosen.
    State(Arc<LogState>),
    /// Phase 1: asks for a promise to accept nothing older.
    Prepare {
        /// The term that is prepared.
        term: Term,
    },
    /// The answer to a prepare.
    Promise(Promise),
    /// The answer to a prepare or a proposal below the promise.
    Refuse {
        /// The term of the prepare or proposal.
        refused: Term,
        /// The promise that is above it.
        promised: PromisedTerm,
    },
    /// The proposal of one batch. `chosen_up_to` is as far as the leader knows.
    Propose(Proposal),
    /// The acceptance of one batch, durable, with the bytes' checksum as computed by the acceptor.
    Accepted {
        /// The term in which it is accepted.
        term: Term,
        /// The batch's slots.
        slots: SlotRange,
        /// The checksum of its bytes.
        digest: Digest,
    },
    /// The leader's word per log, carried by the pair's heartbeat until the follower is level.
    LeaderStatus {
        /// The leader's term.
        term: Term,
        /// The slot behind the last that it proposed.
        proposed_up_to: Slot,
        /// The first slot that it does not know to be chosen.
        chosen_up_to: Slot,
        /// The earlier term that the term took over from: its acceptances choose the slots it finishes.
        finishing: Option<Finishing>,
    },
    /// The answer, carried likewise. All slots from `first_unchosen` to `accepted_up_to` are durably accepted
    /// in `accepted_term`.
    FollowerStatus {
        /// The follower's promise.
        promised: PromisedTerm,
        /// The term of its acceptances.
        accepted_term: AcceptedTerm,
        /// The slot behind the last of them, without a hole.
        accepted_up_to: Slot,
        /// The first slot that it does not know to be chosen.
        first_unchosen: Slot,
        /// The number of chosen bytes that it does not hold.
        missing_bytes: u64,
    },
    /// Read barrier: "is no promise of yours above my term?"
    Confirm {
        /// The leader's term.
        term: Term,
        /// Counts the leader's rounds.
        round: u64,
    },
    /// The answer: none is.
    Confirmed {
        /// The term that was asked about.
        term: Term,
        /// The round that was asked about.
        round: u64,
    },
    /// A follower that has readers asks its leader for the end of the slots chosen when this question
    /// arrived. `term` is the one it follows.
    AskBarrier {
        /// The term of the leader that is asked.
        term: Term,
        /// Tells the question from all others.
        number: AskNumber,
    },
    /// The answer, after a round of confirmations begun behind the question: all slots below `slot`
    /// are chosen, and nothing chosen before the question arrived stands above.
    Barrier {
        /// The leader's term.
        term: Term,
        /// The question that it answers.
        number: AskNumber,
        /// The first slot that need not be seen by the reads behind the question.
        slot: Slot,
    },
    /// ‡ To an auxiliary: every active member of `era` durably holds all untrimmed bytes below.
    Release {
        /// The era whose members hold them.
        era: Era,
        /// The first slot whose bytes are kept.
        below: Slot,
    },
    /// The answer: the bytes held below are dropped, as far as the auxiliary knew the slots chosen.
    Released {
        /// The era that was told.
        era: Era,
        /// The first slot whose bytes are kept.
        below: Slot,
    },
}

/// A follower's question for a barrier. No two of one node are equal, also not of two of its starts,
/// so that no answer is taken for one to a later question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskNumber {
    /// The number of the node's start.
    pub incarnation: u32,
    /// Counts the questions of that start.
    pub count: u64,
}

/// Slots below `below` are finished in this earlier term of the same owner: by a casting vote the
/// later term begins in the slots behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finishing {
    /// The earlier term.
    pub term: Term,
    /// The first slot that is not finished in it.
    pub below: Slot,
}

/// ⟨term, from, runs⟩. A promise frees every slot at or above `from` that it does not list, and says nothing below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The term that is promised.
    pub term: Term,
    /// The acceptor's first unchosen slot.
    pub from: Slot,
    /// What it accepted at or above `from`.
    pub runs: Vec<AcceptedRun>,
}

/// Slots in a row that one replica accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedRun {
    /// The slots.
    pub slots: SlotRange,
    /// The term in which it accepted them.
    pub term: AcceptedTerm,
    /// The value of each of them.
    pub value: Value,
}

/// A value for slots in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The leader's term.
    pub term: Term,
    /// The slots.
    pub slots: SlotRange,
    /// The value of each of them.
    pub value: Value,
    /// crc32c of the content bytes; of the encoded action for actions; 0 for no-ops.
    pub digest: Digest,
    /// The first slot that the leader does not know to be chosen.
    pub chosen_up_to: Slot,
}
