//! A connection that was closed here: what still comes is thrown away.

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::{After, Connection, Phase};

impl Connection {
    pub(super) fn discard(&mut self, bytes_max: usize, scratch: &mut [u8]) -> After {
        let Phase::Lingering { socket, .. } = &self.phase else {
            return After::Gone;
        };
        let mut left = bytes_max;
        while self.readiness.readable {
            if left == 0 {
                return After::Again;
            }
            match recv(socket, &mut *scratch, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return After::Gone,
                Ok((_, count)) => {
                    left = left.saturating_sub(count);
                    self.readiness.on_received(count == scratch.len());
                }
                Err(Errno::AGAIN) => self.readiness.readable = false,
                Err(Errno::INTR) => {}
                Err(_) => return After::Gone,
            }
        }
        After::Wait
    }
}
