//! Connections: what processes ask of them, and how they end.
//!
//! A connection has two ends (0 opened it, 1 accepted it) and two streams; stream `s` carries the
//! bytes that end `s` sends. How connections begin is in `handshake`, how bytes travel in `traffic`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::time::Duration;

use ops::{BLOCK, Buffer, Completion, ConnId, LENT_BYTES_MAX, Received, Slice, Time};
use serde::{Deserialize, Serialize};

use crate::HostId;
use crate::clockwork::{Clockwork, Event};
use crate::random::PerMillion;
use crate::stream::Stream;

pub(crate) type ConnectionId = u32;
pub(crate) type Side = u8;

/// The kind of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkModel {
    /// One way.
    pub latency_us: Range<u64>,
    /// The rate of each host's outgoing line.
    pub bytes_per_us: u64,
    pub send_buffer_bytes: u64,
    pub receive_buffer_bytes: u64,
    pub segment_bytes_max: u64,
    /// The time that a segment takes of its sender's line beside that of its bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub segment_us: u64,
    /// Nothing is cut by chance: neither what is sent, where it is no longer than a segment, nor what is received.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// The wait for the first lost segment, and then twice that.
    pub retransmit_us: Range<u64>,
    /// The time for which an end waits for an acknowledgement before the connection fails.
    pub give_up_us: u64,
    pub connect_timeout_us: u64,
    /// Per segment.
    pub losses: PerMillion,
    pub resets: PerMillion,
    /// Per batch that one node sends another: a bit of it flips, and no checksum of the network's
    /// notices.
    #[serde(default)]
    pub flips: PerMillion,
}

pub(crate) struct Connection {
    pub ends: [End; 2],
    pub streams: [Stream; 2],
    /// The port to which the opener wants to go.
    pub port: Option<u16>,
    /// There is no host of that name, or the name is malformed.
    pub unreachable: Option<io::ErrorKind>,
    pub connect_until: Time,
}

pub(crate) struct End {
    pub host: HostId,
    pub conn: ConnId,
    pub state: State,
    pub receives: VecDeque<PendingReceive>,
    /// When it is gone, the other end hears of it by a reset.
    pub resets: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not yet connected, or not yet accepted.
    Opening,
    Open,
    /// Every op fails with this until the process closes the connection.
    Failed(io::ErrorKind),
    /// Closed by the process as soon as the sends are with the kernel.
    Flushing,
    /// The connection is closed so, and all is sent. Bytes that still come are thrown away for a while: to
    /// refuse them would be a reset, and a reset overtakes the last bytes that were sent.
    Lingering,
    /// The process is done with it. The kernel may still deliver what it was given.
    Gone,
}

pub(crate) struct PendingReceive {
    pub buffer: Buffer,
    pub range: Range<usize>,
    pub whole: bool,
    pub filled: usize,
    /// It has no buffer before there are bytes, and so many at most are for it then.
    pub when_there: Option<usize>,
}

/// Stands in a lent buffer behind the bytes that came, as if it had been lent to others before.
const LEFT_BEHIND: u8 = 0xA5;

impl PendingReceive {
    pub fn when_there(bytes_max: usize) -> PendingReceive {
        PendingReceive {
            buffer: Buffer::empty(),
            range: 0..0,
            whole: false,
            filled: 0,
            when_there: Some(bytes_max.min(LENT_BYTES_MAX)),
        }
    }

    /// The bytes that it still takes.
    pub fn room(&self) -> usize {
        self.when_there.unwrap_or(self.range.len() - self.filled)
    }

    /// Its buffer, if it waits for one, now that so many bytes are there.
    pub fn lend_for(&mut self, count: usize) {
        if self.when_there.is_none() || count == 0 {
            return;
        }
        self.buffer = Buffer::new(count.next_multiple_of(BLOCK));
        self.buffer.fill(LEFT_BEHIND);
        self.range = 0..count;
    }
}

pub struct Network {
    pub model: NetworkModel,
    pub(crate) connections: Vec<Option<Box<Connection>>>,
    /// By host: what its process calls each of its connections.
    pub(crate) conns: Vec<BTreeMap<ConnId, (ConnectionId, Side)>>,
    pub(crate) accepted: Vec<u64>,
    pub(crate) line_free_at: Vec<Time>,
    pub(crate) names: Vec<String>,
    /// By the address as it was asked for.
    pub(crate) listeners: BTreeMap<(HostId, u16), String>,
    /// Nothing gets from the first to the second.
    pub(crate) cuts: BTreeSet<(HostId, HostId)>,
    /// Hosts that come to nodes by the socket for those who may read their disks.
    pub owners: BTreeSet<HostId>,
    /// The names in the certificates of hosts that speak TLS, from now on.
    pub certificates: BTreeMap<HostId, String>,
    /// The certificates of clients at hosts, which they show to whoever they dial.
    pub clients: BTreeMap<HostId, ops::ClientCertificate>,
    /// Machines that vanished: their kernels answer nothing.
    pub(crate) vanished: BTreeSet<HostId>,
    pub(crate) losses: u64,
    pub(crate) resets: u64,
    pub(crate) flips: u64,
    /// The hosts between which bytes may be damaged on their way.
    pub(crate) nodes: BTreeSet<HostId>,
}

/// A connection that is being flushed is given up when nothing moved for so long.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The time for which a closed connection lingers for the other side's end.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Headers and lines are shorter.
const BATCH_BYTES_MIN: usize = 512;

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Default for NetworkModel {
    fn default() -> NetworkModel {
        NetworkModel {
            latency_us: 30..300,
            bytes_per_us: 1000,
            send_buffer_bytes: 256 << 10,
            receive_buffer_bytes: 256 << 10,
            segment_bytes_max: 64 << 10,
            segment_us: 0,
            whole: false,
            retransmit_us: 5_000..200_000,
            give_up_us: 15_000_000,
            connect_timeout_us: 5_000_000,
            losses: PerMillion(0),
            resets: PerMillion(0),
            flips: PerMillion(0),
        }
    }
}

impl Network {
    pub(crate) fn new() -> Network {
        Network {
            model: NetworkModel::default(),
            connections: Vec::new(),
            conns: Vec::new(),
            accepted: Vec::new(),
            line_free_at: Vec::new(),
            names: Vec::new(),
            listeners: BTreeMap::new(),
            owners: BTreeSet::new(),
            certificates: BTreeMap::new(),
            clients: BTreeMap::new(),
            cuts: BTreeSet::new(),
            vanished: BTreeSet::new(),
            losses: 0,
            resets: 0,
            flips: 0,
            nodes: BTreeSet::new(),
        }
    }

    pub(crate) fn add_host(&mut self, name: &str) {
        assert!(!self.names.iter().any(|n| n == name), "{name} exists");
        self.names.push(name.to_owned());
        self.conns.push(BTreeMap::new());
        self.accepted.push(0);
        self.line_free_at.push(Time::ZERO);
    }

    /// Connections that the host's process has not closed.
    pub fn open_connections(&self, host: HostId) -> usize {
        self.conns[host.index()].len()
    }

    pub(crate) fn receive(
        &mut self,
        clock: &mut Clockwork,
        host: HostId,
        conn: ConnId,
        receive: PendingReceive,
    ) {
        let Some(&(id, side)) = self.conns[host.index()].get(&conn) else {
            let error = io::ErrorKind::ConnectionAborted.into();
            return clock.deliver(host, received(conn, receive, Err(error)));
        };
        let connection = self.connections[id as usize].as_mut();
        let connection = connection.expect("a process's connection exists");
        let end = &mut connection.ends[usize::from(side)];
        if end.state == State::Flushing {
            let error = io::ErrorKind::ConnectionAborted.into();
            return clock.deliver(host, received(conn, receive, Err(error)));
        }
        end.receives.push_back(receive);
        self.serve(clock, id, side);
    }

    pub(crate) fn send(
        &mut self,
        clock: &mut Clockwork,
        host: HostId,
        conn: ConnId,
        mut slices: Vec<Slice>,
    ) {
        let refused = |kind: io::ErrorKind| Completion::Sent {
            conn,
            result: Err(kind.into()),
        };
        let Some(&(id, side)) = self.conns[host.index()].get(&conn) else {
            return clock.deliver(host, refused(io::ErrorKind::ConnectionAborted));
        };
        let connection = self.connections[id as usize].as_mut();
        let connection = connection.expect("a process's connection exists");
        match connection.ends[usize::from(side)].state {
            State::Open | State::Opening => {}
            State::Failed(kind) => return clock.deliver(host, refused(kind)),
            State::Flushing | State::Lingering | State::Gone => {
                return clock.deliver(host, refused(io::ErrorKind::ConnectionAborted));
            }
        }
        let ends = [0, 1].map(|end: usize| connection.ends[end].host);
        let stream = &mut connection.streams[usize::from(side)];
        let between_nodes = ends.iter().all(|host| self.nodes.contains(host));
        if between_nodes
            && let Some(batch) = slices.iter_mut().find(|s| s.len() >= BATCH_BYTES_MIN)
            && clock.random.chance(self.model.flips)
        {
            let mut bytes = batch.to_vec();
            let at = clock.random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << clock.random.below(8);
            *batch = Slice::copied_from(&bytes);
            self.flips += 1;
        }
        stream.push(slices);
        self.pump(clock, id, side);
    }

    pub(crate) fn shutdown_write(&mut self, clock: &mut Clockwork, host: HostId, conn: ConnId) {
        let Some(&(id, side)) = self.conns[host.index()].get(&conn) else {
            return;
        };
        if let Some(connection) = &mut self.connections[id as usize]
            && connection.ends[usize::from(side)].state != State::Flushing
        {
            connection.streams[usize::from(side)].shut();
        }
        self.pump(clock, id, side);
    }

    pub(crate) fn close(&mut self, clock: &mut Clockwork, host: HostId, conn: ConnId, flush: bool) {
        let Some(&(id, side)) = self.conns[host.index()].get(&conn) else {
            return;
        };
        let connection = self.connections[id as usize].as_mut();
        let connection = connection.expect("a process's connection exists");
        let s = usize::from(side);
        let state = connection.ends[s].state;
        if state == State::Flushing {
            return;
        }
        for receive in std::mem::take(&mut connection.ends[s].receives) {
            let error = io::ErrorKind::ConnectionAborted.into();
            clock.deliver(host, received(conn, receive, Err(error)));
        }
        if state == State::Opening {
            clock.deliver(
                host,
                Completion::Connected {
                    conn,
                    result: Err(io::ErrorKind::ConnectionAborted.into()),
                    node: None,
                },
            );
        }
        if flush && state == State::Open {
            connection.ends[s].state = State::Flushing;
            let given = connection.streams[s].given();
            self.look_again(clock, id, side, given, FLUSH_TIMEOUT);
            return self.pump(clock, id, side);
        }
        self.abort(clock, id, side);
        self.end_is_gone(clock, id, side);
    }

    pub(crate) fn close_by_reset(&mut self, clock: &mut Clockwork, host: HostId, conn: ConnId) {
        let Some(&(id, side)) = self.conns[host.index()].get(&conn) else {
            return;
        };
        if let Some(connection) = &mut self.connections[id as usize] {
            connection.ends[usize::from(side)].resets = true;
        }
        self.close(clock, host, conn, false);
    }

    /// Whether there still is a process that knows this end by its number.
    pub(crate) fn is_named(
        &self,
        host: HostId,
        conn: ConnId,
        id: ConnectionId,
        side: Side,
    ) -> bool {
        self.conns[host.index()].get(&conn) == Some(&(id, side))
    }

    /// The machine at the other end.
    pub(crate) fn far_end(&self, host: HostId, conn: ConnId) -> Option<HostId> {
        let (id, _) = self.conns[host.index()].get(&conn)?;
        let connection = self.connections.get(*id as usize)?.as_ref()?;
        let mut hosts = connection.ends.iter().map(|end| end.host);
        hosts.find(|end| *end != host)
    }

    /// Nothing more is sent of what the kernel was not given.
    fn abort(&mut self, clock: &mut Clockwork, id: ConnectionId, side: Side) {
        let end = self.connections[id as usize].as_ref();
        let end = end.map(|connection| &connection.ends[usize::from(side)]);
        let named = end.is_some_and(|end| self.is_named(end.host, end.conn, id, side));
        let connection = self.connections[id as usize].as_mut();
        let connection = connection.expect("the end of a connection that exists");
        let end = &connection.ends[usize::from(side)];
        let stream = &mut connection.streams[usize::from(side)];
        let sends = stream.take_sends();
        for _ in 0..if named { sends } else { 0 } {
            clock.deliver(
                end.host,
                Completion::Sent {
                    conn: end.conn,
                    result: Err(io::ErrorKind::ConnectionAborted.into()),
                },
            );
        }
        stream.forget_ungiven();
    }

    fn look_again(
        &mut self,
        clock: &mut Clockwork,
        connection: ConnectionId,
        side: Side,
        given: u64,
        delay: Duration,
    ) {
        let look = Event::LookAtClosing {
            connection,
            side,
            given,
        };
        clock.after(delay, look);
    }

    /// An end that was closed some time ago, when so much was with its kernel.
    pub(crate) fn on_look_at_closing(
        &mut self,
        clock: &mut Clockwork,
        id: ConnectionId,
        side: Side,
        given_before: u64,
    ) {
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        let given = connection.streams[usize::from(side)].given();
        let end = &mut connection.ends[usize::from(side)];
        match end.state {
            State::Flushing if given > given_before => {
                self.look_again(clock, id, side, given, FLUSH_TIMEOUT);
            }
            State::Flushing => {
                self.abort(clock, id, side);
                self.end_is_gone(clock, id, side);
            }
            State::Lingering => {
                end.state = State::Gone;
                self.remove_if_over(id);
            }
            _ => {}
        }
    }

    /// All is sent: the process's part is over.
    pub(crate) fn linger(&mut self, clock: &mut Clockwork, id: ConnectionId, side: Side) {
        let connection = self.connections[id as usize].as_mut();
        let connection = connection.expect("the end of a connection that exists");
        let s = usize::from(side);
        let end = &mut connection.ends[s];
        end.state = State::Lingering;
        let (host, conn) = (end.host, end.conn);
        connection.streams[s].shut();
        connection.streams[1 - s].discard_unread();
        if connection.streams[1 - s].is_over() {
            end.state = State::Gone;
        }
        self.forget_name(host, conn, id, side);
        self.look_again(clock, id, side, 0, LINGER_TIMEOUT);
        self.feed_back(clock, id, 1 - side);
        self.pump(clock, id, side);
    }

    /// The process's number for it means nothing from here on (another life may use it again).
    fn forget_name(&mut self, host: HostId, conn: ConnId, id: ConnectionId, side: Side) {
        if self.is_named(host, conn, id, side) {
            self.conns[host.index()].remove(&conn);
        }
    }

    /// The process is done with its end. With bytes unread that is a reset, as TCP has it.
    pub(crate) fn end_is_gone(&mut self, clock: &mut Clockwork, id: ConnectionId, side: Side) {
        let connection = self.connections[id as usize].as_mut();
        let connection = connection.expect("the end of a connection that exists");
        let s = usize::from(side);
        let end = &mut connection.ends[s];
        let (host, conn, resets) = (end.host, end.conn, end.resets);
        let before = std::mem::replace(&mut end.state, State::Gone);
        self.forget_name(host, conn, id, side);
        let connection = self.connections[id as usize].as_mut();
        let connection = connection.expect("the end of a connection that exists");
        match before {
            State::Opening => self.connections[id as usize] = None,
            State::Failed(_) | State::Lingering | State::Gone => self.remove_if_over(id),
            State::Open | State::Flushing => {
                let incoming = &mut connection.streams[1 - s];
                if resets || incoming.unread() > 0 {
                    incoming.discard_unread();
                    self.send_reset(clock, id, side);
                } else {
                    connection.streams[s].shut();
                    self.pump(clock, id, side);
                }
            }
        }
    }

    /// From the end at `side`, behind what it has sent so far.
    pub(crate) fn send_reset(&mut self, clock: &mut Clockwork, id: ConnectionId, side: Side) {
        let latency_us = clock.random.within(&self.model.latency_us);
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        let outgoing = &mut connection.streams[usize::from(side)];
        let at = outgoing.send_reset(clock.now + Duration::from_micros(latency_us));
        let (connection, to) = (id, 1 - side);
        clock.schedule(at, Event::Reset { connection, to });
    }

    pub(crate) fn on_reset(&mut self, clock: &mut Clockwork, id: ConnectionId, to: Side) {
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        connection.streams[usize::from(1 - to)].die();
        let [from, to_host] = [1 - to, to].map(|side| connection.ends[usize::from(side)].host);
        if self.is_blocked(from, to_host) {
            // Nobody repeats a reset: its receiver finds out when it next sends.
            return self.remove_if_over(id);
        }
        self.fail_end(clock, id, to, io::ErrorKind::ConnectionReset);
    }

    /// All that the process asked of this end fails, now and until it closes.
    pub(crate) fn fail_end(
        &mut self,
        clock: &mut Clockwork,
        id: ConnectionId,
        side: Side,
        kind: io::ErrorKind,
    ) {
        let s = usize::from(side);
        let connection = self.connections[id as usize].as_mut();
        let connection = connection.expect("the end of a connection that exists");
        let end = &mut connection.ends[s];
        let (host, conn) = (end.host, end.conn);
        let before = end.state;
        end.state = match before {
            State::Lingering | State::Gone => State::Gone,
            State::Failed(first) => State::Failed(first),
            _ => State::Failed(kind),
        };
        let receives = match before {
            State::Opening => std::mem::take(&mut end.receives),
            _ => VecDeque::new(),
        };
        let mut sends = connection.streams[s].take_sends();
        connection.streams[s].die();
        if clock.random.coin() {
            // Bytes that had arrived are not always still read.
            connection.streams[1 - s].discard_unread();
        }
        if before == State::Opening {
            let result = Err(kind.into());
            let node = None;
            clock.deliver(host, Completion::Connected { conn, result, node });
        }
        for receive in receives {
            clock.deliver(host, received(conn, receive, Err(kind.into())));
        }
        if !self.is_named(host, conn, id, side) {
            sends = 0;
        }
        for _ in 0..sends {
            let result = Err(kind.into());
            clock.deliver(host, Completion::Sent { conn, result });
        }
        match before {
            // It never was a connection.
            State::Opening => {
                self.forget_name(host, conn, id, side);
                self.connections[id as usize] = None;
                return;
            }
            State::Flushing => self.end_is_gone(clock, id, side),
            _ => self.serve(clock, id, side),
        }
        self.remove_if_over(id);
    }

    /// Both processes are done, and so are their kernels.
    pub(crate) fn remove_if_over(&mut self, id: ConnectionId) {
        let Some(connection) = &self.connections[id as usize] else {
            return;
        };
        let gone = |end: &End| end.state == State::Gone;
        if connection.ends.iter().all(gone) && connection.streams.iter().all(Stream::is_over) {
            self.connections[id as usize] = None;
        }
    }

    /// The process ended, and its kernel closes what it had open: after a crash also with resets.
    pub(crate) fn process_ended(&mut self, clock: &mut Clockwork, host: HostId, crashed: bool) {
        self.listeners.retain(|(listener, _), _| *listener != host);
        let conns: Vec<ConnId> = self.conns[host.index()].keys().copied().collect();
        for conn in conns {
            let (id, side) = self.conns[host.index()][&conn];
            let connection = self.connections[id as usize].as_mut();
            let connection = connection.expect("a process's connection exists");
            let state = connection.ends[usize::from(side)].state;
            let opening = state == State::Opening;
            if state == State::Flushing && !crashed {
                // Its last words still go out, and nobody is told.
                self.forget_name(host, conn, id, side);
                continue;
            }
            if state == State::Flushing {
                self.abort(clock, id, side);
                self.end_is_gone(clock, id, side);
            } else if opening || !crashed || clock.random.coin() {
                self.close(clock, host, conn, false);
            } else {
                connection.ends[usize::from(side)].receives.clear();
                connection.ends[usize::from(side)].state = State::Gone;
                self.conns[host.index()].remove(&conn);
                self.send_reset(clock, id, side);
            }
        }
        for id in 0..self.connections.len() as ConnectionId {
            for side in 0..2 {
                let Some(connection) = &mut self.connections[id as usize] else {
                    continue;
                };
                let end = &mut connection.ends[side];
                if end.host == host && end.state == State::Lingering {
                    end.state = State::Gone;
                    self.remove_if_over(id);
                }
            }
        }
    }

    /// The machine is gone, without a word to anybody.
    pub(crate) fn machine_vanished(&mut self, host: HostId) {
        self.vanished.insert(host);
        self.listeners.retain(|(listener, _), _| *listener != host);
        for (_, (id, side)) in std::mem::take(&mut self.conns[host.index()]) {
            let connection = self.connections[id as usize].as_mut();
            let connection = connection.expect("a process's connection exists");
            if connection.ends[usize::from(side)].state == State::Opening {
                self.connections[id as usize] = None;
                continue;
            }
            connection.ends[usize::from(side)].state = State::Gone;
            connection.ends[usize::from(side)].receives.clear();
            connection.streams[usize::from(side)].die();
            self.remove_if_over(id);
        }
        for connection in self.connections.iter_mut().flatten() {
            for s in [0, 1] {
                let end = &mut connection.ends[s];
                if end.host == host && matches!(end.state, State::Flushing | State::Lingering) {
                    end.state = State::Gone;
                    connection.streams[s].die();
                }
            }
            let end = &mut connection.ends[1];
            if end.host == host && end.state == State::Opening && connection.port.is_some() {
                // Nobody will remember the handshake: its last segment will be refused.
                connection.port = None;
            }
        }
    }

    pub(crate) fn is_blocked(&self, from: HostId, to: HostId) -> bool {
        (!self.cuts.is_empty() && self.cuts.contains(&(from, to)))
            || (!self.vanished.is_empty() && self.vanished.contains(&to))
    }
}

pub(crate) fn received(
    conn: ConnId,
    receive: PendingReceive,
    result: io::Result<Received>,
) -> Completion {
    Completion::Received {
        conn,
        buffer: receive.buffer,
        range: receive.range,
        result,
    }
}
