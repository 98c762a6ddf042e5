//! The keys of a connection after those of its handshake. `rustls` makes them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::kernel::KernelConnection;

use crate::handshake::refused;
use crate::record::Way;

/// Knowledge of both ways of a connection.
pub struct Keys {
    maker: Mutex<Box<dyn Maker>>,
    /// The other side asked for a new key of what it is sent.
    is_asked: AtomicBool,
}

/// Makes the next key, of each way.
trait Maker: Send {
    fn to_send(&mut self) -> io::Result<Way>;
    fn to_receive(&mut self) -> io::Result<Way>;
}

impl<Data: Send> Maker for KernelConnection<Data> {
    fn to_send(&mut self) -> io::Result<Way> {
        let (next, secrets) = self.update_tx_secret().map_err(refused)?;
        Way::new(next, &secrets)
    }

    fn to_receive(&mut self) -> io::Result<Way> {
        let (next, secrets) = self.update_rx_secret().map_err(refused)?;
        Way::new(next, &secrets)
    }
}

impl Keys {
    pub fn new<Data: Send + 'static>(connection: KernelConnection<Data>) -> Keys {
        Keys {
            maker: Mutex::new(Box::new(connection)),
            is_asked: AtomicBool::new(false),
        }
    }

    pub fn next_to_send(&self) -> io::Result<Way> {
        self.maker().to_send()
    }

    pub fn next_to_receive(&self) -> io::Result<Way> {
        self.maker().to_receive()
    }

    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Release);
    }

    /// Whether somebody asked since the last time.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed) && self.is_asked.swap(false, Ordering::AcqRel)
    }

    fn maker(&self) -> MutexGuard<'_, Box<dyn Maker>> {
        self.maker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
