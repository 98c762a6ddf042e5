//! The requests that a ring performs.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ops::{Buffer, Slice};

/// An open file that lives as long as anybody uses it.
pub type File = Arc<dyn AsFd + Send + Sync>;

/// Names a request that is outstanding, for [`Ring::cancel`](crate::Ring::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(pub(crate) u64);

/// Sockets must be blocking ones: of others io_uring reports EAGAIN instead of waiting.
pub enum Request {
    /// recv(2) into `buffer[range]`, `whole` with MSG_WAITALL.
    Receive {
        socket: Arc<OwnedFd>,
        buffer: Buffer,
        range: Range<usize>,
        whole: bool,
    },
    /// sendmsg(2), perhaps not of all bytes. At most 1024 slices.
    Send {
        socket: Arc<OwnedFd>,
        slices: Vec<Slice>,
    },
    /// pwritev2(2), with RWF_DSYNC if `durable`; perhaps not of all bytes. At most 1024 slices.
    Write {
        file: File,
        offset: u64,
        slices: Vec<Slice>,
        durable: bool,
    },
    /// fdatasync(2).
    SyncData { file: File },
    /// Finished when `fd` can be read.
    Watch { fd: Arc<OwnedFd> },
    /// Finished so much later.
    Sleep { duration: Duration },
}

impl Request {
    /// Whether waiting for it may take for ever, and giving it up harms nobody.
    pub(crate) fn may_be_cancelled(&self) -> bool {
        !matches!(self, Request::Write { .. } | Request::SyncData { .. })
    }
}

/// A request that came back.
pub struct Finished<T> {
    pub tag: T,
    pub request: Request,
    /// Bytes, of those that move some.
    pub result: io::Result<usize>,
}
