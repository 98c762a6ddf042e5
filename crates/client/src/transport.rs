//! Connections that somebody else makes private, such as by TLS: this crate knows none of the ways.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Makes connections private, and proves who is at the other end.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Takes a connection to `server`, HOST:PORT, and returns a socket in its place. Calls on both wait.
    ///
    /// Units:  it takes `within` at most.
    /// Errors: the other side proves nothing, or is not that server. The sentence is for people.
    fn secure(&self, socket: TcpStream, server: &str, within: Duration) -> io::Result<Secured>;
}

/// A socket of this machine, behind which a private connection lies.
pub struct Secured {
    /// Bytes written here are sent there.
    pub socket: UnixStream,
    /// How that connection ended. Dropped with the socket.
    pub far: Box<dyn FarEnd>,
}

/// The connection behind a socket of this machine.
pub trait FarEnd: Send + Sync {
    /// It broke: an end of stream that was read is none.
    fn is_broken(&self) -> bool;

    /// Why it broke, if the other side said so. The sentence is for people.
    fn reason(&self) -> Option<&str> {
        None
    }
}

impl fmt::Debug for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}
