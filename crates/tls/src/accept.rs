//! Those who come: told from those that speak in plain text, and let in once they have shaken hands.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use linux::{Giver, Handed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::directory::Directory;
use crate::moved::{Moved, With};
use crate::names::Named;
use crate::{handshake, runtime};

/// Whether TLS is spoken, and whether plain text is, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Both: for the time in which a cluster goes from one to the other.
    Accept,
    /// TLS alone.
    Require,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        match text {
            "accept" => Ok(Mode::Accept),
            "require" => Ok(Mode::Require),
            _ => Err(format!("{text:?} is neither accept nor require")),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Accept => "accept",
            Mode::Require => "require",
        })
    }
}

/// The longest time of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The longest wait for the first byte, by which TLS is told from plain text.
const FIRST_BYTE: Duration = Duration::from_secs(10);
/// Nothing is accepted for so long after the process ran out of files.
const PAUSE: Duration = Duration::from_millis(100);
/// The number of connections that have said nothing yet, or are shaking hands; beyond, the one that came first makes room.
const STRANGERS_MAX: usize = 256;
/// The first byte of a handshake.
const HANDSHAKE_RECORD: u8 = 0x16;
/// The last words to who speaks in plain text are read within this.
const FAREWELL: Duration = Duration::from_secs(1);

/// The number of TLS connections that clients may have in this process. Clones share it.
#[derive(Clone)]
pub struct Room(Arc<Semaphore>);

impl Room {
    pub fn new(connections: usize) -> Room {
        let most = Semaphore::MAX_PERMITS;
        Room(Arc::new(Semaphore::new(connections.min(most))))
    }
}

/// Accepts at one listener, until it is dropped.
pub struct Acceptor {
    task: JoinHandle<()>,
}

struct Shared {
    mode: Mode,
    directory: Arc<Directory>,
    moved: Moved,
    giver: Giver,
    /// For who speaks in plain text where TLS is required.
    refusal: &'static str,
    room: Room,
    on_plain: OnPlain,
}

/// Called when somebody came in plain text, and was let in.
pub type OnPlain = Arc<dyn Fn() + Send + Sync>;

impl Acceptor {
    /// `socket` listens. `refusal`: the whole answer to plain text where TLS is required.
    pub fn start(
        socket: OwnedFd,
        (mode, directory, moved): (Mode, Arc<Directory>, Moved),
        giver: Giver,
        (refusal, on_plain): (&'static str, OnPlain),
        room: Room,
    ) -> io::Result<Acceptor> {
        let listener = std::net::TcpListener::from(socket);
        listener.set_nonblocking(true)?;
        let handle = runtime::handle()?;
        let _entered = handle.enter();
        let listener = TcpListener::from_std(listener)?;
        let shared = Arc::new(Shared {
            mode,
            directory,
            moved,
            giver,
            refusal,
            room,
            on_plain,
        });
        let task = handle.spawn(accept(listener, shared));
        Ok(Acceptor { task })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut strangers: VecDeque<oneshot::Sender<()>> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                strangers.retain(|stranger| !stranger.is_closed());
                if strangers.len() >= STRANGERS_MAX {
                    // Dropped, it tells its task.
                    strangers.pop_front();
                }
                let (stays, left) = oneshot::channel();
                strangers.push_back(stays);
                tokio::spawn(shared.clone().greet(socket, peer, left));
            }
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

impl Shared {
    /// `left`: others want its place.
    async fn greet(
        self: Arc<Self>,
        socket: TcpStream,
        peer: SocketAddr,
        mut left: oneshot::Receiver<()>,
    ) {
        let mut first = [0];
        let said = tokio::select! {
            said = timeout(FIRST_BYTE, socket.peek(&mut first)) => said,
            _ = &mut left => Ok(Err(io::ErrorKind::TimedOut.into())),
        };
        let is_tls = match said {
            Ok(Ok(0)) => return,
            Ok(Ok(_)) => first[0] == HANDSHAKE_RECORD,
            Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => return,
            // Who speaks TLS speaks first. Clients of keys may be silent for long, and are the kernel's to bound.
            Ok(Err(_)) | Err(_) if self.mode == Mode::Accept => false,
            Ok(Err(_)) | Err(_) => return,
        };
        let done = match (is_tls, self.mode) {
            (true, _) => tokio::select! {
                done = self.shake(socket, peer) => done,
                _ = left => Err(io::ErrorKind::TimedOut.into()),
            },
            (false, Mode::Accept) => self.give_plain(socket, peer),
            (false, Mode::Require) => self.refuse(socket).await,
        };
        if let Err(error) = done {
            tracing::debug!(%peer, %error, "no connection came of it");
        }
    }

    fn give_plain(&self, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
        (self.on_plain)();
        self.giver.give(Handed {
            socket: socket.into_std()?.into(),
            peer: peer.to_string(),
            node: None,
            client: None,
            far: None,
            seal: None,
        });
        Ok(())
    }

    async fn refuse(&self, mut socket: TcpStream) -> io::Result<()> {
        let farewell = async {
            socket.write_all(self.refusal.as_bytes()).await?;
            socket.shutdown().await?;
            // Closed with bytes unread, a socket resets, and the words are lost.
            let mut unread = [0; 4096];
            while socket.read(&mut unread).await? > 0 {}
            io::Result::Ok(())
        };
        timeout(FAREWELL, farewell).await.unwrap_or(Ok(()))
    }

    async fn shake(&self, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let config = self.directory.loaded().accepts.clone();
        let outer = timeout(HANDSHAKE, handshake::accept(config, socket)).await??;
        let shown = outer.shown.as_ref();
        let named = shown.and_then(|chain| Named::read(chain.first()?));
        let client = named.as_ref().and_then(Named::client);
        let node = named.and_then(|named| named.node);
        let full = |_| io::Error::other("as many TLS connections as may be are open");
        let permit = match node {
            // There are few of them, and without them there is no cluster.
            Some(_) => None,
            None => Some(self.room.0.clone().try_acquire_owned().map_err(full)?),
        };
        let peer = peer.to_string();
        let with = With { peer, node, client };
        self.giver.give(self.moved.hand(outer, with, permit)?);
        Ok(())
    }
}
