//! Serves bytes to a peer that catches up: from disk, one chunk at a time, over a connection of its
//! own, so that it never stands in the way of proposals.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use formats::frame::{BytesHeader, BytesNotHere, FetchBytes};
use formats::{DataHeader, Frame, LogId};
use ops::{BLOCK, Buffer, ConnId, Slice};
use paxos::{NodeId, StreamPosition, Time};
use store::{ReadBytes, ReadFailure};
use wire::welcome::Welcome;

use crate::conns::Purpose;
use crate::env::Env;
use crate::lent::Core;
use crate::lent::{Ticket, Wanted};
use crate::replicate::Link;

struct Feeder {
    pub link: Link,
    requests: VecDeque<FetchBytes>,
    /// The chunk on its way from disk.
    reading: Option<Wanted>,
    sending: bool,
    rest: Option<Rest>,
}

/// The part of a record beyond the request: records are read and checked as a whole, and the next request
/// most likely begins here.
struct Rest {
    begins: Wanted,
    payload: Slice,
    since: Time,
}

const REQUESTS_MAX: usize = 16;

impl Feeder {
    /// Sends as much of `payload` as the first request asks for, which begins where the request does.
    fn send(&mut self, env: &mut Env, log: LogId, conn: ConnId, version: u8, payload: Slice) {
        let Some(fetch) = self.requests.front_mut() else {
            return;
        };
        let count = (payload.len() as u64).min(fetch.to.0 - fetch.from.0) as usize;
        let asked = payload.within(0..count);
        let header = DataHeader::Bytes(BytesHeader {
            log,
            request: fetch.request,
            stream: fetch.stream,
            position: fetch.from,
            digest: formats::digest(&asked),
            payload_length: count as u32,
        });
        fetch.from = StreamPosition(fetch.from.0 + count as u64);
        self.rest = (count < payload.len()).then(|| Rest {
            begins: Wanted::new(fetch.stream, fetch.from.0),
            payload: payload.after(count),
            since: env.now,
        });
        if fetch.from >= fetch.to {
            self.requests.pop_front();
        }
        self.sending = true;
        env.send(
            conn,
            vec![Slice::copied_from(&header.encode(version)), asked],
        );
    }
}

/// The requests of each peer, and the connection that it is served by.
#[derive(Default)]
pub(crate) struct Feeders {
    by_node: BTreeMap<NodeId, Feeder>,
}

impl Feeders {
    pub fn on_request(&mut self, core: &mut Core, env: &mut Env, peer: NodeId, fetch: FetchBytes) {
        if fetch.from >= fetch.to || core.stopped.is_some() {
            return;
        }
        let feeder = self.by_node.entry(peer).or_insert_with(|| Feeder {
            link: Link::Down {
                retry_at: Time::ZERO,
            },
            requests: VecDeque::new(),
            reading: None,
            sending: false,
            rest: None,
        });
        // A newer request replaces older ones: the peer gave up on those.
        if feeder.requests.len() >= REQUESTS_MAX {
            feeder.requests.pop_front();
        }
        feeder.requests.push_back(fetch);
        self.pump(core, env);
    }

    pub fn pump(&mut self, core: &mut Core, env: &mut Env) {
        let peers: Vec<NodeId> = self.by_node.keys().copied().collect();
        for peer in peers {
            let Some(feeder) = self.by_node.get_mut(&peer) else {
                continue;
            };
            let is_old = |rest: &Rest| env.now > rest.since + env.limits.ring_idle;
            feeder.rest = feeder.rest.take().filter(|rest| !is_old(rest));
            if feeder.reading.is_some() || feeder.sending || feeder.requests.is_empty() {
                continue;
            }
            match feeder.link {
                Link::Down { retry_at } if retry_at <= env.now => {
                    if let Some(address) = env.peers.addresses.get(&peer).cloned() {
                        let conn = env.connect(address, Purpose::FeedOut(core.id, peer));
                        feeder.link = Link::Connecting(conn, env.now);
                    }
                }
                Link::Up(conn, version) => {
                    let fetch = &feeder.requests[0];
                    let wanted = Wanted::new(fetch.stream, fetch.from.0);
                    let left = fetch.to.0 - fetch.from.0;
                    let rest = feeder.rest.take().filter(|rest| rest.begins == wanted);
                    if let Some(rest) = rest {
                        feeder.send(env, core.id, conn, version, rest.payload);
                        continue;
                    }
                    feeder.reading = Some(wanted);
                    let buffer = env.memory.batches.take();
                    core.read_from_store(Ticket::Feeder(peer), wanted, left, buffer);
                }
                _ => {}
            }
        }
    }

    pub fn on_bytes(
        &mut self,
        core: &mut Core,
        env: &mut Env,
        peer: NodeId,
        wanted: Wanted,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) {
        let Some(feeder) = self.by_node.get_mut(&peer) else {
            return;
        };
        if feeder.reading != Some(wanted) {
            return; // The answer to a feeder whose connection broke.
        }
        feeder.reading = None;
        let Link::Up(conn, version) = feeder.link else {
            return;
        };
        let asked = feeder.requests.front_mut();
        let Some(fetch) = asked.filter(|f| wanted == Wanted::new(f.stream, f.from.0)) else {
            return self.pump(core, env); // Newer requests replaced that one.
        };
        let Ok(bytes) = result else {
            let (request, stream, from) = (fetch.request, fetch.stream, fetch.from);
            feeder.requests.pop_front();
            env.out.outbox.push_back((
                peer,
                Frame::BytesNotHere(BytesNotHere {
                    log: core.id,
                    request,
                    stream,
                    from,
                }),
            ));
            return self.pump(core, env);
        };
        let payload = buffer.freeze().slice(bytes.payload);
        feeder.send(env, core.id, conn, version, payload);
    }

    pub fn on_connected(
        &mut self,
        core: &Core,
        env: &mut Env,
        peer: NodeId,
        conn: ConnId,
        ok: bool,
    ) {
        let Some(feeder) = self
            .by_node
            .get_mut(&peer)
            .filter(|f| f.link.conn() == Some(conn))
        else {
            return env.close(conn);
        };
        if !ok {
            return self.on_broken(env, peer, conn);
        }
        feeder.link = Link::Greeting(conn, env.now);
        let hello = env.hello(peer, "data", core.id);
        env.send_bytes(conn, &hello);
        env.receive(conn, Buffer::new(BLOCK), 0..BLOCK, false);
    }

    pub fn on_received(
        &mut self,
        core: &mut Core,
        env: &mut Env,
        peer: NodeId,
        conn: ConnId,
        buffer: Buffer,
        got: Range<usize>,
    ) {
        let Some(feeder) = self
            .by_node
            .get_mut(&peer)
            .filter(|f| f.link.conn() == Some(conn))
        else {
            return;
        };
        match feeder.link.answer(env, &buffer, &got) {
            Welcome::Taken { version, .. } => {
                feeder.link = Link::Up(conn, version);
                feeder.sending = false;
                env.receive(conn, buffer, 0..BLOCK, false);
                self.pump(core, env);
            }
            Welcome::NotYet => env.receive(conn, buffer, got.end..BLOCK, false),
            _ => self.on_broken(env, peer, conn),
        }
    }

    pub fn on_sent(
        &mut self,
        core: &mut Core,
        env: &mut Env,
        peer: NodeId,
        conn: ConnId,
        ok: bool,
    ) {
        let Some(feeder) = self
            .by_node
            .get_mut(&peer)
            .filter(|f| f.link.conn() == Some(conn))
        else {
            return;
        };
        if !ok {
            return self.on_broken(env, peer, conn);
        }
        if feeder.link.is_up() {
            feeder.sending = false;
            self.pump(core, env);
        }
    }

    /// Ends a broken connection. The peer asks again for what it still lacks.
    pub fn on_broken(&mut self, env: &mut Env, peer: NodeId, conn: ConnId) {
        env.close(conn);
        if self
            .by_node
            .get(&peer)
            .is_some_and(|f| f.link.conn() == Some(conn))
        {
            self.by_node.remove(&peer);
        }
    }

    /// Our connection to this peer, if there is one.
    pub fn link_to(&self, peer: NodeId) -> Option<ConnId> {
        self.by_node.get(&peer)?.link.conn()
    }

    /// The connections whose peers take too long to answer.
    pub fn late(&self, env: &Env) -> Vec<(NodeId, ConnId)> {
        let late = |link: &Link| link.conn().filter(|_| link.is_late(env));
        let links = self.by_node.iter();
        let links = links.filter_map(|(peer, f)| Some((*peer, late(&f.link)?)));
        links.collect()
    }
}
