//! Finding the node that can answer: servers in turn, hints followed, a pause between rounds.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::admin::Status;
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
    /// A node that owes an answer and says nothing for this long is left for another. Sooner if
    /// another node says that a new leader was elected: nodes are asked from 0.4 s on (following
    /// readers, who are owed a sign of life each second: 1.5 s).
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
    /// What it sent is not the protocol. Something else may listen there.
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
            Self::ShuttingDown => f.write_str("is shutting down"),
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
    /// Whose leader was looked for, if it was somebody's in particular.
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
    /// Which node an address leads to. One node may have several: those it tells and those users
    /// have for it.
    ids: BTreeMap<String, u64>,
    /// The latest leader of each log that a node spoke of.
    leaders: BTreeMap<String, Leadership>,
    /// Which cluster this is, once one of its servers has said so. Those of another are not asked.
    cluster: Option<String>,
    /// Servers that said that they are of it, and whether a request may name it there.
    understands: BTreeMap<String, bool>,
    learning: bool,
    /// The list is complete, whatever is learned.
    alone: bool,
}

/// Ordered by term, in which there is one leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Leadership {
    era: u64,
    number: u64,
    node: u64,
}

impl Leadership {
    /// None also if the node has promised a later term than that of the leader it knows: a change
    /// is under way, and its term does not date the leader.
    fn of(log: &crate::admin::LogStatus) -> Option<Self> {
        let node = log.leader?;
        let mut term = log.term.split('.').map(|number| number.parse().ok());
        let (era, number, owner) = (term.next()??, term.next()??, term.next()??);
        (owner == node && term.next().is_none()).then_some(Self { era, number, node })
    }
}

impl Cluster {
    pub fn new(servers: Vec<String>, timeouts: Timeouts) -> Self {
        let mut known = Known {
            servers: Vec::new(),
            good: None,
            ids: BTreeMap::new(),
            leaders: BTreeMap::new(),
            cluster: None,
            understands: BTreeMap::new(),
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

    /// Talks to no server of another cluster.
    pub fn of(self, cluster: Option<String>) -> Self {
        self.known().cluster = cluster;
        self
    }

    /// Which one it is, once that is known.
    pub fn id(&self) -> Option<String> {
        self.known().cluster.clone()
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
    pub fn succeeded(self: &Arc<Self>, server: &str) {
        let mut known = self.known();
        known.add(server);
        let news = known.good.as_deref() != Some(server);
        known.good = Some(server.to_owned());
        drop(known);
        if news {
            self.learn_from(server);
        }
    }

    /// `server` opened a stream in `log`, whose name says that it is this node.
    pub fn leads(self: &Arc<Self>, server: &str, log: &str, node: u64) {
        let mut known = self.known();
        known.ids.insert(server.to_owned(), node);
        let leader = known.leaders.get(log).map(|leader| leader.node);
        drop(known);
        self.succeeded(server);
        // Without its term a node that missed the election could not be told from one that knows
        // of the next.
        if leader != Some(node) {
            self.learn_from(server);
        }
    }

    fn learn_from(self: &Arc<Self>, server: &str) {
        if std::mem::replace(&mut self.known().learning, true) {
            return;
        }
        let (cluster, server) = (self.clone(), server.to_owned());
        let spawned = std::thread::Builder::new()
            .name("logberg-learn".to_owned())
            .spawn(move || {
                let deadline = Instant::now() + cluster.timeouts.silence;
                if let Some(status) = cluster.ask_for_status(&server, deadline) {
                    cluster.learn(&server, &status);
                }
                cluster.known().learning = false;
            });
        if spawned.is_err() {
            self.known().learning = false;
        }
    }

    pub fn ask_for_status(&self, server: &str, deadline: Instant) -> Option<Status> {
        self.status_by(server, deadline).ok()
    }

    fn status_by(&self, server: &str, deadline: Instant) -> Result<Status, Said> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let patience = left().min(self.timeouts.connect);
        let said = |error: io::Error| Said::from(&error);
        let mut connection = Connection::dial(server, patience).map_err(said)?;
        let patience = left().max(Duration::from_millis(1));
        connection
            .ask(&Request::Status { fresh: false }, patience)
            .map_err(said)?;
        match connection.answer(deadline) {
            Ok(Answer::Ok(json)) => {
                serde_json::from_str(&json).map_err(|error| Said::Garbled(error.to_string()))
            }
            Ok(Answer::Error(refusal)) => {
                Err(elsewhere(&refusal).unwrap_or(Said::Garbled(refusal.to_string())))
            }
            Ok(other) => Err(Said::Garbled(other.to_line().trim_end().to_owned())),
            Err(no_line) => Err(Said::from(&no_line)),
        }
    }

    /// Connects to a server of our cluster. Once it is known which that is, a server has to say that it
    /// is of it before it is asked for anything, and every request says which cluster is meant, to
    /// servers that understand that: whoever listens at an address may be replaced at any time.
    ///
    /// Errors: it is of another cluster, or does not answer.
    pub fn reach(&self, server: &str) -> Result<Connection, Said> {
        let known = self.known();
        let cluster = known.cluster.clone();
        let mut understands = known.understands.get(server).copied();
        drop(known);
        if let (Some(cluster), None) = (&cluster, understands) {
            // A server that is slow with that is asked again when the others have been.
            let status = self.status_by(server, Instant::now() + self.timeouts.connect)?;
            if is_a_cluster(&status.cluster) && status.cluster != *cluster {
                return Err(Said::OtherCluster(status.cluster));
            }
            self.learn(server, &status);
            understands = Some(names_clusters(&status));
        }
        match Connection::dial(server, self.timeouts.connect) {
            Ok(connection) => Ok(match cluster.filter(|_| understands == Some(true)) {
                Some(cluster) => connection.names(cluster),
                None => connection,
            }),
            Err(error) => {
                // The next process that listens there is asked again.
                self.known().understands.remove(server);
                Err(Said::from(&error))
            }
        }
    }

    /// The server refused a request because its program is older than the one that spoke there last, and
    /// does not know that a request may name a cluster. It is asked again then, without.
    pub fn misunderstood(&self, server: &str, connection: &Connection, refusal: &Refusal) -> bool {
        if refusal.code != Code::BadRequest || !connection.names_a_cluster() {
            return false;
        }
        let status = self.ask_for_status(server, Instant::now() + self.timeouts.silence);
        let older = status.is_some_and(|status| !names_clusters(&status));
        if older {
            self.known().understands.remove(server);
        }
        older
    }

    /// Takes in what `server` says of itself and of the others.
    pub fn learn(&self, server: &str, status: &Status) {
        let mut known = self.known();
        if is_a_cluster(&status.cluster) {
            let cluster = known.cluster.get_or_insert_with(|| status.cluster.clone());
            if *cluster != status.cluster {
                return;
            }
            let understands = names_clusters(status);
            known.understands.insert(server.to_owned(), understands);
        }
        for node in &status.nodes {
            known.add(&node.address);
            if !node.address.is_empty() {
                known.ids.insert(node.address.clone(), node.id);
            }
        }
        known.ids.insert(server.to_owned(), status.node);
        for log in &status.logs {
            let Some(leader) = Leadership::of(log) else {
                continue;
            };
            let latest = known.leaders.entry(log.name.clone()).or_insert(leader);
            *latest = leader.max(*latest);
        }
    }

    /// The address of the node that leads `log`, if this status knows it and is not behind what
    /// others said before.
    pub fn leader_by(&self, status: &Status, log: &str) -> Option<String> {
        let log = status.logs.iter().find(|known| known.name == log)?;
        let leader = Leadership::of(log)?;
        let known = self.known();
        let is_latest = known.leaders.get(&log.name) <= Some(&leader);
        let node = status.nodes.iter().find(|node| node.id == leader.node)?;
        (is_latest && !node.address.is_empty()).then(|| node.address.clone())
    }

    pub fn knows_node_of(&self, server: &str) -> bool {
        self.known().ids.contains_key(server)
    }

    /// Whether these addresses lead to one node, as far as is known.
    pub fn is_same_node(&self, server: &str, other: &str) -> bool {
        let known = self.known();
        match (known.ids.get(server), known.ids.get(other)) {
            (Some(one), Some(another)) => one == another,
            _ => server == other,
        }
    }

    /// Ask this server first from now on.
    pub fn prefer(&self, server: &str) {
        let mut known = self.known();
        known.add(server);
        known.good = Some(server.to_owned());
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

/// A node that has not joined one yet says zeros.
fn is_a_cluster(id: &str) -> bool {
    id.bytes().any(|digit| !matches!(digit, b'0' | b'-'))
}

fn names_clusters(status: &Status) -> bool {
    status.understands.iter().any(|key| key == "cluster")
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

    /// What it is for was waited for before.
    pub fn since(mut self, started: Instant) -> Self {
        self.started = started;
        self
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
            last.is_some_and(|(_, said)| matches!(said, Said::Silent | Said::Unanswered))
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
            of: None,
            after: self.started.elapsed(),
            tried: self.tried.clone(),
        }
    }
}

/// What a refusal means to a search: go on elsewhere or later, or not at all.
pub(crate) fn elsewhere(refusal: &Refusal) -> Option<Said> {
    match refusal.code {
        Code::NotLeader => Some(Said::NotLeader {
            leader: refusal.value("leader"),
        }),
        Code::NoQuorum => Some(Said::NoQuorum),
        Code::ShuttingDown => Some(Said::ShuttingDown),
        Code::Overloaded => Some(Said::Overloaded),
        Code::NotHere => Some(Said::NotHere),
        Code::WrongCluster => {
            let cluster = refusal.value("cluster").unwrap_or_default();
            Some(Said::OtherCluster(cluster))
        }
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
