//! A connection to a server, by TCP or by a socket of this machine.

use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::transport::{Secured, Transport};

/// How a server that is the path of a socket begins.
const UNIX: &str = "unix:";

/// A socket whose queue is full is tried again so soon.
const AGAIN: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Secured(Secured),
}

impl Stream {
    /// Connects to a server: `unix:PATH`, or the first address of `HOST:PORT` that takes the connection, by the transport
    /// that is given. Calls on it wait.
    pub fn dial(
        server: &str,
        within: Duration,
        transport: Option<&Arc<dyn Transport>>,
    ) -> io::Result<Stream> {
        if let Some(path) = server.strip_prefix(UNIX) {
            return dial_path(path, within);
        }
        let mut last = None;
        for address in server.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, within) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let Some(transport) = transport else {
                        return Ok(Stream::Tcp(stream));
                    };
                    help(&stream);
                    let secured = transport.secure(stream, server, within)?;
                    return Ok(Stream::Secured(secured));
                }
                Err(error) => last = Some(error),
            }
        }
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        Err(last.unwrap_or_else(none))
    }

    /// Calls on it do not wait; and the options of a connection that stays open. Each of those is a help, not a
    /// need, so a refusal is no error.
    ///
    /// Cubic: bbr paces loopback and short fat links far below what they carry. Keepalive: a follower
    /// of a quiet log has nothing else by which to notice that the other machine is gone.
    pub fn stay(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Secured(secured) => secured.socket.set_nonblocking(true),
            Stream::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                help(stream);
                Ok(())
            }
        }
    }

    /// A call that moves nothing for so long fails.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        let patience = Some(patience);
        match self {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
            Stream::Unix(stream) | Stream::Secured(Secured { socket: stream, .. }) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
        }
    }
}

fn help(stream: &TcpStream) {
    let _ = sockopt::set_tcp_congestion(stream, "cubic");
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(2));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1));
    let _ = sockopt::set_tcp_keepcnt(stream, 4);
}

/// Connects to a socket of this machine. Its queue may be full, of which the system says so at once and does not wait.
fn dial_path(path: &str, within: Duration) -> io::Result<Stream> {
    let until = Instant::now() + within;
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN) if Instant::now() < until => std::thread::sleep(AGAIN),
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(Stream::Unix(stream))
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).read(buffer),
            Stream::Unix(stream) => (&*stream).read(buffer),
            Stream::Secured(secured) => match (&secured.socket).read(buffer) {
                Ok(0) if !buffer.is_empty() && secured.far.is_broken() => {
                    Err(broken(secured, io::ErrorKind::ConnectionReset.into()))
                }
                read => read.map_err(|error| broken(secured, error)),
            },
        }
    }
}

/// The error of a connection that broke: as the other side explained it, if it did.
fn broken(secured: &Secured, error: io::Error) -> io::Error {
    match secured.far.reason() {
        _ if error.kind() == io::ErrorKind::WouldBlock => error,
        Some(reason) => io::Error::new(io::ErrorKind::PermissionDenied, reason.to_owned()),
        None => error,
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).write(bytes),
            Stream::Unix(stream) => (&*stream).write(bytes),
            Stream::Secured(secured) => {
                let written = (&secured.socket).write(bytes);
                written.map_err(|error| broken(secured, error))
            }
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).write_vectored(parts),
            Stream::Unix(stream) => (&*stream).write_vectored(parts),
            Stream::Secured(secured) => {
                let written = (&secured.socket).write_vectored(parts);
                written.map_err(|error| broken(secured, error))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Secured(secured) => secured.socket.as_fd(),
        }
    }
}
