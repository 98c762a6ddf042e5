//! The known addresses of a cluster: lent to every machine that talks to it.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::told::{LogStatus, Status};

/// Shared by all that one client does. A caller that runs several machines lends them the same one.
#[derive(Clone, Debug)]
pub struct Known {
    /// Those the client was given, then those it learned, each once.
    pub(crate) servers: Vec<String>,
    /// The server that answered last; it is asked first.
    pub(crate) good: Option<String>,
    /// The node to which an address leads. One node may have several: those it tells and those users know.
    ids: BTreeMap<String, u64>,
    /// The latest leader that anybody told, for each log.
    leaders: BTreeMap<String, Leadership>,
    pub(crate) cluster: Option<String>,
    /// Whether a server understands that a request names its cluster.
    pub(crate) understands: BTreeMap<String, bool>,
    /// A server that did what was asked, and was not asked yet who else there is.
    errand: Option<String>,
    /// No other servers are learned.
    alone: bool,
    chance: u64,
}

/// Ordered by term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Leadership {
    era: u64,
    number: u64,
    node: u64,
}

impl Leadership {
    fn of(log: &LogStatus) -> Option<Self> {
        let node = log.leader?;
        let mut term = log.term.split('.').map(|number| number.parse().ok());
        let (era, number, owner) = (term.next()??, term.next()??, term.next()??);
        (owner == node && term.next().is_none()).then_some(Self { era, number, node })
    }
}

impl Known {
    /// `servers`: `HOST:PORT` each, in the order in which to ask. `seed`: of the pauses between rounds,
    /// so that many clients of a lost leader do not come back as one.
    pub fn new(servers: impl IntoIterator<Item = String>, seed: u64) -> Self {
        let mut known = Self {
            servers: Vec::new(),
            good: None,
            ids: BTreeMap::new(),
            leaders: BTreeMap::new(),
            cluster: None,
            understands: BTreeMap::new(),
            errand: None,
            alone: false,
            chance: seed,
        };
        for server in servers {
            known.add(&server);
        }
        known
    }

    /// Talks to no server of another cluster.
    pub fn of(mut self, cluster: Option<String>) -> Self {
        self.cluster = cluster;
        self
    }

    /// Never asks anyone but the servers it was given.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// The id of the cluster, once that is known.
    pub fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// A server to be asked who else there is, by a [`crate::Learner`], so that its death later is no problem
    /// even if it is the only one known. A caller that leaves this out knows less.
    pub fn take_errand(&mut self) -> Option<String> {
        self.errand.take()
    }

    pub(crate) fn add(&mut self, server: &str) {
        let closed = self.alone && !self.servers.is_empty();
        if !closed && !server.is_empty() && !self.servers.iter().any(|known| known == server) {
            self.servers.push(server.to_owned());
        }
    }

    /// `server` did what was asked.
    pub(crate) fn succeeded(&mut self, server: &str) {
        self.add(server);
        if self.good.as_deref() != Some(server) {
            self.good = Some(server.to_owned());
            self.errand = Some(server.to_owned());
        }
    }

    /// `server` opened a stream in `log`, whose name says that it is this node.
    pub(crate) fn leads(&mut self, server: &str, log: &str, node: u64) {
        self.ids.insert(server.to_owned(), node);
        let leader = self.leaders.get(log).map(|leader| leader.node);
        self.succeeded(server);
        // Without its term a node that missed the election could not be told from one that knows
        // of the next.
        if leader != Some(node) {
            self.errand = Some(server.to_owned());
        }
    }

    /// Ask this server first from now on.
    pub(crate) fn prefer(&mut self, server: &str) {
        self.add(server);
        self.good = Some(server.to_owned());
    }

    /// Takes in what `server` says of itself and of the others.
    pub fn learn(&mut self, server: &str, status: &Status) {
        if is_a_cluster(&status.cluster) {
            let cluster = self.cluster.get_or_insert_with(|| status.cluster.clone());
            if *cluster != status.cluster {
                return;
            }
            self.understands
                .insert(server.to_owned(), names_clusters(status));
        }
        for node in &status.nodes {
            self.add(&node.address);
            if !node.address.is_empty() {
                self.ids.insert(node.address.clone(), node.id);
            }
        }
        self.ids.insert(server.to_owned(), status.node);
        for log in &status.logs {
            let Some(leader) = Leadership::of(log) else {
                continue;
            };
            let latest = self.leaders.entry(log.name.clone()).or_insert(leader);
            *latest = leader.max(*latest);
        }
    }

    /// The address of the node that leads `log`, if this status knows it and is not behind what
    /// others said before.
    pub(crate) fn leader_by(&self, status: &Status, log: &str) -> Option<String> {
        let log = status.logs.iter().find(|known| known.name == log)?;
        let leader = Leadership::of(log)?;
        let is_latest = self.leaders.get(&log.name) <= Some(&leader);
        let node = status.nodes.iter().find(|node| node.id == leader.node)?;
        (is_latest && !node.address.is_empty()).then(|| node.address.clone())
    }

    pub(crate) fn knows_node_of(&self, server: &str) -> bool {
        self.ids.contains_key(server)
    }

    /// Whether these addresses lead to one node, as far as is known.
    pub(crate) fn is_same_node(&self, server: &str, other: &str) -> bool {
        match (self.ids.get(server), self.ids.get(other)) {
            (Some(one), Some(another)) => one == another,
            _ => server == other,
        }
    }

    /// Between half and all of `pause`.
    pub(crate) fn jittered(&mut self, pause: Duration) -> Duration {
        // SplitMix64.
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let chance = f64::from((z >> 32) as u32) / f64::from(u32::MAX);
        pause / 2 + (pause / 2).mul_f64(chance)
    }
}

/// A node that has not joined one yet says zeros.
pub(crate) fn is_a_cluster(id: &str) -> bool {
    id.bytes().any(|digit| !matches!(digit, b'0' | b'-'))
}

pub(crate) fn names_clusters(status: &Status) -> bool {
    status.understands.iter().any(|key| key == "cluster")
}
