//! Raw appends of as many bytes as a value has, each waited for: what a SET is compared with.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::AppendOptions;

use super::generator::Length;
use super::nodes::{Nodes, RAW};
use crate::benches::guest::callers::Callers;
use testbed::watch::sleep_until;

/// The median latency of one appender, in ms.
pub fn p50_ms(nodes: &Nodes, bytes: usize, length: Length) -> Result<f64> {
    let appender = nodes.client().append(RAW, AppendOptions::default())?;
    let acknowledgements = appender.acknowledgements();
    let appender = std::sync::Arc::new(Mutex::new(appender));
    let (writes, content) = (appender.clone(), vec![b'v'; bytes]);
    let append = move |_| {
        let mut writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
        let written = writes.append(&content);
        let acknowledged = written.and_then(|position| acknowledgements.wait(position));
        acknowledged.map_err(|error| error.to_string())
    };
    let longest = 2 * (length.warm_up + length.counted) + Duration::from_secs(10);
    let callers = Callers::start(1, longest, append)?;
    sleep_until(Instant::now() + length.warm_up)?;
    callers.window();
    sleep_until(Instant::now() + length.counted)?;
    let figures = callers.window().some()?;
    drop(callers);
    let mut appender = appender.lock().unwrap_or_else(PoisonError::into_inner);
    appender.close()?;
    Ok(figures.p50_ms)
}
