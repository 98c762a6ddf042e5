//! The contract between an engine and the node around it: inputs and outputs.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    AcceptedRun, Change, Contradicted, Digest, Finishing, LogState, Message, NodeId, Outcome,
    PromisedTerm, Proposal, Slot, SlotRange, StreamName, StreamPosition, Term, Value,
};

/// Counts what the engine has asked to persist, from 1. Records become durable in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordNumber(pub u64);

/// A batch of linearizable reads, numbered by the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// The facts about a replica that never change while it runs.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The node that it runs on.
    pub node: NodeId,
    /// The number of this start of the node: above that of every earlier one. No answer to a question of an
    /// earlier start counts.
    pub incarnation: u32,
    /// For the random part of backoffs.
    pub seed: u64,
    /// W: the leader grants no slot beyond its first unchosen slot plus this.
    pub unchosen_bytes_max: u64,
    /// The times that it keeps to.
    pub timing: Timing,
    /// When it prepares while it leads.
    pub phase_one: PhaseOne,
}

/// When a leader does phase 1. Any number of them is safe: this says how often it is done, and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PhaseOne {
    /// Once, and then all slots are its own.
    #[default]
    PerTerm,
    /// A batch of bytes that is to be proposed has its own first: Paxos without a leader's privilege.
    PerBatch,
    /// The same, and it is done when the batch before is chosen, for a batch that may come.
    PerBatchAhead,
}

/// The times that an engine keeps to.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// First backoff of a candidate is random below this; it doubles with each attempt.
    pub candidate_backoff_first: Duration,
    /// No backoff is longer.
    pub candidate_backoff_max: Duration,
    /// An unanswered seek-votes, prepare, confirm, barrier or state request is repeated after this.
    pub retry: Duration,
    /// A leader without answers from a quorum for this long steps down.
    pub leader_timeout: Duration,
    /// At most one new phase 1 per this, when refusals show later terms.
    pub phase_one_interval_min: Duration,
    /// A node missing bytes waits this much longer before it stands.
    pub missing_bytes_handicap: Duration,
    /// An abdication without a sign of the successor is withdrawn after this.
    pub abdication: Duration,
    /// Auxiliaries get a leader's proposals when nothing was chosen for so long.
    pub engage_after: Duration,
    /// Auxiliaries get no proposals any more when the active members have kept up for so long.
    pub disengage_after: Duration,
    /// The pace at which an auxiliary at rest learns what is chosen, and is released.
    pub auxiliary_pace: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            candidate_backoff_first: Duration::from_millis(40),
            candidate_backoff_max: Duration::from_secs(1),
            retry: Duration::from_millis(100),
            leader_timeout: Duration::from_millis(700),
            phase_one_interval_min: Duration::from_millis(50),
            missing_bytes_handicap: Duration::from_millis(400),
            abdication: Duration::from_millis(300),
            engage_after: Duration::from_millis(100),
            disengage_after: Duration::from_secs(1),
            auxiliary_pace: Duration::from_secs(1),
        }
    }
}

/// The input of an engine.
#[derive(Clone, Debug)]
pub enum Input {
    /// A message of another replica of the same log.
    Message {
        /// The node that sent it.
        from: NodeId,
        /// The message.
        message: Message,
    },
    /// This record and all earlier ones are durable.
    Durable {
        /// The last record that is durable.
        up_to: RecordNumber,
    },
    /// The mover has given these bytes to disk and network under the open permit. It reports each
    /// write before it hands the engine anything else, so that a promise made later knows it.
    BytesWritten(BytesWritten),
    /// The node's failure detector: heartbeats arrive (again), or have stopped.
    PeerAlive(NodeId),
    /// The peer's heartbeats have stopped.
    PeerSilent(NodeId),
    /// The number of bytes of the chosen output that this node does not hold.
    MissingBytes(u64),
    /// Whether it is unknown that this peer's state stands for all that was trimmed. While it is, the peer's word that it
    /// holds all bytes counts for nothing.
    StateShort {
        /// The peer.
        node: NodeId,
        /// Whether its state may be short of what was trimmed.
        is_short: bool,
    },
    /// The bytes of the bound permit now open could not be fetched from any of their holders in
    /// time: redo phase 1 without counting `holders`.
    BytesUnavailable {
        /// The term of the bound permit.
        term: Term,
        /// Those that were asked for the bytes, in vain.
        holders: Vec<NodeId>,
    },
    /// `deadline()` has passed.
    Timer,
    /// A linearizable read arrived. A leader asks a quorum whether it still leads. A follower asks its leader
    /// ([`Engine::leader`]), which must understand [`Message::AskBarrier`]: otherwise the node fails the read
    /// instead. Every other replica answers at once with [`Output::ReadsFailed`].
    ///
    /// [`Engine::leader`]: crate::Engine::leader
    Read(ReadId),
    /// Hand over to that node, or to the most suitable one.
    Abdicate {
        /// The successor; if none is said, the engine takes the most suitable one.
        to: Option<NodeId>,
    },
    /// Stop leading without a successor (the own disk hangs).
    StepDown,
}

/// Bytes that the mover gave to disk and network under the open permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesWritten {
    /// The permit's term.
    pub term: Term,
    /// The permit's first slot not yet written.
    pub first_slot: Slot,
    /// Bytes, at least 1 and within the permit.
    pub count: u64,
    /// The stream that they belong to.
    pub stream: StreamName,
    /// The position of the first of them in that stream.
    pub position: StreamPosition,
    /// The checksum of all of them.
    pub digest: Digest,
}

/// The requests and statements of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Make durable, in the order of their numbers, and report with `Input::Durable`.
    Persist {
        /// The number by which it is reported as durable.
        record: RecordNumber,
        /// What the record says.
        what: Persist,
    },
    /// Send once everything up to `after` is durable (0: at once).
    Send {
        /// The node that it is for.
        to: NodeId,
        /// The message.
        message: Message,
        /// The record that must be durable before it is sent.
        after: RecordNumber,
    },
    /// Bring this proposal of ours (an action or no-ops; content is the mover's) to all replicas.
    /// Its own acceptance is persisted by a `Persist` of its own.
    Replicate(Proposal),
    /// The slots that may be filled changed; `None` closes the permit.
    Permit(Option<WritePermit>),
    /// An action was chosen and applied.
    Applied {
        /// The action's slot.
        slot: Slot,
        /// What it came to.
        outcome: Outcome,
    },
    /// All slots below are chosen and applied.
    Chosen {
        /// The first slot that is not known to be chosen.
        up_to: Slot,
    },
    /// This auxiliary may drop the bytes of the slots below, as [`Engine::bytes_below`] says.
    ///
    /// [`Engine::bytes_below`]: crate::Engine::bytes_below
    Release {
        /// The first slot whose bytes are kept.
        below: Slot,
    },
    /// The state was replaced by a peer's; nothing in between was applied here.
    StateInstalled,
    /// A peer's state contradicts what is known to be chosen here, or lacks some of it, though the peer knows
    /// of later slots. One of the two forgot. This replica's state stays as it is, and the node must give it
    /// nothing more.
    Contradicted {
        /// The peer.
        by: NodeId,
        /// The first statement in which the two differ.
        what: Contradicted,
    },
    /// The replica's role changed.
    Role(Role),
    /// Every read up to and including this one may be served from the state as it is now.
    ReadReady(ReadId),
    /// The reads that still wait will not be ready: this node no longer leads, or no longer follows the
    /// leader that it asked.
    ReadsFailed,
    /// For the node's log of things off the normal path.
    Note(Note),
}

/// What a record is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persist {
    /// The promise, with the state at the first unchosen slot and all acceptances above: else a power loss
    /// could leave all nodes unable to promise either era.
    /// The term below which nothing is accepted any more.
    Promise {
        /// The term below which nothing is accepted any more.
        term: PromisedTerm,
    },
    /// An acceptance over bytes that are with the node (content) or in the value (everything else).
    Accept {
        /// The term in which it is accepted.
        term: Term,
        /// The slots that it fills.
        slots: SlotRange,
        /// Their value.
        value: Value,
        /// The checksum of the content's bytes, or of the encoded action; 0 for no-ops.
        digest: Digest,
    },
    /// The state jumped to a peer's.
    State,
}

/// The slots `next..limit` may be filled in `term`. They keep their value for the term.
///
/// ```text
/// first_unchosen <= next <= limit <= first_unchosen + W
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePermit {
    /// The term in which they are filled.
    pub term: Term,
    /// The next slot to be filled.
    pub next: Slot,
    /// The slot behind the last that may be filled.
    pub limit: Slot,
    /// What may stand in them.
    pub content: PermitContent,
}

/// The content that a permit allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitContent {
    /// New bytes of any stream that this leader opened.
    Free,
    /// Exactly these bytes, which an earlier term proposed; `holders` reported them accepted.
    Bound {
        /// The stream whose bytes they are.
        stream: StreamName,
        /// The position of the first of them.
        position: StreamPosition,
        /// The nodes that can be asked for them.
        holders: Vec<NodeId>,
    },
}

/// A replica's part in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It knows no leader, and looks for one or stands itself.
    Candidate,
    /// It heeds a leader.
    Follower {
        /// The leader.
        leader: NodeId,
        /// The leader's term.
        term: Term,
    },
    /// Phase 1 is done; permits follow.
    Leader {
        /// Its own term.
        term: Term,
    },
}

/// Events off the normal path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// This replica prepares a term of its own.
    StandingForElection {
        /// The term.
        term: Term,
    },
    /// This replica leads no more.
    SteppedDown {
        /// The term that ended.
        term: Term,
        /// The reason.
        reason: StepDownReason,
    },
    /// The leader hands over to a successor, perhaps this replica: nothing is wrong with it.
    HandsOver {
        /// The leader so far.
        from: NodeId,
        /// The term of the successor.
        term: Term,
    },
    /// Phase 1 is done again, in a later term.
    PhaseOneAgain {
        /// The later term.
        term: Term,
    },
    /// A new era's term is prepared beside the one that goes on.
    CastingVote {
        /// The term of the new era.
        term: Term,
    },
    /// A peer refused what this leader prepared or proposed.
    Refused {
        /// The peer.
        by: NodeId,
        /// The term that the peer promised.
        term: Term,
    },
    /// A follower's checksum of a batch is not the leader's: it counts as no acceptance.
    DigestMismatch {
        /// The follower.
        by: NodeId,
        /// The slots of the batch.
        slots: SlotRange,
    },
    /// A message changed nothing.
    Ignored {
        /// The node that sent it.
        from: NodeId,
        /// The reason.
        reason: Ignored,
    },
}

/// The reason why a leader leads no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepDownReason {
    /// It promised a later term, or heard of one that leads.
    LaterTerm,
    /// No quorum has answered for [`Timing::leader_timeout`].
    NoQuorum,
    /// The node around it said so, or it handed over to its successor.
    Asked,
}

/// The reason why a message changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// It is of a term below the promise.
    OlderTerm,
    /// The term was prepared here after something was accepted in it.
    AlreadyAcceptedInTerm,
    /// This replica does not know yet who votes in that era.
    EraNotKnown,
    /// It speaks for a term that another node owns.
    NotOwner,
    /// The term's owner is no member in the term's era.
    NotMember,
    /// The term's number is far above all that this replica heard of: it is believed once it was heard some
    /// more times.
    TooFarAhead,
    /// A leader is heard here: nobody needs to stand.
    HasLeader,
    /// This replica may have forgotten what it accepted.
    Forgetful,
    /// It answers a question that nobody asks any more, or tells what is known.
    Stale,
    /// No honest replica says that.
    Malformed,
}

/// The findings of recovery on disk, fed record by record in file order.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The promise.
    pub promised: PromisedTerm,
    /// The part that the promise leaves open: the promise counts from `below` on. Below that its owner, which
    /// is this node, may still accept in the term that it takes over from.
    pub finishing: Option<Finishing>,
    /// The sum of the slots that are known to be chosen.
    pub state: LogState,
    /// Every acceptance at or above `state.next`.
    pub accepted: Vec<AcceptedRun>,
}

/// The reason why an action was not proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotProposed {
    /// Only a leader proposes, whose permit is free; ask this one, or again in a moment.
    NotLeading {
        /// The leader, if one is known, and its term.
        leader: Option<(NodeId, Term)>,
    },
    /// After this step no quorum would be known to hold what was chosen before this term. Ask again
    /// when more members said that they hold it: [`Engine::holds_below`].
    ///
    /// [`Engine::holds_below`]: crate::Engine::holds_below
    HeldByNoQuorum {
        /// The step that would be too early.
        change: Change,
    },
}
