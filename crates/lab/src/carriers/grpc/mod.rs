//! Nodes' words to each other as calls and streams of gRPC, with tonic over HTTP/2 on loopback, on a thread of its own.
//!
//! ```text
//!   kernel's thread  Way ── calls, queues ──▶ tonic's thread ── HTTP/2 ──▶ the other node's
//!                     ◀─────── letters ──────────┘
//! ```
//!
//! A message is what a node gave to one send, behind a few bytes that say of which connection it is. Protocol buffers are not needed: a field of bytes is
//! laid out much as this is.

mod codec;
mod server;
mod stream;
mod unary;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use carrier::{ACCEPTED_FROM, Carried, News};
use linux::{Kernel, PostOffice};
use ops::{ConnId, Letter, Machine, MachineId};
use serve::{Carry, Seat};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tonic::Status;
use tonic::client::Grpc as Client;
use tonic::transport::{Channel, Endpoint, server::TcpIncoming};

use super::window::WINDOW;
use super::{Transport, port_of, refuse_splice};

/// Where a node's server of calls is, on its port.
const AT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The most time for what was said last, and how often it is looked whether all of it is said.
const FAREWELL: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

/// How gRPC is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A call for each send, whose answer is ignored.
    Unary,
    /// A stream for each connection.
    Stream,
}

pub struct Grpc {
    used: Use,
    running: Option<(Runtime, Arc<Side>, String)>,
}

impl Grpc {
    pub fn new(used: Use) -> Grpc {
        Grpc {
            used,
            running: None,
        }
    }
}

/// One node's side, shared by the threads of its kernel and of tonic.
struct Side {
    /// The node's address, which others know it by.
    address: String,
    office: PostOffice,
    accepted: AtomicU64,
    incoming: unary::Incoming,
    /// Calls and streams that are under way.
    under_way: AtomicU64,
}

/// One call or stream, for as long as it is under way.
struct UnderWay(Arc<Side>);

impl UnderWay {
    fn of(side: &Arc<Side>) -> UnderWay {
        side.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(side.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Side {
    fn new(address: String, office: PostOffice) -> Side {
        Side {
            address,
            office,
            accepted: AtomicU64::new(0),
            incoming: unary::Incoming::default(),
            under_way: AtomicU64::new(0),
        }
    }

    fn new_conn(&self) -> ConnId {
        let number = self.accepted.fetch_add(1, Ordering::Relaxed);
        ConnId(ACCEPTED_FROM + number * 2 + 1)
    }

    fn write(&self, mail: impl Send + std::fmt::Debug + 'static) {
        let letter = Letter::new(mail);
        // A node that has ended reads none.
        self.office.post(MachineId::NOBODY, MachineId::NODE, letter);
    }

    fn tell(&self, news: News) {
        self.write(vec![news]);
    }
}

/// Bytes that came on a connection and were not read yet: whoever brings more waits for room.
#[derive(Debug, Default)]
struct Intake {
    unread: Mutex<usize>,
    room: Notify,
}

impl Intake {
    fn add(&self, bytes: usize) {
        *self.unread.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    fn take(&self, bytes: usize) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        *unread = unread.saturating_sub(bytes);
        self.room.notify_one();
    }

    /// Nobody reads any more: all that comes has room.
    fn abandon(&self) {
        self.take(usize::MAX);
    }

    async fn has_room(&self) {
        let has_room = || *self.unread.lock().unwrap_or_else(PoisonError::into_inner) <= WINDOW;
        while !has_room() {
            self.room.notified().await;
        }
    }
}

/// The events of a letter, and the connections that did not come about.
///
/// Errors: it tells something else.
fn news_of(letter: Letter) -> Result<(Vec<News>, Vec<ConnId>), Letter> {
    let news = letter.open::<Vec<News>>()?;
    let failed = |news: &News| match news {
        News::Connected {
            conn,
            result: Err(_),
        } => Some(*conn),
        _ => None,
    };
    let failed = news.iter().filter_map(failed).collect();
    Ok((news, failed))
}

/// A side of calls that may be used.
async fn ready(channel: Channel) -> Result<Client<Channel>, Status> {
    let mut grpc = Client::new(channel).max_decoding_message_size(usize::MAX);
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(grpc)
}

/// Nobody took the call that dials.
fn refused(status: &Status) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionRefused, status.to_string())
}

/// A connection of HTTP/2 to each other node, which comes back by itself.
#[derive(Default)]
struct Channels(std::collections::BTreeMap<u16, Channel>);

impl Channels {
    /// Errors: an address that is not of this machine.
    fn to(&mut self, address: &str) -> std::io::Result<Channel> {
        let port = port_of(address)?;
        let channel = self.0.entry(port).or_insert_with(|| {
            let there: tonic::codegen::http::Uri =
                format!("http://{AT}:{port}").parse().unwrap_or_default();
            Endpoint::from(there).connect_lazy()
        });
        Ok(channel.clone())
    }
}

impl Carry for Grpc {
    fn name(&self) -> &'static str {
        match self.used {
            Use::Unary => Transport::GrpcUnary.name(),
            Use::Stream => Transport::GrpcStream.name(),
        }
    }

    fn set_up(&mut self, kernel: &mut Kernel, seat: &Seat) -> Result<()> {
        refuse_splice(kernel)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("grpc")
            .enable_all()
            .build()
            .context("no thread for calls")?;
        let side = Arc::new(Side::new(seat.bound.to_string(), seat.office.clone()));
        let at = SocketAddr::new(IpAddr::V4(AT), seat.bound.port());
        let entered = runtime.enter();
        let incoming = TcpIncoming::bind(at).with_context(|| format!("cannot listen at {at}"))?;
        drop(entered);
        runtime.spawn(server::serve(
            incoming.with_nodelay(Some(true)),
            side.clone(),
        ));
        self.running = Some((runtime, side, seat.listen.clone()));
        Ok(())
    }

    fn around<'a>(&'a mut self, node: &'a mut dyn Machine) -> Result<Box<dyn Machine + 'a>> {
        let (runtime, side, listen) = self.running.as_ref().context("nothing was set up")?;
        let (handle, side, now) = (runtime.handle().clone(), side.clone(), linux::now());
        let listen = listen.clone();
        Ok(match self.used {
            Use::Unary => {
                let way = unary::Calls::new(handle, side);
                Box::new(Carried::new(node, way, listen, now))
            }
            Use::Stream => {
                let way = stream::Streams::new(handle, side);
                Box::new(Carried::new(node, way, listen, now))
            }
        })
    }
}

impl Drop for Grpc {
    fn drop(&mut self) {
        if let Some((runtime, side, _)) = self.running.take() {
            let until = Instant::now() + FAREWELL;
            while side.under_way.load(Ordering::SeqCst) > 0 && Instant::now() < until {
                std::thread::sleep(POLL);
            }
            runtime.shutdown_background();
        }
    }
}
