//! Finding the node that can answer: servers in turn, hints followed, a pause between rounds.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::answer::{Answer, Code, Refusal};
use crate::connection::{Connection, NoLine};
use crate::request::Request;

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// How many hints of "ask there" are followed at once; two nodes that point at each other during
/// an election must not be asked in a tight loop.
const HINTS_MAX: u32 = 2;

/// How long to wait, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// One attempt to connect to one address.
    pub connect: Duration,
    /// A node that owes an answer and says nothing for this long is left for another.
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

/// What one server answered when nobody could help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing listens there.
    Refused,
    /// It took the connection, or not even that, and did not answer in time.
    Silent,
    /// It ended the connection without an answer.
    Lost,
    /// It could not be reached, for this reason of the operating system's.
    Unreachable(String),
    NotLeader {
        leader: Option<String>,
    },
    NoQuorum,
    ShuttingDown,
    /// It does not hold the bytes asked for.
    NotHere,
    /// Another writer is active, which may be our own connection of before.
    Busy,
    /// What it sent is not the protocol. Something else may listen there.
    Garbled(String),
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refuses connections"),
            Self::Silent => f.write_str("is silent"),
            Self::Lost => f.write_str("ended the connection"),
            Self::Unreachable(reason) => write!(f, "cannot be reached ({reason})"),
            Self::NotLeader {
                leader: Some(leader),
            } => write!(f, "says {leader} leads"),
            Self::NotLeader { leader: None } => f.write_str("knows no leader"),
            Self::NoQuorum => f.write_str("has no quorum"),
            Self::ShuttingDown => f.write_str("is shutting down"),
            Self::NotHere => f.write_str("does not hold these bytes"),
            Self::Busy => f.write_str("has another writer"),
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

impl From<&NoLine> for Said {
    fn from(no_line: &NoLine) -> Self {
        match no_line {
            NoLine::Silent => Self::Silent,
            NoLine::Lost(error) => error.into(),
            NoLine::Garbled(error) => Self::Garbled(error.to_string()),
        }
    }
}

/// Nobody who was asked could help in time. Names every server and what it said last.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unreachable {
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
        match self.no_quorum() {
            true => write!(f, "no leader answered within {seconds:.1} s: ")?,
            false => write!(f, "no server answered within {seconds:.1} s: ")?,
        }
        for (index, (server, said)) in self.tried.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{server} {said}")?;
        }
        match self.no_quorum() {
            true => f.write_str("; more than half of the nodes must run and reach each other"),
            false => f.write_str("; are the nodes running, and are these their addresses?"),
        }
    }
}

/// What is known of a cluster's addresses. Shared by all that one client opens.
#[derive(Debug)]
pub(crate) struct Cluster {
    known: Mutex<Known>,
    pub timeouts: Timeouts,
}

#[derive(Debug)]
struct Known {
    /// Those the client was given, then those it learned, each once.
    servers: Vec<String>,
    /// Who answered last; it is asked first.
    good: Option<String>,
    learning: bool,
    /// The list is complete, whatever is learned.
    alone: bool,
}

impl Cluster {
    pub fn new(servers: Vec<String>, timeouts: Timeouts) -> Self {
        let mut known = Known {
            servers: Vec::new(),
            good: None,
            learning: false,
            alone: false,
        };
        for server in servers {
            known.add(&server);
        }
        Self {
            known: Mutex::new(known),
            timeouts,
        }
    }

    /// Never asks anyone but the servers it was given.
    pub fn alone(self) -> Self {
        self.known().alone = true;
        self
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Whoever panicked with the lock left a list of addresses, which is still one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn servers(&self) -> Vec<String> {
        self.known().servers.clone()
    }

    pub fn add(&self, server: &str) {
        self.known().add(server);
    }

    /// `server` did what was asked: remember it, and learn from it who else there is, in the
    /// background, so that its death later is no problem even if it is the only one we know.
    pub fn succeeded(self: &std::sync::Arc<Self>, server: &str) {
        let mut known = self.known();
        known.add(server);
        let news = known.good.as_deref() != Some(server);
        known.good = Some(server.to_owned());
        if !news || std::mem::replace(&mut known.learning, true) {
            return;
        }
        drop(known);
        let (cluster, server) = (self.clone(), server.to_owned());
        let spawned = std::thread::Builder::new()
            .name("logberg-learn".to_owned())
            .spawn(move || {
                if let Some(addresses) = cluster.ask_for_addresses(&server) {
                    addresses.iter().for_each(|address| cluster.add(address));
                }
                cluster.known().learning = false;
            });
        if spawned.is_err() {
            self.known().learning = false;
        }
    }

    fn ask_for_addresses(&self, server: &str) -> Option<Vec<String>> {
        let mut connection = Connection::dial(server, self.timeouts.connect).ok()?;
        let deadline = Instant::now() + self.timeouts.silence;
        connection
            .ask(&Request::Status, self.timeouts.silence)
            .ok()?;
        let Ok(Answer::Ok(json)) = connection.answer(deadline) else {
            return None;
        };
        let status: crate::admin::Status = serde_json::from_str(&json).ok()?;
        Some(status.nodes.into_iter().map(|node| node.address).collect())
    }
}

impl Known {
    fn add(&mut self, server: &str) {
        let closed = self.alone && !self.servers.is_empty();
        if !closed && !server.is_empty() && !self.servers.iter().any(|known| known == server) {
            self.servers.push(server.to_owned());
        }
    }
}

/// One search for a node that can do what is asked.
///
/// [`Search::next`] names whom to ask; whoever asked reports what was said with [`Search::said`],
/// or ends the search. The pauses between rounds happen in `next`.
pub(crate) struct Search<'a> {
    cluster: &'a Cluster,
    started: Instant,
    round: VecDeque<String>,
    tried: Vec<(String, Said)>,
    backoff: Backoff,
    hints: u32,
}

impl<'a> Search<'a> {
    pub fn new(cluster: &'a Cluster) -> Self {
        let mut search = Self {
            cluster,
            started: Instant::now(),
            round: VecDeque::new(),
            tried: Vec::new(),
            backoff: Backoff::new(),
            hints: 0,
        };
        search.begin_round();
        search
    }

    /// A search that begins with what a lost server said.
    pub fn after(cluster: &'a Cluster, lost: &str, said: Said) -> Self {
        let mut search = Self::new(cluster);
        search.said(lost, said.clone());
        search.begin_round();
        search.said(lost, said);
        search
    }

    /// Who answered last comes first; who was silent comes last, because to wait for a stopped
    /// node costs more than to ask all others.
    fn begin_round(&mut self) {
        let known = self.cluster.known();
        let good = known.good.iter();
        let others = known
            .servers
            .iter()
            .filter(|server| known.good.as_ref() != Some(server));
        let (silent, heard): (Vec<_>, Vec<_>) = good.chain(others).cloned().partition(|server| {
            let last = self.tried.iter().find(|(tried, _)| tried == server);
            last.is_some_and(|(_, said)| *said == Said::Silent)
        });
        self.round = heard.into_iter().chain(silent).collect();
        self.hints = 0;
    }

    /// Ask this server next: it said something that changes the question.
    pub fn again(&mut self, server: &str) {
        self.round.push_front(server.to_owned());
    }

    /// Whom to ask next, or why to give up: `None` before the deadline means that there is nobody.
    pub fn next(&mut self, deadline: Instant) -> Result<String, Unreachable> {
        if self.round.is_empty() {
            self.backoff.pause(deadline);
            self.begin_round();
        }
        match self.round.pop_front() {
            // Everyone is asked once, however short the time.
            Some(server) if Instant::now() < deadline || !self.has_tried(&server) => Ok(server),
            _ => Err(self.give_up()),
        }
    }

    fn has_tried(&self, server: &str) -> bool {
        self.tried.iter().any(|(tried, _)| tried == server)
    }

    pub fn said(&mut self, server: &str, said: Said) {
        if let Said::NotLeader {
            leader: Some(leader),
        } = &said
        {
            self.cluster.add(leader);
            if self.hints < HINTS_MAX && leader != server {
                self.hints += 1;
                self.round.retain(|server| server != leader);
                self.round.push_front(leader.clone());
            }
        }
        match self.tried.iter_mut().find(|(tried, _)| tried == server) {
            Some(tried) => tried.1 = said,
            None => self.tried.push((server.to_owned(), said)),
        }
    }

    pub fn give_up(&self) -> Unreachable {
        Unreachable {
            after: self.started.elapsed(),
            tried: self.tried.clone(),
        }
    }
}

/// What a refusal means to a search: go on elsewhere or later, or not at all.
pub(crate) fn elsewhere(refusal: &Refusal) -> Option<Said> {
    match refusal.code {
        Code::NotLeader => Some(Said::NotLeader {
            leader: refusal.key("leader"),
        }),
        Code::NoQuorum => Some(Said::NoQuorum),
        Code::ShuttingDown => Some(Said::ShuttingDown),
        Code::NotHere => Some(Said::NotHere),
        _ => None,
    }
}

/// A pause that grows from 20 to 250 ms until it is begun anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub fn new() -> Self {
        Self(PAUSE_MIN)
    }

    /// The first pause is none.
    pub fn graceful() -> Self {
        Self(Duration::ZERO)
    }

    pub fn pause(&mut self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        std::thread::sleep(jittered(self.0).min(left));
        self.0 = (self.0 * 2).clamp(PAUSE_MIN, PAUSE_MAX);
    }
}

/// Between half and all of `pause`, so that many clients of a lost leader do not come back as one.
/// The hasher's random keys are the standard library's own source of chance.
fn jittered(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let chance = RandomState::new().hash_one(0) as u32;
    pause / 2 + (pause / 2).mul_f64(f64::from(chance) / f64::from(u32::MAX))
}
