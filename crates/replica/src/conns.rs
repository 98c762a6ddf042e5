//! The owner of each connection, and whether all that was sent there is with the kernel.

use std::collections::BTreeMap;

use formats::LogId;
use ops::ConnId;
use paxos::NodeId;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The connection has not said its first line.
    Greeting,
    /// The connection is being sent the last, and then it is closed. Until then it counts as any other: a
    /// client may be slow to take a long answer.
    Parting,
    ControlIn(NodeId),
    ControlOut(NodeId),
    /// A connection of a node that this one does not know, and ours to it.
    GuestIn(NodeId),
    GuestOut(NodeId),
    DataIn(LogId, NodeId),
    /// Proposals of a leader.
    DataOut(LogId, NodeId),
    /// Bytes for a peer that catches up.
    FeedOut(LogId, NodeId),
    Writer(LogId),
    Reader(LogId),
    /// A client that takes rows of the log's machine, or brings some.
    Rows(LogId),
    /// A client that waits for the outcome of an action.
    Request(LogId),
    /// A client that is being sent an answer in pieces.
    Answer,
    /// Our own request for an id.
    JoinOut,
}

impl Purpose {
    fn is_of_a_client(self) -> bool {
        match self {
            Purpose::Writer(_)
            | Purpose::Reader(_)
            | Purpose::Rows(_)
            | Purpose::Request(_)
            | Purpose::Answer => true,
            Purpose::Greeting
            | Purpose::Parting
            | Purpose::ControlIn(_)
            | Purpose::ControlOut(_)
            | Purpose::GuestIn(_)
            | Purpose::GuestOut(_)
            | Purpose::DataIn(..)
            | Purpose::DataOut(..)
            | Purpose::FeedOut(..)
            | Purpose::JoinOut => false,
        }
    }

    /// The node at the other end, where the connection is for what nodes say to each other as nodes of one cluster.
    pub fn node(self) -> Option<NodeId> {
        match self {
            Purpose::ControlIn(node)
            | Purpose::ControlOut(node)
            | Purpose::GuestIn(node)
            | Purpose::GuestOut(node)
            | Purpose::DataIn(_, node)
            | Purpose::DataOut(_, node)
            | Purpose::FeedOut(_, node) => Some(node),
            Purpose::Greeting
            | Purpose::Parting
            | Purpose::Writer(_)
            | Purpose::Reader(_)
            | Purpose::Rows(_)
            | Purpose::Request(_)
            | Purpose::Answer
            | Purpose::JoinOut => None,
        }
    }

    /// The node at the other end is not known here, or does not know this one.
    pub fn is_of_a_guest(self) -> bool {
        matches!(self, Purpose::GuestIn(_) | Purpose::GuestOut(_))
    }

    /// This node dials it.
    fn is_dialled(self) -> bool {
        matches!(
            self,
            Purpose::ControlOut(_)
                | Purpose::GuestOut(_)
                | Purpose::DataOut(..)
                | Purpose::FeedOut(..)
        )
    }

    /// The log whose business the connection is.
    fn log(self) -> Option<LogId> {
        match self {
            Purpose::DataIn(log, _)
            | Purpose::DataOut(log, _)
            | Purpose::FeedOut(log, _)
            | Purpose::Writer(log)
            | Purpose::Reader(log)
            | Purpose::Rows(log)
            | Purpose::Request(log) => Some(log),
            Purpose::Greeting
            | Purpose::Parting
            | Purpose::ControlIn(_)
            | Purpose::ControlOut(_)
            | Purpose::GuestIn(_)
            | Purpose::GuestOut(_)
            | Purpose::Answer
            | Purpose::JoinOut => None,
        }
    }
}

pub struct Conns {
    by_id: BTreeMap<ConnId, Purpose>,
    /// Sends that are not over, of each connection that ever sent. (Kept at none: to enter a connection for
    /// each send costs more than the rest of a send.)
    unsent: BTreeMap<ConnId, u32>,
    /// Those that are none: requests that a peer passed on, by the peer and its number for them.
    passed: BTreeMap<ConnId, (NodeId, u64)>,
    /// The names in the certificates of nodes, of those connections on which the other side showed one; empty for one that was
    /// dialled, and where it showed none.
    names: BTreeMap<ConnId, String>,
    next: u64,
}

impl Default for Conns {
    fn default() -> Conns {
        Conns {
            by_id: BTreeMap::new(),
            unsent: BTreeMap::new(),
            passed: BTreeMap::new(),
            names: BTreeMap::new(),
            next: 2,
        }
    }
}

impl Conns {
    /// A number for a connection of ours.
    pub(crate) fn open(&mut self, purpose: Purpose) -> ConnId {
        let conn = ConnId(self.next);
        self.next += 2;
        self.by_id.insert(conn, purpose);
        conn
    }

    /// A number for a request that this peer passed on. What is said there at last goes to the peer.
    pub fn open_passed(&mut self, purpose: Purpose, peer: NodeId, request: u64) -> ConnId {
        let conn = self.open(purpose);
        self.passed.insert(conn, (peer, request));
        conn
    }

    /// The peer that passed on this request, and its number there. It is over then.
    pub(crate) fn end_passed(&mut self, conn: ConnId) -> Option<(NodeId, u64)> {
        let passed = self.passed.remove(&conn)?;
        self.forget(conn);
        Some(passed)
    }

    /// Notes the name in the certificate of a node that the other side showed.
    pub fn on_shown(&mut self, conn: ConnId, name: Option<String>) {
        if let Some(name) = name {
            self.names.insert(conn, name);
        }
    }

    /// The name in the certificate of a node that the other side showed.
    pub fn shown(&self, conn: ConnId) -> Option<&str> {
        let shown = self.names.get(&conn).map(String::as_str);
        shown.filter(|name| !name.is_empty())
    }

    /// Notes that a connection of ours is there, and the name in the certificate of a node that the other side showed.
    pub fn on_dialled(&mut self, conn: ConnId, name: Option<String>) {
        self.names.insert(conn, name.unwrap_or_default());
    }

    /// The connections with other nodes that are there, each with its node.
    pub fn of_nodes(&self) -> impl Iterator<Item = (ConnId, Purpose, NodeId)> {
        let is_there = |conn: &ConnId, purpose: &Purpose| {
            !purpose.is_dialled() || self.names.contains_key(conn)
        };
        let all = self.by_id.iter();
        let there = all.filter(move |(conn, purpose)| is_there(conn, purpose));
        there.filter_map(|(conn, purpose)| Some((*conn, *purpose, purpose.node()?)))
    }

    /// Gives the connection another purpose from now on.
    pub fn turn_to(&mut self, conn: ConnId, purpose: Purpose) {
        self.by_id.insert(conn, purpose);
    }

    #[inline]
    pub fn purpose(&self, conn: ConnId) -> Option<Purpose> {
        self.by_id.get(&conn).copied()
    }

    /// The connections of clients whose request is being served.
    pub fn of_clients(&self) -> Vec<(ConnId, Purpose)> {
        let all = self.by_id.iter();
        let clients = all.filter(|(_, purpose)| purpose.is_of_a_client());
        clients.map(|(conn, purpose)| (*conn, *purpose)).collect()
    }

    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// All connections that are this log's business.
    pub(crate) fn of(&self, log: LogId) -> Vec<ConnId> {
        let all = self.by_id.iter();
        let of_it = all.filter(|(_, purpose)| purpose.log() == Some(log));
        of_it.map(|(conn, _)| *conn).collect()
    }

    pub(crate) fn on_send(&mut self, conn: ConnId) {
        *self.unsent.entry(conn).or_default() += 1;
    }

    /// Counts a send that is over: each is so once, also those of a connection that failed or was closed.
    /// Returns the connection's purpose, if somebody may still be told something there.
    pub fn on_sent(&mut self, conn: ConnId) -> Option<Purpose> {
        let purpose = self.purpose(conn);
        let purpose = purpose.filter(|purpose| *purpose != Purpose::Parting);
        if let Some(unsent) = self.unsent.get_mut(&conn) {
            *unsent -= 1;
            if *unsent == 0 && purpose.is_none() {
                self.forget(conn);
            }
        }
        purpose
    }

    fn forget(&mut self, conn: ConnId) {
        self.by_id.remove(&conn);
        self.unsent.remove(&conn);
        self.names.remove(&conn);
    }

    /// Whether some of what was sent there is not with the kernel yet.
    #[inline]
    pub fn is_sending(&self, conn: ConnId) -> bool {
        self.unsent.get(&conn).is_some_and(|unsent| *unsent > 0)
    }

    /// Whether somebody may still be told something there.
    pub fn is_open(&self, conn: ConnId) -> bool {
        let purpose = self.purpose(conn);
        purpose.is_some_and(|purpose| purpose != Purpose::Parting)
    }

    /// Notes that the connection is closed at once.
    pub(crate) fn close(&mut self, conn: ConnId) {
        match self.is_sending(conn) {
            // The last completed send is the last to be heard of the connection.
            true => {
                self.by_id.remove(&conn);
                self.names.remove(&conn);
            }
            false => self.forget(conn),
        }
    }

    /// Notes that the connection is closed once all that was sent is with the kernel.
    pub(crate) fn part(&mut self, conn: ConnId) {
        match self.is_sending(conn) {
            true => self.turn_to(conn, Purpose::Parting),
            false => self.forget(conn),
        }
    }
}
