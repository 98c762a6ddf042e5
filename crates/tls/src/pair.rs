//! Two sockets that are one another's other side, and what the far end's connection came to.
//!
//! ‡ An end of a pair reads an end of stream alike whether the connection behind it ended or broke, and a stream that was
//! cut off would be taken for a whole one. So the pump says that it ended, before it closes its own end; a pump that is gone without a word has broken it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::net::sockopt;
use tokio::sync::Notify;

/// The bytes that the kernel keeps of a pair, one way. Linux doubles it for its own records.
const PAIR_BYTES: usize = 128 << 10;

/// What both ends know.
#[derive(Debug, Default)]
pub struct Ends {
    /// The other side said that this is all. ‡ Until then an end of stream is none, whatever becomes of the pump.
    whole: AtomicBool,
    /// Why the other side ended it, if it said so.
    reason: OnceLock<&'static str>,
    /// The near end was closed by a reset.
    reset: AtomicBool,
    /// Nobody has the near end any more.
    left: Notify,
}

/// The near end's word to the pump, and the pump's to it. Dropped with the near end.
#[derive(Debug)]
pub struct Near(Arc<Ends>);

impl Ends {
    pub fn say_whole(&self) {
        self.whole.store(true, Ordering::Release);
    }

    pub fn say_reason(&self, reason: &'static str) {
        let _ = self.reason.set(reason);
    }

    pub fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Acquire)
    }

    pub async fn near_has_left(&self) {
        self.left.notified().await;
    }
}

impl linux::FarEnd for Near {
    fn is_broken(&self) -> bool {
        !self.0.whole.load(Ordering::Acquire)
    }

    fn reset(&self) {
        self.0.reset.store(true, Ordering::Release);
    }
}

impl client::FarEnd for Near {
    fn is_broken(&self) -> bool {
        linux::FarEnd::is_broken(self)
    }

    fn reason(&self) -> Option<&str> {
        self.0.reason.get().copied()
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        self.0.left.notify_one();
    }
}

/// The socket that a kernel or a client is given, and its word.
type NearEnd = (OwnedFd, Near);
/// The pump's socket, and what it is told and tells.
type FarEnd = (tokio::net::UnixStream, Arc<Ends>);

/// A new pair.
pub fn new() -> io::Result<(NearEnd, FarEnd)> {
    let (near, far) = UnixStream::pair()?;
    for end in [&near, &far] {
        end.set_nonblocking(true)?;
        sockopt::set_socket_send_buffer_size(end, PAIR_BYTES)?;
    }
    let ends = Arc::new(Ends::default());
    let far = tokio::net::UnixStream::from_std(far)?;
    Ok(((near.into(), Near(ends.clone())), (far, ends)))
}
