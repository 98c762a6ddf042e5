//! Two things that take turns: submits beside raw appends, and raw appends beside a machine that is idle or busy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::AppendOptions;
use serde::Serialize;

use super::callers::{Callers, Figures};
use super::cluster::{Cluster, RAW};
use super::orders::Order;
use bench::latency::{quantile_ms, rounded};
use bench::load::{Content, Plan, Writer};
use testbed::watch::sleep_until;

/// Before anything is counted.
const WARM_UP: Duration = Duration::from_millis(500);
/// The bytes of a paced append.
const PACED_BYTES: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    Submits,
    Appends,
}

/// Submits, or appends of as many bytes as a value has.
#[derive(Debug, Serialize)]
pub struct Turn {
    pub what: What,
    pub callers: u32,
    #[serde(flatten)]
    pub figures: Figures,
}

/// Paced appends, each counted from when it was due.
#[derive(Debug, Serialize)]
pub struct Beside {
    pub busy: bool,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// The machine's own answers meanwhile.
    pub submits: Option<Figures>,
}

/// Callers in the leader's process.
pub fn submits(cluster: &mut Cluster, callers: u32, length: Duration) -> Result<Turn> {
    let leader = cluster.gather()?;
    load(cluster, leader, callers, length)?;
    sleep_until(Instant::now() + WARM_UP)?;
    cluster.window(leader)?;
    sleep_until(Instant::now() + length)?;
    let figures = cluster.window(leader)?;
    cluster.ask(leader, &Order::Rest)?;
    Ok(Turn {
        what: What::Submits,
        callers,
        figures,
    })
}

/// Callers on one appender, since a log takes one writer at a time: each appends, and waits until what it wrote is
/// acknowledged.
pub fn appends(
    cluster: &mut Cluster,
    callers: u32,
    bytes: usize,
    length: Duration,
) -> Result<Turn> {
    cluster.gather()?;
    let client = cluster.client();
    let appender = client.append(RAW, AppendOptions::default())?;
    let acknowledgements = appender.acknowledgements();
    let appender = Arc::new(Mutex::new(appender));
    let (writes, content) = (appender.clone(), vec![b'v'; bytes]);
    let append = move |_| {
        let written = writes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(&content);
        let acknowledged = written.and_then(|position| acknowledgements.wait(position));
        acknowledged.map_err(|error| error.to_string())
    };
    let callers_run = Callers::start(callers, longest(length), append)?;
    sleep_until(Instant::now() + WARM_UP)?;
    callers_run.window();
    sleep_until(Instant::now() + length)?;
    let figures = callers_run.window().some()?;
    drop(callers_run);
    appender
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .close()?;
    Ok(Turn {
        what: What::Appends,
        callers,
        figures,
    })
}

/// Paced appends to the other log, while so many callers submit; none: the machine is idle.
pub fn beside(
    cluster: &mut Cluster,
    callers: Option<u32>,
    rate: u64,
    length: Duration,
) -> Result<Beside> {
    let leader = cluster.gather()?;
    if let Some(callers) = callers {
        load(cluster, leader, callers, length)?;
    }
    let plan = Plan {
        write_bytes: PACED_BYTES,
        rate: Some(rate),
        buffer_bytes: 64 << 20,
        content: Content::Repeated,
    };
    let writer = Writer::start(&cluster.client(), RAW, &plan)?;
    let from = Instant::now() + WARM_UP;
    sleep_until(from)?;
    if callers.is_some() {
        cluster.window(leader)?;
    }
    writer.latencies().set_due_window(from, from + length);
    sleep_until(from + length)?;
    let submits = match callers {
        Some(_) => Some(cluster.window(leader)?),
        None => None,
    };
    let (_, micros) = writer.finish_measured().context("raw appends")?;
    if callers.is_some() {
        cluster.ask(leader, &Order::Rest)?;
    }
    Ok(Beside {
        busy: callers.is_some(),
        p50_ms: rounded(quantile_ms(&micros, 0.5)),
        p99_ms: rounded(quantile_ms(&micros, 0.99)),
        max_ms: rounded(quantile_ms(&micros, 1.0)),
        submits,
    })
}

fn load(cluster: &mut Cluster, leader: u32, callers: u32, length: Duration) -> Result<()> {
    let seconds_max = longest(length).as_secs_f64();
    let order = Order::Load {
        callers,
        seconds_max,
    };
    cluster.ask(leader, &order)
}

/// Callers end by themselves after that, should nobody end them.
fn longest(length: Duration) -> Duration {
    2 * length + Duration::from_secs(10)
}
