//! The connections of a machine of `talk`, in the simulated world.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ops::{Buffer, Completion, ConnId, Op, Slice, Time};
use talk::{Link, Output, Said};

const RECEIVE_BYTES: usize = 16 << 10;

/// Numbers links anew for each machine, and connections for the host's whole life.
#[derive(Default)]
pub(crate) struct Phones {
    ops: VecDeque<Op>,
    conns: u64,
    phones: BTreeMap<Link, Phone>,
}

struct Phone {
    conn: ConnId,
    /// While it is dialled.
    until: Option<Time>,
    /// Not with the kernel yet.
    sends: usize,
}

#[derive(Debug)]
pub(crate) enum Heard {
    Connected(Link),
    /// More is with the kernel.
    Sent,
    /// With the end of what is sent, if it came with these bytes.
    Received(Link, Vec<u8>, bool),
    Lost(Link, Said),
}

pub(crate) fn since_start(now: Time) -> Duration {
    now - Time::ZERO
}

/// A time that is not before the moment: a machine that is called too early asks to be called again.
pub(crate) fn time(moment: Duration) -> Time {
    let micros = moment.as_nanos().div_ceil(1000);
    Time::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

impl Phones {
    pub fn perform(&mut self, now: Time, output: &Output) {
        match output {
            Output::Connect(link, server, within) => {
                self.conns += 1;
                let conn = ConnId(self.conns * 2);
                let address = server.clone();
                self.ops.push_back(Op::Connect { conn, address });
                let phone = Phone {
                    conn,
                    until: Some(now + *within),
                    sends: 0,
                };
                self.phones.insert(*link, phone);
            }
            Output::Send(link, bytes) => self.send(*link, bytes),
            Output::Close(link) => {
                if let Some(phone) = self.phones.remove(link) {
                    let conn = phone.conn;
                    self.ops.push_back(Op::Close { conn, flush: false });
                }
            }
        }
    }

    pub fn send(&mut self, link: Link, bytes: &[u8]) {
        if let Some(phone) = self.phones.get_mut(&link) {
            phone.sends += 1;
            let conn = phone.conn;
            let slices = vec![Slice::copied_from(bytes)];
            self.ops.push_back(Op::Send { conn, slices });
        }
    }

    pub fn shutdown_write(&mut self, link: Link) {
        if let Some(phone) = self.phones.get(&link) {
            self.ops.push_back(Op::ShutdownWrite { conn: phone.conn });
        }
    }

    /// Sends of this connection that are not with the kernel yet.
    pub fn sends(&self, link: Link) -> usize {
        self.phones.get(&link).map_or(0, |phone| phone.sends)
    }

    /// Nothing of the machine is heard any more.
    pub fn close_all(&mut self, now: Time) {
        for link in self.phones.keys().copied().collect::<Vec<_>>() {
            self.perform(now, &Output::Close(link));
        }
    }

    /// Goes away without a word: for whom a clean end would say too much.
    pub fn abandon_all(&mut self) {
        self.phones.clear();
    }

    pub fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    /// When a dial takes too long.
    pub fn deadline(&self) -> Option<Time> {
        self.phones.values().filter_map(|phone| phone.until).min()
    }

    /// A dial that took too long.
    pub fn late(&mut self, now: Time) -> Option<Heard> {
        let late = |phone: &Phone| phone.until.is_some_and(|until| until <= now);
        let (link, _) = self.phones.iter().find(|(_, phone)| late(phone))?;
        let link = *link;
        self.perform(now, &Output::Close(link));
        Some(Heard::Lost(link, Said::Silent))
    }

    pub fn handle(&mut self, completion: Completion) -> Option<Heard> {
        match completion {
            Completion::Connected { conn, result, .. } => {
                let link = self.link_of(conn)?;
                if result.is_err() {
                    self.phones.remove(&link);
                    return Some(Heard::Lost(link, Said::Refused));
                }
                self.phones.get_mut(&link)?.until = None;
                self.receive(conn, Buffer::new(RECEIVE_BYTES));
                Some(Heard::Connected(link))
            }
            Completion::Sent { conn, result } => {
                let link = self.link_of(conn)?;
                self.phones.get_mut(&link)?.sends -= 1;
                // An error will be heard too, behind what the other side said before it.
                result.is_ok().then_some(Heard::Sent)
            }
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } => {
                let link = self.link_of(conn)?;
                let Ok(received) = result else {
                    return Some(Heard::Lost(link, Said::Lost));
                };
                let bytes = buffer[range.start..range.start + received.count].to_vec();
                if !received.end {
                    self.receive(conn, buffer);
                }
                Some(Heard::Received(link, bytes, received.end))
            }
            _ => None,
        }
    }

    fn link_of(&self, conn: ConnId) -> Option<Link> {
        let found = self.phones.iter().find(|(_, phone)| phone.conn == conn);
        found.map(|(link, _)| *link)
    }

    fn receive(&mut self, conn: ConnId, buffer: Buffer) {
        let range = 0..buffer.len();
        self.ops.push_back(Op::Receive {
            conn,
            buffer,
            range,
            whole: false,
        });
    }
}
