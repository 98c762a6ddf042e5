//! The answers of servers that cannot help, and their meaning.

use std::fmt;
use std::io;
use std::time::Duration;

use wire::{Code, Refusal};

/// The times to wait, each for one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// One attempt to connect to one address.
    pub connect: Duration,
    /// A node that owes an answer and says nothing for this long is left for another. It is left sooner if
    /// another node says that a new leader was elected: nodes are asked from 0.4 s on (for readers that
    /// follow, which are owed a sign of life each second, from 1.5 s on).
    pub silence: Duration,
    /// An operation that makes no progress for this long fails. For an appender, progress is an
    /// acknowledgement, and only time in which bytes wait for one counts.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            silence: Duration::from_secs(3),
            total: Duration::from_secs(10),
        }
    }
}

/// The answer of one server when nobody could help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing listens there.
    Refused,
    /// It took the connection, or not even that, and did not answer in time.
    Silent,
    /// It took the question, and did not answer in time: what was asked may be done yet.
    Unanswered,
    /// It ended the connection without an answer.
    Lost,
    /// It could not be reached, for this reason of the operating system's.
    Unreachable(String),
    NotLeader {
        leader: Option<String>,
    },
    NoQuorum,
    ShuttingDown,
    /// It has too many connections.
    Overloaded,
    /// It does not hold the bytes asked for.
    NotHere,
    /// Another writer is active, which may be our own connection of before.
    Busy,
    /// It is of another cluster than this client knows, with this id.
    OtherCluster(String),
    /// The server's words are not the protocol. Something else may listen there.
    Garbled(String),
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refuses connections"),
            Self::Silent => f.write_str("is silent"),
            Self::Unanswered => f.write_str("was asked and has not answered yet"),
            Self::Lost => f.write_str("ended the connection"),
            Self::Unreachable(reason) => write!(f, "cannot be reached ({reason})"),
            Self::NotLeader {
                leader: Some(leader),
            } => write!(f, "says {leader} leads"),
            Self::NotLeader { leader: None } => f.write_str("knows no leader"),
            Self::NoQuorum => f.write_str("has no quorum"),
            Self::ShuttingDown => f.write_str("is shutting down, or its replica stopped"),
            Self::Overloaded => f.write_str("has too many connections"),
            Self::NotHere => f.write_str("does not hold these bytes"),
            Self::Busy => f.write_str("has another writer"),
            Self::OtherCluster(cluster) => write!(f, "is of another cluster, {cluster}"),
            Self::Garbled(what) => write!(f, "does not speak Logberg's protocol ({what})"),
        }
    }
}

impl From<&io::Error> for Said {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::ConnectionRefused => Self::Refused,
            Kind::TimedOut | Kind::WouldBlock => Self::Silent,
            Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::NotConnected
            | Kind::UnexpectedEof => Self::Lost,
            _ => Self::Unreachable(error.to_string()),
        }
    }
}

/// No server that was asked could help in time. Names every server and what it said last.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unreachable {
    /// The log whose leader was looked for, if it was one log's.
    pub of: Option<String>,
    pub after: Duration,
    pub tried: Vec<(String, Said)>,
}

impl Unreachable {
    /// Whether somebody answered and only the majority was missing.
    pub fn no_quorum(&self) -> bool {
        self.tried.iter().any(|(_, said)| {
            matches!(
                said,
                Said::NoQuorum | Said::NotLeader { .. } | Said::ShuttingDown
            )
        })
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.after.as_secs_f64();
        let missing = self.tried.iter().any(|(_, said)| *said == Said::NotHere);
        let is_other = |said: &Said| matches!(said, Said::OtherCluster(_));
        let other = self.tried.iter().any(|(_, said)| is_other(said));
        let unanswered = self.tried.iter().any(|(_, said)| *said == Said::Unanswered);
        let (what, helps) = match (self.no_quorum(), missing) {
            _ if other => (
                "no server of the cluster answered",
                "if that one is lost, or became another by a rescue, begin anew with the other",
            ),
            _ if unanswered => (
                "there is no answer",
                "what was asked may be done, or be done yet: ask again, and wait longer",
            ),
            (true, _) => (
                "no leader answered",
                "more than half of the nodes must run and reach each other",
            ),
            (false, true) => (
                "no server had these bytes",
                "`logberg status` says where they are missing, and what helps",
            ),
            (false, false) => (
                "no server answered",
                "are the nodes running, and are these their addresses?",
            ),
        };
        let of = self.of.as_ref();
        let of = of.filter(|_| self.no_quorum() && !other && !unanswered);
        match of {
            Some(of) => write!(f, "no leader of {of} answered within {seconds:.1} s: ")?,
            None => write!(f, "{what} within {seconds:.1} s: ")?,
        }
        for (index, (server, said)) in self.tried.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{server} {said}")?;
        }
        write!(f, "; {helps}")
    }
}

/// The meaning of a refusal to a search: go on elsewhere or later, or not at all.
pub(crate) fn elsewhere(refusal: &Refusal) -> Option<Said> {
    match refusal.code {
        Code::NotLeader => Some(Said::NotLeader {
            leader: refusal.value("leader"),
        }),
        Code::NoQuorum => Some(Said::NoQuorum),
        Code::ShuttingDown => Some(Said::ShuttingDown),
        Code::Overloaded => Some(Said::Overloaded),
        Code::NotHere => Some(Said::NotHere),
        // It had the connection, and not what was asked.
        Code::TooLate => Some(Said::Silent),
        Code::WrongCluster => {
            let cluster = refusal.value("cluster").unwrap_or_default();
            Some(Said::OtherCluster(cluster))
        }
        _ => None,
    }
}
