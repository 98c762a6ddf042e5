//! A listening socket, and what to do when the process has no file left for another connection.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use ops::Time;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, acceptfrom_with, getsockname, sockopt,
};
use rustix::process::Uid;

use crate::config::KernelConfig;
use crate::handed::Handed;
use crate::unix_socket::{SocketFile, UnixAddress};

const BACKLOG: i32 = 1024;

/// How long nothing is accepted after the process ran out of files.
const PAUSE: Duration = Duration::from_millis(100);

/// So many in a row that were gone before they were accepted are not believed.
const GONE_MAX: usize = 1_000;

const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

pub(crate) struct Listener {
    /// As asked for, which may name port 0.
    pub requested: String,
    /// As `Op::Listen` named it.
    pub named: String,
    /// `None`: it is a Unix socket.
    pub address: Option<SocketAddr>,
    /// Takes connections from when another listener does.
    pub joins: bool,
    /// Connections of root and of this process' own user alone.
    pub is_own: bool,
    /// Another thread accepts, and hands over what it has accepted.
    pub is_handed: bool,
    /// Handed over before anybody listened.
    pub waiting: Vec<Handed>,
    /// Goes with the listener.
    _file: Option<SocketFile>,
    pub socket: OwnedFd,
    /// Registered with epoll; before that it is only bound.
    pub accepting: bool,
    /// Connections may be waiting.
    pub readable: bool,
    pub paused_until: Option<Time>,
    /// Given up to accept, and close, a connection that there is no file for.
    spare: Option<OwnedFd>,
    has_complained: bool,
}

pub(crate) enum Accept {
    Connection(OwnedFd, String),
    Empty,
    Pause,
}

impl Listener {
    /// Binds and listens; connections wait in the backlog until somebody accepts.
    pub fn bind(address: &str, config: &KernelConfig) -> io::Result<Listener> {
        let mut last = None;
        for candidate in address.to_socket_addrs()? {
            match Listener::bind_one(address, candidate, config) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| no_address(address)))
    }

    fn bind_one(
        requested: &str,
        candidate: SocketAddr,
        config: &KernelConfig,
    ) -> io::Result<Listener> {
        let socket = new_socket(&candidate, config)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &candidate)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let address = getsockname(&socket)?.try_into()?;
        Ok(Listener {
            address: Some(address),
            ..Listener::new(requested.to_string(), socket)
        })
    }

    /// Listens on a Unix socket. `is_own`: for root and this process' own user alone, whatever becomes of the file's mode.
    pub fn bind_unix(address: &UnixAddress, is_own: bool) -> io::Result<Listener> {
        let (socket, file) = SocketFile::bind(address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Listener {
            is_own,
            _file: Some(file),
            ..Listener::new(address.to_string(), socket)
        })
    }

    fn new(requested: String, socket: OwnedFd) -> Listener {
        Listener {
            named: requested.clone(),
            requested,
            address: None,
            joins: false,
            is_own: false,
            is_handed: false,
            waiting: Vec::new(),
            _file: None,
            socket,
            accepting: false,
            readable: true,
            paused_until: None,
            spare: open_spare(),
            has_complained: false,
        }
    }

    pub fn is_for(&self, address: &str) -> bool {
        self.requested == address
            || address
                .parse::<SocketAddr>()
                .is_ok_and(|parsed| Some(parsed) == self.address)
    }

    /// The next waiting connection, with the options of the listener: they are inherited.
    pub fn accept(&mut self, now: Time) -> Accept {
        let mut last = None;
        for _ in 0..GONE_MAX {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match acceptfrom_with(&self.socket, flags) {
                Ok((socket, peer)) if self.address.is_some() => {
                    return Accept::Connection(socket, name(peer));
                }
                Ok((socket, _)) => {
                    let user = sockopt::socket_peercred(&socket).map(|peer| peer.uid);
                    if !self.is_own || user.is_ok_and(is_owner) {
                        let user = user.map_or("unknown".to_owned(), |user| user.to_string());
                        let peer = format!("{} (user {user})", self.requested);
                        return Accept::Connection(socket, peer);
                    }
                }
                Err(Errno::AGAIN) => {
                    self.readable = false;
                    return Accept::Empty;
                }
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    self.on_exhausted(errno, now);
                    return Accept::Pause;
                }
                // All others are of a connection that was gone before it was accepted, or that it is
                // forbidden to accept, which may stay so.
                Err(errno) => last = Some(errno),
            }
        }
        if let Some(errno) = last {
            self.complain(
                errno,
                "connections cannot be accepted; what forbids them to this process?",
            );
        }
        self.paused_until = Some(now + PAUSE);
        Accept::Pause
    }

    fn complain(&mut self, errno: Errno, what: &str) {
        if !std::mem::replace(&mut self.has_complained, true) {
            let error = io::Error::from(errno);
            tracing::warn!(listener = self.requested, %error, "{what}");
        }
    }

    /// Closes one waiting connection, so that its client learns something, and pauses.
    fn on_exhausted(&mut self, errno: Errno, now: Time) {
        let what = "cannot accept more connections; raise the limit of open files (ulimit -n)";
        self.complain(errno, what);
        if self.spare.take().is_some() {
            drop(acceptfrom_with(&self.socket, SocketFlags::CLOEXEC));
        }
        self.spare = open_spare();
        self.paused_until = Some(now + PAUSE);
    }
}

/// ‡ Users whom the system cannot name all look like this one.
const NOBODY: u32 = 65_534;

/// Whether somebody is root, or who this process is: both can read its disk.
fn is_owner(user: Uid) -> bool {
    let own = user == rustix::process::geteuid() && user.as_raw() != NOBODY;
    user.is_root() || own
}

/// A socket with everything set that has to be set before it connects or listens.
pub(crate) fn new_socket(address: &SocketAddr, config: &KernelConfig) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    if let Some(size) = config.send_buffer {
        sockopt::set_socket_send_buffer_size(&socket, size)?;
    }
    if let Some(size) = config.receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, size)?;
    }
    if let Some(wanted) = &config.congestion_always {
        sockopt::set_tcp_congestion(&socket, wanted)?;
    } else if let Some(wanted) = &config.congestion {
        // Best effort: a container may not be allowed to, and the system's works too.
        if sockopt::tcp_congestion(&socket).is_ok_and(|system| system.starts_with("bbr")) {
            let _ = sockopt::set_tcp_congestion(&socket, wanted);
        }
    }
    Ok(socket)
}

pub(crate) fn no_address(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("{name} has no address: expected HOST:PORT"),
    )
}

fn open_spare() -> Option<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn name(peer: Option<SocketAddrAny>) -> String {
    match peer.and_then(|peer| SocketAddr::try_from(peer).ok()) {
        Some(address) => address.to_string(),
        None => "unknown".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_congestion_control_that_is_asked_for_is_there_or_refused() {
        let address = "127.0.0.1:0".parse().unwrap();
        let asked = |name: &str| {
            let config = KernelConfig {
                congestion_always: Some(name.to_owned()),
                ..KernelConfig::default()
            };
            new_socket(&address, &config)
        };
        // Every system has it.
        let socket = asked("reno").unwrap();
        assert_eq!(sockopt::tcp_congestion(&socket).unwrap(), "reno");
        assert!(asked("nonsense").is_err());
    }

    /// Linux gives an accepted socket the options of its listener; we rely on it and set none.
    #[test]
    fn accepted_sockets_have_the_options_of_the_listener() {
        let config = KernelConfig::default();
        let mut listener = Listener::bind("127.0.0.1:0", &config).unwrap();
        let address = listener.address.unwrap();
        let near = new_socket(&address, &config).unwrap();
        // Best effort: there are systems that have nothing else, or do not let us.
        let other = new_socket(&address, &config).unwrap();
        let wanted = config.congestion.as_deref().unwrap();
        let may_choose = sockopt::set_tcp_congestion(&other, wanted).is_ok();
        let _ = rustix::net::connect(&near, &address);
        let far = loop {
            if let Accept::Connection(socket, _) = listener.accept(Time::ZERO) {
                break socket;
            }
        };
        for socket in [&near, &far] {
            assert!(sockopt::tcp_nodelay(socket).unwrap());
            assert!(sockopt::socket_keepalive(socket).unwrap());
            assert_eq!(sockopt::tcp_keepidle(socket).unwrap(), KEEPALIVE_IDLE);
            let congestion = sockopt::tcp_congestion(socket).unwrap();
            assert!(
                !may_choose || !congestion.starts_with("bbr"),
                "{congestion} paces"
            );
        }
    }
}
