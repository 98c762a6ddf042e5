//! Writers: each a thread with an appender of its own, flat out or paced.
//!
//! ```text
//!  due times ─► write_all ─► output ═══► leader        paced: a late write was still due in time
//!      └─► latencies ◄─ acks ◄─┘
//! ```

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use client::{Client, Closed, StreamName};
use hdrhistogram::Histogram;

use super::content;
use super::latency::{Latencies, MARK_BYTES};
use super::pace::Pace;
use super::raw::{Output, Way};

/// So much is written before a writer looks at the clock again, or whether it is to end.
const BURST_BYTES: usize = 64 << 10;
/// A thread that sleeps for less does little else than sleep. Bytes that are written later for it count from
/// when they were due all the same.
const SLEEP_MIN: Duration = Duration::from_micros(20);

#[derive(Clone, Debug)]
pub struct Plan {
    pub write_bytes: usize,
    /// Bytes per second of one writer. `None`: as fast as acks come.
    pub rate: Option<u64>,
    /// The appender's memory: what flat out is under way or waits.
    pub buffer_bytes: usize,
    pub content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The same bytes in each write: costs nothing to make.
    Repeated,
    /// Bytes of [`content`], to be checked when they are read back.
    Numbered,
}

/// A writer that has its stream and writes nothing yet.
pub struct Opened {
    shared: Arc<Shared>,
    output: Output,
}

/// A thread that appends until it is stopped. Dropping stops it, and leaves its stream cut.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Closed>>>,
    stream: StreamName,
}

struct Shared {
    stop: AtomicBool,
    abandon: AtomicBool,
    acknowledged: AtomicU64,
    reconnects: AtomicU64,
    latencies: Latencies,
    /// Hears of each ack on the appender's thread.
    on_ack: Option<Box<dyn Fn(u64, Instant) + Send + Sync>>,
}

impl Opened {
    pub fn new(
        way: Way,
        client: &Client,
        log: &str,
        plan: &Plan,
        on_ack: Option<Box<dyn Fn(u64, Instant) + Send + Sync>>,
    ) -> Result<Opened> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            abandon: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
            latencies: Latencies::new(),
            on_ack,
        });
        let hears = shared.clone();
        let on_acknowledged = Box::new(move |position, at| hears.on_ack(position, at));
        let output = Output::open(way, client, log, plan.buffer_bytes, on_acknowledged);
        let output = output.context("cannot open a stream")?;
        Ok(Opened { shared, output })
    }

    pub fn start(self, plan: &Plan) -> Result<Writer> {
        let Opened { shared, output } = self;
        let stream = output.stream();
        let (writes, plan) = (shared.clone(), plan.clone());
        let thread = std::thread::Builder::new()
            .name("bench-writer".to_owned())
            .spawn(move || writes.write(output, &plan))?;
        Ok(Writer {
            shared,
            thread: Some(thread),
            stream,
        })
    }
}

impl Writer {
    pub fn start(client: &Client, log: &str, plan: &Plan) -> Result<Writer> {
        Self::start_with(client, log, plan, None)
    }

    pub fn start_with(
        client: &Client,
        log: &str,
        plan: &Plan,
        on_ack: Option<Box<dyn Fn(u64, Instant) + Send + Sync>>,
    ) -> Result<Writer> {
        Self::start_by(Way::Library, client, log, plan, on_ack)
    }

    pub fn start_by(
        way: Way,
        client: &Client,
        log: &str,
        plan: &Plan,
        on_ack: Option<Box<dyn Fn(u64, Instant) + Send + Sync>>,
    ) -> Result<Writer> {
        Opened::new(way, client, log, plan, on_ack)?.start(plan)
    }

    /// The name by which everything it wrote can be read.
    pub fn stream(&self) -> StreamName {
        self.stream
    }

    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Acquire)
    }

    /// The number of times it has looked for another leader; known within one write of its happening.
    pub fn reconnects(&self) -> u64 {
        self.shared.reconnects.load(Ordering::Acquire)
    }

    pub fn latencies(&self) -> &Latencies {
        &self.shared.latencies
    }

    /// An error of the thread, at once and not at the end.
    pub fn check(&mut self) -> Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join()?;
            return Err(anyhow!("a writer ended before its time"));
        }
        Ok(())
    }

    /// Writes no more; what is under way goes on.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
    }

    /// Writes no more, waits for what is under way, and closes the stream.
    pub fn finish(self) -> Result<Closed> {
        Ok(self.finish_measured()?.0)
    }

    /// And what came of all that was in the window.
    pub fn finish_measured(mut self) -> Result<(Closed, Histogram<u64>)> {
        self.stop();
        let closed = self.join()?;
        Ok((closed, self.shared.latencies.micros()))
    }

    /// As [`Writer::finish_measured`], and the round trips that followed each other.
    pub fn finish_with_round_trips(mut self) -> Result<(Closed, Histogram<u64>, Histogram<u64>)> {
        self.stop();
        let closed = self.join()?;
        let latencies = &self.shared.latencies;
        Ok((closed, latencies.micros(), latencies.round_trips()))
    }

    fn join(&mut self) -> Result<Closed> {
        let thread = self
            .thread
            .take()
            .ok_or_else(|| anyhow!("the writer has ended"))?;
        thread.join().map_err(|_| anyhow!("a writer panicked"))?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.abandon.store(true, Ordering::Release);
        self.shared.stop.store(true, Ordering::Release);
        // A blocked write ends when acks come, or by the client's timeout.
        let _ = self.join();
    }
}

impl Shared {
    fn on_ack(&self, position: u64, at: Instant) {
        self.acknowledged.store(position, Ordering::Release);
        self.latencies.on_acknowledged(position, at);
        if let Some(on_ack) = &self.on_ack {
            on_ack(position, at);
        }
    }

    fn write(&self, mut output: Output, plan: &Plan) -> Result<Closed> {
        // Without this a paced writer sleeps 50 µs too long each time. Best effort.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut bytes = vec![0; plan.write_bytes];
        content::fill(0, &mut bytes);
        let pace = plan
            .rate
            .map(|rate| Pace::new(Instant::now(), plan.write_bytes, rate));
        let burst = (BURST_BYTES / plan.write_bytes).max(1) as u64;
        let (mut number, mut position, mut marked) = (0, 0, 0);
        while !self.stop.load(Ordering::Acquire) {
            let ready = match &pace {
                None => burst,
                Some(pace) => {
                    let now = Instant::now();
                    let ready = pace.due_by(now).saturating_sub(number);
                    if ready == 0 {
                        let early = pace.due(number).saturating_duration_since(now);
                        std::thread::sleep(early.max(SLEEP_MIN));
                        continue;
                    }
                    ready.min(burst)
                }
            };
            for _ in 0..ready {
                if plan.content == Content::Numbered {
                    content::fill(position, &mut bytes);
                    self.reconnects
                        .store(output.reconnects(), Ordering::Release);
                }
                position += bytes.len() as u64;
                if position >= marked + MARK_BYTES {
                    marked = position;
                    let due = pace.map_or_else(Instant::now, |pace| pace.due(number));
                    self.latencies.on_write(position, due);
                }
                number += 1;
                output.write_all(&bytes).context("an append failed")?;
            }
        }
        if let (Some(pace), Some(until)) = (pace, self.latencies.due_until()) {
            self.count_unwritten(pace, number, plan.write_bytes as u64, until);
        }
        if self.abandon.load(Ordering::Acquire) {
            return Err(anyhow!("abandoned"));
        }
        output.close().context("a stream could not be closed")
    }

    /// A writer that did not keep its pace would otherwise be silent about its longest waits.
    fn count_unwritten(&self, pace: Pace, first: u64, write_bytes: u64, until: Instant) {
        let apart = MARK_BYTES.div_ceil(write_bytes);
        let numbers = (first..).step_by(apart as usize);
        for due in numbers.map(|number| pace.due(number)) {
            if due >= until {
                break;
            }
            self.latencies.on_never_written(due);
        }
    }
}
