//! Appending: one writer, one chain of streams, every byte once.

mod acknowledgements;
mod driver;
mod shared;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use talk::{CHUNK_BYTES, Input};

use crate::Client;
use crate::line::{StreamName, StreamPlace};
use crate::machine::Host;
use crate::request::Mode;
use crate::sockets::Sockets;
use crate::stage::{Push, Pusher, Stage};

pub use acknowledgements::Acknowledgements;
pub use driver::OnAcknowledged;
use shared::{Shared, State};
pub use talk::{AppendError, Closed, Statistics};

/// How an appender begins, and what it may take.
pub struct AppendOptions {
    /// A name for people; need not be unique. Given to every stream of the chain.
    pub label: Option<String>,
    /// The way to go on when the log has an active writer.
    pub mode: Mode,
    /// Written bytes kept until acknowledged: the bound of the appender's memory, in bytes,
    /// rounded up to chunks of 256 KiB, and 16 KiB for small writes.
    pub buffer_bytes_max: usize,
    /// Continue this stream, which must be exactly that long and not be continued yet. `None`: begin a new chain.
    pub continues: Option<StreamPlace>,
    /// Compare the checksums of what was sent and of what the leader stored ([`AppendError::Damaged`]), at nodes that tell them.
    pub checked: bool,
    /// Called with each acknowledgement, on the appender's thread.
    pub on_acknowledged: Option<OnAcknowledged>,
}

impl Default for AppendOptions {
    fn default() -> Self {
        Self {
            label: None,
            mode: Mode::Refuse,
            buffer_bytes_max: 64 << 20,
            continues: None,
            checked: true,
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

/// Writes a chain of streams, whatever happens to leaders and connections.
///
/// Writes are coalesced: they are sent when 64 KiB are together, when nothing is unacknowledged, or
/// when [`flush`](io::Write::flush) says so. So they are as small as the network and the disks are
/// fast, and no write waits but for room in the buffer. A write of a few bytes costs some ten
/// nanoseconds: there is no need to gather bytes before.
///
/// ```no_run
/// # use logberg_client::{AppendOptions, Client, Timeouts};
/// # let client = Client::new(vec!["127.0.0.1:7117".to_owned()], Timeouts::default());
/// let mut appender = client.append("main", AppendOptions::default())?;
/// let first = appender.append(b"a")?;
/// let second = appender.append(b"b")?;
/// assert_eq!(second, first + 1); // positions, each behind what was written
/// appender.wait_acknowledged(first)?; // `a` is chosen, `b` perhaps not yet
///
/// let acknowledgements = appender.acknowledgements();
/// std::thread::spawn(move || acknowledgements.wait(second)); // wherever it suits
/// # Ok::<(), logberg_client::AppendError>(())
/// ```
///
/// Dropping does not close: the stream is cut where it is (see the crate's page).
#[derive(Debug)]
pub struct Appender {
    shared: Arc<Shared>,
    pusher: Pusher,
    driver: Option<JoinHandle<()>>,
}

impl Client {
    /// Opens a stream in `log` and returns once it is open.
    ///
    /// Errors: [`AppendError::Busy`] if another writer is active and `mode` is `Refuse`; with
    /// `Wait` the call lasts until that writer is gone. [`AppendError::UnknownLog`];
    /// [`AppendError::Continues`] and [`AppendError::UnknownStream`] where `continues` does not fit;
    /// [`AppendError::Full`] where a disk is; [`AppendError::Unreachable`] if nobody took it in
    /// [`Timeouts::total`](crate::Timeouts::total).
    pub fn append(&self, log: &str, mut options: AppendOptions) -> Result<Appender, AppendError> {
        let on_acknowledged = options.on_acknowledged.take();
        let thread = |error: io::Error| AppendError::Thread(error.to_string());
        let cluster = &self.cluster;
        let mut sockets = Sockets::new(self.cluster.approach()).map_err(thread)?;
        let wanted = talk::AppendOptions {
            log: log.to_owned(),
            label: options.label,
            mode: options.mode,
            buffer_bytes_max: options.buffer_bytes_max,
            continues: options.continues,
            token: Some(token()),
            checked: options.checked,
        };
        let (now, timeouts) = (cluster.now(), cluster.timeouts);
        let mut machine = talk::Appender::new(now, &cluster.known(), wanted, timeouts);
        cluster.handle(&mut machine, &Input::Time);
        let first = loop {
            if let Some(first) = machine.stream() {
                break first;
            }
            if let Some(Err(error)) = machine.outcome() {
                return Err(error.clone());
            }
            sockets.turn(&mut machine, cluster);
        };
        let (stage, pusher) = Stage::new(machine.position());
        let state = State {
            machine,
            abandoned: false,
            outcome: None,
            driver_sleeps: false,
            waiters: 0,
        };
        let (wake, began) = (sockets.wake(), cluster.began());
        let shared = Arc::new(Shared::new(state, stage, wake, first, began));
        let driver = driver::Driver::new(shared.clone(), cluster.clone(), sockets, on_acknowledged);
        let driver = std::thread::Builder::new()
            .name("logberg-append".to_owned())
            .spawn(move || driver.run())
            .map_err(thread)?;
        Ok(Appender {
            shared,
            pusher,
            driver: Some(driver),
        })
    }
}

/// A word that no other appender has. The standard library seeds each `RandomState` at random.
fn token() -> String {
    let drawn = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", drawn(), drawn())
}

impl Appender {
    /// Writes all of `bytes` and returns the chain position behind them, for which
    /// [`wait_acknowledged`](Appender::wait_acknowledged) can wait. As
    /// [`write_all`](io::Write::write_all), it waits only for room.
    ///
    /// Errors: [`AppendError::Superseded`] once another writer took over;
    /// [`AppendError::Unreachable`] if there was no room and nothing was acknowledged for
    /// [`Timeouts::total`](crate::Timeouts::total). Any error is said by all later calls too.
    #[inline]
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<u64, AppendError> {
        while !bytes.is_empty() {
            let taken = self.take(bytes)?;
            bytes = &bytes[taken..];
        }
        Ok(self.position())
    }

    /// Everything below this chain position is chosen.
    pub fn acknowledged(&self) -> u64 {
        self.shared.lock().machine.acknowledged()
    }

    /// The chain position of the next byte.
    pub fn position(&self) -> u64 {
        self.pusher.pushed()
    }

    /// The first stream this appender opened, by which all it writes can be read.
    pub fn stream(&self) -> StreamName {
        self.shared.first
    }

    /// The counts so far.
    pub fn statistics(&self) -> Statistics {
        self.shared.lock().machine.statistics()
    }

    /// Whether the appender still works: for a writer that has nothing to write and would not notice otherwise.
    ///
    /// Errors: the error of every write from now on.
    pub fn check(&self) -> Result<(), AppendError> {
        self.shared.lock().error().map_or(Ok(()), Err)
    }

    /// Sends the bytes that wait for company and returns when everything below `position` is chosen.
    ///
    /// Units: `position` is a chain position, at most [`Appender::position`]; more is cut to that.
    ///
    /// Errors: as [`Appender::append`]. Bytes that were not acknowledged then may be chosen or not.
    pub fn wait_acknowledged(&self, position: u64) -> Result<(), AppendError> {
        let position = position.min(self.position());
        acknowledgements::wait(&self.shared, position)
    }

    /// To wait for acknowledgements on other threads than the one that writes.
    pub fn acknowledgements(&self) -> Acknowledgements {
        Acknowledgements::of(self.shared.clone())
    }

    /// Waits until everything is acknowledged and the stream's clean end is chosen. Afterwards
    /// only questions are answered.
    ///
    /// Errors: after any, the stream may be closed or not; `streams` tells.
    pub fn close(&mut self) -> Result<Closed, AppendError> {
        let mut state = self.shared.lock();
        state.machine.close(self.shared.now());
        self.shared.ask_attention(&state);
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
    #[inline]
    fn take(&mut self, bytes: &[u8]) -> Result<usize, AppendError> {
        match self.pusher.push(&self.shared.stage, bytes) {
            Push::Done => Ok(bytes.len()),
            Push::Attention => {
                self.attend();
                Ok(bytes.len())
            }
            Push::Refused => self.take_locked(bytes),
        }
    }

    #[cold]
    fn attend(&self) {
        let mut state = self.shared.lock();
        if state.has_to_send() {
            self.shared.wake_driver(&mut state);
        }
    }

    #[inline(never)]
    fn take_locked(&mut self, bytes: &[u8]) -> Result<usize, AppendError> {
        let shared = &*self.shared;
        let mut state = shared.lock();
        loop {
            if state.outcome.is_some() || state.machine.is_closing() {
                return Err(state.error().unwrap_or(AppendError::Closed));
            }
            let mut taken = 0;
            // Bytes that were pushed before have to stand before.
            if state.machine.position() == self.pusher.pushed() {
                if bytes.len() >= CHUNK_BYTES && state.machine.ring().at_chunk_end() {
                    // Whole chunks are copied without the lock; the driver sends meanwhile.
                    if let Some(mut chunk) = state.machine.ring_mut().take_chunk() {
                        drop(state);
                        taken = CHUNK_BYTES;
                        chunk.extend_from_slice(&bytes[..taken]);
                        state = shared.lock();
                        state.machine.ring_mut().push_chunk(chunk);
                    }
                } else {
                    taken = state.machine.write(bytes);
                }
                self.pusher.skip_to(&shared.stage, state.machine.position());
            }
            if state.driver_sleeps && (taken == 0 || state.has_to_send()) {
                shared.wake_driver(&mut state);
            }
            if taken > 0 {
                return Ok(taken);
            }
            state = shared.wait(state);
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
        self.shared.flush(&mut state, self.pusher.pushed());
        Ok(())
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.abandoned = true;
        state.driver_sleeps = true;
        self.shared.wake_driver(&mut state);
        drop(state);
        self.join();
    }
}
