//! A load between its warm-up and its end: what was acknowledged, how soon, and what it cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use client::Client;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::latency::{histogram, quantile_ms, rounded};
use super::load::{Opened, Plan, Writer};
use super::raw::Way;
use super::roles::{Spent, Watched};
use testbed::scratch;
use testbed::watch::sleep_until;

pub struct Measured {
    pub seconds: f64,
    pub write_bytes: u64,
    pub acked_bytes: u64,
    pub acks: u64,
    /// All bytes that the writers wrote, with those before and after.
    pub end: u64,
    /// The latencies of all writes that were due in the time.
    pub micros: Histogram<u64>,
    /// Those of round trips that followed each other, one at a time, of each writer.
    pub round_trips: Histogram<u64>,
    pub spent: Spent,
    pub moments: Vec<Moment>,
    /// In the order of the logs.
    pub of_each: Vec<OfOne>,
}

/// The result of one log's writer.
pub struct OfOne {
    pub acked_bytes: u64,
    pub micros: Histogram<u64>,
}

/// One piece of the time, so that a trend or a pause shows.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moment {
    /// The end of the piece, from the beginning of what is measured.
    pub at_ms: f64,
    pub mb_per_s: f64,
    /// The latencies of the acks that arrived in this moment.
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// The resident memory of all nodes together.
    pub rss_mb: f64,
}

const MOMENT_MIN: Duration = Duration::from_millis(100);
const MOMENTS_MAX: u32 = 300;

impl Measured {
    pub fn mb_per_s(&self) -> f64 {
        self.acked_bytes as f64 / 1e6 / self.seconds
    }

    pub fn writes_per_s(&self) -> f64 {
        self.acked_bytes as f64 / self.write_bytes as f64 / self.seconds
    }

    pub fn per_gb(&self, cpu: Duration) -> f64 {
        match self.acked_bytes {
            0 => 0.0,
            bytes => cpu.as_secs_f64() / (bytes as f64 / 1e9),
        }
    }
}

/// Writers, one for each log, that run.
pub struct Load {
    writers: Vec<Writer>,
    acks: Arc<AtomicU64>,
    write_bytes: u64,
}

/// One writer per log for `warm_up` and then, measured, for `length`.
pub fn measure(
    client: &Client,
    logs: &[String],
    plan: &Plan,
    warm_up: Duration,
    length: Duration,
    watched: &Watched,
) -> Result<Measured> {
    Load::start(client, logs, plan)?.measure(warm_up, length, watched)
}

impl Load {
    pub fn start(client: &Client, logs: &[String], plan: &Plan) -> Result<Load> {
        Self::start_by(Way::Library, client, logs, plan)
    }

    pub fn start_by(way: Way, client: &Client, logs: &[String], plan: &Plan) -> Result<Load> {
        let acks = Arc::new(AtomicU64::new(0));
        let open = |log: &String| {
            let count = acks.clone();
            let on_ack = move |_, _| {
                count.fetch_add(1, Ordering::Relaxed);
            };
            Opened::new(way, client, log, plan, Some(Box::new(on_ack)))
        };
        // All before the first begins: beside the full queues of others the next open takes long.
        let opened: Vec<Opened> = logs.iter().map(open).collect::<Result<_>>()?;
        let writers = opened.into_iter().map(|opened| opened.start(plan));
        Ok(Load {
            writers: writers.collect::<Result<_>>()?,
            acks,
            write_bytes: plan.write_bytes as u64,
        })
    }

    pub fn writers(&self) -> &[Writer] {
        &self.writers
    }

    /// Ends the writers.
    pub fn measure(
        self,
        warm_up: Duration,
        length: Duration,
        watched: &Watched,
    ) -> Result<Measured> {
        self.measure_and(warm_up, length, watched, |_| ())
    }

    /// `at_end` is told how many bytes are acknowledged when the time is over, before writers end.
    pub fn measure_and(
        self,
        warm_up: Duration,
        length: Duration,
        watched: &Watched,
        at_end: impl FnOnce(u64),
    ) -> Result<Measured> {
        let Load {
            mut writers,
            acks,
            write_bytes,
        } = self;
        let from = Instant::now() + warm_up;
        let to = from + length;
        for writer in &writers {
            writer.latencies().set_due_window(from, to);
        }
        let positions =
            |writers: &[Writer]| -> Vec<u64> { writers.iter().map(Writer::acknowledged).collect() };
        sleep_until(from)?;
        let mut recent = histogram();
        for writer in &writers {
            writer.latencies().take_recent(&mut recent);
        }
        let (began, before) = (watched.look()?, positions(&writers));
        let acks_before = acks.load(Ordering::Relaxed);
        let mut moments = Vec::new();
        let piece = (length / MOMENTS_MAX).max(MOMENT_MIN);
        let (mut last, mut last_sum) = (Instant::now(), before.iter().sum::<u64>());
        while last < to {
            // A rest that is shorter than half a piece would be noise.
            let next = if last + piece * 3 / 2 >= to {
                to
            } else {
                last + piece
            };
            sleep_until(next)?;
            recent.reset();
            for writer in &mut writers {
                writer.check()?;
                writer.latencies().take_recent(&mut recent);
            }
            let (now, sum) = (Instant::now(), positions(&writers).iter().sum::<u64>());
            let rate = (sum - last_sum) as f64 / 1e6 / (now - last).as_secs_f64();
            moments.push(Moment {
                at_ms: rounded((now - from).as_secs_f64() * 1e3),
                mb_per_s: rounded(rate),
                p50_ms: rounded(quantile_ms(&recent, 0.5)),
                p99_ms: rounded(quantile_ms(&recent, 0.99)),
                rss_mb: rounded(watched.nodes_rss_bytes()? as f64 / 1e6),
            });
            (last, last_sum) = (now, sum);
        }
        let (ended, after) = (watched.look()?, positions(&writers));
        let acks = acks.load(Ordering::Relaxed) - acks_before;
        at_end(after.iter().sum());
        let spent = watched.spent(&began, &ended)?;
        for writer in &writers {
            writer.stop();
        }
        let (mut micros, mut round_trips) = (histogram(), histogram());
        let (mut of_each, mut end) = (Vec::new(), 0);
        for (writer, (before, after)) in writers.into_iter().zip(before.iter().zip(&after)) {
            let (closed, own, trips) = writer.finish_with_round_trips()?;
            round_trips.add(&trips)?;
            scratch::go_on()?;
            end += closed.position;
            micros.add(&own)?;
            of_each.push(OfOne {
                acked_bytes: after - before,
                micros: own,
            });
        }
        Ok(Measured {
            seconds: spent.seconds,
            write_bytes,
            acked_bytes: of_each.iter().map(|one| one.acked_bytes).sum(),
            acks,
            end,
            micros,
            round_trips,
            spent,
            moments,
            of_each,
        })
    }
}
