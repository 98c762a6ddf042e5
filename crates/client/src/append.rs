//! Appending: one writer, one chain of streams, every byte once.

mod closing;
mod driver;
mod opening;
mod resuming;

use std::fmt;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;

use crate::Client;
use crate::answer::Refusal;
use crate::cluster::Unreachable;
use crate::line::{StreamName, StreamPlace};
use crate::request::Mode;
use crate::ring::{CHUNK_BYTES, Ring};

/// This much is sent even while earlier bytes are not acknowledged; less waits for company.
const COALESCE_BYTES: u64 = 64 << 10;

/// Called on the appender's thread with each acknowledged chain position and the time at which it
/// arrived. It holds up the connection while it runs.
pub type OnAcknowledged = Box<dyn FnMut(u64, Instant) + Send>;

pub struct AppendOptions {
    /// A name for people; need not be unique. Given to every stream of the chain.
    pub label: Option<String>,
    /// What to do when the log has an active writer.
    pub mode: Mode,
    /// Written bytes kept until acknowledged: the bound of the appender's memory, in bytes,
    /// rounded up to chunks of 256 KiB.
    pub buffer_bytes_max: usize,
    /// Continue this stream, which must be exactly that long and not be continued yet. None: begin
    /// a new chain.
    pub continues: Option<StreamPlace>,
    pub on_acknowledged: Option<OnAcknowledged>,
}

impl Default for AppendOptions {
    fn default() -> Self {
        Self {
            label: None,
            mode: Mode::Refuse,
            buffer_bytes_max: 64 << 20,
            continues: None,
            on_acknowledged: None,
        }
    }
}

impl fmt::Debug for AppendOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendOptions")
            .field("label", &self.label)
            .field("mode", &self.mode)
            .field("buffer_bytes_max", &self.buffer_bytes_max)
            .field("continues", &self.continues)
            .finish_non_exhaustive()
    }
}

/// Why an append is over. What was acknowledged stays.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error("there is no log {log:?}; create it first")]
    UnknownLog { log: String },
    #[error("log {log:?} has an active writer{}; wait for it or take over", named(.stream))]
    Busy {
        log: String,
        stream: Option<StreamName>,
    },
    /// Final in every mode: two writers that took over from each other would do so for ever.
    #[error("another writer took over{}; what was acknowledged stays", named(.by))]
    Superseded { by: Option<StreamName> },
    #[error("{place} cannot be continued: that stream is {length} bytes long{}", continued(.by))]
    Continues {
        place: StreamPlace,
        length: u64,
        by: Option<StreamName>,
    },
    #[error("there is no stream {stream} to continue; it may have been trimmed")]
    UnknownStream { stream: StreamName },
    #[error("a disk of the cluster is full ({server}); free space there, or trim")]
    Full { server: String },
    #[error("{server} refused: {refusal}")]
    Refused { server: String, refusal: Refusal },
    #[error("{server} answered with what cannot be: {what}; do not trust this stream's end")]
    Garbled { server: String, what: String },
    #[error("the stream is closed")]
    Closed,
    #[error("the appender's thread could not run: {0}")]
    Thread(String),
}

fn named(stream: &Option<StreamName>) -> String {
    stream.map_or_else(String::new, |name| format!(" (stream {name})"))
}

fn continued(by: &Option<StreamName>) -> String {
    by.map_or_else(String::new, |name| format!(" and continued by {name}"))
}

impl From<AppendError> for io::Error {
    fn from(error: AppendError) -> Self {
        let kind = match error {
            AppendError::Unreachable(_) => io::ErrorKind::TimedOut,
            AppendError::Full { .. } => io::ErrorKind::StorageFull,
            AppendError::Busy { .. } => io::ErrorKind::ResourceBusy,
            AppendError::UnknownLog { .. } | AppendError::UnknownStream { .. } => {
                io::ErrorKind::NotFound
            }
            AppendError::Garbled { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// A chain that ended cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The first stream this appender opened: the name by which to read all it wrote.
    pub stream: StreamName,
    /// The last one; the same unless the appender had to resume.
    pub last: StreamName,
    /// The end of the chain, in bytes from its beginning.
    pub position: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub streams_opened: u64,
    /// Connections that were lost or given up and replaced.
    pub reconnects: u64,
    pub bytes_resent: u64,
    /// The longest time in which bytes waited and none was acknowledged.
    pub acknowledge_gap_max: Duration,
}

/// Writes a chain of streams, whatever happens to leaders and connections.
///
/// Writes are coalesced: they are sent when 64 KiB are together, when nothing is unacknowledged, or
/// when [`flush`](io::Write::flush) says so. A write waits only while the buffer is full.
///
/// Dropping does not close: the stream is cut where it is (see the crate's page).
#[derive(Debug)]
pub struct Appender {
    shared: Arc<Shared>,
    driver: Option<JoinHandle<()>>,
}

/// What the writer and the driver's thread share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something was acknowledged, or given back, or is over.
    changed: Condvar,
    /// An eventfd: the driver sleeps in poll, where a condition variable does not reach.
    wake: OwnedFd,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    /// A flush asked for everything below to be sent now.
    flush_to: u64,
    closing_since: Option<Instant>,
    abandoned: bool,
    outcome: Option<Result<Closed, AppendError>>,
    first: StreamName,
    /// The stream being written and the chain position at which it begins.
    last: StreamName,
    base: u64,
    statistics: Statistics,
    /// The driver is in poll, or about to be, and wants to be woken by more to send.
    driver_sleeps: bool,
    /// Writers in `changed`.
    waiters: u32,
    /// The present connection, to be broken when the appender is dropped.
    connection: Option<TcpStream>,
}

impl State {
    fn has_to_send(&self) -> bool {
        let unsent = self.ring.unsent();
        unsent > 0
            && (unsent >= COALESCE_BYTES
                || self.ring.sent() == self.ring.acknowledged()
                || self.flush_to > self.ring.sent()
                || self.closing_since.is_some())
    }

    fn all_acknowledged(&self) -> bool {
        self.ring.acknowledged() == self.ring.written()
    }

    fn error(&self) -> Option<AppendError> {
        match &self.outcome {
            None => None,
            Some(Ok(_)) => Some(AppendError::Closed),
            Some(Err(error)) => Some(error.clone()),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let mut state = self
            .changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        state
    }

    fn wake_driver(&self, state: &mut State) {
        if std::mem::take(&mut state.driver_sleeps) {
            // Fails only if the counter is about to overflow, and then the driver is awake.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

impl Client {
    /// Opens a stream in `log` and returns once it is open.
    ///
    /// Errors: [`AppendError::Busy`] if another writer is active and `mode` is `Refuse`; with
    /// `Wait` the call lasts until that writer is gone.
    pub fn append(&self, log: &str, mut options: AppendOptions) -> Result<Appender, AppendError> {
        let on_acknowledged = options.on_acknowledged.take();
        let opened = opening::open(&self.cluster, log, &options)?;
        let thread = |error: io::Error| AppendError::Thread(error.to_string());
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| thread(error.into()))?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                ring: Ring::new(opened.at, options.buffer_bytes_max),
                flush_to: 0,
                closing_since: None,
                abandoned: false,
                outcome: None,
                first: opened.name,
                last: opened.name,
                base: opened.at,
                statistics: Statistics {
                    streams_opened: 1,
                    ..Statistics::default()
                },
                driver_sleeps: false,
                waiters: 0,
                connection: opened.connection.stream().try_clone().ok(),
            }),
            changed: Condvar::new(),
            wake,
        });
        let driver = driver::Driver::new(
            shared.clone(),
            self.cluster.clone(),
            opening::Chain {
                log: log.to_owned(),
                label: options.label,
                mode: options.mode,
            },
            on_acknowledged,
        );
        let driver = std::thread::Builder::new()
            .name("logberg-append".to_owned())
            .spawn(move || driver.run(opened))
            .map_err(thread)?;
        Ok(Appender {
            shared,
            driver: Some(driver),
        })
    }
}

impl Appender {
    /// Everything below this chain position is chosen.
    pub fn acknowledged(&self) -> u64 {
        self.shared.lock().ring.acknowledged()
    }

    /// The chain position of the next byte.
    pub fn position(&self) -> u64 {
        self.shared.lock().ring.written()
    }

    /// The first stream this appender opened, by which all it writes can be read.
    pub fn stream(&self) -> StreamName {
        self.shared.lock().first
    }

    pub fn statistics(&self) -> Statistics {
        self.shared.lock().statistics
    }

    /// Whether the appender still works: for who has nothing to write and would not notice
    /// otherwise.
    ///
    /// Errors: what every write from now on will say.
    pub fn check(&self) -> Result<(), AppendError> {
        self.shared.lock().error().map_or(Ok(()), Err)
    }

    /// Sends what waits for company and returns when everything below `position` is chosen.
    ///
    /// Units: `position` is a chain position, at most [`Appender::position`]; more is cut to that.
    pub fn wait_acknowledged(&self, position: u64) -> Result<(), AppendError> {
        let mut state = self.shared.lock();
        let position = position.min(state.ring.written());
        state.flush_to = state.flush_to.max(position);
        if state.has_to_send() {
            self.shared.wake_driver(&mut state);
        }
        while state.ring.acknowledged() < position {
            if let Some(error) = state.error() {
                return Err(error);
            }
            state = self.shared.wait(state);
        }
        Ok(())
    }

    /// Waits until everything is acknowledged and the stream's clean end is chosen. Afterwards
    /// only questions are answered.
    ///
    /// Errors: after any, the stream may be closed or not; `streams` tells.
    pub fn close(&mut self) -> Result<Closed, AppendError> {
        let mut state = self.shared.lock();
        state.closing_since.get_or_insert_with(Instant::now);
        self.shared.wake_driver(&mut state);
        let outcome = loop {
            match &state.outcome {
                Some(outcome) => break outcome.clone(),
                None => state = self.shared.wait(state),
            }
        };
        drop(state);
        self.join();
        outcome
    }

    fn join(&mut self) {
        if let Some(driver) = self.driver.take() {
            // A panic there has been reported as the outcome.
            let _ = driver.join();
        }
    }

    /// Takes at least one of `bytes`, and waits for room if there is none.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, AppendError> {
        let mut state = self.shared.lock();
        loop {
            if state.outcome.is_some() || state.closing_since.is_some() {
                return Err(state.error().unwrap_or(AppendError::Closed));
            }
            let mut taken = 0;
            if bytes.len() >= CHUNK_BYTES && state.ring.at_chunk_end() {
                // Whole chunks are copied without the lock; the driver sends meanwhile.
                if let Some(mut chunk) = state.ring.take_chunk() {
                    drop(state);
                    taken = CHUNK_BYTES;
                    chunk.extend_from_slice(&bytes[..taken]);
                    state = self.shared.lock();
                    state.ring.push_chunk(chunk);
                }
            } else {
                taken = state.ring.write(bytes);
            }
            if state.driver_sleeps && (taken == 0 || state.has_to_send()) {
                self.shared.wake_driver(&mut state);
            }
            if taken > 0 {
                return Ok(taken);
            }
            state = self.shared.wait(state);
        }
    }
}

impl io::Write for Appender {
    /// Errors: an [`AppendError`] inside, the same for every call from then on.
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        Ok(self.take(bytes)?)
    }

    /// Has everything sent without waiting for company. Does not wait for acknowledgement: that is
    /// [`Appender::wait_acknowledged`].
    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.shared.lock();
        if let Some(error) = state.error() {
            return Err(error.into());
        }
        state.flush_to = state.ring.written();
        if state.has_to_send() {
            self.shared.wake_driver(&mut state);
        }
        Ok(())
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.abandoned = true;
        if let Some(connection) = &state.connection {
            let _ = connection.shutdown(Shutdown::Both);
        }
        state.driver_sleeps = true;
        self.shared.wake_driver(&mut state);
        drop(state);
        self.join();
    }
}
