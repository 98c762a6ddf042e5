//! The pipe that a splice needs between two ends of which neither is a pipe.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Empty between two calls.
#[derive(Debug)]
pub struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

/// /proc/sys/fs/pipe-max-size; without privileges the user's limit may leave less, which will do.
const PIPE_BYTES: usize = 1 << 20;

impl Pipe {
    pub fn new() -> io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let _ = fcntl_setpipe_size(&into, PIPE_BYTES);
        Ok(Pipe { out, into })
    }

    /// At most `count` bytes of a socket that does not block, into a file.
    ///
    /// Shape:  socket -> pipe -> file.
    /// Units:  bytes; 0 is the end of the stream.
    /// Errors: `WouldBlock` if the socket has none now: as the pipe is empty, that is the only one of
    ///         the two meanings of EAGAIN. An error of the file loses what was received.
    /// Source: splice(2).
    pub(crate) fn transfer(
        &mut self,
        socket: impl AsFd,
        file: impl AsFd,
        offset: u64,
        count: usize,
    ) -> Result<usize, TransferError> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let received = splice(socket, None, &self.into, None, count, flags);
        let received = received.map_err(TransferError::Socket)?;
        let mut written = 0;
        while written < received {
            let mut at = offset + written as u64;
            let rest = received - written;
            match splice(
                &self.out,
                None,
                &file,
                Some(&mut at),
                rest,
                SpliceFlags::MOVE,
            ) {
                Ok(0) => return Err(self.lose(Errno::IO)),
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.lose(errno)),
            }
        }
        Ok(received)
    }

    /// The pipe has bytes of a connection that has failed.
    fn lose(&mut self, errno: Errno) -> TransferError {
        let mut scratch = [0; 4096];
        while rustix::io::read(&self.out, &mut scratch[..]).is_ok_and(|count| count > 0) {}
        TransferError::File(errno.into())
    }
}

/// A failed transfer, by the end that failed.
#[derive(Debug)]
pub enum TransferError {
    Socket(Errno),
    File(io::Error),
}
