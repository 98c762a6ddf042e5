//! One client: what it asked for at once, and what came back.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Instant;

use super::apart::Apart;
use super::book::{Book, Write as Version};
use super::connection::Connection;
use super::load::{Op, Tally};
use super::reply::Reply;
use super::slots::Map;
use super::values::{KEY_BYTES, Values, name_of};

/// The things that all clients share.
pub struct Shared {
    pub op: Op,
    pub map: Map,
    pub values: Values,
    pub book: Book,
    pub tally: Tally,
    /// Replies about slots that move, apart from those about others, if these are wanted.
    pub apart: Option<Apart>,
    /// Room for requests.
    request: Vec<u8>,
}

#[derive(Default)]
pub struct Client {
    /// By server.
    connections: Vec<Option<Connection>>,
    /// The one that was asked.
    server: usize,
    since: Option<Instant>,
    asked: Vec<Asked>,
    /// So many of these have replies.
    answered: usize,
    /// Those that another server answers for.
    again: Vec<Asked>,
    has_failed: bool,
}

struct Asked {
    key: u32,
    wants: Wants,
}

enum Wants {
    Done(Version),
    /// A value that is no older than this version.
    Value(u32),
}

/// The next thing to do for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Wait,
    /// All is answered.
    Ask,
    /// Something failed: a rest first.
    Rest,
}

/// A new connection is to be told to epoll: a server, by its number.
pub type Connect<'a> = &'a mut dyn FnMut(usize, SocketAddr) -> std::io::Result<Connection>;

impl Shared {
    pub fn new(map: Map, values: Values) -> Shared {
        let book = Book::new(map.keys());
        Shared {
            op: Op::Set,
            map,
            values,
            book,
            tally: Tally::new(),
            apart: None,
            request: Vec::new(),
        }
    }

    fn encode(&mut self, asked: &[Asked]) {
        self.request.clear();
        let out = &mut self.request;
        for one in asked {
            let name = name_of(one.key);
            // Writing into memory does not fail.
            let _ = match &one.wants {
                Wants::Done(_) => write!(out, "*3\r\n$3\r\nSET\r\n${KEY_BYTES}\r\n"),
                Wants::Value(_) => write!(out, "*2\r\n$3\r\nGET\r\n${KEY_BYTES}\r\n"),
            };
            out.extend_from_slice(&name);
            out.extend_from_slice(b"\r\n");
            if let Wants::Done(write) = &one.wants {
                let _ = write!(out, "${}\r\n", self.values.bytes());
                self.values.write(one.key, write.version, out);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Whether it is the reply that was wanted.
    fn take(&mut self, asked: &Asked, reply: Reply<'_>) -> Taken {
        let key = asked.key;
        match (&asked.wants, reply) {
            (Wants::Done(write), Reply::Ok) => self.book.done(key, *write),
            (Wants::Value(oldest), Reply::Value(value)) => {
                let version = self.values.version_of(key, value);
                if !version.is_some_and(|version| self.book.allows(key, *oldest, version)) {
                    let what =
                        version.map_or("no value of it".to_owned(), |v| format!("version {v}"));
                    self.tally.wrong(format!(
                        "key {key} shows {what}, where version {oldest} was written before"
                    ));
                    return Taken::Wrong;
                }
            }
            (Wants::Value(0), Reply::NoValue) => {}
            (Wants::Value(oldest), Reply::NoValue) => {
                self.tally.wrong(format!(
                    "key {key} shows nothing, where version {oldest} was written before"
                ));
                return Taken::Wrong;
            }
            (_, Reply::Error(error)) if self.map.learn(error) => return Taken::Moved,
            (wants, Reply::Error(error)) => {
                // A command that is answered with an error was not executed.
                if let Wants::Done(_) = wants {
                    self.book.refused(key);
                }
                let why = || String::from_utf8_lossy(error).into_owned();
                self.tally.failed(1, why);
                return Taken::Failed;
            }
            (wants, reply) => {
                if let Wants::Done(_) = wants {
                    self.book.lost(key);
                }
                self.tally
                    .wrong(format!("a command about key {key} is answered {reply:?}"));
                return Taken::Wrong;
            }
        }
        Taken::Well
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Well,
    Wrong,
    Failed,
    Moved,
}

impl Client {
    /// When it last asked.
    pub fn asked_at(&self) -> Option<Instant> {
        self.since
    }

    /// Asks for these keys, which one server answers for.
    pub fn ask(&mut self, keys: &[u32], shared: &mut Shared, connect: Connect<'_>) -> Next {
        let book = &mut shared.book;
        let asked = keys.iter().map(|key| Asked {
            key: *key,
            wants: match shared.op {
                Op::Set => Wants::Done(book.begin(*key)),
                Op::Get => Wants::Value(book.oldest(*key)),
            },
        });
        self.asked.clear();
        self.asked.extend(asked);
        self.since = Some(Instant::now());
        self.has_failed = false;
        self.send(shared, connect)
    }

    fn send(&mut self, shared: &mut Shared, connect: Connect<'_>) -> Next {
        self.answered = 0;
        let Some(first) = self.asked.first() else {
            return Next::Ask;
        };
        let server = shared.map.range_of(first.key).server;
        self.server = server;
        if self.connections.len() <= server {
            self.connections.resize_with(server + 1, || None);
        }
        let connection = match &mut self.connections[server] {
            Some(connection) => connection,
            none => match connect(server, shared.map.servers[server]) {
                Ok(connection) => none.insert(connection),
                Err(error) => {
                    for one in self.asked.drain(..) {
                        if let Wants::Done(_) = one.wants {
                            shared.book.refused(one.key);
                        }
                        shared.tally.failed(1, || format!("no connection: {error}"));
                    }
                    return Next::Rest;
                }
            },
        };
        shared.encode(&self.asked);
        match connection.send(&shared.request) {
            Ok(()) => Next::Wait,
            Err(error) => self.lose(shared, &error),
        }
    }

    /// Something happened to the connection to this server. `piece`: room for what is read.
    pub fn on_event(
        &mut self,
        server: usize,
        shared: &mut Shared,
        piece: &mut [u8],
        connect: Connect<'_>,
    ) -> Next {
        let Some(Some(connection)) = self.connections.get_mut(server) else {
            return Next::Wait;
        };
        let is_asked = server == self.server;
        let (asked, answered) = (&mut self.asked, &mut self.answered);
        let (again, has_failed) = (&mut self.again, &mut self.has_failed);
        let (mut well, mut is_odd) = (0, false);
        let since = self.since;
        let take = |reply: Reply<'_>| {
            let one = asked.get(*answered).filter(|_| is_asked);
            let Some(one) = one else {
                is_odd = true;
                return;
            };
            *answered += 1;
            match shared.take(one, reply) {
                Taken::Well => {
                    well += 1;
                    if let (Some(apart), Some(since)) = (&mut shared.apart, since) {
                        apart.answered(one.key, since.elapsed());
                    }
                }
                Taken::Moved => again.push(Asked {
                    key: one.key,
                    wants: match &one.wants {
                        Wants::Done(write) => Wants::Done(*write),
                        Wants::Value(oldest) => Wants::Value(*oldest),
                    },
                }),
                Taken::Failed => *has_failed = true,
                Taken::Wrong => {}
            }
        };
        let received = connection.flush();
        let received = received.and_then(|()| connection.receive(piece, take));
        if let Some(since) = self.since {
            shared.tally.answered(well, since.elapsed());
        }
        if is_odd {
            shared
                .tally
                .wrong("a reply to nothing that was asked".to_owned());
        }
        match received {
            Err(error) if is_asked && !self.asked.is_empty() => return self.lose(shared, &error),
            Err(_) => {
                // It was not needed just now.
                self.connections[server] = None;
                return Next::Wait;
            }
            Ok(()) => {}
        }
        if !is_asked || self.asked.is_empty() || self.answered < self.asked.len() {
            return Next::Wait;
        }
        if !self.again.is_empty() {
            self.asked.clear();
            std::mem::swap(&mut self.asked, &mut self.again);
            return self.send(shared, connect);
        }
        self.asked.clear();
        match self.has_failed {
            true => Next::Rest,
            false => Next::Ask,
        }
    }

    /// The connection is over: nobody knows what became of what was not answered.
    fn lose(&mut self, shared: &mut Shared, error: &std::io::Error) -> Next {
        self.connections[self.server] = None;
        let why = || format!("a connection ended: {error}");
        for one in self.asked.drain(..).skip(self.answered) {
            if let Wants::Done(_) = one.wants {
                shared.book.lost(one.key);
            }
            shared.tally.failed(1, why);
        }
        for one in self.again.drain(..) {
            if let Wants::Done(_) = one.wants {
                shared.book.refused(one.key);
            }
            shared.tally.failed(1, why);
        }
        Next::Rest
    }
}
