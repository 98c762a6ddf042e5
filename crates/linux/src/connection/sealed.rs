//! A connection that carries sealed bytes: what is sealed and not sent comes before all else.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::Connection;
use crate::handed::Seal;

impl Connection {
    pub fn seal(&mut self, seal: Option<Box<dyn Seal>>) {
        self.seal = seal;
    }

    /// Nothing that was sealed waits for the socket.
    pub(super) fn is_flushed(&self) -> bool {
        self.seal.as_ref().is_none_or(|seal| seal.is_flushed())
    }

    /// Sends what is sealed. False: the socket does not take it now.
    pub(super) fn flush_sealed(&mut self) -> bool {
        loop {
            if self.is_flushed() || self.sends.has_failed() {
                return true;
            }
            if !self.readiness.writable {
                return false;
            }
            let (Some(seal), Some(socket)) = (&mut self.seal, self.phase.sending_socket()) else {
                return true;
            };
            match seal.flush(socket) {
                Ok(()) => self.moved = true,
                Err(Errno::AGAIN) => self.readiness.writable = false,
                Err(Errno::INTR) => {}
                Err(errno) => self.sends.break_with(errno),
            }
        }
    }
}

/// Receives in one call. Also returns with how many bytes there may be more.
pub(super) fn receive_into(
    socket: &OwnedFd,
    seal: &mut Option<Box<dyn Seal>>,
    into: &mut [u8],
) -> (Result<usize, Errno>, usize) {
    let wanted = into.len();
    match seal {
        // Bytes that it has opened are unknown to epoll.
        Some(seal) => (seal.receive(socket, into), 1),
        None => {
            let received = recv(socket, into, RecvFlags::DONTWAIT);
            (received.map(|(_, count)| count), wanted)
        }
    }
}
