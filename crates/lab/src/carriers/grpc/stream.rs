//! A stream of calls for each connection: gRPC used well.

use std::pin::Pin;
use std::sync::Arc;

use carrier::{News, Way};
use ops::{ConnId, Letter, Slice};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::codec::{Kind, Message, Plain};
use super::server::CONNECTION;
use super::{Channels, Intake, Side, UnderWay, news_of, ready, refused};
use crate::carriers::links::Links;
use crate::carriers::window::Window;

/// One node's side of a connection.
pub type Outgoing = Pin<Box<dyn Stream<Item = Result<Message, Status>> + Send>>;

/// Events that the threads of tonic tell.
#[derive(Debug)]
enum Mail {
    Accepted {
        conn: ConnId,
        peer: String,
        link: Link,
    },
    Room(ConnId),
}

#[derive(Debug)]
struct Link {
    out: UnboundedSender<Message>,
    window: Arc<Window>,
    intake: Arc<Intake>,
}

/// A new connection's link, and what it sends as it is taken.
fn new_link(side: &Arc<Side>, conn: ConnId) -> (Link, impl Stream<Item = Message> + use<>) {
    let (out, taken) = unbounded_channel::<Message>();
    let window = Arc::<Window>::default();
    let link = Link {
        out,
        window: window.clone(),
        intake: Arc::default(),
    };
    let side = side.clone();
    let sent = UnboundedReceiverStream::new(taken).map(move |message| {
        if message.kind == Kind::Bytes && window.take(message.bytes()) {
            side.write(Mail::Room(conn));
        }
        message
    });
    (link, sent)
}

/// A node dials, by the first message of a stream.
pub async fn accept(
    side: &Arc<Side>,
    mut heard: Streaming<Message>,
) -> Result<Response<Outgoing>, Status> {
    let first = heard.message().await?;
    let dial = first.filter(|first| first.kind == Kind::Dial);
    let dial = dial.ok_or_else(|| Status::invalid_argument("a stream begins with who dials"))?;
    let peer = dial.text();
    let conn = side.new_conn();
    let (link, sent) = new_link(side, conn);
    let intake = link.intake.clone();
    side.write(Mail::Accepted { conn, peer, link });
    tokio::spawn(hear(side.clone(), conn, intake, heard));
    Ok(Response::new(Box::pin(sent.map(Ok))))
}

/// Until the other side has said its last word.
async fn hear(side: Arc<Side>, conn: ConnId, intake: Arc<Intake>, mut heard: Streaming<Message>) {
    let _under_way = UnderWay::of(&side);
    let mut has_left = false;
    while let Ok(Some(message)) = heard.message().await {
        match message.kind {
            Kind::Bytes => {
                intake.add(message.bytes());
                let news = message.slices.into_iter();
                let news = news.map(|slice| News::Arrived { conn, slice });
                side.write(news.collect::<Vec<_>>());
            }
            Kind::End => side.tell(News::Ended { conn }),
            Kind::Left => {
                has_left = true;
                side.tell(News::Left { conn });
            }
            Kind::Dial | Kind::Reset => break,
        }
        intake.has_room().await;
    }
    if !has_left {
        side.tell(News::Broke { conn });
    }
}

/// One node's streams.
pub struct Streams {
    handle: Handle,
    side: Arc<Side>,
    channels: Channels,
    links: Links<Link>,
}

impl Streams {
    pub fn new(handle: Handle, side: Arc<Side>) -> Streams {
        Streams {
            handle,
            side,
            channels: Channels::default(),
            links: Links::default(),
        }
    }

    fn say(&mut self, conn: ConnId, kind: Kind, slices: Vec<Slice>) {
        if let Some(link) = self.links.get(conn) {
            // Should the stream have ended, whoever hears it says so.
            let _ = link.out.send(Message::new(kind, conn, 0, slices));
        }
    }

    fn end(&mut self, conn: ConnId, kind: Kind) {
        self.say(conn, kind, Vec::new());
        if let Some(link) = self.links.remove(conn) {
            link.intake.abandon();
        }
    }
}

impl Way for Streams {
    fn dial(&mut self, conn: ConnId, address: String) {
        let _entered = self.handle.enter();
        let channel = match self.channels.to(&address) {
            Ok(channel) => channel,
            Err(error) => {
                self.links.tell_connected(conn, Err(error));
                return;
            }
        };
        let (link, sent) = new_link(&self.side, conn);
        let own = Slice::copied_from(self.side.address.as_bytes());
        let intake = link.intake.clone();
        self.links.insert(conn, link.window.clone(), link);
        self.say(conn, Kind::Dial, vec![own]);
        let side = self.side.clone();
        self.handle.spawn(async move {
            match open(channel, sent).await {
                Ok(heard) => {
                    let result = Ok(());
                    side.tell(News::Connected { conn, result });
                    hear(side, conn, intake, heard).await;
                }
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
                }
                return Ok(news);
            }
            Err(letter) => letter,
        };
        Ok(match letter.open::<Mail>()? {
            Mail::Accepted { conn, peer, link } => {
                self.links.insert(conn, link.window.clone(), link);
                vec![News::Accepted { conn, peer }]
            }
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

async fn open(
    channel: Channel,
    sent: impl Stream<Item = Message> + Send + 'static,
) -> Result<Streaming<Message>, Status> {
    let mut grpc = ready(channel).await?;
    let path = PathAndQuery::from_static(CONNECTION);
    let answer = grpc.streaming(Request::new(sent), path, Plain).await?;
    Ok(answer.into_inner())
}
