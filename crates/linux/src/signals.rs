//! SIGTERM and SIGINT: the first asks the node to stop, the second ends the process at once.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A byte comes at each SIGHUP from now on, which ends the process no more.
pub fn hangups() -> io::Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGHUP, sender)?;
    Ok(receiver)
}

pub(crate) struct Signals {
    receiver: UnixStream,
    handlers: Vec<SigId>,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        let asked = Arc::new(AtomicBool::new(false));
        let mut handlers = Vec::new();
        for (signal, exit_code) in [(SIGINT, 130), (SIGTERM, 143)] {
            // In this order: the first signal finds `asked` false and sets it, the second exits.
            handlers.push(signal_hook::flag::register_conditional_shutdown(
                signal,
                exit_code,
                asked.clone(),
            )?);
            handlers.push(signal_hook::flag::register(signal, asked.clone())?);
            handlers.push(signal_hook::low_level::pipe::register(
                signal,
                sender.try_clone()?,
            )?);
        }
        Ok(Signals { receiver, handlers })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }

    /// Whether a signal came since the last call.
    pub fn take(&mut self) -> bool {
        let mut came = false;
        let mut bytes = [0; 16];
        while matches!(self.receiver.read(&mut bytes), Ok(count) if count > 0) {
            came = true;
        }
        came
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}
