//! Raw appends to a log, each waited for: what a SET or a POST of as many bytes is compared with.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::{AppendOptions, Client};

use super::guest::callers::{Callers, Figures};
use testbed::watch::sleep_until;

/// The median latency of one appender, in ms.
pub fn p50_ms(
    client: &Client,
    log: &str,
    bytes: usize,
    warm_up: Duration,
    counted: Duration,
) -> Result<f64> {
    Ok(figures(client, log, bytes, warm_up, counted)?.p50_ms)
}

/// The latencies of one appender.
pub fn figures(
    client: &Client,
    log: &str,
    bytes: usize,
    warm_up: Duration,
    counted: Duration,
) -> Result<Figures> {
    let appender = client.append(log, AppendOptions::default())?;
    let acknowledgements = appender.acknowledgements();
    let appender = std::sync::Arc::new(Mutex::new(appender));
    let (writes, content) = (appender.clone(), vec![b'v'; bytes]);
    let append = move |_| {
        let mut writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
        let written = writes.append(&content);
        let acknowledged = written.and_then(|position| acknowledgements.wait(position));
        acknowledged.map_err(|error| error.to_string())
    };
    let longest = 2 * (warm_up + counted) + Duration::from_secs(10);
    let callers = Callers::start(1, longest, append)?;
    sleep_until(Instant::now() + warm_up)?;
    callers.window();
    sleep_until(Instant::now() + counted)?;
    let figures = callers.window().some()?;
    drop(callers);
    let mut appender = appender.lock().unwrap_or_else(PoisonError::into_inner);
    appender.close()?;
    Ok(figures)
}
