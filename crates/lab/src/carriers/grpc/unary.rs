//! A call for each send, whose answer is ignored: gRPC as the paper used it.
//!
//! Calls may overtake each other, so each is numbered, and the hearer puts them in their order. The one answer that counts is that to a dialling
//! node, which is told the connection's number.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use carrier::{News, Way};
use ops::{ConnId, Letter, Slice};
use tokio::runtime::Handle;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::codec::{Kind, Message, Plain};
use super::server::SEND;
use super::{Channels, Intake, Side, UnderWay, news_of, ready, refused};
use crate::carriers::links::Links;

/// Events that the threads of tonic tell.
#[derive(Debug)]
enum Mail {
    Accepted {
        conn: ConnId,
        far: ConnId,
        peer: String,
        intake: Arc<Intake>,
    },
    /// The other side calls the connection so.
    Dialled {
        conn: ConnId,
        far: ConnId,
    },
    Room(ConnId),
}

/// One connection's messages, put in their order.
#[derive(Default)]
struct Order {
    next: u64,
    early: BTreeMap<u64, Message>,
    intake: Arc<Intake>,
}

/// The connections on which messages come.
#[derive(Default)]
pub struct Incoming(Mutex<BTreeMap<ConnId, Order>>);

impl Incoming {
    fn expect(&self, conn: ConnId) -> Arc<Intake> {
        let order = Order::default();
        let intake = order.intake.clone();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(conn, order);
        intake
    }

    fn forget(&self, conn: ConnId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&conn);
    }

    /// Answers once there is room for more.
    pub async fn hear(&self, side: &Side, message: Message) -> Result<Message, Status> {
        if message.kind == Kind::Dial {
            return Ok(self.accept(side, &message));
        }
        let conn = message.conn;
        let intake = self.put(side, message)?;
        intake.has_room().await;
        Ok(Message::new(Kind::Bytes, conn, 0, Vec::new()))
    }

    fn accept(&self, side: &Side, message: &Message) -> Message {
        let conn = side.new_conn();
        side.write(Mail::Accepted {
            conn,
            far: message.conn,
            peer: message.text(),
            intake: self.expect(conn),
        });
        Message::new(Kind::Dial, conn, 0, Vec::new())
    }

    /// ‡ What is next is told under the lock: two calls that come at once are told in their order.
    fn put(&self, side: &Side, message: Message) -> Result<Arc<Intake>, Status> {
        let conn = message.conn;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let order = all.get_mut(&conn);
        let order = order.ok_or_else(|| Status::not_found("there is no such connection"))?;
        order.early.insert(message.number, message);
        let mut told = Vec::new();
        while let Some(message) = order.early.remove(&order.next) {
            order.next += 1;
            match message.kind {
                Kind::Bytes => {
                    order.intake.add(message.bytes());
                    let news = message.slices.into_iter();
                    told.extend(news.map(|slice| News::Arrived { conn, slice }));
                }
                Kind::End => told.push(News::Ended { conn }),
                Kind::Left => told.push(News::Left { conn }),
                Kind::Reset | Kind::Dial => told.push(News::Broke { conn }),
            }
        }
        let intake = order.intake.clone();
        if !told.is_empty() {
            side.write(told);
        }
        Ok(intake)
    }
}

struct Link {
    channel: Channel,
    /// `None`: it was not answered yet.
    far: Option<ConnId>,
    /// Said before that.
    early: Vec<(Kind, Vec<Slice>)>,
    next: u64,
    intake: Arc<Intake>,
    /// To be forgotten once it is answered and said.
    is_over: bool,
}

/// One node's calls.
pub struct Calls {
    handle: Handle,
    side: Arc<Side>,
    channels: Channels,
    links: Links<Link>,
}

impl Calls {
    pub fn new(handle: Handle, side: Arc<Side>) -> Calls {
        Calls {
            handle,
            side,
            channels: Channels::default(),
            links: Links::default(),
        }
    }

    fn link(
        &mut self,
        address: &str,
        far: Option<ConnId>,
        intake: Arc<Intake>,
    ) -> io::Result<Link> {
        let _entered = self.handle.enter();
        Ok(Link {
            channel: self.channels.to(address)?,
            far,
            early: Vec::new(),
            next: 0,
            intake,
            is_over: false,
        })
    }

    fn say(&mut self, conn: ConnId, kind: Kind, slices: Vec<Slice>) {
        let window = self.links.window(conn);
        let (Some(window), Some(link)) = (window, self.links.get_mut(conn)) else {
            return;
        };
        let Some(far) = link.far else {
            link.early.push((kind, slices));
            return;
        };
        let message = Message::new(kind, far, link.next, slices);
        link.next += 1;
        let (side, channel) = (self.side.clone(), link.channel.clone());
        let is_last = matches!(kind, Kind::Left | Kind::Reset);
        let under_way = UnderWay::of(&self.side);
        self.handle.spawn(async move {
            let _under_way = under_way;
            let bytes = message.bytes();
            let answer = call(channel, message).await;
            if window.take(bytes) {
                side.write(Mail::Room(conn));
            }
            if answer.is_err() && !is_last {
                side.tell(News::Broke { conn });
            }
        });
    }

    fn end(&mut self, conn: ConnId, kind: Kind) {
        self.say(conn, kind, Vec::new());
        self.side.incoming.forget(conn);
        if let Some(link) = self.links.get_mut(conn) {
            link.intake.abandon();
            link.is_over = true;
            if link.far.is_some() {
                self.links.remove(conn);
            }
        }
    }

    fn on_dialled(&mut self, conn: ConnId, far: ConnId) -> Vec<News> {
        let Some(link) = self.links.get_mut(conn) else {
            return Vec::new();
        };
        link.far = Some(far);
        let is_over = link.is_over;
        for (kind, slices) in std::mem::take(&mut link.early) {
            self.say(conn, kind, slices);
        }
        if is_over {
            self.links.remove(conn);
            return Vec::new();
        }
        let result = Ok(());
        vec![News::Connected { conn, result }]
    }
}

impl Way for Calls {
    fn dial(&mut self, conn: ConnId, address: String) {
        let intake = self.side.incoming.expect(conn);
        let link = match self.link(&address, None, intake) {
            Ok(link) => link,
            Err(error) => {
                self.side.incoming.forget(conn);
                self.links.tell_connected(conn, Err(error));
                return;
            }
        };
        let (channel, side) = (link.channel.clone(), self.side.clone());
        self.links.insert(conn, Arc::default(), link);
        let own = Slice::copied_from(side.address.as_bytes());
        self.handle.spawn(async move {
            match call(channel, Message::new(Kind::Dial, conn, 0, vec![own])).await {
                Ok(answer) => side.write(Mail::Dialled {
                    conn,
                    far: answer.conn,
                }),
                Err(status) => {
                    let result = Err(refused(&status));
                    side.tell(News::Connected { conn, result });
                }
            }
        });
    }

    fn send(&mut self, conn: ConnId, slices: Vec<Slice>) {
        let Some(has_room) = self.links.send(conn, &slices) else {
            return;
        };
        self.say(conn, Kind::Bytes, slices);
        if has_room {
            self.links.settle(conn);
        }
    }

    fn finish(&mut self, conn: ConnId) {
        self.say(conn, Kind::End, Vec::new());
    }

    fn leave(&mut self, conn: ConnId) {
        self.end(conn, Kind::Left);
    }

    fn reset(&mut self, conn: ConnId) {
        self.end(conn, Kind::Reset);
    }

    fn took(&mut self, conn: ConnId, bytes: usize) {
        if let Some(link) = self.links.get(conn) {
            link.intake.take(bytes);
        }
    }

    fn open(&mut self, letter: Letter) -> Result<Vec<News>, Letter> {
        let letter = match news_of(letter) {
            Ok((news, failed)) => {
                for conn in failed {
                    self.links.remove(conn);
                    self.side.incoming.forget(conn);
                }
                return Ok(news);
            }
            Err(letter) => letter,
        };
        Ok(match letter.open::<Mail>()? {
            Mail::Accepted {
                conn,
                far,
                peer,
                intake,
            } => match self.link(&peer, Some(far), intake) {
                Ok(link) => {
                    self.links.insert(conn, Arc::default(), link);
                    vec![News::Accepted { conn, peer }]
                }
                // It said that it is somewhere else.
                Err(_) => Vec::new(),
            },
            Mail::Dialled { conn, far } => self.on_dialled(conn, far),
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

    /// Whoever ends waits a little for what was said last.
    fn is_flushed(&self) -> bool {
        true
    }
}

async fn call(channel: Channel, message: Message) -> Result<Message, Status> {
    let mut grpc = ready(channel).await?;
    let path = PathAndQuery::from_static(SEND);
    let answer = grpc.unary(Request::new(message), path, Plain).await?;
    Ok(answer.into_inner())
}
