//! All connections of a kernel: who may move bytes now, who waits, who is on the way out.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ops::{Completion, ConnId, Time};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit};
use uring::{Finished, Ring};

use crate::config::KernelConfig;
use crate::connection::{After, Connection, Phase};
use crate::epoll::{Epoll, EventFlags, Source};
use crate::errors::{closed_here, copy_of};
use crate::handed::{Dial, Giver, Handed};
use crate::inbox::{Inbox, Reply};
use crate::lender::Lender;
use crate::listener::{Accept, Listener, new_socket, no_address};
use crate::resolver::Resolver;
use crate::tag::Tag;

/// Accepted from one listener before the connections have their turn.
const ACCEPTS_PER_ROUND: usize = 64;

/// A connection that is being flushed is given up when nothing moved for so long.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the other side may take to notice our end of stream.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections that linger are nobody's any more, but each is a file still: beyond an eighth of the files
/// that the process may open, and beyond this, the oldest linger no longer.
const LINGERING_MAX: usize = 512;

pub(crate) struct Network {
    config: KernelConfig,
    resolver: Resolver,
    /// Open connections are the ring's; epoll watches them only before and after that.
    on_ring: bool,
    connections: HashMap<ConnId, Connection>,
    listeners: Vec<Listener>,
    /// Connections that may be able to move bytes, in the order in which they became so.
    turns: Vec<ConnId>,
    turns_before: Vec<ConnId>,
    /// When to look at a closing connection again.
    closing: BinaryHeap<Reverse<(Time, ConnId)>>,
    /// Those that linger, the oldest first.
    lingering: BTreeSet<(Time, ConnId)>,
    lingering_max: usize,
    accepted: u64,
    lender: Lender,
    scratch: Vec<u8>,
    /// Makes the connections that are dialled, in the place of this kernel.
    dialer: Option<Arc<dyn Dial>>,
    inbox: Arc<Inbox>,
}

impl Network {
    pub fn new(config: KernelConfig, inbox: Arc<Inbox>, on_ring: bool) -> Network {
        Network {
            config,
            resolver: Resolver::new(inbox.clone()),
            on_ring,
            connections: HashMap::new(),
            listeners: Vec::new(),
            turns: Vec::new(),
            turns_before: Vec::new(),
            closing: BinaryHeap::new(),
            lingering: BTreeSet::new(),
            lingering_max: lingering_max(getrlimit(Resource::Nofile).current),
            accepted: 0,
            lender: Lender::new(),
            scratch: vec![0; 64 << 10],
            dialer: None,
            inbox,
        }
    }

    pub fn config(&self) -> &KernelConfig {
        &self.config
    }

    pub fn bind(&mut self, address: &str) -> io::Result<usize> {
        if let Some(index) = self.listeners.iter().position(|l| l.is_for(address)) {
            return Ok(index);
        }
        self.listeners.push(Listener::bind(address, &self.config)?);
        Ok(self.listeners.len() - 1)
    }

    /// One more listener, which takes connections from when the machine listens anywhere. Where it listens, if that is no
    /// path.
    pub fn join(&mut self, mut listener: Listener) -> Option<SocketAddr> {
        listener.joins = true;
        let address = listener.address;
        self.listeners.push(listener);
        address
    }

    /// From now on, another thread accepts at this listener's socket.
    pub fn hand_over(&mut self, index: usize) -> io::Result<(OwnedFd, Giver)> {
        let listener = &mut self.listeners[index];
        let socket = listener.socket.try_clone()?;
        listener.is_handed = true;
        listener.readable = false;
        let inbox = self.inbox.clone();
        Ok((
            socket,
            Giver {
                inbox,
                listener: index,
            },
        ))
    }

    pub fn set_dialer(&mut self, dialer: Arc<dyn Dial>) {
        self.dialer = Some(dialer);
    }

    pub fn local_addr(&self, index: usize) -> Option<SocketAddr> {
        self.listeners.get(index)?.address
    }

    pub fn listen(&mut self, epoll: &Epoll, address: String, completions: &mut Vec<Completion>) {
        let result = self.bind(&address).and_then(|index| {
            let listener = &mut self.listeners[index];
            if !listener.accepting {
                listener.named.clone_from(&address);
            }
            let mut waiting = Vec::new();
            for (at, listener) in self.listeners.iter_mut().enumerate() {
                if !listener.accepting && (at == index || listener.joins) {
                    if !listener.is_handed {
                        epoll.add(Source::Listener(at), &listener.socket)?;
                    }
                    listener.accepting = true;
                    waiting.extend(listener.waiting.drain(..).map(|handed| (at, handed)));
                }
            }
            for (at, handed) in waiting {
                self.on_handed(epoll, at, handed, completions);
            }
            Ok(())
        });
        if let Err(error) = result {
            completions.push(Completion::ListenFailed { address, error });
        }
    }

    pub fn connect(
        &mut self,
        epoll: &Epoll,
        conn: ConnId,
        address: String,
        completions: &mut Vec<Completion>,
    ) {
        if self.connections.contains_key(&conn) {
            let error = io::Error::new(io::ErrorKind::AlreadyExists, "the id is in use");
            completions.push(Completion::Connected {
                conn,
                result: Err(error),
                node: None,
            });
            return;
        }
        self.connections
            .insert(conn, Connection::new(conn, Phase::Resolving));
        if let Some(dialer) = &self.dialer {
            let inbox = self.inbox.clone();
            let done = move |result| inbox.put(Reply::Dialled { conn, result });
            dialer.dial(address, Box::new(done));
            return;
        }
        match address.parse::<SocketAddr>() {
            Ok(address) => self.try_addresses(epoll, conn, VecDeque::from([address]), completions),
            Err(_) => self.resolver.look_up(conn, address),
        }
    }

    pub fn on_resolved(
        &mut self,
        epoll: &Epoll,
        conn: ConnId,
        result: io::Result<Vec<SocketAddr>>,
        completions: &mut Vec<Completion>,
    ) {
        // It may have been closed meanwhile.
        if !self.connections.contains_key(&conn) {
            return;
        }
        match result {
            Ok(addresses) => self.try_addresses(epoll, conn, addresses.into(), completions),
            Err(error) => self.on_unreachable(conn, error, completions),
        }
    }

    /// A connection that was dialled elsewhere is there, or failed.
    pub fn on_dialled(
        &mut self,
        epoll: &Epoll,
        conn: ConnId,
        result: io::Result<Handed>,
        completions: &mut Vec<Completion>,
    ) {
        // It may have been closed meanwhile.
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        let watched = result.and_then(|handed| {
            match self.on_ring {
                true => wait_in_calls(&handed.socket),
                false => epoll.add(Source::Connection(conn), &handed.socket)?,
            }
            Ok(handed)
        });
        match watched {
            Ok(handed) => {
                connection.open_with(handed.socket, handed.far, handed.seal);
                completions.push(Completion::Connected {
                    conn,
                    result: Ok(()),
                    node: handed.node,
                });
                // For the ops that were given before.
                self.open_connection(conn);
            }
            Err(error) => self.on_unreachable(conn, error, completions),
        }
    }

    /// A connection that was accepted elsewhere.
    pub fn on_handed(
        &mut self,
        epoll: &Epoll,
        index: usize,
        handed: Handed,
        completions: &mut Vec<Completion>,
    ) {
        let listener = &mut self.listeners[index];
        if !listener.accepting {
            listener.waiting.push(handed);
            return;
        }
        let named = listener.named.clone();
        let Handed {
            socket,
            peer,
            node,
            client,
            far,
            seal,
        } = handed;
        let Some(conn) = self.watch(epoll, socket, &peer) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.far = far;
            connection.seal(seal);
        }
        completions.push(Completion::Accepted {
            conn,
            peer,
            listener: named,
            is_own: false,
            node,
            client,
        });
    }

    /// Takes an accepted socket among the connections. `None`: it cannot be watched.
    fn watch(&mut self, epoll: &Epoll, socket: OwnedFd, peer: &str) -> Option<ConnId> {
        let conn = ConnId(self.accepted * 2 + 1);
        self.accepted += 1;
        if self.on_ring {
            wait_in_calls(&socket);
        } else if let Err(error) = epoll.add(Source::Connection(conn), &socket) {
            tracing::warn!(%peer, %error, "connection dropped: epoll cannot watch it");
            return None;
        }
        self.connections
            .insert(conn, Connection::new(conn, Phase::Open(Arc::new(socket))));
        Some(conn)
    }

    /// Starts to connect to the first address that can be tried at all.
    fn try_addresses(
        &mut self,
        epoll: &Epoll,
        conn: ConnId,
        mut addresses: VecDeque<SocketAddr>,
        completions: &mut Vec<Completion>,
    ) {
        let mut last = no_address("the name");
        while let Some(address) = addresses.pop_front() {
            match start_connect(epoll, conn, &address, &self.config) {
                Ok(socket) => {
                    if let Some(connection) = self.connections.get_mut(&conn) {
                        connection.phase = Phase::Connecting {
                            socket: Arc::new(socket),
                            others: addresses,
                        };
                    }
                    return;
                }
                Err(error) => last = error,
            }
        }
        self.on_unreachable(conn, last, completions);
    }

    /// No address is left; the id means nothing from here on.
    fn on_unreachable(
        &mut self,
        conn: ConnId,
        error: io::Error,
        completions: &mut Vec<Completion>,
    ) {
        if let Some(mut connection) = self.connections.remove(&conn) {
            connection.fail(&|| copy_of(&error), completions);
        }
    }

    /// The connection if the node may still use it.
    pub fn open_connection(&mut self, conn: ConnId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(&conn)?;
        if connection.is_closing() {
            return None;
        }
        if !connection.has_turn {
            connection.has_turn = true;
            self.turns.push(conn);
        }
        Some(connection)
    }

    /// The connection that answers a receive given now: a closed one while the ring has an earlier
    /// receive of it, which comes first.
    pub fn receiving_connection(&mut self, conn: ConnId) -> Option<&mut Connection> {
        match self.connections.get(&conn)?.is_giving_back_receives() {
            true => self.connections.get_mut(&conn),
            false => self.open_connection(conn),
        }
    }

    /// As `receiving_connection`; of one that is flushed the sends to come fail at once.
    pub fn sending_connection(&mut self, conn: ConnId) -> Option<&mut Connection> {
        match self.connections.get(&conn)?.is_giving_back_sends() {
            true => self.connections.get_mut(&conn),
            false => self.open_connection(conn),
        }
    }

    pub fn close(
        &mut self,
        conn: ConnId,
        flush: bool,
        now: Time,
        ring: Option<&mut Ring<Tag>>,
        completions: &mut Vec<Completion>,
    ) {
        let Some(connection) = self.open_connection(conn) else {
            return;
        };
        if flush && !connection.is_connecting() {
            connection.flush(completions);
            if let Some(ring) = ring {
                connection.cancel(ring);
            }
            self.look_again(now + FLUSH_TIMEOUT, conn);
        } else {
            self.retire(conn, ring, completions);
        }
    }

    pub fn reset(
        &mut self,
        conn: ConnId,
        ring: Option<&mut Ring<Tag>>,
        completions: &mut Vec<Completion>,
    ) {
        let Some(connection) = self.open_connection(conn) else {
            return;
        };
        if let Some(far) = &connection.far {
            far.reset();
        } else if let Some(socket) = connection.socket() {
            // Closed so, a socket says by a reset that this is not the end. (If it cannot be set, it ends.)
            let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
        }
        self.retire(conn, ring, completions);
    }

    /// Drops a connection, when the ring has nothing of it any more.
    fn retire(
        &mut self,
        conn: ConnId,
        ring: Option<&mut Ring<Tag>>,
        completions: &mut Vec<Completion>,
    ) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        if let Phase::Lingering { until, .. } = &connection.phase {
            self.lingering.remove(&(*until, conn));
        }
        if connection.end() {
            connection.fail(&closed_here, completions);
            self.connections.remove(&conn);
        } else if let Some(ring) = ring {
            connection.cancel(ring);
        }
    }

    /// The ring gives back what it had of a connection.
    pub fn on_finished(
        &mut self,
        conn: ConnId,
        finished: Finished<Tag>,
        completions: &mut Vec<Completion>,
    ) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.on_finished(finished, completions);
            if !connection.has_turn {
                connection.has_turn = true;
                self.turns.push(conn);
            }
        }
    }

    pub fn on_event(
        &mut self,
        epoll: &Epoll,
        conn: ConnId,
        flags: EventFlags,
        completions: &mut Vec<Completion>,
    ) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        if connection.is_connecting() {
            self.on_connecting(epoll, conn, completions);
        } else {
            let again = connection.is_readable() && flags.contains(EventFlags::IN);
            connection.on_event(flags);
            hear_or_not(epoll, connection, again);
            if !connection.has_turn {
                connection.has_turn = true;
                self.turns.push(conn);
            }
        }
    }

    fn on_connecting(&mut self, epoll: &Epoll, conn: ConnId, completions: &mut Vec<Completion>) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        let Phase::Connecting { socket, others } = &mut connection.phase else {
            return;
        };
        let failure = match connect_result(socket) {
            Ok(true) => {
                if self.on_ring {
                    epoll.remove(&*socket);
                    wait_in_calls(socket);
                }
                connection.open();
                completions.push(Completion::Connected {
                    conn,
                    result: Ok(()),
                    node: None,
                });
                // For the ops that were given before.
                self.open_connection(conn);
                return;
            }
            Ok(false) => return,
            Err(error) => error,
        };
        let others = std::mem::take(others);
        if others.is_empty() {
            self.on_unreachable(conn, failure, completions);
        } else {
            self.try_addresses(epoll, conn, others, completions);
        }
    }

    pub fn on_listener(&mut self, index: usize) {
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.readable = true;
        }
    }

    /// Gives every connection that may be able to move bytes its turn.
    pub fn take_turns(
        &mut self,
        epoll: &Epoll,
        now: Time,
        mut ring: Option<&mut Ring<Tag>>,
        completions: &mut Vec<Completion>,
    ) {
        self.accept(epoll, now, completions);
        let bytes_max = self.config.round_bytes_max;
        let mut turns = std::mem::take(&mut self.turns_before);
        std::mem::swap(&mut self.turns, &mut turns);
        for conn in turns.drain(..) {
            let Some(connection) = self.connections.get_mut(&conn) else {
                continue;
            };
            connection.has_turn = false;
            let (lender, scratch) = (&self.lender, &mut self.scratch[..]);
            let mut after = match &mut ring {
                Some(ring) => {
                    connection.take_turn_on(ring, bytes_max, lender, scratch, completions)
                }
                None => connection.take_turn(bytes_max, lender, scratch, completions),
            };
            if after == After::Flushed {
                let until = now + LINGER_TIMEOUT;
                after = match connection.linger(until, epoll, self.on_ring) {
                    Ok(()) => {
                        self.lingering.insert((until, conn));
                        After::Again
                    }
                    Err(_) => After::Gone,
                };
                self.closing.push(Reverse((until, conn)));
            }
            hear_or_not(epoll, connection, false);
            match after {
                After::Wait | After::Flushed => {}
                After::Again => {
                    connection.has_turn = true;
                    self.turns.push(conn);
                }
                After::Gone => self.retire(conn, ring.as_deref_mut(), completions),
            }
        }
        self.turns_before = turns;
        while self.lingering.len() > self.lingering_max
            && let Some((_, oldest)) = self.lingering.first().copied()
        {
            self.retire(oldest, ring.as_deref_mut(), completions);
        }
        self.end_closing(now, ring, completions);
    }

    fn accept(&mut self, epoll: &Epoll, now: Time, completions: &mut Vec<Completion>) {
        for at in 0..self.listeners.len() {
            let listener = &mut self.listeners[at];
            if listener.paused_until.is_some_and(|until| now < until) || !listener.accepting {
                continue;
            }
            listener.paused_until = None;
            for _ in 0..ACCEPTS_PER_ROUND {
                let listener = &mut self.listeners[at];
                if !listener.readable {
                    break;
                }
                let Accept::Connection(socket, peer) = listener.accept(now) else {
                    break;
                };
                let (is_own, listener) = (listener.is_own, listener.named.clone());
                if let Some(conn) = self.watch(epoll, socket, &peer) {
                    completions.push(Completion::Accepted {
                        conn,
                        peer,
                        listener,
                        is_own,
                        node: None,
                        client: None,
                    });
                }
            }
        }
    }

    /// Drops closing connections whose time is over.
    fn end_closing(
        &mut self,
        now: Time,
        mut ring: Option<&mut Ring<Tag>>,
        completions: &mut Vec<Completion>,
    ) {
        while let Some(Reverse((at, conn))) = self.closing.peek().copied() {
            if now < at {
                break;
            }
            self.closing.pop();
            let Some(connection) = self.connections.get_mut(&conn) else {
                continue;
            };
            let give_up = match &connection.phase {
                Phase::Lingering { until, .. } => *until <= now,
                _ => !connection.take_moved(),
            };
            if give_up {
                self.retire(conn, ring.as_deref_mut(), completions);
            } else if !matches!(connection.phase, Phase::Lingering { .. }) {
                self.look_again(now + FLUSH_TIMEOUT, conn);
            }
        }
    }

    fn look_again(&mut self, at: Time, conn: ConnId) {
        self.closing.push(Reverse((at, conn)));
    }

    /// Somebody has something to do at once.
    pub fn has_turns(&self) -> bool {
        !self.turns.is_empty()
            || self
                .listeners
                .iter()
                .any(|l| l.accepting && l.readable && l.paused_until.is_none())
    }

    /// When something has to be done without an event.
    pub fn deadline(&self) -> Option<Time> {
        let pauses = self.listeners.iter().filter_map(|l| l.paused_until);
        let closing = self.closing.peek().map(|Reverse((at, _))| *at);
        pauses.chain(closing).min()
    }

    /// Buffers that are lent now.
    pub fn lent(&self) -> usize {
        self.lender.lent()
    }

    /// A connection closed by the node still has bytes that are not with the kernel.
    pub fn is_flushing(&self) -> bool {
        self.connections
            .values()
            .any(|connection| matches!(connection.phase, Phase::Flushing(_)))
    }
}

fn lingering_max(files: Option<u64>) -> usize {
    let part = files.and_then(|files| usize::try_from(files / 8).ok());
    part.map_or(LINGERING_MAX, |part| part.clamp(1, LINGERING_MAX))
}

/// Tells epoll whether this connection wants to hear of bytes that come in.
fn hear_or_not(epoll: &Epoll, connection: &mut Connection, came_in_again: bool) {
    let deaf = connection.wants_deaf(came_in_again);
    if deaf != connection.is_deaf()
        && let Some(socket) = connection.socket()
    {
        match epoll.set_deaf(connection.id, socket, deaf) {
            Ok(()) => connection.set_deaf(deaf),
            // Tried again with its next event or turn.
            Err(error) => tracing::warn!(%error, deaf, "epoll does not change its interest"),
        }
    }
}

fn start_connect(
    epoll: &Epoll,
    conn: ConnId,
    address: &SocketAddr,
    config: &KernelConfig,
) -> io::Result<OwnedFd> {
    let socket = new_socket(address, config)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno.into()),
    }
    // Registered after the attempt began: a socket that was never connected reports a hang-up.
    epoll.add(Source::Connection(conn), &socket)?;
    Ok(socket)
}

/// Whether the attempt succeeded; false while it is still going on.
fn connect_result(socket: &OwnedFd) -> io::Result<bool> {
    sockopt::socket_error(socket)??;
    let peer = match rustix::net::getpeername(socket) {
        Ok(peer) => peer,
        Err(Errno::NOTCONN) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    };
    // Connecting to a free local port of the ephemeral range can meet itself (simultaneous open).
    if peer.is_some() && rustix::net::getsockname(socket).ok() == peer {
        return Err(Errno::CONNREFUSED.into());
    }
    Ok(true)
}

/// The ring waits with a socket only if the socket would let a call wait.
fn wait_in_calls(socket: &impl AsFd) {
    // Cannot fail on an open descriptor.
    let _ = fcntl_setfl(socket, OFlags::empty());
}
