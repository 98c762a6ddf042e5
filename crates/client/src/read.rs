//! Reading: checked chunks, in order, each once, across changes of leader.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use talk::Input;

use crate::Client;
use crate::answer::ReadEnd;
use crate::cluster::Cluster;
use crate::line::StreamName;
use crate::machine::Host;
use crate::sockets::Sockets;

pub use talk::ReadError;

/// The bytes that are read, and the nodes that are asked for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The first stream of the chain to read. `None`: all outputs of the log, one after the other.
    pub stream: Option<StreamName>,
    /// The first position, in bytes of that chain.
    pub from: u64,
    /// The position after the last one.
    pub to: Option<u64>,
    /// Wait for more until the chain is closed or cut, or `to` is reached.
    pub follow: bool,
    /// Any node may answer, from what it knows to be chosen; that may be less than there is.
    pub stale: bool,
    /// Only this server may answer (`HOST:PORT`). Implies `stale`.
    pub server: Option<String>,
}

/// Reads a chain of streams, or a whole log.
///
/// Hands out only bytes whose checksum it verified. When its server is lost or no longer leads, it
/// goes on elsewhere at the position it reached: no gap and no repeat.
#[derive(Debug)]
pub struct Reader {
    cluster: Arc<Cluster>,
    machine: talk::Reader,
    sockets: Sockets,
    /// Somebody waits for bytes.
    waits: bool,
}

impl Client {
    /// Begins to read; returns once a server has said that it can answer.
    ///
    /// Errors: [`ReadError::UnknownLog`], [`ReadError::UnknownStream`]; [`ReadError::Trimmed`] (with the
    /// first position that is left) and [`ReadError::StreamTrimmed`]; [`ReadError::PastEnd`] unless it
    /// follows; [`ReadError::Unreachable`] if nobody answered in [`Timeouts::total`](crate::Timeouts::total).
    pub fn read(&self, log: &str, options: ReadOptions) -> Result<Reader, ReadError> {
        let cluster = match &options.server {
            None => self.cluster.clone(),
            Some(server) => Arc::new(self.cluster.only(server).of(self.cluster.id())),
        };
        let sockets =
            Sockets::new(cluster.approach()).map_err(|error| cluster.without_sockets(&error))?;
        let wanted = talk::ReadOptions {
            log: log.to_owned(),
            stream: options.stream,
            from: options.from,
            to: options.to,
            follow: options.follow,
            stale: options.stale || options.server.is_some(),
        };
        let (now, timeouts) = (cluster.now(), cluster.timeouts);
        let machine = talk::Reader::new(now, &cluster.known(), wanted, timeouts);
        let mut reader = Reader {
            cluster,
            machine,
            sockets,
            waits: false,
        };
        let cluster = reader.cluster.clone();
        cluster.handle(&mut reader.machine, &Input::Time);
        while !reader.machine.has_begun() {
            if let Some(error) = reader.machine.error() {
                return Err(error.clone());
            }
            reader.sockets.turn(&mut reader.machine, &cluster);
        }
        Ok(reader)
    }
}

impl Reader {
    /// The position of the next byte that [`Read::read`] hands out.
    pub fn position(&self) -> u64 {
        self.machine.position()
    }

    /// The number of bytes of the chain that were known chosen when the present server was asked.
    pub fn length(&self) -> u64 {
        self.machine.length()
    }

    /// The end of the chain, once it came: after a `read` that returned 0.
    pub fn end(&self) -> Option<ReadEnd> {
        self.machine
            .end()
            .filter(|_| self.machine.chunk().is_empty())
    }

    /// The number of times that another server, or the same one again, had to be asked.
    pub fn reconnects(&self) -> u64 {
        self.machine.reconnects()
    }

    /// Waits for bytes or the end, no longer than this; whether one of them is there. For who follows and has
    /// other things to look at: the next `read` returns at once then.
    ///
    /// Errors: those of [`Read::read`].
    pub fn wait(&mut self, within: Duration) -> Result<bool, ReadError> {
        self.have_chunk(Some(Instant::now() + within))
    }

    /// Has a chunk, unless the end or an error is reached.
    fn next_chunk(&mut self) -> Result<(), ReadError> {
        self.have_chunk(None).map(drop)
    }

    /// False: the time is over.
    fn have_chunk(&mut self, until: Option<Instant>) -> Result<bool, ReadError> {
        while self.machine.chunk().is_empty() && self.machine.end().is_none() {
            if let Some(error) = self.machine.error() {
                return Err(error.clone());
            }
            if !std::mem::replace(&mut self.waits, true) {
                self.machine.want(self.cluster.now());
                self.cluster.handle(&mut self.machine, &Input::Time);
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            self.sockets
                .turn_within(&mut self.machine, &self.cluster, left);
        }
        self.waits = false;
        Ok(true)
    }
}

impl BufRead for Reader {
    /// The rest of the present chunk, or the next one. Empty: the end, of which
    /// [`Reader::end`] tells the kind.
    ///
    /// Errors: a [`ReadError`] inside, the same for every call from then on.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.next_chunk()?;
        Ok(self.machine.chunk())
    }

    fn consume(&mut self, count: usize) {
        self.machine.consume(self.cluster.now(), count);
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}
