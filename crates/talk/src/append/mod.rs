//! Appending: one writer, one chain of streams, every byte once.
//!
//! ```text
//!   opening ──► writing ──► closing ──► closed
//!                │   ▲         │ cut
//!          lost  ▼   │ open    │
//!               resuming ◄─────┘
//!                  └──► failed: superseded, full, no leader in time
//! ```

mod closing;
mod error;
mod opening;
mod resumption;
mod writing;

use std::collections::VecDeque;
use std::time::Duration;

use wire::{Ask, ConnectionEnd, Mode, StreamName, StreamPlace};

use crate::known::Known;
use crate::links::{Input, Link, Links, Output};
use crate::lookout::Lookout;
use crate::ring::{Lent as Part, Ring};
use crate::said::{Said, Timeouts};
use crate::search::Backoff;
use crate::seek::Lent;

use closing::Closing;
pub use error::AppendError;
use opening::{Opening, Resuming};
use writing::Writing;

/// This much is sent even while earlier bytes are not acknowledged; less waits for company.
pub const COALESCE_BYTES: u64 = 64 << 10;

/// While nothing waits for an acknowledgement, a lost cluster may take its time.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// The log to append to, and the way to do it.
#[derive(Clone, Debug)]
pub struct AppendOptions {
    pub log: String,
    /// A name for people; need not be unique. Given to every stream of the chain.
    pub label: Option<String>,
    /// The way to go on when the log has an active writer.
    pub mode: Mode,
    /// Written bytes kept until acknowledged, rounded up to chunks of 256 KiB.
    pub buffer_bytes_max: usize,
    /// Continue this stream, which must be exactly that long and not be continued yet. `None`: begin a new chain.
    pub continues: Option<StreamPlace>,
    /// No other writer's: by this a node finds the first stream again if the answer to its opening was lost.
    pub token: Option<String>,
    /// Compare what is acknowledged with what was sent, by checksums, at nodes that tell them.
    pub checked: bool,
}

impl AppendOptions {
    /// A new chain in this log, which is refused while somebody else writes; 64 MiB are kept, and checksums compared.
    pub fn to(log: &str) -> Self {
        Self {
            log: log.to_owned(),
            label: None,
            mode: Mode::Refuse,
            buffer_bytes_max: 64 << 20,
            continues: None,
            token: None,
            checked: true,
        }
    }

    fn ring(&self, base: u64) -> Ring {
        match self.checked {
            true => Ring::summing(base, self.buffer_bytes_max),
            false => Ring::new(base, self.buffer_bytes_max),
        }
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
/// Bytes are written into a ring of fixed size, lent to the caller to be sent, and kept until they are
/// acknowledged. The caller sends what [`Appender::sending`] and [`Appender::lend`] say, as the connection
/// takes it, and says with [`Appender::sent`] how much that was.
///
/// Memory: the ring, one line of an answer, the names of 64 streams.
#[derive(Debug)]
pub struct Appender {
    links: Links,
    lookout: Lookout,
    timeouts: Timeouts,
    options: AppendOptions,
    phase: Phase,
    /// The connection of the open stream; it stays while the stream is closed by a second exchange.
    writing: Option<Writing>,
    progress: Progress,
    chain: Option<Chain>,
    outcome: Option<Result<Closed, AppendError>>,
}

/// The progress that a caller may look at while bytes are on their way. Positions are those of the chain.
#[derive(Debug)]
struct Progress {
    ring: Ring,
    /// A flush asked for everything below to be sent now.
    flush_to: u64,
    closing_since: Option<Duration>,
    /// When something was last acknowledged, or when bytes began to wait after none did.
    at: Duration,
    /// When the present server last acknowledged, or when bytes began to wait for it.
    heard: Duration,
    /// When this was last looked at, and whether nothing waited then.
    looked_at: Duration,
    was_idle: bool,
    /// Between connections that bring nothing.
    backoff: Backoff,
    statistics: Statistics,
}

/// The streams of an appender.
#[derive(Debug)]
struct Chain {
    first: StreamName,
    /// The stream being written and the chain position at which it begins.
    last: StreamName,
    base: u64,
    /// The latest streams before that one.
    wrote: VecDeque<StreamName>,
}

#[derive(Debug)]
enum Phase {
    Opening(Opening),
    Writing,
    Resuming(Resuming),
    Closing(Box<Closing>),
    Over,
}

impl Progress {
    fn new(now: Duration, ring: Ring) -> Progress {
        Progress {
            ring,
            flush_to: 0,
            closing_since: None,
            at: now,
            heard: now,
            looked_at: now,
            was_idle: true,
            backoff: Backoff::graceful(),
            statistics: Statistics::default(),
        }
    }

    fn has_to_send(&self) -> bool {
        let ring = &self.ring;
        let unsent = ring.unsent();
        unsent > 0
            // (There is nothing to wait for where nothing more fits in.)
            && (unsent >= COALESCE_BYTES
                || ring.is_full()
                || ring.sent() == ring.acknowledged()
                || self.flush_to > ring.sent()
                || self.closing_since.is_some())
    }

    fn all_acknowledged(&self) -> bool {
        self.ring.acknowledged() == self.ring.written()
    }

    /// The time of those who wait for nothing does not count.
    fn look(&mut self, now: Duration) {
        // Who closes waits for an answer, though all is acknowledged.
        if self.was_idle && self.closing_since.is_none() {
            (self.at, self.heard) = (now, now);
        }
        self.was_idle = self.all_acknowledged();
        self.looked_at = now;
    }

    fn acknowledged(&mut self, now: Duration) {
        let gap = now.saturating_sub(self.at);
        (self.at, self.heard) = (now, now);
        self.backoff = Backoff::graceful();
        let longest = &mut self.statistics.acknowledge_gap_max;
        *longest = gap.max(*longest);
    }

    /// Until when a leader must be found. While no byte waits there is time.
    fn deadline(&self, now: Duration, total: Duration) -> Duration {
        if self.all_acknowledged() && self.closing_since.is_none() {
            return now + PATIENCE;
        }
        // The wait of a close begins with the close, not with the last byte long before.
        self.closing_since
            .map_or(self.at, |since| since.max(self.at))
            + total
    }
}

impl Appender {
    /// Begins to open a stream.
    pub fn new(now: Duration, known: &Known, options: AppendOptions, timeouts: Timeouts) -> Self {
        let opening = Opening::new(now, known, &options, &timeouts);
        Self {
            links: Links::default(),
            lookout: Lookout::new(Some(&options.log)),
            timeouts,
            phase: Phase::Opening(opening),
            writing: None,
            progress: Progress::new(now, options.ring(0)),
            chain: None,
            outcome: None,
            options,
        }
    }

    /// Takes in what happened. Afterwards [`Appender::poll_output`] says what to do.
    pub fn handle(&mut self, now: Duration, known: &mut Known, input: &Input) {
        self.progress.look(now);
        if self.progress.was_idle && matches!(self.phase, Phase::Writing) {
            self.lookout.disarm(&mut self.links);
        }
        match &mut self.phase {
            Phase::Opening(_) => self.open(now, known, input),
            Phase::Writing => self.converse(now, known, input),
            Phase::Resuming(_) => self.resume(now, known, input),
            Phase::Closing(_) => self.close_stream(now, known, input),
            Phase::Over => {}
        }
        self.progress.was_idle = self.progress.all_acknowledged();
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.links.poll()
    }

    /// When [`Appender::handle`] is to be called with [`Input::Time`] at the latest, if nothing happens before.
    pub fn deadline(&self) -> Option<Duration> {
        let total = self.timeouts.total;
        let until = self.progress.deadline(self.progress.looked_at, total);
        match &self.phase {
            Phase::Opening(opening) => opening.deadline(&self.timeouts, &self.lookout),
            Phase::Writing => self.writing_deadline(),
            Phase::Resuming(resuming) => resuming.deadline(until, &self.timeouts, &self.lookout),
            Phase::Closing(closing) => closing.deadline(until, &self.timeouts, &self.lookout),
            Phase::Over => None,
        }
    }

    /// Takes as many of `bytes` as there is room for. Nothing is taken before the stream is open.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        match self.is_open() {
            true => self.progress.ring.write(bytes),
            false => 0,
        }
    }

    /// Has everything below `position` sent without waiting for company.
    pub fn flush(&mut self, position: u64) {
        self.progress.flush_to = self.progress.flush_to.max(position);
    }

    /// Ends the chain cleanly once everything is acknowledged. Nothing is written after it.
    pub fn close(&mut self, now: Duration) {
        self.progress.closing_since.get_or_insert(now);
    }

    pub fn is_closing(&self) -> bool {
        self.progress.closing_since.is_some()
    }

    /// The connection that is to be sent more bytes now, if any.
    pub fn sending(&self) -> Option<Link> {
        let writing = self.writing.as_ref();
        let writes = matches!(self.phase, Phase::Writing) && self.progress.has_to_send();
        writing.filter(|_| writes).map(|writing| writing.link)
    }

    /// Lends what is to be sent next, in order, in at most `parts_max` parts.
    pub fn lend(&self, parts_max: usize, parts: &mut Vec<Part>) {
        self.progress.ring.lend(parts_max, parts);
    }

    /// Notes that so many of the lent bytes were given to the connection.
    pub fn sent(&mut self, count: u64) {
        let again = self.progress.ring.advance_sent(count);
        self.progress.statistics.bytes_resent += again;
    }

    /// The same for callers that may copy: the next bytes of the ring as an output, and they count as sent.
    pub fn send_some(&mut self) -> Option<Output> {
        let link = self.sending()?;
        let mut parts = Vec::new();
        self.lend(1, &mut parts);
        let bytes = parts.first()?.bytes().to_vec();
        self.sent(bytes.len() as u64);
        Some(Output::Send(link, bytes))
    }

    /// For callers that fill chunks of it outside of any lock.
    pub fn ring(&self) -> &Ring {
        &self.progress.ring
    }

    pub fn ring_mut(&mut self) -> &mut Ring {
        &mut self.progress.ring
    }

    /// A stream is open, and takes bytes.
    pub fn is_writing(&self) -> bool {
        matches!(self.phase, Phase::Writing)
    }

    /// The first stream was opened: from here on bytes are taken.
    pub fn is_open(&self) -> bool {
        self.chain.is_some()
    }

    /// The first stream, by which all that is written can be read.
    pub fn stream(&self) -> Option<StreamName> {
        self.chain.as_ref().map(|chain| chain.first)
    }

    /// Everything below this chain position is chosen.
    pub fn acknowledged(&self) -> u64 {
        self.progress.ring.acknowledged()
    }

    /// The chain position of the next byte.
    pub fn position(&self) -> u64 {
        self.progress.ring.written()
    }

    pub fn statistics(&self) -> Statistics {
        self.progress.statistics
    }

    /// The outcome, once it ended.
    pub fn outcome(&self) -> Option<&Result<Closed, AppendError>> {
        self.outcome.as_ref()
    }

    fn ask(&self, continues: Option<StreamPlace>, mode: Mode) -> Ask {
        Ask::Append {
            log: self.options.log.clone(),
            label: self.options.label.clone(),
            continues,
            token: None,
            checked: self.options.checked,
            mode,
            end: ConnectionEnd::Cut,
        }
    }

    fn finish(&mut self, outcome: Result<Closed, AppendError>) {
        self.lookout.disarm(&mut self.links);
        if let Some(writing) = self.writing.take() {
            self.links.close(writing.link);
        }
        self.phase = Phase::Over;
        self.outcome = Some(outcome);
    }

    fn fail(&mut self, error: impl Into<AppendError>) {
        self.finish(Err(error.into()));
    }

    /// The connection of the stream is over; the chain goes on elsewhere.
    fn lose(&mut self, now: Duration, known: &mut Known, said: Said) {
        self.lookout.disarm(&mut self.links);
        let Some(writing) = self.writing.take() else {
            return;
        };
        self.links.close(writing.link);
        self.begin_to_resume(now, known, &writing.server, said);
        self.handle(now, known, &Input::Time);
    }
}

/// Borrows what seekers are lent, and leaves the rest of the appender to its owner.
macro_rules! lent {
    ($appender:ident, $now:ident, $known:ident) => {
        Lent {
            now: $now,
            known: &mut *$known,
            links: &mut $appender.links,
            lookout: &mut $appender.lookout,
            timeouts: &$appender.timeouts,
        }
    };
}
use lent;
