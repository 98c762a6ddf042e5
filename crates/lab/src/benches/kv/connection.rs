//! A connection that never waits. Whoever has it is told by epoll when there is something to do.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::reply::{Reply, first};

pub struct Connection {
    stream: TcpStream,
    /// The bytes that the kernel has not taken yet.
    unsent: Vec<u8>,
    /// The beginning of a reply that is not whole.
    received: Vec<u8>,
}

const CONNECT_MAX: Duration = Duration::from_secs(1);

impl Connection {
    pub fn to(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            unsent: Vec::new(),
            received: Vec::new(),
        })
    }

    /// Sends what the kernel takes, and keeps the rest for [`Connection::flush`].
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.unsent.is_empty() {
            bytes = &bytes[taken(&mut self.stream, bytes)?..];
        }
        self.unsent.extend_from_slice(bytes);
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        if !self.unsent.is_empty() {
            let count = taken(&mut self.stream, &self.unsent)?;
            self.unsent.drain(..count);
        }
        Ok(())
    }

    /// Hands out all replies that are there. `piece`: room for what is read at a time.
    ///
    /// Errors: the connection is over, or something else than replies came.
    pub fn receive(&mut self, piece: &mut [u8], mut take: impl FnMut(Reply<'_>)) -> io::Result<()> {
        loop {
            let count = match self.stream.read(piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let new = &piece[..count];
            if self.received.is_empty() {
                let used = hand_out(new, &mut take)?;
                self.received.extend_from_slice(&new[used..]);
            } else {
                self.received.extend_from_slice(new);
                let used = hand_out(&self.received, &mut take)?;
                self.received.drain(..used);
            }
            // Fewer bytes than there was room for: there are no more (epoll(7)).
            if count < piece.len() {
                return Ok(());
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn hand_out(received: &[u8], take: &mut impl FnMut(Reply<'_>)) -> io::Result<usize> {
    let mut at = 0;
    while at < received.len() {
        let found = first(&received[at..]).map_err(io::Error::other)?;
        let Some((reply, length)) = found else { break };
        take(reply);
        at += length;
    }
    Ok(at)
}

/// How many of these bytes the kernel takes now.
fn taken(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < bytes.len() {
        match stream.write(&bytes[count..]) {
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}
