//! Health: what is wrong, or nearly; the warnings, and the state that they come to.
//!
//! ```text
//!  causes ── what is so now ──▶ board ── held 10 s ──▶ heartbeats ──▶ the others' boards
//!                                 │  what the others say, and what follows from all of it:
//!                                 │  who is heard by nobody, which pair cannot talk
//!                                 └──▶ status, /healthz, metrics
//! ```
//!
//! Judged four times a second, by the clock of the kernel boundary. Nothing here decides what a node
//! does; it is for people, and for machines that wake people. Every code has a section in
//! docs/operations.md.
//!
//! A warning travels as numbers: its reader makes the sentence, with the names that it knows.

mod board;
mod causes;
mod shown;

use formats::LogId;
use paxos::NodeId;
use serde::Serialize;

pub(crate) use board::Board;
pub(crate) use causes::Judged;
pub(crate) use shown::{Health, View};

/// The kind of a warning. The numbers are on the wire: none is ever used for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Code {
    /// Some node stands for election, or did.
    Election = 1,
    NoLeader = 2,
    LeaderFlapping = 3,
    /// The node that says so does not hear it. The warning that is shown follows from the words of all.
    NodeUnreachable = 4,
    PairCannotTalk = 5,
    NodeRefused = 6,
    DiskSlow = 7,
    DiskStalled = 8,
    DiskFull = 9,
    ReplicaStopped = 10,
    BytesNotEverywhere = 11,
    QuorumAtRisk = 12,
    FewCopies = 13,
    ZoneAtRisk = 14,
    ReplicaSlow = 15,
    ProcessPaused = 16,
    VersionHeldBack = 17,
    ChangeHeldUp = 18,
    HostsDown = 19,
    NotJoined = 20,
    Removed = 21,
    ConnectionsCrowded = 22,
    /// Pieces are sound on all replicas, and not the same.
    ReplicasDiffer = 23,
    /// Bytes are chosen and not trimmed, and no member holds them.
    BytesLost = 24,
    /// The directory has agreed on a wish, and the log has not chosen it.
    NotInForce = 25,
    /// A replica of a state machine found bytes in its log that it cannot apply.
    CommandsHalted = 26,
    /// The state of a machine's log goes no further on a node.
    StateHalted = 27,
    /// Replicas of a machine applied the same, and hold other rows.
    StatesDiffer = 28,
    /// The log of a machine was trimmed, and nobody who is heard has the state that stands for it.
    StateLost = 29,
    /// A node leads the log of a machine, and its program has none for it.
    MachineMissing = 30,
    /// Fewer voters hold all of a log than it wants copies: it takes no appends.
    TooFewCopies = 31,
    /// A restore of a machine's state was begun, and goes no further.
    RestoreStopped = 32,
    /// Nodes are taken by certificates alone, and those of some are not bound to their ids.
    NamesNotBound = 33,
    CertificateExpires = 34,
    CertificateExpired = 35,
    /// Plain text is taken beside TLS, and somebody spoke it a while ago.
    PlainConnections = 36,
    /// Other machines reach a node without TLS, without tokens, or without both.
    Insecure = 37,
    /// Other machines reach a node in plain text, which its operator says was encrypted on the way.
    PlainIsPrivate = 38,
}

impl Code {
    pub const ALL: [Code; 38] = [
        Code::Election,
        Code::NoLeader,
        Code::LeaderFlapping,
        Code::NodeUnreachable,
        Code::PairCannotTalk,
        Code::NodeRefused,
        Code::DiskSlow,
        Code::DiskStalled,
        Code::DiskFull,
        Code::ReplicaStopped,
        Code::BytesNotEverywhere,
        Code::QuorumAtRisk,
        Code::FewCopies,
        Code::ZoneAtRisk,
        Code::ReplicaSlow,
        Code::ProcessPaused,
        Code::VersionHeldBack,
        Code::ChangeHeldUp,
        Code::HostsDown,
        Code::NotJoined,
        Code::Removed,
        Code::ConnectionsCrowded,
        Code::ReplicasDiffer,
        Code::BytesLost,
        Code::NotInForce,
        Code::CommandsHalted,
        Code::StateHalted,
        Code::StatesDiffer,
        Code::StateLost,
        Code::MachineMissing,
        Code::TooFewCopies,
        Code::RestoreStopped,
        Code::NamesNotBound,
        Code::CertificateExpires,
        Code::CertificateExpired,
        Code::PlainConnections,
        Code::Insecure,
        Code::PlainIsPrivate,
    ];

    /// The code of a number. A newer node may have one that is not known here: it is passed over.
    pub fn from_number(number: u8) -> Option<Code> {
        Code::ALL.into_iter().find(|code| *code as u8 == number)
    }

    /// The name of the code. It is never changed: people's alarms name it.
    pub fn name(self) -> &'static str {
        match self {
            Code::Election => "election",
            Code::NoLeader => "no-leader",
            Code::LeaderFlapping => "leader-flapping",
            Code::NodeUnreachable => "node-unreachable",
            Code::PairCannotTalk => "pair-cannot-talk",
            Code::NodeRefused => "node-refused",
            Code::DiskSlow => "disk-slow",
            Code::DiskStalled => "disk-stalled",
            Code::DiskFull => "disk-full",
            Code::ReplicaStopped => "replica-stopped",
            Code::BytesNotEverywhere => "bytes-not-everywhere",
            Code::QuorumAtRisk => "quorum-at-risk",
            Code::FewCopies => "few-copies",
            Code::ZoneAtRisk => "zone-at-risk",
            Code::ReplicaSlow => "replica-slow",
            Code::ProcessPaused => "process-paused",
            Code::VersionHeldBack => "version-held-back",
            Code::ChangeHeldUp => "change-held-up",
            Code::HostsDown => "hosts-down",
            Code::NotJoined => "not-joined",
            Code::Removed => "removed",
            Code::ConnectionsCrowded => "connections-crowded",
            Code::ReplicasDiffer => "replicas-differ",
            Code::BytesLost => "bytes-lost",
            Code::NotInForce => "not-in-force",
            Code::CommandsHalted => "commands-halted",
            Code::StateHalted => "state-halted",
            Code::StatesDiffer => "states-differ",
            Code::StateLost => "state-lost",
            Code::MachineMissing => "machine-missing",
            Code::TooFewCopies => "too-few-copies",
            Code::RestoreStopped => "restore-stopped",
            Code::NamesNotBound => "names-not-bound",
            Code::CertificateExpires => "certificate-expires",
            Code::CertificateExpired => "certificate-expired",
            Code::PlainConnections => "plain-connections",
            Code::Insecure => "insecure",
            Code::PlainIsPrivate => "plain-is-private",
        }
    }
}

/// One thing that is wrong.
///
/// Units: `amount` is bytes, microseconds or a count, as the code has it; 0 where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    pub code: Code,
    /// The node that it is about; 0 for none in particular.
    pub about: NodeId,
    /// The other one of a pair; 0 for none.
    pub with: NodeId,
    /// The first log that it concerns, if any.
    pub log: LogId,
    /// The number of logs that it concerns.
    pub logs: u32,
    pub amount: u64,
}

impl Warning {
    pub fn new(code: Code) -> Warning {
        Warning {
            code,
            about: NodeId(0),
            with: NodeId(0),
            log: LogId(0),
            logs: 0,
            amount: 0,
        }
    }

    pub fn about(self, about: NodeId) -> Warning {
        Warning { about, ..self }
    }

    pub fn with(self, with: NodeId) -> Warning {
        Warning { with, ..self }
    }

    /// The warning, concerning this log too. Logs are given in their order.
    pub fn of(self, log: LogId) -> Warning {
        Warning {
            log: if self.logs == 0 { log } else { self.log },
            logs: self.logs + 1,
            ..self
        }
    }

    pub fn amount(self, amount: u64) -> Warning {
        Warning { amount, ..self }
    }

    /// The state by this warning when its cause is gone, and it is held a while.
    fn state_after(&self) -> State {
        match self.code {
            // To have joined is no risk.
            Code::Election | Code::NotJoined => State::Healthy,
            _ if self.is_of_doors() => State::Healthy,
            _ => State::AtRisk,
        }
    }

    /// Whether it says who may come in, and not what is served: the sum of all is as it is without.
    fn is_of_doors(&self) -> bool {
        matches!(
            self.code,
            Code::NamesNotBound
                | Code::CertificateExpires
                | Code::PlainConnections
                | Code::Insecure
                | Code::PlainIsPrivate
        )
    }

    fn key(&self) -> Key {
        (self.code, self.about, self.with)
    }

    /// The state of the cluster by this warning, if it is so now. `own`: this node says it itself.
    fn state(&self, own: bool) -> State {
        match self.code {
            // New logs and planned moves have them, too. One that does not settle is `no-leader` after a second, and
            // one after the other `leader-flapping`.
            Code::Election => State::Healthy,
            _ if self.is_of_doors() => State::Healthy,
            Code::NoLeader | Code::NotJoined | Code::Removed if own => State::Unavailable,
            Code::HostsDown | Code::StateLost | Code::MachineMissing | Code::RestoreStopped => {
                State::Unavailable
            }
            // It leads some of them.
            Code::StateHalted if self.amount > 0 => State::Unavailable,
            // Appends to the logs that it concerns are refused, and a majority that serves reads is there.
            Code::TooFewCopies => State::Degraded,
            Code::DiskFull if self.logs > 0 => State::Degraded,
            _ => State::AtRisk,
        }
    }
}

/// There is one warning for each at a time, from each node.
type Key = (Code, NodeId, NodeId);

/// The sum of all warnings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing is wrong.
    #[default]
    Healthy,
    /// All is served, and something is wrong or was a moment ago: less than planned may go wrong now.
    AtRisk,
    /// Appends to a log are refused, by a leader that could take them: its disks are full, or it wants more copies than
    /// there are. What is there is read, and all other logs are served.
    Degraded,
    /// Something is not served at all: a log has no leader, or its machine does not run.
    Unavailable,
}
