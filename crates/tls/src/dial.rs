//! Connections of a node to other nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    failures: Arc<Failures>,
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

/// Nodes with which there is no TLS, and why: each is told of, and then no more often than this.
#[derive(Default)]
struct Failures(Mutex<BTreeMap<(String, String), Failed>>);

const TOLD_EVERY: Duration = Duration::from_secs(60);
/// So many are told of one by one.
const FAILURES_MAX: usize = 256;

struct Failed {
    told_at: Instant,
    /// Failures since.
    more: u64,
}

impl Failures {
    /// Notes a failure. Returns the number of those before it that were not told, if it is to be told.
    fn note(&self, now: Instant, address: &str, why: &str) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |failed: &Failed| now.saturating_duration_since(failed.told_at) >= TOLD_EVERY;
        let mut key = (address.to_owned(), why.to_owned());
        if all.len() >= FAILURES_MAX && !all.contains_key(&key) {
            all.retain(|_, failed| !is_old(failed));
            if all.len() >= FAILURES_MAX {
                key = (String::new(), String::new());
            }
        }
        let Some(failed) = all.get_mut(&key) else {
            let first = Failed {
                told_at: now,
                more: 0,
            };
            all.insert(key, first);
            return Some(0);
        };
        if !is_old(failed) {
            failed.more += 1;
            return None;
        }
        failed.told_at = now;
        Some(std::mem::take(&mut failed.more))
    }
}

impl Dialer {
    pub fn new(mode: Mode, directory: Arc<Directory>, moved: Moved) -> Dialer {
        Dialer {
            mode,
            directory,
            moved,
            known: Arc::default(),
            failures: Arc::default(),
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
        let (known, failures) = (self.known.clone(), self.failures.clone());
        handle.spawn(async move {
            done(dial(&address, how, &directory, (&known, &failures)).await);
        });
    }
}

async fn dial(
    address: &str,
    (mode, moved): (Mode, Moved),
    directory: &Directory,
    (known, failures): (&Known, &Failures),
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
            // ‡ It is dialled ten times a second, and one that is revoked for ever.
            if let Some(more) = failures.note(Instant::now(), address, &error.to_string()) {
                tracing::warn!(address, %error, more, "no TLS with this node");
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_which_there_is_no_tls_is_told_of_once_a_minute_for_each_reason() {
        let failures = Failures::default();
        let began = Instant::now();
        let at = |seconds: u64, address: &str, why: &str| {
            failures.note(began + Duration::from_secs(seconds), address, why)
        };
        assert_eq!(at(0, "n2:7117", "Revoked"), Some(0), "the first is told");
        for second in 1..60 {
            assert_eq!(at(second, "n2:7117", "Revoked"), None);
        }
        assert_eq!(at(2, "n2:7117", "Expired"), Some(0), "another reason");
        assert_eq!(at(2, "n3:7117", "Revoked"), Some(0), "another node");
        assert_eq!(at(60, "n2:7117", "Revoked"), Some(59));
        assert_eq!(at(61, "n2:7117", "Revoked"), None);
        assert_eq!(at(300, "n2:7117", "Revoked"), Some(1));
    }

    #[test]
    fn more_nodes_than_are_kept_in_mind_are_one() {
        let failures = Failures::default();
        let now = Instant::now();
        for number in 0..FAILURES_MAX {
            assert!(
                failures
                    .note(now, &format!("n{number}"), "Revoked")
                    .is_some()
            );
        }
        let told = |address: &str, now| failures.note(now, address, "Revoked");
        assert_eq!(told("more", now), Some(0));
        assert_eq!(told("and more", now), None);
        // Those of long ago make room.
        assert_eq!(told("and more", now + TOLD_EVERY), Some(0));
        assert_eq!(failures.0.lock().expect("nobody panicked").len(), 1);
    }
}
