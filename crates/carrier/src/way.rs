//! The contract of whatever carries bytes between nodes in the place of a kernel.

use std::io;

use ops::{ConnId, Letter, Slice};

/// Carries the bytes of connections between nodes. No call waits; what comes of it is told by a letter, which [`Way::open`] knows.
///
/// The order of a connection's bytes is kept, and an end follows the bytes that it is the end of.
pub trait Way {
    /// Is answered by [`News::Connected`].
    fn dial(&mut self, conn: ConnId, address: String);
    /// Is answered by [`News::Sent`] once there is room for more, in the order of the sends. After [`News::Broke`] nothing more is told.
    fn send(&mut self, conn: ConnId, slices: Vec<Slice>);
    /// No more bytes follow.
    fn finish(&mut self, conn: ConnId);
    /// The node has closed the connection: what it gave before is carried, and nothing is wanted any more.
    fn leave(&mut self, conn: ConnId);
    /// The node has closed the connection, and the other side is told that this is no end.
    fn reset(&mut self, conn: ConnId);
    /// The node has so many of the bytes that came.
    fn took(&mut self, conn: ConnId, bytes: usize);
    /// The events that a letter tells.
    ///
    /// Errors: a letter of somebody else, as it was.
    fn open(&mut self, letter: Letter) -> Result<Vec<News>, Letter>;
    /// The events that are known without a letter.
    fn take_told(&mut self) -> Option<News>;
    /// There is nothing to be taken by [`Way::take_told`].
    fn is_quiet(&self) -> bool;
    /// Nothing that was given is still to be carried.
    fn is_flushed(&self) -> bool;
}

/// An event of a connection between nodes.
#[derive(Debug)]
pub enum News {
    /// Another node dialled. ‡ Its number is odd, and of [`ACCEPTED_FROM`] on: those below are the kernel's.
    Accepted {
        conn: ConnId,
        peer: String,
    },
    Connected {
        conn: ConnId,
        result: io::Result<()>,
    },
    Sent {
        conn: ConnId,
    },
    /// The next bytes.
    Arrived {
        conn: ConnId,
        slice: Slice,
    },
    /// No more bytes come.
    Ended {
        conn: ConnId,
    },
    /// The other side takes no more bytes.
    Left {
        conn: ConnId,
    },
    /// No more bytes come, and that is no end.
    Broke {
        conn: ConnId,
    },
}

/// The least number of a connection that a way accepts.
pub const ACCEPTED_FROM: u64 = 1 << 62;
