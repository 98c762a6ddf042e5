//! A machine whose words to other nodes, and theirs to it, go by another way than the kernel's.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use ops::{Completion, ConnId, Machine, Op, Slice, Time};

use crate::inflow::{Inflow, Lent};
use crate::way::{News, Way};

/// A node around which the connections to and from other nodes are a [`Way`]'s. A node dials only other nodes.
///
/// All else is passed on to the kernel: clients, the disk, letters. The node cannot tell the difference.
pub struct Carried<'a, W: Way> {
    node: &'a mut dyn Machine,
    way: W,
    links: BTreeMap<ConnId, Link>,
    lent: Lent,
    /// The name of the listener at which other nodes are accepted.
    listener: String,
    /// For the node.
    told: VecDeque<Completion>,
    now: Time,
}

/// One connection.
struct Link {
    inflow: Inflow,
    is_connecting: bool,
    /// Sends that are not answered.
    sends: usize,
    /// Nothing can be sent any more.
    takes_none: bool,
    /// The node has closed it, and is owed answers to sends alone.
    is_closed: bool,
}

fn closed_here() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the connection was closed on this side",
    )
}

impl<'a, W: Way> Carried<'a, W> {
    /// `listener`: the address that the node calls its own.
    pub fn new(node: &'a mut dyn Machine, way: W, listener: String, now: Time) -> Carried<'a, W> {
        Carried {
            node,
            way,
            links: BTreeMap::new(),
            lent: Lent::new(),
            listener,
            told: VecDeque::new(),
            now,
        }
    }

    /// Does an op of a connection between nodes; others are the kernel's.
    fn take(&mut self, op: Op) -> Option<Op> {
        match op {
            Op::Connect { conn, address } => {
                self.links.insert(conn, Link::new(conn, true));
                self.way.dial(conn, address);
            }
            Op::Receive {
                conn,
                buffer,
                range,
                whole,
            } => {
                let Some(link) = self.open_link(conn) else {
                    return Some(Op::Receive {
                        conn,
                        buffer,
                        range,
                        whole,
                    });
                };
                link.inflow.want(buffer, range, whole);
                self.fill(conn);
            }
            Op::ReceiveWhenThere { conn, bytes_max } => {
                let Some(link) = self.open_link(conn) else {
                    return Some(op);
                };
                link.inflow.want_when_there(bytes_max);
                self.fill(conn);
            }
            Op::Send { conn, slices } => return self.send(conn, slices),
            Op::ShutdownWrite { conn } => {
                let Some(link) = self.open_link(conn) else {
                    return Some(op);
                };
                link.takes_none = true;
                self.way.finish(conn);
            }
            Op::Close { conn, flush } => {
                let Some(link) = self.open_link(conn) else {
                    return Some(op);
                };
                let is_cut = link.inflow.has_unread() || link.sends > 0;
                match link.is_connecting || (!flush && is_cut) {
                    true => self.cut(conn),
                    false => self.close(conn),
                }
            }
            Op::Reset { conn } => {
                if self.open_link(conn).is_none() {
                    return Some(op);
                }
                self.cut(conn);
            }
            op => return Some(op),
        }
        None
    }

    /// The connection, if it is one between nodes that the node has not closed. The kernel answers the ops of others.
    fn open_link(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.links.get_mut(&conn).filter(|link| !link.is_closed)
    }

    fn send(&mut self, conn: ConnId, slices: Vec<Slice>) -> Option<Op> {
        let Some(link) = self.open_link(conn) else {
            return Some(Op::Send { conn, slices });
        };
        if link.takes_none {
            let result = Err(io::ErrorKind::BrokenPipe.into());
            self.told.push_back(Completion::Sent { conn, result });
            return None;
        }
        link.sends += 1;
        self.way.send(conn, slices);
        None
    }

    fn close(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else {
            return;
        };
        link.inflow.fail(&closed_here, &mut self.told);
        link.is_closed = true;
        let is_over = link.sends == 0;
        self.way.finish(conn);
        self.way.leave(conn);
        if is_over {
            self.links.remove(&conn);
        }
    }

    fn cut(&mut self, conn: ConnId) {
        self.way.reset(conn);
        self.fail(conn, &closed_here);
        self.links.remove(&conn);
    }

    /// Answers all that the connection owes with an error.
    fn fail(&mut self, conn: ConnId, error: &dyn Fn() -> io::Error) {
        let Some(link) = self.links.get_mut(&conn) else {
            return;
        };
        if std::mem::take(&mut link.is_connecting) {
            self.told.push_back(Completion::Connected {
                conn,
                result: Err(error()),
                node: None,
            });
        }
        link.inflow.fail(error, &mut self.told);
        self.fail_sends(conn, error);
    }

    fn fail_sends(&mut self, conn: ConnId, error: &dyn Fn() -> io::Error) {
        let Some(link) = self.links.get_mut(&conn) else {
            return;
        };
        link.takes_none = true;
        for _ in 0..std::mem::take(&mut link.sends) {
            let result = Err(error());
            self.told.push_back(Completion::Sent { conn, result });
        }
    }

    fn fill(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else {
            return;
        };
        let taken = link.inflow.fill(&self.lent, &mut self.told);
        if taken > 0 {
            self.way.took(conn, taken);
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Accepted { conn, peer } => {
                self.links.insert(conn, Link::new(conn, false));
                self.told.push_back(Completion::Accepted {
                    conn,
                    peer,
                    listener: self.listener.clone(),
                    is_own: false,
                    node: None,
                    client: None,
                });
            }
            News::Connected { conn, result } => {
                let Some(link) = self.open_link(conn) else {
                    return;
                };
                match result {
                    Ok(()) => {
                        link.is_connecting = false;
                        self.told.push_back(Completion::Connected {
                            conn,
                            result,
                            node: None,
                        });
                    }
                    Err(error) => {
                        self.fail(conn, &|| io::Error::new(error.kind(), error.to_string()));
                        self.links.remove(&conn);
                    }
                }
            }
            News::Sent { conn } => {
                let Some(link) = self.links.get_mut(&conn).filter(|link| link.sends > 0) else {
                    return;
                };
                link.sends -= 1;
                let is_over = link.is_closed && link.sends == 0;
                let result = Ok(());
                self.told.push_back(Completion::Sent { conn, result });
                if is_over {
                    self.links.remove(&conn);
                }
            }
            News::Arrived { conn, slice } => {
                let bytes = slice.len();
                match self.open_link(conn) {
                    Some(link) => {
                        link.inflow.arrived(slice);
                        self.fill(conn);
                    }
                    // Nobody reads it, and nobody waits for room.
                    None => self.way.took(conn, bytes),
                }
            }
            News::Ended { conn } => {
                if let Some(link) = self.open_link(conn) {
                    link.inflow.end();
                    self.fill(conn);
                }
            }
            News::Left { conn } => {
                self.fail_sends(conn, &|| io::ErrorKind::BrokenPipe.into());
                self.forget_if_closed(conn);
            }
            News::Broke { conn } => {
                self.fail_sends(conn, &|| io::ErrorKind::ConnectionReset.into());
                if let Some(link) = self.open_link(conn) {
                    link.inflow.break_off();
                    self.fill(conn);
                }
                self.forget_if_closed(conn);
            }
        }
    }

    fn forget_if_closed(&mut self, conn: ConnId) {
        if self.links.get(&conn).is_some_and(|link| link.is_closed) {
            self.links.remove(&conn);
        }
    }

    fn tell(&mut self, now: Time) {
        loop {
            if let Some(news) = self.way.take_told() {
                self.hear(news);
            } else if let Some(completion) = self.told.pop_front() {
                self.node.handle(now, completion);
            } else {
                return;
            }
        }
    }
}

impl Link {
    fn new(conn: ConnId, is_connecting: bool) -> Link {
        Link {
            inflow: Inflow::new(conn),
            is_connecting,
            sends: 0,
            takes_none: false,
            is_closed: false,
        }
    }
}

impl<W: Way> Machine for Carried<'_, W> {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.now = self.now.max(now);
        let completion = match completion {
            Completion::Delivered { from, letter } => match self.way.open(letter) {
                Ok(news) => {
                    news.into_iter().for_each(|news| self.hear(news));
                    return;
                }
                Err(letter) => Completion::Delivered { from, letter },
            },
            completion => completion,
        };
        self.node.handle(now, completion);
    }

    fn on_time(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.tell(now);
        self.node.on_time(now);
    }

    fn poll_op(&mut self) -> Option<Op> {
        loop {
            let op = self.node.poll_op()?;
            if let Some(op) = self.take(op) {
                return Some(op);
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self.told.is_empty() && self.way.is_quiet() {
            true => self.node.deadline(),
            false => Some(self.now),
        }
    }

    /// Last words are said before the end.
    fn is_finished(&self) -> bool {
        self.node.is_finished() && self.way.is_flushed()
    }
}
