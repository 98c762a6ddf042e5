//! How other threads answer the loop: a queue, and an eventfd that ends its wait.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use ops::{Completion, ConnId, FileId, Token};
use rustix::event::{EventfdFlags, eventfd};

use crate::handed::Handed;
use crate::medium::Opened;

pub(crate) enum Reply {
    /// Nothing of ours to keep in step.
    Completed(Completion),
    /// Of a write or read: the file has one op less outstanding.
    FileOp(FileId, Completion),
    Opened {
        token: Token,
        file: FileId,
        result: io::Result<Opened>,
    },
    Resolved {
        conn: ConnId,
        result: io::Result<Vec<SocketAddr>>,
    },
    /// Accepted elsewhere.
    Handed { listener: usize, handed: Handed },
    /// Dialled elsewhere.
    Dialled {
        conn: ConnId,
        result: io::Result<Handed>,
    },
}

pub(crate) struct Inbox {
    replies: Mutex<Vec<Reply>>,
    wake: OwnedFd,
}

impl Inbox {
    pub fn new() -> io::Result<Inbox> {
        Ok(Inbox {
            replies: Mutex::new(Vec::new()),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// To be registered edge-triggered: each write is an edge of its own, so it need not be read,
    /// and a counter of 64 bits does not fill.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub fn put(&self, reply: Reply) {
        self.put_all(std::iter::once(reply));
    }

    pub fn put_all(&self, more: impl Iterator<Item = Reply>) {
        let was_empty = {
            let mut replies = self.replies.lock().unwrap_or_else(|e| e.into_inner());
            let was_empty = replies.is_empty();
            replies.extend(more);
            was_empty
        };
        // Who finds replies there already knows that their writer wakes, or has woken, the loop.
        if was_empty {
            // Fails only if the counter were full, and then the loop is awake.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Exchanges the replies so far for an empty vector, whose memory is used again.
    pub fn take(&self, into: &mut Vec<Reply>) {
        debug_assert!(into.is_empty());
        std::mem::swap(
            into,
            &mut *self.replies.lock().unwrap_or_else(|e| e.into_inner()),
        );
    }
}
