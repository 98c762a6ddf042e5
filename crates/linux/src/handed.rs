//! Connections that another thread made: a kernel is handed them, and asks for those that it dials.
//!
//! ```text
//!   listener ─▶ another thread accepts, and shakes hands ─▶ [`Giver::give`] ─▶ `Completion::Accepted`
//!   `Op::Connect` ─▶ [`Dial::dial`] ─▶ another thread connects, and shakes hands ─▶ `Completion::Connected`
//! ```
//!
//! The socket that is handed over may be one end of a pair, whose other end that thread moves bytes to and from. An end
//! of a pair reads alike whether the far connection ended or broke: [`FarEnd`] tells which. Or it is the connection itself, and what it
//! carries is sealed: [`Seal`] opens what comes and seals what goes, on the thread of the kernel.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ops::ClientCertificate;
use rustix::io::Errno;

use crate::inbox::{Inbox, Reply};

/// The connection behind a socket pair. Dropped, it is told that nobody has the near end any more.
pub trait FarEnd: Send + Sync {
    /// It broke: the end of stream that the near end reads is none.
    fn is_broken(&self) -> bool;
    /// It is to break, too: the near end is closed by a reset.
    fn reset(&self);
}

/// The bytes of a connection are sealed. Calls do not wait.
pub trait Seal: Send {
    /// Receives and opens. None is the other side's last word.
    ///
    /// Errors: `AGAIN`, nothing whole is there; all else breaks the connection, of which an end without a last word is one.
    fn receive(&mut self, socket: &OwnedFd, into: &mut [u8]) -> Result<usize, Errno>;
    /// Seals as many of these bytes as it says. To be called while [`Seal::is_flushed`].
    fn seal(&mut self, bytes: &[IoSlice]) -> Result<usize, Errno>;
    /// Seals the last word, behind which the socket ends. To be called while [`Seal::is_flushed`]; said again, it says nothing.
    fn seal_end(&mut self) -> Result<(), Errno>;
    /// Sends of what is sealed as much as the socket takes in one call.
    fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno>;
    /// Nothing that is sealed waits for the socket.
    fn is_flushed(&self) -> bool;
}

/// A connection that was made elsewhere.
pub struct Handed {
    pub socket: OwnedFd,
    /// The other side's address, for people.
    pub peer: String,
    /// The name in the certificate of a node, if the other side showed one.
    pub node: Option<String>,
    /// The certificate of a client, if the other side showed one.
    pub client: Option<ClientCertificate>,
    /// `None`: the socket is the connection itself.
    pub far: Option<Arc<dyn FarEnd>>,
    /// The bytes on the socket are sealed. ‡ Only of kernels that move bytes by calls ([`crate::Kernel::moves_by_calls`]).
    pub seal: Option<Box<dyn Seal>>,
}

/// Makes the connections that a kernel is to dial.
pub trait Dial: Send + Sync {
    /// Calls `done` once, from any thread, with a connection to HOST:PORT.
    fn dial(&self, address: String, done: Box<dyn FnOnce(io::Result<Handed>) + Send>);
}

/// Hands a kernel the connections of one listener, from any thread.
#[derive(Clone)]
pub struct Giver {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) listener: usize,
}

impl Giver {
    pub fn give(&self, handed: Handed) {
        self.inbox.put(Reply::Handed {
            listener: self.listener,
            handed,
        });
    }
}
