//! Whose a request on the ring is.

use ops::{ConnId, FileId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Epoll has something to say: of listeners, of connections that are being made or closed, and of
    /// other threads.
    Epoll,
    Connection(ConnId),
    File(FileId),
}
