//! Appends: callers of which each appends, waits for the answer, and appends again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::report::{Cell, OfReference};
use super::target::Target;
use crate::benches::guest::callers::{Callers, Figures};
use bench::latency::{median, rounded};
use testbed::watch::sleep_until;

#[derive(Clone, Copy)]
pub struct Load {
    pub clients: u32,
    /// Appended to in turn.
    pub streams: u32,
    pub bytes: usize,
}

#[derive(Clone, Copy)]
pub struct Length {
    pub warm_up: Duration,
    pub counted: Duration,
}

pub struct Turn {
    pub figures: Figures,
    /// Appends that were answered, also before and behind what is counted.
    pub answered: u64,
    /// Those without an answer, which may be there all the same.
    pub unknown: u64,
}

pub fn measure(target: &Target, prefix: &str, load: Load, length: Length) -> Result<Turn> {
    let (answered, unknown) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (target, prefix) = (target.clone(), prefix.to_owned());
    let counts = (answered.clone(), unknown.clone());
    let content = vec![b'v'; load.bytes];
    let append = move |number: u64| {
        let appended = target.append(&prefix, number % u64::from(load.streams), &content);
        let count = if appended.is_ok() {
            &counts.0
        } else {
            &counts.1
        };
        count.fetch_add(1, Ordering::Relaxed);
        appended.map_err(|error| format!("{error:#}"))
    };
    let longest = 2 * (length.warm_up + length.counted) + Duration::from_secs(10);
    let callers = Callers::start(load.clients, longest, append)?;
    sleep_until(Instant::now() + length.warm_up)?;
    callers.window();
    sleep_until(Instant::now() + length.counted)?;
    let figures = callers.window().some()?;
    drop(callers);
    Ok(Turn {
        figures,
        answered: answered.load(Ordering::Relaxed),
        unknown: unknown.load(Ordering::Relaxed),
    })
}

/// All turns of a load.
#[derive(Default)]
pub struct Turns {
    ours: Vec<Figures>,
    cpu_us: Vec<f64>,
    pub reference: Vec<Figures>,
    pub raw_p50_ms: Vec<f64>,
    pub answered: u64,
    pub unknown: u64,
}

impl Turns {
    /// `cpu`: what all nodes used meanwhile.
    pub fn add_ours(&mut self, turn: Turn, cpu: Duration) {
        let each = cpu.as_micros() as f64 / turn.answered.max(1) as f64;
        self.answered += turn.answered;
        self.unknown += turn.unknown;
        self.cpu_us.push(each);
        self.ours.push(turn.figures);
    }

    pub fn cell(self, load: Load) -> Cell {
        let of =
            |all: &[Figures], which: fn(&Figures) -> f64| rounded(median(all.iter().map(which)));
        let p50_ms = of(&self.ours, |figures| figures.p50_ms);
        let raw = self.raw_p50_ms.first();
        let raw_append_p50_ms = raw.map(|_| rounded(median(self.raw_p50_ms.iter().copied())));
        let pairs = self.ours.iter().zip(&self.reference);
        let ratios = pairs.map(|(ours, theirs)| ours.per_s / theirs.per_s);
        let reference = self.reference.first().map(|_| OfReference {
            per_s: of(&self.reference, |figures| figures.per_s),
            p50_ms: of(&self.reference, |figures| figures.p50_ms),
            p99_ms: of(&self.reference, |figures| figures.p99_ms),
            our_rate_ratio: rounded(median(ratios)),
        });
        Cell {
            clients: load.clients,
            streams: load.streams,
            per_s: of(&self.ours, |figures| figures.per_s),
            p50_ms,
            p99_ms: of(&self.ours, |figures| figures.p99_ms),
            max_ms: self
                .ours
                .iter()
                .map(|figures| figures.max_ms)
                .fold(0.0, f64::max),
            cpu_us_per_append: rounded(median(self.cpu_us)),
            failed: self.ours.iter().map(|figures| figures.failed).sum(),
            why: self
                .ours
                .iter()
                .rev()
                .find_map(|figures| figures.why.clone()),
            raw_append_p50_ms,
            raw_append_p50_ratio: raw_append_p50_ms.map(|raw| rounded(p50_ms / raw)),
            reference,
        }
    }
}
