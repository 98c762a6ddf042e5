//! Nodes that reach each other by way of Unix sockets: the kernel's own connections, and another kind of socket.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use linux::{Dial, Handed, Kernel, UNIX};
use ops::Machine;
use serve::{Carry, Seat};

use super::{Transport, port_of};

/// Nodes whose sockets are in one directory, each named by its port.
pub struct Unix {
    sockets: PathBuf,
}

impl Unix {
    pub fn new(sockets: PathBuf) -> Unix {
        Unix { sockets }
    }
}

fn path_of(sockets: &Path, port: u16) -> PathBuf {
    sockets.join(format!("{port}.sock"))
}

struct Dialer {
    sockets: PathBuf,
}

impl Dial for Dialer {
    /// Connects at once: a Unix socket is there or it is not, and a backlog that is full is an error of the other node's.
    fn dial(&self, address: String, done: Box<dyn FnOnce(io::Result<Handed>) + Send>) {
        done(self.connect(&address));
    }
}

impl Dialer {
    fn connect(&self, address: &str) -> io::Result<Handed> {
        let stream = UnixStream::connect(path_of(&self.sockets, port_of(address)?))?;
        stream.set_nonblocking(true)?;
        Ok(Handed {
            socket: OwnedFd::from(stream),
            peer: address.to_owned(),
            node: None,
            client: None,
            far: None,
            seal: None,
        })
    }
}

impl Carry for Unix {
    fn name(&self) -> &'static str {
        Transport::Unix.name()
    }

    fn set_up(&mut self, kernel: &mut Kernel, seat: &Seat) -> Result<()> {
        let path = path_of(&self.sockets, seat.bound.port());
        kernel
            .bind_also(&format!("{UNIX}{}", path.display()))
            .with_context(|| format!("cannot listen at {}", path.display()))?;
        let sockets = self.sockets.clone();
        kernel.set_dialer(Arc::new(Dialer { sockets }));
        Ok(())
    }

    fn around<'a>(&'a mut self, node: &'a mut dyn Machine) -> Result<Box<dyn Machine + 'a>> {
        Ok(Box::new(node))
    }
}
