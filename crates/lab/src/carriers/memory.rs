//! Nodes of one process, and queues between them: what no transport can beat.
//!
//! A slice that one node sends is the slice that the other one copies from, once. Nobody makes a system call for it, but for the one that wakes a
//! node which sleeps.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use carrier::{ACCEPTED_FROM, Carried, News, Way};
use linux::{Kernel, PostOffice};
use ops::{ConnId, Letter, Machine, MachineId, Slice};
use serve::{Carry, Seat};

use super::links::Links;
use super::window::Window;
use super::{Transport, refuse_splice};

/// The nodes of a process, by their addresses. Clones are the same.
#[derive(Clone, Default)]
pub struct Hub(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    offices: BTreeMap<String, PostOffice>,
    connections: u64,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One node's side.
pub struct Memory {
    hub: Hub,
    seat: Option<(String, PostOffice)>,
}

impl Memory {
    pub fn new(hub: &Hub) -> Memory {
        Memory {
            hub: hub.clone(),
            seat: None,
        }
    }
}

impl Carry for Memory {
    fn name(&self) -> &'static str {
        Transport::Memory.name()
    }

    fn set_up(&mut self, kernel: &mut Kernel, seat: &Seat) -> Result<()> {
        refuse_splice(kernel)?;
        let address = seat.bound.to_string();
        let mut known = self.hub.lock();
        known.offices.insert(address, seat.office.clone());
        self.seat = Some((seat.listen.clone(), seat.office.clone()));
        Ok(())
    }

    fn around<'a>(&'a mut self, node: &'a mut dyn Machine) -> Result<Box<dyn Machine + 'a>> {
        let (listen, office) = self.seat.clone().unwrap_or_default();
        let way = Queues {
            hub: self.hub.clone(),
            office,
            address: listen.clone(),
            links: Links::default(),
        };
        Ok(Box::new(Carried::new(node, way, listen, linux::now())))
    }
}

/// Queues of what nodes of a process write each other.
#[derive(Debug)]
enum Mail {
    Dialled {
        conn: ConnId,
        peer: String,
        link: Link,
    },
    News(Vec<News>),
    /// There is room again.
    Room(ConnId),
}

/// The other end of a connection.
#[derive(Debug)]
struct Link {
    office: PostOffice,
    far: ConnId,
    out: Arc<Window>,
    into: Arc<Window>,
}

struct Queues {
    hub: Hub,
    office: PostOffice,
    address: String,
    links: Links<Link>,
}

impl Link {
    /// False: there is nobody.
    fn write(&self, mail: Mail) -> bool {
        let letter = Letter::new(mail);
        self.office.post(MachineId::NOBODY, MachineId::NODE, letter)
    }
}

impl Queues {
    fn write(&mut self, conn: ConnId, news: Vec<News>) {
        if let Some(link) = self.links.get(conn)
            && !link.write(Mail::News(news))
        {
            self.links.tell(News::Broke { conn });
        }
    }
}

impl Way for Queues {
    fn dial(&mut self, conn: ConnId, address: String) {
        let mut known = self.hub.lock();
        let accepted = ConnId(ACCEPTED_FROM + known.connections * 2 + 1);
        known.connections += 1;
        let office = known.offices.get(&address).cloned();
        drop(known);
        let (out, into) = (Arc::<Window>::default(), Arc::<Window>::default());
        let link = office.map(|office| Link {
            office,
            far: accepted,
            out: out.clone(),
            into: into.clone(),
        });
        let back = Link {
            office: self.office.clone(),
            far: conn,
            out: into,
            into: out,
        };
        let dialled = Mail::Dialled {
            conn: accepted,
            peer: self.address.clone(),
            link: back,
        };
        let result = match link {
            Some(link) if link.write(dialled) => {
                self.links.insert(conn, link.out.clone(), link);
                Ok(())
            }
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        };
        self.links.tell_connected(conn, result);
    }

    fn send(&mut self, conn: ConnId, slices: Vec<Slice>) {
        let Some(has_room) = self.links.send(conn, &slices) else {
            return;
        };
        let Some(far) = self.links.get(conn).map(|link| link.far) else {
            return;
        };
        let news = slices.into_iter();
        let news = news.map(|slice| News::Arrived { conn: far, slice });
        self.write(conn, news.collect());
        if has_room {
            self.links.settle(conn);
        }
    }

    fn finish(&mut self, conn: ConnId) {
        if let Some(far) = self.links.get(conn).map(|link| link.far) {
            self.write(conn, vec![News::Ended { conn: far }]);
        }
    }

    fn leave(&mut self, conn: ConnId) {
        if let Some(link) = self.links.remove(conn) {
            link.write(Mail::News(vec![News::Left { conn: link.far }]));
        }
    }

    fn reset(&mut self, conn: ConnId) {
        if let Some(link) = self.links.remove(conn) {
            link.write(Mail::News(vec![News::Broke { conn: link.far }]));
        }
    }

    fn took(&mut self, conn: ConnId, bytes: usize) {
        if let Some(link) = self.links.get(conn)
            && link.into.take(bytes)
        {
            link.write(Mail::Room(link.far));
        }
    }

    fn open(&mut self, letter: Letter) -> Result<Vec<News>, Letter> {
        Ok(match letter.open::<Mail>()? {
            Mail::Dialled { conn, peer, link } => {
                self.links.insert(conn, link.out.clone(), link);
                vec![News::Accepted { conn, peer }]
            }
            Mail::News(news) => news,
            Mail::Room(conn) => {
                self.links.settle(conn);
                Vec::new()
            }
        })
    }

    fn take_told(&mut self) -> Option<News> {
        self.links.take_told()
    }

    fn is_quiet(&self) -> bool {
        self.links.is_quiet()
    }

    /// Bytes that were sent lie with the other node already.
    fn is_flushed(&self) -> bool {
        true
    }
}
