//! Writers: each a thread with an appender of its own, flat out or paced.
//!
//! ```text
//!  due times ─► write_all ─► appender ═► leader        paced: a late write was still due in time
//!      └─► latencies ◄─ acks ◄─┘
//! ```

use std::io::Write;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use client::{AppendOptions, Appender, Client, Closed, StreamName};
use hdrhistogram::Histogram;

use super::latency::Latencies;
use super::process;
use super::watch::sleep_until;
use super::{content, scratch};

#[derive(Clone, Debug)]
pub struct Plan {
    pub write_bytes: usize,
    /// Bytes per second of one writer. None: as fast as acks come.
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
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            abandon: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
            latencies: Latencies::new(),
            on_ack,
        });
        let hears = shared.clone();
        let options = AppendOptions {
            label: Some("bench".to_owned()),
            buffer_bytes_max: plan.buffer_bytes,
            on_acknowledged: Some(Box::new(move |position, at| hears.on_ack(position, at))),
            ..AppendOptions::default()
        };
        let appender = client
            .append(log, options)
            .context("cannot open a stream")?;
        let stream = appender.stream();
        let (writes, plan) = (shared.clone(), plan.clone());
        let thread = std::thread::Builder::new()
            .name("bench-writer".to_owned())
            .spawn(move || writes.write(appender, &plan))?;
        Ok(Writer {
            shared,
            thread: Some(thread),
            stream,
        })
    }

    /// The name by which everything it wrote can be read.
    pub fn stream(&self) -> StreamName {
        self.stream
    }

    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Acquire)
    }

    /// How often it has looked for another leader; known within one write of its happening.
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

    /// Writes no more, waits for what is under way, and closes the stream.
    pub fn finish(mut self) -> Result<Closed> {
        self.shared.stop.store(true, Ordering::Release);
        self.join()
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

    fn write(&self, mut appender: Appender, plan: &Plan) -> Result<Closed> {
        // Without this a paced writer sleeps 50 µs too long each time. Best effort.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut bytes = vec![0; plan.write_bytes];
        content::fill(0, &mut bytes);
        let mut position = 0;
        let mut due = Instant::now();
        let interval = plan
            .rate
            .map(|rate| Duration::from_secs_f64(plan.write_bytes as f64 / rate as f64));
        while !self.stop.load(Ordering::Acquire) {
            match interval {
                Some(interval) => {
                    due += interval;
                    let early = due.saturating_duration_since(Instant::now());
                    if !early.is_zero() {
                        std::thread::sleep(early);
                    }
                }
                None => due = Instant::now(),
            }
            if plan.content == Content::Numbered {
                content::fill(position, &mut bytes);
                let reconnects = appender.statistics().reconnects;
                self.reconnects.store(reconnects, Ordering::Release);
            }
            position += bytes.len() as u64;
            self.latencies.on_write(position, due);
            appender.write_all(&bytes).context("an append failed")?;
        }
        if self.abandon.load(Ordering::Acquire) {
            return Err(anyhow!("abandoned"));
        }
        appender.close().context("a stream could not be closed")
    }
}

/// What came of a load, between its warm-up and its end.
pub struct Measured {
    pub seconds: f64,
    pub acked_bytes: u64,
    pub acks: u64,
    pub micros: Histogram<u64>,
    pub client_cpu: Duration,
    pub nodes_cpu: Duration,
}

impl Measured {
    pub fn mb_per_s(&self) -> f64 {
        self.acked_bytes as f64 / 1e6 / self.seconds
    }

    pub fn per_gb(&self, cpu: Duration) -> f64 {
        match self.acked_bytes {
            0 => 0.0,
            bytes => cpu.as_secs_f64() / (bytes as f64 / 1e9),
        }
    }
}

/// One writer per log for `warm_up` and then, measured, for `length`.
pub fn measure(
    client: &Client,
    logs: &[String],
    plan: &Plan,
    warm_up: Duration,
    length: Duration,
    nodes_cpu: impl Fn() -> Result<Duration>,
) -> Result<Measured> {
    let acks = Arc::new(AtomicU64::new(0));
    let mut writers = Vec::new();
    for log in logs {
        let count = acks.clone();
        let on_ack = move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        writers.push(Writer::start_with(
            client,
            log,
            plan,
            Some(Box::new(on_ack)),
        )?);
    }
    let from = Instant::now() + warm_up;
    let to = from + length;
    for writer in &writers {
        writer.latencies().set_window(from, to);
    }
    let look = || -> Result<_> {
        let acked: u64 = writers.iter().map(Writer::acknowledged).sum();
        let acks = acks.load(Ordering::Relaxed);
        Ok((
            Instant::now(),
            acked,
            acks,
            process::own_cpu()?,
            nodes_cpu()?,
        ))
    };
    sleep_until(from)?;
    let before = look()?;
    sleep_until(to)?;
    let after = look()?;
    let mut micros: Option<Histogram<u64>> = None;
    for mut writer in writers {
        writer.check()?;
        match &mut micros {
            None => micros = Some(writer.latencies().micros()),
            Some(sum) => sum.add(writer.latencies().micros())?,
        }
        let closed = writer.finish()?;
        scratch::go_on()?;
        tracing::debug!(position = closed.position, "a stream is closed");
    }
    Ok(Measured {
        seconds: (after.0 - before.0).as_secs_f64(),
        acked_bytes: after.1 - before.1,
        acks: after.2 - before.2,
        micros: micros.context("there is at least one writer")?,
        client_cpu: after.3.saturating_sub(before.3),
        nodes_cpu: after.4.saturating_sub(before.4),
    })
}
