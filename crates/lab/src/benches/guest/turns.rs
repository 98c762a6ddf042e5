//! Things that take turns: submits and raw appends; and paced appends beside a machine or a log that is busy, or beside neither.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::{AppendOptions, Appender};
use serde::Serialize;

use super::callers::{Callers, Figures};
use super::cluster::{Cluster, OTHER, RAW};
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

/// The load on the same nodes while appends are paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbour {
    Idle,
    /// A log to which as many callers append as many bytes as a value has: what any neighbour costs.
    Log,
    Machine,
}

/// Paced appends, each counted from when it was due.
#[derive(Debug, Serialize)]
pub struct Beside {
    pub neighbour: Neighbour,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// The neighbour's own answers meanwhile.
    pub answers: Option<Figures>,
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
struct Appends {
    callers: Callers,
    appender: Arc<Mutex<Appender>>,
}

impl Appends {
    fn start(
        cluster: &Cluster,
        log: &str,
        callers: u32,
        bytes: usize,
        length: Duration,
    ) -> Result<Appends> {
        let appender = cluster.client().append(log, AppendOptions::default())?;
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
        let callers = Callers::start(callers, longest(length), append)?;
        Ok(Appends { callers, appender })
    }

    fn end(self) -> Result<()> {
        drop(self.callers);
        let mut appender = self.appender.lock().unwrap_or_else(PoisonError::into_inner);
        appender.close()?;
        Ok(())
    }
}

pub fn appends(
    cluster: &mut Cluster,
    callers: u32,
    bytes: usize,
    length: Duration,
) -> Result<Turn> {
    cluster.gather()?;
    let appends = Appends::start(cluster, RAW, callers, bytes, length)?;
    sleep_until(Instant::now() + WARM_UP)?;
    appends.callers.window();
    sleep_until(Instant::now() + length)?;
    let figures = appends.callers.window().some()?;
    appends.end()?;
    Ok(Turn {
        what: What::Appends,
        callers,
        figures,
    })
}

/// Paced appends to one log beside the neighbour, which has so many callers, and values of so many bytes.
pub fn beside(
    cluster: &mut Cluster,
    neighbour: Neighbour,
    callers: u32,
    bytes: usize,
    rate: u64,
    length: Duration,
) -> Result<Beside> {
    let leader = cluster.gather()?;
    let mut appends = None;
    match neighbour {
        Neighbour::Idle => {}
        Neighbour::Log => {
            appends = Some(Appends::start(cluster, OTHER, callers, bytes, length)?);
        }
        Neighbour::Machine => load(cluster, leader, callers, length)?,
    }
    let answers = |cluster: &mut Cluster| match neighbour {
        Neighbour::Idle => Ok(None),
        Neighbour::Log => Ok(appends.as_ref().map(|appends| appends.callers.window())),
        Neighbour::Machine => cluster.window(leader).map(Some),
    };
    let plan = Plan {
        write_bytes: PACED_BYTES,
        rate: Some(rate),
        buffer_bytes: 64 << 20,
        content: Content::Repeated,
    };
    let writer = Writer::start(&cluster.client(), RAW, &plan)?;
    let from = Instant::now() + WARM_UP;
    sleep_until(from)?;
    answers(cluster)?;
    writer.latencies().set_due_window(from, from + length);
    sleep_until(from + length)?;
    let answers = answers(cluster)?;
    let (_, micros) = writer.finish_measured().context("raw appends")?;
    if neighbour == Neighbour::Machine {
        cluster.ask(leader, &Order::Rest)?;
    }
    if let Some(appends) = appends {
        appends.end()?;
    }
    Ok(Beside {
        neighbour,
        p50_ms: rounded(quantile_ms(&micros, 0.5)),
        p99_ms: rounded(quantile_ms(&micros, 0.99)),
        max_ms: rounded(quantile_ms(&micros, 1.0)),
        answers,
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
