//! Connections of a node to other nodes.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use linux::{Dial, Handed};
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::accept::Mode;
use crate::directory::Directory;
use crate::moved::{Moved, With};
use crate::names::Named;
use crate::{handshake, runtime};

/// The time that another node has to connect, and to shake hands.
const CONNECT: Duration = Duration::from_secs(5);
/// ‡ Who does not answer a handshake within this speaks plain text, as far as a node knows that accepts both. Such a node is
/// protected from who listens, and not from who changes what is sent: `require` is.
const PLAIN_AFTER: Duration = Duration::from_millis(300);

/// Dials other nodes by TLS, and in plain text where both are accepted and the other side speaks nothing else.
pub struct Dialer {
    mode: Mode,
    directory: Arc<Directory>,
    moved: Moved,
    known: Arc<Known>,
}

/// The addresses at which TLS was answered when they were dialled last.
///
/// ‡ A node whose name is bound is not believed in plain text, so a handshake that is slow for once must not lead there.
#[derive(Default)]
struct Known(Mutex<BTreeSet<String>>);

/// So many addresses are kept in mind.
const KNOWN_MAX: usize = 1024;

impl Known {
    fn has(&self, address: &str) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(address)
    }

    fn on_dialled(&self, address: &str, is_answered: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match is_answered {
            true if known.len() < KNOWN_MAX => _ = known.insert(address.to_owned()),
            true => {}
            false => _ = known.remove(address),
        }
    }
}

impl Dialer {
    pub fn new(mode: Mode, directory: Arc<Directory>, moved: Moved) -> Dialer {
        let known = Arc::default();
        Dialer {
            mode,
            directory,
            moved,
            known,
        }
    }
}

impl Dial for Dialer {
    fn dial(&self, address: String, done: Box<dyn FnOnce(io::Result<Handed>) + Send>) {
        let handle = match runtime::handle() {
            Ok(handle) => handle,
            Err(error) => return done(Err(error)),
        };
        let (how, directory) = ((self.mode, self.moved), self.directory.clone());
        let known = self.known.clone();
        handle.spawn(async move { done(dial(&address, how, &directory, &known).await) });
    }
}

async fn dial(
    address: &str,
    (mode, moved): (Mode, Moved),
    directory: &Directory,
    known: &Known,
) -> io::Result<Handed> {
    let (socket, at) = connect(address).await?;
    let is_known = known.has(address);
    let within = match mode {
        Mode::Accept if !is_known => PLAIN_AFTER,
        Mode::Accept | Mode::Require => CONNECT,
    };
    let config = directory.loaded().dials.clone();
    // The host is not looked at: a certificate names a node, and not where it stands. Which node it has to be, the kernel's machine knows.
    let name = ServerName::IpAddress(at.ip().into());
    let answered = timeout(within, handshake::connect(config, name, socket)).await;
    known.on_dialled(address, matches!(answered, Ok(Ok(_))));
    let outer = match answered {
        Ok(Ok(outer)) => outer,
        Ok(Err(error)) if mode == Mode::Require || !is_plain(&error) => {
            tracing::warn!(address, %error, "no TLS with this node");
            return Err(error);
        }
        // It may speak plain text by now: the next time decides.
        Err(_) if mode == Mode::Require || is_known => return Err(io::ErrorKind::TimedOut.into()),
        Ok(Err(_)) | Err(_) => {
            let (socket, at) = connect(address).await?;
            return Ok(Handed {
                socket: socket.into_std()?.into(),
                peer: at.to_string(),
                node: None,
                client: None,
                far: None,
                seal: None,
            });
        }
    };
    let shown = outer.shown.as_ref();
    let node = shown.and_then(|chain| Named::read(chain.first()?)?.node);
    let with = With {
        peer: at.to_string(),
        node,
        client: None,
    };
    moved.hand(outer, with, ())
}

/// Whether the other side answered, and not by TLS; or went away, as who does not understand does.
fn is_plain(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let ended = [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::BrokenPipe,
    ];
    matches!(inner, Some(rustls::Error::InvalidMessage(_))) || ended.contains(&error.kind())
}

async fn connect(address: &str) -> io::Result<(TcpStream, std::net::SocketAddr)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for at in lookup_host(address).await? {
        match timeout(CONNECT, TcpStream::connect(at)).await {
            // Connecting to a free local port can meet itself (simultaneous open).
            Ok(Ok(socket)) if socket.local_addr().is_ok_and(|own| own == at) => {
                last = io::ErrorKind::ConnectionRefused.into();
            }
            Ok(Ok(socket)) => {
                set_options(&socket);
                return Ok((socket, at));
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Each is a help, not a need. They are those of a kernel's own connections.
fn set_options(socket: &TcpStream) {
    let _ = socket.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, Duration::from_secs(30));
    let _ = sockopt::set_tcp_keepintvl(socket, Duration::from_secs(10));
    let _ = sockopt::set_tcp_keepcnt(socket, 3);
    if sockopt::tcp_congestion(socket).is_ok_and(|system| system.starts_with("bbr")) {
        let _ = sockopt::set_tcp_congestion(socket, "cubic");
    }
}
