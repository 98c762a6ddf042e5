//! The beginning of connections: a first segment, its answer, and the answer to that.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use ops::{Completion, ConnId};

use crate::HostId;
use crate::clockwork::{Clockwork, Event};
use crate::net::{Connection, ConnectionId, End, Network, State};
use crate::stream::Stream;

impl Network {
    pub(crate) fn listen(&mut self, clock: &mut Clockwork, host: HostId, address: String) {
        let error = match self.listening_port(host, &address) {
            Err(kind) => kind,
            Ok(port) => {
                let listener = self.listeners.entry((host, port));
                if *listener.or_insert_with(|| address.clone()) == address {
                    return;
                }
                io::ErrorKind::AddrInUse
            }
        };
        let error = error.into();
        clock.deliver(host, Completion::ListenFailed { address, error });
    }

    fn listening_port(&self, host: HostId, address: &str) -> Result<u16, io::ErrorKind> {
        let (name, port) = parse(address)?;
        let here = name == self.names[host.index()] || is_any(name) || is_local(name);
        here.then_some(port).ok_or(io::ErrorKind::AddrNotAvailable)
    }

    pub(crate) fn connect(
        &mut self,
        clock: &mut Clockwork,
        host: HostId,
        conn: ConnId,
        address: &str,
    ) {
        assert!(conn.0.is_multiple_of(2), "{conn:?} is not the process's");
        let named = parse(address).and_then(|(name, port)| {
            let to = match is_local(name) {
                true => Some(host.index()),
                false => self.names.iter().position(|n| n == name),
            };
            // As a name that cannot be looked up.
            to.map(|to| (to, port)).ok_or(io::ErrorKind::Other)
        });
        let unreachable = named.err();
        let (to, port) = named.ok().unzip();
        let end = |host, conn| End {
            resets: false,
            host,
            conn,
            state: State::Opening,
            receives: VecDeque::new(),
        };
        let to = to.map(|index| HostId(index as u32));
        let buffer_bytes = self.model.receive_buffer_bytes;
        let connection = Connection {
            ends: [end(host, conn), end(to.unwrap_or(host), ConnId(0))],
            streams: [Stream::new(buffer_bytes), Stream::new(buffer_bytes)],
            port,
            unreachable,
            connect_until: clock.now + Duration::from_micros(self.model.connect_timeout_us),
        };
        let id = self.connections.len() as ConnectionId;
        self.connections.push(Some(Box::new(connection)));
        let before = self.conns[host.index()].insert(conn, (id, 0));
        assert!(before.is_none(), "{conn:?} is in use");
        let latency_us = clock.random.within(&self.model.latency_us);
        clock.after(
            Duration::from_micros(latency_us),
            Event::Syn { connection: id },
        );
    }

    pub(crate) fn on_syn(&mut self, clock: &mut Clockwork, id: ConnectionId) {
        let Some(connection) = &self.connections[id as usize] else {
            return;
        };
        if let Some(kind) = connection.unreachable {
            return self.fail_end(clock, id, 0, kind);
        }
        let [from, to] = [connection.ends[0].host, connection.ends[1].host];
        let until = connection.connect_until;
        if self.is_blocked(from, to) || self.is_blocked(to, from) {
            if clock.now >= until {
                return self.fail_end(clock, id, 0, io::ErrorKind::TimedOut);
            }
            let again = (clock.now + Duration::from_secs(1)).min(until);
            return clock.schedule(again, Event::Syn { connection: id });
        }
        let port = connection.port;
        let accepted = port.is_some_and(|port| self.listeners.contains_key(&(to, port)));
        let latency_us = clock.random.within(&self.model.latency_us);
        let connection = id;
        clock.after(
            Duration::from_micros(latency_us),
            Event::SynAnswer {
                connection,
                accepted,
            },
        );
    }

    pub(crate) fn on_syn_answer(
        &mut self,
        clock: &mut Clockwork,
        id: ConnectionId,
        accepted: bool,
    ) {
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        let [from, to] = [connection.ends[0].host, connection.ends[1].host];
        if self.is_blocked(to, from) {
            return self.on_syn(clock, id);
        }
        if !accepted {
            return self.fail_end(clock, id, 0, io::ErrorKind::ConnectionRefused);
        }
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        connection.ends[0].state = State::Open;
        let conn = connection.ends[0].conn;
        let shown = self.shown(to, from);
        clock.deliver(
            from,
            Completion::Connected {
                conn,
                result: Ok(()),
                node: shown,
            },
        );
        // The answer to the answer: an empty first segment, at which the other side accepts.
        self.put_in_flight(clock, id, 0, 0, false);
        self.pump(clock, id, 0);
    }

    /// The opener's first segment has arrived. False if nobody listens any more.
    pub(crate) fn accept(&mut self, clock: &mut Clockwork, id: ConnectionId) -> bool {
        let Some(connection) = &mut self.connections[id as usize] else {
            return false;
        };
        let host = connection.ends[1].host;
        let port = connection.port;
        let Some(listener) = port.and_then(|port| self.listeners.get(&(host, port))) else {
            connection.ends[1].state = State::Gone;
            return false;
        };
        let listener = listener.clone();
        let accepted = &mut self.accepted[host.index()];
        let conn = ConnId(*accepted * 2 + 1);
        *accepted += 1;
        connection.ends[1].conn = conn;
        connection.ends[1].state = State::Open;
        self.conns[host.index()].insert(conn, (id, 1));
        let from = connection.ends[0].host;
        let is_own = self.owners.contains(&from);
        let peer = format!("{}:{}", self.names[from.index()], 32768 + id % 28000);
        clock.deliver(
            host,
            Completion::Accepted {
                conn,
                peer,
                listener,
                is_own,
                node: self.shown(from, host),
                client: self.clients.get(&from).cloned(),
            },
        );
        true
    }

    /// The name in the certificate that the first host shows to the second. Both have one, or they speak in plain text.
    fn shown(&self, who: HostId, to: HostId) -> Option<String> {
        self.certificates.get(&to)?;
        self.certificates.get(&who).cloned()
    }
}

fn parse(address: &str) -> Result<(&str, u16), io::ErrorKind> {
    let parts = address.rsplit_once(':');
    let parsed = parts.and_then(|(name, port)| Some((name, port.parse().ok()?)));
    parsed.ok_or(io::ErrorKind::InvalidInput)
}

fn is_any(name: &str) -> bool {
    ["", "*", "0.0.0.0", "[::]"].contains(&name)
}

fn is_local(name: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}
