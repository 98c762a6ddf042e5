//! The phase of its life in which a connection is.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ops::Time;

pub(crate) enum Phase {
    /// Its name is being looked up.
    Resolving,
    Connecting {
        socket: Arc<OwnedFd>,
        /// Addresses of the same name that were not tried yet.
        others: VecDeque<SocketAddr>,
    },
    Open(Arc<OwnedFd>),
    /// Closed by the node with `flush`: the sends given before still go out.
    Flushing(Arc<OwnedFd>),
    /// All is sent and our end is shut. What the other side still sends is read and thrown away:
    /// closing with unread bytes resets the connection, and a reset overtakes what we sent last.
    Lingering {
        socket: Arc<OwnedFd>,
        until: Time,
    },
    /// Over, but the ring still has something of it (`on_ring`).
    Ending,
}

impl Phase {
    /// The socket that sends go out by.
    pub(super) fn sending_socket(&self) -> Option<&Arc<OwnedFd>> {
        match self {
            Phase::Open(socket) | Phase::Flushing(socket) => Some(socket),
            _ => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Phase::Open(_))
    }
}
